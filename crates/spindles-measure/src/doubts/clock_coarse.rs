//! Reports latencies near the resolution of the clock.

use super::{Kind, Rank, by_workload};

/// A median latency below this many clock ticks is coarse.
const TICKS_MIN: u64 = 20;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "clock-coarse",
    rank: Rank::Note,
    title: "The clock is coarse",
    remedy: "These latencies last only a few ticks of the clock, so their percentiles move in \
             whole ticks. Rates are not affected.",
    find: |analysis| {
        if analysis.runs.iter().any(|run| run.predicted.is_some()) {
            return Vec::new(); // Virtual time has no ticks.
        }
        let tick = analysis.environment.clock_resolution_ns;
        by_workload(analysis, |cell| {
            let short = cell
                .latency
                .values()
                .find(|latency| latency.p50_ns < tick.saturating_mul(TICKS_MIN))?;
            Some(format!("median {} ns, tick {tick} ns", short.p50_ns))
        })
    },
};

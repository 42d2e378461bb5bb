//! The runs over time as tidy CSV: a row for each time slot of a run.

use std::fmt::Write as _;

use spindles_measure::{Analysis, Run, Slot};

use super::csv::field;
use super::{Options, Output};

pub(super) static OUTPUT: Output = Output {
    name: "series",
    summary: "tidy CSV: one row for each time slot of each run",
    file_name: "report.series.csv",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(super::under_one_header),
    change: None,
    prediction: None,
};

const HEADER: &str = "experiment,system,workload,repetition_block,order,scaled,slot,begin_ns,\
                      slot_ns,warm_up,operations,read_bytes,written_bytes,latency_p50_below_ns,\
                      latency_p99_below_ns\n";

fn report(analysis: &Analysis, _: &Options) -> String {
    let mut text = HEADER.to_owned();
    for run in analysis.runs.iter().filter(|run| run.failed.is_none()) {
        rows(run, &mut text);
    }
    text
}

fn rows(run: &Run, text: &mut String) {
    let Some(series) = &run.series else {
        return;
    };
    let key = [
        field(&run.experiment),
        field(&run.system.name),
        field(&run.workload.name),
        run.repetition_block.to_string(),
        run.order.to_string(),
        run.scaled.to_string(),
    ]
    .join(",");
    for (at, slot) in (0_u64..).zip(&series.slots) {
        let warm_up = at < u64::from(series.warm_up_slots);
        let below = |percent| below(slot, percent).map_or(String::new(), |ns| ns.to_string());
        writeln!(
            text,
            "{key},{at},{},{},{warm_up},{},{},{},{},{}",
            at.saturating_mul(series.slot_ns),
            series.slot_ns,
            slot.operations,
            slot.bytes.read,
            slot.bytes.written,
            below(50),
            below(99),
        )
        .expect("writing to a string does not fail");
    }
}

/// Smallest power of two below which this percentage of the operations stayed.
fn below(slot: &Slot, percent: u64) -> Option<u64> {
    let counts = slot.latency.iter().map(|(_, count)| u128::from(*count));
    let wanted = (counts.sum::<u128>() * u128::from(percent)).div_ceil(100);
    let mut powers = slot.latency.clone();
    powers.sort_unstable();
    let mut seen = 0;
    let power = powers.into_iter().find_map(|(power, count)| {
        seen += u128::from(count);
        (seen >= wanted && count > 0).then_some(power)
    })?;
    Some(1_u64.checked_shl(u32::from(power) + 1).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_slot_are_upper_bounds_of_powers_of_two() {
        let slot = Slot {
            latency: vec![(12, 1), (10, 98), (11, 1)],
            ..Slot::default()
        };
        assert_eq!(below(&slot, 50), Some(2048));
        assert_eq!(below(&slot, 99), Some(4096));
        assert_eq!(below(&slot, 100), Some(8192));
        assert_eq!(below(&Slot::default(), 50), None);
        let slowest = Slot {
            latency: vec![(63, 1)],
            ..Slot::default()
        };
        assert_eq!(below(&slowest, 50), Some(u64::MAX));
    }
}

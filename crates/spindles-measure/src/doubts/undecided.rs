//! Comparisons whose interval is too wide to say anything of use.

use super::{Kind, listed};
use crate::Verdict;
use crate::histogram::to_f64;

/// Half-width of an interval that settles a question, as a log-ratio (5 %).
const TARGET: f64 = 0.05;
/// More blocks than anybody waits for.
const BLOCKS_MAX: f64 = 100.0;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "undecided",
    title: "Not resolvable here",
    remedy: "The repetitions scatter more than the systems differ, so no winner is named. The \
             number of repetition blocks that would narrow the interval to ± 5 % is given.",
    find: |analysis| {
        analysis
            .experiment
            .workloads
            .iter()
            .filter_map(|workload| {
                let wide: Vec<String> = analysis
                    .comparisons
                    .iter()
                    .filter(|c| c.workload == workload.name && !c.control)
                    .filter(|c| c.verdict == Verdict::NoDifferenceShown)
                    .filter_map(|c| {
                        let half = (c.log_ratio.high - c.log_ratio.low) / 2.0;
                        let blocks = to_f64(u64::try_from(c.log_ratio.blocks).ok()?);
                        (half.is_finite() && half > TARGET).then(|| {
                            let needed = (blocks * (half / TARGET).powi(2)).ceil();
                            if needed > BLOCKS_MAX {
                                format!("{} (over {BLOCKS_MAX:.0} blocks)", c.system)
                            } else {
                                format!("{} (about {needed:.0} blocks)", c.system)
                            }
                        })
                    })
                    .collect();
                (!wide.is_empty()).then(|| format!("{}: {}", workload.name, listed(&wide)))
            })
            .collect()
    },
};

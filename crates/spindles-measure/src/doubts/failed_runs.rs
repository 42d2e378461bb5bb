//! Reports runs that did not finish or were discarded.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "failed-runs",
    rank: Rank::Untrue,
    title: "Runs failed",
    remedy: "Failed runs count nowhere else in this report. A comparison uses only the repetition \
             blocks in which neither side failed, so it may differ from the ratio of the rates \
             next to it.",
    find: |analysis| {
        let mut found: Vec<String> = analysis
            .runs
            .iter()
            .chain(&analysis.trials)
            .filter_map(|run| {
                let reason = run.failed.as_deref()?;
                Some(format!(
                    "{}: {} ({reason})",
                    run.workload.name, run.system.name
                ))
            })
            .collect();
        found.sort();
        found.dedup();
        found
    },
};

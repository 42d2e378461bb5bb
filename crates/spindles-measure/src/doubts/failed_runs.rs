//! Runs that did not finish, or are missing.

use super::Kind;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "failed-runs",
    title: "Runs did not finish",
    remedy: "They count nowhere else in this report. A comparison uses only the repetition blocks \
             in which both sides finished.",
    find: |analysis| {
        let mut found: Vec<String> = analysis
            .runs
            .iter()
            .filter_map(|run| {
                let reason = run.failed.as_deref()?;
                Some(format!(
                    "{} × {}: {reason}",
                    run.system.name, run.workload.name
                ))
            })
            .collect();
        found.sort();
        found.dedup();
        let begun = analysis.experiment.runs_per_block() * analysis.blocks();
        if analysis.runs.len() < begun {
            let missing = begun - analysis.runs.len();
            let are = if missing == 1 { "is" } else { "are" };
            found.push(format!(
                "{missing} of {begun} runs {are} missing: a block is not complete"
            ));
        }
        found
    },
};

//! Before and after: the same experiment measured twice, for instance before and
//! after a change of the code, the kernel or a setting.

use serde::Serialize;

use crate::analysis::{Cell, SIGNIFICANCE, UNCORRECTED_COMPARISONS_MAX, seed_of, verdict};
use crate::statistics::{Estimate, difference_of_means, holm};
use crate::{Analysis, Environment, Finding, Rate, Verdict};

/// What changed from one analysis to another.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Name and start (milliseconds since 1970) of the earlier experiment.
    pub before: (String, u64),
    /// Name and start of the later experiment.
    pub after: (String, u64),
    /// One for each system × workload that both have.
    pub rows: Vec<ChangeRow>,
    /// What differs between the two environments: name, before, after.
    pub environment: Vec<(String, String, String)>,
    /// System × workload that only one of the two has, in words.
    pub unmatched: Vec<String>,
    /// What to doubt.
    pub findings: Vec<Finding>,
}

/// One system × workload before and after.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeRow {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// What the rate counts.
    pub rate: Rate,
    /// Median rate per second before.
    pub before: f64,
    /// Median rate per second after.
    pub after: f64,
    /// Log-ratio of the rates, after to before.
    pub log_ratio: Estimate,
    /// The p-value after Holm's correction.
    pub p_corrected: f64,
    /// Whether it grew faster or slower.
    pub verdict: Verdict,
    /// Whether the system is the baseline of the experiment: the yardstick.
    pub baseline: bool,
}

/// Compares two analyses. Their repetition blocks are no pairs, so the means of the
/// logarithms are compared, each side resampled on its own.
pub fn change(before: &Analysis, after: &Analysis) -> Change {
    let mut rows: Vec<ChangeRow> = before
        .cells
        .iter()
        .filter_map(|cell| Some(row(before, cell, after.cell(&cell.system, &cell.workload)?)))
        .collect();
    let p_values: Vec<f64> = rows.iter().map(|row| row.log_ratio.p_value).collect();
    let corrected = rows.len() > UNCORRECTED_COMPARISONS_MAX;
    for (row, p) in rows.iter_mut().zip(holm(&p_values)) {
        row.p_corrected = p;
        row.verdict = verdict(&row.log_ratio, corrected.then_some(p), None);
    }
    let environment = environment_changes(&before.environment, &after.environment);
    let findings = findings(&rows, &environment);
    Change {
        before: (
            before.experiment.name.clone(),
            before.experiment.started_unix_ms,
        ),
        after: (
            after.experiment.name.clone(),
            after.experiment.started_unix_ms,
        ),
        rows,
        environment,
        unmatched: unmatched(before, after),
        findings,
    }
}

fn row(analysis: &Analysis, before: &Cell, after: &Cell) -> ChangeRow {
    let logs = |cell: &Cell| -> Vec<f64> {
        cell.repetitions
            .iter()
            .map(|repetition| repetition.per_second.ln())
            .collect()
    };
    let seed = seed_of(
        analysis.experiment.seed,
        &[&before.system, &before.workload],
    );
    ChangeRow {
        system: before.system.clone(),
        workload: before.workload.clone(),
        rate: before.rate,
        before: before.median,
        after: after.median,
        log_ratio: difference_of_means(&logs(before), &logs(after), seed),
        p_corrected: 1.0,
        verdict: Verdict::NoDifferenceShown,
        baseline: before.system == analysis.experiment.baseline
            || Some(&before.system) == analysis.experiment.control.as_ref(),
    }
}

fn environment_changes(before: &Environment, after: &Environment) -> Vec<(String, String, String)> {
    let facts = |environment: &Environment| {
        [
            ("version", environment.tool_version.clone()),
            ("commit", environment.commit.clone()),
            ("build", environment.profile.clone()),
            ("system", environment.os.clone()),
            ("kernel", environment.kernel.clone()),
            ("CPU", environment.cpu_model.clone()),
            ("CPUs", environment.cpus.to_string()),
            ("governor", environment.governor.clone()),
            ("memory", environment.memory_bytes.to_string()),
            ("file system", environment.file_system.clone()),
            ("mount options", environment.mount_options.clone()),
        ]
    };
    facts(before)
        .into_iter()
        .zip(facts(after))
        .filter(|((_, before), (_, after))| before != after)
        .map(|((name, before), (_, after))| (name.to_owned(), before, after))
        .collect()
}

fn unmatched(before: &Analysis, after: &Analysis) -> Vec<String> {
    let missing = |from: &Analysis, other: &Analysis, side: &str| -> Vec<String> {
        from.cells
            .iter()
            .filter(|cell| other.cell(&cell.system, &cell.workload).is_none())
            .map(|cell| format!("{} × {} only {side}", cell.system, cell.workload))
            .collect()
    };
    let mut all = missing(before, after, "before");
    all.extend(missing(after, before, "after"));
    all
}

fn findings(rows: &[ChangeRow], environment: &[(String, String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let yardsticks: Vec<&ChangeRow> = rows.iter().filter(|row| row.baseline).collect();
    let p_values: Vec<f64> = yardsticks.iter().map(|row| row.log_ratio.p_value).collect();
    let moved: Vec<String> = yardsticks
        .iter()
        .zip(holm(&p_values))
        .filter(|(row, p)| *p < SIGNIFICANCE && row.log_ratio.excludes_zero())
        .map(|(row, _)| {
            let (percent, ..) = crate::percent_of(&row.log_ratio);
            let percent = crate::doubts::signed(percent);
            format!("{} changed by {percent} % in {}", row.system, row.workload)
        })
        .collect();
    if !moved.is_empty() {
        findings.push(Finding::new(
            "yardstick-moved",
            "The single disk itself changed",
            "The machine was not the same both times, so a change of an array by as much \
             says nothing about the array. Measure both again, one right after the other.",
            moved,
        ));
    }
    if environment
        .iter()
        .any(|(name, ..)| !matches!(name.as_str(), "version" | "commit"))
    {
        let details = environment
            .iter()
            .map(|(name, before, after)| format!("{name}: {before} before, {after} after"))
            .collect();
        findings.push(Finding::new(
            "environment-changed",
            "The environment changed as well",
            "More than one thing differs, so the cause cannot be told. \
             Repeat with everything else left alone.",
            details,
        ));
    }
    if let Some(fewest) = rows.iter().map(|row| row.log_ratio.blocks).min()
        && fewest < crate::statistics::BOOTSTRAP_BLOCKS_MIN
    {
        findings.push(Finding::new(
            "few-blocks",
            "Few repetitions",
            crate::doubts::by_name("few-blocks").map_or("", |kind| kind.remedy),
            vec![format!(
                "one of the two has only {fewest} repetition blocks"
            )],
        ));
    }
    findings
}

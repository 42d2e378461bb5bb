//! The table of doubts about figures. Each kind finds its evidence in an analysis and suggests a
//! remedy. A runner may also record a doubt of any kind; recorded and found doubts are shown
//! together.

mod absorbed;
mod busy_machine;
mod cache_effect;
mod clock_coarse;
mod cpu_bound;
mod debug_build;
mod different_paths;
mod different_promises;
mod drifting;
mod failed_runs;
mod few_blocks;
mod fluctuating;
mod late_members;
mod load_generator;
mod member_bytes_disagree;
mod missing_runs;
mod modelled;
mod no_control;
mod no_disk;
mod no_io_uring;
mod noise_floor_high;
mod not_steady;
mod outlier_member;
mod outliers;
mod overload;
mod paced;
mod recorded_again;
mod scaled;
mod shared_device;
mod short_runs;
mod stolen_time;
mod stopped_early;
mod undecided;
mod virtual_machine;

pub(crate) use few_blocks::blocks;

pub use crate::results::Finding;

use std::collections::BTreeMap;

use crate::{Analysis, Run};

/// A kind of doubt.
#[derive(Debug)]
pub struct Kind {
    /// Name in records, such as `few-blocks`.
    pub name: &'static str,
    /// Severity, by which reports sort.
    pub rank: Rank,
    /// Short description.
    pub title: &'static str,
    /// Meaning for the reader, and the remedy.
    pub remedy: &'static str,
    /// Finds the evidence in an analysis, one sentence each. Empty if the doubt does not apply.
    pub find: fn(&Analysis) -> Vec<String>,
}

/// Severity of a doubt, the most important first. Kinds of one rank keep the order of [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The figures are wrong, or measure something other than the systems.
    Untrue,
    /// The systems are not compared like with like.
    Unlike,
    /// Noise may explain the differences.
    Unsure,
    /// Less was measured than the report seems to say.
    Partial,
    /// Useful to know, but explains no figure by itself.
    Note,
}

/// Every kind of doubt, by rank.
pub static KINDS: &[&Kind] = &[
    &outlier_member::KIND,
    &outlier_member::ON_A_SHARED_DISK,
    &failed_runs::KIND,
    &member_bytes_disagree::KIND,
    &debug_build::KIND,
    &no_disk::KIND,
    &modelled::KIND,
    &load_generator::KIND,
    &overload::KIND,
    &cache_effect::KIND,
    &cache_effect::OF_FILES,
    &different_promises::KIND,
    &absorbed::KIND,
    &different_paths::KIND,
    &shared_device::KIND,
    &busy_machine::KIND,
    &noise_floor_high::KIND,
    &few_blocks::KIND,
    &fluctuating::KIND,
    &late_members::KIND,
    &paced::BEHIND,
    &drifting::KIND,
    &missing_runs::KIND,
    &scaled::KIND,
    &recorded_again::KIND,
    &short_runs::KIND,
    &stolen_time::KIND,
    &stopped_early::KIND,
    &not_steady::KIND,
    &no_control::KIND,
    &undecided::KIND,
    &outliers::KIND,
    &cpu_bound::KIND,
    &no_io_uring::KIND,
    &clock_coarse::KIND,
    &paced::KIND,
    &virtual_machine::KIND,
];

/// Kinds that doubt how systems compare with each other, not their figures. A
/// [`Change`](crate::Change) has its own doubts about that.
pub(crate) static OF_COMPARISONS: &[&str] = &[
    different_promises::KIND.name,
    different_paths::KIND.name,
    few_blocks::KIND.name,
    no_control::KIND.name,
    undecided::KIND.name,
];

/// Kinds about the machine, checked once: findings don't list the runs that record them.
static OF_THE_MACHINE: &[&Kind] = &[&busy_machine::KIND];

/// Kinds that only apply to an experiment that has ended.
static OF_THE_END: &[&Kind] = &[&missing_runs::KIND, &stopped_early::KIND];

/// Removes doubts that don't apply to a running experiment, because runs and blocks are still to
/// come.
pub fn retain_while_going(findings: &mut Vec<Finding>) {
    findings.retain(|finding| OF_THE_END.iter().all(|kind| kind.name != finding.kind));
}

/// Returns the kind of this name.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

/// Returns all doubts about an analysis: the kinds by rank, then recorded doubts of kinds this
/// version does not know.
pub(crate) fn findings(analysis: &Analysis) -> Vec<Finding> {
    let mut recorded = recorded(&analysis.runs);
    let mut findings = Vec::new();
    let mut kinds = KINDS.to_vec();
    kinds.sort_by_key(|kind| kind.rank);
    for kind in kinds {
        let mut details = (kind.find)(analysis);
        for detail in recorded.remove(kind.name).unwrap_or_default() {
            if !details.contains(&detail) {
                details.push(detail);
            }
        }
        if !details.is_empty() {
            findings.push(Finding::new(kind.name, kind.title, kind.remedy, details));
        }
    }
    for (name, details) in recorded {
        findings.push(Finding::new(&name, &name.replace('-', " "), "", details));
    }
    findings
}

/// Doubts that the runner recorded, by kind: each remark once, with its runs.
fn recorded(runs: &[Run]) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for run in runs {
        for doubt in &run.doubts {
            let place = format!("{}: {}", run.workload.name, run.system.name);
            let known = places
                .entry((doubt.kind.clone(), doubt.detail.clone()))
                .or_default();
            if !known.contains(&place) {
                known.push(place);
            }
        }
    }
    let mut everywhere: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| (run.system.name.as_str(), run.workload.name.as_str()))
        .collect();
    everywhere.sort_unstable();
    everywhere.dedup();
    let mut by_kind: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((kind, detail), at) in places {
        let is_of_all =
            at.len() == everywhere.len() || OF_THE_MACHINE.iter().any(|doubt| doubt.name == kind);
        let text = match (detail.is_empty(), is_of_all) {
            (true, true) => "every run".to_owned(),
            (false, true) => detail,
            (true, false) => listed(&at),
            (false, false) => format!("{detail} ({})", listed(&at)),
        };
        by_kind.entry(kind).or_default().push(text);
    }
    by_kind
}

/// Joins names with commas; cuts long lists after four.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    match names.get(SHOWN + 1..) {
        Some(_) => format!(
            "{} and {} more",
            names[..SHOWN].join(", "),
            names.len() - SHOWN
        ),
        None => names.join(", "),
    }
}

/// Collects the notes on cells, one sentence for each workload: `block-write: raid5 (…), raid6
/// (…)`.
fn by_workload(analysis: &Analysis, note: impl Fn(&crate::Cell) -> Option<String>) -> Vec<String> {
    analysis
        .experiment
        .workloads
        .iter()
        .filter_map(|workload| {
            let notes: Vec<String> = analysis
                .cells
                .iter()
                .filter(|cell| cell.workload == workload.name)
                .filter_map(|cell| {
                    let said = note(cell)?;
                    Some(if said.is_empty() {
                        cell.system.clone()
                    } else {
                        format!("{} ({said})", cell.system)
                    })
                })
                .collect();
            (!notes.is_empty()).then(|| format!("{}: {}", workload.name, listed(&notes)))
        })
        .collect()
}

/// Formats a fraction in percent without decimals.
fn percent(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}

/// Formats a percentage with its sign and one decimal.
pub(crate) fn signed(percent: f64) -> String {
    format!("{percent:+.1}").replace('-', "−")
}

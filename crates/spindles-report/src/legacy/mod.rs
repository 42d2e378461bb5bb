//! Results in the output formats of the original tools, for comparison with thirty years of
//! published results. Each covers one repetition and has no interval. The full figures are
//! elsewhere, and every block says so.

mod bonnie;
mod bonnie_plus;
mod filebench;
mod iozone;
mod time;

pub(crate) use bonnie_plus::{line as bonnie_plus_line, wholes as bonnie_plus_wholes};

use std::collections::BTreeMap;

use spindles_measure::{Analysis, Run, System};

/// The output format of an original tool.
#[derive(Debug)]
pub(crate) struct Format {
    /// Name of the tool: `Bonnie`.
    pub(crate) title: &'static str,
    /// A caveat for the reader of this format.
    pub(crate) remark: &'static str,
    /// Kinds of workloads it applies to.
    pub(crate) kinds: &'static [&'static str],
    /// Formats the runs of an analysis.
    pub(crate) blocks: fn(&Analysis) -> Vec<Block>,
}

/// One output of an original tool.
#[derive(Debug)]
pub(crate) struct Block {
    /// Name of the system.
    pub(crate) system: String,
    /// Name of the workload.
    pub(crate) workload: String,
    /// Name of the repetition shown: `repetition 3 of 5, the one in the middle`.
    pub(crate) repetition: String,
    /// The output.
    pub(crate) text: String,
}

impl Block {
    /// Describes its source: `raid5, bonnie, repetition 3 of 5, the one in the middle`.
    pub(crate) fn of(&self) -> String {
        format!("{}, {}, {}", self.system, self.workload, self.repetition)
    }
}

/// All formats.
pub(crate) static FORMATS: &[&Format] = &[
    &bonnie::FORMAT,
    &bonnie_plus::FORMAT,
    &iozone::FORMAT,
    &time::FORMAT,
    &filebench::FORMAT,
];

/// Shown above all blocks.
pub(crate) const CAUTION: &str = "One repetition each, as the original tool would print it. \
    Intervals, doubts and verdicts are in the rest of the report.";

/// A workload on a system, with all its repetitions.
pub(crate) struct Whole<'a> {
    pub(crate) system: &'a System,
    /// Name of the workload.
    pub(crate) name: &'a str,
    /// Repetitions in which every required phase finished, in block order.
    pub(crate) repetitions: Vec<Repetition<'a>>,
}

/// One repetition of a workload.
pub(crate) struct Repetition<'a> {
    /// Number of the repetition block, from 1, and the number of blocks.
    pub(crate) number: u32,
    pub(crate) of: u32,
    /// The runs by phase. The name of a single phase is empty.
    pub(crate) runs: BTreeMap<&'a str, &'a Run>,
}

impl<'a> Repetition<'a> {
    /// Returns the run of a phase that every repetition has.
    pub(crate) fn run(&self, phase: &str) -> &'a Run {
        self.runs[phase]
    }

    pub(crate) fn words(&self) -> String {
        let is_scaled = self.runs.values().any(|run| run.scaled);
        let scaled = if is_scaled { " (scaled)" } else { "" };
        format!("repetition {} of {}{scaled}", self.number, self.of)
    }

    /// Returns the sum of the logarithms of the phases' rates, the sort key of repetitions.
    fn speed(&self) -> f64 {
        self.runs.values().map(|run| run.per_second().ln()).sum()
    }
}

impl<'a> Whole<'a> {
    /// Returns the median repetition, so that the choice is not arbitrary.
    pub(crate) fn middle(&self) -> Option<&Repetition<'a>> {
        let mut ordered: Vec<&Repetition> = self.repetitions.iter().collect();
        ordered.sort_by(|a, b| a.speed().total_cmp(&b.speed()));
        ordered.get(ordered.len() / 2).copied()
    }

    /// Formats the median repetition like the original tool.
    pub(crate) fn block(&self, text: impl FnOnce(&Repetition<'a>) -> String) -> Option<Block> {
        let middle = self.middle()?;
        let only = self.repetitions.len() == 1;
        let which = if only { "" } else { ", the median" };
        Some(Block {
            system: self.system.name.clone(),
            workload: self.name.to_owned(),
            repetition: format!("{}{which}", middle.words()),
            text: text(middle),
        })
    }
}

/// Collects the workloads of these kinds on every system, with the repetitions that have all of
/// `phases`.
pub(crate) fn wholes<'a>(
    analysis: &'a Analysis,
    kinds: &[&str],
    phases: &[&str],
) -> Vec<Whole<'a>> {
    let of = u32::try_from(analysis.blocks()).unwrap_or(u32::MAX);
    let mut names: Vec<&str> = Vec::new();
    let workloads = analysis.experiment.workloads.iter();
    for workload in workloads.filter(|workload| kinds.contains(&&*workload.kind)) {
        let (name, _) = whole_and_phase(workload);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut wholes = Vec::new();
    for name in names {
        for system in shown(analysis) {
            let mut blocks: BTreeMap<u32, BTreeMap<&str, &Run>> = BTreeMap::new();
            for run in &analysis.runs {
                let (whole, phase) = whole_and_phase(&run.workload);
                let is_mine = kinds.contains(&&*run.workload.kind) && whole == name;
                let is_good = run.failed.is_none() && run.per_second() > 0.0;
                if is_mine && is_good && run.system.name == system.name {
                    let block = blocks.entry(run.repetition_block).or_default();
                    block.insert(phase, run);
                }
            }
            let complete = blocks
                .into_iter()
                .filter(|(_, runs)| phases.iter().all(|phase| runs.contains_key(phase)));
            let repetitions: Vec<Repetition> = complete
                .map(|(block, runs)| Repetition {
                    number: block.saturating_add(1),
                    of,
                    runs,
                })
                .collect();
            if !repetitions.is_empty() {
                wholes.push(Whole {
                    system,
                    name,
                    repetitions,
                });
            }
        }
    }
    wholes
}

/// All systems but the control, which repeats the baseline.
fn shown(analysis: &Analysis) -> impl Iterator<Item = &System> {
    let control = analysis.experiment.control.as_ref();
    let systems = analysis.experiment.systems.iter();
    systems.filter(move |system| Some(&system.name) != control)
}

/// Returns the names of the whole workload and of the phase. The name of a single phase is empty.
fn whole_and_phase(workload: &spindles_measure::Workload) -> (&str, &str) {
    match &workload.part {
        Some(part) => (&part.workload, &part.phase),
        None => (&workload.name, ""),
    }
}

/// A numeric parameter of the workload.
pub(crate) fn parameter(run: &Run, name: &str) -> Option<u64> {
    run.workload.parameters.get(name)?.parse().ok()
}

/// Size of the file in bytes.
pub(crate) fn size(run: &Run) -> u64 {
    parameter(run, "size").unwrap_or(run.workload.size_bytes)
}

/// Length of the timed window in seconds.
pub(crate) fn seconds(run: &Run) -> f64 {
    crate::figures::float(run.elapsed_ns) / 1e9
}

/// CPU time of the workload in percent of the elapsed time, as all of these tools count it.
pub(crate) fn cpu_percent(run: &Run) -> f64 {
    crate::figures::float(run.cpu_ns.workload) / crate::figures::float(run.elapsed_ns) * 100.0
}

/// K (1024 bytes) per second, truncated like a conversion to `int`.
pub(crate) fn k_per_second(run: &Run) -> f64 {
    (run.per_second() / 1024.0).trunc()
}

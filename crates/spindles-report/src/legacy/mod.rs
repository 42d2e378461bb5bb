//! What the original tools would have printed of the same runs, so that results of thirty years can be
//! held against ours. Each is of one repetition and has no interval: the honest figures are elsewhere,
//! and every block says so.

mod bonnie;
mod bonnie_plus;
mod filebench;
mod iozone;
mod time;

pub(crate) use bonnie_plus::{line as bonnie_plus_line, wholes as bonnie_plus_wholes};

use std::collections::BTreeMap;

use spindles_measure::{Analysis, Run, System};

/// A form in which an original prints.
#[derive(Debug)]
pub(crate) struct Format {
    /// What prints so: `Bonnie`.
    pub(crate) title: &'static str,
    /// What a reader has to know of it.
    pub(crate) remark: &'static str,
    /// The kinds of workloads that it is of.
    pub(crate) kinds: &'static [&'static str],
    /// What it prints of the runs there are.
    pub(crate) blocks: fn(&Analysis) -> Vec<Block>,
}

/// What an original prints in one go.
#[derive(Debug)]
pub(crate) struct Block {
    /// The system.
    pub(crate) system: String,
    /// The workload.
    pub(crate) workload: String,
    /// Which repetition it is of.
    pub(crate) repetition: String,
    /// What is printed.
    pub(crate) text: String,
}

impl Block {
    /// What it is of: `raid5, bonnie, repetition 3 of 5, the one in the middle`.
    pub(crate) fn of(&self) -> String {
        format!("{}, {}, {}", self.system, self.workload, self.repetition)
    }
}

/// All of them.
pub(crate) static FORMATS: &[&Format] = &[
    &bonnie::FORMAT,
    &bonnie_plus::FORMAT,
    &iozone::FORMAT,
    &time::FORMAT,
    &filebench::FORMAT,
];

/// What stands above all of them.
pub(crate) const CAUTION: &str = "One repetition each, as the original tool would have printed it: no interval, no doubt, no verdict. \
     Those are in the rest of the report.";

/// A workload on a system with all its repetitions.
pub(crate) struct Whole<'a> {
    pub(crate) system: &'a System,
    /// What the workload is called.
    pub(crate) name: &'a str,
    /// Those in which every phase that is needed finished, in the order of their blocks.
    pub(crate) repetitions: Vec<Repetition<'a>>,
}

/// One repetition of a workload.
pub(crate) struct Repetition<'a> {
    /// Its place among the repetition blocks, from 1, and how many there are.
    pub(crate) number: u32,
    pub(crate) of: u32,
    /// A run for each phase; the name is empty where there is only one.
    pub(crate) runs: BTreeMap<&'a str, &'a Run>,
}

impl<'a> Repetition<'a> {
    /// The run of a phase that every repetition has.
    pub(crate) fn run(&self, phase: &str) -> &'a Run {
        self.runs[phase]
    }

    pub(crate) fn words(&self) -> String {
        let is_scaled = self.runs.values().any(|run| run.scaled);
        let scaled = if is_scaled { " (scaled)" } else { "" };
        format!("repetition {} of {}{scaled}", self.number, self.of)
    }

    /// The logarithm of its rates, all phases together: what repetitions are ordered by.
    fn speed(&self) -> f64 {
        self.runs.values().map(|run| run.per_second().ln()).sum()
    }
}

impl<'a> Whole<'a> {
    /// The repetition in the middle, so that nobody has to choose one.
    pub(crate) fn middle(&self) -> Option<&Repetition<'a>> {
        let mut ordered: Vec<&Repetition> = self.repetitions.iter().collect();
        ordered.sort_by(|a, b| a.speed().total_cmp(&b.speed()));
        ordered.get(ordered.len() / 2).copied()
    }

    /// What the original prints of the repetition in the middle.
    pub(crate) fn block(&self, text: impl FnOnce(&Repetition<'a>) -> String) -> Option<Block> {
        let middle = self.middle()?;
        let only = self.repetitions.len() == 1;
        let which = if only { "" } else { ", the one in the middle" };
        Some(Block {
            system: self.system.name.clone(),
            workload: self.name.to_owned(),
            repetition: format!("{}{which}", middle.words()),
            text: text(middle),
        })
    }
}

/// The workloads of these kinds on every system, with the repetitions that have all of `phases`.
pub(crate) fn wholes<'a>(
    analysis: &'a Analysis,
    kinds: &[&str],
    phases: &[&str],
) -> Vec<Whole<'a>> {
    let of = u32::try_from(analysis.blocks()).unwrap_or(u32::MAX);
    let mut names: Vec<&str> = Vec::new();
    let workloads = analysis.experiment.workloads.iter();
    for workload in workloads.filter(|it| kinds.contains(&&*it.kind)) {
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

/// All systems but the control, whose figures are the baseline's.
fn shown(analysis: &Analysis) -> impl Iterator<Item = &System> {
    let control = analysis.experiment.control.as_ref();
    let systems = analysis.experiment.systems.iter();
    systems.filter(move |system| Some(&system.name) != control)
}

/// What a workload is a phase of, and which; its own name and none where it has no phases.
fn whole_and_phase(workload: &spindles_measure::Workload) -> (&str, &str) {
    match &workload.part {
        Some(part) => (&part.workload, &part.phase),
        None => (&workload.name, ""),
    }
}

/// A number that was chosen by its name.
pub(crate) fn parameter(run: &Run, name: &str) -> Option<u64> {
    run.workload.parameters.get(name)?.parse().ok()
}

/// Bytes of the file.
pub(crate) fn size(run: &Run) -> u64 {
    parameter(run, "size").unwrap_or(run.workload.size_bytes)
}

/// Seconds of the timed window.
pub(crate) fn seconds(run: &Run) -> f64 {
    crate::figures::float(run.elapsed_ns) / 1e9
}

/// CPU time of those who ask in percent of the time that passed, as all of these tools count it.
pub(crate) fn cpu_percent(run: &Run) -> f64 {
    crate::figures::float(run.cpu_ns.workload) / crate::figures::float(run.elapsed_ns) * 100.0
}

/// K of 1024 bytes a second, without decimals, as a conversion to `int` leaves it.
pub(crate) fn k_per_second(run: &Run) -> f64 {
    (run.per_second() / 1024.0).trunc()
}

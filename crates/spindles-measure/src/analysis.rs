//! The analysis of one experiment: everything that a report shows.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::ceiling;
use crate::histogram::to_f64;
use crate::results::{Cell, Choice, Comparison, Deciding, Finding, Help, OverallScope, Singles};
use crate::statistics::median;
use crate::{Calibration, Environment, Experiment, Run, System};

/// Median duration of a cell's runs, in seconds, below which they are short.
const SECONDS_MIN: f64 = 0.1;

/// Everything that a report shows, derived from the records alone.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// The experiment as planned.
    pub experiment: Experiment,
    /// The machine that ran it.
    pub environment: Environment,
    /// Limits of the single components, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// One cell for each system × workload that has a run, ordered by workload.
    pub cells: Vec<Cell>,
    /// Each cell against the baseline's, including the control's cells. If the baseline did not run
    /// a workload, the first system that did takes its place. An open loop has one comparison for
    /// each quantity, p99 first.
    pub comparisons: Vec<Comparison>,
    /// Each cell of a system with its own baseline, against that baseline.
    pub own_comparisons: Vec<Comparison>,
    /// Each system against the baseline over all workloads that both ran, if there are at least
    /// two. The mean over blocks of the mean log-ratio, which is the geometric mean of the ratios.
    pub overall: Vec<Comparison>,
    /// Workloads that `overall` covers.
    pub overall_scope: OverallScope,
    /// Compares every system with every other, to choose one.
    pub choice: Choice,
    /// Each system against the mean of several single devices, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub singles: Option<Singles>,
    /// The drawn numbers that decided each ratio of a prediction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deciding: Vec<Deciding>,
    /// What each part of modelled disks would bring if it were a tenth faster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub help: Vec<Help>,
    /// Doubts about the figures, worst first.
    pub findings: Vec<Finding>,
    /// Every run as recorded. A run that was discarded afterwards is marked as failed.
    #[serde(skip)]
    pub runs: Vec<Run>,
    /// Totals of the runs that consist of several phases.
    #[serde(skip)]
    pub totals: Vec<Run>,
    /// Number of runs that were recorded again; each counts once.
    #[serde(skip)]
    pub recorded_again: usize,
    /// Runs that tested a verdict; they count in no result.
    #[serde(skip)]
    pub trials: Vec<Run>,
    /// Runs on modelled disks with a faster part; they count in no result.
    #[serde(skip)]
    pub faster: Vec<Run>,
}

impl Analysis {
    /// Rate per second of the harness on a target that does nothing. `None` if it was not measured.
    pub fn ceiling(&self, workload: &str) -> Option<f64> {
        let ceilings = &self.calibration.as_ref()?.ceilings;
        ceilings
            .get(workload)
            .copied()
            .filter(|&ceiling| ceiling > 0.0)
    }

    /// Returns true if a cell is refused as a result because it measures the load generator.
    pub fn is_refused(&self, cell: &Cell) -> bool {
        let ceiling = self.ceiling(&cell.workload);
        ceiling.is_some_and(|limit| ceiling::level(cell.geometric_mean, limit) >= 1.0)
    }

    /// Returns the cell of a system and a workload.
    pub fn cell(&self, system: &str, workload: &str) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.system == system && cell.workload == workload)
    }

    /// Returns true if a workload has several kinds of operations, so that a latency must name its
    /// kind.
    pub fn has_several_operations(&self, workload: &str) -> bool {
        let cells = self.cells.iter().filter(|cell| cell.workload == workload);
        let kinds: BTreeSet<&String> = cells.flat_map(|cell| cell.latency.keys()).collect();
        kinds.len() > 1
    }

    /// Returns a system's comparison for a workload. With several quantities, the main one.
    pub fn comparison(&self, system: &str, workload: &str) -> Option<&Comparison> {
        self.comparisons
            .iter()
            .find(|c| c.system == system && c.workload == workload)
    }

    /// The finished runs of a cell, in the order in which they ran.
    pub fn runs_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().chain(&self.totals).filter(|run| {
            run.system.name == cell.system && run.workload.name == cell.workload && run.counts()
        })
    }

    /// The comparisons that count in a summary: all but the A/A pair and phases that have a total.
    pub fn headlines(&self) -> impl Iterator<Item = &Comparison> {
        let in_total =
            |comparison: &Comparison| self.experiment.total_with(&comparison.workload).is_some();
        let comparisons = self.comparisons.iter();
        comparisons.filter(move |comparison| !comparison.control && !in_total(comparison))
    }

    /// The systems that are compared: all but the baseline and the control.
    pub fn compared(&self) -> impl Iterator<Item = &System> {
        self.experiment.systems.iter().filter(|system| {
            system.name != self.experiment.baseline
                && Some(&system.name) != self.experiment.control.as_ref()
        })
    }

    /// Number of repetition blocks with at least one run.
    pub fn blocks(&self) -> usize {
        let mut blocks: Vec<u32> = self.runs.iter().map(|run| run.repetition_block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    }

    /// Returns the median duration of a cell's runs in seconds. `None` if it is long enough.
    pub(crate) fn seconds_if_short(&self, cell: &Cell) -> Option<f64> {
        let runs = self.runs.iter().chain(&self.totals);
        let seconds: Vec<f64> = runs
            .filter(|run| run.system.name == cell.system && run.workload.name == cell.workload)
            .map(|run| to_f64(run.elapsed_ns) / 1e9)
            .collect();
        let typical = median(&seconds);
        (typical < SECONDS_MIN).then_some(typical)
    }
}

//! The questions of an experiment. Each is a workload and a quantity in which systems are compared.

use crate::histogram::to_f64;
use crate::results::{Cell, Overload, Quantity};
use crate::statistics::{DesignError, design_error};
use crate::{Analysis, Experiment, Rate, Run, Workload};

/// Quantities compared in a workload, the main one first.
pub(crate) fn quantities_of(workload: &Workload, cells: &[Cell]) -> &'static [Quantity] {
    let mine = || cells.iter().filter(|cell| cell.workload == workload.name);
    let has_responses = |cell: &Cell| {
        cell.repetitions
            .iter()
            .any(|repetition| repetition.response.is_some())
    };
    let is_one_operation =
        |cell: &Cell| cell.counted == u64::try_from(cell.repetitions.len()).unwrap_or(0);
    if workload.arrivals_per_s > 0 && mine().any(has_responses) {
        &[Quantity::ResponseP99, Quantity::ResponseP50]
    } else if workload.rate == Rate::Operations && mine().all(is_one_operation) {
        &[Quantity::Time]
    } else {
        &[Quantity::Rate]
    }
}

/// See [`Analysis::baseline_of`]. `None` if no system finished the workload, or if the baseline is
/// planned but has not run it yet.
pub(crate) fn baseline_of<'a>(
    experiment: &'a Experiment,
    cells: &'a [Cell],
    workload: &str,
) -> Option<&'a str> {
    let baseline = &*experiment.baseline;
    let mine = || cells.iter().filter(|cell| cell.workload == workload);
    if mine().any(|cell| cell.system == baseline) {
        return Some(baseline);
    }
    // The baseline's runs are pending or were given up. Don't replace the experiment's baseline
    // by a different one.
    let mut workloads = experiment.workloads.iter();
    if workloads.any(|other| other.name == workload && experiment.runs_on(other, baseline)) {
        return None;
    }
    let mut finished = mine().filter(|cell| !cell.repetitions.is_empty());
    finished.next().map(|cell| &*cell.system)
}

/// Returns the error of one question.
pub(crate) fn design_error_of(
    cells: &[Cell],
    workload: &Workload,
    quantity: Quantity,
) -> Option<DesignError> {
    let rows: Vec<&Cell> = cells
        .iter()
        .filter(|cell| cell.workload == workload.name && !cell.repetitions.is_empty())
        .collect();
    let blocks: Vec<u32> = rows
        .first()
        .iter()
        .flat_map(|cell| cell.repetitions.iter().map(|repetition| repetition.block))
        .filter(|block| {
            rows.iter()
                .all(|cell| cell.repetitions.iter().any(|r| r.block == *block))
        })
        .collect();
    let logs = |cell: &Cell| -> Vec<f64> {
        let complete = cell
            .repetitions
            .iter()
            .filter(|r| blocks.contains(&r.block));
        complete
            .filter_map(|repetition| repetition.speed(quantity))
            .map(f64::ln)
            .collect()
    };
    let table: Vec<Vec<f64>> = rows.iter().map(|cell| logs(cell)).collect();
    design_error(&table)
}

/// Share of the arrived operations from which a system kept up.
const KEPT_UP_SHARE: f64 = 0.95;

impl Analysis {
    /// All questions compared, in the order of the workloads.
    pub fn questions(&self) -> Vec<(&Workload, Quantity)> {
        let workloads = self.experiment.workloads.iter();
        let questions = workloads.flat_map(|workload| {
            let quantities = self.quantities(workload).iter();
            quantities.map(move |&quantity| (workload, quantity))
        });
        questions.collect()
    }

    /// Quantities compared in a workload, the main one first.
    pub fn quantities(&self, workload: &Workload) -> &'static [Quantity] {
        quantities_of(workload, &self.cells)
    }

    /// The system that others are compared with in a workload: the baseline, or the first system
    /// that ran it if the baseline is not planned to.
    pub fn baseline_of(&self, workload: &str) -> &str {
        let found = baseline_of(&self.experiment, &self.cells, workload);
        found.unwrap_or(&self.experiment.baseline)
    }

    /// Returns true if the rate of a cell is merely the arrival rate: most runs kept up. It varies
    /// only because operations arrive at random times.
    pub(crate) fn rate_was_set(&self, cell: &Cell) -> bool {
        let mut workloads = self.experiment.workloads.iter();
        let is_set =
            workloads.any(|workload| workload.name == cell.workload && workload.arrivals_per_s > 0);
        is_set
            && self
                .overload(cell)
                .is_none_or(|overload| !overload.is_usual())
    }

    /// Runs of a cell that did not keep up with the arrival rate, if any.
    pub fn overload(&self, cell: &Cell) -> Option<Overload> {
        let mut workloads = self.experiment.workloads.iter();
        let workload = workloads.find(|workload| workload.name == cell.workload)?;
        let came_and_answered = |run: &Run| {
            let came = to_f64(workload.arrivals_per_s) * to_f64(run.elapsed_ns) / 1e9;
            (came, to_f64(run.operations))
        };
        let is_behind = |(came, answered): &(f64, f64)| {
            // Arrivals are a Poisson process: fewer may arrive by chance (three standard
            // deviations).
            let by_chance = 3.0 * came.sqrt();
            *answered < KEPT_UP_SHARE * came && *answered < came - by_chance
        };
        let runs = self.runs_of(cell).map(came_and_answered);
        let behind: Vec<(f64, f64)> = runs.filter(is_behind).collect();
        let sum = |of: fn(&(f64, f64)) -> f64| behind.iter().map(of).sum::<f64>();
        (!behind.is_empty()).then(|| Overload {
            runs: behind.len(),
            of: cell.repetitions.len(),
            share_answered: sum(|counts| counts.1) / sum(|counts| counts.0),
        })
    }
}

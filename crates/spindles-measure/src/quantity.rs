//! The quantity a comparison is about: the rate, or a time if the rate says nothing. At a set
//! arrival rate all systems that keep up have the same rate, so response times are compared. For a
//! run of a single operation, its duration is compared.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::to_f64;
use crate::statistics::geometric_mean;
use crate::{
    Analysis, Cell, Experiment, Histogram, RELATIVE_ERROR_MAX, Rate, Repetition, Run, Workload,
};

/// Quantity compared. Log-ratios use the inverse of times, so above 0 is faster for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes or operations per second.
    #[default]
    Rate,
    /// Duration of a run that is a single operation.
    Time,
    /// 99th percentile of the response time of an open loop.
    ResponseP99,
    /// Median response time of an open loop.
    ResponseP50,
}

impl Quantity {
    /// Returns true if less is faster.
    pub fn is_time(self) -> bool {
        self != Self::Rate
    }

    /// The quantity in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Time => "time",
            Self::ResponseP99 => "p99 response time",
            Self::ResponseP50 => "p50 response time",
        }
    }

    /// Name of the workload, with the quantity if it has several.
    pub fn of(self, workload: &str) -> String {
        match self {
            Self::Rate | Self::Time => workload.to_owned(),
            Self::ResponseP99 | Self::ResponseP50 => format!("{workload}, {}", self.words()),
        }
    }

    /// Noise floor of the quantity itself: percentiles are read off buckets, so equal values may
    /// lie in neighbouring ones.
    pub(crate) fn floor(self) -> Option<f64> {
        match self {
            Self::Rate | Self::Time => None,
            Self::ResponseP99 | Self::ResponseP50 => Some(RELATIVE_ERROR_MAX.ln_1p()),
        }
    }

    /// Quantities compared in a workload, the main one first.
    pub(crate) fn of_workload(workload: &Workload, cells: &[Cell]) -> &'static [Self] {
        let mine = || cells.iter().filter(|cell| cell.workload == workload.name);
        let has_responses = |cell: &Cell| cell.repetitions.iter().any(|it| it.response.is_some());
        let is_one_operation =
            |cell: &Cell| cell.counted == u64::try_from(cell.repetitions.len()).unwrap_or(0);
        if workload.arrivals_per_s > 0 && mine().any(has_responses) {
            &[Self::ResponseP99, Self::ResponseP50]
        } else if workload.rate == Rate::Operations && mine().all(is_one_operation) {
            &[Self::Time]
        } else {
            &[Self::Rate]
        }
    }
}

/// Response times of one repetition of an open loop, over all its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Half took at most this, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 took at most this, in nanoseconds.
    pub p99_ns: u64,
}

impl Response {
    /// Computes the response times. `None` for a closed loop.
    pub(crate) fn of(response: &BTreeMap<String, Histogram>) -> Option<Self> {
        let mut all = Histogram::default();
        for operation in response.values() {
            all.merge(operation);
        }
        (!all.is_empty()).then(|| Self {
            p50_ns: all.percentile(50.0).max(1),
            p99_ns: all.percentile(99.0).max(1),
        })
    }
}

impl Repetition {
    /// Speed of the repetition: the rate, or the inverse of the time in seconds.
    pub fn speed(&self, quantity: Quantity) -> Option<f64> {
        let per_second = |ns: u64| 1e9 / to_f64(ns);
        match quantity {
            Quantity::Rate | Quantity::Time => Some(self.per_second),
            Quantity::ResponseP99 => self.response.map(|it| per_second(it.p99_ns)),
            Quantity::ResponseP50 => self.response.map(|it| per_second(it.p50_ns)),
        }
    }
}

impl Cell {
    /// Geometric mean over repetitions of a time, in nanoseconds. `None` for a rate, or if no
    /// repetition has it.
    pub fn time_ns(&self, quantity: Quantity) -> Option<f64> {
        let speeds: Vec<f64> = self.speeds(quantity).collect();
        let is_there = quantity.is_time() && !speeds.is_empty();
        is_there.then(|| 1e9 / geometric_mean(&speeds))
    }

    /// Returns the speeds of the repetitions.
    pub(crate) fn speeds(&self, quantity: Quantity) -> impl Iterator<Item = f64> {
        let repetitions = self.repetitions.iter();
        repetitions.filter_map(move |it| it.speed(quantity))
    }
}

/// Runs that did not keep up with the arrival rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// Number of overloaded runs.
    pub runs: usize,
    /// Number of finished runs.
    pub of: usize,
    /// Share of the arrived operations that these runs answered.
    pub share_answered: f64,
}

impl Overload {
    /// Returns true if most runs did not keep up. Otherwise something stalled for a while, and the
    /// system can do more.
    pub fn is_usual(&self) -> bool {
        self.runs * 2 > self.of
    }

    /// The overload in words.
    pub fn words(&self) -> String {
        let percent = match self.share_answered * 100.0 {
            few if few < 10.0 => format!("{few:.2}"),
            many => format!("{many:.0}"),
        };
        let runs = match (self.runs, self.of) {
            (runs, all) if runs == all => String::new(),
            (runs, all) => format!(" in {runs} of {all} runs"),
        };
        format!("answered {percent} % of what came{runs}")
    }
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
        Quantity::of_workload(workload, &self.cells)
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
        let is_set = workloads.any(|it| it.name == cell.workload && it.arrivals_per_s > 0);
        is_set && self.overload(cell).is_none_or(|it| !it.is_usual())
    }

    /// Runs of a cell that did not keep up with the arrival rate, if any.
    pub fn overload(&self, cell: &Cell) -> Option<Overload> {
        let mut workloads = self.experiment.workloads.iter();
        let workload = workloads.find(|it| it.name == cell.workload)?;
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
            share_answered: sum(|it| it.1) / sum(|it| it.0),
        })
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
    if workloads.any(|it| it.name == workload && experiment.runs_on(it, baseline)) {
        return None;
    }
    let mut finished = mine().filter(|cell| !cell.repetitions.is_empty());
    finished.next().map(|cell| &*cell.system)
}

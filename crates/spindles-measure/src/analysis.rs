//! Analyses the records of one experiment: a cell for each system × workload, its comparison with
//! the baseline, and every doubt about the figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::histogram::to_f64;
use crate::statistics::{
    DesignError, Estimate, Steady, design_error, geometric_mean, holm, mean_of_blocks, median,
    median_of_blocks, outliers, steady,
};
use crate::verdicts::{CellVerdicts, is_refused};
use crate::{
    Calibration, Choice, Cpu, Discard, Environment, Experiment, Finding, Histogram, LateMember,
    OverallScope, Quantity, Rate, Record, Response, Run, Singles, System, Traffic, Workload,
    overall, quantity, totals,
};

/// With more comparisons than this, a verdict must also hold after Holm's correction.
pub const UNCORRECTED_COMPARISONS_MAX: usize = 10;
/// Fewest operations for a 99.9th percentile: at least ten of them took longer.
pub const P99_9_COUNT_MIN: u64 = 10_000;
/// Error rate that a verdict accepts: the probability of calling equal systems different.
pub const SIGNIFICANCE: f64 = 0.05;

/// Everything that a report shows, derived from the records alone.
#[derive(Clone, Debug, Serialize)]
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
}

/// The repetitions of a workload on a system.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Unit of the rate.
    pub rate: Rate,
    /// Every repetition that finished, in block order.
    pub repetitions: Vec<Repetition>,
    /// Repetitions that did not finish.
    pub failed: usize,
    /// Natural logarithm of the rate per second: mean over blocks. Its interval includes the
    /// variation that all systems of a block share, so compare two systems by their [`Comparison`]
    /// instead.
    pub log_rate: Estimate,
    /// Median rate per second.
    pub median: f64,
    /// Geometric mean of the rate per second.
    pub geometric_mean: f64,
    /// SNIA's steady state over the last five repetitions. `None` if there are fewer.
    pub steady: Option<Steady>,
    /// Latency of each kind of operation, over all repetitions.
    pub latency: BTreeMap<String, Latency>,
    /// Response times, measured from the scheduled start of each operation. Open loops only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response: BTreeMap<String, Latency>,
    /// CPU time of all repetitions.
    pub cpu_ns: Cpu,
    /// Wall time of all repetitions.
    pub elapsed_ns: u64,
    /// Amount that the rate counts, over all repetitions.
    pub counted: u64,
    /// Operations completed, over all repetitions.
    pub operations: u64,
    /// Bytes moved by the workload.
    pub application: Traffic,
    /// Bytes moved by the members.
    pub members: Traffic,
    /// Members that answered late in some repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_members: Vec<LateMember>,
    /// Cache and bottleneck verdicts, if the records have evidence for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<CellVerdicts>,
}

/// One repetition's result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repetition {
    /// Repetition block.
    pub block: u32,
    /// Position among all runs of the experiment.
    pub order: u32,
    /// Bytes or operations per second.
    pub per_second: f64,
    /// Set if the result is far from the other repetitions. Outliers are shown and still count.
    pub outlier: bool,
    /// Response times of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
}

/// Latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 90 of 100 took at most this.
    pub p90_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// 999 of 1000 took at most this. `None` below [`P99_9_COUNT_MIN`] operations.
    pub p99_9_ns: Option<u64>,
    /// The longest latency.
    pub max_ns: u64,
    /// Histogram of the latencies. Not in JSON: the records hold one for each run.
    #[serde(skip)]
    pub histogram: Histogram,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Faster than the baseline.
    Faster,
    /// Slower than the baseline.
    Slower,
    /// The figures show no difference.
    NoDifferenceShown,
    /// Both share only one repetition block, so the scatter is unknown.
    OneBlock,
    /// The two share no block in which both finished.
    Failed,
    /// One of the two figures measures the load generator: it is above 70 % of the rate that the
    /// harness reaches on a target that does nothing.
    Refused,
    /// No verdict: the baseline against itself (the A/A pair), as a yardstick for the other
    /// comparisons. `null` in JSON.
    AaPair,
}

impl Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no_difference_shown",
            Self::OneBlock => "one_block",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::AaPair => return serializer.serialize_none(),
        };
        serializer.serialize_str(name)
    }
}

impl Verdict {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no difference shown",
            Self::OneBlock => "one block: no verdict",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::AaPair => "A/A pair",
        }
    }

    /// The same verdict from the other system's point of view.
    #[must_use]
    pub fn of_the_other(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            Self::NoDifferenceShown
            | Self::OneBlock
            | Self::Failed
            | Self::Refused
            | Self::AaPair => self,
        }
    }
}

/// A cell against the baseline's cell in the same repetition blocks. The estimates are natural
/// logarithms of the ratio of rates, or of the inverse ratio of times. 0 is equal, above 0 is
/// faster.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the system.
    pub system: String,
    /// Name of the system compared against.
    pub baseline: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity compared.
    pub quantity: Quantity,
    /// True if the system is the baseline measured a second time (the A/A pair).
    pub control: bool,
    /// Log-ratio: mean over blocks.
    pub log_ratio: Estimate,
    /// Log-ratio: median over blocks.
    pub log_ratio_median: Estimate,
    /// The p-value of the block design after Holm's correction over all comparisons of the
    /// experiment. All systems of the workload contribute to its error.
    pub p_corrected: f64,
    /// Number of comparisons corrected for, if the interval alone shows a difference that does not
    /// survive the correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown_among: Option<usize>,
    /// Absolute difference of the A/A pair in this workload, as a log-ratio.
    pub noise_floor: Option<f64>,
    /// Result of the comparison.
    pub verdict: Verdict,
}

impl Comparison {
    /// Difference from the baseline in percent: geometric mean, lower and upper end. For a time,
    /// below 0 is faster.
    pub fn percent(&self) -> (f64, f64, f64) {
        difference_of(self.quantity, &self.log_ratio)
    }

    /// Name of the workload; for an open loop also the quantity compared.
    pub fn of(&self) -> String {
        self.quantity.of(&self.workload)
    }
}

/// Converts a log-ratio of speeds to a difference of the quantity in percent: value, lower and
/// upper end.
pub fn difference_of(quantity: Quantity, log_ratio: &Estimate) -> (f64, f64, f64) {
    if !quantity.is_time() {
        return percent_of(log_ratio);
    }
    percent_of(&log_ratio.negated())
}

/// Converts a log-ratio to a difference in percent: value, lower and upper end.
pub fn percent_of(estimate: &Estimate) -> (f64, f64, f64) {
    let percent = |log: f64| log.exp_m1() * 100.0;
    (
        percent(estimate.value),
        percent(estimate.low),
        percent(estimate.high),
    )
}

/// Differences from this factor on are given as a factor: percentages of losses crowd below 100.
const FACTOR_MIN: f64 = 2.0;

/// Returns the factor and direction of a large difference of speeds, such as `(4.1, "slower")`.
/// `None` below a factor of 2.
pub fn factor_of(log_ratio: f64) -> Option<(f64, &'static str)> {
    let times = log_ratio.abs().exp();
    let which = if log_ratio > 0.0 { "faster" } else { "slower" };
    let is_large = (FACTOR_MIN..f64::INFINITY).contains(&times);
    is_large.then_some((times, which))
}

impl Cell {
    /// Bytes the members wrote per byte the workload wrote.
    pub fn write_amplification(&self) -> Option<f64> {
        per(self.members.written, self.application.written)
    }

    /// Bytes the members read per byte the workload read. Above 1 if parity updates read as well.
    pub fn read_amplification(&self) -> Option<f64> {
        per(self.members.read, self.application.read)
    }

    /// Bytes the members moved per byte the workload moved, both directions together.
    pub fn traffic_amplification(&self) -> Option<f64> {
        per(self.members.total(), self.application.total())
    }

    /// CPU time in nanoseconds (workload, engine, rest of the machine) for each byte or operation
    /// counted.
    pub fn cpu_per_counted(&self) -> Option<(f64, f64, f64)> {
        let share = |ns: u64| per(ns, self.counted);
        Some((
            share(self.cpu_ns.workload)?,
            share(self.cpu_ns.engine)?,
            share(self.cpu_ns.rest())?,
        ))
    }

    /// Returns the latencies of all operations, merged over their kinds.
    pub fn latencies(&self) -> Option<Latency> {
        together(&self.latency)
    }

    /// Response times of all kinds of operations merged. Open loops only.
    pub fn responses(&self) -> Option<Latency> {
        together(&self.response)
    }

    /// Average number of busy logical CPUs of the whole machine.
    pub fn cpus_busy(&self) -> f64 {
        per(self.cpu_ns.machine, self.elapsed_ns).unwrap_or(0.0)
    }
}

fn per(amount: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| to_f64(amount) / to_f64(of))
}

/// Why the records cannot be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// The records contain no run.
    #[error("there is no run among the records: nothing was measured yet")]
    NoRuns,
}

impl Analysis {
    /// Analyses records. Consecutive experiments (the same one run again) are joined: the
    /// repetition blocks of a later one follow those of the earlier.
    ///
    /// # Errors
    /// If there is no run.
    pub fn of(records: &[Record]) -> Result<Self, AnalysisError> {
        let Joined {
            experiment,
            environment,
            calibration,
            runs,
            trials,
            recorded_again,
        } = joined(records);
        if runs.is_empty() {
            return Err(AnalysisError::NoRuns);
        }
        let mut experiment = completed(experiment, &runs);
        let totals = totals::add(&mut experiment, &runs);
        let all: Vec<&Run> = runs.iter().chain(&totals).collect();
        let cells = cells_of(&experiment, &all);
        let (comparisons, own_comparisons) = comparisons_of(&experiment, &cells);
        let mut analysis = Self {
            overall: Vec::new(),
            overall_scope: OverallScope::default(),
            choice: Choice::default(),
            singles: Singles::of(&experiment, &cells, &runs),
            experiment,
            environment,
            calibration,
            cells,
            comparisons,
            own_comparisons,
            findings: Vec::new(),
            runs,
            totals,
            trials,
            recorded_again,
        };
        analysis.refuse();
        let verdicts = analysis.cells.iter();
        let verdicts: Vec<Option<CellVerdicts>> = verdicts
            .map(|cell| CellVerdicts::of(&analysis, cell))
            .collect();
        for (cell, verdicts) in analysis.cells.iter_mut().zip(verdicts) {
            cell.verdicts = verdicts;
        }
        (analysis.overall, analysis.overall_scope) = overall::of(&analysis);
        analysis.choice = Choice::of(&analysis);
        analysis.findings = crate::doubts::findings(&analysis);
        Ok(analysis)
    }

    /// Rate per second of the harness on a target that does nothing. `None` if it was not measured.
    pub fn ceiling(&self, workload: &str) -> Option<f64> {
        let ceilings = &self.calibration.as_ref()?.ceilings;
        ceilings.get(workload).copied().filter(|&it| it > 0.0)
    }

    /// Returns true if a cell is refused as a result because it measures the load generator.
    pub fn is_refused(&self, cell: &Cell) -> bool {
        is_refused(cell.geometric_mean, self.ceiling(&cell.workload))
    }

    /// Marks comparisons with a refused cell as refused.
    fn refuse(&mut self) {
        let refused: Vec<(String, String)> = self
            .cells
            .iter()
            .filter(|cell| self.is_refused(cell))
            .map(|cell| (cell.system.clone(), cell.workload.clone()))
            .collect();
        for it in self.comparisons.iter_mut().chain(&mut self.own_comparisons) {
            let is_one = |system: &str| {
                let mut refused = refused.iter();
                refused.any(|(of, workload)| of == system && *workload == it.workload)
            };
            if !it.control && (is_one(&it.system) || is_one(&it.baseline)) {
                it.verdict = Verdict::Refused;
                it.not_shown_among = None;
            }
        }
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
        let in_total = |it: &Comparison| self.experiment.total_with(&it.workload).is_some();
        let comparisons = self.comparisons.iter();
        comparisons.filter(move |it| !it.control && !in_total(it))
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
}

/// Records of the joined experiments.
struct Joined {
    experiment: Experiment,
    environment: Environment,
    calibration: Option<Calibration>,
    runs: Vec<Run>,
    trials: Vec<Run>,
    recorded_again: usize,
}

/// Offsets added to the numbers of an experiment's runs, so that they follow those of earlier ones.
#[derive(Clone, Copy, Default)]
struct Offsets {
    block: u32,
    order: u32,
    pair: u32,
}

impl Offsets {
    fn after(runs: &[Run], trials: &[Run]) -> Self {
        let next = |of: fn(&Run) -> u32| {
            let numbers = runs.iter().map(of);
            numbers.map(|it| it.saturating_add(1)).max().unwrap_or(0)
        };
        let pairs = trials.iter().filter_map(|run| run.trial.as_ref());
        Self {
            block: next(|run| run.repetition_block),
            order: next(|run| run.order),
            pair: pairs.map(|it| it.pair.saturating_add(1)).max().unwrap_or(0),
        }
    }
}

fn joined(records: &[Record]) -> Joined {
    let mut experiments: Vec<(&Experiment, Offsets)> = Vec::new();
    let mut environment: Option<Environment> = None;
    let mut calibration: Option<Calibration> = None;
    let mut runs: Vec<Run> = Vec::new();
    let mut trials: Vec<Run> = Vec::new();
    let mut discards: Vec<(&Discard, u32)> = Vec::new();
    let mut known: BTreeMap<(u64, u64, u64, &str, &str), Vec<&Run>> = BTreeMap::new();
    let mut offsets = Offsets::default();
    let mut recorded_again = 0;
    for record in records {
        match record {
            Record::Experiment(this) => {
                // An experiment recorded again, as in concatenated files, is not a later one.
                let mut earlier = experiments.iter();
                let same = earlier.find(|(it, _)| this.started_unix_ms > 0 && *it == this);
                offsets = match same {
                    Some((_, offsets)) => *offsets,
                    None => Offsets::after(&runs, &trials),
                };
                experiments.push((this, offsets));
            }
            Record::Environment(this) => {
                environment.get_or_insert_with(|| this.clone());
            }
            Record::Calibration(this) => {
                calibration.get_or_insert_with(|| Calibration::clone(this));
            }
            Record::Run(run) => {
                // Without a start time, a run recorded twice cannot be distinguished from two equal
                // runs.
                if run.started_unix_ms > 0 {
                    let (system, workload) = (&*run.system.name, &*run.workload.name);
                    let key = (
                        run.started_unix_ms,
                        run.elapsed_ns,
                        run.seed,
                        system,
                        workload,
                    );
                    let alike = known.entry(key).or_default();
                    if alike.contains(&&**run) {
                        recorded_again += 1;
                        continue;
                    }
                    alike.push(run);
                }
                let mut run = Run::clone(run);
                if let Some(trial) = &mut run.trial {
                    trial.pair = trial.pair.saturating_add(offsets.pair);
                    trials.push(run);
                } else {
                    run.repetition_block = run.repetition_block.saturating_add(offsets.block);
                    run.order = run.order.saturating_add(offsets.order);
                    runs.push(run);
                }
            }
            Record::Discard(this) => {
                let block = this.repetition_block.saturating_add(offsets.block);
                discards.push((this, block));
            }
        }
    }
    for (discard, block) in discards {
        let is_its = |run: &&mut Run| {
            run.experiment == discard.experiment
                && run.system.name == discard.system
                && run.repetition_block == block
        };
        for run in runs.iter_mut().filter(is_its) {
            run.failed.get_or_insert_with(|| discard.why.clone());
        }
    }
    Joined {
        experiment: experiments
            .first()
            .map_or_else(Experiment::default, |(it, _)| (*it).clone()),
        environment: environment.unwrap_or_default(),
        calibration,
        runs,
        trials,
        recorded_again,
    }
}

/// Adds every system and workload that has a run, even if the experiment's own record is missing or
/// cut short.
fn completed(mut experiment: Experiment, runs: &[Run]) -> Experiment {
    for run in runs {
        if !experiment
            .systems
            .iter()
            .any(|system| system.name == run.system.name)
        {
            experiment.systems.push(run.system.clone());
        }
        if !experiment
            .workloads
            .iter()
            .any(|workload| workload.name == run.workload.name)
        {
            experiment.workloads.push(run.workload.clone());
        }
        experiment.scaled |= run.scaled;
        experiment.shared_device |= run.shared_device;
    }
    if experiment.name.is_empty() {
        experiment.name.clone_from(&runs[0].experiment);
    }
    let known = experiment
        .systems
        .iter()
        .any(|system| system.name == experiment.baseline);
    if !known {
        let single = experiment
            .systems
            .iter()
            .find(|system| system.level == "single");
        let baseline = single.or(experiment.systems.first());
        experiment.baseline = baseline.map_or(String::new(), |system| system.name.clone());
    }
    experiment
}

fn cells_of(experiment: &Experiment, runs: &[&Run]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in &experiment.workloads {
        for system in &experiment.systems {
            let mut mine: Vec<&Run> = runs
                .iter()
                .copied()
                .filter(|run| run.system.name == system.name && run.workload.name == workload.name)
                .collect();
            if !mine.is_empty() {
                mine.sort_by_key(|run| run.repetition_block);
                cells.push(cell_of(experiment, system, workload, &mine));
            }
        }
    }
    cells
}

fn cell_of(experiment: &Experiment, system: &System, workload: &Workload, runs: &[&Run]) -> Cell {
    let good: Vec<&&Run> = runs.iter().filter(|run| run.counts()).collect();
    let rates: Vec<f64> = good.iter().map(|run| run.per_second()).collect();
    let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
    let repetitions = good
        .iter()
        .zip(outliers(&logs))
        .map(|(run, outlier)| Repetition {
            block: run.repetition_block,
            order: run.order,
            per_second: run.per_second(),
            outlier,
            response: Response::of(&run.response),
        })
        .collect();
    let mut cell = Cell {
        system: system.name.clone(),
        workload: workload.name.clone(),
        rate: workload.rate,
        repetitions,
        failed: runs.len() - good.len(),
        log_rate: mean_of_blocks(
            &logs,
            seed_of(experiment.seed, &[&system.name, &workload.name]),
        ),
        median: median(&rates),
        geometric_mean: geometric_mean(&rates),
        steady: steady(&rates),
        latency: BTreeMap::new(),
        response: BTreeMap::new(),
        cpu_ns: Cpu::default(),
        elapsed_ns: 0,
        counted: 0,
        operations: 0,
        application: Traffic::default(),
        members: Traffic::default(),
        late_members: Vec::new(),
        verdicts: None,
    };
    for run in &good {
        add(&mut cell.cpu_ns.workload, run.cpu_ns.workload);
        add(&mut cell.cpu_ns.engine, run.cpu_ns.engine);
        add(&mut cell.cpu_ns.machine, run.cpu_ns.machine);
        add(&mut cell.elapsed_ns, run.elapsed_ns);
        add(&mut cell.counted, run.counted);
        add(&mut cell.operations, run.operations);
        add(&mut cell.application.read, run.application.read);
        add(&mut cell.application.written, run.application.written);
        add(&mut cell.members.read, run.members.read);
        add(&mut cell.members.written, run.members.written);
        LateMember::join(&mut cell.late_members, &run.late_members);
    }
    cell.latency = merged(good.iter().map(|run| &run.latency));
    cell.response = merged(good.iter().map(|run| &run.response));
    cell
}

/// Merges the latencies of all repetitions, by kind of operation.
fn merged<'a>(
    runs: impl Iterator<Item = &'a BTreeMap<String, Histogram>>,
) -> BTreeMap<String, Latency> {
    let mut histograms: BTreeMap<&String, Histogram> = BTreeMap::new();
    for (operation, histogram) in runs.flatten() {
        histograms.entry(operation).or_default().merge(histogram);
    }
    histograms
        .into_iter()
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(operation, histogram)| (operation.clone(), latency_of(histogram)))
        .collect()
}

/// Adds and saturates, because records may hold any value.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Merges all kinds of operations into one distribution.
fn together(kinds: &BTreeMap<String, Latency>) -> Option<Latency> {
    let mut all = Histogram::default();
    for latency in kinds.values() {
        all.merge(&latency.histogram);
    }
    (!all.is_empty()).then(|| latency_of(all))
}

fn latency_of(histogram: Histogram) -> Latency {
    Latency {
        count: histogram.total(),
        p50_ns: histogram.percentile(50.0),
        p90_ns: histogram.percentile(90.0),
        p99_ns: histogram.percentile(99.0),
        p99_9_ns: (histogram.total() >= P99_9_COUNT_MIN).then(|| histogram.percentile(99.9)),
        max_ns: histogram.max(),
        histogram,
    }
}

/// Returns the comparisons with the experiment's baseline, and those with baselines of their own.
fn comparisons_of(experiment: &Experiment, cells: &[Cell]) -> (Vec<Comparison>, Vec<Comparison>) {
    let mut comparisons = compared_with(experiment, cells, |cell| {
        let baseline = quantity::baseline_of(experiment, cells, &cell.workload)?;
        (cell.system != baseline).then_some(baseline)
    });
    let own = compared_with(experiment, cells, |cell| {
        let mut systems = experiment.systems.iter();
        let system = systems.find(|system| system.name == cell.system);
        system.and_then(|system| system.baseline.as_deref())
    });

    let errors = design_errors(experiment, cells);
    let with_baseline = comparisons.len();
    comparisons.extend(own);
    // The A/A pairs measure the noise of the others, so they are corrected separately.
    let asked = correct(&mut comparisons, &errors, |c| !c.control);
    correct(&mut comparisons, &errors, |c| c.control);
    let floors: BTreeMap<Question, f64> = comparisons
        .iter()
        .filter(|c| c.control && c.log_ratio.blocks > 0)
        .map(|c| (question(c), c.log_ratio.value.abs()))
        .collect();
    let corrected = asked > UNCORRECTED_COMPARISONS_MAX;
    for comparison in &mut comparisons {
        if !comparison.control {
            comparison.noise_floor = floors.get(&question(comparison)).copied();
        }
        let floors = comparison.noise_floor.into_iter();
        comparison.noise_floor = floors.chain(comparison.quantity.floor()).reduce(f64::max);
        if comparison.control {
            comparison.verdict = verdict_of_pair(&comparison.log_ratio);
            continue;
        }
        let p = corrected.then_some(comparison.p_corrected);
        let of = |p| verdict(&comparison.log_ratio, p, comparison.noise_floor);
        let (alone, among_others) = (of(None), of(p));
        comparison.verdict = among_others;
        comparison.not_shown_among = (alone != among_others).then_some(asked);
    }
    let own = comparisons.split_off(with_baseline);
    (comparisons, own)
}

/// A workload and the quantity in which systems are compared.
type Question = (String, Quantity);

fn question(comparison: &Comparison) -> Question {
    (comparison.workload.clone(), comparison.quantity)
}

/// Compares every cell with the cell of the system that `baseline` names.
fn compared_with<'a>(
    experiment: &Experiment,
    cells: &[Cell],
    baseline: impl Fn(&Cell) -> Option<&'a str>,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for workload in &experiment.workloads {
        let mine = || cells.iter().filter(|cell| cell.workload == workload.name);
        for cell in mine() {
            let name = baseline(cell);
            let Some(other) = name.and_then(|name| mine().find(|it| it.system == name)) else {
                continue;
            };
            let quantities = Quantity::of_workload(workload, cells).iter();
            all.extend(quantities.map(|&it| compared(experiment, cell, other, it)));
        }
    }
    all
}

/// Applies Holm's correction to the comparisons that `is_asked` selects. A pair that occurs twice
/// counts once: a system's own baseline may also be the experiment's. Returns the number of pairs.
fn correct(
    comparisons: &mut [Comparison],
    errors: &BTreeMap<Question, DesignError>,
    is_asked: impl Fn(&Comparison) -> bool,
) -> usize {
    let pair = |it: &Comparison| (it.system.clone(), it.baseline.clone(), question(it));
    let asked = comparisons.iter().filter(|it| is_asked(it));
    let asked = asked.map(|comparison| {
        let p_value = match errors.get(&question(comparison)) {
            Some(error) => error.p_value(comparison.log_ratio.value),
            None => comparison.log_ratio.p_value,
        };
        (pair(comparison), p_value)
    });
    let (pairs, p_values): (Vec<_>, Vec<f64>) =
        asked.collect::<BTreeMap<_, _>>().into_iter().unzip();
    let corrected: BTreeMap<_, f64> = pairs.into_iter().zip(holm(&p_values)).collect();
    for comparison in comparisons.iter_mut().filter(|it| is_asked(it)) {
        comparison.p_corrected = corrected[&pair(comparison)];
    }
    corrected.len()
}

/// For each question, the error of its blocks × systems design over the complete blocks.
fn design_errors(experiment: &Experiment, cells: &[Cell]) -> BTreeMap<Question, DesignError> {
    let mut errors = BTreeMap::new();
    let asked = experiment.workloads.iter().flat_map(|workload| {
        let quantities = Quantity::of_workload(workload, cells).iter();
        quantities.map(move |&quantity| (workload, quantity))
    });
    for (workload, quantity) in asked {
        if let Some(error) = design_error_of(cells, workload, quantity) {
            errors.insert((workload.name.clone(), quantity), error);
        }
    }
    errors
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

fn compared(
    experiment: &Experiment,
    cell: &Cell,
    baseline: &Cell,
    quantity: Quantity,
) -> Comparison {
    let logs: Vec<f64> = cell
        .repetitions
        .iter()
        .filter_map(|mine| {
            let theirs = baseline
                .repetitions
                .iter()
                .find(|other| other.block == mine.block)?;
            Some((mine.speed(quantity)? / theirs.speed(quantity)?).ln())
        })
        .collect();
    let seed = seed_of(experiment.seed, &[&cell.system, &cell.workload]);
    let log_ratio = mean_of_blocks(&logs, seed);
    Comparison {
        system: cell.system.clone(),
        baseline: baseline.system.clone(),
        workload: cell.workload.clone(),
        quantity,
        control: Some(&cell.system) == experiment.control.as_ref()
            && baseline.system == experiment.baseline,
        log_ratio_median: median_of_blocks(&logs, seed),
        p_corrected: log_ratio.p_value,
        not_shown_among: None,
        noise_floor: None,
        verdict: Verdict::NoDifferenceShown,
        log_ratio,
    }
}

/// Returns the verdict on a log-ratio. A difference needs an interval that lies entirely beyond the
/// noise floor, which is 0 if there is none. It must also hold after the correction, if one
/// applies.
pub(crate) fn verdict(
    log_ratio: &Estimate,
    p_corrected: Option<f64>,
    noise_floor: Option<f64>,
) -> Verdict {
    let floor = noise_floor.unwrap_or(0.0);
    let holds = p_corrected.is_none_or(|p| p < SIGNIFICANCE);
    match log_ratio.blocks {
        0 => Verdict::Failed,
        1 => Verdict::OneBlock,
        _ if holds && log_ratio.low > floor => Verdict::Faster,
        _ if holds && log_ratio.high < -floor => Verdict::Slower,
        _ => Verdict::NoDifferenceShown,
    }
}

/// Verdict of an A/A pair: none, unless they share no finished block.
pub(crate) fn verdict_of_pair(log_ratio: &Estimate) -> Verdict {
    match log_ratio.blocks {
        0 => Verdict::Failed,
        _ => Verdict::AaPair,
    }
}

/// Derives a seed for each comparison from the experiment's (FNV-1a over the names).
pub(crate) fn seed_of(seed: u64, names: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for name in names {
        for &byte in name.as_bytes().iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

//! The repetitions of a workload on a system, and their figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CellVerdicts, Grade, Quantity, Response};
use crate::histogram::to_f64;
use crate::statistics::{Estimate, Steady, geometric_mean};
use crate::{Cpu, Histogram, LateMember, Rate, Traffic};

/// Fewest operations for a 99.9th percentile: at least ten of them took longer.
pub const P99_9_COUNT_MIN: u64 = 10_000;

/// The repetitions of a workload on a system.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// variation that all systems of a block share, so compare two systems by `comparisons`
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 90 of 100 took at most this.
    pub p90_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// 999 of 1000 took at most this. `None` below 10,000 operations.
    pub p99_9_ns: Option<u64>,
    /// The longest latency.
    pub max_ns: u64,
    /// Histogram of the latencies. Not in JSON: the records hold one for each run.
    #[serde(skip)]
    pub histogram: Histogram,
}

impl Latency {
    /// Summarises a histogram.
    pub(crate) fn of(histogram: Histogram) -> Self {
        Self {
            count: histogram.total(),
            p50_ns: histogram.percentile(50.0),
            p90_ns: histogram.percentile(90.0),
            p99_ns: histogram.percentile(99.0),
            p99_9_ns: (histogram.total() >= P99_9_COUNT_MIN).then(|| histogram.percentile(99.9)),
            max_ns: histogram.max(),
            histogram,
        }
    }
}

impl Repetition {
    /// Speed of the repetition: the rate, or the inverse of the time in seconds.
    pub fn speed(&self, quantity: Quantity) -> Option<f64> {
        let per_second = |ns: u64| 1e9 / to_f64(ns);
        match quantity {
            Quantity::Rate | Quantity::Time => Some(self.per_second),
            Quantity::ResponseP99 => self.response.map(|response| per_second(response.p99_ns)),
            Quantity::ResponseP50 => self.response.map(|response| per_second(response.p50_ns)),
        }
    }
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
    /// counted. `None` if no processor was measured, nor modelled.
    pub fn cpu_per_counted(&self) -> Option<(f64, f64, f64)> {
        if self.cpu_ns == Cpu::default() {
            return None;
        }
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
        repetitions.filter_map(move |repetition| repetition.speed(quantity))
    }

    /// Returns true if its figure measures a cache more than the disks.
    pub fn is_cached(&self) -> bool {
        let verdicts = self.verdicts.iter().flat_map(|verdict| &verdict.cache);
        verdicts
            .into_iter()
            .any(|verdict| verdict.grade == Grade::CacheFigure)
    }
}

fn per(amount: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| to_f64(amount) / to_f64(of))
}

/// Merges all kinds of operations into one distribution.
fn together(kinds: &BTreeMap<String, Latency>) -> Option<Latency> {
    let mut all = Histogram::default();
    for latency in kinds.values() {
        all.merge(&latency.histogram);
    }
    (!all.is_empty()).then(|| Latency::of(all))
}

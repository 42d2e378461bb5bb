//! Metrics and histograms as rows, and the facts of a server that they show.

use crate::numbers::ServerNumbers;
use crate::server_handle::ServerHandle;
use spindles_array::ArraySnapshot;
use spindles_device::Latencies;

/// The label with the name of the array.
pub(super) const ARRAY_LABEL: &str = "array";

/// A metric: a row of the page.
#[derive(Debug)]
pub struct Metric {
    /// Name of the metric.
    pub name: &'static str,
    /// The kind of its numbers.
    pub kind: Kind,
    /// Help text, with the unit.
    pub help: &'static str,
    /// Labels that distinguish its samples.
    pub labels: &'static [&'static str],
    pub(super) sample: fn(&Facts, &mut Samples<'_>),
}

/// The kind of a metric's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A current value.
    Gauge,
    /// A total that only grows while the array is open.
    Counter,
    /// A counter in nanoseconds, shown in seconds.
    CounterOfNs,
}

/// A latency histogram.
#[derive(Debug)]
pub struct HistogramMetric {
    /// Name of the metric.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Labels that distinguish its samples.
    pub labels: &'static [&'static str],
    pub(super) sample: fn(&Facts, &mut LatencySamples<'_>),
}

/// Receives the label values and the latencies of a sample.
pub(super) type LatencySamples<'a> = dyn FnMut(&[&str], &Latencies) + 'a;

/// The source of the samples of one server, taken at one moment.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The name of the served array.
    pub(super) name: String,
    pub(super) numbers: ServerNumbers,
    /// The served array and its inner arrays.
    pub(super) arrays: Vec<ArraySnapshot>,
}

/// Receives the label values and the number of a sample.
pub(super) type Samples<'a> = dyn FnMut(&[&str], u64) + 'a;

impl Facts {
    /// `None` if the server has ended.
    pub(super) fn of(server: &ServerHandle) -> Option<Self> {
        let arrays = server.call(|target| target.snapshot())?;
        let first = arrays.first();
        Some(Self {
            name: first.map_or_else(|| server.export().name, |array| array.name.clone()),
            numbers: server.numbers()?,
            arrays,
        })
    }
}

//! Numbers for monitoring: a page in the text format of Prometheus, for whoever asks over HTTP.

mod address;
mod http;
mod page;
mod rows;

pub use http::MetricsServer;
pub use rows::{HISTOGRAMS, METRICS};

use crate::numbers::ServerNumbers;
use crate::offer::Offer;
use spindles_io::{ArraySnapshot, Latencies};

/// The label that says which array a sample is of.
const ARRAY_LABEL: &str = "array";

/// A row of the page.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What its numbers are.
    pub kind: Kind,
    /// What it is, with its unit.
    pub help: &'static str,
    /// What tells its samples from each other.
    pub labels: &'static [&'static str],
    sample: fn(&Facts, &mut Samples<'_>),
}

/// What the numbers of a metric are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How something is now.
    Gauge,
    /// It only grows while the array is open.
    Counter,
    /// The same in nanoseconds, shown in seconds.
    CounterOfNs,
}

/// A row of the page with latencies.
#[derive(Debug)]
pub struct HistogramMetric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// What tells its samples from each other.
    pub labels: &'static [&'static str],
    sample: fn(&Facts, &mut LatencySamples<'_>),
}

/// Takes latencies: the values of the labels, and the latencies.
type LatencySamples<'a> = dyn FnMut(&[&str], &Latencies) + 'a;

/// What samples are taken of, at one moment.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The name of the array that is served.
    name: String,
    numbers: ServerNumbers,
    /// It, and those inside it.
    arrays: Vec<ArraySnapshot>,
}

/// Takes samples: the values of the labels, and the number.
type Samples<'a> = dyn FnMut(&[&str], u64) + 'a;

impl Facts {
    /// `None` where the server has ended.
    fn of(offer: &Offer) -> Option<Self> {
        let arrays = offer.call(|target| target.snapshot())?;
        let first = arrays.first();
        Some(Self {
            name: first.map_or_else(|| offer.export().name, |array| array.name.clone()),
            numbers: offer.numbers()?,
            arrays,
        })
    }
}

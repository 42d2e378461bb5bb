//! Monitoring: serves a page in the Prometheus text format over HTTP.

mod address;
mod http;
mod metric;
mod page;
mod rows;

pub use http::MetricsServer;
pub use metric::{HistogramMetric, Kind, Metric};
pub use rows::{HISTOGRAMS, METRICS};

//! The text format of Prometheus, version 0.0.4.

use super::metric::{ARRAY_LABEL, Facts, HistogramMetric, Kind, Metric};
use spindles_device::Latencies;
use std::fmt::Write as _;

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders all metrics that have samples, for all served arrays.
pub(super) fn page(metrics: &[Metric], histograms: &[HistogramMetric], facts: &[Facts]) -> String {
    let mut page = String::new();
    for metric in metrics {
        let kind = match metric.kind {
            Kind::Gauge => "gauge",
            Kind::Counter | Kind::CounterOfNs => "counter",
        };
        let (name, help) = (metric.name, metric.help);
        let mut lines = String::new();
        // A metric without an array label has the same value for all.
        let of_each = metric.labels.contains(&ARRAY_LABEL);
        let facts = if of_each { facts } else { &facts[..1] };
        let mut sample = |values: &[&str], number: u64| {
            let labels = labelled(name, metric.labels, values);
            let number = match metric.kind {
                Kind::Gauge | Kind::Counter => number.to_string(),
                Kind::CounterOfNs => seconds(number),
            };
            writeln!(lines, "{name}{{{labels}}} {number}").expect("memory");
        };
        for facts in facts {
            (metric.sample)(facts, &mut sample);
        }
        if !lines.is_empty() {
            write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}").expect("memory");
        }
    }
    for metric in histograms {
        let (name, help) = (metric.name, metric.help);
        let mut lines = String::new();
        let mut sample = |values: &[&str], latencies: &Latencies| {
            let labels = labelled(name, metric.labels, values);
            let mut count = 0;
            for (at, more) in latencies.counts.iter().enumerate() {
                count += more;
                let bound = Latencies::bound_ns(at).map_or_else(|| "+Inf".to_owned(), seconds);
                writeln!(lines, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")
                    .expect("memory");
            }
            let sum = seconds(latencies.sum_ns);
            writeln!(
                lines,
                "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}"
            )
            .expect("memory");
        };
        for facts in facts {
            (metric.sample)(facts, &mut sample);
        }
        if !lines.is_empty() {
            write!(
                page,
                "# HELP {name} {help}\n# TYPE {name} histogram\n{lines}"
            )
            .expect("memory");
        }
    }
    page
}

/// `array="pool",member="1"`.
fn labelled(name: &str, labels: &[&str], values: &[&str]) -> String {
    assert_eq!(values.len(), labels.len(), "{name}");
    let labels = labels.iter().zip(values);
    let labels: Vec<String> = labels
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    labels.join(",")
}

/// Nanoseconds as seconds: `0.000016384`.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{Served, ServerNumbers};
    use spindles_array::export::ExportLatencies;

    #[test]
    fn values_are_escaped() {
        let metrics = [Metric {
            name: "spindles_test_total",
            kind: Kind::Counter,
            help: "A test.",
            labels: &["array"],
            sample: |facts, samples| samples(&[&facts.name], 7),
        }];
        let facts = ["a\\b\"c\nd", "pool"].map(|name| Facts {
            name: name.to_owned(),
            numbers: ServerNumbers {
                clients: Vec::new(),
                paces: Vec::new(),
                over_ring: 0,
                since_s: 0,
                served: Served::default(),
                latencies: ExportLatencies::default(),
            },
            arrays: Vec::new(),
        });
        assert_eq!(
            page(&metrics, &[], &facts),
            "# HELP spindles_test_total A test.\n# TYPE spindles_test_total counter\n\
             spindles_test_total{array=\"a\\\\b\\\"c\\nd\"} 7\n\
             spindles_test_total{array=\"pool\"} 7\n"
        );
    }

    /// Prometheus buckets are cumulative.
    #[test]
    fn latencies_are_a_histogram() {
        let histograms = [HistogramMetric {
            name: "spindles_test_seconds",
            help: "A test.",
            labels: &["array"],
            sample: |facts, samples| {
                let mut latencies = Latencies::default();
                for ns in [1, 20_000, 20_000, u64::MAX >> 8] {
                    latencies.add(ns);
                }
                samples(&[&facts.name], &latencies);
            },
        }];
        let facts = [Facts {
            name: "pool".to_owned(),
            numbers: ServerNumbers {
                clients: Vec::new(),
                paces: Vec::new(),
                over_ring: 0,
                since_s: 0,
                served: Served::default(),
                latencies: ExportLatencies::default(),
            },
            arrays: Vec::new(),
        }];
        let page = page(&[], &histograms, &facts);
        for line in [
            "# TYPE spindles_test_seconds histogram",
            "spindles_test_seconds_bucket{array=\"pool\",le=\"0.000016384\"} 1",
            "spindles_test_seconds_bucket{array=\"pool\",le=\"0.000032768\"} 3",
            "spindles_test_seconds_bucket{array=\"pool\",le=\"8.589934592\"} 3",
            "spindles_test_seconds_bucket{array=\"pool\",le=\"+Inf\"} 4",
            "spindles_test_seconds_count{array=\"pool\"} 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}: {page}");
        }
    }
}

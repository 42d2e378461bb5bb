//! The text format of Prometheus, version 0.0.4.

use super::{ARRAY_LABEL, Facts, Metric};
use std::fmt::Write as _;

/// Its media type.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of a table that have samples, of all that is served.
pub(super) fn page(metrics: &[Metric], facts: &[Facts]) -> String {
    let mut page = String::new();
    for metric in metrics {
        let kind = if metric.counts { "counter" } else { "gauge" };
        let (name, help) = (metric.name, metric.help);
        let mut lines = String::new();
        // What is of no array is the same for all.
        let of_each = metric.labels.contains(&ARRAY_LABEL);
        let facts = if of_each { facts } else { &facts[..1] };
        let mut sample = |values: &[&str], number: u64| {
            assert_eq!(values.len(), metric.labels.len(), "{name}");
            let labels = metric.labels.iter().zip(values);
            let labels: Vec<String> = labels
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            writeln!(lines, "{name}{{{}}} {number}", labels.join(",")).expect("memory");
        };
        for facts in facts {
            (metric.sample)(facts, &mut sample);
        }
        if !lines.is_empty() {
            write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}").expect("memory");
        }
    }
    page
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{Served, ServerNumbers};

    #[test]
    fn values_are_escaped() {
        let metrics = [Metric {
            name: "spindles_test_total",
            counts: true,
            help: "A test.",
            labels: &["array"],
            sample: |facts, samples| samples(&[&facts.name], 7),
        }];
        let facts = ["a\\b\"c\nd", "pool"].map(|name| Facts {
            name: name.to_owned(),
            numbers: ServerNumbers {
                clients: 0,
                over_ring: 0,
                since_s: 0,
                served: Served::default(),
            },
            arrays: Vec::new(),
        });
        assert_eq!(
            page(&metrics, &facts),
            "# HELP spindles_test_total A test.\n# TYPE spindles_test_total counter\n\
             spindles_test_total{array=\"a\\\\b\\\"c\\nd\"} 7\n\
             spindles_test_total{array=\"pool\"} 7\n"
        );
    }
}

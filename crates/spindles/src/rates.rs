//! Throughput, operations per second and latency of a served array between two samples of its
//! `status` as JSON.

use crate::output::table;
use serde_json::Value;
use spindles_report::outputs::printable;
use std::time::Instant;

/// The counters of an export and its array's members at one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    at: Instant,
    rows: Vec<Row>,
}

/// The counts of an export or a member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    read: Traffic,
    written: Traffic,
    /// `None` for an export.
    busy_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traffic {
    operations: u64,
    bytes: u64,
    ns: u64,
}

impl Sample {
    /// Takes a sample of a status; `None` if nothing is served.
    pub(crate) fn of(status: &Value) -> Option<Self> {
        let served = &status["served"];
        let export = Row {
            name: "export".to_owned(),
            read: Traffic::of(served, ["reads", "read_bytes", "read_ns"])?,
            written: Traffic::of(served, ["writes", "payload_bytes", "write_ns"])?,
            busy_ns: None,
        };
        let mut rows = vec![export];
        add_members(status, "", &mut rows);
        let at = Instant::now();
        Some(Self { at, rows })
    }

    /// Draws a table of the rates since an earlier sample.
    pub(crate) fn rates_since(&self, before: &Self) -> String {
        let elapsed_ns = self.at.duration_since(before.at).as_nanos();
        let elapsed_ns = u64::try_from(elapsed_ns).unwrap_or(u64::MAX).max(1);
        let rows = self.rows.iter().filter_map(|row| {
            let before = before.rows.iter().find(|it| it.name == row.name)?;
            Some(row.since(before, elapsed_ns))
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let header = [
            "since the last look",
            "read MiB/s",
            "reads/s",
            "ms",
            "write MiB/s",
            "writes/s",
            "ms",
            "busy %",
        ];
        printable(&table(&header, &rows)).into_owned()
    }
}

/// Adds the members that have counters, of an array and of the arrays inside it.
fn add_members(array: &Value, within: &str, rows: &mut Vec<Row>) {
    for (index, member) in array["members"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let name = format!("{within}member {index}");
        add_members(&member["array"], &format!("{name}, "), rows);
        let counters = &member["counters"];
        let read = Traffic::of(counters, ["reads", "read_bytes", "read_ns"]);
        let written = Traffic::of(counters, ["writes", "written_bytes", "write_ns"]);
        rows.extend(read.zip(written).map(|(read, written)| Row {
            name,
            read,
            written,
            busy_ns: counters["busy_ns"].as_u64(),
        }));
    }
}

impl Traffic {
    fn of(counters: &Value, [operations, bytes, ns]: [&str; 3]) -> Option<Self> {
        Some(Self {
            operations: counters[operations].as_u64()?,
            bytes: counters[bytes].as_u64()?,
            ns: counters[ns].as_u64()?,
        })
    }

    /// Returns MiB per second, operations per second, and the latency in milliseconds.
    fn since(self, before: Self, elapsed_ns: u64) -> [String; 3] {
        // The counters of a reopened array begin at zero.
        let operations = self.operations.saturating_sub(before.operations);
        let bytes = self.bytes.saturating_sub(before.bytes);
        let ns = self.ns.saturating_sub(before.ns);
        let latency = match operations {
            0 => "-".to_owned(),
            some => format!("{:.3}", ratio(ns, some) / 1e6),
        };
        let in_a_second = 1e9 / ratio(elapsed_ns, 1);
        [
            format!("{:.1}", mib(bytes) * in_a_second),
            format!("{:.0}", ratio(operations, 1) * in_a_second),
            latency,
        ]
    }
}

impl Row {
    fn since(&self, before: &Self, elapsed_ns: u64) -> Vec<String> {
        let busy = self.busy_ns.zip(before.busy_ns).map(|(now, before)| {
            let busy = 100.0 * ratio(now.saturating_sub(before), elapsed_ns);
            format!("{:.0}", busy.min(100.0))
        });
        let read = self.read.since(before.read, elapsed_ns);
        let written = self.written.since(before.written, elapsed_ns);
        let numbers = read.into_iter().chain(written);
        let name = [self.name.clone()].into_iter();
        let busy = busy.unwrap_or_else(|| "-".to_owned());
        name.chain(numbers).chain([busy]).collect()
    }
}

/// Converts bytes to MiB, for a rate.
pub(crate) fn mib(bytes: u64) -> f64 {
    ratio(bytes, 1 << 20)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(one: u64, of: u64) -> f64 {
    one as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn rates_cover_the_time_between_two_samples() {
        let status = |factor: u64| {
            let counters = json!({
                "reads": 100 * factor, "read_bytes": (4 << 20) * factor,
                "read_ns": 200_000_000 * factor, "writes": 0, "written_bytes": 0, "write_ns": 0,
                "busy_ns": 500_000_000 * factor,
            });
            json!({
                "served": {
                    "reads": 10, "read_bytes": 0, "read_ns": 0,
                    "writes": 0, "payload_bytes": 0, "write_ns": 0,
                },
                "members": [
                    { "counters": counters },
                    { "array": { "members": [{ "counters": counters }] } },
                ],
            })
        };
        let before = Sample::of(&status(1)).expect("it is served");
        let now = Sample {
            at: before.at + Duration::from_secs(2),
            ..Sample::of(&status(3)).expect("it is served")
        };
        let text = now.rates_since(&before);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["export", "0.0", "0", "-", "0.0", "0", "-", "-"]);
        let member = ["member", "0", "4.0", "100", "2.000", "0.0", "0", "-", "50"];
        assert_eq!(lines[2], member, "{text}");
        assert!(text.contains("member 1, member 0"), "{text}");
        assert!(Sample::of(&json!({ "served": null })).is_none());
    }
}

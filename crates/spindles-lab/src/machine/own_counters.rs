//! Counters of members that no other program adds to: of devices that only one system uses, or of
//! the members that the server of an array counts.

use crate::machine::device_counters::{device_use, stat_of};
use spindles_measure::MemberUse;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Counters that belong to a single system.
#[derive(Clone, Debug)]
pub(crate) enum OwnCounters {
    /// Names of block devices that only this system uses.
    Devices(Vec<String>),
    /// The metrics page of the server of the array.
    Server(SocketAddr),
}

/// How long a single read of the page may take.
const PAGE_MAX: Duration = Duration::from_secs(5);

impl OwnCounters {
    /// Returns the counters of each member; empty if they can't be read.
    pub(crate) fn now(&self) -> Vec<MemberUse> {
        match self {
            Self::Devices(names) => names
                .iter()
                .map(|name| device_use(name, true, &stat_of(name)).into())
                .collect(),
            Self::Server(address) => page_of(*address)
                .map(|page| members_on(&page))
                .unwrap_or_default(),
        }
    }
}

fn page_of(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PAGE_MAX))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Selects one counter of a member.
type Count = fn(&mut MemberUse) -> &mut u64;

/// Parses a metrics page into the counters of its devices, in their order.
fn members_on(page: &str) -> Vec<MemberUse> {
    let samples = |metric: &'static str| {
        page.lines().filter_map(move |line| {
            let sample = line.strip_prefix(metric)?.strip_prefix('{')?;
            sample.rsplit_once("} ")
        })
    };
    let mut members: Vec<MemberUse> = samples("spindles_device_reads_total")
        .map(|(labels, reads)| {
            let mut member = MemberUse {
                name: device_of(labels),
                ..MemberUse::default()
            };
            member.requests.read = reads.parse().unwrap_or(0);
            member
        })
        .collect();
    let fields: [(&str, Count); 5] = [
        ("spindles_device_writes_total", |counters| {
            &mut counters.requests.written
        }),
        ("spindles_device_flushes_total", |counters| {
            &mut counters.requests.flushed
        }),
        ("spindles_device_read_bytes_total", |counters| {
            &mut counters.bytes.read
        }),
        ("spindles_device_written_bytes_total", |counters| {
            &mut counters.bytes.written
        }),
        ("spindles_device_errors_total", |counters| {
            &mut counters.errors
        }),
    ];
    for (metric, field) in fields {
        for (member, (_, value)) in members.iter_mut().zip(samples(metric)) {
            *field(member) += value.parse::<u64>().unwrap_or(0);
        }
    }
    let busy = samples("spindles_device_busy_seconds_total");
    for (member, (_, value)) in members.iter_mut().zip(busy) {
        member.busy_ns = nanoseconds(value);
    }
    // Each device has two sums: of reads and of writes.
    let latencies: Vec<u64> = samples("spindles_device_latency_seconds_sum")
        .map(|(_, value)| nanoseconds(value))
        .collect();
    for (member, of_both) in members.iter_mut().zip(latencies.chunks(2)) {
        member.in_flight_ns = of_both.iter().sum();
    }
    members
}

/// Converts decimal seconds to nanoseconds.
fn nanoseconds(seconds: &str) -> u64 {
    let seconds = seconds.parse().unwrap_or(0.0);
    let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    crate::machine::clock::duration_ns(time)
}

/// Returns the device named in the labels of a sample.
fn device_of(labels: &str) -> String {
    let value = labels
        .rsplit_once("device=\"")
        .map_or("", |(_, value)| value);
    let mut escaped = value.strip_suffix('"').unwrap_or(value).chars();
    let mut device = String::new();
    while let Some(c) = escaped.next() {
        device.extend(match c {
            '\\' => escaped.next().map(|c| if c == 'n' { '\n' } else { c }),
            c => Some(c),
        });
    }
    device
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_measure::{Requests, Traffic};
    use std::fmt::Write as _;

    #[test]
    fn a_metrics_page_is_parsed() {
        let labels = [
            r#"{array="a b",member="0",device="x"}"#,
            r#"{array="a b",member="1",device="y \"z\""}"#,
        ];
        let metrics = [
            ("reads_total", ["1", "2"]),
            ("writes_total", ["10", "12"]),
            ("flushes_total", ["5", "6"]),
            ("read_bytes_total", ["9", "10"]),
            ("written_bytes_total", ["11", "12"]),
            ("errors_total", ["13", "14"]),
            ("busy_seconds_total", ["0.000000015", "0.000000016"]),
        ];
        let mut page = String::new();
        for (metric, values) in metrics {
            let metric = format!("spindles_device_{metric}");
            writeln!(page, "# TYPE {metric} counter").expect("a string");
            for (labels, value) in labels.iter().zip(values) {
                writeln!(page, "{metric}{labels} {value}").expect("a string");
            }
        }
        for labels in labels {
            for (operation, sum) in [("read", "0.000000010"), ("write", "0.000000007")] {
                let labels = labels.trim_end_matches('}');
                let metric = "spindles_device_latency_seconds_sum";
                writeln!(page, "{metric}{labels},operation=\"{operation}\"}} {sum}")
                    .expect("a string");
            }
        }
        let member = |name: &str, more: u64| MemberUse {
            name: name.to_owned(),
            busy_ns: 15 + more,
            in_flight_ns: 17,
            requests: Requests {
                read: 1 + more,
                written: 10 + 2 * more,
                flushed: 5 + more,
            },
            bytes: Traffic {
                read: 9 + more,
                written: 11 + more,
            },
            errors: 13 + more,
            ..MemberUse::default()
        };
        assert_eq!(members_on(&page), [member("x", 0), member("y \"z\"", 1)]);
    }
}

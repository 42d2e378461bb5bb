//! The table of metrics.

use super::metric::{Facts, HistogramMetric, Kind, Metric, Samples};
use crate::alarms::state_of;
use spindles_array::{ArraySnapshot, DeviceSnapshot};
use spindles_device::DeviceCounters;
use spindles_engine::{ArrayState, JournalStatus, Member, MemberStatus, StageStatus};

const SERVER: &[&str] = &["array"];
const ARRAY: &[&str] = &["array"];
const MEMBER: &[&str] = &["array", "member", "device"];
const JOB: &[&str] = &["array", "job"];
const STATE: &[&str] = &["array", "state"];
const OPERATION: &[&str] = &["array", "operation"];
const MEMBER_OPERATION: &[&str] = &["array", "member", "device", "operation"];

const STATES: [ArrayState; 3] = [
    ArrayState::Healthy,
    ArrayState::Degraded,
    ArrayState::Failed,
];
const MEMBER_STATES: [&str; 3] = ["active", "rebuilding", "missing"];

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    sample: fn(&Facts, &mut Samples<'_>),
) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        help,
        labels,
        sample,
    }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    sample: fn(&Facts, &mut Samples<'_>),
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        help,
        labels,
        sample,
    }
}

/// All metrics. docs/reference/metrics.md lists them.
pub static METRICS: &[Metric] = &[
    gauge(
        "spindles_build_info",
        &["version"],
        "The version of Spindles; always 1.",
        |_, samples| samples(&[env!("CARGO_PKG_VERSION")], 1),
    ),
    gauge(
        "spindles_array_state",
        STATE,
        "1 for the current state of the array, 0 for the others: healthy, degraded, failed.",
        |facts, samples| {
            for array in &facts.arrays {
                for state in STATES {
                    let is_it = u64::from(state_of(&array.status) == state);
                    samples(&[&array.name, state.name()], is_it);
                }
            }
        },
    ),
    gauge(
        "spindles_array_members",
        STATE,
        "Positions of the array by the state of their member: active, rebuilding, missing.",
        |facts, samples| {
            for array in &facts.arrays {
                for state in MEMBER_STATES {
                    let members = array.status.members.iter();
                    let count = members
                        .filter(|member| member_state(member.state) == state)
                        .count();
                    let count = u64::try_from(count).expect("64 bits");
                    samples(&[&array.name, state], count);
                }
            }
        },
    ),
    gauge(
        "spindles_array_size_bytes",
        ARRAY,
        "The size of the array.",
        |facts, samples| of_arrays(facts, samples, |array| array.bytes),
    ),
    gauge(
        "spindles_array_lost_bytes",
        ARRAY,
        "Bytes of the array that are lost and not rewritten yet.",
        |facts, samples| of_arrays(facts, samples, ArraySnapshot::lost_bytes),
    ),
    gauge(
        "spindles_array_journal_out",
        ARRAY,
        "1 if the dedicated journal device is out or missing, else 0.",
        |facts, samples| {
            of_arrays(facts, samples, |array| {
                u64::from(array.status.journal == JournalStatus::DeviceOut)
            });
        },
    ),
    gauge(
        "spindles_stage_staged_bytes",
        ARRAY,
        "Bytes in records of the array's stage that are not released.",
        |facts, samples| of_stages(facts, samples, |stage, block| stage.staged_blocks * block),
    ),
    gauge(
        "spindles_stage_size_bytes",
        ARRAY,
        "The most bytes that the array's stage holds.",
        |facts, samples| {
            of_stages(facts, samples, |stage, block| {
                u64::from(stage.memory_blocks) * block
            });
        },
    ),
    gauge(
        "spindles_stage_stuck",
        ARRAY,
        "1 if some staged writes can't be placed, else 0.",
        |facts, samples| of_stages(facts, samples, |stage, _| stage.is_stuck.into()),
    ),
    counter(
        "spindles_stage_absorbed_bytes_total",
        ARRAY,
        "Staged bytes that were written again before they were placed.",
        |facts, samples| of_stages(facts, samples, |stage, block| stage.absorbed_blocks * block),
    ),
    counter(
        "spindles_stage_placed_bytes_total",
        ARRAY,
        "Staged bytes that were placed.",
        |facts, samples| of_stages(facts, samples, |stage, block| stage.placed_blocks * block),
    ),
    counter(
        "spindles_stage_whole_rows_total",
        ARRAY,
        "Rows that were placed as a whole, without the log.",
        |facts, samples| of_stages(facts, samples, |stage, _| stage.whole_rows),
    ),
    Metric {
        name: "spindles_stage_paced_seconds_total",
        kind: Kind::CounterOfNs,
        help: "Time for which answers waited because the stage filled.",
        labels: ARRAY,
        sample: |facts, samples| of_stages(facts, samples, |stage, _| stage.paced_ns),
    },
    gauge(
        "spindles_job_done_bytes",
        JOB,
        "Bytes of the array that the running job has processed: rebuild, replace, scrub, resync.",
        |facts, samples| of_jobs(facts, samples, |job| job.done_bytes),
    ),
    gauge(
        "spindles_job_size_bytes",
        JOB,
        "Bytes of the array that the running job processes in total.",
        |facts, samples| of_jobs(facts, samples, |job| job.total_bytes),
    ),
    gauge(
        "spindles_job_failed_stretches",
        JOB,
        "Stretches of the array that the running job could not process.",
        |facts, samples| of_jobs(facts, samples, |job| job.failed),
    ),
    gauge(
        "spindles_array_last_scrub_time_seconds",
        ARRAY,
        "When the array was last scrubbed, in seconds since 1970; 0 if unknown.",
        |facts, samples| of_arrays(facts, samples, |array| array.last_scrub_s),
    ),
    gauge(
        "spindles_scrub_repaired_bytes",
        ARRAY,
        "Errors that the running scrub, or else the last one since opening, found and repaired.",
        |facts, samples| {
            of_arrays(facts, samples, |array| {
                array.status.scrub.repaired_blocks * u64::from(array.block_bytes)
            });
        },
    ),
    gauge(
        "spindles_scrub_left_bytes",
        ARRAY,
        "Errors that a scrub, a rebuild or a client found, and that are not repaired yet.",
        |facts, samples| {
            of_arrays(facts, samples, |array| {
                array.status.left_blocks * u64::from(array.block_bytes)
            });
        },
    ),
    gauge(
        "spindles_scrub_disagreements",
        ARRAY,
        "Rows of blocks that the scrub found in disagreement, if nothing shows which block is \
         wrong.",
        |facts, samples| {
            of_arrays(facts, samples, |array| array.status.scrub.disagreements);
        },
    ),
    gauge(
        "spindles_member_active",
        MEMBER,
        "1 if the member holds all of its data, else 0.",
        |facts, samples| {
            of_members(facts, samples, |member, _| {
                u64::from(member.state == Member::Active)
            });
        },
    ),
    gauge(
        "spindles_member_slow",
        MEMBER,
        "1 if the member is much slower than its peers, else 0.",
        |facts, samples| of_members(facts, samples, |member, _| u64::from(member.slow)),
    ),
    counter(
        "spindles_member_read_errors_total",
        MEMBER,
        "Failed reads of the member's device, until cleared.",
        |facts, samples| of_members(facts, samples, |member, _| member.errors.read_errors),
    ),
    counter(
        "spindles_member_rotten_bytes_total",
        MEMBER,
        "Corrupt bytes read from the member's device, until cleared.",
        |facts, samples| {
            of_members(facts, samples, |member, block_bytes| {
                member.errors.corrupt_blocks * block_bytes
            });
        },
    ),
    counter(
        "spindles_member_rewritten_bytes_total",
        MEMBER,
        "Bytes repaired on the member's device, until cleared.",
        |facts, samples| {
            of_members(facts, samples, |member, block_bytes| {
                member.errors.repaired_blocks * block_bytes
            });
        },
    ),
    counter(
        "spindles_member_slow_answers_total",
        MEMBER,
        "Late answers of the member's device, until cleared.",
        |facts, samples| of_members(facts, samples, |member, _| member.errors.slow_answers),
    ),
    gauge(
        "spindles_member_bad_bytes",
        MEMBER,
        "Places of the member that are not read, because it refused to be written or could not be \
         filled.",
        |facts, samples| {
            of_members(facts, samples, |member, block_bytes| {
                member.faults.bad_blocks * block_bytes
            });
        },
    ),
    counter(
        "spindles_member_hedged_reads_total",
        MEMBER,
        "Reads of the member that were also sent to other members, because they waited long.",
        |facts, samples| of_members(facts, samples, |member, _| member.hedged_reads),
    ),
    counter(
        "spindles_device_reads_total",
        MEMBER,
        "Reads sent to the device. The member of a journal device is `journal`.",
        |facts, samples| of_devices(facts, samples, |device| device.reads),
    ),
    counter(
        "spindles_device_writes_total",
        MEMBER,
        "Writes sent to the device.",
        |facts, samples| of_devices(facts, samples, |device| device.writes),
    ),
    counter(
        "spindles_device_read_bytes_total",
        MEMBER,
        "Bytes of the reads.",
        |facts, samples| of_devices(facts, samples, |device| device.bytes_read),
    ),
    counter(
        "spindles_device_written_bytes_total",
        MEMBER,
        "Bytes of the writes.",
        |facts, samples| of_devices(facts, samples, |device| device.bytes_written),
    ),
    counter(
        "spindles_device_flushes_total",
        MEMBER,
        "Flushes sent to the device.",
        |facts, samples| of_devices(facts, samples, |device| device.flushes),
    ),
    counter(
        "spindles_device_zeroings_total",
        MEMBER,
        "Discards and write-zeroes sent to the device.",
        |facts, samples| of_devices(facts, samples, |device| device.zeroings),
    ),
    counter(
        "spindles_device_zeroed_bytes_total",
        MEMBER,
        "Bytes of discards and write-zeroes.",
        |facts, samples| of_devices(facts, samples, |device| device.bytes_zeroed),
    ),
    counter(
        "spindles_device_errors_total",
        MEMBER,
        "Operations of the device that failed.",
        |facts, samples| of_devices(facts, samples, |device| device.errors),
    ),
    Metric {
        name: "spindles_device_busy_seconds_total",
        kind: Kind::CounterOfNs,
        help: "Time during which the device had at least one operation in flight.",
        labels: MEMBER,
        sample: |facts, samples| of_devices(facts, samples, |device| device.busy_ns),
    },
    gauge(
        "spindles_server_start_time_seconds",
        SERVER,
        "When serving began, in seconds since 1970.",
        |facts, samples| samples(&[&facts.name], facts.numbers.since_s),
    ),
    gauge(
        "spindles_server_clients",
        SERVER,
        "Clients connected now.",
        |facts, samples| {
            let clients = u64::try_from(facts.numbers.clients.len());
            samples(&[&facts.name], clients.expect("64 bits"));
        },
    ),
    counter(
        "spindles_server_connections_total",
        SERVER,
        "Clients connected since serving began.",
        |facts, samples| samples(&[&facts.name], facts.numbers.served.connections),
    ),
    counter(
        "spindles_server_requests_total",
        SERVER,
        "Requests of clients.",
        |facts, samples| samples(&[&facts.name], facts.numbers.served.requests),
    ),
    counter(
        "spindles_server_read_bytes_total",
        SERVER,
        "Bytes that clients read.",
        |facts, samples| samples(&[&facts.name], facts.numbers.served.read_bytes),
    ),
    counter(
        "spindles_server_written_bytes_total",
        SERVER,
        "Bytes that clients wrote.",
        |facts, samples| samples(&[&facts.name], facts.numbers.served.payload_bytes),
    ),
    counter(
        "spindles_server_copied_bytes_total",
        SERVER,
        "Bytes of writes that were copied into the write buffers instead of received there.",
        |facts, samples| samples(&[&facts.name], facts.numbers.served.copied_bytes),
    ),
];

/// All latency histograms.
pub static HISTOGRAMS: &[HistogramMetric] = &[
    HistogramMetric {
        name: "spindles_device_latency_seconds",
        help: "Latency of operations of the device: read, write.",
        labels: MEMBER_OPERATION,
        sample: |facts, samples| {
            each_device(facts, &mut |array, member, device| {
                let labels = |operation| [array, member, device.name.as_str(), operation];
                samples(&labels("read"), &device.counters.read_latencies);
                samples(&labels("write"), &device.counters.write_latencies);
            });
        },
    },
    HistogramMetric {
        name: "spindles_server_latency_seconds",
        help: "Latency of requests of clients, in parts of at most 1 MiB: read, write.",
        labels: OPERATION,
        sample: |facts, samples| {
            samples(&[&facts.name, "read"], &facts.numbers.latencies.reads);
            samples(&[&facts.name, "write"], &facts.numbers.latencies.writes);
        },
    },
];

fn member_state(state: Member) -> &'static str {
    match state {
        Member::Active => MEMBER_STATES[0],
        Member::Rebuilding { .. } => MEMBER_STATES[1],
        Member::Missing { .. } => MEMBER_STATES[2],
    }
}

fn of_arrays(facts: &Facts, samples: &mut Samples<'_>, number: impl Fn(&ArraySnapshot) -> u64) {
    for array in &facts.arrays {
        samples(&[&array.name], number(array));
    }
}

/// Samples the arrays that use a stage. `number` gets the stage, and the bytes of a block.
fn of_stages(facts: &Facts, samples: &mut Samples<'_>, number: impl Fn(&StageStatus, u64) -> u64) {
    for array in &facts.arrays {
        if let Some(stage) = &array.status.stage {
            samples(&[&array.name], number(stage, array.block_bytes.into()));
        }
    }
}

fn of_jobs(
    facts: &Facts,
    samples: &mut Samples<'_>,
    number: impl Fn(&spindles_engine::JobStatus) -> u64,
) {
    for array in &facts.arrays {
        for job in array.status.jobs.iter().filter(|job| job.going) {
            samples(&[&array.name, job.name], number(job));
        }
    }
}

/// Samples every position. The device label is empty if the position is vacant or holds an array.
fn of_members(
    facts: &Facts,
    samples: &mut Samples<'_>,
    number: impl Fn(&MemberStatus, u64) -> u64,
) {
    for array in &facts.arrays {
        for member in &array.status.members {
            let device = array.device(member.member);
            let device = device.map_or("", |device| device.name.as_str());
            let labels = [array.name.as_str(), &member.member.to_string(), device];
            samples(&labels, number(member, u64::from(array.block_bytes)));
        }
    }
}

fn of_devices(facts: &Facts, samples: &mut Samples<'_>, number: impl Fn(&DeviceCounters) -> u64) {
    each_device(facts, &mut |array, member, device| {
        samples(&[array, member, &device.name], number(&device.counters));
    });
}

/// Visits every device, with the names of its array and position.
fn each_device(facts: &Facts, visit: &mut dyn FnMut(&str, &str, &DeviceSnapshot)) {
    for array in &facts.arrays {
        for member in &array.status.members {
            if let Some(device) = array.device(member.member) {
                visit(&array.name, &member.member.to_string(), device);
            }
        }
        if let Some(device) = &array.journal {
            visit(&array.name, "journal", device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_follow_the_conventions() {
        for (at, metric) in METRICS.iter().enumerate() {
            let name = metric.name;
            assert!(name.starts_with("spindles_"), "{name}");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            assert_eq!(
                name.ends_with("_total"),
                metric.kind != Kind::Gauge,
                "{name}"
            );
            assert!(
                metric.help.ends_with('.') && !metric.help.contains('\n'),
                "{name}"
            );
            assert!(
                METRICS[..at].iter().all(|other| other.name != name),
                "{name}"
            );
        }
    }

    /// docs/reference/metrics.md lists each metric under a heading with its labels, and no others.
    #[test]
    fn all_metrics_are_documented() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/metrics.md"
        );
        let page = std::fs::read_to_string(path).expect("it is there");
        let mut labels = "";
        let mut listed: Vec<(&str, String)> = Vec::new();
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                labels = heading;
            } else if line.starts_with("spindles_") && !line.contains('{') {
                let name = line.split(' ').next().expect("a name");
                listed.push((name, labels.to_owned()));
            }
        }
        let metrics = METRICS
            .iter()
            .map(|metric| (metric.name, metric.labels.join(", ")));
        let histograms = HISTOGRAMS
            .iter()
            .map(|metric| (metric.name, metric.labels.join(", ")));
        let mut wanted: Vec<(&str, String)> = metrics.chain(histograms).collect();
        listed.sort();
        wanted.sort();
        assert_eq!(listed, wanted);
    }
}

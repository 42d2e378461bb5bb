//! The result of a phase of a workload on files.

use crate::clock::MachineTicks;
use crate::recorder::Counted;
use spindles_device::ThreadUsage;
use spindles_measure::{Histogram, MemberUse, Series, ThreadUse, Traffic, Usage};
use spindles_workload::file::{Action, Answer, FileCounted, FileIssue};
use std::collections::BTreeMap;
use std::time::Instant;

/// The result of a phase.
pub(crate) struct Measured {
    /// Begin of the first timed operation and end of the last.
    pub(crate) window: (Instant, Instant),
    /// Length of the timed window without its warm-up.
    pub(crate) elapsed_ns: u64,
    pub(crate) operations: u64,
    pub(crate) counted: u64,
    pub(crate) application: Traffic,
    pub(crate) latency: BTreeMap<String, Histogram>,
    pub(crate) series: Series,
    /// Time of all actors by class of operation, see `Evidence::actor_ns`.
    pub(crate) actor_ns: BTreeMap<String, u64>,
    /// CPU time of the threads that play the actors.
    pub(crate) threads: Vec<ThreadUse>,
    /// CPU time of the workload by itself; of all its threads if the engine has threads of its own.
    pub(crate) workload_cpu_ns: u64,
    /// Counters of the members of a bare target, in the order of its devices.
    pub(crate) members: Vec<MemberUse>,
    /// Share of the files that was cached before the phase, in thousandths. `None` if unknown, or
    /// there were no files.
    pub(crate) resident_permille: Option<u32>,
    /// The kernel's counts for all threads together.
    pub(crate) usage: Usage,
    pub(crate) process_cpu_ns: (u64, u64),
    pub(crate) machine: (MachineTicks, MachineTicks),
}

pub(super) fn counted_of(counted: Option<FileCounted>, all: &Counted) -> u64 {
    match counted {
        None => 0,
        Some(FileCounted::ReadBytes) => all.bytes.read,
        Some(FileCounted::WrittenBytes) => all.bytes.written,
        Some(FileCounted::Bytes) => all.bytes.total(),
        Some(FileCounted::Of(class)) => all.latency.get(class.name()).map_or(0, Histogram::total),
        Some(FileCounted::Operations) => all.operations,
    }
}

/// Returns the bytes that an operation moved.
pub(super) fn moved(issue: &FileIssue, answer: Answer) -> Traffic {
    let reads = matches!(
        issue.action,
        Action::Read(..) | Action::GetBytes(..) | Action::ReadWhole(..)
    );
    if reads {
        Traffic {
            read: answer.bytes,
            written: 0,
        }
    } else {
        Traffic {
            read: 0,
            written: answer.bytes,
        }
    }
}

/// Adds up the kernel's counts of threads, each from its begin to its end.
pub(super) fn usage_of(threads: &[(ThreadUsage, ThreadUsage)]) -> Usage {
    let sum = |of: fn(&ThreadUsage) -> u64| {
        let each = threads
            .iter()
            .map(|(before, after)| of(after).saturating_sub(of(before)));
        each.sum::<u64>()
    };
    Usage {
        user_ns: sum(|it| it.user_ns),
        system_ns: sum(|it| it.system_ns),
        blocks_in: sum(|it| it.blocks_in),
        blocks_out: sum(|it| it.blocks_out),
        voluntary_switches: sum(|it| it.voluntary_switches),
        involuntary_switches: sum(|it| it.involuntary_switches),
        major_faults: sum(|it| it.major_faults),
    }
}

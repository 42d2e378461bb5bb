//! Counts and sums of a phase of a workload on files.

use spindles_device::ThreadUsage;
use spindles_measure::{Histogram, Run, Traffic, Usage};
use spindles_workload::file::{Action, Answer, FileCounted, FileIssue};

/// Returns the amount that the rate of a phase counts.
pub(super) fn counted_of(counted: Option<FileCounted>, run: &Run) -> u64 {
    match counted {
        None => 0,
        Some(FileCounted::ReadBytes) => run.application.read,
        Some(FileCounted::WrittenBytes) => run.application.written,
        Some(FileCounted::Bytes) => run.application.total(),
        Some(FileCounted::Of(class)) => run.latency.get(class.name()).map_or(0, Histogram::total),
        Some(FileCounted::Operations) => run.operations,
    }
}

/// Returns the bytes that an operation moved.
pub(super) fn moved(issue: &FileIssue, answer: Answer) -> Traffic {
    let reads = matches!(
        issue.action,
        Action::Read(..) | Action::GetBytes(..) | Action::ReadWhole(..)
    );
    if reads {
        Traffic::of_reads(answer.bytes)
    } else {
        Traffic::of_writes(answer.bytes)
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
        user_ns: sum(|usage| usage.user_ns),
        system_ns: sum(|usage| usage.system_ns),
        blocks_in: sum(|usage| usage.blocks_in),
        blocks_out: sum(|usage| usage.blocks_out),
        voluntary_switches: sum(|usage| usage.voluntary_switches),
        involuntary_switches: sum(|usage| usage.involuntary_switches),
        major_faults: sum(|usage| usage.major_faults),
    }
}

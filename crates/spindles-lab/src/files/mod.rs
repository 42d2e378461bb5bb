//! Runs a phase of a workload on files: in a folder, or on a bare target.
//!
//! The timed window lasts from the first timed operation of any actor to the end of the last, or
//! until the time of an endless phase is over. This module knows nothing of arrays or experiments.

mod blocks;
mod folder;
mod hands;

pub(crate) use blocks::Blocks;
pub(crate) use folder::{Course, run as run_in_folder};

use crate::clock::{self, MachineTicks};
use crate::recorder::{Clock, Collector, Counted, Recorder};
use spindles_device::ThreadUsage;
use spindles_measure::{Histogram, MemberUse, Series, ThreadUse, Traffic, Usage};
use spindles_workload::file::{Action, Answer, FileCounted, FileIssue, FileNext, FilePlan};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

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

/// Measures the harness's own ceiling: the rate of a phase whose operations take no time. Repeats
/// the phase until `duration` has passed. One thread plays all actors, so several threads may
/// exceed it.
pub(crate) fn ceiling(plan: &FilePlan, phase: usize, duration: Duration) -> u64 {
    let facts = &plan.phases()[phase];
    let collector = Collector::default();
    let mut recorder = Recorder::new(Clock::start(None), &collector);
    let mut elapsed = Duration::ZERO;
    while elapsed < duration {
        let mut workload = plan.start(phase);
        let mut ready: VecDeque<(u32, Option<Answer>)> =
            (0..facts.actors).map(|it| (it, None)).collect();
        let began = Instant::now();
        let mut before = began;
        while let Some((actor, answer)) = ready.pop_front() {
            match workload.step(actor, answer) {
                FileNext::Do(issue) => {
                    let answer = as_asked(&issue);
                    let now = Instant::now();
                    if issue.timed {
                        recorder.count(issue.class, before, now, moved(&issue, answer));
                    }
                    before = now;
                    ready.push_back((actor, Some(answer)));
                }
                FileNext::Wait | FileNext::Done => {}
            }
            while let Some(woken) = workload.woken() {
                ready.push_back((woken, None));
            }
            if elapsed + (before - began) > duration {
                break;
            }
        }
        if before == began {
            break; // The phase has no operations.
        }
        elapsed += before - began;
    }
    recorder.hand_over();
    let clock = Clock::start(None);
    let all = collector.take_counted(&clock);
    let elapsed_ns = clock::duration_ns(elapsed);
    crate::calibrate::per_second(counted_of(facts.counted, &all), elapsed_ns)
}

/// Returns the answer to an operation that moved all requested bytes.
fn as_asked(issue: &FileIssue) -> Answer {
    let bytes = match issue.action {
        Action::Read(_, _, bytes)
        | Action::Write(_, _, bytes)
        | Action::Append(_, bytes)
        | Action::ReadWhole(_, bytes)
        | Action::PutBytes(_, bytes)
        | Action::GetBytes(_, bytes) => bytes.into(),
        _ => 0,
    };
    Answer { bytes }
}

fn counted_of(counted: Option<FileCounted>, all: &Counted) -> u64 {
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
fn moved(issue: &FileIssue, answer: Answer) -> Traffic {
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
fn usage_of(threads: &[(ThreadUsage, ThreadUsage)]) -> Usage {
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

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_workload::file::{Value, by_name};

    #[test]
    fn a_short_phase_has_the_same_ceiling_as_a_long_one() {
        let ceiling_with = |files: u64| {
            let kind = by_name("touch").expect("it is a kind");
            let chosen = BTreeMap::from([("files".to_owned(), Value::Number(files))]);
            let plan = kind.plan(&chosen, 1.0, 7).expect("it may have so many");
            ceiling(&plan, 1, Duration::from_millis(50))
        };
        let [short, long] = [10, 10_000].map(ceiling_with);
        assert!(short * 4 > long, "{short}, {long}");
    }
}

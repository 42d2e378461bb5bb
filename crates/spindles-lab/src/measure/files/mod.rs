//! Runs a phase of a workload on files: in a folder, on a bare target, or on a modelled host.
//!
//! The timed window lasts from the first timed operation of any actor to the end of the last, or
//! until the time of an endless phase is over. This module knows nothing of arrays or experiments.

mod blocks;
mod folder;
mod hands;
mod hosted;
mod measured;

pub(crate) use blocks::Blocks;
pub(crate) use folder::{Course, run as run_in_folder};
pub(crate) use hosted::{HostPlan, Hosted};

use crate::machine::clock;
use crate::measure::recorder::{Clock, Collector, Recorder};
use measured::{counted_of, moved};
use spindles_workload::file::{Action, Answer, FileIssue, FileNext, FilePlan};
use std::collections::VecDeque;
use std::time::Duration;

/// Measures the harness's own ceiling: the rate of a phase whose operations take no time. Repeats
/// the phase until `duration` has passed. One thread plays all actors, so several threads may
/// exceed it.
pub(crate) fn ceiling(plan: &FilePlan, phase: usize, duration: Duration) -> u64 {
    let facts = &plan.phases()[phase];
    let collector = Collector::default();
    let mut recorder = Recorder::new(Clock::start(clock::now(), None), &collector);
    let duration_ns = clock::duration_ns(duration);
    let mut elapsed_ns = 0;
    while elapsed_ns < duration_ns {
        let mut workload = plan.start(phase);
        let mut ready: VecDeque<(u32, Option<Answer>)> =
            (0..facts.actors).map(|actor| (actor, None)).collect();
        let began = clock::now();
        let mut before = began;
        while let Some((actor, answer)) = ready.pop_front() {
            match workload.step(actor, answer) {
                FileNext::Do(issue) => {
                    let answer = as_asked(&issue);
                    let now = clock::now();
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
            if elapsed_ns + before.ns_since(began) > duration_ns {
                break;
            }
        }
        if before == began {
            break; // The phase has no operations.
        }
        elapsed_ns += before.ns_since(began);
    }
    recorder.hand_over();
    let clock = Clock::start(clock::now(), None);
    let all = collector.take_counted(&clock);
    clock::per_second(counted_of(facts.counted, &all), elapsed_ns)
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

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_workload::file::{Value, by_name};
    use std::collections::BTreeMap;

    #[test]
    fn a_short_phase_has_the_same_ceiling_as_a_long_one() {
        let ceiling_with = |files: u64| {
            let kind = by_name("touch").expect("it is a kind");
            let chosen = BTreeMap::from([("files".to_owned(), Value::Number(files))]);
            let plan = kind
                .plan(&chosen, 1.0, 7)
                .expect("the number of files is allowed");
            ceiling(&plan, 1, Duration::from_millis(50))
        };
        let [short, long] = [10, 10_000].map(ceiling_with);
        assert!(short * 4 > long, "{short}, {long}");
    }
}

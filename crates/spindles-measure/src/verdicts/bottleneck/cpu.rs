//! The CPU time of the machine, or the part of it that the run gets: other programs may use it, and
//! a control group may limit it.

use super::super::{Intervention, ThreadFacts, percent};
use super::{Reading, Rule};

const BUSY: f64 = 0.9;
/// A thread that waits for a CPU in this share of the time would finish in half the time without
/// waiting.
const WAITS: f64 = 0.5;
/// A thread that is ready for this share of the time falls behind even if it waits less, for the
/// second share.
const READY: f64 = 0.9;
const WAITS_READY: f64 = 0.3;

pub(super) static RULE: Rule = Rule {
    name: "cpu",
    words: "the CPUs of the machine",
    when: "90 % of all CPU time is used, or one thread waits for a CPU half of the time, or 30 % \
        of it and uses one in the rest",
    explains: &["cpu-of-one-thread", "too-few-actors"],
    refuses: false,
    read: |facts| {
        let threads = facts.threads.iter();
        let longest = threads.max_by(|a, b| level(a).total_cmp(&level(b)));
        let waited = longest
            .filter(|longest| longest.waits > 0.0)
            .map(|longest| {
                format!(
                    "; {} used one {} of the time and waited for one {} of it",
                    longest.name,
                    percent(longest.on_cpu),
                    percent(longest.waits)
                )
            });
        (facts.cpus > 0.0).then(|| Reading {
            level: (facts.cpu_busy / BUSY).max(longest.map_or(0.0, level)),
            certain: facts.cpu_busy >= BUSY,
            stands_out: false,
            evidence: format!(
                "the CPUs were {} busy with the run{}",
                percent(facts.cpu_busy),
                waited.unwrap_or_default()
            ),
            intervention: Intervention::LimitCpu,
        })
    },
};

/// How close a thread is to a lack of CPU time; 1 is the limit.
fn level(thread: &ThreadFacts) -> f64 {
    let lags = (thread.ready() / READY).min(thread.waits / WAITS_READY);
    lags.max(thread.waits / WAITS)
}

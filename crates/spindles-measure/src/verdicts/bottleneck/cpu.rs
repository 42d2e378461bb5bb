//! All CPUs of the machine, or all the time of them that may be used.

use super::super::{Intervention, percent};
use super::{Reading, Rule};

const BUSY: f64 = 0.9;
/// Threads wait for a CPU nearly always: with a limit on CPU time that shows where the CPUs look idle.
const PRESSURE: f64 = 0.9;

pub(super) static RULE: Rule = Rule {
    name: "cpu",
    words: "the CPUs of the machine",
    when: "90 % of all CPU time is used, or some thread waits for a CPU in 90 % of the time",
    explains: &["cpu-of-one-thread", "too-few-actors"],
    refuses: false,
    read: |facts| {
        let waits = facts.cpu_pressure.unwrap_or(0.0);
        let waited = (facts.cpu_pressure).map_or(String::new(), |_| {
            format!(
                ", some thread of the machine waited for one in {} of the time",
                percent(waits)
            )
        });
        (facts.cpus > 0.0).then(|| Reading {
            level: (facts.cpu_busy / BUSY).max(waits / PRESSURE),
            certain: facts.cpu_busy >= BUSY,
            evidence: format!(
                "the CPUs were {} busy with the run{waited}",
                percent(facts.cpu_busy)
            ),
            intervention: Intervention::LimitCpu,
        })
    },
};

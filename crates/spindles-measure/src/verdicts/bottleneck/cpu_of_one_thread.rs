//! A thread that has a CPU to itself and needs all of it: parity, or a single stream.

use super::super::{Intervention, percent};
use super::{Reading, Rule};

const BUSY: f64 = 0.9;

pub(super) static RULE: Rule = Rule {
    name: "cpu-of-one-thread",
    words: "the CPU time of one thread",
    when: "one thread uses a CPU 90 % of the time",
    explains: &[],
    refuses: false,
    read: |facts| {
        let thread = facts.threads.first()?;
        Some(Reading {
            level: thread.on_cpu / BUSY,
            // If all CPUs are busy, this thread is not the only one short of them.
            certain: facts.cpu_busy < 0.8,
            stands_out: false,
            evidence: format!(
                "{} used a CPU {} of the time",
                thread.name,
                percent(thread.on_cpu)
            ),
            intervention: Intervention::TwoStreams,
        })
    },
};

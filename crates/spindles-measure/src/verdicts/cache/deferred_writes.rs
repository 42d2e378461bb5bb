//! C2: bytes that were not yet on a device when the clock stopped.

use super::super::{Intervention, bytes, percent};
use super::{CacheRule, CacheVerdict, Grade, grade};
use crate::histogram::to_f64;

/// Shorter times would be shown as 0.00 s.
const SETTLE_NS_MIN: f64 = 5e6;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C2",
    name: "deferred-writes",
    when: "more than 5 % of the written bytes were not on the devices when the clock stopped; more \
        than 20 %: a cache figure",
    decide: |facts| {
        let written = to_f64(facts.application.written);
        let due = written * facts.write_amplification_min;
        let missing = facts
            .moved
            .map(|moved| (1.0 - to_f64(moved.written) / due.max(1.0)).max(0.0));
        // Pages in memory decide only if the devices were not counted. Otherwise they are a note,
        // since an array may write more than it must.
        let by_memory = grade(facts.waiting_share);
        let found = match missing {
            None => by_memory,
            Some(missing) => grade(missing).or(by_memory.and(Some(Grade::Note))),
        };
        let share = missing.unwrap_or(0.0).max(facts.waiting_share);
        let waited = if facts.waiting_bytes > 0.0 {
            format!("; {} of a run waited in memory", bytes(facts.waiting_bytes))
        } else {
            String::new()
        };
        let settled = if facts.settle_ns >= SETTLE_NS_MIN {
            format!("; writing it took another {:.2} s", facts.settle_ns / 1e9)
        } else {
            String::new()
        };
        (written > 0.0).then_some(())?;
        Some(CacheVerdict {
            rule: RULE.name,
            grade: found?,
            evidence: format!(
                "{} of the written data was not on the devices when the clock \
                 stopped{waited}{settled}",
                percent(share),
            ),
            intervention: Intervention::CountFlush,
        })
    },
};

//! C2: bytes that were not yet on a device when the clock stopped.

use super::super::{Intervention, bytes, percent};
use super::{CacheRule, CacheVerdict, Grade, grade};
use crate::histogram::to_f64;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C2",
    name: "deferred-writes",
    when: "more than 5 % of the bytes to be written were not on the devices when the clock stopped; more than 20 %: a cache figure",
    decide: |facts| {
        let written = to_f64(facts.application.written);
        let due = written * facts.write_amplification_min;
        let missing = facts
            .moved
            .map(|it| (1.0 - to_f64(it.written) / due.max(1.0)).max(0.0));
        let cache = &facts.cache;
        let more_dirty = to_f64(cache.dirty_after.saturating_sub(cache.dirty_before));
        // Dirty pages may be another program's: those beyond what was written are, and so are all of them where
        // the workload uses direct I/O. They decide only where devices were not counted. Elsewhere they are a
        // note, since an array may write more than it must.
        let dirty = more_dirty / written.max(1.0);
        let by_dirty = grade(dirty).filter(|_| dirty <= 1.1 && !facts.direct);
        let found = match missing {
            None => by_dirty,
            Some(missing) => grade(missing).or(by_dirty.and(Some(Grade::Note))),
        };
        let share = missing.unwrap_or(0.0).max(dirty.min(1.0));
        let settled = (cache.settle_ns > 0)
            .then(|| format!(", and took another {:.2} s", to_f64(cache.settle_ns) / 1e9));
        (written > 0.0).then_some(())?;
        Some(CacheVerdict {
            rule: RULE.name,
            grade: found?,
            evidence: format!(
                "{} of what was to be written was not on the devices when the clock stopped; {} more \
                 were waiting in memory{}",
                percent(share),
                bytes(more_dirty),
                settled.unwrap_or_default()
            ),
            intervention: Intervention::CountFlush,
        })
    },
};

//! C8: the same work without caches is slower.

use super::super::Intervention;
use super::{CacheRule, CacheVerdict, Grade};

/// Smallest ratio that counts.
const RATIO: f64 = 1.5;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C8",
    name: "control-run",
    when: "the same work is slower by a factor of 1.5 with caches bypassed or emptied first",
    decide: |facts| {
        let ratio = facts.per_second / facts.without_cache?;
        (ratio > RATIO).then(|| CacheVerdict {
            rule: RULE.name,
            grade: Grade::CacheFigure,
            evidence: format!("{ratio:.1} times as fast as the same work without caches"),
            intervention: Intervention::WithoutCache,
        })
    },
};

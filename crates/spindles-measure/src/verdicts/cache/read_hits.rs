//! C1: bytes read that did not come from a device.

use super::super::{Intervention, percent};
use super::{CacheRule, CacheVerdict, grade};
use crate::Traffic;
use crate::histogram::to_f64;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C1",
    name: "read-hits",
    when: "more than 5 % of the bytes read did not come from the devices; more than 20 %: a cache \
        figure",
    decide: |facts| {
        let share = hit_share(facts.application, facts.moved?)?;
        Some(CacheVerdict {
            rule: RULE.name,
            grade: grade(share)?,
            evidence: format!(
                "{} of the bytes read did not come from the devices",
                percent(share)
            ),
            intervention: Intervention::WithoutCache,
        })
    },
};

/// Share of the requested bytes that was not read below. Reading more than requested is no hit.
pub(crate) fn hit_share(asked: Traffic, below: Traffic) -> Option<f64> {
    (asked.read > 0).then(|| (1.0 - to_f64(below.read) / to_f64(asked.read)).max(0.0))
}

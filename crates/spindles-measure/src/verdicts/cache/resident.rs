//! C3: data in memory before the clock started.

use super::super::{Intervention, percent};
use super::{CacheRule, CacheVerdict, grade};

pub(super) static RULE: CacheRule = CacheRule {
    id: "C3",
    name: "resident",
    when: "more than 5 % of the files were in memory before they were read; more than 20 %: a \
        cache figure",
    decide: |facts| {
        let share = f64::from(facts.cache.resident_permille?) / 1000.0;
        // Direct reads and mere writes don't profit from it.
        (facts.application.read > 0 && !facts.direct).then_some(())?;
        Some(CacheVerdict {
            rule: RULE.name,
            grade: grade(share)?,
            evidence: format!(
                "{} of the files were in memory at the start",
                percent(share)
            ),
            intervention: Intervention::WithoutCache,
        })
    },
};

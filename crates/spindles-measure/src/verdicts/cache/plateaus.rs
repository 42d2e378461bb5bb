//! C6: rates that fall in steps as sizes grow. Each step is a cache that no longer holds
//! everything.

use super::super::{Intervention, bytes};
use super::{CacheRule, CacheVerdict, Grade};
use crate::statistics::plateaus;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C6",
    name: "plateaus",
    when: "the rate of the same work falls in steps as its size grows, and this size is above the \
        lowest step",
    decide: |facts| {
        let found = plateaus(&facts.sweep);
        let steps: Vec<String> = found
            .windows(2)
            .filter(|two| two[1].rate < two[0].rate)
            .map(|two| {
                format!(
                    "by a factor of {:.1} between {} and {}",
                    two[0].rate / two[1].rate,
                    bytes(two[0].last),
                    bytes(two[1].first)
                )
            })
            .collect();
        let lowest = found.last()?.rate;
        let above = facts.per_second / lowest;
        // At least midway between two plateaus, as a ratio.
        (!steps.is_empty() && above > 1.25).then(|| CacheVerdict {
            rule: RULE.name,
            grade: if above > 1.5 {
                Grade::CacheFigure
            } else {
                Grade::Note
            },
            evidence: format!(
                "the rate falls {} as sizes grow, and here is {above:.1} times that of the largest \
                 size",
                steps.join(" and ")
            ),
            intervention: Intervention::LargerFiles,
        })
    },
};

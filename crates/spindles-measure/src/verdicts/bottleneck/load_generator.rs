//! The load generator cannot issue requests faster.

use super::super::{Facts, Intervention};
use super::{Reading, Rule};

/// Share of the harness's own ceiling from which a result is refused.
pub const CEILING_SHARE_MAX: f64 = 0.7;

pub(super) static RULE: Rule = Rule {
    name: "load-generator",
    words: "the load generator",
    when: "the rate is at least 70 % of what the harness does on a target that does nothing",
    explains: &[],
    refuses: true,
    read: |facts| {
        let share = facts.per_second / facts.ceiling?;
        Some(Reading {
            level: share / CEILING_SHARE_MAX,
            certain: true,
            stands_out: false,
            evidence: format!(
                "the rate is {:.0} % of what the harness does on a target that does nothing",
                share * 100.0
            ),
            intervention: Intervention::SecondGenerator,
        })
    },
};

/// Returns true if a result is refused because it measures the harness rather than the system.
pub(crate) fn is_refused(per_second: f64, ceiling: Option<f64>) -> bool {
    let facts = Facts {
        per_second,
        ceiling,
        ..Facts::default()
    };
    (RULE.read)(&facts).is_some_and(|it| it.level >= 1.0)
}

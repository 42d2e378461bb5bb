//! The load generator cannot issue requests faster.

use super::super::Intervention;
use super::{Reading, Rule};
use crate::ceiling;

pub(super) static RULE: Rule = Rule {
    name: "load-generator",
    words: "the load generator",
    when: "the rate is at least 70 % of the harness's own rate on a target that does nothing",
    explains: &[],
    refuses: true,
    read: |facts| {
        let ceiling = facts.ceiling?;
        Some(Reading {
            level: ceiling::level(facts.per_second, ceiling),
            certain: true,
            stands_out: false,
            evidence: format!(
                "the rate is {:.0} % of the harness's own rate on a target that does nothing",
                facts.per_second / ceiling * 100.0
            ),
            intervention: Intervention::SecondGenerator,
        })
    },
};

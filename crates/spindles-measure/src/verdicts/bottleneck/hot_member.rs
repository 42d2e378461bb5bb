//! A member with more requests than the others.

use super::super::Intervention;
use super::super::facts::HOT;
use super::slow_member::{evidence, odd_one};
use super::{Reading, Rule};

pub(super) static RULE: Rule = Rule {
    name: "one-hot-member",
    words: "one member that gets more requests than the others",
    when: "one member gets 1.25 times the requests of the others and is busy 90 % of the time: 1.2 \
        times the mean, or with 3 times the requests in flight if it has no arm",
    explains: &["flushes", "members", "metadata"],
    refuses: false,
    read: |facts| {
        let (member, level, asked) = odd_one(&facts.members)?;
        (asked >= HOT).then(|| Reading {
            level,
            certain: false,
            stands_out: false,
            evidence: evidence(facts, member),
            intervention: Intervention::SpreadLoad,
        })
    },
};

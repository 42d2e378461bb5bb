//! One member that is asked for more than the others.

use super::super::{Intervention, percent};
use super::slow_member::{self, odd_one};
use super::{Reading, Rule, mean_of};

pub(super) static RULE: Rule = Rule {
    name: "one-hot-member",
    words: "one member that is asked for more than the others",
    when: "one member is busy in 90 % of the time, 1.2 times the mean or without an arm and with 3 times the requests in flight, and is asked for 1.25 times what others are",
    explains: &["flushes", "members", "metadata"],
    refuses: false,
    read: |facts| {
        let (member, level, asked) = odd_one(facts)?;
        (asked >= slow_member::HOT).then(|| Reading {
            level,
            certain: false,
            evidence: format!(
                "{} was {} busy, all members {} on average, and was asked for {} of what the others were",
                member.name,
                percent(member.busy),
                percent(mean_of(facts, |it| it.busy)),
                percent(asked)
            ),
            intervention: Intervention::SpreadLoad,
        })
    },
};

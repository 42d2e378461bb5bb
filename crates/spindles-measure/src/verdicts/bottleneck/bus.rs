//! The shared path of the members to memory: a bus, a controller, an expander.

use super::super::{Intervention, MemberFacts, megabytes};
use super::{Reading, Rule};

/// Members share a path if their rate together is below this fraction of the sum of their rates
/// alone.
const SHARED: f64 = 0.9;
const BUSY: f64 = 0.9;

pub(super) static RULE: Rule = Rule {
    name: "bus",
    words: "the bus or controller that the members share",
    when: "the members together read less than 90 % of their rates alone in sum, and move 90 % of \
        that here",
    explains: &["one-slow-member", "one-hot-member", "flushes", "members"],
    refuses: false,
    read: |facts| {
        let together = facts.together_bytes_per_s?;
        let sum = facts.sum_alone(|member| member.read_bytes_per_s)?;
        let rate: f64 = facts.members.iter().map(MemberFacts::bytes_per_s).sum();
        (facts.members.len() > 1 && together < SHARED * sum).then(|| Reading {
            level: rate / together / BUSY,
            // A shared link also limits them, but has a rule of its own.
            certain: facts
                .links
                .iter()
                .all(|link| link.busy.is_some_and(|busy| busy < 0.8)),
            stands_out: false,
            evidence: format!(
                "the members moved {}; at most they read {} together, and {} in sum when each \
                 reads alone",
                megabytes(rate),
                megabytes(together),
                megabytes(sum)
            ),
            intervention: Intervention::LeaveMemberOut,
        })
    },
};

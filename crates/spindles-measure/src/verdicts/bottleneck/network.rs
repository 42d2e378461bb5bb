//! A saturated network link.

use super::super::{Intervention, percent};
use super::{Reading, Rule};

const BUSY: f64 = 0.9;
/// Number of packets delayed or dropped for each 64 KiB, from which a link of unknown capacity is
/// at its limit. For a known capacity it means nothing: any shaped link delays bursts.
const HELD_BACK: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "network",
    words: "the network",
    when: "a link carries 90 % of its capacity in one direction or, if that is unknown, holds back \
        half of its packets",
    explains: &[
        // Other programs may keep its threads from a CPU, but a full link would be no faster
        // otherwise.
        "cpu",
        "bus",
        "one-slow-member",
        "one-hot-member",
        "flushes",
        "members",
        "metadata",
    ],
    refuses: false,
    read: |facts| {
        let level = |link: &super::super::LinkFacts| {
            link.busy
                .map_or(link.held_back / HELD_BACK, |busy| busy / BUSY)
        };
        let link = facts
            .links
            .iter()
            .max_by(|a, b| level(a).total_cmp(&level(b)))?;
        let busy = link.busy.map_or("an unknown share".to_owned(), percent);
        Some(Reading {
            level: level(link),
            certain: link.busy.is_some_and(|busy| busy >= BUSY),
            stands_out: false,
            evidence: format!(
                "{} carried {busy} of its capacity, and held back or dropped {:.1} packets for \
                 each 64 KiB",
                link.name, link.held_back
            ),
            intervention: Intervention::ShapeLink,
        })
    },
};

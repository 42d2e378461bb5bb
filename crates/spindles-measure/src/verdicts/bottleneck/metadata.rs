//! Names and attributes: locks and the order of a journal, while everything idles.

use super::super::{Intervention, percent};
use super::{Reading, Rule};

const SHARE: f64 = 0.5;
/// Everything idles below this share.
const IDLE: f64 = 0.6;
/// More actors bring no more from this growth on downwards.
const FLAT: f64 = 1.2;

pub(super) static RULE: Rule = Rule {
    name: "metadata",
    words: "metadata or a lock",
    when: "several actors spend half of their time on names and attributes, and nothing is used to 60 %",
    explains: &["too-few-actors"],
    refuses: false,
    read: |facts| {
        let share = facts.metadata_share();
        let (name, most) = facts.busiest()?;
        // One actor alone does not wait for others: it is too few.
        let flat = match facts.more_actors {
            Some((_, growth)) => growth <= FLAT,
            None => facts.actors >= 2.0,
        };
        flat.then(|| Reading {
            level: (share / SHARE).min(IDLE / most.max(f64::MIN_POSITIVE)),
            certain: facts.more_actors.is_some(),
            stands_out: false,
            evidence: format!(
                "actors spent {} of their time on names and attributes, and {name}, nearest its limit, was at {} of it",
                percent(share),
                percent(most)
            ),
            intervention: Intervention::HalveActors,
        })
    },
};

//! Names and attributes: locks and the order of a journal, while all resources are idle.

use super::super::{Intervention, percent};
use super::{Reading, Rule};

const SHARE: f64 = 0.5;
/// Resources below this level are idle.
const IDLE: f64 = 0.6;
/// Growth of the rate up to which more actors are useless.
const FLAT: f64 = 1.2;

pub(super) static RULE: Rule = Rule {
    name: "metadata",
    words: "metadata or a lock",
    when: "several actors spend half of their time on names and attributes, and no resource \
        reaches 60 % of its limit",
    explains: &["too-few-actors"],
    refuses: false,
    read: |facts| {
        let share = facts.metadata_share();
        let (name, most) = facts.busiest()?;
        // A single actor does not wait for others; it is too few.
        let flat = match facts.more_actors {
            Some((_, growth)) => growth <= FLAT,
            None => facts.actors >= 2.0,
        };
        flat.then(|| Reading {
            level: (share / SHARE).min(IDLE / most.max(f64::MIN_POSITIVE)),
            certain: facts.more_actors.is_some(),
            stands_out: false,
            evidence: format!(
                "actors spent {} of their time on names and attributes, and the resource nearest \
                 its limit, {name}, was at {} of it",
                percent(share),
                percent(most)
            ),
            intervention: Intervention::HalveActors,
        })
    },
};

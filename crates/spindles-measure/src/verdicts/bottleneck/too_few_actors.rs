//! Everything waits for the actors: each of them waits for one answer at a time (Little's law).

use super::super::{Intervention, percent};
use super::{Reading, Rule};

/// Every resource is used less than this.
const IDLE: f64 = 0.6;
/// At least this share of the actors is accounted for; the others might wait for something unknown.
const SEEN: f64 = 0.4;
/// With more actors the rate must grow by at least this fraction of their growth.
const GAIN: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "too-few-actors",
    words: "too few requests at once",
    when: "no resource reaches 60 % of its limit, 40 % of the actors are accounted for, and more \
        actors raise the rate, if that was measured",
    explains: &[],
    refuses: false,
    read: |facts| {
        let (name, most) = facts.busiest()?;
        let gains = facts
            .more_actors
            .is_none_or(|(factor, growth)| growth - 1.0 >= GAIN * (factor - 1.0));
        let all_seen = facts.actors_seen() >= SEEN * facts.actors;
        (facts.actors > 0.0 && gains && all_seen).then(|| Reading {
            level: IDLE / most.max(f64::MIN_POSITIVE),
            certain: facts.more_actors.is_some(),
            stands_out: false,
            evidence: format!(
                "{:.0} actor{} for one answer at a time, and the resource nearest its limit, \
                 {name}, was at {} of it",
                facts.actors,
                if facts.actors > 1.0 {
                    "s wait"
                } else {
                    " waits"
                },
                percent(most)
            ),
            intervention: Intervention::DoubleActors,
        })
    },
};

//! The dedicated device of the journal: every write waits for it.

use super::super::{Intervention, milliseconds, percent};
use super::{Reading, Rule};

const SHARE: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "journal",
    words: "the device of the journal",
    when: "half of the actors' time passes with waiting for the device that the journal has for \
        itself",
    explains: &[
        "cpu",
        "cpu-of-one-thread",
        "bus",
        "one-slow-member",
        "one-hot-member",
        "flushes",
        "members",
        "metadata",
        "too-few-actors",
    ],
    refuses: false,
    read: |facts| {
        let journal = facts
            .journal
            .as_ref()
            .filter(|journal| journal.answers > 0.0)?;
        let share = facts.share_for(journal, 0.0);
        Some(Reading {
            level: share / SHARE,
            certain: share >= SHARE,
            stands_out: false,
            evidence: format!(
                "{}, the device of the journal, was {} busy and took {} to answer; {} of the \
                 actors' time passed with waiting for it",
                journal.name,
                percent(journal.busy),
                milliseconds(journal.answer_s),
                percent(share)
            ),
            intervention: Intervention::ReplaceMember {
                member: journal.name.clone(),
            },
        })
    },
};

//! The dedicated device of the journal: every write waits for it.

use super::super::{Intervention, milliseconds, percent};
use super::{Reading, Rule};

const SHARE: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "journal",
    words: "the journal device",
    when: "actors spend half of their time waiting for a dedicated journal device",
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
                "{}, the journal device, was {} busy and took {} to answer; actors waited for it \
                 {} of their time",
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

//! Waiting until writes are durable.

use super::super::{Intervention, percent};
use super::{Reading, Rule, mean_of};

const SHARE: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "flushes",
    words: "waiting for flushes",
    when: "actors spend half of their time in `fsync` and similar calls, or, on a file system \
        mounted `sync`, in calls that change something",
    explains: &["members", "metadata", "too-few-actors"],
    refuses: false,
    read: |facts| {
        let share = facts.sync_share();
        let known = facts.members.iter().all(|member| member.flushing.is_some());
        let flushing = mean_of(facts, |member| member.flushing.unwrap_or(0.0));
        let of_members = (known && !facts.members.is_empty())
            .then(|| format!(", members {} of theirs", percent(flushing)));
        (facts.actors > 0.0).then(|| Reading {
            level: share / SHARE,
            certain: flushing >= SHARE,
            stands_out: false,
            evidence: format!(
                "actors spent {} of their time in {}{}",
                percent(share),
                if facts.mounted_sync {
                    "calls that return once durable (mounted `sync`)"
                } else {
                    "flushes"
                },
                of_members.unwrap_or_default()
            ),
            intervention: Intervention::FsyncOff,
        })
    },
};

//! What arrays lose with a device, before a wipe and after it.

use super::report::survives_more;
use spindles_admin::scan::shell_word;
use spindles_admin::wipe::{Loss, LossKind, Without};
use spindles_array::positions;

/// The tense of a message about losses: before or after the wipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tense {
    Future,
    Past,
}

/// Describes each loss, with its consequence.
pub(crate) fn losses(losses: &[Loss], tense: Tense) -> Vec<String> {
    losses.iter().map(|lost| describe(lost, tense)).collect()
}

fn describe(lost: &Loss, tense: Tense) -> String {
    let loses = match tense {
        Tense::Future => "loses",
        Tense::Past => "lost",
    };
    let uuid = lost.array;
    let name = match &lost.name {
        Some(name) => format!("array '{name}' ({uuid})"),
        None => format!("array {uuid}"),
    };
    match &lost.what {
        LossKind::Spare => format!("{name} {loses} a spare"),
        LossKind::MemberOut(member) => {
            format!("{name} goes on without it as member {member} already, and {loses} nothing")
        }
        LossKind::Member(member, without) => {
            format!(
                "{name} {loses} member {member}{}",
                fate(without, tense, loses)
            )
        }
        LossKind::OldJournal => {
            format!("{name} has no journal there any more, and {loses} nothing")
        }
        LossKind::JournalCopy(other) => format!(
            "{other} has the same journal of {name}: one is a copy of the other, and the array \
             goes on with the one that is left"
        ),
        LossKind::Journal if tense == Tense::Past => {
            format!("{name} {loses} the device of its journal")
        }
        LossKind::Journal => {
            let array = lost.name.as_ref().map(|name| shell_word(name));
            let named = if array.is_none() {
                ", with the name or the devices of that array"
            } else {
                ""
            };
            format!(
                "{name} {loses} the device of its journal: `spindles journal remove --array {}` \
                 takes it away in order{named}",
                array.unwrap_or("ARRAY".into())
            )
        }
    }
}

/// Says how the array is without the member.
fn fate(without: &Without, tense: Tense, loses: &str) -> String {
    let then = match tense {
        Tense::Future => "then",
        Tense::Past => "now",
    };
    match without {
        Without::Degraded(more) => {
            format!("; the array is degraded {then}: {}", survives_more(*more))
        }
        Without::Needs(others) => {
            let others = positions(*others);
            format!("; the array can't be read {then} unless {others} can be found")
        }
        Without::Gone => {
            format!(", and all others: the array is gone {then}, with all that it holds")
        }
        Without::Unreadable { others, around } => {
            let others = if *others { ", leaving too few" } else { "" };
            let around = around.as_ref().map_or_else(String::new, |around| {
                format!(", and array '{around}' around it {loses} a member")
            });
            format!("{others}: the array can't be read {then}{around}")
        }
    }
}

//! Why a device can't take a place of an array.

use crate::TooSmall;
use crate::lists::few;
use crate::shell::shell_word;
use spindles_block::MemberIndex;
use spindles_device::errors::OpenError;
use spindles_engine::{CommandError, Role};
use std::io;
use thiserror::Error;

/// Why a device can't take the place of a missing one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No place is vacant.
    #[error(
        "no member is missing, so there is nothing to rebuild: `spindles replace` exchanges a \
         device that works, and `spindles spare add` keeps one for later"
    )]
    NothingMissing,
    /// That position is not vacant.
    #[error(
        "member {member} is not one that is missing: a device takes the place of a missing one \
         only{}",
        listed("; missing: ", missing)
    )]
    NotMissing {
        /// The position.
        member: MemberIndex,
        /// The missing members, each with its array.
        missing: Vec<String>,
    },
    /// The device is no active member.
    #[error(
        "{device} is not an active member of this array: what is missing or not filled yet is \
         rebuilt, not replaced{}",
        listed("; active: ", active)
    )]
    NotActive {
        /// The device.
        device: String,
        /// The active devices.
        active: Vec<String>,
    },
    /// The device is no member, or it is out.
    #[error(
        "{device} is no member of this array, or is out already{}",
        listed("; active: ", active)
    )]
    NotMember {
        /// The device.
        device: String,
        /// The active devices.
        active: Vec<String>,
    },
    /// The device was never a member, or its data is too old to catch up.
    #[error(
        "{device} is no missing member that can be brought up to date by what it missed: `spindles \
         rebuild` with --onto fills it completely"
    )]
    NotReturning {
        /// The device.
        device: String,
    },
    /// The device is an active member, or does not belong to the array.
    #[error(
        "{device} is not a member that is out: only what is out can be removed; `spindles fail` \
         puts one out{}",
        listed("; out: ", out)
    )]
    NotOut {
        /// The device.
        device: String,
        /// The devices that are out.
        out: Vec<String>,
    },
    /// The device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// The device could not be cleared. No other device was written.
    #[error("{device}: can't clear what it holds: {source}")]
    Clear {
        /// The device.
        device: String,
        /// The reason.
        source: io::Error,
    },
    /// Another array took the spare first.
    #[error("{device} is not a spare of this array any more: another array may have taken it")]
    TakenAlready {
        /// The device.
        device: String,
    },
    /// An array uses the device already.
    #[error("{device} is {role} in array '{array}': {}", remedy(*role))]
    InUse {
        /// The array.
        array: String,
        /// The device.
        device: String,
        /// Its role.
        role: Role,
    },
    /// The array can't be closed for a change.
    #[error("array '{array}' can't be changed now: {reason}")]
    Unchanged {
        /// The array.
        array: String,
        /// The engine's answer.
        reason: CommandError,
    },
    /// The array does not take that member out.
    #[error(
        "{device} stays a member of array '{array}': {}",
        why_it_stays(*reason, outermost, device)
    )]
    StaysIn {
        /// The array.
        array: String,
        /// The outermost array, which commands take: `array` itself, or the one around it.
        outermost: String,
        /// The device.
        device: String,
        /// The engine's answer.
        reason: CommandError,
    },
    /// The array refuses it.
    #[error("the array can't take {device}: {reason}")]
    Refused {
        /// The device.
        device: String,
        /// The engine's answer.
        reason: CommandError,
    },
}

/// Returns the remedy for a device that is in use.
const fn remedy(role: Role) -> &'static str {
    match role {
        Role::Replacement(_) => {
            "wait until the copy has ended, or stop that command with Ctrl-C; nothing was changed"
        }
        Role::Replaced(_) | Role::Joining(_) => "try again in a moment; nothing was changed",
        Role::Filling(_) | Role::Active(_) => {
            "`spindles fail` puts it out first; nothing was changed"
        }
        Role::Journal => "`spindles journal remove` takes it away first; nothing was changed",
        Role::Out(_) => "`spindles remove` lets go of it first; nothing was changed",
        Role::Spare => "`spindles spare remove` takes it away first; nothing was changed",
        Role::Stranger => "give another device; nothing was changed",
    }
}

/// Explains why a member stays in, with a remedy.
fn why_it_stays(reason: CommandError, array: &str, device: &str) -> String {
    let (array, device) = (shell_word(array), shell_word(device));
    match reason {
        CommandError::BeyondTolerance => format!(
            "the array would not survive without it. `spindles replace {device} {array} --onto \
             DEV` exchanges it while it works; if others are missing, `spindles status {array}` \
             says how to bring them back first"
        ),
        CommandError::AlreadyOut => format!(
            "it is out already: `spindles remove {device} {array}` lets go of the device, and \
             `spindles add` takes it back"
        ),
        reason => reason.to_string(),
    }
}

/// Lists names after a title; empty if there are none.
fn listed(title: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("{title}{}", few(names)),
    }
}

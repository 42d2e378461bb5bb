//! Why a device can't take a place of an array.

use super::lists::few;
use super::open::OpenError;
use crate::TooSmall;
use crate::shell::shell_word;
use spindles_block::MemberIndex;
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
    /// No position waits for a device.
    #[error(
        "no member is missing, so there is nothing to rebuild: `spindles replace` exchanges a device that works, and `spindles spare add` keeps one for later"
    )]
    NothingMissing,
    /// That position does not.
    #[error(
        "member {member} is not one that is missing: a device takes the place of a missing one only{}",
        listed("; missing: ", missing)
    )]
    NotMissing {
        /// The position.
        member: MemberIndex,
        /// Those that are, each with its array.
        missing: Vec<String>,
    },
    /// The device is no member that works.
    #[error(
        "{device} is not an active member of this array: what is missing or not filled yet is rebuilt, not replaced{}",
        listed("; active: ", active)
    )]
    NotActive {
        /// The device.
        device: String,
        /// The devices that are.
        active: Vec<String>,
    },
    /// The device is no member, or one that is out.
    #[error(
        "{device} is no member of this array, or is out already{}",
        listed("; active: ", active)
    )]
    NotMember {
        /// The device.
        device: String,
        /// The devices that are.
        active: Vec<String>,
    },
    /// The device is none that was a member, or others went on without what it holds.
    #[error(
        "{device} is no missing member that can be brought up to date by what it missed: `spindles rebuild` with --onto fills it anew"
    )]
    NotReturning {
        /// The device.
        device: String,
    },
    /// The device is a member that works, or is no device of the array.
    #[error(
        "{device} is not a member that is out: only what is out can be removed; `spindles fail` puts one out{}",
        listed("; out: ", out)
    )]
    NotOut {
        /// The device.
        device: String,
        /// The devices that are.
        out: Vec<String>,
    },
    /// The device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// It can't be cleared. Nothing else was written.
    #[error("{device}: can't clear what it holds: {source}")]
    Clear {
        /// The device.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody else was faster.
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
        /// What it is there.
        role: Role,
    },
    /// The array is not closed to be changed.
    #[error("array '{array}' can't be changed now: {reason}")]
    Unchanged {
        /// The array.
        array: String,
        /// As the engine answered.
        reason: CommandError,
    },
    /// The array does not put out that member.
    #[error(
        "{device} stays a member of array '{array}': {}",
        why_it_stays(*reason, outermost, device)
    )]
    StaysIn {
        /// The array.
        array: String,
        /// That, or the array around it: what commands are given.
        outermost: String,
        /// The device.
        device: String,
        /// As the engine answered.
        reason: CommandError,
    },
    /// The array does not take it.
    #[error("the array can't take {device}: {reason}")]
    Refused {
        /// The device.
        device: String,
        /// As the engine answered.
        reason: CommandError,
    },
}

/// What to do about a device that is in use.
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

/// Why a member is not put out, and what to do instead.
fn why_it_stays(reason: CommandError, array: &str, device: &str) -> String {
    let (array, device) = (shell_word(array), shell_word(device));
    match reason {
        CommandError::BeyondTolerance => format!(
            "the array would not survive without it. `spindles replace {device} {array} --onto DEV` exchanges it while it \
             works; if others are missing, `spindles status {array}` says how to bring them back first"
        ),
        CommandError::AlreadyOut => format!(
            "it is out already: `spindles remove {device} {array}` lets go of the device, and `spindles add` takes it back"
        ),
        reason => reason.to_string(),
    }
}

/// Nothing, where there is nothing to list.
fn listed(title: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("{title}{}", few(names)),
    }
}

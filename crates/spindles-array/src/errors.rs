//! Why a device can't take a place of an array.

use crate::TooSmall;
use crate::lists::few;
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
    #[error("no member is missing, so there is nothing to rebuild")]
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
        "{device} is not an active member of this array: rebuild members that are missing or \
         not filled yet{}",
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
    #[error("{device} is no missing member that can be brought up to date by what it missed")]
    NotReturning {
        /// The device.
        device: String,
    },
    /// The device is an active member, or does not belong to the array.
    #[error(
        "{device} is not a member that is out: only what is out can be removed{}",
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
    #[error("{device} is {role} in array '{array}': {}nothing was changed", meanwhile(*role))]
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
    #[error("{device} stays a member of array '{array}': {}", why_it_stays(*reason))]
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

/// Says what to do about a device that no command releases.
const fn meanwhile(role: Role) -> &'static str {
    match role {
        Role::Replacement(_) => "wait until the copy has ended, or stop that command with Ctrl-C; ",
        Role::Replaced(_) | Role::Joining(_) => "try again in a moment; ",
        Role::Stranger => "give another device; ",
        Role::Filling(_) | Role::Active(_) | Role::Journal | Role::Out(_) | Role::Spare => "",
    }
}

/// Explains why a member stays in.
fn why_it_stays(reason: CommandError) -> String {
    match reason {
        CommandError::BeyondTolerance => "the array would not survive without it".to_owned(),
        CommandError::AlreadyOut => "it is out already".to_owned(),
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

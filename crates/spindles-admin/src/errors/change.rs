//! Why the devices of an array were not changed.

use super::{AssembleError, CreateError, ScanError};
use crate::report::ArrayReport;
use spindles_array::TooSmall;
use spindles_array::errors::AttachError;
use spindles_array::lists::few;
use spindles_block::{MemberIndex, SizeBytes, counted};
use spindles_device::identity::same;
use spindles_device::{CloseError, OpenError};
use spindles_format::SPARE_ARRAYS_MAX;
use spindles_layout::GeometryError;
use std::fmt;
use thiserror::Error;

/// Why the devices of an array were not changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The array could not be assembled, or can't change that way.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// A new device is unsuitable.
    #[error(transparent)]
    Device(#[from] CreateError),
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The name belongs to another array.
    #[error(transparent)]
    Name(#[from] ScanError),
    /// A new device can't take its place.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A device was given twice.
    #[error("{}: give another one", same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
    /// No rebuild is pending, members are missing, and no device was given.
    #[error("{}, and no device is there to be filled", .0.lacks_any())]
    NothingToRebuild(Box<ArrayReport>),
    /// A device belongs to an inner array that lacks too many members.
    #[error(
        "{device} is a member of array '{array}', of which too much is missing: bring back its \
         other devices too, and add them, then it comes back as a whole; or have {device} \
         overwritten with --force"
    )]
    OfArrayAway {
        /// The device.
        device: String,
        /// The array.
        array: String,
    },
    /// The new device failed.
    #[error(
        "array '{array}': the device in the place of member {member} failed while it was filled"
    )]
    RebuildOut {
        /// The array.
        array: String,
        /// The position.
        member: MemberIndex,
    },
    /// `progress` stopped the copy.
    #[error(
        "array '{array}': the copy was stopped; {old} is a member as before, and {onto} is not: \
         the next replacement starts over"
    )]
    ReplaceStopped {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// The new device failed.
    #[error(
        "array '{array}': {onto} failed while it was copied onto; {old} is a member as before: \
         give another device"
    )]
    ReplacementFailed {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// Some places could not be read.
    #[error(
        "array '{array}': {} can be read neither from {old} nor from the other members, so it \
         stays a member; restore these places from a backup",
        counted(*failed, "place")
    )]
    Unreadable {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// Number of places.
        failed: u64,
    },
    /// The old device went out, and the rebuild onto the new one did not finish.
    #[error("array '{array}': {old} failed, and {onto} is not filled yet")]
    MemberLost {
        /// The array.
        array: String,
        /// The member.
        old: String,
        /// The new device.
        onto: String,
    },
    /// The array lost more members than its level survives.
    #[error("array '{array}' failed while {old} was copied")]
    ReplaceFailed {
        /// The array.
        array: String,
        /// The member.
        old: String,
    },
    /// A new device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// The devices of a new array inside another are too small for its place.
    #[error(
        "{} too small for {} in the place of member {member} of array '{array}': {}",
        are(new),
        made_of(new, left),
        match least_bytes {
            Some(bytes) => format!("take new ones of at least {}", SizeBytes(*bytes)),
            None => format!("what is left, {}, is too small already; leave it \
                out", left.join(", ")),
        }
    )]
    InnerTooSmall {
        /// The outer array.
        array: String,
        /// Its place.
        member: MemberIndex,
        /// Its new devices.
        new: Vec<String>,
        /// Its remaining devices.
        left: Vec<String>,
        /// The smallest sufficient size of the new devices; `None` if no size suffices.
        least_bytes: Option<u64>,
    },
    /// The chunk size is invalid.
    #[error("--chunk: {0}")]
    Chunk(GeometryError),
    /// No growth is in progress, and no change was asked for.
    #[error(
        "array '{array}' is not growing: choose the change with --add, --chunk, --level or \
         --size"
    )]
    NothingToGrow {
        /// The array.
        array: String,
    },
    /// The given device is already a member.
    #[error(
        "{device} is a member of array '{array}' already: the new device has to be another than {}",
        few(members)
    )]
    AlreadyMember {
        /// The array.
        array: String,
        /// The device.
        device: String,
        /// All member devices.
        members: Vec<String>,
    },
    /// The given device is not free: the array needs its data.
    #[error("{device} is {role} of array '{array}'; take another device")]
    Own {
        /// The array.
        array: String,
        /// The device.
        device: String,
        /// Its role.
        role: OwnRole,
    },
    /// The given device is a member that can catch up.
    #[error("{device} is a member of array '{array}' that is out")]
    ComesBack {
        /// The outermost array.
        array: String,
        /// The device.
        device: String,
    },
    /// No growth is in progress.
    #[error("array '{array}' is not growing: there is nothing to cancel")]
    NothingToAbort {
        /// The array.
        array: String,
    },
    /// The array is already growing to another shape.
    #[error("array '{array}' grows already, to something else: let that come to its end first")]
    Growing {
        /// The array.
        array: String,
    },
    /// More devices were given than positions are vacant.
    #[error("array '{array}' grows already, and no position waits for {device}")]
    NoPosition {
        /// The array.
        array: String,
        /// The device.
        device: String,
    },
    /// A member failed before any data was moved.
    #[error("array '{array}': member {member} failed before anything was moved")]
    GrowthOut {
        /// The array.
        array: String,
        /// The position.
        member: MemberIndex,
    },
    /// Too many members are missing.
    #[error(
        "array '{array}' lost more members than it survives while it grew; it knows which data it \
         moved, and goes on growing when they are back"
    )]
    GrowthFailed {
        /// The array.
        array: String,
    },
    /// It already serves the maximum number of arrays.
    #[error("{device} is a spare of {SPARE_ARRAYS_MAX} arrays already: make it a shared one")]
    TooManyArrays {
        /// The device.
        device: String,
    },
    /// It already has a journal device.
    #[error("array '{array}' has its journal on {device}: take that away first")]
    HasJournal {
        /// The array.
        array: String,
        /// The device.
        device: String,
    },
    /// The array has no journal device.
    #[error("array '{array}' has no device of its own for its journal: nothing was changed")]
    HasNoJournal {
        /// The array.
        array: String,
    },
    /// The members have no room for that size.
    #[error(
        "array '{array}' can't grow that way: its members have room for {bytes_max} at most: {}",
        replace_first(least)
    )]
    NoRoom {
        /// The array.
        array: String,
        /// The largest size that the members have room for.
        bytes_max: SizeBytes,
        /// The devices with the least room.
        least: Vec<String>,
    },
    /// A member is out, but the array might count on it again after a crash.
    #[error(
        "array '{array}': member {member} is out, but {}: after a crash the array might count on \
         it again",
        if *server_ended {
            "the server ended before that was noted"
        } else {
            "that could not be written to the superblocks"
        }
    )]
    OutUnrecorded {
        /// The array.
        array: String,
        /// The member.
        member: MemberIndex,
        /// True if the server ended meanwhile.
        server_ended: bool,
    },
    /// The superblocks could not be written.
    #[error("array '{array}': its superblocks could not be written; nothing else was changed")]
    NotRecorded {
        /// The array.
        array: String,
    },
    /// Members are missing.
    #[error("array '{array}' lacks {members}, and grows only with all its members")]
    NotWhole {
        /// The array.
        array: String,
        /// The missing members.
        members: String,
    },
    /// A member that may still exist was not given.
    #[error(
        "array '{array}' counts on member {member}, and its device was not given: give all of its \
         devices; rebuild first what is lost for good"
    )]
    NotAllGiven {
        /// The array.
        array: String,
        /// The position.
        member: MemberIndex,
    },
    /// The device has no superblock to wipe.
    #[error("{device} has no Spindles superblock: nothing was changed on any device")]
    NotLabelled {
        /// The device.
        device: String,
    },
    /// The device is not a spare.
    #[error("{device} is not a spare: nothing was changed on it")]
    NoSpare {
        /// The device.
        device: String,
    },
    /// The device is not a dedicated spare of the given array.
    #[error(
        "{device} is {}, and not one of array '{array}': nothing was changed on it",
        if *shared { "a shared spare" } else { "a spare of other arrays" }
    )]
    NoSpareOf {
        /// The device.
        device: String,
        /// The array.
        array: String,
        /// True if any array may take the spare.
        shared: bool,
    },
}

/// The role of a device whose data an array needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRole {
    /// This member.
    Member(MemberIndex),
    /// The journal device.
    Journal,
    /// A spare.
    Spare,
}

impl fmt::Display for OwnRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(member) => write!(f, "member {member}"),
            Self::Journal => f.write_str("the journal"),
            Self::Spare => f.write_str("a spare"),
        }
    }
}

/// Describes how to give an array more room.
pub(crate) fn replace_first(least: &[String]) -> String {
    let devices = if least.len() == 1 {
        "a larger device"
    } else {
        "larger devices"
    };
    format!("replace {} by {devices} first", all_of(least))
}

/// "a.img", "a.img and b.img".
fn all_of(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

fn are(devices: &[String]) -> String {
    let verb = if devices.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", devices.join(", "))
}

fn made_of(new: &[String], left: &[String]) -> String {
    if left.is_empty() {
        "an array of them".to_owned()
    } else {
        format!("an array of {}", [new, left].concat().join(", "))
    }
}

//! Why no array was created.

use super::open::{CloseError, OpenError, in_folder};
use crate::TooSmall;
use crate::identity::same;
use spindles_block::{RequestError, SizeBytes};
use spindles_layout::GeometryError;
use std::io;
use thiserror::Error;

/// The longest name; the record has room for the numbers of inner arrays behind it.
pub(crate) const NAME_BYTES_MAX: usize = 48;

/// Why no array was created. Nothing was written, except where it says so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name can't be stored.
    #[error(
        "'{name}' can't be the name of an array: give 1 to {NAME_BYTES_MAX} bytes without '/', ',', ':', double quotes and control characters, with neither a '-' in front nor a space at an end"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The expression is a single device.
    #[error("{device} is a device: give an array of devices, as raid1({device},OTHER)")]
    NotAnArray {
        /// The device.
        device: String,
    },
    /// It is an array that there is.
    #[error(
        "{device} means an array that there is, and only devices can be given here: an array inside another is created together with it, as in raid1(raid0(DEV,DEV),DEV)"
    )]
    IsAnArray {
        /// The array.
        device: String,
    },
    /// The device does not outlive the command.
    #[error("{device} is gone when this command ends: give files or block devices")]
    DoesNotLast {
        /// The device.
        device: String,
    },
    /// There is no such file or device.
    #[error(
        "there is no {device}{}: make a file with 'truncate -s 1G {device}', or check the name",
        in_folder(device)
    )]
    NotThere {
        /// The device.
        device: String,
    },
    /// Two names for one device.
    #[error("{}: an array needs different devices", same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Devices hold something.
    #[error("{}; use --force to overwrite {}", occupied(devices), if devices.len() == 1 { "it, or take another" } else { "them, or take others" })]
    Occupied {
        /// Each device, and what it holds.
        devices: Vec<(String, String)>,
    },
    /// A device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// A device has more than the format can speak of.
    #[error(
        "{device} is too large: it has {bytes}, and with blocks of {block_bytes} bytes a member has at most {bytes_max}; divide it into partitions"
    )]
    TooLarge {
        /// The device.
        device: String,
        /// What it has.
        bytes: SizeBytes,
        /// What a member may have.
        bytes_max: SizeBytes,
        /// The block.
        block_bytes: u32,
    },
    /// The smallest device has no room for the bitmaps of so large an array.
    #[error(
        "{device} has no room for the bitmaps of an array of this size with chunks of {chunk}: leave it out, or take a larger --chunk"
    )]
    TooManyRegions {
        /// The device.
        device: String,
        /// The chunk.
        chunk: SizeBytes,
    },
    /// Nothing would put checksums in order after a crash.
    #[error(
        "checksums need --consistency journal, which puts them in order after a crash: take that instead of {policy}, or --checksum none"
    )]
    Inexact {
        /// The policy.
        policy: &'static str,
    },
    /// Nothing of the array would be logged on the device for its journal.
    #[error("{device} can't have the journal: {why}")]
    NoJournal {
        /// The device.
        device: String,
        /// Why.
        why: &'static str,
    },
    /// The level can't be built that way.
    #[error("{0}")]
    Geometry(GeometryError),
    /// The operating system refused something. The devices may have been written to.
    #[error(
        "{device}: can't {action}: {source}; the array is not complete, create it again with --force"
    )]
    Io {
        /// The device.
        device: String,
        /// What was tried.
        action: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// A member could not be written. The devices may have been written to.
    #[error(
        "{device}: can't write the superblock: {source}; the array is not complete, create it again with --force"
    )]
    Superblock {
        /// The member.
        device: String,
        /// What it answered.
        source: RequestError,
    },
    /// A device could not become a spare.
    #[error(
        "{device} did not become a spare: {source}; the array itself is complete: try again with 'spindles spare add'"
    )]
    Spare {
        /// The device.
        device: String,
        /// Why.
        source: OpenError,
    },
    /// The new array could not be opened for its initial sync.
    #[error("array '{name}' was created and can't be opened: {source}")]
    Engine {
        /// The array.
        name: String,
        /// Why.
        source: spindles_engine::OpenError,
    },
    /// The new array could not be closed after its initial sync.
    #[error("array '{name}' was created, but {source}")]
    Close {
        /// The array.
        name: String,
        /// Why.
        source: CloseError,
    },
}

fn occupied(devices: &[(String, String)]) -> String {
    let each = devices
        .iter()
        .map(|(device, what)| format!("{device} holds {what}"));
    each.collect::<Vec<_>>().join("; ")
}

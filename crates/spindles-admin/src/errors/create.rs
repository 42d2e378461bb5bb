//! Why an array could not be created.

use crate::write_back::CantStage;
use spindles_array::TooSmall;
use spindles_block::{RequestError, SizeBytes};
use spindles_device::errors::{CloseError, OpenError, in_folder};
use spindles_device::identity::same;
use spindles_layout::GeometryError;
use std::io;
use thiserror::Error;

/// The longest name. The record has room for the numbers of inner arrays after it.
pub(crate) const NAME_BYTES_MAX: usize = 48;

/// Why an array could not be created. Nothing was written, unless the variant says so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name can't be stored.
    #[error(
        "'{name}' can't be the name of an array: give 1 to {NAME_BYTES_MAX} bytes without '/', \
         ',', ':', double quotes and control characters, with neither a '-' in front nor a space \
         at an end"
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
    /// A member is part of an array.
    #[error("{slice}: the members of a new array are devices, their slices, or whole arrays")]
    SliceOfArray {
        /// The member.
        slice: String,
    },
    /// The word names an existing array instead of a device.
    #[error(
        "{device} means an array that there is, and only devices can be given here: an array \
         inside another is created together with it, as in raid1(raid0(DEV,DEV),DEV)"
    )]
    IsAnArray {
        /// The array.
        device: String,
    },
    /// The device does not outlive the command.
    #[error("{device} exists only while this command runs: give files or block devices")]
    DoesNotLast {
        /// The device.
        device: String,
    },
    /// A superblock at the start of a device would stand for all of the device.
    #[error(
        "{slice} begins at the start of {device}, where a superblock counts for all of {device}: \
         begin at 1s or later, or take all of {device}"
    )]
    SliceAtStart {
        /// The slice.
        slice: String,
        /// Its device.
        device: String,
    },
    /// The file or device does not exist.
    #[error("there is no {device}{}: {}", in_folder(device), remedy(device))]
    NotThere {
        /// The device.
        device: String,
    },
    /// Two names belong to one device.
    #[error("{}: an array needs different devices", same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Devices hold data.
    #[error(
        "{}; use --force to overwrite {}",
        occupied(devices),
        match devices.len() {
            1 => "it, or take another",
            _ => "them, or take others",
        }
    )]
    Occupied {
        /// Each device, with a description of its data.
        devices: Vec<(String, String)>,
    },
    /// A device has too little room.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// A device is larger than the format allows.
    #[error(
        "{device} is too large: it has {bytes}, and with blocks of {block_bytes} bytes a member \
         has at most {bytes_max}; divide it into partitions"
    )]
    TooLarge {
        /// The device.
        device: String,
        /// Its size.
        bytes: SizeBytes,
        /// The largest size of a member.
        bytes_max: SizeBytes,
        /// The block size.
        block_bytes: u32,
    },
    /// The smallest device has no room for the bitmaps of such a large array.
    #[error(
        "{device} has no room for the bitmaps of an array of this size with chunks of {chunk}: \
         leave it out, or take a larger --chunk"
    )]
    TooManyRegions {
        /// The device.
        device: String,
        /// The chunk size.
        chunk: SizeBytes,
    },
    /// The policy can't restore checksums after a crash.
    #[error(
        "checksums need --consistency journal, which puts them in order after a crash: take that \
         instead of {policy}, or --checksum none"
    )]
    Inexact {
        /// The policy.
        policy: &'static str,
    },
    /// No part of the array would use the journal device.
    #[error("{device} can't have the journal: {why}")]
    NoJournal {
        /// The device.
        device: String,
        /// The reason.
        why: &'static str,
    },
    /// It can't have a stage.
    #[error(transparent)]
    Stage(#[from] CantStage),
    /// The level can't be built that way.
    #[error("{0}")]
    Geometry(GeometryError),
    /// A system call failed. The devices may have been written to.
    #[error(
        "{device}: can't {action}: {source}; the array is not complete, create it again with \
         --force"
    )]
    Io {
        /// The device.
        device: String,
        /// The failed action.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A member could not be written. The devices may have been written to.
    #[error(
        "{device}: can't write the superblock: {source}; the array is not complete, create it \
         again with --force"
    )]
    Superblock {
        /// The member.
        device: String,
        /// The error.
        source: RequestError,
    },
    /// A device could not become a spare.
    #[error("{device} did not become a spare: {source}; the array itself is complete")]
    Spare {
        /// The device.
        device: String,
        /// The reason.
        source: OpenError,
    },
    /// The new array could not be opened for its initial sync.
    #[error("array '{name}' was created and can't be opened: {source}")]
    Engine {
        /// The array.
        name: String,
        /// The reason.
        source: spindles_engine::OpenError,
    },
    /// The new array could not be closed after its initial sync.
    #[error("array '{name}' was created, but {source}")]
    Close {
        /// The array.
        name: String,
        /// The reason.
        source: CloseError,
    },
}

fn occupied(devices: &[(String, String)]) -> String {
    let each = devices
        .iter()
        .map(|(device, what)| format!("{device} holds {what}"));
    each.collect::<Vec<_>>().join("; ")
}

/// Returns the remedy for an absent device. A file under /dev would be in memory.
fn remedy(device: &str) -> String {
    if device == "missing" {
        "an array begins with all its members, so name a device in its place".to_owned()
    } else if device.starts_with("/dev/") {
        "check the name; lsblk lists the disks".to_owned()
    } else {
        format!("make a file with 'truncate -s 1G {device}', or check the name")
    }
}

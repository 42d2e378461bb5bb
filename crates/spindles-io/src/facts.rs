//! What is known of an open target and its devices. All of it goes into records.

use spindles_block::{BlockSize, MemberSet};

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFacts {
    /// What the user called it: a path, a URL, an array expression or an array's name.
    pub name: String,
    /// Its size.
    pub blocks: u64,
    /// The unit of its requests.
    pub block_size: BlockSize,
    /// The most blocks of one request.
    pub request_blocks_max: u32,
    /// The most requests in flight.
    pub requests_max: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// What carries the I/O of files and devices: `io_uring`, `threads`, or `inline` where there
    /// are none.
    pub io: &'static str,
    /// Why it is not `io_uring`, where it is not.
    pub io_reason: Option<String>,
    /// The devices at the leaves, from left to right in the expression.
    pub devices: Vec<DeviceFacts>,
    /// For an array, what it is; `None` for a single device.
    pub array: Option<ArrayFacts>,
}

impl TargetFacts {
    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size.bytes())
    }

    /// The one physical device on which all of at least two devices lie, if so: the array then
    /// shows what the software costs and not what the spindles gain.
    #[must_use]
    pub fn shared_physical_device(&self) -> Option<&str> {
        let (first, rest) = self.devices.split_first()?;
        let name = first.physical_device.as_deref()?;
        let shared = !rest.is_empty()
            && rest
                .iter()
                .all(|device| device.physical_device.as_deref() == Some(name));
        shared.then_some(name)
    }

    /// Whether every file and device is read and written past the page cache.
    #[must_use]
    pub fn all_direct(&self) -> bool {
        self.devices.iter().all(|device| device.direct)
    }
}

/// What an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFacts {
    /// The level's name.
    pub level: &'static str,
    /// The layout's name; empty where there is only one.
    pub layout: String,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Positions.
    pub members: u8,
    /// Positions without a device when it was opened.
    pub missing: MemberSet,
    /// Chunks of a redundancy group that hold data.
    pub data_chunks: u8,
    /// The other chunks of a redundancy group.
    pub redundancy: u8,
}

/// What is the same of all devices of a backend: a part of its row.
#[derive(Debug, PartialEq, Eq)]
pub struct BackendFacts {
    /// Its name in records.
    pub name: &'static str,
    /// Whether a device is still there, with what it holds, when the process has ended. One that is
    /// not is another each time it is opened, and holds nothing.
    pub outlives_process: bool,
    /// Whether a device can only be addressed in its own sectors. A file is also read and written
    /// through the page cache.
    pub whole_sectors_only: bool,
    /// Whether its name is a path: other programs open it by that, too.
    pub is_path: bool,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What the user called it.
    pub name: String,
    /// What it is a device of.
    pub backend: &'static BackendFacts,
    /// Its size.
    pub bytes: u64,
    /// The unit in which it is addressed and in which a write may tear.
    pub sector_bytes: u32,
    /// The unit in which the medium is written; a sector where it does not say so.
    pub physical_sector_bytes: u32,
    /// Whether I/O goes past the page cache.
    pub direct: bool,
    /// Why not, where it does not.
    pub direct_reason: Option<String>,
    /// Whether the medium turns, where that is known.
    pub rotational: Option<bool>,
    /// The physical device underneath, for example `sda`; `memory` for memory.
    pub physical_device: Option<String>,
    /// Whether write-zeroes costs no more than a command, however long it is: no bytes move to the
    /// device. True for memory; for a block device whose queue takes such a command, since the
    /// kernel itself writes the zeros of one that does not; and for a file on a file system of a
    /// kind that punches holes. False where that is not known, as on overlays and network file
    /// systems. A device may still refuse: then the zeros are written.
    pub zeroes_without_moving_bytes: bool,
    /// Whether it takes space only for what is written to it, so that what nobody needs is better discarded than
    /// made zeros: a file that has holes, a block device that takes discards, an export. False for a file all of whose
    /// space is there already, which is to stay so.
    pub thin: bool,
}

impl DeviceFacts {
    /// Whether it is a file that takes space from its file system when it is written.
    pub(crate) fn has_holes(&self) -> bool {
        self.thin && self.backend.is_path && !self.backend.whole_sectors_only
    }
}

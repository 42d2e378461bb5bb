//! Facts about an open target and its devices. Records of measurements include all these facts.

use spindles_block::{BlockSize, MemberSet};

/// Facts about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFacts {
    /// Its name as the user gave it: a path, a URL, an array expression or an array's name.
    pub name: String,
    /// Its size.
    pub blocks: u64,
    /// The unit of its requests.
    pub block_size: BlockSize,
    /// The most blocks of one request.
    pub request_blocks_max: u32,
    /// The most requests in flight.
    pub requests_max: u32,
    /// True if writes are refused.
    pub read_only: bool,
    /// What performs the I/O of files and devices: `io_uring`, `threads`, or `inline` if there are
    /// none.
    pub io: &'static str,
    /// Why it is not `io_uring`; `None` if it is.
    pub io_reason: Option<String>,
    /// The devices at the leaves, from left to right in the expression.
    pub devices: Vec<DeviceFacts>,
    /// Facts about an array; `None` for a single device.
    pub array: Option<ArrayFacts>,
}

impl TargetFacts {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size.bytes())
    }

    /// Returns the physical device that all of at least two devices share. A benchmark then shows
    /// the cost of the software and not the gain of several spindles.
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

    /// Returns true if all files and devices bypass the page cache.
    #[must_use]
    pub fn all_direct(&self) -> bool {
        self.devices.iter().all(|device| device.direct)
    }
}

/// Facts about an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFacts {
    /// The level's name.
    pub level: &'static str,
    /// The layout's name; empty if there is only one.
    pub layout: String,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Number of positions.
    pub members: u8,
    /// Positions without a device when it was opened.
    pub missing: MemberSet,
    /// Chunks of a redundancy group that hold data.
    pub data_chunks: u8,
    /// The other chunks of a redundancy group.
    pub redundancy: u8,
}

/// Facts that all devices of a backend share, from the table of backends.
#[derive(Debug, PartialEq, Eq)]
pub struct BackendFacts {
    /// Its name in records.
    pub name: &'static str,
    /// True if the data of a device outlives its opening. Other devices start empty each time they
    /// are opened.
    pub outlives_opening: bool,
    /// True if a device can only be addressed in whole sectors. A file can also be accessed through
    /// the page cache.
    pub whole_sectors_only: bool,
    /// True if its name is a path, so that other programs may open it too.
    pub is_path: bool,
}

/// Facts about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its name as the user gave it.
    pub name: String,
    /// Its backend.
    pub backend: &'static BackendFacts,
    /// Its size.
    pub bytes: u64,
    /// The unit of addresses. A write may tear between two units.
    pub sector_bytes: u32,
    /// The unit in which the medium is written; `sector_bytes` if unknown.
    pub physical_sector_bytes: u32,
    /// True if I/O bypasses the page cache.
    pub direct: bool,
    /// Why I/O goes through the page cache; `None` if I/O bypasses it.
    pub direct_reason: Option<String>,
    /// True for a rotating medium; `None` if unknown.
    pub rotational: Option<bool>,
    /// The physical device underneath, for example `sda`; `memory` for memory.
    pub physical_device: Option<String>,
    /// True if write-zeroes costs one command, however long the range: no bytes move to the device.
    ///
    /// - Memory: true.
    /// - Block devices: true if the queue takes the command; otherwise the kernel writes the zeros.
    /// - Files: true on file systems that punch holes.
    /// - Unknown, as on overlays and network file systems: false.
    ///
    /// A device may still refuse; the zeros are then written.
    pub zeroes_without_moving_bytes: bool,
    /// True if it takes space only for written data, so that unused blocks had better be discarded
    /// than zeroed. Such devices are files with holes, block devices that take discards, and
    /// exports. False for a fully allocated file, which is to stay so.
    pub thin: bool,
}

impl DeviceFacts {
    /// Returns true if it is a file that allocates space on writes.
    pub fn has_holes(&self) -> bool {
        self.thin && self.backend.is_path && !self.backend.whole_sectors_only
    }
}

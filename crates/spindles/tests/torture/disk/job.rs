//! The job of a client.

use serde::{Deserialize, Serialize};
use spindles_admin::write_back::{Wanted, WriteBack};
use spindles_block::BlockSize;
use spindles_engine::{POLICIES, Policy};
use spindles_format::ChecksumKind;
use std::path::PathBuf;

/// One life of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) seed: u64,
    /// The number of the client in its session.
    pub(crate) life: u64,
    /// The log of requests and answers, which the client continues.
    pub(crate) log: PathBuf,
    /// The number of bytes that the disks write atomically.
    pub(crate) tear_bytes: u32,
    /// The smallest unit that a crash leaves either old or new: `tear_bytes`, or a smaller block.
    pub(crate) sector_bytes: u32,
    pub(crate) threads: bool,
    /// True for I/O through the page cache.
    pub(crate) cached: bool,
    pub(crate) requests_max: u32,
    /// The disks, in any order.
    pub(crate) devices: Vec<String>,
    /// Missing members, and members that may have failed: writes in flight at the last crash may
    /// return errors.
    pub(crate) lacking: Lacking,
    /// True if more is missing than the level survives: errors are allowed, wrong bytes are not.
    pub(crate) beyond: bool,
    pub(crate) work: Work,
}

/// Missing devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lacking {
    Nothing,
    /// Members.
    Members,
    /// The journal device.
    Journal,
    Both,
}

/// The work of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Create(Creation),
    /// Sends random requests, then closes the array, or exits without.
    Ask {
        operations: u64,
        depth: u64,
        /// True to scrub the array meanwhile.
        scrubs: bool,
        closes: bool,
    },
    /// Reads everything.
    Read {
        /// True to wait afterwards until redundancy agrees with data.
        settles: bool,
    },
    /// Changes the chunk size, or continues that.
    Grow {
        chunk_bytes: u64,
    },
    /// Scrubs the array: any wrong block is a failure.
    Scrub,
}

/// The exit codes of a client.
pub(crate) mod exit {
    /// Closed without a failure.
    pub(crate) const CLOSED: u8 = 0;
    /// Found a failure.
    pub(crate) const FINDING: u8 = 3;
    /// The array, or the change to it, was refused, as is allowed.
    pub(crate) const REFUSED: u8 = 4;
    /// Exited without a close, as requested.
    pub(crate) const LEFT: u8 = 5;
    /// The array can't exist.
    pub(crate) const IMPOSSIBLE: u8 = 6;
}

/// An array to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Creation {
    pub(crate) expression: String,
    pub(crate) block_bytes: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) checksums: bool,
    /// The name of the policy.
    pub(crate) consistency: Option<String>,
    pub(crate) journal: Option<String>,
    /// True if small writes are answered from a stage.
    pub(crate) write_back: bool,
}

impl Creation {
    pub(crate) fn block_size(&self) -> BlockSize {
        match self.block_bytes {
            512 => BlockSize::B512,
            _ => BlockSize::B4096,
        }
    }

    pub(crate) fn checksum(&self) -> ChecksumKind {
        if self.checksums {
            ChecksumKind::Crc32c
        } else {
            ChecksumKind::None
        }
    }

    pub(crate) fn stage(&self) -> Wanted {
        let mode = if self.write_back {
            WriteBack::On
        } else {
            WriteBack::Off
        };
        Wanted {
            mode,
            memory_bytes: None,
        }
    }

    pub(crate) fn policy(&self) -> Option<&'static Policy> {
        let name = self.consistency.as_deref()?;
        POLICIES.iter().find(|policy| policy.name == name).copied()
    }
}

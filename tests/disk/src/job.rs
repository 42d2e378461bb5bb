//! What a client does.

use serde::{Deserialize, Serialize};
use spindles_block::BlockSize;
use spindles_engine::{POLICIES, Policy};
use spindles_format::ChecksumKind;
use std::path::PathBuf;

/// One life of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) seed: u64,
    /// Counts the clients of a session.
    pub(crate) life: u64,
    /// What was asked and answered so far, and where it is told.
    pub(crate) log: PathBuf,
    /// What the disks write at once.
    pub(crate) tear_bytes: u32,
    /// What may be old or new by itself: that, or a smaller block.
    pub(crate) sector_bytes: u32,
    pub(crate) threads: bool,
    /// Through the page cache.
    pub(crate) cached: bool,
    pub(crate) requests_max: u32,
    /// The disks, in any order.
    pub(crate) devices: Vec<String>,
    /// Members are missing, or may have failed: what was in flight at the last crash may answer
    /// errors.
    pub(crate) lacking: Lacking,
    /// More is missing than the level survives: errors are right, wrong bytes are not.
    pub(crate) beyond: bool,
    pub(crate) work: Work,
}

/// What is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lacking {
    Nothing,
    /// Members.
    Members,
    /// The device for the journal.
    Journal,
    Both,
}

/// What a client does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Create(Creation),
    /// Asks at random, then closes, or ends without.
    Ask {
        operations: u32,
        depth: usize,
        /// Has the array scrubbed meanwhile.
        scrubs: bool,
        closes: bool,
    },
    /// Reads everything.
    Read {
        /// Waits then until redundancy agrees with data.
        settles: bool,
    },
    /// Gives it chunks of another size, or goes on with that.
    Grow {
        chunk_bytes: u64,
    },
    /// Compares everything: nothing is wrong.
    Scrub,
}

/// How a client ended by itself.
pub(crate) mod exit {
    /// Closed, and all was well.
    pub(crate) const CLOSED: u8 = 0;
    /// Something is wrong.
    pub(crate) const FINDING: u8 = 3;
    /// The array was refused, or what it was to become, as it may be.
    pub(crate) const REFUSED: u8 = 4;
    /// It ended without a close, as it was told.
    pub(crate) const LEFT: u8 = 5;
    /// There is no such array.
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

    pub(crate) fn policy(&self) -> Option<&'static Policy> {
        let name = self.consistency.as_deref()?;
        POLICIES.iter().find(|policy| policy.name == name).copied()
    }
}

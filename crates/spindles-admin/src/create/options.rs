//! Options for a new array.

use crate::write_back::Wanted;
use spindles_block::BlockSize;
use spindles_device::OpenOptions;
use spindles_engine::{Policy, WriteHole};
use spindles_format::ChecksumKind;

/// Options for a new array.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The array's name.
    pub name: String,
    /// The block size.
    pub block_size: BlockSize,
    /// The chunk size of all its levels; `None` for each level's default.
    pub chunk_bytes: Option<u64>,
    /// How to recover from crashes; `None` for each level's default.
    pub consistency: Option<&'static Policy>,
    /// The checksum of every block, in the arrays that keep checksums. `None` selects CRC-32C if
    /// the policy closes the write hole, and no checksums otherwise.
    pub checksum: Option<ChecksumKind>,
    /// Devices that become spares of the array.
    pub spares: Vec<String>,
    /// A dedicated journal device.
    pub journal: Option<String>,
    /// Allow writes without asking, even if they discard data of missing members: see
    /// `assemble::AssembleOptions::degraded`.
    pub degraded_writes: bool,
    /// The stage for small writes.
    pub write_back: Wanted,
    /// Accept devices that hold data.
    pub force: bool,
    /// How to open the devices.
    pub open: OpenOptions,
}

impl CreateOptions {
    /// Returns blocks of 4096 bytes, chunks of the level's size, and crash safety; devices that
    /// hold data are refused.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            block_size: BlockSize::B4096,
            chunk_bytes: None,
            consistency: None,
            checksum: None,
            spares: Vec::new(),
            journal: None,
            degraded_writes: false,
            write_back: Wanted::default(),
            force: false,
            open: OpenOptions::default(),
        }
    }

    /// Returns the checksum of every block.
    pub(super) fn checksum(&self) -> ChecksumKind {
        let is_exact = |policy: &Policy| policy.write_hole == WriteHole::Closed;
        self.checksum.unwrap_or(match self.consistency {
            Some(policy) if !is_exact(policy) => ChecksumKind::None,
            Some(_) | None => ChecksumKind::Crc32c,
        })
    }
}

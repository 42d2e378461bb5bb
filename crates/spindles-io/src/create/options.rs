//! How an array is to be created.

use crate::OpenOptions;
use spindles_block::BlockSize;
use spindles_engine::{Policy, WriteHole};
use spindles_format::ChecksumKind;

/// How an array is to be created.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The array's name.
    pub name: String,
    /// Its block.
    pub block_size: BlockSize,
    /// The chunk of all its levels; `None` for each level's default.
    pub chunk_bytes: Option<u64>,
    /// What is done about crashes; `None` for each level's default.
    pub consistency: Option<&'static Policy>,
    /// The checksum of blocks, in the arrays that keep them; `None` for CRC-32C where a record is kept of
    /// what a crash may leave, and else not at all.
    pub checksum: Option<ChecksumKind>,
    /// Devices that become spares of the array.
    pub spares: Vec<String>,
    /// A device of its own for the journal.
    pub journal: Option<String>,
    /// Let it be written without a question where that gives up what members hold that are away: see
    /// `assemble::AssembleOptions::degraded`.
    pub degraded_writes: bool,
    /// Take devices that hold something.
    pub force: bool,
    /// How the devices are to be opened.
    pub open: OpenOptions,
}

impl CreateOptions {
    /// Blocks of 4096 bytes, chunks of the level's size, safe after a crash; devices that hold
    /// something are refused.
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
            force: false,
            open: OpenOptions::default(),
        }
    }

    /// The checksum of blocks.
    pub(super) fn checksum(&self) -> ChecksumKind {
        let is_exact = |policy: &Policy| policy.write_hole == WriteHole::Closed;
        self.checksum.unwrap_or(match self.consistency {
            Some(policy) if !is_exact(policy) => ChecksumKind::None,
            Some(_) | None => ChecksumKind::Crc32c,
        })
    }
}

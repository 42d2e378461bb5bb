//! The journal: blocks of metadata that changed go to it as a transaction, and to their places
//! later. Documentation/filesystems/ext4, `journal.rst`; Documentation/filesystems/journalling.rst.

use super::layout::BLOCK_BYTES;
use crate::block::RequestKind;
use crate::file_systems::Piece;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// Blocks that a block of descriptions names: 16 bytes each, behind a head.
const TAGS: u64 = 254;

/// The journal, in blocks.
#[derive(Debug)]
pub(super) struct Journal {
    first: u32,
    blocks: u64,
    /// Blocks written to it so far, which go around.
    head: u64,
    /// What changed since the last commit.
    running: BTreeSet<u32>,
    /// What the commit under way writes.
    committing: BTreeSet<u32>,
    /// Where the newest copy of a block lies that is not in its place yet.
    copies: BTreeMap<u32, u64>,
    ages: BTreeSet<(u64, u32)>,
}

impl Journal {
    pub(super) fn new(first: u32, blocks: u32) -> Self {
        Self {
            first,
            blocks: blocks.into(),
            // Behind its superblock.
            head: 1,
            running: BTreeSet::new(),
            committing: BTreeSet::new(),
            copies: BTreeMap::new(),
            ages: BTreeSet::new(),
        }
    }

    /// Notes that a block changes. Returns true if the journal holds it in memory already.
    pub(super) fn change(&mut self, block: u32) -> bool {
        let is_held = self.holds(block);
        self.running.insert(block);
        is_held
    }

    /// Returns true if it holds a block in memory.
    pub(super) fn holds(&self, block: u32) -> bool {
        self.running.contains(&block) || self.committing.contains(&block)
    }

    /// Forgets what changed before a measurement.
    pub(super) fn drop_changes(&mut self) {
        self.running.clear();
    }

    /// Drops a block that was freed.
    pub(super) fn forget(&mut self, block: u32) {
        self.running.remove(&block);
        self.committing.remove(&block);
        self.is_home(block);
    }

    /// Begins a commit. Returns its requests in order, each group after the answers to the one
    /// before: the blocks, a flush, the block that makes them valid, and a flush for its FUA.
    /// Without changes, only a flush.
    pub(super) fn commit(&mut self) -> Vec<Vec<Piece>> {
        let flush = || vec![Piece::FLUSH];
        if self.running.is_empty() {
            return vec![flush()];
        }
        self.committing = core::mem::take(&mut self.running);
        let count = u64::try_from(self.committing.len()).expect("64 bits");
        for block in &self.committing {
            if let Some(at) = self.copies.insert(*block, self.head) {
                self.ages.remove(&(at, *block));
            }
            self.ages.insert((self.head, *block));
        }
        let body = self.write(count + count.div_ceil(TAGS));
        let end = self.write(1);
        vec![body, flush(), end, flush()]
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.running.is_empty()
    }

    /// Ends the commit. Returns its blocks, which may go to their places now.
    pub(super) fn committed(&mut self) -> BTreeSet<u32> {
        core::mem::take(&mut self.committing)
    }

    /// Returns the blocks whose copies the journal needs room of: the oldest quarter.
    pub(super) fn overdue(&self) -> Vec<u32> {
        let Some((oldest, _)) = self.ages.first() else {
            return Vec::new();
        };
        if (self.head - oldest) * 4 < self.blocks * 3 {
            return Vec::new();
        }
        let end = (oldest + self.blocks / 4, 0);
        self.ages.range(..end).map(|(_, block)| *block).collect()
    }

    /// Notes that a block was written to its place.
    pub(super) fn is_home(&mut self, block: u32) {
        if let Some(at) = self.copies.remove(&block) {
            self.ages.remove(&(at, block));
        }
    }

    /// Takes blocks of the journal, around its end.
    fn write(&mut self, count: u64) -> Vec<Piece> {
        let mut left = count;
        let mut pieces = Vec::new();
        while left > 0 {
            // The first block holds the superblock of the journal.
            let at = 1 + (self.head - 1) % (self.blocks - 1);
            let now = left.min(self.blocks - at);
            pieces.push(Piece {
                kind: RequestKind::Write,
                offset_bytes: (u64::from(self.first) + at) * u64::from(BLOCK_BYTES),
                bytes: now * u64::from(BLOCK_BYTES),
            });
            self.head += now;
            left -= now;
        }
        pieces
    }
}

//! Directories: entries in chunks, searched one by one.

use super::geometry::Inode;
use crate::file_systems::files::Blocks;
use alloc::collections::BTreeSet;

/// Bytes of an entry before its name.
const ENTRY_HEAD_BYTES: u64 = 8;

/// A directory.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) inode: Inode,
    pub(crate) blocks: Blocks,
    pub(crate) entries: u64,
    /// Chunks from which an entry was removed.
    roomy: BTreeSet<u32>,
    /// Bytes that entries take in the last chunk.
    last_chunk_bytes: u64,
    chunks: u64,
    /// Bytes of a chunk; entries never cross its end.
    chunk_bytes: u32,
    /// Bytes that end a name.
    name_end_bytes: u64,
}

/// Where a new entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) chunk: u32,
    /// True if the directory gets a chunk more.
    pub(crate) grows: bool,
}

impl Folder {
    /// Creates a directory with one chunk, for itself and its parent.
    pub(crate) fn new(inode: Inode, chunk_bytes: u32, name_end_bytes: u64) -> Self {
        Self {
            inode,
            blocks: Blocks::default(),
            entries: 2,
            roomy: BTreeSet::new(),
            last_chunk_bytes: 24,
            chunks: 1,
            chunk_bytes,
            name_end_bytes,
        }
    }

    /// Returns the bytes of the directory.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks * u64::from(self.chunk_bytes)
    }

    /// Enters a name of that length.
    pub(crate) fn enter(&mut self, name_bytes: usize) -> Slot {
        self.entries += 1;
        if let Some(chunk) = self.roomy.pop_first() {
            return Slot {
                chunk,
                grows: false,
            };
        }
        let name_bytes = u64::try_from(name_bytes).expect("64 bits");
        let bytes = ENTRY_HEAD_BYTES + (name_bytes + self.name_end_bytes).next_multiple_of(4);
        let grows = self.last_chunk_bytes + bytes > self.chunk_bytes.into();
        if grows {
            self.chunks += 1;
            self.last_chunk_bytes = 0;
        }
        self.last_chunk_bytes += bytes;
        Slot {
            chunk: u32::try_from(self.chunks - 1).expect("few chunks"),
            grows,
        }
    }

    /// Removes an entry of a chunk.
    pub(crate) fn remove(&mut self, chunk: u32) {
        self.entries -= 1;
        self.roomy.insert(chunk);
    }

    /// Returns the entries that a search meets up to the end of a chunk.
    pub(crate) fn entries_to(&self, chunk: u32) -> u64 {
        (self.entries * (u64::from(chunk) + 1)).div_ceil(self.chunks)
    }

    /// Returns the block of the directory that holds a chunk.
    pub(crate) fn block_of(&self, chunk: u32, block_bytes: u32) -> u64 {
        u64::from(chunk) * u64::from(self.chunk_bytes) / u64::from(block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fill_chunks_and_leave_room_for_others() {
        let mut folder = Folder::new(Inode(2), 512, 1);
        // 20 bytes each: 24 fit after the two of the directory itself.
        let slots: alloc::vec::Vec<Slot> = (0..26).map(|_| folder.enter(9)).collect();
        assert!(
            slots[..24]
                .iter()
                .all(|slot| slot.chunk == 0 && !slot.grows)
        );
        assert_eq!(
            slots[24],
            Slot {
                chunk: 1,
                grows: true
            }
        );
        assert_eq!((folder.entries, folder.bytes()), (28, 1024));
        folder.remove(0);
        assert_eq!(
            folder.enter(9),
            Slot {
                chunk: 0,
                grows: false
            }
        );
    }
}

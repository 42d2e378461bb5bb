//! Blocks that all members keep alike. One write of them is under way at a time, to all members at
//! once; later changes share the next write.
//!
//! ```text
//!             want                 begin               last write ends
//!  stored ───────────▶ wanted ───────────▶ written ─────────────────────▶ stored
//!                        ▲                    │
//!                        └────────want────────┘
//! ```

use crate::bits::Bits;
use core::ops::Range;

/// Blocks with the state of their writes.
#[derive(Clone, Debug)]
pub(crate) struct DurableBlocks {
    count: u64,
    /// The most blocks that one write covers.
    most: u64,
    /// Changed blocks whose write has not begun.
    wanted: Bits,
    wanted_count: u64,
    /// The blocks being written.
    written: Range<u64>,
    /// Writes of these blocks under way.
    pending: u32,
}

impl DurableBlocks {
    /// Creates `count` blocks that the members store. One write covers at most `most` blocks.
    pub(crate) fn new(count: u64, most: u64) -> Self {
        Self {
            count,
            most,
            wanted: Bits::new(count, false),
            wanted_count: 0,
            written: 0..0,
            pending: 0,
        }
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Wants a write of a block, because it changed.
    pub(crate) fn want(&mut self, block: u64) {
        self.wanted_count += u64::from(!self.wanted.get(block));
        self.wanted.set(block);
    }

    /// Wants a write of all blocks, because another device needs them.
    pub(crate) fn want_all(&mut self) {
        for block in 0..self.count {
            self.want(block);
        }
    }

    /// Wants no more writes. Writes under way continue.
    pub(crate) fn want_none(&mut self) {
        self.wanted.clear_all();
        self.wanted_count = 0;
    }

    /// Returns true if a block changed since its last write began.
    pub(crate) fn is_wanted(&self, block: u64) -> bool {
        self.wanted.get(block)
    }

    /// Returns true if any block changed since its last write began.
    #[inline]
    pub(crate) fn any_wanted(&self) -> bool {
        self.wanted_count > 0
    }

    /// Returns true if no write is under way.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending == 0
    }

    /// Returns the blocks that are being written.
    pub(crate) fn written(&self) -> Range<u64> {
        self.written.clone()
    }

    /// Returns true if the members store a block as it is in memory.
    pub(crate) fn is_stored(&self, block: u64) -> bool {
        !self.is_wanted(block) && !self.written.contains(&block)
    }

    /// Returns true if the members store all blocks as they are in memory.
    #[inline]
    pub(crate) fn are_stored(&self) -> bool {
        self.is_quiet() && !self.any_wanted()
    }

    /// Returns true if `begin` would begin a write.
    pub(crate) fn is_due(&self) -> bool {
        self.is_quiet() && self.any_wanted()
    }

    /// Begins the next write. Returns its blocks; the caller writes them as they are in memory.
    pub(crate) fn begin(&mut self) -> Range<u64> {
        assert!(self.is_due(), "one write at a time");
        let first = self.wanted.next(0).expect("a wanted block");
        let end = (first + self.most).min(self.count);
        let last = (first..end).rfind(|&block| self.wanted.get(block));
        let blocks = first..last.expect("the first") + 1;
        for block in blocks.clone() {
            self.wanted_count -= u64::from(self.wanted.get(block));
            self.wanted.clear(block);
        }
        self.written = blocks.clone();
        blocks
    }

    /// Begins a write of all blocks without their changes, which stay wanted.
    pub(crate) fn begin_before_changes(&mut self) {
        assert!(self.is_quiet(), "one write at a time");
        self.written = 0..self.count;
    }

    /// Notes that a write to one more device is under way.
    pub(crate) fn issued(&mut self) {
        self.pending += 1;
    }

    /// Handles the end of the write on one device. Returns the blocks if it was the last device.
    pub(crate) fn ended(&mut self) -> Option<Range<u64>> {
        assert!(self.pending > 0, "a write came back twice");
        self.pending -= 1;
        (self.pending == 0).then(|| core::mem::replace(&mut self.written, 0..0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::{vec, vec::Vec};

    #[test]
    fn writes_cover_wanted_blocks_from_the_first_on() {
        // Wanted blocks, and start and end of each write, of at most three blocks.
        type Case<'a> = (&'a [u64], &'a [(u64, u64)]);
        let table: [Case; 5] = [
            (&[], &[]),
            (&[4], &[(4, 5)]),
            (&[0, 2], &[(0, 3)]),
            (&[1, 4, 6], &[(1, 2), (4, 7)]),
            (&[6, 5, 0, 3], &[(0, 1), (3, 6), (6, 7)]),
        ];
        for (wanted, writes) in table {
            let mut blocks = DurableBlocks::new(7, 3);
            for block in [wanted, wanted].concat() {
                blocks.want(block);
            }
            for &(start, end) in writes {
                assert_eq!(blocks.begin(), start..end, "{wanted:?}");
                blocks.issued();
                assert!(!blocks.is_due() && !blocks.is_stored(start));
                assert_eq!(blocks.ended(), Some(start..end));
            }
            assert!(blocks.are_stored(), "{wanted:?}");
        }
    }

    #[test]
    fn changes_of_the_superblocks_wait_for_a_write_before_them() {
        let mut blocks = DurableBlocks::new(1, 1);
        blocks.want(0);
        blocks.begin_before_changes();
        blocks.issued();
        blocks.issued();
        assert!(blocks.ended().is_none());
        assert!(blocks.ended().is_some() && blocks.is_due());
        blocks.want_none();
        assert!(blocks.are_stored());
    }

    /// Memory, the values being written, the members that have not answered, and their values. A
    /// value is the number of changes.
    #[derive(Clone, Debug)]
    struct World {
        blocks: DurableBlocks,
        memory: [u8; 2],
        snapshot: [u8; 2],
        left: Vec<usize>,
        members: [[u8; 2]; 2],
    }

    impl World {
        /// A crash now leaves each member with its values.
        fn check(&self) {
            for (block, now) in (0..).zip(self.memory) {
                let all = self.members.iter().all(|member| member[block] == now);
                assert!(all || !self.blocks.is_stored(block as u64), "{self:?}");
            }
            assert_eq!(self.blocks.is_quiet(), self.left.is_empty());
        }

        /// Returns the worlds after each input that is possible now.
        fn next(&self) -> Vec<Self> {
            let mut all = vec![self.clone(); 2];
            for (block, world) in all.iter_mut().enumerate() {
                world.memory[block] += 1;
                world.blocks.want(block as u64);
            }
            if self.blocks.is_due() {
                let mut world = self.clone();
                world.blocks.begin();
                (world.snapshot, world.left) = (world.memory, vec![0, 1]);
                (0..2).for_each(|_| world.blocks.issued());
                all.push(world);
            }
            for (at, fails) in (0..self.left.len()).flat_map(|at| [(at, false), (at, true)]) {
                let mut world = self.clone();
                let member = world.left.remove(at);
                for (block, value) in (0..).zip(self.snapshot) {
                    if !self.blocks.written().contains(&(block as u64)) {
                        continue;
                    }
                    if fails {
                        world.blocks.want(block as u64); // Not stored on all members.
                    } else {
                        world.members[member][block] = value;
                    }
                }
                assert_eq!(world.blocks.ended().is_some(), world.left.is_empty());
                all.push(world);
            }
            all
        }
    }

    /// After a crash at any write, every stored block is on all members as it was in memory.
    #[test]
    fn a_crash_at_any_write_leaves_stored_blocks_on_all_members() {
        let (blocks, left) = (DurableBlocks::new(2, 1), vec![]);
        let [memory, snapshot] = [[0; 2]; 2];
        let mut worlds = vec![World {
            blocks,
            memory,
            snapshot,
            left,
            members: [[0; 2]; 2],
        }];
        let mut seen = BTreeSet::new();
        for _ in 0..9 {
            worlds = worlds.iter().flat_map(World::next).collect();
            worlds.retain(|world| seen.insert(std::format!("{world:?}")));
            worlds.iter().for_each(World::check);
        }
        assert!(seen.len() > 1000, "{}", seen.len());
    }
}

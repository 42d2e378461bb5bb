//! Places on disks of any size: the blocks that random faults choose from, and where a member's
//! areas begin.

use super::{Array, Stack};
use crate::random::Random;
use spindles_block::{BlockIndex, BlockSize, MemberIndex};
use spindles_format::{AreaKind, DeviceRecord};

/// On larger disks, random faults would never hit the blocks that an array uses.
pub(crate) const SMALL_BYTES: u64 = 2 << 20;

/// Where the areas of a member begin that the checkers inspect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    data: BlockIndex,
    bitmaps: Option<[BlockIndex; 2]>,
    checksums: Option<BlockIndex>,
}

impl Places {
    /// Returns the places on a device.
    pub(crate) fn of(device: &DeviceRecord) -> Self {
        let first = |kind| {
            let area = device.area(kind).expect("a member has all areas");
            BlockIndex(area.offset_bytes / u64::from(device.block_size.bytes()))
        };
        Self {
            data: device.data_start(),
            bitmaps: Some([
                first(AreaKind::DIRTY_BITMAP),
                first(AreaKind::WRITTEN_BITMAP),
            ]),
            checksums: Some(first(AreaKind::CHECKSUMS)),
        }
    }
}

impl Array {
    /// Moves a member's areas to these places. Returns the old ones.
    pub(crate) fn put_places(&mut self, member: MemberIndex, new: Places) -> Places {
        let at = usize::from(member.0);
        let data = std::mem::replace(&mut self.data_start[at], new.data);
        let mut bitmaps = None;
        if let (Some(regions), Some([dirty, written])) = (&mut self.regions, new.bitmaps) {
            bitmaps = Some([
                regions.put_place(AreaKind::DIRTY_BITMAP, at, dirty),
                regions.put_place(AreaKind::WRITTEN_BITMAP, at, written),
            ]);
        }
        let mut checksums = None;
        if let (Some(all), Some(start)) = (&mut self.checksums, new.checksums) {
            let members = all.starts.len().max(at + 1);
            all.starts.resize(members, BlockIndex(0));
            checksums = Some(std::mem::replace(&mut all.starts[at], start));
        }
        Places {
            data,
            bitmaps,
            checksums,
        }
    }
}

/// Blocks of a disk that random faults choose from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InUse {
    /// Blocks from the start of the disk.
    head_blocks: u64,
    /// Start of the second range.
    data: BlockIndex,
    data_blocks: u64,
}

impl InUse {
    /// Returns the number of blocks.
    pub(crate) fn blocks(self) -> u64 {
        self.head_blocks + self.data_blocks
    }

    /// Returns the block with that number among them.
    pub(crate) fn block(self, number: u64) -> u64 {
        match number.checked_sub(self.head_blocks) {
            Some(number) => self.data.0 + number,
            None => number,
        }
    }

    /// Returns the ranges in use of a disk of `disk_bytes` bytes: offset and length of each, in
    /// bytes.
    pub(crate) fn parts(self, disk_bytes: u64, block_size: BlockSize) -> Vec<(u64, u64)> {
        let block_bytes = u64::from(block_size.bytes());
        if self.data_blocks == 0 {
            return vec![(0, disk_bytes)];
        }
        vec![
            (0, self.head_blocks * block_bytes),
            (self.data.0 * block_bytes, self.data_blocks * block_bytes),
        ]
    }

    /// Draws a block in use.
    pub(crate) fn any(self, random: &mut Random) -> BlockIndex {
        BlockIndex(self.block(random.below(self.blocks())))
    }
}

impl Stack {
    /// Moves the known corruption of a disk when a replacement has its data elsewhere: the corrupt
    /// blocks may have been copied.
    pub(crate) fn move_decay(&mut self, disk: usize, from: Places, to: Places) {
        if from.data == to.data {
            return;
        }
        let of_disk = |(of, _): &(usize, u64)| *of == disk;
        let moved = self.decayed.extract_if(.., |place, _| of_disk(place));
        let moved: Vec<_> = moved
            .filter_map(|((_, block), decay)| {
                let offset = block.checked_sub(from.data.0)?;
                Some(((disk, to.data.0 + offset), decay))
            })
            .collect();
        self.decayed.extend(moved);
    }

    /// Returns the blocks of a disk that random faults choose from. On a small disk these are all
    /// blocks; on a large disk, the superblocks and the array's blocks.
    pub(crate) fn in_use(&self, disk: usize) -> InUse {
        let block_bytes = u64::try_from(self.block_bytes).expect("small");
        let bytes = self.disks[disk].bytes();
        let blocks = bytes / block_bytes;
        if bytes <= SMALL_BYTES {
            return InUse {
                head_blocks: blocks,
                data: BlockIndex(0),
                data_blocks: 0,
            };
        }
        let (array, member) = self.position(disk);
        let this = &self.arrays[array];
        let data = this.data_start[usize::from(member.0)];
        let used = if member.0 < this.geometry.members() {
            this.geometry.member_blocks_used(member)
        } else {
            1
        };
        InUse {
            head_blocks: SMALL_BYTES / 32 / block_bytes,
            data,
            data_blocks: used.min(blocks - data.0),
        }
    }
}

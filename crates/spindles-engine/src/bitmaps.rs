//! The bitmaps on the members. They are read at opening, and written durably to all members alike
//! before anything that depends on them. One write of each bitmap is under way at a time; later
//! changes share the next.

use crate::{
    bits::Bits,
    index,
    system_io::{MetadataBuffer, Place},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockSize, MemberSet};
use spindles_format::{BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, BITMAP_PAGE_WORDS};

/// The most that is read or written of a bitmap at once.
const TRANSFER_BYTES: u32 = 16 << 10;

/// One bitmap.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    /// The bits in memory.
    pub(crate) bits: Bits,
    /// Bits that are set on all members, even if the current write fails.
    pub(crate) durable: Bits,
    /// Blocks of the area that hold pages of the bitmap.
    pub(crate) blocks: u64,
    pub(crate) pages_per_block: u64,
    /// Blocks to be written.
    pub(crate) wanted: Bits,
    /// The blocks being written.
    pub(crate) flying: Range<u64>,
    /// The words being written.
    pub(crate) snapshot: Vec<u64>,
    /// Writes under way.
    pub(crate) pending: u32,
    pub(crate) place: Place,
}

impl Bitmap {
    /// Creates the bitmap of an array of that many regions, with no bit set. `stored` reserves the
    /// space to write it.
    pub(crate) fn new(
        regions: u64,
        stored: bool,
        block_size: BlockSize,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let pages_per_block = u64::from(block_size.bytes()) / BITMAP_PAGE_BYTES as u64;
        let blocks = regions.div_ceil(BITMAP_PAGE_REGIONS * pages_per_block);
        let most = transfer_blocks(block_size, blocks);
        Self {
            bits: Bits::new(regions, false),
            durable: Bits::new(regions, false),
            blocks,
            pages_per_block,
            wanted: Bits::new(blocks, false),
            flying: 0..0,
            snapshot: Vec::with_capacity(index(most) * words_per_block(pages_per_block)),
            pending: 0,
            place: buffer.reserve(u8::from(stored), most),
        }
    }

    fn block_of(&self, region: u64) -> u64 {
        region / (BITMAP_PAGE_REGIONS * self.pages_per_block)
    }

    /// Returns the range of words in these bitmap blocks, cut off after the last region.
    pub(crate) fn words_of(&self, blocks: Range<u64>) -> Range<usize> {
        let each = words_per_block(self.pages_per_block);
        let place = |block: u64| usize::try_from(block).expect("an area is small") * each;
        place(blocks.start)..place(blocks.end).min(self.bits.words().len())
    }

    /// Sets a bit. Returns true if it was not set.
    pub(crate) fn set(&mut self, region: u64) -> bool {
        let new = !self.bits.get(region);
        if new {
            self.bits.set(region);
            self.wanted.set(self.block_of(region));
        }
        new
    }

    pub(crate) fn clear(&mut self, region: u64) {
        if self.bits.get(region) {
            self.bits.clear(region);
            self.wanted.set(self.block_of(region));
        }
    }

    /// Queues the whole bitmap to be written, for another device.
    pub(crate) fn tell_all(&mut self) {
        for block in 0..self.blocks {
            self.wanted.set(block);
        }
    }

    /// Returns true if the members have the bit of this region as it is in memory.
    pub(crate) fn is_stored(&self, region: u64) -> bool {
        let block = self.block_of(region);
        !self.wanted.get(block) && !self.flying.contains(&block)
    }

    /// Returns true if the members have the bitmap as it is in memory.
    pub(crate) fn is_all_stored(&self) -> bool {
        self.flying.is_empty() && self.wanted.is_empty()
    }

    /// Returns the blocks to write next.
    pub(crate) fn next_write(&self) -> Option<Range<u64>> {
        let first = self.wanted.next(0)?;
        let most = u64::from(self.place.blocks);
        let last = (first..(first + most).min(self.blocks)).rfind(|&block| self.wanted.get(block));
        Some(first..last.expect("the first") + 1)
    }
}

fn words_per_block(pages_per_block: u64) -> usize {
    usize::try_from(pages_per_block).expect("8") * BITMAP_PAGE_WORDS
}

fn transfer_blocks(block_size: BlockSize, blocks: u64) -> u32 {
    let most = TRANSFER_BYTES / block_size.bytes();
    u32::try_from(blocks).map_or(most, |blocks| blocks.min(most))
}

/// The bitmaps being read at opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loading {
    /// Which of `BITMAPS`.
    pub(crate) bitmap: usize,
    pub(crate) block: u64,
    pub(crate) blocks: u32,
    pub(crate) pending: u32,
    /// Members from which these blocks could be read.
    pub(crate) read: MemberSet,
    pub(crate) place: Place,
}

impl Loading {
    /// Reserves the space to read the bitmaps of an array of that many regions.
    pub(crate) fn new(
        members: u8,
        regions: u64,
        block_size: BlockSize,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let pages_per_block = u64::from(block_size.bytes()) / BITMAP_PAGE_BYTES as u64;
        let blocks = regions.div_ceil(BITMAP_PAGE_REGIONS * pages_per_block);
        Self {
            bitmap: 0,
            block: 0,
            blocks: 0,
            pending: 0,
            read: MemberSet::EMPTY,
            place: buffer.reserve(members, transfer_blocks(block_size, blocks)),
        }
    }
}

//! The bitmaps on the members. They are read at opening, and written durably to all members alike
//! before anything that depends on them. One write of each bitmap is under way at a time; later
//! changes share the next.

use crate::{
    bits::Bits,
    durable::{DurableBlocks, Loading, transfer_blocks},
    index,
    system_io::{MetadataBuffer, Place},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockSize, MemberSet};
use spindles_format::{
    AreaKind, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, BITMAP_PAGE_WORDS, BitmapPage, Uuid,
    decode_bitmap, encode_bitmap,
};

/// One bitmap.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    area: AreaKind,
    /// The bits in memory.
    pub(crate) bits: Bits,
    /// Bits that are set on all members, even if the current write fails.
    durable: Bits,
    /// Blocks of the area that hold pages of the bitmap.
    blocks: DurableBlocks,
    pages_per_block: u64,
    /// The words being written.
    snapshot: Vec<u64>,
    place: Place,
}

impl Bitmap {
    /// Creates the bitmap of an array of that many regions, with no bit set. `stored` reserves the
    /// space to write it.
    pub(crate) fn new(
        area: AreaKind,
        regions: u64,
        stored: bool,
        block_size: BlockSize,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let pages_per_block = u64::from(block_size.bytes()) / BITMAP_PAGE_BYTES as u64;
        let blocks = regions.div_ceil(BITMAP_PAGE_REGIONS * pages_per_block);
        let most = transfer_blocks(block_size, blocks);
        Self {
            area,
            bits: Bits::new(regions, false),
            durable: Bits::new(regions, false),
            blocks: DurableBlocks::new(blocks, u64::from(most)),
            pages_per_block,
            snapshot: Vec::with_capacity(index(most) * words_per_block(pages_per_block)),
            place: buffer.reserve(u8::from(stored), most),
        }
    }

    /// Returns the blocks of the area that hold pages of the bitmap.
    pub(crate) fn blocks(&self) -> &DurableBlocks {
        &self.blocks
    }

    /// Like `blocks`, mutable.
    pub(crate) fn blocks_mut(&mut self) -> &mut DurableBlocks {
        &mut self.blocks
    }

    fn block_of(&self, region: u64) -> u64 {
        region / (BITMAP_PAGE_REGIONS * self.pages_per_block)
    }

    /// Returns the range of words in these bitmap blocks, cut off after the last region.
    fn words_of(&self, blocks: Range<u64>) -> Range<usize> {
        let each = words_per_block(self.pages_per_block);
        let place = |block: u64| usize::try_from(block).expect("an area is small") * each;
        place(blocks.start)..place(blocks.end).min(self.bits.words().len())
    }

    /// Sets a bit.
    pub(crate) fn set(&mut self, region: u64) {
        if !self.bits.get(region) {
            self.bits.set(region);
            self.blocks.want(self.block_of(region));
        }
    }

    pub(crate) fn clear(&mut self, region: u64) {
        if self.bits.get(region) {
            self.bits.clear(region);
            self.blocks.want(self.block_of(region));
        }
    }

    /// Returns true if the members have the bit of this region as it is in memory.
    pub(crate) fn is_stored(&self, region: u64) -> bool {
        self.blocks.is_stored(self.block_of(region))
    }

    /// Returns true if the bit of this region is set on all members, even if the current write
    /// fails.
    #[inline]
    pub(crate) fn is_durable(&self, region: u64) -> bool {
        self.durable.get(region)
    }

    // ---- writing ------------------------------------------------------------------------------

    /// Begins the next write: encodes its pages. Returns its blocks, and the place of their bytes.
    pub(crate) fn begin_write(
        &mut self,
        array: Uuid,
        generation: u64,
        buffer: &mut MetadataBuffer,
    ) -> (Range<u64>, Place) {
        let blocks = self.blocks.begin();
        let words = self.words_of(blocks.clone());
        self.snapshot.clear();
        self.snapshot
            .extend_from_slice(&self.bits.words()[words.clone()]);
        // Bits that are being cleared are not relied on from now on.
        let durable = &mut self.durable.words_mut()[words];
        for (durable, &now) in durable.iter_mut().zip(&self.snapshot) {
            *durable &= now;
        }
        let pages = blocks.start * self.pages_per_block..blocks.end * self.pages_per_block;
        let words = self.snapshot.as_chunks::<BITMAP_PAGE_WORDS>().0;
        let out = buffer.bytes_mut(self.place, 0);
        let out = out.as_chunks_mut::<BITMAP_PAGE_BYTES>().0;
        for (at, (page, out)) in pages.zip(out).enumerate() {
            // The last block may have room for more pages than there are.
            let words = words.get(at).unwrap_or(&[0; BITMAP_PAGE_WORDS]);
            encode_bitmap(&self.page(array, page), generation, words, out);
        }
        (blocks, self.place)
    }

    fn page(&self, array: Uuid, page: u64) -> BitmapPage {
        BitmapPage {
            array,
            kind: self.area,
            page: u32::try_from(page).expect("few"),
        }
    }

    /// Handles the end of a write of these blocks on all members. If writing has `stopped`, some
    /// members may have the new bits, and others not.
    pub(crate) fn end_write(&mut self, blocks: Range<u64>, stopped: bool) {
        if stopped {
            blocks.for_each(|block| self.blocks.want(block));
        } else {
            let words = self.words_of(blocks);
            self.durable.words_mut()[words].copy_from_slice(&self.snapshot);
        }
    }

    /// Returns true if a block read from a member equals memory.
    pub(crate) fn agrees(&self, array: Uuid, block: u64, bytes: &[u8]) -> bool {
        let words = self.words_of(block..block + 1).step_by(BITMAP_PAGE_WORDS);
        let bytes = bytes.as_chunks::<BITMAP_PAGE_BYTES>().0;
        let mut pages = (block * self.pages_per_block..).zip(words).zip(bytes);
        pages.all(|((page, word), bytes)| {
            let bits = decode_bitmap(&self.page(array, page), bytes);
            bits.is_some_and(|bits| self.bits.agrees(word, &bits))
        })
    }

    // ---- reading ------------------------------------------------------------------------------

    /// Takes the union of the good copies of each page of a part. Copies lie in `buffer`, those of
    /// `loading.read` were readable. Without a good copy, all bits are set, and those of `lost` too
    /// if the bitmap is the one of written regions.
    pub(crate) fn merge(
        &mut self,
        array: Uuid,
        loading: &Loading,
        members: MemberSet,
        buffer: &MetadataBuffer,
        lost: &mut Bits,
    ) {
        let words = self.words_of(loading.block..loading.block + u64::from(loading.blocks));
        for (at, first) in words.step_by(BITMAP_PAGE_WORDS).enumerate() {
            let number = u64::try_from(first / BITMAP_PAGE_WORDS).expect("few");
            let page = self.page(array, number);
            let (mut all, mut any, mut good) = ([u64::MAX; _], [0; BITMAP_PAGE_WORDS], 0);
            for member in members.intersection(loading.read).iter() {
                let bytes = buffer.bytes(loading.place, member.0);
                let bytes = &bytes.as_chunks::<BITMAP_PAGE_BYTES>().0[at];
                let Some(bits) = decode_bitmap(&page, bytes) else {
                    continue;
                };
                good += 1;
                for (word, bits) in bits.into_iter().enumerate() {
                    any[word] |= bits;
                    all[word] &= bits;
                }
            }
            if good == 0 {
                any = [u64::MAX; BITMAP_PAGE_WORDS];
                if self.area == AreaKind::WRITTEN_BITMAP {
                    // Never-written regions hold any contents, and redundancy that does not belong
                    // to them.
                    lost.words_mut()[first..][..BITMAP_PAGE_WORDS].fill(u64::MAX);
                }
            }
            self.bits.words_mut()[first..][..BITMAP_PAGE_WORDS].copy_from_slice(&any);
            if good < members.count() || any != all {
                self.blocks.want(number / self.pages_per_block);
            }
        }
        self.bits.trim();
        lost.trim();
    }

    /// Marks the bits of all blocks as durable that no member lacks.
    pub(crate) fn loaded(&mut self) {
        for block in (0..self.blocks.count()).filter(|&block| !self.blocks.is_wanted(block)) {
            let words = self.words_of(block..block + 1);
            self.durable.words_mut()[words.clone()].copy_from_slice(&self.bits.words()[words]);
        }
    }
}

fn words_per_block(pages_per_block: u64) -> usize {
    usize::try_from(pages_per_block).expect("8") * BITMAP_PAGE_WORDS
}

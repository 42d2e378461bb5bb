//! Memory for whoever asks a target: an area for each of its slots, and some that are lent to the
//! target for reads that are hedged.
//!
//! What a slot reads may come in one of those: that is the slot's from then on, and what was the
//! slot's is lent instead ([`Areas::take_over`]).

use crate::Target;
use spindles_block::{BufferId, BufferSlice, Reply};
use std::ops::Range;

/// Memory that is lent: so many areas, and so many bytes, at most.
const LENT_AREAS: u32 = 64;
const LENT_BYTES: u32 = 32 << 20;

/// Equally long areas of one buffer of a target.
#[derive(Debug)]
pub struct Areas {
    buffer: BufferId,
    area_blocks: u32,
    area_bytes: usize,
    /// Which area each slot has.
    of_slots: Vec<u32>,
}

impl Areas {
    /// An area of zeros for each slot. What was lent to the target before, it gets no more.
    #[must_use]
    pub fn new(target: &mut dyn Target, slots: u32, area_blocks: u32) -> Self {
        let facts = target.facts();
        let block_bytes = facts.block_size.bytes();
        let lent = match &facts.array {
            Some(array) if array.redundancy > 0 => {
                let fit = LENT_BYTES / (area_blocks * block_bytes);
                fit.min(LENT_AREAS).min(slots)
            }
            _ => 0,
        };
        let areas = Self {
            buffer: target.allocate(area_blocks * (slots + lent)),
            area_blocks,
            area_bytes: usize::try_from(area_blocks * block_bytes).expect("64 bits"),
            of_slots: (0..slots).collect(),
        };
        target.end_lending();
        for area in slots..slots + lent {
            if !target.lend(areas.at(area), area_blocks) {
                break;
            }
        }
        areas
    }

    /// The buffer that all areas lie in.
    #[must_use]
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }

    /// How long an area is.
    #[must_use]
    pub fn area_blocks(&self) -> u32 {
        self.area_blocks
    }

    /// Where the area of a slot is.
    #[must_use]
    pub fn of(&self, slot: usize) -> BufferSlice {
        self.at(self.of_slots[slot])
    }

    /// Which bytes of the buffer the area of a slot has.
    #[must_use]
    pub fn bytes_of(&self, slot: usize) -> Range<usize> {
        let area = usize::try_from(self.of_slots[slot]).expect("64 bits");
        area * self.area_bytes..(area + 1) * self.area_bytes
    }

    /// The request of a slot is answered: what it read may be in another area, which is the slot's
    /// from now on. Only requests that begin with the slot's area, and have it for themselves, may
    /// be submitted as exchangeable.
    pub fn take_over(&mut self, slot: usize, reply: &Reply) {
        if let Some(area) = reply.exchanged {
            assert_eq!(area.buffer, self.buffer, "memory of another kind");
            self.of_slots[slot] = area.first_block / self.area_blocks;
        }
    }

    fn at(&self, area: u32) -> BufferSlice {
        BufferSlice {
            buffer: self.buffer,
            first_block: area * self.area_blocks,
        }
    }
}

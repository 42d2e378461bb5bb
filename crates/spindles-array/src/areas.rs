//! Payload memory for users of a target: one area per slot, and spare areas lent to the target for
//! hedged reads.
//!
//! A read of a slot may complete in a lent area. The slot then keeps that area, and its earlier
//! area is lent instead ([`Areas::take_over`]).

use crate::Target;
use spindles_block::{BufferId, BufferSlice, Reply};
use std::ops::Range;

/// Most areas, and most bytes, that are lent.
const LENT_AREAS: u32 = 64;
const LENT_BYTES: u32 = 32 << 20;

/// Equally long areas of one buffer of a target.
#[derive(Debug)]
pub struct Areas {
    buffer: BufferId,
    area_blocks: u32,
    area_bytes: usize,
    /// The area of each slot.
    of_slots: Vec<u32>,
}

impl Areas {
    /// Allocates a zeroed area for each slot. Ends all earlier lending to the target.
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

    /// Returns the buffer that contains all areas.
    #[must_use]
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }

    /// Returns the length of an area.
    #[must_use]
    pub fn area_blocks(&self) -> u32 {
        self.area_blocks
    }

    /// Returns the area of a slot.
    #[must_use]
    pub fn of(&self, slot: usize) -> BufferSlice {
        self.at(self.of_slots[slot])
    }

    /// Returns the bytes of the buffer that a slot's area occupies.
    #[must_use]
    pub fn bytes_of(&self, slot: usize) -> Range<usize> {
        let area = usize::try_from(self.of_slots[slot]).expect("64 bits");
        area * self.area_bytes..(area + 1) * self.area_bytes
    }

    /// Updates a slot when its request is answered: the data may be in another area, which the slot
    /// keeps. A request may be submitted as exchangeable only if it begins at its slot's area and
    /// has that area to itself.
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

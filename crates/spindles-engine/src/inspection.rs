//! Inspects the metadata on the members for a scrub, in addition to the comparison of data.
//!
//! All metadata is in memory while the array is open. Members are compared with memory, and
//! repaired from memory. A block that is written during its read is not checked: the write
//! refreshes the block.

use crate::{
    jobs::scrub::{Fate, Flaw},
    system_io::{MetadataBuffer, Place},
};
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberSet};
use spindles_format::AreaKind;

/// The most that is read of a member at once.
const TRANSFER_BYTES: u32 = 16 << 10;

/// A part of the metadata, read from all members at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A slot of the superblocks.
    Superblock { slot: u8 },
    /// Blocks of a bitmap or of the list of bad blocks, from this one on.
    Blocks { area: AreaKind, block: u64 },
    /// Pages of checksums in memory, at most one of each member, from this frame on. Other pages
    /// are read when the scrub comes to their blocks.
    Checksums { frame: u32 },
    /// The stamp of the journal's own device.
    JournalDevice,
}

/// A place in the metadata of a member that has a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataFinding {
    /// The member, or `JOURNAL_DEVICE`.
    pub member: MemberIndex,
    /// The area.
    pub area: AreaKind,
    /// The first block, counted from the start of its device.
    pub block: BlockIndex,
    /// The number of blocks.
    pub blocks: u32,
    /// The flaw.
    pub flaw: Flaw,
    /// What happened to the place.
    pub fate: Fate,
    /// True if a scrub found it, false if an opening did.
    pub by_scrub: bool,
}

/// The inspection of the metadata.
#[derive(Clone, Debug)]
pub(crate) struct Inspection {
    pub(crate) place: Place,
    /// The part that is being read, or is read next.
    pub(crate) part: Option<Part>,
    /// Reads and repairs under way.
    pub(crate) pending: u32,
    /// Members from which the part is being read.
    pub(crate) members: MemberSet,
    /// Members that answered such a read with an error.
    pub(crate) unreadable: MemberSet,
    /// True if the stamp of the journal's device could not be read.
    pub(crate) stamp_unreadable: bool,
    /// Blocks of the current part.
    pub(crate) blocks: u32,
    /// Bitmap of blocks of the current part that were written meanwhile.
    written: u64,
    /// The generation when the current part was requested; `None` if a superblock was being
    /// written.
    pub(crate) generation: Option<u64>,
    /// The generation when the first slot was requested.
    pub(crate) first_generation: u64,
    /// Members with a bad slot: the superblocks are written again after the walk. A member that
    /// answers only errors is out by then, and has missed no generation.
    pub(crate) bad_slots: MemberSet,
    /// Frames whose pages are read, by member.
    pub(crate) frames: [Option<u32>; 64],
    /// Progress of the end of the scrub.
    pub(crate) ending: Ending,
}

/// The last steps of a scrub. The log is emptied, so that no later opening needs its blocks, and
/// all repairs are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    NotYet,
    Log,
    Flushing,
    Flushed,
}

impl Inspection {
    /// Reserves the buffers. An array without superblocks has no metadata.
    pub(crate) fn new(
        members: u8,
        stored: bool,
        block_size: BlockSize,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let blocks = TRANSFER_BYTES / block_size.bytes();
        Self {
            // One more for the device of the journal.
            place: buffer.reserve(if stored { members + 1 } else { 0 }, blocks),
            part: None,
            pending: 0,
            members: MemberSet::EMPTY,
            unreadable: MemberSet::EMPTY,
            stamp_unreadable: false,
            blocks: 0,
            written: 0,
            generation: None,
            first_generation: 0,
            bad_slots: MemberSet::EMPTY,
            frames: [None; 64],
            ending: Ending::NotYet,
        }
    }

    /// Begins with the first part.
    pub(crate) fn begin(&mut self, generation: u64) {
        self.first_generation = generation;
        self.part = Some(Part::Superblock { slot: 0 });
        self.bad_slots = MemberSet::EMPTY;
        self.ending = Ending::NotYet;
    }

    /// Ends the inspection: reads under way are not judged.
    pub(crate) fn end(&mut self) {
        self.part = None;
    }

    /// Handles the flush that made all repairs durable.
    pub(crate) fn flushed(&mut self) {
        self.ending = Ending::Flushed;
    }

    /// Returns true if no read, repair or flush is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending == 0 && self.ending != Ending::Flushing
    }

    /// Begins the read of a part of this many blocks, while writes of `flying` are under way.
    pub(crate) fn reads(&mut self, members: MemberSet, blocks: u32, flying: Range<u64>) {
        self.members = members;
        self.unreadable = MemberSet::EMPTY;
        self.stamp_unreadable = false;
        self.blocks = blocks;
        self.written = 0;
        self.note_blocks(flying);
    }

    fn first(&self) -> Option<(AreaKind, u64)> {
        match self.part? {
            Part::Blocks { area, block } => Some((area, block)),
            Part::Superblock { .. } | Part::Checksums { .. } | Part::JournalDevice => None,
        }
    }

    fn note_blocks(&mut self, blocks: Range<u64>) {
        let Some((_, first)) = self.first() else {
            return;
        };
        for block in blocks {
            if let Some(at) = block.checked_sub(first).filter(|&at| at < 64) {
                self.written |= 1 << at;
            }
        }
    }

    /// Records a write to these blocks of an area.
    pub(crate) fn note_write(&mut self, area: AreaKind, blocks: Range<u64>) {
        if self.first().is_some_and(|(kind, _)| kind == area) {
            self.note_blocks(blocks);
        }
    }

    /// Returns true if a block of the current part was written since it was requested.
    pub(crate) fn was_written(&self, at: u32) -> bool {
        self.written >> at & 1 == 1
    }
}

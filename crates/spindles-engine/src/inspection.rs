//! Inspects the metadata on the members for a scrub, in addition to the comparison of data.
//!
//! All metadata is in memory while the array is open. Members are compared with memory, and
//! repaired from memory. A block that is written during its read is not checked: the write
//! refreshes the block.

use crate::{
    jobs::scrub::{Fate, Flaw},
    log::JOURNAL_DEVICE,
    system_io::{MetadataBuffer, Place},
};
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, BufferSlice, MemberIndex, MemberSet};
use spindles_format::{AreaKind, SUPERBLOCK_BYTES, Uuid, decode};

/// After this many generations, both slots were written since the inspection began.
const BOTH_SLOTS: u64 = 3;

/// Up to this generation an array may have superblocks in one slot only: no opening has written to
/// it since it was created.
const NEW: u64 = 2;

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
    place: Place,
    /// The part that is being read, or is read next.
    part: Option<Part>,
    /// Reads and repairs under way.
    pending: u32,
    /// Members from which the part is being read.
    members: MemberSet,
    /// Members that answered such a read with an error.
    unreadable: MemberSet,
    /// True if the stamp of the journal's device could not be read.
    stamp_unreadable: bool,
    /// Blocks of the current part.
    blocks: u32,
    /// Bitmap of blocks of the current part that were written meanwhile.
    written: u64,
    /// The generation when the current part was requested; `None` if a superblock was being
    /// written.
    generation: Option<u64>,
    /// The generation when the first slot was requested.
    first_generation: u64,
    /// Members with a bad slot: the superblocks are written again after the walk. A member that
    /// answers only errors is out by then, and has missed no generation.
    bad_slots: MemberSet,
    /// Frames whose pages are read, by member.
    frames: [Option<u32>; 64],
    /// Progress of the end of the scrub.
    ending: Ending,
}

/// The last steps of a scrub. The log is emptied, so that no later opening needs its blocks, and
/// all repairs are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    NotYet,
    Log,
    Flushing,
    Flushed,
}

/// The superblocks as they are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Superblocks {
    pub(crate) array: Uuid,
    pub(crate) generation: u64,
    /// True while superblocks are written.
    pub(crate) is_busy: bool,
    /// True if the superblocks can't be written.
    pub(crate) is_broken: bool,
}

/// The verdict on a slot of the superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotVerdict {
    /// A superblock was written meanwhile: read the slot again.
    ReadAgain,
    /// These members have a bad superblock in the slot.
    Bad(MemberSet),
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

    /// Returns the part that is being read, or is read next.
    pub(crate) fn part(&self) -> Option<Part> {
        self.part
    }

    /// Goes on to the next part. The area that is being read has `length` blocks.
    pub(crate) fn next_part(&mut self, length: u64) {
        let Some(part) = self.part else {
            return;
        };
        let read = u64::from(self.blocks);
        let first_of = |area| Part::Blocks { area, block: 0 };
        self.part = match part {
            Part::Superblock { slot: 0 } => Some(Part::Superblock { slot: 1 }),
            Part::Superblock { .. } => Some(first_of(AreaKind::DIRTY_BITMAP)),
            Part::Blocks { area, block } if block + read < length => {
                let block = block + read;
                Some(Part::Blocks { area, block })
            }
            Part::Blocks { area, .. } => match area {
                AreaKind::DIRTY_BITMAP => Some(first_of(AreaKind::WRITTEN_BITMAP)),
                AreaKind::WRITTEN_BITMAP => Some(first_of(AreaKind::BAD_BLOCKS)),
                _ => Some(Part::Checksums { frame: 0 }),
            },
            Part::Checksums { .. } if read > 0 => {
                let last = self.frames.iter().flatten().max();
                let frame = last.expect("one was read") + 1;
                Some(Part::Checksums { frame })
            }
            Part::Checksums { .. } => Some(Part::JournalDevice),
            Part::JournalDevice => None,
        };
    }

    // ---- reads --------------------------------------------------------------------------------

    /// Returns true if reads or repairs are under way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.pending > 0
    }

    /// Notes that a read or repair is under way.
    pub(crate) fn begins_io(&mut self) {
        self.pending += 1;
    }

    /// Handles the end of a repair.
    pub(crate) fn repaired(&mut self) {
        self.pending -= 1;
    }

    /// Handles the end of a read. Returns true if no other is under way.
    pub(crate) fn read(&mut self, member: MemberIndex, is_read: bool) -> bool {
        self.pending -= 1;
        if !is_read && member == JOURNAL_DEVICE {
            self.stamp_unreadable = true;
        } else if !is_read {
            self.unreadable = self.unreadable.with(member);
        }
        self.pending == 0
    }

    /// Returns true if a member, or the journal's device, answered the current read with an error.
    pub(crate) fn is_unreadable(&self, member: MemberIndex) -> bool {
        match member {
            JOURNAL_DEVICE => self.stamp_unreadable,
            member => self.unreadable.contains(member),
        }
    }

    /// Returns the most blocks of a read.
    pub(crate) fn blocks_max(&self) -> u32 {
        self.place.blocks
    }

    /// Returns the number of blocks of the current part.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Sets the number of blocks of the current part.
    pub(crate) fn set_blocks(&mut self, blocks: u32) {
        self.blocks = blocks;
    }

    /// Returns the members from which the current part is read.
    pub(crate) fn members(&self) -> MemberSet {
        self.members
    }

    /// Returns the buffer of a member, or with the number of members that of the journal's device.
    pub(crate) fn buffer(&self, part: u8, buffer: &MetadataBuffer) -> BufferSlice {
        buffer.slice(self.place, part)
    }

    /// Returns the bytes in that buffer.
    pub(crate) fn bytes<'buffer>(
        &self,
        part: u8,
        buffer: &'buffer MetadataBuffer,
    ) -> &'buffer [u8] {
        buffer.bytes(self.place, part)
    }

    /// Like `bytes`, mutable.
    pub(crate) fn bytes_mut<'buffer>(
        &self,
        part: u8,
        buffer: &'buffer mut MetadataBuffer,
    ) -> &'buffer mut [u8] {
        buffer.bytes_mut(self.place, part)
    }

    // ---- pages of checksums -------------------------------------------------------------------

    /// Forgets the frames of the last part.
    pub(crate) fn clear_frames(&mut self) {
        self.frames.fill(None);
    }

    /// Lets the page in a frame be read with the current part. Returns false if another page of the
    /// member is.
    pub(crate) fn takes_frame(&mut self, member: MemberIndex, frame: u32) -> bool {
        let place = &mut self.frames[usize::from(member.0)];
        let is_free = place.is_none();
        if is_free {
            *place = Some(frame);
        }
        is_free
    }

    /// Returns the frame whose page is read from a member.
    pub(crate) fn frame_of(&self, member: MemberIndex) -> Option<u32> {
        self.frames[usize::from(member.0)]
    }

    /// Takes the frames whose pages are read.
    pub(crate) fn take_frames(&mut self) -> impl Iterator<Item = u32> {
        self.frames.iter_mut().filter_map(Option::take)
    }

    // ---- superblocks --------------------------------------------------------------------------

    /// Notes that a slot is read while the superblocks are in this state.
    pub(crate) fn reads_slot(&mut self, superblocks: &Superblocks) {
        self.generation = (!superblocks.is_busy).then_some(superblocks.generation);
    }

    /// Compares a slot that was read, of those `members` that are still present.
    pub(crate) fn judge_slot(
        &self,
        slot: u8,
        superblocks: &Superblocks,
        members: MemberSet,
        buffer: &MetadataBuffer,
    ) -> SlotVerdict {
        let generation = superblocks.generation;
        if superblocks.is_broken || generation >= self.first_generation + BOTH_SLOTS {
            return SlotVerdict::Bad(MemberSet::EMPTY);
        }
        if superblocks.is_busy || self.generation != Some(generation) {
            return SlotVerdict::ReadAgain;
        }
        let is_current = generation % 2 == u64::from(slot);
        if !is_current && generation <= NEW {
            return SlotVerdict::Bad(MemberSet::EMPTY);
        }
        let is_bad = |member: &MemberIndex| {
            let bytes = self.bytes(member.0, buffer);
            let good = decode(&bytes[..SUPERBLOCK_BYTES]).is_ok_and(|(record, _)| {
                let known =
                    record.uuid == superblocks.array && record.generation % 2 == u64::from(slot);
                known && (record.generation == generation || !is_current)
            });
            !good || self.unreadable.contains(*member)
        };
        SlotVerdict::Bad(members.iter().filter(is_bad).collect())
    }

    /// Lets the superblocks of these members be written again after the walk.
    pub(crate) fn has_bad_slots(&mut self, members: MemberSet) {
        self.bad_slots = self.bad_slots.union(members);
    }

    /// Takes the members whose superblocks are to be written again.
    pub(crate) fn take_bad_slots(&mut self) -> MemberSet {
        core::mem::take(&mut self.bad_slots)
    }

    // ---- the end ------------------------------------------------------------------------------

    /// Returns true if the last steps have not begun.
    pub(crate) fn may_end(&self) -> bool {
        self.ending == Ending::NotYet
    }

    /// Notes that the log is being emptied.
    pub(crate) fn empties_log(&mut self) {
        self.ending = Ending::Log;
    }

    /// Returns true if the flush comes after the log is emptied.
    pub(crate) fn awaits_log(&self) -> bool {
        self.ending == Ending::Log
    }

    /// Notes the flush of all members, which is under way.
    pub(crate) fn flushes(&mut self) {
        self.ending = Ending::Flushing;
    }

    /// Handles the flush that made all repairs durable.
    pub(crate) fn flushed(&mut self) {
        self.ending = Ending::Flushed;
    }

    /// Returns true if that flush has ended.
    pub(crate) fn is_flushed(&self) -> bool {
        self.ending == Ending::Flushed
    }

    // ---- blocks written meanwhile -------------------------------------------------------------

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

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::BufferId;

    const FIRST: MemberIndex = MemberIndex(0);
    const SECOND: MemberIndex = MemberIndex(1);

    /// Returns an inspection of two members that began at generation 7, and its buffer of zeros.
    fn begun() -> (Inspection, MetadataBuffer) {
        let mut buffer = MetadataBuffer::new(BufferId::NONE, BlockSize::B4096, 3);
        let mut inspection = Inspection::new(2, true, BlockSize::B4096, &mut buffer);
        buffer.provide();
        inspection.begin(7);
        (inspection, buffer)
    }

    const fn superblocks(generation: u64) -> Superblocks {
        Superblocks {
            array: Uuid([1; 16]),
            generation,
            is_busy: false,
            is_broken: false,
        }
    }

    #[test]
    fn parts_follow_each_other() {
        let (mut inspection, _) = begun();
        let mut parts = Vec::new();
        while let Some(part) = inspection.part() {
            parts.push(part);
            let blocks = match part {
                Part::Blocks {
                    area: AreaKind::DIRTY_BITMAP,
                    ..
                } => 4,
                Part::Checksums { frame: 0 } => 1,
                _ => 0,
            };
            inspection.reads(MemberSet::all(2), blocks, 0..0);
            inspection.clear_frames();
            assert!(inspection.takes_frame(SECOND, 5));
            inspection.next_part(match part {
                Part::Blocks {
                    area: AreaKind::DIRTY_BITMAP,
                    ..
                } => 6,
                _ => 0,
            });
        }
        let blocks = |area, block| Part::Blocks { area, block };
        let expected = [
            Part::Superblock { slot: 0 },
            Part::Superblock { slot: 1 },
            blocks(AreaKind::DIRTY_BITMAP, 0),
            blocks(AreaKind::DIRTY_BITMAP, 4),
            blocks(AreaKind::WRITTEN_BITMAP, 0),
            blocks(AreaKind::BAD_BLOCKS, 0),
            Part::Checksums { frame: 0 },
            Part::Checksums { frame: 6 },
            Part::JournalDevice,
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_slot_is_read_again_if_a_superblock_was_written_meanwhile() {
        let (mut inspection, buffer) = begun();
        let judge = |inspection: &Inspection, state: &Superblocks| {
            inspection.judge_slot(1, state, MemberSet::EMPTY.with(FIRST), &buffer)
        };
        inspection.reads_slot(&superblocks(7));
        assert_eq!(judge(&inspection, &superblocks(8)), SlotVerdict::ReadAgain);
        let busy = Superblocks {
            is_busy: true,
            ..superblocks(7)
        };
        assert_eq!(judge(&inspection, &busy), SlotVerdict::ReadAgain);
        // Zeros are no superblock.
        let bad = SlotVerdict::Bad(MemberSet::EMPTY.with(FIRST));
        assert_eq!(judge(&inspection, &superblocks(7)), bad);
        inspection.reads_slot(&busy);
        assert_eq!(judge(&inspection, &superblocks(7)), SlotVerdict::ReadAgain);
        // The engine has written both slots since.
        let none = SlotVerdict::Bad(MemberSet::EMPTY);
        assert_eq!(judge(&inspection, &superblocks(10)), none);
    }

    #[test]
    fn the_other_slot_of_a_new_array_may_be_empty() {
        let (mut inspection, buffer) = begun();
        inspection.begin(2);
        inspection.reads_slot(&superblocks(2));
        let verdict = |slot| {
            inspection.judge_slot(slot, &superblocks(2), MemberSet::EMPTY.with(FIRST), &buffer)
        };
        assert_eq!(verdict(1), SlotVerdict::Bad(MemberSet::EMPTY));
        assert_eq!(verdict(0), SlotVerdict::Bad(MemberSet::EMPTY.with(FIRST)));
    }

    #[test]
    fn the_last_read_ends_a_part() {
        let (mut inspection, _) = begun();
        inspection.reads(MemberSet::all(2), 1, 0..0);
        for _ in 0..3 {
            inspection.begins_io();
        }
        assert!(!inspection.read(FIRST, true));
        assert!(!inspection.read(SECOND, false));
        assert!(inspection.read(JOURNAL_DEVICE, false));
        let unreadable = [FIRST, SECOND, JOURNAL_DEVICE].map(|of| inspection.is_unreadable(of));
        assert_eq!(unreadable, [false, true, true]);
    }

    #[test]
    fn blocks_written_meanwhile_are_not_judged() {
        let (mut inspection, _) = begun();
        inspection.part = Some(Part::Blocks {
            area: AreaKind::BAD_BLOCKS,
            block: 8,
        });
        inspection.reads(MemberSet::all(2), 4, 7..9);
        inspection.note_write(AreaKind::DIRTY_BITMAP, 10..11);
        inspection.note_write(AreaKind::BAD_BLOCKS, 11..12);
        let written = [0, 1, 2, 3].map(|at| inspection.was_written(at));
        assert_eq!(written, [true, false, false, true]);
    }
}

//! Inspects metadata for a scrub: reads it from the members, compares it with memory, and rewrites
//! blocks that differ.

use crate::{
    Engine, JOURNAL_DEVICE, Mutation, index,
    inspection::{Ending, MetadataFinding, Part},
    jobs::scrub::{Fate, Flaw},
    output::{Event, OutReason, Output},
    system_io::Purpose,
};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberError, MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::{AreaKind, ErrorCounts, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES, decode};

/// After this many generations, both slots were written since the inspection began.
const BOTH_SLOTS: u64 = 3;

/// Up to this generation an array may have superblocks in one slot only: no opening has written to
/// it since it was created.
const NEW: u64 = 2;

impl Engine {
    /// Begins the inspection with the scrub.
    pub(crate) fn begin_inspection(&mut self) {
        let skips = self.mutated(Mutation::SkipInspection);
        if self.metadata.persistence().is_some() && !skips {
            self.inspection.begin(self.metadata.generation());
        }
    }

    /// Continues the inspection. Returns true while it is under way.
    pub(crate) fn inspects(&mut self) -> bool {
        while let Some(part) = self.inspection.part {
            if self.inspection.pending > 0 {
                return true;
            }
            self.read_part(part);
            if self.inspection.pending == 0 {
                self.inspection.part = self.part_after(part);
            }
        }
        self.inspection.pending > 0
    }

    /// Returns the next part; `None` after the last.
    fn part_after(&self, part: Part) -> Option<Part> {
        let read = u64::from(self.inspection.blocks);
        let first_of = |area| Part::Blocks { area, block: 0 };
        Some(match part {
            Part::Superblock { slot: 0 } => Part::Superblock { slot: 1 },
            Part::Superblock { .. } => first_of(AreaKind::DIRTY_BITMAP),
            Part::Blocks { area, block } if block + read < self.area_blocks(area) => {
                let block = block + read;
                Part::Blocks { area, block }
            }
            Part::Blocks { area, .. } => match area {
                AreaKind::DIRTY_BITMAP => first_of(AreaKind::WRITTEN_BITMAP),
                AreaKind::WRITTEN_BITMAP => first_of(AreaKind::BAD_BLOCKS),
                _ => Part::Checksums { frame: 0 },
            },
            Part::Checksums { .. } if read > 0 => {
                let last = self.inspection.frames.iter().flatten().max();
                let frame = last.expect("one was read") + 1;
                Part::Checksums { frame }
            }
            Part::Checksums { .. } => Part::JournalDevice,
            Part::JournalDevice => return None,
        })
    }

    /// Reads a part, as many blocks as there is room for.
    fn read_part(&mut self, part: Part) {
        // A device being filled receives all metadata too.
        let members = self.present();
        let most = u64::from(self.inspection.place.blocks);
        match part {
            Part::Superblock { slot } => {
                let busy = self.metadata.busy();
                let generation = self.metadata.generation();
                self.inspection.generation = (!busy).then_some(generation);
                let block = self.slot_block(slot);
                self.read_area(members, self.metadata.place().blocks, 0..0, |_, _| block);
            }
            Part::Blocks { area, block } => {
                let left = self.area_blocks(area).saturating_sub(block);
                let written = self.blocks_of(area).written();
                let blocks = u32::try_from(left.min(most)).expect("few");
                self.read_area(members, blocks, written, |engine, member| {
                    engine.area_block(member, area).plus(block)
                });
            }
            Part::Checksums { frame } => self.read_pages(members, frame),
            Part::JournalDevice => self.read_stamp(),
        }
    }

    fn slot_block(&self, slot: u8) -> BlockIndex {
        BlockIndex(SLOT_BYTES[usize::from(slot)] / u64::from(self.settings.block_size.bytes()))
    }

    fn read_area(
        &mut self,
        members: MemberSet,
        blocks: u32,
        flying: Range<u64>,
        first: impl Fn(&Self, MemberIndex) -> BlockIndex,
    ) {
        self.inspection.reads(members, blocks, flying);
        if blocks == 0 {
            return;
        }
        for member in members.iter() {
            let block = first(self, member);
            self.read_for_inspection(member, member.0, block, blocks);
        }
    }

    fn read_for_inspection(
        &mut self,
        member: MemberIndex,
        part: u8,
        block: BlockIndex,
        blocks: u32,
    ) {
        self.inspection.pending += 1;
        let buffer = self.metadata_buffer.slice(self.inspection.place, part);
        self.system_io(
            Purpose::Inspection,
            member,
            Operation::Read,
            block,
            blocks,
            buffer,
        );
    }

    /// Reads the pages of frames from `from` on, at most one of each member.
    fn read_pages(&mut self, members: MemberSet, from: u32) {
        self.inspection.reads(members, 0, 0..0);
        self.inspection.frames.fill(None);
        let count = (self.pages.as_ref()).map_or(0, |pages| pages.frames.len());
        for at in from..u32::try_from(count).expect("frames are counted in 32 bits") {
            let pages = self.pages.as_mut().expect("they were counted");
            let (member, page) = (pages.frames[index(at)].member, pages.frames[index(at)].page);
            if !members.contains(member) || !pages.may_be_checked(at) {
                continue;
            }
            let place = &mut self.inspection.frames[usize::from(member.0)];
            if place.is_some() {
                return; // The page comes with the next part.
            }
            *place = Some(at);
            pages.begin_check(at);
            let blocks = pages.page_blocks;
            let block = pages.starts[usize::from(member.0)].plus(page * u64::from(blocks));
            self.inspection.blocks = blocks;
            self.read_for_inspection(member, member.0, block, blocks);
        }
    }

    /// Reads the stamp of the journal's own device, if it has been written.
    fn read_stamp(&mut self) {
        self.inspection.reads(MemberSet::EMPTY, 0, 0..0);
        let Some((block, blocks)) = self.log.stamp_place() else {
            return;
        };
        self.inspection.blocks = blocks;
        let part = self.geometry.members();
        self.read_for_inspection(JOURNAL_DEVICE, part, block, blocks);
    }

    /// Handles the result of a read of the inspection.
    pub(crate) fn inspected(&mut self, member: MemberIndex, result: MemberResult) {
        self.inspection.pending -= 1;
        match result {
            Ok(()) => {}
            Err(error) if member == JOURNAL_DEVICE => {
                self.inspection.stamp_unreadable = true;
                // Otherwise the log lies on the members, and nothing depends on the device.
                if error == MemberError::Gone && self.log.is_on_device() {
                    self.log_failed(member, result);
                }
            }
            Err(error) => {
                self.inspection.unreadable = self.inspection.unreadable.with(member);
                if error == MemberError::Gone {
                    self.put_out(member, OutReason::Error(error));
                }
            }
        }
        if self.inspection.pending > 0 {
            return;
        }
        let Some(part) = self.inspection.part else {
            return self.end_checks(); // The scrub was stopped.
        };
        match part {
            Part::Superblock { slot } if !self.judge_slot(slot) => return,
            Part::Superblock { .. } => {}
            Part::Blocks { area, block } => self.judge_blocks(area, block),
            Part::Checksums { .. } => self.judge_pages(),
            Part::JournalDevice => self.judge_stamp(),
        }
        self.inspection.part = self.part_after(part);
    }

    /// Returns the members of the current part that are still present.
    fn judged(&self) -> MemberSet {
        self.inspection.members.difference(self.members.missing())
    }

    /// Compares a slot of the superblocks. Returns false if one was written meanwhile, and the slot
    /// must be read again.
    fn judge_slot(&mut self, slot: u8) -> bool {
        let generation = self.metadata.generation();
        if self.metadata.is_broken() || generation >= self.inspection.first_generation + BOTH_SLOTS
        {
            return true;
        }
        if self.metadata.busy() || self.inspection.generation != Some(generation) {
            return false;
        }
        let is_current = generation % 2 == u64::from(slot);
        if !is_current && generation <= NEW {
            return true;
        }
        let array = &self.metadata.persistence().expect("stored").array.uuid;
        let mut bad = MemberSet::EMPTY;
        for member in self.judged().iter() {
            let bytes = self.metadata_buffer.bytes(self.inspection.place, member.0);
            let good = decode(&bytes[..SUPERBLOCK_BYTES]).is_ok_and(|(record, _)| {
                let known = record.uuid == *array && record.generation % 2 == u64::from(slot);
                known && (record.generation == generation || !is_current)
            });
            if !good || self.inspection.unreadable.contains(member) {
                bad = bad.with(member);
            }
        }
        let (block, blocks) = (self.slot_block(slot), self.metadata.place().blocks);
        for member in bad.iter() {
            self.found_metadata(member, AreaKind::SUPERBLOCK, block, blocks);
        }
        if self.repairs_metadata() {
            self.inspection.bad_slots = self.inspection.bad_slots.union(bad);
        }
        true
    }

    /// Compares the blocks of an area that were read.
    fn judge_blocks(&mut self, area: AreaKind, first: u64) {
        let block_bytes = index(self.settings.block_size.bytes());
        for at in 0..self.inspection.blocks {
            if self.inspection.was_written(at) {
                continue;
            }
            let block = first + u64::from(at);
            let is_bad = |member: &MemberIndex| {
                let bytes = self.metadata_buffer.bytes(self.inspection.place, member.0);
                let bytes = &bytes[index(at) * block_bytes..][..block_bytes];
                let is_unreadable = self.inspection.unreadable.contains(*member);
                let agrees = self.area_agrees(area, block, bytes);
                agrees.is_some_and(|agrees| !agrees || is_unreadable)
            };
            let bad = self.judged().iter().filter(is_bad);
            let bad = bad.fold(MemberSet::EMPTY, MemberSet::with);
            for member in bad.iter() {
                let place = self.area_block(member, area).plus(block);
                self.found_metadata(member, area, place, 1);
            }
            if !bad.is_empty() && self.repairs_metadata() {
                self.rewrite_block(area, block);
            }
        }
    }

    fn judge_pages(&mut self) {
        for member in MemberSet::all(self.geometry.members()).iter() {
            let Some(at) = self.inspection.frames[usize::from(member.0)] else {
                continue;
            };
            let pages = self.pages.as_mut().expect("one was read");
            let stable = pages.end_check(at) && !self.members.missing().contains(member);
            let read = self.metadata_buffer.bytes(self.inspection.place, member.0);
            let blocks = pages.page_blocks;
            let kept = self
                .metadata_buffer
                .bytes_at(pages.place, pages.start_of(at), blocks);
            let good = read[..kept.len()] == *kept && !self.inspection.unreadable.contains(member);
            if good || !stable {
                continue;
            }
            let page = pages.frames[index(at)].page;
            let block = pages.starts[usize::from(member.0)].plus(page * u64::from(blocks));
            if self.repairs_metadata() {
                let pages = self.pages.as_mut().expect("one was read");
                pages.rewrite(at);
            }
            self.found_metadata(member, AreaKind::CHECKSUMS, block, blocks);
        }
    }

    /// Ends the checks of pages after the scrub was stopped.
    fn end_checks(&mut self) {
        if let Some(pages) = &mut self.pages {
            for at in self.inspection.frames.iter_mut().filter_map(Option::take) {
                pages.end_check(at);
            }
        }
    }

    fn judge_stamp(&mut self) {
        let Some((block, blocks)) = self.log.stamp_place() else {
            return;
        };
        let part = self.geometry.members();
        let bytes = self.metadata_buffer.bytes(self.inspection.place, part);
        let stamp = self.log.stamped_device();
        let read = JournalDevice::decode(&bytes[..SUPERBLOCK_BYTES]).ok();
        if read == stamp && !self.inspection.stamp_unreadable {
            return;
        }
        self.found_metadata(JOURNAL_DEVICE, AreaKind::JOURNAL, block, blocks);
        if let Some(stamp) = stamp.filter(|_| self.repairs_metadata()) {
            let place = self.inspection.place;
            let bytes = self.metadata_buffer.bytes_mut(place, part);
            bytes[..SUPERBLOCK_BYTES].copy_from_slice(&stamp.encode());
            self.inspection.pending += 1;
            self.system_io(
                Purpose::InspectionRepair,
                JOURNAL_DEVICE,
                Operation::Write { fua: true },
                block,
                blocks,
                self.metadata_buffer.slice(place, part),
            );
        }
    }

    /// Handles the rewrite of the stamp of the journal's own device.
    pub(crate) fn stamp_repaired(&mut self, result: MemberResult) {
        self.inspection.pending -= 1;
        if self.log.is_on_device() {
            self.log_failed(JOURNAL_DEVICE, result);
        }
    }

    /// Returns true if flaws are repaired.
    fn repairs_metadata(&self) -> bool {
        !self.scrub.is_check() && !self.metadata.is_broken()
    }

    fn found_metadata(
        &mut self,
        member: MemberIndex,
        area: AreaKind,
        block: BlockIndex,
        blocks: u32,
    ) {
        let repaired = self.repairs_metadata();
        let counted = u64::from(blocks);
        self.scrub.count_metadata(counted, repaired);
        let is_unreadable = match member {
            JOURNAL_DEVICE => self.inspection.stamp_unreadable,
            member => self.inspection.unreadable.contains(member),
        };
        // Superblocks are written only at the end, so that slots not read yet stay unchanged.
        self.metadata.count_errors(
            member,
            &ErrorCounts {
                read_errors: u64::from(is_unreadable),
                corrupt_blocks: if is_unreadable { 0 } else { counted },
                repaired_blocks: if repaired { counted } else { 0 },
                ..ErrorCounts::NONE
            },
            self.now,
        );
        self.outbox
            .put(Output::Event(Event::MetadataFound(MetadataFinding {
                member,
                area,
                block,
                blocks,
                flaw: if is_unreadable {
                    Flaw::Unreadable
                } else {
                    Flaw::Rotten
                },
                fate: if repaired { Fate::Repaired } else { Fate::Left },
                by_scrub: true,
            })));
    }

    // ---- the end ------------------------------------------------------------------------------

    /// Writes the superblocks again if a slot of a present member was bad.
    pub(crate) fn rewrite_bad_slots(&mut self) {
        let bad = core::mem::take(&mut self.inspection.bad_slots);
        if !bad.difference(self.members.missing()).is_empty() {
            self.metadata.rewrite_both_slots();
            self.want_update();
        }
    }

    /// Ends a scrub that covered the whole array: empties the log, and makes all repairs durable.
    /// Returns true until the scrub has ended.
    pub(crate) fn scrub_is_ending(&mut self) -> bool {
        let stored = self.metadata.persistence().is_some();
        if !stored || !self.repairs_metadata() {
            return false;
        }
        if self.inspection.ending == Ending::NotYet {
            self.rewrite_bad_slots();
            let restarts = !self.mutated(Mutation::SkipInspection) && self.restart_log();
            self.inspection.ending = Ending::Log;
            if restarts {
                return true;
            }
        }
        if self.inspection.ending == Ending::Log {
            if self.log.is_undecided() {
                return true;
            }
            self.flush_active(Purpose::ScrubFlush);
            self.inspection.ending = Ending::Flushing;
        }
        let stored = self.bitmaps_are_stored() && self.bad_blocks_are_stored();
        self.inspection.ending != Ending::Flushed || self.metadata.busy() || !stored
    }
}

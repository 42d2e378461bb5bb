//! Inspects metadata for a scrub: reads it from the members, compares it with memory, and rewrites
//! blocks that differ.

use crate::{
    Engine, JOURNAL_DEVICE, Mutation,
    checksums::Pages,
    index,
    inspection::{MetadataFinding, Part, SlotVerdict, Superblocks},
    jobs::scrub::{Fate, Flaw},
    output::{Event, OutReason, Output},
    system_io::Purpose,
};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberError, MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::{AreaKind, ErrorCounts, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES};

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
        while let Some(part) = self.inspection.part() {
            if self.inspection.is_waiting() {
                return true;
            }
            self.read_part(part);
            if !self.inspection.is_waiting() {
                self.next_part();
            }
        }
        self.inspection.is_waiting()
    }

    fn next_part(&mut self) {
        let length = match self.inspection.part() {
            Some(Part::Blocks { area, .. }) => self.area_blocks(area),
            _ => 0,
        };
        self.inspection.next_part(length);
    }

    /// Reads a part, as many blocks as there is room for.
    fn read_part(&mut self, part: Part) {
        // A device being filled receives all metadata too.
        let members = self.present();
        let most = u64::from(self.inspection.blocks_max());
        match part {
            Part::Superblock { slot } => {
                let superblocks = self.superblocks();
                self.inspection.reads_slot(&superblocks);
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
        self.inspection.begins_io();
        let buffer = self.inspection.buffer(part, &self.metadata_buffer);
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
        self.inspection.clear_frames();
        let count = self.pages.as_ref().map_or(0, Pages::frame_count);
        for at in from..count {
            let pages = self.pages.as_mut().expect("they were counted");
            let member = pages.member_of(at);
            if !members.contains(member) || !pages.may_be_checked(at) {
                continue;
            }
            if !self.inspection.takes_frame(member, at) {
                return; // The page comes with the next part.
            }
            pages.begin_check(at);
            let (block, blocks) = (pages.block_of(at), pages.page_blocks());
            self.inspection.set_blocks(blocks);
            self.read_for_inspection(member, member.0, block, blocks);
        }
    }

    /// Reads the stamp of the journal's own device, if it has been written.
    fn read_stamp(&mut self) {
        self.inspection.reads(MemberSet::EMPTY, 0, 0..0);
        let Some((block, blocks)) = self.log.stamp_place() else {
            return;
        };
        self.inspection.set_blocks(blocks);
        let part = self.geometry.members();
        self.read_for_inspection(JOURNAL_DEVICE, part, block, blocks);
    }

    /// Handles the result of a read of the inspection.
    pub(crate) fn inspected(&mut self, member: MemberIndex, result: MemberResult) {
        let is_last = self.inspection.read(member, result.is_ok());
        match result {
            Err(error) if member == JOURNAL_DEVICE => {
                // Otherwise the log lies on the members, and nothing depends on the device.
                if error == MemberError::Gone && self.log.is_on_device() {
                    self.log_failed(member, result);
                }
            }
            Err(MemberError::Gone) => {
                self.put_out(member, OutReason::Error(MemberError::Gone));
            }
            Ok(()) | Err(_) => {}
        }
        if !is_last {
            return;
        }
        let Some(part) = self.inspection.part() else {
            return self.end_checks(); // The scrub was stopped.
        };
        match part {
            Part::Superblock { slot } if !self.judge_slot(slot) => return,
            Part::Superblock { .. } => {}
            Part::Blocks { area, block } => self.judge_blocks(area, block),
            Part::Checksums { .. } => self.judge_pages(),
            Part::JournalDevice => self.judge_stamp(),
        }
        self.next_part();
    }

    /// Returns the members of the current part that are still present.
    fn judged(&self) -> MemberSet {
        self.inspection.members().difference(self.members.missing())
    }

    /// Compares a slot of the superblocks. Returns false if one was written meanwhile, and the slot
    /// must be read again.
    fn judge_slot(&mut self, slot: u8) -> bool {
        let (superblocks, members) = (self.superblocks(), self.judged());
        let buffer = &self.metadata_buffer;
        let verdict = (self.inspection).judge_slot(slot, &superblocks, members, buffer);
        let SlotVerdict::Bad(bad) = verdict else {
            return false;
        };
        let (block, blocks) = (self.slot_block(slot), self.metadata.place().blocks);
        for member in bad.iter() {
            self.found_metadata(member, AreaKind::SUPERBLOCK, block, blocks);
        }
        if self.repairs_metadata() {
            self.inspection.has_bad_slots(bad);
        }
        true
    }

    fn superblocks(&self) -> Superblocks {
        let persistence = self.metadata.persistence().expect("there are superblocks");
        Superblocks {
            array: persistence.array.uuid,
            generation: self.metadata.generation(),
            is_busy: self.metadata.busy(),
            is_broken: self.metadata.is_broken(),
        }
    }

    /// Compares the blocks of an area that were read.
    fn judge_blocks(&mut self, area: AreaKind, first: u64) {
        let block_bytes = index(self.settings.block_size.bytes());
        for at in 0..self.inspection.blocks() {
            if self.inspection.was_written(at) {
                continue;
            }
            let block = first + u64::from(at);
            let is_bad = |member: &MemberIndex| {
                let bytes = self.inspection.bytes(member.0, &self.metadata_buffer);
                let bytes = &bytes[index(at) * block_bytes..][..block_bytes];
                let is_unreadable = self.inspection.is_unreadable(*member);
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
            let Some(at) = self.inspection.frame_of(member) else {
                continue;
            };
            let pages = self.pages.as_mut().expect("one was read");
            let stable = pages.end_check(at) && !self.members.missing().contains(member);
            let read = self.inspection.bytes(member.0, &self.metadata_buffer);
            let kept = pages.bytes_of(at, &self.metadata_buffer);
            let good = read[..kept.len()] == *kept && !self.inspection.is_unreadable(member);
            if good || !stable {
                continue;
            }
            let (block, blocks) = (pages.block_of(at), pages.page_blocks());
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
            for at in self.inspection.take_frames() {
                pages.end_check(at);
            }
        }
    }

    fn judge_stamp(&mut self) {
        let Some((block, blocks)) = self.log.stamp_place() else {
            return;
        };
        let part = self.geometry.members();
        let bytes = self.inspection.bytes(part, &self.metadata_buffer);
        let stamp = self.log.stamped_device();
        let read = JournalDevice::decode(&bytes[..SUPERBLOCK_BYTES]).ok();
        if read == stamp && !self.inspection.is_unreadable(JOURNAL_DEVICE) {
            return;
        }
        self.found_metadata(JOURNAL_DEVICE, AreaKind::JOURNAL, block, blocks);
        if let Some(stamp) = stamp.filter(|_| self.repairs_metadata()) {
            let bytes = self.inspection.bytes_mut(part, &mut self.metadata_buffer);
            bytes[..SUPERBLOCK_BYTES].copy_from_slice(&stamp.encode());
            self.inspection.begins_io();
            self.system_io(
                Purpose::InspectionRepair,
                JOURNAL_DEVICE,
                Operation::Write { fua: true },
                block,
                blocks,
                self.inspection.buffer(part, &self.metadata_buffer),
            );
        }
    }

    /// Handles the rewrite of the stamp of the journal's own device.
    pub(crate) fn stamp_repaired(&mut self, result: MemberResult) {
        self.inspection.repaired();
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
        let is_unreadable = self.inspection.is_unreadable(member);
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
        let bad = self.inspection.take_bad_slots();
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
        if self.inspection.may_end() {
            self.rewrite_bad_slots();
            let restarts = !self.mutated(Mutation::SkipInspection) && self.restart_log();
            self.inspection.empties_log();
            if restarts {
                return true;
            }
        }
        if self.inspection.awaits_log() {
            if self.log.is_undecided() {
                return true;
            }
            self.flush_active(Purpose::ScrubFlush);
            self.inspection.flushes();
        }
        let stored = self.bitmaps_are_stored() && self.bad_blocks_are_stored();
        !self.inspection.is_flushed() || self.metadata.busy() || !stored
    }
}

//! Copies a live member onto a *replacement device*, which then takes its position. Redundancy is
//! never less than before. Other members are read only if a block of this member is unreadable.
//!
//! ```text
//!  Idle ──Replace──▶ Waiting ──no work under way──▶ Copying ──all copied──▶ Draining
//!   ▲                                                 ▲                        │ no work
//!   │                                                 │                        │ under way
//!   │                                                 └──first-written regions─┤
//!   │                                                                          ▼
//!   └──all recorded── Recording ◀──its superblock durable── Telling ◀──durable── Flushing
//! ```
//!
//! From `Copying` on, each write to the member goes to the replacement device as well, which is not
//! relied on yet. In the end no new work begins for a moment: everything is flushed, and one
//! superblock update gives the replacement device the position. That device gets the update first
//! and the others after it, so that no superblock names a device that does not know it. After a
//! crash in between, either device may be the member, since both hold everything: the replacement
//! device if it is given, otherwise the old one.
//!
//! If the member goes out meanwhile, it is rebuilt onto the replacement device from the start. If
//! the replacement device fails, or a place can't be read anywhere, the replacement ends and the
//! member stays.

use super::Job;
use crate::{
    Engine, REPLACEMENT, RangeId, SLOT_BITS,
    jobs::{
        Place, Walk,
        replace::{Replace, ReplacementDevice, Stage},
    },
    output::{Event, Output, ReplaceEnd},
    plan::Ask,
    system_io::Purpose,
};
use spindles_block::{
    BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::BadBlockKind;
use spindles_format::DeviceRecord;

pub(crate) static JOB: Job = Job {
    name: "replace",
    about: "copies a member that is alive onto a device that takes its place",
    ask: Ask::Replace,
    next_group: |engine, group| engine.regions.next_group(&engine.replace.todo, group),
    advanced: |_| {},
    ended: Engine::all_copied,
    stopped: Some(|engine| engine.end_replace(ReplaceEnd::Stopped)),
    waits: None,
    turn: None,
};

impl Engine {
    /// Returns the member that is being replaced.
    pub fn replacing(&self) -> Option<MemberIndex> {
        let replacement = self
            .replace
            .replacement
            .filter(|_| self.replace.stage != Stage::Idle);
        replacement.map(|replacement| replacement.member)
    }

    /// Returns the index at which the driver attaches a replacement device: beyond all positions.
    pub fn replacement(&self) -> MemberIndex {
        MemberIndex(self.geometry.members())
    }

    /// Returns the position that the device beyond all positions is for.
    pub(crate) fn beside(&self) -> Option<MemberIndex> {
        self.replacing().or(self.rebuild.replacement_joins())
    }

    /// Returns true if the array uses the device that is attached beyond all positions. Otherwise
    /// the driver closes it.
    pub fn uses_replacement(&self) -> bool {
        self.beside().is_some()
    }

    /// Continues a replacement that waits until nothing is under way. Returns true if it no longer
    /// waits.
    pub(crate) fn pump_replace(&mut self) -> bool {
        let waits = matches!(self.replace.stage, Stage::Waiting | Stage::Draining);
        if !waits || !self.opening.is_serving() || !self.is_quiet() {
            return false;
        }
        if self.metadata.is_broken() || self.has_failed() {
            self.end_replace(ReplaceEnd::ArrayFailed);
            return true;
        }
        if self.replace.stage == Stage::Waiting {
            let replacement = self.replace.replacement.expect("a device waits");
            Replace::everything(&self.regions, &mut self.replace.todo);
            self.replace.fresh.clear_all();
            self.replace.stage = Stage::Copying;
            self.jobs.begin(&JOB, Place::default());
            let member = replacement.member;
            self.outbox
                .put(Output::Event(Event::ReplaceStarted { member }));
            self.write_all_areas();
        } else if !self.copy_fresh() {
            self.flush_before_telling();
        }
        true
    }

    /// Copies the regions that were written for the first time meanwhile. Returns true if copying
    /// continues.
    fn copy_fresh(&mut self) -> bool {
        if self.replace.fresh.is_empty() {
            return false;
        }
        core::mem::swap(&mut self.replace.todo, &mut self.replace.fresh);
        self.replace.fresh.clear_all();
        self.replace.stage = Stage::Copying;
        self.jobs.begin(&JOB, Place::default());
        true
    }

    fn all_copied(&mut self, walk: Walk) {
        if walk.failed > 0 {
            let failed = walk.failed;
            return self.end_replace(ReplaceEnd::Unreadable { failed });
        }
        if !self.copy_fresh() {
            self.replace.stage = Stage::Draining;
        }
    }

    /// Makes the replacement device durable, and everything logged durable in place, so that the
    /// journals are not needed. Called while no other work is under way.
    fn flush_before_telling(&mut self) {
        self.replace.stage = Stage::Flushing;
        // Changed checksums are written before the flush, to both devices.
        self.flush_active(Purpose::ReplaceFlush);
    }

    pub(crate) fn replace_flushed(&mut self, member: MemberIndex) {
        if self.replace.stage != Stage::Flushing {
            return;
        }
        if member != self.replacement() {
            self.own_flushes.begin(Purpose::ReplaceFlush, 1);
            return self.flush_device(self.replacement(), Purpose::ReplaceFlush);
        }
        if self.metadata.busy() || self.metadata.is_broken() {
            // Another member went out meanwhile: that comes first.
            self.replace.stage = Stage::Draining;
            return;
        }
        self.exchange();
        self.scrub.forget_mark();
        self.replace.stage = Stage::Telling;
        self.log.void(self.metadata.generation() + 1);
        self.want_update();
    }

    /// Exchanges the device of the member and the one beyond all positions, here and at the driver.
    fn exchange(&mut self) {
        let replacement = self
            .replace
            .replacement
            .as_mut()
            .expect("one is replacement");
        let member = replacement.member;
        let at = usize::from(member.0);
        let persistence = (self.metadata.persistence_mut()).expect("it was looked at before");
        let device = persistence.devices[at].as_mut().expect("it is there");
        core::mem::swap(device, &mut replacement.device);
        core::mem::swap(
            &mut persistence.array.member[at].device_uuid,
            &mut replacement.uuid,
        );
        let device = *device;
        self.members.exchange(member, device.data_start());
        self.first_touch.has_another(member);
        self.log.moves(member, &device);
        if let Some(pages) = &mut self.pages {
            pages.moves(member, &device);
        }
        self.outbox.put(Output::Swap(member));
    }

    /// Handles the result of the write of the replacement device's superblock.
    pub(crate) fn replacement_told(&mut self, result: MemberResult) {
        let member = self
            .replace
            .replacement
            .expect("its superblock was written")
            .member;
        match result {
            Ok(()) => {
                self.replace.stage = Stage::Recording;
                self.replace.faults = self
                    .faults
                    .with_bad_blocks(member, self.bad.blocks(BadBlockKind::Unread(member)));
                self.forget_faults(member);
                self.forget_bad_blocks(MemberSet::EMPTY.with(member));
                self.faults.forget_counts(member);
                self.tell_others(member);
            }
            Err(error) => {
                // No other superblock names the device: the old member keeps the position.
                self.exchange();
                let persistence = self.metadata.persistence_mut();
                persistence.expect("it was written").array.generation -= 1;
                self.end_replace(ReplaceEnd::ReplacementLost(error));
                self.write_all_areas();
                self.want_update();
            }
        }
    }

    /// Ends a replacement that an update of the superblocks has recorded.
    pub(crate) fn replace_recorded(&mut self) {
        if self.replace.stage == Stage::Recording {
            self.replace.stage = Stage::Idle;
            let member = self
                .replace
                .replacement
                .take()
                .expect("its superblock was written")
                .member;
            if !self.metadata.is_broken() {
                let faults = self.replace.faults;
                self.outbox
                    .put(Output::Event(Event::ReplaceDone { member, faults }));
            }
        }
    }

    /// Ends a replacement without the replacement device.
    fn end_replace(&mut self, why: ReplaceEnd) {
        self.jobs.stop(&JOB);
        self.replace.stage = Stage::Idle;
        let replacement = self.replace.replacement.take().expect("it goes on");
        let member = replacement.member;
        self.outbox
            .put(Output::Event(Event::ReplaceEnded { member, why }));
    }

    /// Handles the loss of a member. If it is being replaced, it is rebuilt onto the replacement
    /// device.
    pub(crate) fn replaced_is_out(&mut self, member: MemberIndex) {
        if self.replacing() != Some(member)
            || !(self.replace.is_secret() || self.replace.stage == Stage::Waiting)
        {
            return;
        }
        let ReplacementDevice { device, uuid, .. } = self.replace.replacement.expect("looked at");
        self.end_replace(ReplaceEnd::MemberLost);
        self.join_replacement(member, &device, uuid);
    }

    /// Ends a replacement whose copy is not complete, because the array is about to be closed.
    pub(crate) fn replace_closes(&mut self) {
        if self.replace.is_secret() || self.replace.stage == Stage::Waiting {
            self.end_replace(ReplaceEnd::Stopped);
        }
    }

    // ---- the replacement device's I/O ----------------------------------------------------------

    /// Sends a stripe range's write of a slot to the replacement device. The write need not be
    /// durable on that device.
    pub(crate) fn write_to_replacement(
        &mut self,
        id: RangeId,
        slot: u8,
        operation: Operation,
        buffer: BufferSlice,
    ) {
        let operation = match operation {
            Operation::Write { .. } => Operation::Write { fua: false },
            Operation::WriteZeroes { .. } => Operation::WriteZeroes { fua: false },
            operation => operation,
        };
        let range = &self.ranges[id];
        let (low, blocks) = (range.low, range.blocks);
        let place = self.ranges.slot(id, slot);
        let start = self.replace.device().data_start();
        self.outbox.put(Output::Member(MemberIo {
            id: MemberIoId(REPLACEMENT | id.0 << SLOT_BITS | u32::from(slot)),
            member: self.replacement(),
            operation,
            block: start.plus(place.offset.0).plus(u64::from(low)),
            blocks,
            buffer,
        }));
    }

    /// Returns the replacement device of that member, if checksums are written to it too.
    pub(crate) fn hidden_replacement(&self, member: MemberIndex) -> Option<&DeviceRecord> {
        let replacement = self.replace.device_of_bitmaps()?;
        (self.replacing() == Some(member)).then_some(replacement)
    }

    /// Handles the result of a stripe range's write to the replacement device.
    #[cold]
    pub(crate) fn written_to_replacement(&mut self, id: MemberIoId, result: MemberResult) {
        self.replacement_failed(result);
        let id = RangeId((id.0 & !REPLACEMENT) >> SLOT_BITS);
        let range = &mut self.ranges[id];
        assert!(range.pending > 0, "a member I/O came back twice");
        range.pending -= 1;
        if range.pending == 0 {
            self.range_ios_done(id);
        }
    }

    /// Ends the replacement if the replacement device answered with an error.
    pub(crate) fn replacement_failed(&mut self, result: MemberResult) {
        if let Err(error) = result
            && self.replace.is_secret()
        {
            self.end_replace(ReplaceEnd::ReplacementLost(error));
        }
    }
}

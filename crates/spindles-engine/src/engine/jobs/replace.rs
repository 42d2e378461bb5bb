//! Copies a member that is alive onto a *replacement device*, which then takes its position: redundancy is
//! never less than it was. The others are read only where the member can't be.
//!
//! ```text
//!  Idle ──Replace──▶ Waiting ──nothing under way──▶ Copying ◀──regions written for the first time──┐
//!   ▲                                                  └──all copied──▶ Draining ──nothing under way┤
//!   │                                                                                              ▼
//!   └──all know──── Recording ◀──it knows, durably── Telling ◀──all is durable──── Flushing
//! ```
//!
//! From `Copying` on, whatever is written to the member goes to the replacement device as well; nobody counts
//! on it. In the end nothing new is begun for a moment: everything is flushed, and one superblock
//! update gives the replacement device the position. It is told first and the others after it, so that nobody
//! counts on a device that does not know. After a crash in between the replacement device is the member where
//! it is given, and the old device where it is not: both hold everything.
//!
//! A member that goes out meanwhile makes it a rebuild onto the replacement device, from anew. A replacement device that
//! fails, and a place that can be read nowhere, end it; the member stays.

use super::Job;
use crate::{
    Engine, Mutation, REPLACEMENT, RangeId, SLOT_BITS,
    jobs::{
        Place, Walk,
        replace::{Replace, ReplacementDevice, Stage},
    },
    output::{Event, Output, ReplaceEnd},
    plan::Ask,
    slots::SlotSet,
    system_io::Purpose,
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{DeviceRecord, Uuid};

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
    /// The member that is being replaced.
    pub fn replacing(&self) -> Option<MemberIndex> {
        let replacement = self
            .replace
            .replacement
            .filter(|_| self.replace.stage != Stage::Idle);
        replacement.map(|replacement| replacement.member)
    }

    /// Where the driver attaches a device that is to replace a member: beside all positions.
    pub fn replacement(&self) -> MemberIndex {
        MemberIndex(self.geometry.members())
    }

    /// The position that the device beside all positions is for.
    pub(crate) fn beside(&self) -> Option<MemberIndex> {
        self.replacing().or(self.rebuild.replacement_joins())
    }

    /// Whether the array uses the device that is attached beside all positions. Without a use the driver closes it.
    pub fn uses_replacement(&self) -> bool {
        self.beside().is_some()
    }

    /// A device is to take the position of a member that is alive.
    pub(crate) fn replace_with(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.replace.stage = Stage::Waiting;
        self.replace.replacement = Some(ReplacementDevice {
            member,
            device: *device,
            uuid,
        });
    }

    /// Goes on with a replacement that waits until nothing is under way. Whether it does no longer.
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
            let replacement = self.replace.replacement.expect("somebody waits");
            Replace::everything(&self.regions, &mut self.replace.todo);
            self.replace.fresh.clear_all();
            self.replace.stage = Stage::Copying;
            self.begin_job(&JOB, Place::default());
            let member = replacement.member;
            self.output(Output::Event(Event::ReplaceStarted { member }));
            self.regions.tell_all();
            self.write_bitmaps();
            self.bad.tell_all();
            self.write_bad_blocks();
        } else if !self.copy_fresh() {
            self.flush_before_telling();
        }
        true
    }

    /// Copies the regions that were written for the first time meanwhile. Whether there are any.
    fn copy_fresh(&mut self) -> bool {
        if self.replace.fresh.is_empty() {
            return false;
        }
        core::mem::swap(&mut self.replace.todo, &mut self.replace.fresh);
        self.replace.fresh.clear_all();
        self.replace.stage = Stage::Copying;
        self.begin_job(&JOB, Place::default());
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

    /// Nothing is under way: what was written to the replacement device is made durable, and what the journals
    /// say is made needless by making all durable in place.
    fn flush_before_telling(&mut self) {
        self.replace.stage = Stage::Flushing;
        // Checksums that changed are written before it, to both.
        self.replace.flushes = self.flush_active(Purpose::ReplaceFlush);
    }

    pub(crate) fn replace_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        self.replace.flushes -= 1;
        self.system_flush_failed(member, result);
        if self.replace.flushes > 0 || self.replace.stage != Stage::Flushing {
            return;
        }
        if member != self.replacement() && !self.mutated(Mutation::ReplaceUnflushed) {
            self.replace.flushes = 1;
            return self.replacement_system_io(
                Purpose::ReplaceFlush,
                Operation::Flush,
                BlockIndex(0),
                0,
                BufferSlice::NONE,
            );
        }
        if self.metadata.busy() || self.metadata.is_broken() {
            // Another member is out since: that comes first.
            self.replace.stage = Stage::Draining;
            return;
        }
        self.exchange();
        self.replace.stage = Stage::Telling;
        self.journal_is_void();
        self.want_update();
    }

    /// The device of the member and the one beside it change places, here and at the driver.
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
        self.members[at].data_start = device.data_start();
        self.first_touch.has_another(member);
        self.journal_moves(member, &device);
        if let Some(pages) = &mut self.pages {
            pages.moves(member, &device);
        }
        self.output(Output::Swap(member));
    }

    /// The replacement device's superblock was written, or could not be.
    pub(crate) fn replacement_told(&mut self, result: MemberResult) {
        let member = self.replace.replacement.expect("it was told").member;
        match result {
            Ok(()) => {
                self.replace.stage = Stage::Recording;
                self.replace.faults = self.faults_of(member);
                self.forget_faults(member);
                self.forget_bad_blocks(MemberSet::EMPTY.with(member));
                self.forget_device(member);
                self.tell_others(member);
            }
            Err(error) => {
                // Nobody else knows of it: all is as it was.
                self.exchange();
                let persistence = self.metadata.persistence_mut();
                persistence.expect("it was written").array.generation -= 1;
                self.end_replace(ReplaceEnd::ReplacementLost(error));
                self.regions.tell_all();
                self.write_bitmaps();
                self.bad.tell_all();
                self.write_bad_blocks();
                self.want_update();
            }
        }
    }

    /// An update of the superblocks has come to its end.
    pub(crate) fn replace_recorded(&mut self) {
        if self.replace.stage == Stage::Recording {
            self.replace.stage = Stage::Idle;
            let member = self.replace.replacement.take().expect("it was told").member;
            if !self.metadata.is_broken() {
                let faults = self.replace.faults;
                self.output(Output::Event(Event::ReplaceDone { member, faults }));
            }
        }
    }

    /// It comes to its end without the replacement device.
    fn end_replace(&mut self, why: ReplaceEnd) {
        self.stop_job(&JOB);
        self.replace.stage = Stage::Idle;
        let replacement = self.replace.replacement.take().expect("it goes on");
        let member = replacement.member;
        self.output(Output::Event(Event::ReplaceEnded { member, why }));
    }

    /// A member is out. If it is the one that is being replaced, it is rebuilt onto the replacement device.
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

    /// An array that is about to be closed does not wait for all to be copied.
    pub(crate) fn replace_closes(&mut self) {
        if self.replace.is_secret() || self.replace.stage == Stage::Waiting {
            self.end_replace(ReplaceEnd::Stopped);
        }
    }

    // ---- the replacement device's I/O -----------------------------------------------------------------------

    /// The slot of a stripe range whose member is being replaced.
    #[inline]
    pub(crate) fn replaced_slots(&self, id: RangeId) -> SlotSet {
        if !self.replace.copies() {
            return SlotSet::EMPTY;
        }
        let member = self
            .replace
            .replacement
            .as_ref()
            .expect("one is replacement")
            .member;
        self.slots_of(id, MemberSet::EMPTY.with(member))
    }

    /// What a stripe range writes to one of its slots goes to the replacement device. That need not be durable.
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
        let place = self.groups[id.index()].slots()[usize::from(slot)];
        let start = self.replacement_device().data_start();
        self.output(Output::Member(MemberIo {
            id: MemberIoId(REPLACEMENT | id.0 << SLOT_BITS | u32::from(slot)),
            member: self.replacement(),
            operation,
            block: start.plus(place.offset.0).plus(u64::from(low)),
            blocks,
            buffer,
        }));
    }

    fn replacement_device(&self) -> &DeviceRecord {
        &self
            .replace
            .replacement
            .as_ref()
            .expect("there is one")
            .device
    }

    /// The replacement device, to which the bitmaps are written too.
    pub(crate) fn replacement_told_of_bitmaps(&self) -> Option<&DeviceRecord> {
        self.replace.is_secret().then(|| self.replacement_device())
    }

    /// The replacement device of that member, to which its checksums are written too.
    pub(crate) fn hidden_replacement(&self, member: MemberIndex) -> Option<&DeviceRecord> {
        let replacement = self.replacement_told_of_bitmaps()?;
        (self.replacing() == Some(member)).then_some(replacement)
    }

    pub(crate) fn replacement_system_io(
        &mut self,
        purpose: Purpose,
        operation: Operation,
        block: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        self.system_io(
            purpose,
            self.replacement(),
            operation,
            block,
            blocks,
            buffer,
        );
    }

    /// A write of a stripe range to the replacement device came back.
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

    /// The replacement device answered. Where that was an error, the replacement ends.
    pub(crate) fn replacement_failed(&mut self, result: MemberResult) {
        if let Err(error) = result
            && self.replace.is_secret()
        {
            self.end_replace(ReplaceEnd::ReplacementLost(error));
        }
    }
}

//! Copies a live member onto a *replacement device*, which then takes its position. Redundancy is
//! never less than before. Other members are read only if a block of this member is unreadable.
//!
//! The stages are drawn in `jobs/replace.rs`.
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
    engine::Closing,
    jobs::{
        Place,
        replace::{Action, Context, Input},
    },
    output::{Event, Output},
    plan::Ask,
    system_io::Purpose,
};
use spindles_block::{
    BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{BadBlockKind, DeviceRecord, Uuid};

pub(crate) static JOB: Job = Job {
    name: "replace",
    about: "copies a member that is alive onto a device that takes its place",
    ask: Ask::Replace,
    next_group: |engine, group| engine.replace.next_to_copy(&engine.regions, group),
    advanced: |_| {},
    ended: |engine, walk| {
        let failed = walk.failed();
        engine.step_replace(Input::Walked { failed });
    },
    stopped: Some(|engine| engine.step_replace(Input::Stopped)),
    waits: None,
    turn: None,
};

impl Engine {
    /// Continues a replacement that waits until nothing is under way. Returns true if it no longer
    /// waits.
    pub(crate) fn pump_replace(&mut self) -> bool {
        let continues =
            self.replace.waits_for_quiet() && self.opening.is_serving() && self.is_quiet();
        if continues {
            self.step_replace(Input::Quiet);
        }
        continues
    }

    /// Hands an event to the replacement, and does what it asks for.
    pub(crate) fn step_replace(&mut self, input: Input) {
        let context = Context {
            regions: &self.regions,
            superblocks_are_busy: self.metadata.busy(),
            is_broken: self.metadata.is_broken(),
            has_failed: self.has_failed(),
        };
        match self.replace.step(input, &context) {
            Action::Wait => {}
            Action::Start(member) => {
                self.jobs.begin(&JOB, Place::default());
                let event = Event::ReplaceStarted { member };
                self.outbox.put(Output::Event(event));
                self.write_all_areas();
            }
            Action::Copy => self.jobs.begin(&JOB, Place::default()),
            Action::FlushMembers => {
                // Changed checksums are written before the flush, to both devices. Everything
                // logged becomes durable in place, so that the journals are not needed.
                self.flush_active(Purpose::ReplaceFlush);
            }
            Action::FlushDevice => {
                self.own_flushes.begin(Purpose::ReplaceFlush, 1);
                self.flush_device(self.replacement(), Purpose::ReplaceFlush);
            }
            Action::Exchange => {
                self.exchange();
                self.scrub.forget_mark();
                self.log.void(self.metadata.generation() + 1);
                self.want_update();
            }
            Action::TellOthers(member) => {
                self.forget_faults(member);
                self.forget_bad_blocks(MemberSet::EMPTY.with(member));
                self.faults.forget_counts(member);
                self.tell_others(member);
            }
            Action::Finish { .. } if self.metadata.is_broken() => {}
            Action::Finish { member, faults } => {
                let event = Event::ReplaceDone { member, faults };
                self.outbox.put(Output::Event(event));
            }
            Action::End(member, why) => {
                self.jobs.stop(&JOB);
                let event = Event::ReplaceEnded { member, why };
                self.outbox.put(Output::Event(event));
            }
        }
    }

    /// Exchanges the device of the member and the one beyond all positions, here and at the driver.
    fn exchange(&mut self) {
        let member = self.replace.member().expect("one is replaced");
        let at = usize::from(member.0);
        let persistence = (self.metadata.persistence_mut()).expect("it was looked at before");
        let device = persistence.devices[at].as_mut().expect("it is there");
        let uuid = &mut persistence.array.member[at].device_uuid;
        self.replace.exchange(device, uuid);
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
        let member = self.replace.member().expect("its superblock was written");
        match result {
            Ok(()) => {
                let bad_blocks = self.bad.blocks(BadBlockKind::Unread(member));
                let faults = self.faults.with_bad_blocks(member, bad_blocks);
                self.step_replace(Input::Told(faults));
            }
            Err(error) => {
                // No other superblock names the device: the old member keeps the position.
                self.exchange();
                let persistence = self.metadata.persistence_mut();
                persistence.expect("it was written").array.generation -= 1;
                self.step_replace(Input::Refused(error));
                self.write_all_areas();
                self.want_update();
            }
        }
    }

    /// Handles the loss of a member. If it is being replaced, it is rebuilt onto the replacement
    /// device.
    pub(crate) fn replaced_is_out(&mut self, member: MemberIndex) {
        if self.replacing() != Some(member) {
            return;
        }
        let (device, uuid) = self.replace.device();
        let device = *device;
        self.step_replace(Input::MemberOut(member));
        if self.replacing().is_none() {
            self.join_replacement(member, &device, uuid);
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
        let start = self.replace.device().0.data_start();
        self.outbox.put(Output::Member(MemberIo {
            id: MemberIoId(REPLACEMENT | id.0 << SLOT_BITS | u32::from(slot)),
            member: self.replacement(),
            operation,
            block: start.plus(place.offset.0).plus(u64::from(low)),
            blocks,
            buffer,
        }));
    }

    /// Ends the replacement if the replacement device answered with an error.
    pub(crate) fn replacement_failed(&mut self, result: MemberResult) {
        if let Err(error) = result {
            self.step_replace(Input::DeviceFailed(error));
        }
    }

    /// Lets the device beyond all positions take the place of the member that it was to replace,
    /// which is out.
    pub(crate) fn join_replacement(
        &mut self,
        member: MemberIndex,
        device: &DeviceRecord,
        uuid: Uuid,
    ) {
        if !self.rebuild.is_joining(member) && self.closing == Closing::Open {
            self.rebuild.fill_other(member, device, uuid);
        }
    }
}

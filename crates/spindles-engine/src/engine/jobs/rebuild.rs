//! Fills devices that take the positions of missing members: reads every stripe range, and computes
//! the blocks of the devices. Writes go to these devices too meanwhile. Below the mark the devices
//! are read.
//!
//! A device takes its position while nothing is under way. Copying begins when all members durably
//! record that the device is being filled. At intervals, and at the end, the device is flushed.
//! Then the superblocks record the mark.

use super::Job;
use crate::{
    Engine, Mutation, RangeId,
    engine::Closing,
    jobs::{
        Place,
        rebuild::{Action, Context, Input, Joining, Progress},
    },
    output::{CommandError, Event, Output},
    plan::Ask,
    slots::SlotSet,
    system_io::Purpose,
};
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{AreaKind, BITMAPS, DeviceRecord, Uuid, room_for_checksums};
use spindles_layout::{Geometry, GroupIndex};

pub(crate) static JOB: Job = Job {
    name: "rebuild",
    about: "fills a device that took the place of a missing one",
    ask: Ask::Rebuild,
    next_group: |engine, group| {
        let (members, regions) = (&engine.members, &engine.regions);
        (engine.rebuild).next_to_fill(members, regions, &engine.geometry, group)
    },
    advanced: |engine| engine.step_rebuild(Input::Advanced),
    ended: |engine, _| engine.step_rebuild(Input::Ended),
    stopped: None,
    waits: None,
    turn: None,
};

impl Engine {
    /// Returns true if a device is about to take its position, is being filled, or is filled and
    /// the superblocks do not all say so yet.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_under_way(&self.members)
    }

    /// Continues the rebuilds that the superblocks record.
    pub(crate) fn resume_rebuild(&mut self) {
        let from = (self.members.being_filled().iter())
            .map(|member| self.members.filled_from_start(member))
            .min();
        if let Some(from) = from {
            self.rebuild.begins_at(from.group());
            self.jobs.begin(&JOB, from);
            for member in self.members.being_filled().iter() {
                self.outbox
                    .put(Output::Event(Event::RebuildStarted { member }));
            }
        }
    }

    /// Returns the place of a mark in the superblocks.
    pub(crate) fn place_of_mark(&self, mark: BlockIndex) -> Place {
        let group = if mark.0 < self.geometry.blocks() {
            self.geometry.locate(mark).group
        } else {
            GroupIndex(self.geometry.groups())
        };
        Place::start_of(group)
    }

    /// Returns the positions of missing members that a device may take now. A driver with a spare
    /// answers with `Command::Rebuild`. It should ask when it has opened the array, and after each
    /// `Event::MemberOut`.
    pub fn vacancies(&self) -> MemberSet {
        let takes_devices = self.closing == Closing::Open
            && !self.settings.read_only
            && !self.metadata.is_broken()
            && self.metadata.persistence().is_some()
            && !self.has_failed();
        if !takes_devices {
            return MemberSet::EMPTY;
        }
        // An administrator chooses the devices for members that a growth adds.
        let older = self.geometry.older().map_or(u8::MAX, Geometry::members);
        let waits = |member: &MemberIndex| member.0 < older && !self.rebuild.is_joining(*member);
        self.members.missing().iter().filter(waits).collect()
    }

    /// Checks whether a device can be that member of the array.
    pub(crate) fn suits(
        &self,
        member: MemberIndex,
        device: &DeviceRecord,
        uuid: Uuid,
    ) -> Result<(), CommandError> {
        let persistence = self.metadata.persistence();
        let array = &persistence.ok_or(CommandError::NoSuperblocks)?.array;
        let known = array
            .members()
            .iter()
            .any(|known| known.device_uuid == uuid);
        let like = array.member[usize::from(member.0)];
        let in_use = |kind| device.area(kind).is_some_and(|area| area.version == 1);
        if device.member != member
            || !array.shared.fit(device)
            || self.regions.are_stored() && !BITMAPS.into_iter().all(in_use)
            || self.bad.is_kept() && !in_use(AreaKind::BAD_BLOCKS)
            || device.block_size != self.settings.block_size
            || device.data_blocks() < like.data_blocks
            || self.has_checksums() && !room_for_checksums(device)
            || known
            || uuid == Uuid::NIL
        {
            return Err(CommandError::Unsuitable);
        }
        Ok(())
    }

    /// Lets a member that was out take its place again, like `rebuild_onto`.
    pub(crate) fn bring_back(&mut self, member: MemberIndex, device: &DeviceRecord) {
        let record = self.metadata.persistence().expect("it was decided");
        let uuid = record.array.member[usize::from(member.0)].device_uuid;
        self.rebuild.fill_again(member, device, uuid);
    }

    /// Lets devices take their positions when nothing is under way: no I/O on the former devices,
    /// and no plan that does without the new ones. Returns true if they no longer wait.
    pub(crate) fn pump_joining(&mut self) -> bool {
        if !self.rebuild.somebody_joins() || !self.is_quiet() || !self.opening.is_serving() {
            return false;
        }
        let all = self.rebuild.take_joining();
        if self.metadata.is_broken() || self.has_failed() {
            // They come too late. Work that waited for them continues.
            return true;
        }
        self.keep_filled();
        self.scrub.forget_mark();
        for joining in &all {
            self.join(joining);
        }
        self.rebuild.begins_at(GroupIndex(0));
        self.jobs.begin(&JOB, Place::default());
        for joining in &all {
            let member = joining.member();
            self.outbox
                .put(Output::Event(Event::RebuildStarted { member }));
        }
        // The devices are not relied on before all superblocks record them, and they have all
        // metadata.
        self.opening.record_again();
        self.write_all_areas();
        for joining in &all {
            if self.mutated(Mutation::JoinUnvoided) {
                self.log.moves(joining.member(), joining.device());
            } else {
                self.restart_log_on(joining.member(), joining.device());
            }
        }
        self.want_update();
        true
    }

    /// Lets a device take its position.
    fn join(&mut self, joining: &Joining) {
        let (member, device) = (joining.member(), joining.device());
        let at = usize::from(member.0);
        if joining.replaces() {
            self.outbox.put(Output::Swap(member));
        }
        let persistence = (self.metadata.persistence_mut()).expect("it was looked at before");
        let known = persistence.devices[at].replace(*device);
        if joining.returns()
            && let (Some(known), Some(back)) = (known, &mut persistence.devices[at])
        {
            // No superblock was written to it after it went out.
            back.errors = known.errors;
        }
        persistence.array.member[at].device_uuid = joining.uuid();
        if let Some(pages) = &mut self.pages {
            pages.forget(member, device);
        }
        self.members.join(member, device.data_start());
        self.first_touch.has_another(member);
        // The next member that goes out needs a new flush.
        self.metadata.flushes_without(MemberSet::EMPTY);
        if joining.returns() {
            self.rebuild.returns(member);
        } else {
            self.faults.forget_counts(member);
        }
        self.grow.joined(member, device);
    }

    /// Keeps the progress of the current walk for the next one.
    fn keep_filled(&mut self) {
        for member in self.members.being_filled().iter() {
            self.members.fill_from(member, self.filled_below(member));
        }
    }

    /// Reads returning members as they were when they went out, in a row that can't be filled
    /// otherwise: if the row was not written meanwhile, their blocks are good. Returns false if
    /// nothing could prove that.
    pub(crate) fn tries_old_contents(&mut self, id: RangeId, not_held: SlotSet) -> bool {
        let returning = self.rebuild.returning(&self.members);
        let slots = self.ranges.slots_of(id, returning).and(not_held);
        let may_prove = self.has_checksums();
        let rows = &mut self.ranges[id].rows;
        if rows.tried_old_contents || slots.is_empty() || !may_prove {
            return false;
        }
        (rows.old_contents, rows.tried_old_contents) = (slots, true);
        true
    }

    /// Skips the current rows of devices being filled, because too little of these rows can be
    /// read. No data is given up: the rows are bad blocks of the devices until they are written, or
    /// can be read again. Returns false if a device should not be relied on without them.
    pub(crate) fn goes_without(&mut self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let (low, blocks) = (u64::from(range.low), range.blocks);
        let not_held = self.slots_not_held(id, range.low + blocks);
        let places = !range.rows.unreadable.minus(not_held).is_empty();
        let filled = not_held.minus(self.ranges.missing_slots(&self.members, id));
        for slot in filled.iter() {
            let place = self.ranges.slot(id, slot);
            let start = place.offset.0 + low;
            if !places
                || !self.bad.may_add_unfilled(
                    &self.geometry,
                    place.member,
                    start..start + u64::from(blocks),
                )
            {
                return false;
            }
            self.faults.not_filled(place.member, blocks);
            let data_start = self.members.data_start(place.member);
            self.outbox.put(Output::Event(Event::NotFilled {
                member: place.member,
                block: data_start.plus(start),
                blocks,
            }));
        }
        let rows = &mut self.ranges[id].rows;
        rows.unreadable = rows.unreadable.or(filled);
        let left = u64::from(
            self.ranges[id]
                .lost_here(self.ranges.missing_slots(&self.members, id))
                .count()
                * blocks,
        );
        self.scrub.also_left(left);
        self.choose_direct();
        self.write_area(AreaKind::BAD_BLOCKS);
        true
    }

    /// Hands an event to the rebuild, and does what it asks for.
    pub(crate) fn step_rebuild(&mut self, input: Input) {
        let context = Context {
            geometry: &self.geometry,
            block_size: self.settings.block_size,
            members: &self.members,
            walk: self.jobs.walk(&JOB),
        };
        match self.rebuild.step(input, &context) {
            Action::Wait => {}
            Action::Flush(members) => {
                self.flush_counted(members, Purpose::RebuildFlush);
            }
            Action::Note(to) => {
                if self.note_marks(to) {
                    self.want_update();
                }
                self.step_rebuild(Input::Noted(to));
            }
            Action::ReportIncomplete { failed } => {
                self.outbox
                    .put(Output::Event(Event::RebuildIncomplete { failed }));
            }
        }
    }

    /// Notes that everything below `to` is durable on the devices being filled. Returns true if the
    /// superblocks have something new to record.
    fn note_marks(&mut self, to: Place) -> bool {
        if self.writes_nothing() {
            return false; // The marks can't be recorded.
        }
        let progress = (self.rebuild).note_marks(to, &mut self.members, &self.geometry);
        if progress == Progress::Filled {
            self.regions.want_sweep();
        }
        progress != Progress::None
    }

    /// Notes at a close, after its flush, how far each device is good.
    pub(crate) fn note_marks_at_close(&mut self) -> bool {
        self.note_marks(self.jobs.walk(&JOB).mark())
    }

    /// Reports members that are active again, and relied on: the superblocks record it.
    pub(crate) fn announce_rebuilt(&mut self) {
        for member in self.rebuild.take_done().iter() {
            if !self.members.lost().contains(member) {
                self.outbox
                    .put(Output::Event(Event::RebuildDone { member }));
            }
        }
    }
}

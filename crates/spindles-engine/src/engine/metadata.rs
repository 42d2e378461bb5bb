//! Writes the superblocks, and tracks the work that waits for them.
//!
//! One update is under way at a time; changes that come meanwhile share the next. An update is one
//! FUA write to every present member, each to the slot of its generation, so that the other slot
//! keeps the previous generation.
//!
//! A change of membership is written to both slots. Otherwise an outdated member could be accepted
//! if the newer slot becomes unreadable on the only current member left.
//!
//! The first update of an opening is also written twice, before anything else is written. A copy of
//! a member that was made before the opening is then two generations behind.

use crate::{
    Engine, Mutation,
    config::Persistence,
    extension::Extension,
    journal::State,
    member::Member,
    output::{Event, OutReason, Output},
    system_io::Purpose,
    waits::WaitFor,
};
use spindles_block::{MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::{AreaKind, MemberState};

impl Engine {
    /// Returns true if a write may go to its place: the dirty mark and two generations of this
    /// opening are durable. Otherwise asks for the update.
    pub(crate) fn may_commit(&mut self) -> bool {
        let marked = self.metadata.dirty_durable || !self.marks_dirty();
        if marked && self.metadata.is_recorded() {
            return true;
        }
        if !marked && !self.metadata.dirty {
            self.metadata.dirty = true;
            let generation = self.metadata.generation();
            let may_log = self.may_log();
            if let Some(journal) = &mut self.journal {
                journal.record.tail = 0;
                if may_log {
                    journal.begin(generation + 1);
                }
            }
            self.want_update();
        } else if !self.metadata.busy() {
            self.want_update();
        }
        self.metadata.broken // Then nothing is written, and the request fails.
    }

    /// Returns true if the array must be marked dirty before it is written.
    fn marks_dirty(&self) -> bool {
        self.metadata.persistence.is_some()
            && self.policy.resync_after_crash
            && (self.geometry.redundancy() > 0 || self.has_checksums())
    }

    /// Stops writing, because a change that must be durable before further writes can't be made
    /// durable. Wakes every stripe range, job and replay that waits for that change.
    pub(crate) fn stop_writing(&mut self) {
        if !self.metadata.broken && !self.has_failed() {
            self.output(Output::Event(Event::WritingStopped)); // Otherwise it was reported before.
        }
        self.metadata.broken = true;
        self.metadata.wanted = false;
        self.waits.wake_all(&mut self.ready);
        self.pump_releases();
        self.journal_abandons();
        self.replay_recorded();
        self.replace_recorded();
        self.growth_recorded();
        self.zeroing_goes_on();
        self.try_to_serve();
    }

    /// Returns the number of blocks of a superblock.
    pub(crate) fn superblock_blocks(&self) -> u32 {
        self.metadata.place.blocks
    }

    /// Writes superblocks into both slots, because a slot is corrupt on a member.
    pub(crate) fn rewrite_both_slots(&mut self) {
        self.metadata.in_both_slots = true;
        self.want_update();
    }

    /// Asks for an update, because the contents of the superblocks changed.
    pub(crate) fn want_update(&mut self) {
        if self.metadata.persistence.is_none() {
            return;
        }
        self.metadata.wanted = true;
        self.begin_update();
    }

    /// Begins the wanted update, unless the state found at opening is unknown yet, or not durable.
    /// A member whose newest superblock is only in its cache would fall two generations behind.
    pub(crate) fn begin_update(&mut self) {
        if self.metadata.pending > 0 || !self.metadata.wanted || self.opening.is_finding() {
            return;
        }
        if self.metadata.broken {
            // Stop: no member may overtake one whose superblock write failed.
            self.metadata.wanted = false;
            return;
        }
        if self.has_failed() {
            // A failed array does not update its superblocks, because its members may come back. Do
            // not wait for flushes or writes that precede an update.
            self.stop_writing();
            return;
        }
        if self.extension.as_ref().is_some_and(Extension::is_preparing) {
            return;
        }
        if self.bad.is_kept() && self.bad.any() && !self.metadata.listed_durable {
            return self.announce_bad_blocks();
        }
        let begins = self.grow.begins() || self.extension.is_some();
        let relies = self.missing_unrecorded() || begins;
        if relies && !self.bitmaps_are_stored() && !self.metadata.broken {
            // The dirty bits of regions that a member lacks are durable before the member is
            // recorded as out, and the bits of a new map before the map.
            return self.write_bitmaps();
        }
        if self.missing_unrecorded() && !self.is_flushed_without() {
            return;
        }
        if !self.bad_blocks_are_stored() {
            return self.write_area(AreaKind::BAD_BLOCKS);
        }
        if !self.journal_is_stamped() {
            return self.stamp_journal();
        }
        self.metadata.wanted = false;
        self.metadata.errors_are_taken();
        let now_s = self.metadata.since_1970_s(self.now);
        let Some(Persistence { array, nonce, .. }) = self.metadata.persistence.as_mut() else {
            return;
        };
        array.last_written_s = now_s.unwrap_or(array.last_written_s);
        array.begin_session(*nonce);
        array.generation += 1;
        array.clean = !self.metadata.dirty;
        array.bad_blocks_listed = self.bad.is_kept() && self.bad.any();
        self.metadata.listed_durable &= array.bad_blocks_listed;
        array.scrub_mark = self.scrub.mark();
        array.scrub_left_blocks = array.scrub_left_blocks.max(self.scrub.left_blocks());
        if let Some(journal) = &self.journal {
            array.journal = journal.record;
        }
        let standing = |record: &MemberState| core::mem::discriminant(record);
        let in_both = core::mem::take(&mut self.metadata.in_both_slots);
        self.metadata.in_one_slot =
            self.replace.is_telling() || self.metadata.updates == 0 || in_both;
        for (member, record) in self.members.iter().zip(&mut array.member) {
            let before = standing(&record.state);
            match (member.state, record.state) {
                (Member::Missing { .. }, MemberState::Rebuilding { missed_since, .. })
                    if missed_since > 0 =>
                {
                    // The regions that it missed are still marked.
                    record.state = MemberState::Missing {
                        out_since: missed_since,
                        held_out: is_held_out(member.state),
                    };
                }
                (Member::Missing { .. }, MemberState::Active | MemberState::Rebuilding { .. }) => {
                    record.state = MemberState::Missing {
                        out_since: array.generation,
                        held_out: is_held_out(member.state),
                    };
                }
                (Member::Missing { .. }, MemberState::Missing { .. })
                | (Member::Active, MemberState::Active) => {}
                (Member::Active, MemberState::Rebuilding { .. }) => {
                    record.state = MemberState::Active;
                }
                (Member::Rebuilding { mark }, MemberState::Missing { out_since, .. }) => {
                    let returns = self.rebuild.is_returning(member.index);
                    record.state = MemberState::Rebuilding {
                        mark,
                        missed_since: if returns { out_since } else { 0 },
                    };
                }
                (Member::Rebuilding { mark }, MemberState::Rebuilding { missed_since, .. }) => {
                    record.state = MemberState::Rebuilding { mark, missed_since };
                }
                (Member::Rebuilding { .. }, MemberState::Active) => {
                    panic!("a member that is rebuilding is active in the record")
                }
                (Member::Active, MemberState::Missing { .. }) => {
                    panic!("an active member is missing in the record")
                }
            }
            self.metadata.in_one_slot |= standing(&record.state) != before;
        }
        array.note_rebuilding();
        array.growth = self.grow.record();
        array.note_growth();
        let there = self.present();
        for member in self.replace.told_now(there).iter() {
            self.write_superblock(member);
        }
        assert!(
            self.metadata.pending > 0,
            "an array without members is not written"
        );
    }

    /// Records that the list of bad blocks may have entries, before the first entries are added. No
    /// other change goes into this update, since it may depend on the entries: the wanted update
    /// comes after.
    fn announce_bad_blocks(&mut self) {
        let Some(Persistence { array, nonce, .. }) = self.metadata.persistence.as_mut() else {
            panic!("who has a list has superblocks");
        };
        assert!(!self.replace.is_telling(), "nothing is written meanwhile");
        array.begin_session(*nonce);
        array.generation += 1;
        array.bad_blocks_listed = true;
        self.metadata.in_one_slot = true;
        let there = self.present();
        for member in there.iter() {
            self.write_superblock(member);
        }
    }

    /// Writes the update that a replacement device of `member` has got to all other members.
    pub(crate) fn tell_others(&mut self, member: MemberIndex) {
        let there = self.present();
        for other in there.without(member).iter() {
            self.write_superblock(other);
        }
        if self.metadata.pending == 0 {
            self.update_written();
        }
    }

    /// Returns true if unlogged writes are durable, so that a member may be recorded as out. From
    /// then on rows with parity are computed from the remaining members. Otherwise begins the
    /// flush.
    fn is_flushed_without(&mut self) -> bool {
        // Also while a new log begins: unlogged writes may be under way then.
        let journal = self.journal.as_ref();
        let logs = journal.is_some_and(|journal| journal.state != State::Off);
        let unlogged = logs && self.has_checksums() && !self.shape.copies;
        let flushed = self.metadata.flushed_without == self.missing;
        let done = flushed && self.metadata.out_flushes == 0;
        if !unlogged || done {
            return true;
        }
        let ended = !self.writes_unlogged() || self.mutated(Mutation::OutWhileUnlogged);
        if self.metadata.out_flushes == 0 && ended {
            self.metadata.flushed_without = self.missing;
            self.metadata.out_flushes = self.flush_active(Purpose::OutFlush);
        }
        false
    }

    /// Asks for a new flush when a member goes out again, because one is back.
    pub(crate) fn forget_out_flush(&mut self) {
        self.metadata.flushed_without = MemberSet::EMPTY;
    }

    /// Handles a flush that comes before a member is recorded as out.
    pub(crate) fn out_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        self.metadata.out_flushes -= 1;
        self.system_flush_failed(member, result);
        if self.metadata.out_flushes == 0 {
            self.begin_update();
        }
    }

    fn write_superblock(&mut self, member: MemberIndex) {
        let Some(Persistence { array, devices, .. }) = self.metadata.persistence.as_ref() else {
            panic!("an array without superblocks writes none");
        };
        let device = devices[usize::from(member.0)]
            .as_ref()
            .expect("a member that is there has a device record");
        let place = self.metadata.place;
        let block = device.slot_block(array.generation);
        spindles_format::encode(
            array,
            device,
            self.metadata_buffer.bytes_mut(place, member.0),
        );
        self.system_io(
            Purpose::Superblock,
            member,
            Operation::Write { fua: true },
            block,
            place.blocks,
            self.metadata_buffer.slice(place, member.0),
        );
        self.metadata.pending += 1;
    }

    /// Handles the result of a superblock write.
    pub(crate) fn superblock_written(&mut self, member: MemberIndex, result: MemberResult) {
        assert!(
            self.metadata.pending > 0,
            "a superblock write came back twice"
        );
        self.metadata.pending -= 1;
        if self.replace.is_telling() {
            return self.replacement_told(result);
        }
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.stop_writing();
        }
        if self.metadata.pending == 0 {
            self.update_written();
        }
    }

    /// Continues when all writes of an update are back.
    fn update_written(&mut self) {
        if let Some(persistence) = self.metadata.persistence()
            && !self.metadata.broken
        {
            self.metadata.listed_durable = persistence.array.bad_blocks_listed;
        }
        self.replace_recorded();
        self.begin_update();
        if self.metadata.busy() {
            // Later changes are not durable: the next update is under way, or waits for something.
            return;
        }
        if !self.metadata.broken {
            self.metadata.updates = self.metadata.updates.saturating_add(1);
            self.metadata.dirty_durable = self.metadata.dirty;
            let persistence = self.metadata.persistence.as_ref();
            let array = &persistence.expect("it was written").array;
            let (out, filled) = (array.missing(), array.rebuilding());
            self.metadata.out_durable = out;
            self.metadata.lost_durable = out.union(filled);
            self.forget_bad_blocks(out);
        }
        self.journal_recorded();
        self.replay_recorded();
        self.growth_recorded();
        self.extension_recorded();
        self.try_to_serve();
        if !self.metadata.broken {
            self.announce_rebuilt();
        }
        self.wake(WaitFor::Superblocks);
        self.zeroing_goes_on();
        if self.metadata.in_one_slot && !self.metadata.broken {
            self.want_update();
        }
    }
}

/// Returns true if an administrator put the member out.
fn is_held_out(member: Member) -> bool {
    let reason = Some(OutReason::Command);
    member == Member::Missing { reason }
}

//! The superblocks: when they are written, and what waits for them.
//!
//! One update is under way at a time; wishes that come meanwhile share the next. An update is one
//! FUA write to every member that is there, each to the slot of its generation, so that the other slot
//! keeps the generation before. Who is a member, and holds what, is told twice, so that both slots say
//! so: where the newer one can't be read any more, and nobody else is left who knows, an outdated
//! member would be taken for good. The first update of an opening is written twice too, before anything
//! else is: a copy of a member that was made before that opening is two generations behind then.

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
use spindles_format::MemberState;

impl Engine {
    /// Whether a write may go to its place: the dirty mark and two generations of this opening are
    /// durable.
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
        self.metadata.broken // Then nothing is written, and that is answered.
    }

    /// Whether the array must be marked dirty before it is written.
    fn marks_dirty(&self) -> bool {
        self.metadata.persistence.is_some()
            && self.policy.resync_after_crash
            && (self.geometry.redundancy() > 0 || self.has_checksums())
            && !self.mutated(Mutation::SkipDirtyMark)
    }

    /// What must be durable before more is written can't be made so: nothing more is written, and
    /// those that wait for it are told.
    pub(crate) fn stop_writing(&mut self) {
        if !self.metadata.broken && !self.has_failed() {
            self.output(Output::Event(Event::WritingStopped)); // Otherwise it was said that it has failed.
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

    /// How many blocks a superblock has.
    pub(crate) fn superblock_blocks(&self) -> u32 {
        self.metadata.place.blocks
    }

    /// A slot is corrupt on a member: superblocks are written into both slots.
    pub(crate) fn rewrite_both_slots(&mut self) {
        self.metadata.in_both_slots = true;
        self.want_update();
    }

    /// Something changed that the superblocks must say.
    pub(crate) fn want_update(&mut self) {
        if self.metadata.persistence.is_none() || self.read_only {
            return;
        }
        self.metadata.wanted = true;
        self.begin_update();
    }

    /// Begins the update that is wanted, unless what was found at opening is not known yet, or not durable: a
    /// member whose newest superblock is only in its cache would fall two generations behind.
    pub(crate) fn begin_update(&mut self) {
        if self.metadata.pending > 0 || !self.metadata.wanted || self.opening.is_finding() {
            return;
        }
        if self.mutated(Mutation::ReplayUnrecorded) && self.is_replaying() {
            return;
        }
        if self.metadata.broken {
            // Stop: no member may overtake one whose superblock write failed.
            self.metadata.wanted = false;
            return;
        }
        if self.has_failed() {
            // A failed array stays as the superblocks have it: its members may come back. Nothing is waited
            // for that would come before an update.
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
            // What a member lacks that goes out is durable before it is durable that it is out; and
            // the bits of a new map before there is one.
            return self.write_bitmaps();
        }
        if self.missing_unrecorded() && !self.is_flushed_without() {
            return;
        }
        if !self.bad_blocks_are_stored() {
            return self.write_bad_blocks();
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
                    // What it missed is marked still.
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
        let there = MemberSet::all(self.geometry.members()).difference(self.missing);
        for member in self.replace.told_now(there).iter() {
            self.write_superblock(member);
        }
        assert!(
            self.metadata.pending > 0,
            "an array without members is not written"
        );
    }

    /// The list of bad blocks is about to get its first entries. That is durable before them, and with it nothing
    /// that may depend on them: the update that was wanted comes after.
    fn announce_bad_blocks(&mut self) {
        let Some(Persistence { array, nonce, .. }) = self.metadata.persistence.as_mut() else {
            panic!("who has a list has superblocks");
        };
        assert!(!self.replace.is_telling(), "nothing is written meanwhile");
        array.begin_session(*nonce);
        array.generation += 1;
        array.bad_blocks_listed = true;
        self.metadata.in_one_slot = true;
        let there = MemberSet::all(self.geometry.members()).difference(self.missing);
        for member in there.iter() {
            self.write_superblock(member);
        }
    }

    /// The update that a device was told of which replaces `member` goes to all others.
    pub(crate) fn tell_others(&mut self, member: MemberIndex) {
        let there = MemberSet::all(self.geometry.members()).difference(self.missing);
        for other in there.without(member).iter() {
            self.write_superblock(other);
        }
        if self.metadata.pending == 0 {
            self.update_written();
        }
    }

    /// Whether what was written without being logged is durable before it is durable that a member is
    /// out: from then on rows with parity follow from those that are there. Otherwise that was begun.
    fn is_flushed_without(&mut self) -> bool {
        // Also while the log begins anew: unlogged writes may be under way then.
        let journal = self.journal.as_ref();
        let logs = journal.is_some_and(|journal| journal.state != State::Off);
        let unlogged = logs && self.has_checksums() && !self.shape.copies;
        let flushed = self.metadata.flushed_without == self.missing;
        let done = flushed && self.metadata.out_flushes == 0;
        if !unlogged || done || self.mutated(Mutation::OutUnflushed) {
            return true;
        }
        let ended = !self.writes_unlogged() || self.mutated(Mutation::OutWhileUnlogged);
        if self.metadata.out_flushes == 0 && ended {
            self.metadata.flushed_without = self.missing;
            self.metadata.out_flushes = self.flush_active(Purpose::OutFlush);
        }
        false
    }

    /// A member is back: when it goes out once more, that is flushed for again.
    pub(crate) fn forget_out_flush(&mut self) {
        self.metadata.flushed_without = MemberSet::EMPTY;
    }

    /// A flush before it is recorded that a member is out came back.
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

    /// A superblock write came back.
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

    /// All writes of an update are back.
    fn update_written(&mut self) {
        if let Some(persistence) = self.metadata.persistence()
            && !self.metadata.broken
        {
            self.metadata.listed_durable = persistence.array.bad_blocks_listed;
        }
        self.replace_recorded();
        self.begin_update();
        if self.metadata.busy() {
            // What changed meanwhile is not durable: the next update is under way, or waits for something.
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

/// Whether an administrator put it out.
fn is_held_out(member: Member) -> bool {
    let reason = Some(OutReason::Command);
    member == Member::Missing { reason }
}

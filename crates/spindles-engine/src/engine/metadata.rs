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
    Engine, Mutation, agenda::Due, extension::Extension, metadata::recorded, system_io::Purpose,
};
use core::mem::discriminant;
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_format::AreaKind;

/// Something that must end before the wanted update begins.
enum Before {
    /// The rows that an extension adds become zeros.
    Extension,
    /// The superblocks announce the list of bad blocks.
    Announcement,
    /// The dirty bits of regions that a member lacks become durable before the member is recorded
    /// as out, and the bits of a new map before the map.
    Bitmaps,
    /// Unlogged writes become durable before a member is recorded as out. From then on rows with
    /// parity are computed from the remaining members.
    OutFlush,
    /// The list of bad blocks becomes durable.
    BadBlocks,
    /// The journal's device is stamped.
    Stamp,
}

impl Engine {
    /// Returns true if a write may go to its place: the dirty mark and two generations of this
    /// opening are durable. Otherwise asks for the update.
    pub(crate) fn may_commit(&mut self) -> bool {
        let marked = self.metadata.is_dirty_durable() || !self.marks_dirty();
        if marked && self.metadata.is_recorded() {
            return true;
        }
        if !marked && !self.metadata.is_dirty() {
            self.metadata.set_dirty(true);
            let generation = self.metadata.generation();
            let may_log = self.may_log();
            self.log.forget();
            if may_log && self.log.exists() {
                self.log.begin(generation + 1);
            }
            self.want_update();
        } else if !self.metadata.busy() {
            self.want_update();
        }
        self.metadata.is_broken() // Then nothing is written, and the request fails.
    }

    /// Returns true if the array must be marked dirty before it is written.
    fn marks_dirty(&self) -> bool {
        self.metadata.persistence().is_some()
            && self.settings.policy.resync_after_crash
            && (self.geometry.redundancy() > 0 || self.has_checksums())
    }

    /// Begins the wanted update, unless the state found at opening is unknown yet, or not durable.
    /// A member whose newest superblock is only in its cache would fall two generations behind.
    pub(crate) fn begin_update(&mut self) {
        if !self.metadata.slot().is_due() || self.opening.is_finding() {
            return;
        }
        if self.metadata.is_broken() {
            return self.metadata.stop();
        }
        if self.has_failed() {
            // A failed array does not update its superblocks, because its members may come back. Do
            // not wait for flushes or writes that precede an update.
            return self.stop_writing();
        }
        match self.before_update() {
            Some(Before::Extension) => {}
            Some(Before::Announcement) => self.announce_bad_blocks(),
            Some(Before::Bitmaps) => self.write_bitmaps(),
            Some(Before::OutFlush) => self.flush_without(),
            Some(Before::BadBlocks) => self.write_area(AreaKind::BAD_BLOCKS),
            Some(Before::Stamp) => self.stamp_log(),
            None => self.write_update(),
        }
    }

    fn before_update(&self) -> Option<Before> {
        let unrecorded = self.metadata.missing_unrecorded(&self.members);
        let relies = unrecorded || self.grow.begins() || self.extension.is_some();
        let extension = self.extension.as_ref();
        let unannounced = self.bad.is_kept() && self.bad.any() && !self.metadata.lists_bad_blocks();
        let waits = [
            (
                extension.is_some_and(Extension::is_preparing),
                Before::Extension,
            ),
            (unannounced, Before::Announcement),
            (relies && !self.bitmaps_are_stored(), Before::Bitmaps),
            (unrecorded && !self.is_flushed_without(), Before::OutFlush),
            (!self.bad_blocks_are_stored(), Before::BadBlocks),
            (!self.log.is_stamped(), Before::Stamp),
        ];
        waits
            .into_iter()
            .find_map(|(waits, before)| waits.then_some(before))
    }

    /// Writes all changes to the next slot.
    fn write_update(&mut self) {
        let listed = self.bad.is_kept() && self.bad.any();
        let array = self.metadata.begin_update(self.now, listed);
        array.scrub_mark = self.scrub.mark();
        array.scrub_left_blocks = array.scrub_left_blocks.max(self.scrub.left_blocks());
        if let Some(record) = self.log.record() {
            array.journal = *record;
        }
        let mut changes = self.replace.is_telling();
        let members = (0..).map(MemberIndex).zip(self.members.states());
        for ((member, state), record) in members.zip(&mut array.member) {
            let returns = self.rebuild.is_returning(member);
            let now = recorded(record.state, state, returns, array.generation);
            changes |= discriminant(&now) != discriminant(&record.state);
            record.state = now;
        }
        array.note_rebuilding();
        array.growth = self.grow.record();
        array.note_growth();
        if changes {
            self.metadata.repeat_in_other_slot();
        }
        self.write_superblocks(self.replace.told_now(self.present()));
        assert!(!self.metadata.slot().is_quiet(), "no members, no update");
    }

    /// Records that the list of bad blocks may have entries, before the first entries are added. No
    /// other change goes into this update, since it may depend on the entries: the wanted update
    /// comes after.
    fn announce_bad_blocks(&mut self) {
        assert!(!self.replace.is_telling(), "nothing is written meanwhile");
        self.metadata.begin_announcement();
        self.write_superblocks(self.present());
    }

    /// Writes the update that a replacement device of `member` has got to all other members.
    pub(crate) fn tell_others(&mut self, member: MemberIndex) {
        self.write_superblocks(self.present().without(member));
        self.update_written();
    }

    fn write_superblocks(&mut self, members: MemberSet) {
        let place = self.metadata.place();
        for member in members.iter() {
            let block = self.metadata.encode(member, &mut self.metadata_buffer);
            self.system_io(
                Purpose::Superblock,
                member,
                Operation::Write { fua: true },
                block,
                place.blocks,
                self.metadata_buffer.slice(place, member.0),
            );
        }
    }

    /// Returns true if no unlogged write needs a flush before a member is recorded as out.
    fn is_flushed_without(&self) -> bool {
        // Also while a new log begins: unlogged writes may be under way then.
        let unlogged = self.log.is_begun() && self.has_checksums() && !self.shape.copies;
        let flushed = self.metadata.is_flushed_without(self.members.missing());
        !unlogged || flushed && self.own_flushes.is_quiet(Purpose::OutFlush)
    }

    /// Flushes unlogged writes when they have ended.
    fn flush_without(&mut self) {
        let ended = !self.log.is_bypassed() || self.mutated(Mutation::OutWhileUnlogged);
        if self.own_flushes.is_quiet(Purpose::OutFlush) && ended {
            self.metadata.flushes_without(self.members.missing());
            self.flush_active(Purpose::OutFlush);
        }
    }

    /// Forgets the bad blocks of members that all superblocks record as out.
    pub(crate) fn bad_blocks_are_out(&mut self) {
        if let Some(out) = self.metadata.updated() {
            self.forget_bad_blocks(out);
        }
    }

    /// Continues when all writes of an update are back.
    pub(crate) fn update_written(&mut self) {
        if self.metadata.slot().is_quiet() {
            self.metadata.slot_written();
            self.agenda.add(Due::Recorded);
        }
    }
}

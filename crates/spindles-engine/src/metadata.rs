//! The superblocks in memory: their contents, and the state of their updates.

use crate::{
    config::Persistence,
    durable::DurableBlocks,
    growth::policy_after,
    member::Member,
    members::Members,
    output::OutReason,
    system_io::{MetadataBuffer, Place},
};
use spindles_block::{BlockIndex, BlockSize, Instant, MemberIndex, MemberSet};
use spindles_format::{ArrayRecord, ErrorCounts, MemberState, SUPERBLOCK_BYTES, Text};

/// The least time between two updates for new errors alone, in nanoseconds: one minute.
const ERRORS_EVERY_NS: u64 = 60_000_000_000;

/// The engine's state of its superblocks.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "memory and the members may differ in each"
)]
pub(crate) struct Metadata {
    persistence: Option<Persistence>,
    place: Place,
    /// When the engine was opened, by its own clock.
    opened: Instant,
    /// True if the array must be resynchronised after a crash, according to the state in memory.
    dirty: bool,
    /// True if the superblocks durably say that the array is dirty.
    dirty_durable: bool,
    /// True if the superblocks durably say that the list of bad blocks may have entries.
    listed_durable: bool,
    /// True if the superblocks durably say that the stage may hold records.
    staged_durable: bool,
    /// Members that are durably recorded as out.
    out_durable: MemberSet,
    /// Members that were recorded as out before the opening.
    out_found: MemberSet,
    /// Members that are durably recorded as out, or as not filled yet.
    lost_durable: MemberSet,
    /// The current slot, as one block.
    slot: DurableBlocks,
    /// True if the other slots have another set of members than the current update, or are of
    /// another opening.
    in_one_slot: bool,
    /// True if a slot is corrupt: the next update is written to both.
    in_both_slots: bool,
    /// Durable updates of this opening; only the first two matter.
    updates: u8,
    /// The missing members at the last flush of all writes to the others.
    flushed_without: MemberSet,
    /// True if an update could not be made durable: no further write may be acknowledged.
    broken: bool,
    /// True if counted errors wait for an update.
    errors_wait: bool,
    /// When errors last asked for an update.
    errors_asked: Option<Instant>,
}

impl Metadata {
    pub(crate) fn new(
        now: Instant,
        persistence: Option<Persistence>,
        place: Place,
        dirty: bool,
    ) -> Self {
        let array = persistence.as_ref().map(|persistence| &persistence.array);
        let out = array.map_or(MemberSet::EMPTY, |array| array.missing());
        let filled = array.map_or(MemberSet::EMPTY, |array| array.rebuilding());
        Self {
            listed_durable: array.is_some_and(|array| array.bad_blocks_listed),
            staged_durable: array.is_some_and(|array| array.staged),
            out_durable: out,
            out_found: out,
            lost_durable: out.union(filled),
            persistence,
            place,
            opened: now,
            dirty,
            dirty_durable: dirty,
            slot: DurableBlocks::new(1, 1),
            in_one_slot: false,
            in_both_slots: false,
            updates: 0,
            flushed_without: MemberSet::EMPTY,
            broken: false,
            errors_wait: false,
            errors_asked: None,
        }
    }

    /// Returns the contents of the superblocks, current or about to be written; `None` for an array
    /// without.
    pub(crate) fn persistence(&self) -> Option<&Persistence> {
        self.persistence.as_ref()
    }

    /// Like `persistence`, mutable.
    pub(crate) fn persistence_mut(&mut self) -> Option<&mut Persistence> {
        self.persistence.as_mut()
    }

    /// Returns the recorded errors of a member's device.
    pub(crate) fn errors_of(&self, member: MemberIndex) -> ErrorCounts {
        let devices = self
            .persistence
            .as_ref()
            .map(|persistence| &persistence.devices);
        let device = devices.and_then(|devices| devices.get(usize::from(member.0))?.as_ref());
        device.map_or(ErrorCounts::NONE, |device| device.errors)
    }

    /// Adds errors to the record of a member's device. Returns true if an update is due for them.
    pub(crate) fn count_errors(
        &mut self,
        member: MemberIndex,
        more: &ErrorCounts,
        now: Instant,
    ) -> bool {
        let devices = self
            .persistence
            .as_mut()
            .map(|persistence| &mut persistence.devices);
        let device = devices.and_then(|devices| devices.get_mut(usize::from(member.0))?.as_mut());
        let Some(device) = device else {
            return false;
        };
        device.errors.add(more);
        if more.is_only_slow() {
            return false; // Not worth an update: the next one takes it up.
        }
        self.errors_wait = true;
        let is_due = |asked: Instant| now.ns_since(asked) >= ERRORS_EVERY_NS;
        let due = self.errors_asked.is_none_or(is_due);
        if due {
            self.errors_asked = Some(now);
        }
        due
    }

    /// Returns true if errors were counted that no update has taken up.
    pub(crate) fn has_new_errors(&self) -> bool {
        self.errors_wait
    }

    /// Returns true if an update could not be made durable: no more is written or acknowledged.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns true if the next update says that the array is dirty.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Sets whether the next update says that the array is dirty.
    pub(crate) fn set_dirty(&mut self, dirty: bool) {
        self.dirty = dirty;
    }

    /// Returns true if the superblocks durably say that the list of bad blocks may have entries.
    pub(crate) fn lists_bad_blocks(&self) -> bool {
        self.listed_durable
    }

    /// Returns the members that are durably recorded as out, or as not filled yet.
    pub(crate) fn lost_durable(&self) -> MemberSet {
        self.lost_durable
    }

    /// Returns true if the superblocks durably say that the stage may hold records.
    pub(crate) fn is_staged_durable(&self) -> bool {
        self.staged_durable
    }

    /// Returns true if the superblocks durably say that the array is dirty.
    pub(crate) fn is_dirty_durable(&self) -> bool {
        self.dirty_durable
    }

    /// Returns the place of the superblocks in the metadata buffer.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Returns the state of the writes of the current slot.
    pub(crate) fn slot(&self) -> &DurableBlocks {
        &self.slot
    }

    /// Like `slot`, mutable.
    pub(crate) fn slot_mut(&mut self) -> &mut DurableBlocks {
        &mut self.slot
    }

    /// Stops all updates: no member may overtake one whose superblock write failed.
    pub(crate) fn stop(&mut self) {
        self.broken = true;
        self.slot.want_none();
    }

    // ---- updates ------------------------------------------------------------------------------

    /// Writes the next update to both slots, because a slot is corrupt on a member.
    pub(crate) fn rewrite_both_slots(&mut self) {
        self.in_both_slots = true;
    }

    /// Writes the current update to the other slot too, because the members changed.
    pub(crate) fn repeat_in_other_slot(&mut self) {
        self.in_one_slot = true;
    }

    /// Begins the wanted update. Returns the record, with what this room knows. `listed`: the list
    /// of bad blocks has entries.
    pub(crate) fn begin_update(&mut self, now: Instant, listed: bool) -> &mut ArrayRecord {
        self.slot.begin();
        self.errors_wait = false;
        self.in_one_slot = core::mem::take(&mut self.in_both_slots) || self.updates == 0;
        self.listed_durable &= listed;
        let (now_s, dirty) = (self.since_1970_s(now), self.dirty);
        let array = self.next_generation();
        array.last_written_s = now_s.unwrap_or(array.last_written_s);
        array.clean = !dirty;
        array.bad_blocks_listed = listed;
        array
    }

    /// Begins an update that says that the list of bad blocks may have entries, and nothing else.
    pub(crate) fn begin_announcement(&mut self) {
        self.slot.begin_before_changes();
        self.in_one_slot = true;
        self.next_generation().bad_blocks_listed = true;
    }

    fn next_generation(&mut self) -> &mut ArrayRecord {
        let persistence = self.persistence.as_mut().expect("superblocks are written");
        persistence.array.begin_session(persistence.nonce);
        persistence.array.generation += 1;
        &mut persistence.array
    }

    /// Encodes the superblock of a member, and counts its write. Returns the block of its slot.
    pub(crate) fn encode(
        &mut self,
        member: MemberIndex,
        buffer: &mut MetadataBuffer,
    ) -> BlockIndex {
        let persistence = self.persistence.as_ref().expect("superblocks are written");
        let device = persistence.devices[usize::from(member.0)].as_ref();
        let device = device.expect("a member that is there has a device record");
        let bytes = buffer.bytes_mut(self.place, member.0);
        spindles_format::encode(&persistence.array, device, bytes);
        self.slot.issued();
        device.slot_block(persistence.array.generation)
    }

    /// Notes that a slot of all members has the update, unless writing has stopped. Later changes
    /// may wait.
    pub(crate) fn slot_written(&mut self) {
        if let Some(persistence) = self.persistence.as_ref().filter(|_| !self.broken) {
            self.listed_durable = persistence.array.bad_blocks_listed;
        }
    }

    /// Takes over the state that all superblocks record now. Returns the members that are recorded
    /// as out. `None` if writing has stopped.
    pub(crate) fn updated(&mut self) -> Option<MemberSet> {
        let persistence = self.persistence.as_ref().filter(|_| !self.broken)?;
        self.updates = self.updates.saturating_add(1);
        self.dirty_durable = self.dirty;
        self.staged_durable = persistence.array.staged;
        self.out_durable = persistence.array.missing();
        self.lost_durable = self.out_durable.union(persistence.array.rebuilding());
        Some(self.out_durable)
    }

    /// Returns true if the other slot needs the current update too.
    pub(crate) fn needs_other_slot(&self) -> bool {
        self.in_one_slot && !self.broken
    }

    // ---- flushes before a member is recorded as out -------------------------------------------

    /// Returns true if all writes to the others were flushed since these members went missing.
    pub(crate) fn is_flushed_without(&self, missing: MemberSet) -> bool {
        self.flushed_without == missing
    }

    /// Notes that a flush without these members begins.
    pub(crate) fn flushes_without(&mut self, missing: MemberSet) {
        self.flushed_without = missing;
    }

    // ---- questions ----------------------------------------------------------------------------

    /// Returns true if an update must still become durable before a write is acknowledged.
    pub(crate) fn busy(&self) -> bool {
        !self.slot.are_stored()
    }

    /// Returns true if the array may count on some of these members after a crash, though they are
    /// out.
    pub(crate) fn may_count_on(&self, missing: MemberSet) -> bool {
        self.persistence.is_some() && !missing.difference(self.out_durable).is_empty()
    }

    /// Returns true if a member was recorded as out before the opening.
    pub(crate) fn was_out(&self, member: MemberIndex) -> bool {
        self.out_found.contains(member)
    }

    /// Returns the time in seconds since 1970; `None` if unknown.
    pub(crate) fn since_1970_s(&self, now: Instant) -> Option<u64> {
        let opened_s = self.persistence.as_ref()?.opened_s?;
        Some(opened_s + now.0.saturating_sub(self.opened.0) / 1_000_000_000)
    }

    /// Returns true if two generations of this opening are durable. From then on a copy of a member
    /// that was made before the opening is two generations behind, and is recognised. No contents
    /// are written before.
    pub(crate) fn is_recorded(&self) -> bool {
        self.persistence.is_none() || self.updates >= 2
    }

    pub(crate) fn generation(&self) -> u64 {
        self.persistence
            .as_ref()
            .map_or(0, |persistence| persistence.array.generation)
    }

    /// Sets the consistency policy that goes with the new level, from the next opening on.
    pub(crate) fn change_policy(&mut self) {
        let Some(persistence) = self.persistence_mut() else {
            return;
        };
        let array = &mut persistence.array;
        let older = array.growth.older.as_ref();
        if let Some(policy) = older.and_then(|older| policy_after(array, older)) {
            array.consistency = Text::new(policy.name).expect("a policy's name is short");
        }
    }

    /// Returns true if a member is missing on which the superblocks count.
    pub(crate) fn missing_unrecorded(&self, members: &Members) -> bool {
        self.persistence().is_some_and(|persistence| {
            members
                .missing()
                .iter()
                .any(|member| (persistence.array.member[usize::from(member.0)].state).takes_part())
        })
    }
}

/// Blocks of a superblock.
pub(crate) fn superblock_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(SUPERBLOCK_BYTES).expect("4096") / block_size.bytes()
}

/// Returns the record of a member in the update `generation`. `before`: the record until then.
pub(crate) fn recorded(
    before: MemberState,
    member: Member,
    returns: bool,
    generation: u64,
) -> MemberState {
    let out_since = |out_since| MemberState::Missing {
        out_since,
        // True if an administrator put the member out.
        held_out: member
            == Member::Missing {
                reason: Some(OutReason::Command),
            },
    };
    match (member, before) {
        // The regions that it missed are still marked.
        (Member::Missing { .. }, MemberState::Rebuilding { missed_since, .. })
            if missed_since > 0 =>
        {
            out_since(missed_since)
        }
        (Member::Missing { .. }, MemberState::Active | MemberState::Rebuilding { .. }) => {
            out_since(generation)
        }
        (Member::Missing { .. }, MemberState::Missing { .. }) => before,
        (Member::Active, MemberState::Active | MemberState::Rebuilding { .. }) => {
            MemberState::Active
        }
        (Member::Rebuilding { mark }, MemberState::Missing { out_since, .. }) => {
            let missed_since = if returns { out_since } else { 0 };
            MemberState::Rebuilding { mark, missed_since }
        }
        (Member::Rebuilding { mark }, MemberState::Rebuilding { missed_since, .. }) => {
            MemberState::Rebuilding { mark, missed_since }
        }
        (Member::Rebuilding { .. }, MemberState::Active)
        | (Member::Active, MemberState::Missing { .. }) => {
            panic!("{member:?} is {before:?} in the record")
        }
    }
}

//! The superblocks in memory: their contents, and the state of their updates.

use crate::{config::Persistence, system_io::Place};
use spindles_block::{BlockSize, Instant, MemberIndex, MemberSet};
use spindles_format::{ErrorCounts, SUPERBLOCK_BYTES};

/// The least time between two updates for new errors alone, in nanoseconds: one minute.
const ERRORS_EVERY_NS: u64 = 60_000_000_000;

/// The engine's state of its superblocks.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is and what is durable are told apart"
)]
pub(crate) struct Metadata {
    pub(crate) persistence: Option<Persistence>,
    pub(crate) place: Place,
    /// When the engine was opened, by its own clock.
    opened: Instant,
    /// True if the array must be resynchronised after a crash, according to the state in memory.
    pub(crate) dirty: bool,
    /// True if the superblocks durably say that the array is dirty.
    pub(crate) dirty_durable: bool,
    /// True if the superblocks durably say that the list of bad blocks may have entries.
    pub(crate) listed_durable: bool,
    /// Members that are durably recorded as out.
    pub(crate) out_durable: MemberSet,
    /// Members that were recorded as out before the opening.
    out_found: MemberSet,
    /// Members that are durably recorded as out, or as not filled yet.
    pub(crate) lost_durable: MemberSet,
    /// True if a change waits for an update.
    pub(crate) wanted: bool,
    /// Superblock writes under way.
    pub(crate) pending: u32,
    /// True if the other slots have another set of members than the current update, or are of
    /// another opening.
    pub(crate) in_one_slot: bool,
    /// True if a slot is corrupt: the next update is written to both.
    pub(crate) in_both_slots: bool,
    /// Durable updates of this opening; only the first two matter.
    pub(crate) updates: u8,
    /// The missing members at the last flush of all writes to the others; below, such flushes under
    /// way.
    pub(crate) flushed_without: MemberSet,
    pub(crate) out_flushes: u32,
    /// True if an update could not be made durable: no further write may be acknowledged.
    pub(crate) broken: bool,
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
            out_durable: out,
            out_found: out,
            lost_durable: out.union(filled),
            persistence,
            place,
            opened: now,
            dirty,
            dirty_durable: dirty,
            wanted: false,
            pending: 0,
            in_one_slot: false,
            in_both_slots: false,
            updates: 0,
            flushed_without: MemberSet::EMPTY,
            out_flushes: 0,
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

    /// Notes that an update takes up all errors.
    pub(crate) fn errors_are_taken(&mut self) {
        self.errors_wait = false;
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

    /// Returns true if an update must still become durable before a write is acknowledged.
    pub(crate) fn busy(&self) -> bool {
        self.pending > 0 || self.wanted
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
}

/// Blocks of a superblock.
pub(crate) fn superblock_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(SUPERBLOCK_BYTES).expect("4096") / block_size.bytes()
}

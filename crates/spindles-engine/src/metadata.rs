//! The superblocks in memory: what they say, what is to be written, and who waits for it.

use crate::{config::Persistence, system_io::Place};
use spindles_block::{BlockSize, Instant, MemberIndex, MemberSet};
use spindles_format::{ErrorCounts, SUPERBLOCK_BYTES};

/// Time between two updates that only new errors ask for, in nanoseconds: one minute.
const ERRORS_EVERY_NS: u64 = 60_000_000_000;

/// What the engine keeps about its superblocks.
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
    /// Whether the array, as it is in memory, must be resynchronised after a crash.
    pub(crate) dirty: bool,
    /// Whether it is durable that the array is dirty.
    pub(crate) dirty_durable: bool,
    /// Whether it is durable that the list of bad blocks may have entries.
    pub(crate) listed_durable: bool,
    /// Members of whom it is durable that they are out.
    pub(crate) out_durable: MemberSet,
    /// Those, and members of whom it is not durable yet that they hold what they should.
    pub(crate) lost_durable: MemberSet,
    /// Whether something changed that no update has taken up.
    pub(crate) wanted: bool,
    /// Superblock writes under way.
    pub(crate) pending: u32,
    /// Whether the other slots have another set of members than the update under way, or are of
    /// another opening.
    pub(crate) in_one_slot: bool,
    /// Whether a slot is corrupt: the next update is written to both.
    pub(crate) in_both_slots: bool,
    /// Durable updates of this opening, as far as they count: two.
    pub(crate) updates: u8,
    /// Without which members all that was written is durable, and flushes under way for that.
    pub(crate) flushed_without: MemberSet,
    pub(crate) out_flushes: u32,
    /// Whether an update could not be made durable: nothing more may be acknowledged.
    pub(crate) broken: bool,
    /// Errors were counted that no update has taken up.
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
        let array = persistence.as_ref().map(|it| &it.array);
        let out = array.map_or(MemberSet::EMPTY, |array| array.missing());
        let filled = array.map_or(MemberSet::EMPTY, |array| array.rebuilding());
        Self {
            listed_durable: array.is_some_and(|array| array.bad_blocks_listed),
            out_durable: out,
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

    /// What the superblocks of the members say, or are about to; `None` for an array without.
    pub(crate) fn persistence(&self) -> Option<&Persistence> {
        self.persistence.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn persistence_mut(&mut self) -> Option<&mut Persistence> {
        self.persistence.as_mut()
    }

    /// Errors of a member's device.
    pub(crate) fn errors_of(&self, member: MemberIndex) -> ErrorCounts {
        let devices = self.persistence.as_ref().map(|it| &it.devices);
        let device = devices.and_then(|it| it.get(usize::from(member.0))?.as_ref());
        device.map_or(ErrorCounts::NONE, |it| it.errors)
    }

    /// Adds errors to the record of a member's device. Returns true if an update is due for them.
    pub(crate) fn count_errors(
        &mut self,
        member: MemberIndex,
        more: &ErrorCounts,
        now: Instant,
    ) -> bool {
        let devices = self.persistence.as_mut().map(|it| &mut it.devices);
        let device = devices.and_then(|it| it.get_mut(usize::from(member.0))?.as_mut());
        let Some(device) = device else {
            return false;
        };
        device.errors.add(more);
        if more.is_only_slow() {
            return false; // Of no use to write for: the next update takes it up.
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

    /// An update takes up all errors.
    pub(crate) fn errors_are_taken(&mut self) {
        self.errors_wait = false;
    }

    /// Whether an update could not be made durable: nothing more is written or acknowledged.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the next update says that the array is dirty.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// It says that from now on.
    pub(crate) fn set_dirty(&mut self, dirty: bool) {
        self.dirty = dirty;
    }

    /// Whether it is durable that the list of bad blocks may have entries.
    pub(crate) fn lists_bad_blocks(&self) -> bool {
        self.listed_durable
    }

    /// Members of whom it is durable that they are out, or of whom it is not durable yet that they hold
    /// what they should.
    pub(crate) fn lost_durable(&self) -> MemberSet {
        self.lost_durable
    }

    /// Whether something that must be durable before a write is acknowledged is not yet.
    pub(crate) fn busy(&self) -> bool {
        self.pending > 0 || self.wanted
    }

    /// Whether some of these members may be counted on after a crash, though they are out.
    pub(crate) fn may_count_on(&self, missing: MemberSet) -> bool {
        self.persistence.is_some() && !missing.difference(self.out_durable).is_empty()
    }

    /// The time in seconds since 1970, where that is known.
    pub(crate) fn since_1970_s(&self, now: Instant) -> Option<u64> {
        let opened_s = self.persistence.as_ref()?.opened_s?;
        Some(opened_s + now.0.saturating_sub(self.opened.0) / 1_000_000_000)
    }

    /// Whether two generations of this opening are durable. From then on a copy of a member that was made
    /// before it is two behind, and is recognised: nothing that belongs to the contents is written
    /// before.
    pub(crate) fn is_recorded(&self) -> bool {
        self.persistence.is_none() || self.updates >= 2
    }

    pub(crate) fn generation(&self) -> u64 {
        self.persistence
            .as_ref()
            .map_or(0, |persistence| persistence.array.generation)
    }
}

/// How many blocks a superblock has.
pub(crate) fn superblock_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(SUPERBLOCK_BYTES).expect("4096") / block_size.bytes()
}

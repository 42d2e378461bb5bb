//! Counts the errors of members, and queues the places to repair.

use crate::{
    config::FaultLimits,
    index,
    jobs::scrub::{Fate, Finding, Flaw},
};
use alloc::{collections::VecDeque, vec::Vec};
use spindles_block::{Instant, MemberIndex};
use spindles_layout::GroupIndex;

/// Maximum number of places waiting for a rewrite. Further places are dropped; a later read or
/// scrub finds them again.
const REPAIRS_MAX: usize = 64;

/// The faults of a member since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFaults {
    /// Reads of clients and jobs that failed.
    pub read_errors: u64,
    /// Unreadable blocks that were rewritten.
    pub repaired_blocks: u64,
    /// Blocks that were read and held wrong bytes.
    pub rotten_blocks: u64,
    /// Blocks of a device being filled that could not be filled, because the other members were
    /// unreadable at that place.
    pub unfilled_blocks: u64,
    /// Blocks that are not read, because they refused a rewrite or could not be filled.
    pub bad_blocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u8,
    pub(crate) group: GroupIndex,
    pub(crate) low: u32,
    pub(crate) blocks: u32,
    /// True if it can be read, but holds wrong bytes.
    pub(crate) rotten: bool,
}

/// The engine's state of its members' faults.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    limits: FaultLimits,
    members: Vec<MemberFaults>,
    /// The times of each member's last errors, the oldest first; at most `errors_max`.
    recent: Vec<VecDeque<Instant>>,
    repairs: VecDeque<Place>,
}

impl Faults {
    pub(crate) fn new(limits: FaultLimits, members: u8) -> Self {
        let recent = || VecDeque::with_capacity(index(limits.errors_max));
        let members = usize::from(members);
        Self {
            limits,
            members: alloc::vec![MemberFaults::default(); members],
            recent: (0..members).map(|_| recent()).collect(),
            repairs: VecDeque::with_capacity(REPAIRS_MAX),
        }
    }

    /// Returns the faults of a member since opening.
    pub(crate) fn of(&self, member: MemberIndex) -> MemberFaults {
        self.members[usize::from(member.0)]
    }

    /// Counts a failed read of a member.
    pub(crate) fn read_failed(&mut self, member: MemberIndex) {
        self.members[usize::from(member.0)].read_errors += 1;
    }

    /// Counts blocks of a device being filled that could not be filled.
    pub(crate) fn not_filled(&mut self, member: MemberIndex, blocks: u32) {
        self.members[usize::from(member.0)].unfilled_blocks += u64::from(blocks);
    }

    /// Counts blocks of a member that were read and hold wrong bytes.
    pub(crate) fn rotten(&mut self, member: MemberIndex, blocks: u32) {
        self.members[usize::from(member.0)].rotten_blocks += u64::from(blocks);
    }

    /// Counts a finding of a scrub or of a repair.
    pub(crate) fn count(&mut self, finding: &Finding) {
        let member = &mut self.members[usize::from(finding.member.0)];
        let blocks = u64::from(finding.blocks);
        if finding.fate == Fate::Repaired && finding.flaw == Flaw::Unreadable {
            member.repaired_blocks += blocks;
        }
        if finding.flaw == Flaw::Rotten {
            member.rotten_blocks += blocks;
        }
    }

    /// Queues a place for a rewrite. Returns whether it is new, and whether it was queued.
    pub(crate) fn queue(&mut self, place: Place) -> (bool, bool) {
        let is_new = !self.repairs.contains(&place);
        let in_line = is_new && self.repairs.len() < REPAIRS_MAX;
        if in_line {
            self.repairs.push_back(place);
        }
        (is_new, in_line)
    }

    /// Returns true if places wait for a rewrite.
    pub(crate) fn has_repairs(&self) -> bool {
        !self.repairs.is_empty()
    }

    /// Takes the next place to rewrite.
    pub(crate) fn next_repair(&mut self) -> Option<Place> {
        self.repairs.pop_front()
    }

    /// Resets the counts of a position that another device has taken.
    pub(crate) fn forget_counts(&mut self, member: MemberIndex) {
        self.members[usize::from(member.0)] = MemberFaults::default();
    }

    /// Forgets the recent errors of a member that is out.
    pub(crate) fn forget_recent(&mut self, member: MemberIndex) {
        self.recent[usize::from(member.0)].clear();
    }

    /// Returns true if another member had an error within the error window.
    pub(crate) fn others_fail(&self, member: MemberIndex, now: Instant) -> bool {
        let mut others = (0..).map(MemberIndex).zip(&self.recent);
        others.any(|(other, recent)| {
            let is_recent = |last: &Instant| now.ns_since(*last) <= self.limits.errors_window_ns;
            other != member && recent.back().is_some_and(is_recent)
        })
    }

    /// Counts another error of a member. Returns true if that is one too many.
    pub(crate) fn is_too_many(&mut self, member: MemberIndex, now: Instant) -> bool {
        let recent = &mut self.recent[usize::from(member.0)];
        let max = index(self.limits.errors_max);
        if max == 0 {
            return false;
        }
        if recent.len() == max {
            recent.pop_front();
        }
        recent.push_back(now);
        recent.len() == max
            && recent
                .front()
                .is_some_and(|first| now.ns_since(*first) <= self.limits.errors_window_ns)
    }

    /// Returns the faults of a member.
    pub(crate) fn with_bad_blocks(&self, member: MemberIndex, bad_blocks: u64) -> MemberFaults {
        MemberFaults {
            bad_blocks,
            ..self.of(member)
        }
    }
}

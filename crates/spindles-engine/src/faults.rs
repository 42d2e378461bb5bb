//! The errors of members, counted, and the places that wait to be repaired.

use crate::{
    config::FaultLimits,
    index,
    jobs::scrub::{Fate, Finding, Flaw},
};
use alloc::{collections::VecDeque, vec::Vec};
use spindles_block::{Instant, MemberIndex};
use spindles_layout::GroupIndex;

/// Places that wait to be written anew; what comes when there is no room is met again.
const REPAIRS_MAX: usize = 64;

/// What went wrong on a member since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFaults {
    /// Reads of clients and jobs that failed in some place.
    pub read_errors: u64,
    /// Blocks that could not be read and were written anew.
    pub repaired_blocks: u64,
    /// Blocks that were read and found to hold wrong bytes.
    pub rotten_blocks: u64,
    /// Blocks of a device that took its place that could not be filled, as others could not be read there.
    pub unfilled_blocks: u64,
    /// Blocks that are not read, because they refused to be written anew, or could not be filled.
    pub bad_blocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u8,
    pub(crate) group: GroupIndex,
    pub(crate) low: u32,
    pub(crate) blocks: u32,
    /// It can be read, and holds wrong bytes.
    pub(crate) rotten: bool,
}

/// What the engine keeps about the faults of its members.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    limits: FaultLimits,
    members: Vec<MemberFaults>,
    /// When each member's last errors were, the oldest first; `errors_max` at most.
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

    /// What went wrong on a member since opening.
    pub(crate) fn of(&self, member: MemberIndex) -> MemberFaults {
        self.members[usize::from(member.0)]
    }

    /// A read of a member failed in some place.
    pub(crate) fn read_failed(&mut self, member: MemberIndex) {
        self.members[usize::from(member.0)].read_errors += 1;
    }

    /// So many blocks of a device that takes a place could not be filled.
    pub(crate) fn not_filled(&mut self, member: MemberIndex, blocks: u32) {
        self.members[usize::from(member.0)].unfilled_blocks += u64::from(blocks);
    }

    /// Blocks of a member were read, and hold wrong bytes.
    pub(crate) fn rotten(&mut self, member: MemberIndex, blocks: u32) {
        self.members[usize::from(member.0)].rotten_blocks += u64::from(blocks);
    }

    /// What a scrub, or a repair, found.
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

    /// A place shall be written anew: whether it was not known yet, and whether it is in line now.
    pub(crate) fn queue(&mut self, place: Place) -> (bool, bool) {
        let is_new = !self.repairs.contains(&place);
        let in_line = is_new && self.repairs.len() < REPAIRS_MAX;
        if in_line {
            self.repairs.push_back(place);
        }
        (is_new, in_line)
    }

    /// Whether places wait to be written anew.
    pub(crate) fn has_repairs(&self) -> bool {
        !self.repairs.is_empty()
    }

    /// The next of them.
    pub(crate) fn next_repair(&mut self) -> Option<Place> {
        self.repairs.pop_front()
    }

    /// Another device has the position: what went wrong on the one before is not its doing.
    pub(crate) fn forget_counts(&mut self, member: MemberIndex) {
        self.members[usize::from(member.0)] = MemberFaults::default();
    }

    /// A member is out: its errors of late do not count any more.
    pub(crate) fn forget_recent(&mut self, member: MemberIndex) {
        self.recent[usize::from(member.0)].clear();
    }

    /// Whether another member had an error within that time too.
    pub(crate) fn others_fail(&self, member: MemberIndex, now: Instant) -> bool {
        let mut others = (0..).map(MemberIndex).zip(&self.recent);
        others.any(|(other, recent)| {
            let is_recent = |last: &Instant| now.ns_since(*last) <= self.limits.errors_window_ns;
            other != member && recent.back().is_some_and(is_recent)
        })
    }

    /// Another error of a member. Whether that is one too many.
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
}

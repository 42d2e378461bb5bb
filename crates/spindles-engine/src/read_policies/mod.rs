//! Read policies: which copy a read of a mirror takes. One file each, one row in the table.

mod nearest;
mod round_robin;
mod shortest_queue;

use spindles_block::BlockIndex;

/// The state of a member when a copy is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberLoad {
    /// Member I/O in flight.
    pub in_flight: u32,
    /// One past the last block read or written.
    pub last_end: BlockIndex,
    /// The number of the read that last chose this member.
    pub last_chosen: u64,
    /// True if it is read only when no other copy is left.
    pub write_mostly: bool,
}

/// A read policy.
#[derive(Debug)]
pub struct ReadPolicy {
    /// What users type.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// The cost of a read at this block of this member. The member with the lowest cost is read; of
    /// equal costs, the first.
    pub cost: fn(&MemberLoad, BlockIndex) -> u64,
}

/// Every policy; the first is the default.
pub static READ_POLICIES: &[&ReadPolicy] = &[
    &nearest::POLICY,
    &shortest_queue::POLICY,
    &round_robin::POLICY,
];

/// Policies are equal if their names are.
impl PartialEq for ReadPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ReadPolicy {}

impl ReadPolicy {
    /// Returns the policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        READ_POLICIES
            .iter()
            .find(|policy| policy.name == name)
            .copied()
    }
}

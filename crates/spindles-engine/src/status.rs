//! The state of a running array, for people and tests.

use crate::{
    Engine,
    member::{ArrayState, Member},
};
use alloc::vec::Vec;
use spindles_block::MemberIndex;

/// The state of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Healthy, degraded or failed.
    pub state: ArrayState,
    /// Every position.
    pub members: Vec<MemberStatus>,
    /// The generation of the superblocks; 0 without superblocks.
    pub generation: u64,
    /// Whether the array would be resynchronised if the process ended now.
    pub dirty: bool,
    /// The resync under way.
    pub resync: Option<ResyncStatus>,
}

/// The state of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which.
    pub member: MemberIndex,
    /// Its state.
    pub state: Member,
}

/// How far a resync has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncStatus {
    /// Groups gone through.
    pub groups_done: u64,
    /// Groups of the array.
    pub groups: u64,
    /// Columns in which redundancy did not agree with data.
    pub mismatches: u64,
}

impl Engine {
    /// The state of the array. Allocates: not for the data path.
    pub fn status(&self) -> Status {
        Status {
            state: self.state(),
            members: self
                .members
                .iter()
                .map(|member| MemberStatus {
                    member: member.index,
                    state: member.state,
                })
                .collect(),
            generation: self.metadata.generation(),
            dirty: self.metadata.dirty,
            resync: self
                .resync
                .filter(|_| !self.all_settled)
                .map(|resync| ResyncStatus {
                    groups_done: resync.groups_done(),
                    groups: self.geometry.groups(),
                    mismatches: resync.mismatches(),
                }),
        }
    }
}

//! Devices that take the positions of missing members, and how far they are filled.

use crate::{jobs::Place, members::Members, regions::Regions};
use alloc::vec::Vec;
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};
use spindles_layout::GroupIndex;

/// Stands for the identity of a device that keeps its own.
pub(crate) const RETURNING: Uuid = Uuid([0xff; 16]);

/// A device that is about to take a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) member: MemberIndex,
    pub(crate) device: DeviceRecord,
    pub(crate) uuid: Uuid,
    /// True if the device still has its contents from when it went out.
    pub(crate) returns: bool,
    /// True if the device is attached beyond all positions: see `replace`.
    pub(crate) replacement: bool,
}

/// The engine's state of rebuilds, apart from the walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rebuild {
    /// Devices that wait for a moment with nothing under way, to take their positions together.
    pub(crate) joining: Vec<Joining>,
    /// The devices being filled are flushed. Then the superblocks record this mark.
    pub(crate) flush: Option<Place>,
    /// Devices being filled that lack only the dirty regions.
    pub(crate) returning: MemberSet,
    /// The group up to which the superblocks record progress, or are about to.
    pub(crate) marked: GroupIndex,
    /// Members that the superblocks are about to call active.
    pub(crate) done: MemberSet,
    /// Stripe ranges that failed, reported after the last flush.
    pub(crate) failed: u64,
}

impl Rebuild {
    /// Returns true if devices wait to take their positions.
    #[inline]
    pub(crate) fn somebody_joins(&self) -> bool {
        !self.joining.is_empty()
    }

    /// Returns the position that the device attached beyond all positions is about to take.
    pub(crate) fn replacement_joins(&self) -> Option<MemberIndex> {
        let mut joining = self.joining.iter();
        let joins = joining.find(|joining| joining.replacement);
        joins.map(|joining| joining.member)
    }

    /// Drops the devices that wait to take their positions.
    pub(crate) fn nobody_joins(&mut self) {
        self.joining.clear();
    }

    /// Returns true if a device being filled lacks only the dirty regions.
    pub(crate) fn is_returning(&self, member: MemberIndex) -> bool {
        self.returning.contains(member)
    }

    /// Notes that the device of `member` lacks only the dirty regions.
    pub(crate) fn returns(&mut self, member: MemberIndex) {
        self.returning = self.returning.with(member);
    }

    /// Returns true if no flush of a rebuild is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flush.is_none()
    }

    /// Lets a device take the place of a missing one, as soon as nothing is under way.
    pub(crate) fn fill(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.joining.push(Joining {
            member,
            device: *device,
            uuid,
            returns: false,
            replacement: false,
        });
    }

    /// Returns the positions that a device is about to take.
    pub(crate) fn members_joining(&self) -> MemberSet {
        let joining = self.joining.iter();
        joining.map(|joining| joining.member).collect()
    }

    /// Returns true if a device is about to take this position.
    pub(crate) fn is_joining(&self, member: MemberIndex) -> bool {
        let mut joining = self.joining.iter();
        joining.any(|joining| joining.member == member)
    }

    pub(crate) fn next_lacked(
        &self,
        members: &Members,
        regions: &Regions,
        group: GroupIndex,
    ) -> GroupIndex {
        if members.being_filled().difference(self.returning).is_empty() {
            return regions.next_missed(group);
        }
        regions.next_written(group)
    }
}

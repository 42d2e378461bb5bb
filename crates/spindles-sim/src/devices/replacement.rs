//! A replacement disk for a working member. A run has at most one at a time.

use crate::disk::Disk;
use crate::stack::Stack;
use crate::stack::places::Places;
use spindles_block::MemberIndex;
use std::collections::BTreeSet;

/// A replacement disk, which is not a member yet. After the exchange, the old disk of the member.
#[derive(Clone, Debug)]
pub(crate) struct ReplacementDisk {
    pub(crate) array: usize,
    pub(crate) member: MemberIndex,
    pub(crate) disk: Disk,
    /// Start of the disk's areas.
    places: Places,
    pub(crate) gone: bool,
    /// Sectors that were unreadable at some time in this session.
    spoiled: BTreeSet<u64>,
    /// Set once the new disk is the member.
    exchanged: bool,
}

impl ReplacementDisk {
    pub(crate) fn new(array: usize, member: MemberIndex, disk: Disk, places: Places) -> Self {
        Self {
            array,
            member,
            disk,
            places,
            gone: false,
            spoiled: BTreeSet::new(),
            exchanged: false,
        }
    }

    /// Returns true once the new disk is the member.
    pub(crate) fn is_exchanged(&self) -> bool {
        self.exchanged
    }

    /// Exchanges the contents with those of a member's disk. Returns whether the member's disk now
    /// is gone.
    pub(super) fn exchange(&mut self, stack: &mut Stack, disk: usize, mut gone: bool) -> bool {
        self.exchanged = !self.exchanged;
        std::mem::swap(&mut self.disk, &mut stack.disks[disk]);
        std::mem::swap(&mut self.gone, &mut gone);
        let here = stack.spoiled.range((disk, 0)..=(disk, u64::MAX));
        let here: BTreeSet<u64> = here.map(|&(_, sector)| sector).collect();
        stack.spoiled.retain(|&(of, _)| of != disk);
        let there = std::mem::replace(&mut self.spoiled, here);
        let there = there.into_iter().map(|sector| (disk, sector));
        stack.spoiled.extend(there);
        let this = &mut stack.arrays[self.array];
        let places = self.places;
        self.places = this.put_places(self.member, places);
        stack.move_decay(disk, self.places, places);
        let this = &mut stack.arrays[self.array];
        if this.lost.contains(self.member) {
            this.blank = this.blank.with(self.member); // A lost member is rebuilt instead.
        }
        gone
    }
}

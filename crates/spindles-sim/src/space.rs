//! Space that runs out under sparse disks, as on a full file system. Sectors that are already
//! allocated stay writable.
//!
//! Until there is space again and the array was reopened, any request may fail. Checks of data read
//! continue meanwhile; every other check resumes afterwards.

use crate::disk::{View, WriteData};
use crate::stack::Below;
use crate::stack::superblocks::newest_superblock;
use crate::world::World;
use spindles_block::{MemberError, MemberIndex, MemberResult};
use spindles_engine::{Member, OutReason};
use spindles_format::ArrayRecord;

/// Most sectors that are left when space gets short.
const LEFT_MAX: u64 = 64;

/// The space that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// The only disk that is short of space; `None` for all members.
    disk: Option<usize>,
    /// Number of sectors that disks can still allocate.
    left: u64,
}

impl World {
    /// Makes space short, now or at the next opening. If it is short already, frees space. Returns
    /// true if this took effect.
    pub fn run_out_of_space(&mut self) -> bool {
        if let Some(space) = &mut self.space {
            space.left = u64::MAX;
            self.note("there is space again");
            return true;
        }
        if self.spacing.percent(50) {
            return !std::mem::replace(&mut self.space_is_doomed, true);
        }
        self.take_space()
    }

    /// Between sessions: makes space short if that was planned, or frees it.
    pub(crate) fn change_space(&mut self) {
        if self.space.is_some_and(|space| space.left == u64::MAX) || self.spacing.percent(50) {
            self.give_space();
        }
        if std::mem::take(&mut self.space_is_doomed) && self.space.is_none() {
            self.take_space();
        }
    }

    /// Makes space short, if all members with contents are readable: members without space may be
    /// put out.
    fn take_space(&mut self) -> bool {
        let disks = 0..self.stack.disks.len();
        let is_whole = |disk: usize| {
            let unreadable = self.stack.disks[disk].not_durably_readable().next();
            let rotten = self.stack.rotten_sectors(disk).next();
            let (array, member) = self.stack.position(disk);
            let gone = self.devices.is_gone(disk) && self.arrays.is_open(array);
            let unnoticed = gone && !matches!(self.state_of(array, member), Member::Missing { .. });
            unreadable.is_none() && rotten.is_none() && !unnoticed
        };
        let mut arrays = self.stack.arrays.iter();
        let whole = disks.clone().all(is_whole)
            && self.stack.spoiled.is_empty()
            && arrays.all(|array| array.damaged.is_none());
        if !whole {
            return false;
        }
        let count = u64::try_from(disks.len()).expect("few");
        let one = usize::try_from(self.spacing.below(count)).expect("few");
        let space = Space {
            disk: self.spacing.percent(40).then_some(one),
            left: [0, self.spacing.below(LEFT_MAX)][usize::from(self.spacing.percent(50))],
        };
        self.note(&format!("space is short: {space:?}"));
        self.space = Some(space);
        self.stack.is_short_of_space = true;
        self.log.count("space was short", 1);
        true
    }

    /// Frees space, between sessions.
    pub(crate) fn give_space(&mut self) {
        if self.space.take().is_some() {
            self.note("there is space for all again");
            self.stack.is_short_of_space = false;
        }
    }

    /// Returns true if requests may fail: see `Scene`.
    pub(crate) fn excuses_errors(&self) -> bool {
        self.truth.excuse_of_all(&self.stack).is_some()
    }

    /// Allocates space for the longest prefix of a write that fits, in whole blocks. Returns its
    /// bytes.
    pub(crate) fn fit(&mut self, disk: usize, data: &WriteData) -> usize {
        let bytes = data.bytes.len();
        let is_member = disk != self.devices.journal_number();
        let short =
            (self.space).filter(|space| is_member && space.disk.is_none_or(|it| it == disk));
        let Some(space) = short else {
            return bytes;
        };
        let holes = |bytes| self.disk(disk).holes(data.first, bytes);
        let mut whole = (0..=bytes).rev().step_by(self.stack.block_bytes);
        let fits = whole.find(|&bytes| holes(bytes) <= space.left);
        let fits = fits.expect("nothing fits everywhere");
        let left = space.left - holes(fits);
        self.space = Some(Space { left, ..space });
        fits
    }

    /// Carries out a write, as far as there is space.
    pub(crate) fn write_where_space_is(
        &mut self,
        disk: usize,
        data: &WriteData,
        fua: bool,
    ) -> MemberResult {
        let before = self.space;
        let fits = self.fit(disk, data);
        if fits < data.bytes.len() && self.spacing.percent(50) {
            self.space = before; // Refused before anything is written.
            return Err(MemberError::NoSpace);
        }
        let bytes = &data.bytes[..fits];
        self.disk_mut(disk).write(data.first, bytes, fua);
        if fits < data.bytes.len() {
            self.log.count("written in part", 1);
            return Err(MemberError::NoSpace);
        }
        Ok(())
    }

    /// Discards sectors of a disk, which frees their space.
    pub(crate) fn discard_on(&mut self, disk: usize, data: &WriteData) {
        let holes = self.disk(disk).holes(data.first, data.bytes.len());
        self.disk_mut(disk).discard(data.first, &data.bytes);
        let freed = self.disk(disk).holes(data.first, data.bytes.len()) - holes;
        if let Some(space) = &mut self.space
            && space.disk.is_none_or(|it| it == disk)
        {
            space.left = space.left.saturating_add(freed);
        }
    }

    /// Returns true if another disk may take the position of a member. If its array records no more
    /// than the loss, the old disk is needed again.
    pub(crate) fn is_out_for_good(&self, array: usize, member: MemberIndex) -> bool {
        let this = &self.stack.arrays[array];
        let knows = |(at, below): (u8, &Below)| {
            let Below::Disk(disk) = *below else {
                return false;
            };
            let newest = newest_superblock(&self.stack.disks[disk], View::Durable);
            let inactive = |record: ArrayRecord| record.missing().union(record.rebuilding());
            !this.lost.contains(MemberIndex(at))
                && newest.is_some_and(|record| inactive(record).contains(member))
        };
        !self.stack.is_short_of_space || (0..).zip(&this.members).any(knows)
    }

    /// Asserts that the array survives the loss of a member put out for lack of space.
    pub(crate) fn assert_space_spares(&self, array: usize, member: MemberIndex, reason: OutReason) {
        let this = &self.stack.arrays[array];
        assert!(
            reason != OutReason::Error(MemberError::NoSpace)
                || this.geometry.survives(this.lost.with(member)),
            "member {member} of array {array} was put out for space beyond the tolerance"
        );
    }

    /// Records that an engine put a member out for lack of space. If the array does not survive the
    /// loss, no superblock records it, and the member is back at the next opening.
    pub(crate) fn put_out_for_space(&mut self, array: usize, member: MemberIndex) {
        let this = &self.stack.arrays[array];
        if !this.geometry.survives(this.lost.with(member)) {
            return;
        }
        self.log.count("put out for space", 1);
        match this.members[usize::from(member.0)] {
            Below::Disk(disk) => self.lose(disk),
            Below::Array(_) => {
                self.stack.lose_array(array, member, true);
                self.truth.note_gone_rows(&self.stack);
            }
        }
    }
}

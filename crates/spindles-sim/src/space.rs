//! Space that runs out where disks lie that take it only for what is written, as sparse files on a file system
//! that is full. What takes space already can be written.
//!
//! Until it is there again, and the array was opened anew, any request may fail. What is read is judged as ever, and
//! afterwards everything is.

use crate::checkers::failure_record::newest_superblock;
use crate::disk::WriteData;
use crate::stack::{Below, View};
use crate::world::World;
use spindles_block::{MemberError, MemberIndex, MemberResult};
use spindles_engine::{Member, OutReason};
use spindles_format::ArrayRecord;

/// The most sectors that are left when space is short.
const LEFT_MAX: u64 = 64;

/// What is left of the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// The only disk that lies there; `None` for all members.
    disk: Option<usize>,
    /// Sectors.
    left: u64,
}

impl World {
    /// Space is short from now on, or when the array is opened next; where it is, there is some again. Whether
    /// that came so.
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

    /// Nothing runs: what was to run out does, or there is enough again.
    pub(crate) fn change_space(&mut self) {
        if self.space.is_some_and(|space| space.left == u64::MAX) || self.spacing.percent(50) {
            self.give_space();
        }
        if std::mem::take(&mut self.space_is_doomed) && self.space.is_none() {
            self.take_space();
        }
    }

    /// Space is short from now on, if all members that hold something can be read: who has none may be put out.
    fn take_space(&mut self) -> bool {
        let disks = 0..self.stack.disks.len();
        let is_whole = |disk: usize| {
            let unreadable = self.stack.disks[disk].not_durably_readable().next();
            let rotten = self.stack.rotten_sectors(disk).next();
            let (array, member) = self.stack.position(disk);
            let gone = self.is_gone(disk) && self.is_open(array);
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
        *self.struck.entry("space was short").or_default() += 1;
        true
    }

    /// Nothing runs: there is enough space again.
    pub(crate) fn give_space(&mut self) {
        if self.space.take().is_some() {
            self.note("there is space for all again");
            self.stack.is_short_of_space = false;
        }
    }

    /// Whether errors are right: see `Scene`.
    pub(crate) fn excuses_errors(&self) -> bool {
        self.errors_excused
            || self.stack.is_short_of_space
            || self.stack.may_lack_proof(self.stack.top())
    }

    /// So much of a write from its start as there is space for, in whole blocks. That is taken.
    pub(crate) fn fit(&mut self, disk: usize, data: &WriteData) -> usize {
        let bytes = data.bytes.len();
        let is_member = disk != self.journal_number();
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

    /// A disk carries out a write, as far as there is space.
    pub(crate) fn write_where_space_is(
        &mut self,
        disk: usize,
        data: &WriteData,
        fua: bool,
    ) -> MemberResult {
        let before = self.space;
        let fits = self.fit(disk, data);
        if fits < data.bytes.len() && self.spacing.percent(50) {
            self.space = before; // It is refused before anything is written.
            return Err(MemberError::NoSpace);
        }
        let bytes = &data.bytes[..fits];
        self.disk_mut(disk).write(data.first, bytes, fua);
        if fits < data.bytes.len() {
            *self.struck.entry("written in part").or_default() += 1;
            return Err(MemberError::NoSpace);
        }
        Ok(())
    }

    /// A disk gives space back.
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

    /// Whether another disk may take the place of a member: the one before is needed again where its array goes no
    /// further than to put it out.
    pub(crate) fn is_out_for_good(&self, array: usize, member: MemberIndex) -> bool {
        let this = &self.stack.arrays[array];
        let knows = |(at, below): (u8, &Below)| {
            let Below::Disk(disk) = *below else {
                return false;
            };
            let newest = newest_superblock(&self.stack.disks[disk], View::Durable);
            let told = |record: ArrayRecord| record.missing().union(record.rebuilding());
            !this.lost.contains(MemberIndex(at))
                && newest.is_some_and(|record| told(record).contains(member))
        };
        !self.stack.is_short_of_space || (0..).zip(&this.members).any(knows)
    }

    /// Asserts that no member was put out for space whose loss the array does not survive.
    pub(crate) fn assert_space_spares(&self, array: usize, member: MemberIndex, reason: OutReason) {
        let this = &self.stack.arrays[array];
        assert!(
            reason != OutReason::Error(MemberError::NoSpace)
                || this.geometry.survives(this.lost.with(member)),
            "member {member} of array {array} was put out for space beyond the tolerance"
        );
    }

    /// An engine put a member out that had no space. Where the array does not survive that, no superblock says
    /// so, and it is a member again at the next opening.
    pub(crate) fn put_out_for_space(&mut self, array: usize, member: MemberIndex) {
        let this = &self.stack.arrays[array];
        if !this.geometry.survives(this.lost.with(member)) {
            return;
        }
        *self.struck.entry("put out for space").or_default() += 1;
        match this.members[usize::from(member.0)] {
            Below::Disk(disk) => self.lose(disk),
            Below::Array(_) => {
                self.stack.lose_array(array, member, true);
                self.note_gone_rows();
            }
        }
    }
}

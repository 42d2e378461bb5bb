//! The devices of a run: which of them answer, and the operations in flight on them. The contents
//! of members are in the stack; those of the other devices are here.

pub(crate) mod journal;
pub(crate) mod replacement;

use crate::disk::{Disk, Landing, WriteData};
use crate::random::Random;
use crate::stack::Stack;
use journal::JournalDisk;
use replacement::ReplacementDisk;
use spindles_block::{Instant, MemberIndex, MemberIo, Piece};
use std::collections::BTreeSet;

/// An operation on a disk, in flight.
#[derive(Clone, Debug)]
pub(crate) struct DiskIo {
    pub(crate) array: usize,
    pub(crate) io: MemberIo,
    /// Its memory.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) disk: usize,
    pub(crate) first_sector: u64,
    /// The data of a write, as it was when submitted.
    pub(crate) data: Option<WriteData>,
    /// The writes that a flush covers.
    pub(crate) covered: u64,
    pub(crate) lost: bool,
}

/// The fate of a write that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    /// The write lands nowhere.
    Lost,
    /// The write lands at a wrong address of the disk.
    Misdirected,
}

/// All devices. Members come first; the replacement disk and the journal disk have the numbers
/// after them.
#[derive(Debug)]
pub(crate) struct Devices {
    gone: Vec<bool>,
    lost_at: Vec<Option<Instant>>,
    /// Disks with old contents that wait to rejoin their array.
    returning: BTreeSet<usize>,
    flights: Vec<Option<DiskIo>>,
    /// A disk whose next data write does not land where it should.
    doomed_write: Option<(usize, Doom)>,
    pub(crate) replacement: Option<ReplacementDisk>,
    pub(crate) journal: Option<JournalDisk>,
}

impl Devices {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            gone: vec![false; members],
            lost_at: vec![None; members],
            returning: BTreeSet::new(),
            flights: Vec::new(),
            doomed_write: None,
            replacement: None,
            journal: None,
        }
    }

    /// Adds a member that answers.
    pub(crate) fn add_member(&mut self) {
        self.gone.push(false);
        self.lost_at.push(None);
    }

    /// Returns true if the disk is a member.
    pub(crate) fn is_member(&self, disk: usize) -> bool {
        disk < self.gone.len()
    }

    /// Returns the number of the replacement disk.
    pub(crate) fn replacement_number(&self) -> usize {
        self.gone.len()
    }

    /// Returns the number of the disk with the journal.
    pub(crate) fn journal_number(&self) -> usize {
        self.replacement_number() + 1
    }

    /// Returns the numbers of the devices that exist.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        let replacement = self.replacement.as_ref().map(|_| self.replacement_number());
        let journal = self.journal.as_ref().map(|_| self.journal_number());
        let members = 0..self.gone.len();
        members.chain(replacement).chain(journal).collect()
    }

    /// Returns a disk by number.
    pub(crate) fn disk<'a>(&'a self, stack: &'a Stack, disk: usize) -> &'a Disk {
        match stack.disks.get(disk) {
            Some(disk) => disk,
            None if disk == self.journal_number() => {
                &self.journal.as_ref().expect("it is there").disk
            }
            None => &self.replacement.as_ref().expect("it is there").disk,
        }
    }

    /// Returns a disk by number, mutably.
    pub(crate) fn disk_mut<'a>(&'a mut self, stack: &'a mut Stack, disk: usize) -> &'a mut Disk {
        if disk == self.journal_number() {
            return &mut self.journal.as_mut().expect("it is there").disk;
        }
        match stack.disks.get_mut(disk) {
            Some(disk) => disk,
            None => &mut self.replacement.as_mut().expect("it is there").disk,
        }
    }

    /// Returns true if the disk does not answer.
    pub(crate) fn is_gone(&self, disk: usize) -> bool {
        match self.gone.get(disk) {
            Some(gone) => *gone,
            None if disk == self.journal_number() => self.journal_is_gone(),
            None => self.replacement.as_ref().is_none_or(|disk| disk.gone),
        }
    }

    /// Returns true if an array has a journal disk and it does not answer.
    pub(crate) fn journal_is_gone(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.gone)
    }

    /// Returns true if the journal disk has lost its log to damage.
    pub(crate) fn journal_is_damaged(&self) -> bool {
        self.journal.as_ref().is_some_and(JournalDisk::is_damaged)
    }

    /// Returns true if that member has a replacement disk.
    pub(crate) fn has_replacement(&self, array: usize, member: MemberIndex) -> bool {
        let replacement = self.replacement.as_ref();
        replacement.is_some_and(|disk| (disk.array, disk.member) == (array, member))
    }

    /// Makes a device stop answering. Each write in flight lands or does not.
    pub(crate) fn drop_out(&mut self, stack: &mut Stack, disk: usize, random: &mut Random) {
        let journal = self.journal_number();
        let (gone, contents) = if let Some(gone) = self.gone.get_mut(disk) {
            (gone, &mut stack.disks[disk])
        } else if disk == journal {
            let journal = self.journal.as_mut().expect("it is there");
            (&mut journal.gone, &mut journal.disk)
        } else {
            let replacement = self.replacement.as_mut().expect("it is there");
            (&mut replacement.gone, &mut replacement.disk)
        };
        *gone = true;
        let flights = self.flights.iter_mut().flatten();
        for io in flights.filter(|io| io.disk == disk) {
            io.lost = true;
            if let Some(data) = &io.data {
                let landing = Landing::random(random);
                contents.land(random, data, landing);
            }
        }
    }

    /// Exchanges the disk of a member and its replacement.
    pub(crate) fn exchange(&mut self, stack: &mut Stack, disk: usize) {
        if let Some(replacement) = &mut self.replacement {
            self.gone[disk] = replacement.exchange(stack, disk, self.gone[disk]);
        }
    }

    /// Makes a member answer again.
    pub(crate) fn answers_again(&mut self, disk: usize) {
        self.gone[disk] = false;
    }

    /// Returns when each member was lost; `None` for those that are present.
    pub(crate) fn lost_at(&self) -> &[Option<Instant>] {
        &self.lost_at
    }

    /// Records that a member is lost.
    pub(crate) fn lose(&mut self, disk: usize, now: Instant) {
        self.lost_at[disk].get_or_insert(now);
    }

    /// Records that a lost member turned out to be up to date.
    pub(crate) fn find_again(&mut self, disk: usize) {
        self.lost_at[disk] = None;
    }

    /// Records that a disk with old contents waits to rejoin, or no longer.
    pub(crate) fn set_returning(&mut self, disk: usize, returns: bool) {
        if returns {
            self.returning.insert(disk);
        } else {
            self.returning.remove(&disk);
        }
    }

    /// Returns true if a disk with old contents waits to rejoin its array.
    pub(crate) fn is_returning(&self, disk: usize) -> bool {
        self.returning.contains(&disk)
    }

    /// Puts an operation in flight. Returns its place.
    pub(crate) fn begin(&mut self, io: DiskIo) -> usize {
        let place = self.flights.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[place] = Some(io);
        place
    }

    /// Takes an operation out of flight.
    pub(crate) fn end(&mut self, place: usize) -> DiskIo {
        self.flights[place].take().expect("it was in flight")
    }

    /// Puts an operation back that is answered later.
    pub(crate) fn put_back(&mut self, place: usize, io: DiskIo) {
        self.flights[place] = Some(io);
    }

    /// Returns the operations in flight on a disk.
    pub(crate) fn in_flight(&self, disk: usize) -> impl Iterator<Item = &DiskIo> {
        let flights = self.flights.iter().flatten();
        flights.filter(move |io| io.disk == disk)
    }

    /// Loses the operations in flight on a disk: another disk takes its number.
    pub(crate) fn lose_flights(&mut self, disk: usize) {
        let flights = self.flights.iter_mut().flatten();
        for io in flights.filter(|io| io.disk == disk) {
            io.lost = true;
        }
    }

    /// Returns the writes in flight on a disk that a crash may cut off.
    pub(crate) fn writes(&self, disk: usize) -> Vec<WriteData> {
        let flights = self.in_flight(disk).filter(|io| !io.lost);
        flights.filter_map(|io| io.data.clone()).collect()
    }

    /// Dooms the next data write to a disk, or none. Returns false if a write was doomed already.
    pub(crate) fn doom_write(&mut self, doomed: Option<(usize, Doom)>) -> bool {
        std::mem::replace(&mut self.doomed_write, doomed).is_none()
    }

    /// Returns true if the next data write to a disk is doomed in that way.
    pub(crate) fn is_doomed(&self, disk: usize, doom: Doom) -> bool {
        self.doomed_write == Some((disk, doom))
    }

    /// Drops all operations in flight.
    pub(crate) fn stop(&mut self) {
        self.flights.clear();
        self.doomed_write = None;
        self.returning.clear();
    }
}

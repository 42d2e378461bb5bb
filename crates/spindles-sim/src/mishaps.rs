//! Incidents: disks that drop out, unreadable sectors, and the end of the process.

use crate::disk::View;
use crate::disk::{Disk, Landing, PowerLoss, WriteData};
use crate::stack::Below;
use crate::stack::places::{Places, SMALL_BYTES};
use crate::stack::superblocks::newest_superblock;
use crate::world::{Moment, World};
use spindles_block::{MemberError, MemberIndex, MemberSet};
use spindles_engine::{Command, Engine, Member, OutReason};
use spindles_format::{
    ArrayRecord, DeviceRecord, Found, SLOT_BYTES, SUPERBLOCK_BYTES, SpareRecord, areas_to_join,
};

/// Fills the data area of a new disk, durably. The rest stays zeros.
pub(crate) fn fill(disk: &mut Disk, device: &DeviceRecord, contents: &[u8]) {
    let at = device.data_start().0 * u64::from(device.block_size.bytes());
    let sector_bytes = u64::try_from(disk.sector_bytes()).expect("small");
    let whole = contents.len() / disk.sector_bytes() * disk.sector_bytes();
    disk.write(at / sector_bytes, &contents[..whole], true);
}

impl World {
    /// Draws a disk.
    pub fn random_disk(&mut self) -> usize {
        self.faults.index(self.stack.disks.len())
    }

    /// Makes the disk stop answering; each write in flight lands or does not.
    pub fn drop_disk(&mut self, disk: usize) {
        self.note(&format!("disk {disk} drops out"));
        self.lose(disk);
        (self.devices).drop_out(&mut self.stack, disk, &mut self.faults);
    }

    /// Makes the journal disk stop answering. Returns false if there is none, or it did not answer
    /// before.
    pub fn drop_journal(&mut self) -> bool {
        let journal = self.devices.journal.as_ref();
        let is_there = journal.is_some_and(|journal| !journal.gone);
        if !is_there || self.stack.is_short_of_space {
            return false;
        }
        let number = self.devices.journal_number();
        (self.devices).drop_out(&mut self.stack, number, &mut self.faults);
        self.note("the disk with the journal drops out");
        let top = self.stack.top();
        if self.arrays.is_open(top) && !self.arrays.engine(top).is_settled() {
            // In the middle of a replay, durable checksums are the only record of recent writes. If
            // a member is missing too, now or later, parity can't be trusted.
            (self.truth).lose_log(&mut self.stack, &self.client, &mut self.log);
            if self.stack.arrays[top].geometry.parity_chunks() > 0 {
                self.truth.exceed_budget();
            }
        }
        true
    }

    /// Makes the journal disk answer again, with its old contents.
    pub(crate) fn bring_back_journal(&mut self) {
        self.note("the disk with the journal is back");
        self.devices.journal.as_mut().expect("it was there").gone = false;
    }

    /// Records that the engine put a working member out because of its errors.
    pub(crate) fn put_out_for_errors(&mut self, array: usize, member: MemberIndex) {
        let below = self.stack.arrays[array].members[usize::from(member.0)];
        self.log.count("put out for errors", 1);
        // Other unreadable blocks may now exceed the budget. So may a disk that dropped out without
        // the engine noticing.
        let is_other = |disk: usize| self.stack.keeper_of(disk) != (array, member);
        let unreadable = |disk: usize| {
            let now = self.stack.disks[disk].not_durably_readable().next();
            let met = self
                .stack
                .spoiled
                .range((disk, 0)..=(disk, u64::MAX))
                .next();
            let rotten = self.stack.rotten_sectors(disk).next();
            let (of, position) = self.stack.position(disk);
            let unnoticed = self.devices.is_gone(disk)
                && self.arrays.is_open(of)
                && !matches!(self.state_of(of, position), Member::Missing { .. });
            now.is_some() || met.is_some() || rotten.is_some() || unnoticed
        };
        let elsewhere = (0..self.stack.disks.len()).any(|disk| is_other(disk) && unreadable(disk));
        if elsewhere {
            self.truth.exceed_budget();
        }
        match below {
            Below::Disk(disk) => self.lose(disk),
            Below::Array(below) if self.stack.arrays[below].is_map() => {
                self.stack.lose_array(array, member, true);
                self.truth.note_gone_rows(&self.stack);
            }
            Below::Array(_) => {
                // The array no longer answers for the contents of its disks.
                self.stack.lose_array(array, member, true);
                self.truth.exceed_budget();
            }
        }
    }

    pub(crate) fn lose(&mut self, disk: usize) {
        let (array, _) = self.stack.position(disk);
        let midway = |engine: &Engine| engine.growth().is_some_and(|(mark, _)| mark.0 > 0);
        if self.arrays.is_open(array) && midway(self.arrays.engine(array)) {
            self.log.count("lost midway through a growth", 1);
        }
        self.stack.lose_disk(disk);
        self.truth.note_gone_rows(&self.stack);
        self.devices.lose(disk, self.clock.now());
    }

    /// Records that lost members turned out to be up to date.
    pub(crate) fn found_again(&mut self, array: usize, members: MemberSet) {
        let this = &mut self.stack.arrays[array];
        this.lost = this.lost.difference(members);
        this.blank = this.blank.difference(members);
        for member in members.iter() {
            if let Below::Disk(disk) = this.members[usize::from(member.0)] {
                self.devices.find_again(disk);
            }
        }
        self.truth.note_rows(&self.stack, &self.client);
    }

    /// Makes the disk answer again, with stale contents.
    pub(crate) fn bring_back(&mut self, disk: usize) {
        self.note(&format!("disk {disk} is back"));
        self.devices.answers_again(disk);
    }

    /// Replaces a lost disk with a blank one, which its array begins to fill. Returns false if that
    /// is impossible now.
    pub fn replace_lost_disk(&mut self, disk: usize) -> bool {
        let command = self.put_blank_disk(disk);
        if let Some((array, command)) = command {
            self.command(array, command);
            return true;
        }
        false
    }

    /// Puts a blank disk in the place of a lost one. Returns the command for its array.
    pub(crate) fn put_blank_disk(&mut self, disk: usize) -> Option<(usize, Command)> {
        let (array, member) = self.stack.position(disk);
        let this = &self.stack.arrays[array];
        let missing = this.lost.contains(member)
            && member.0 < this.geometry.members()
            && this.geometry.survives(this.lost)
            && self.arrays.is_open(array)
            && !self.devices.is_returning(disk)
            && !self.devices.has_replacement(array, member)
            && self.is_out_for_good(array, member)
            && matches!(self.state_of(array, member), Member::Missing { .. });
        if !missing {
            return None;
        }
        let (device, contents) = self.blank_device(array, member);
        self.note(&format!("disk {disk} is replaced with a blank one"));
        // I/O for the old disk never reaches the new one.
        self.devices.lose_flights(disk);
        let this = &mut self.stack.arrays[array];
        this.blank = this.blank.with(member);
        this.put_places(member, Places::of(&device));
        self.devices.answers_again(disk);
        self.tell(&mut Moment::Exchanged { disk });
        self.stack.spoiled.retain(|&(of, _)| of != disk);
        self.stack.decayed.retain(|&(of, _), _| of != disk);
        self.stack.disks[disk].exchange(device.device_bytes);
        fill(&mut self.stack.disks[disk], &device, &contents);
        let uuid = self.faults.uuid();
        let command = Command::Rebuild {
            member,
            device,
            uuid,
        };
        Some((array, command))
    }

    /// Puts a spare in the place of a lost disk. Returns the command for its array.
    pub(crate) fn put_spare(&mut self, disk: usize) -> Option<(usize, Command)> {
        let (array, command) = self.put_blank_disk(disk)?;
        let record = self
            .arrays
            .engine(array)
            .record()
            .expect("it has superblocks");
        let spare = SpareRecord {
            device_uuid: record.uuid,
            device_bytes: 0,
            arrays: vec![record.uuid],
        };
        let sector = SLOT_BYTES[0] / self.sector_bytes(disk);
        self.stack.disks[disk].write(sector, &spare.encode(), true);
        Some((array, command))
    }

    /// Returns true if the disk is a spare that this array was about to take.
    pub(crate) fn is_claimed(&self, array: usize, disk: usize) -> bool {
        let mut slots = [[0; SUPERBLOCK_BYTES]; 2];
        let read = |(at, slot): (u64, &mut [u8; SUPERBLOCK_BYTES])| {
            let sector = at / self.sector_bytes(disk);
            self.stack.disks[disk].read(sector, slot).is_ok()
        };
        let all = SLOT_BYTES.into_iter().zip(&mut slots).all(read);
        let found = Found::new(String::new(), 0, slots.each_ref().map(|slot| Ok(&slot[..])));
        let record = self.arrays.engine(array).record();
        all && !self.devices.is_gone(disk)
            && record.is_some_and(|record| {
                let spare = found.spare();
                spare.is_some_and(|spare| spare.serves(record.uuid))
            })
    }

    pub(crate) fn sector_bytes(&self, disk: usize) -> u64 {
        u64::try_from(self.stack.disks[disk].sector_bytes()).expect("small")
    }

    /// Makes a disk for a member's position: the layout of its areas, and the contents of its data
    /// area.
    pub(crate) fn blank_device(
        &mut self,
        array: usize,
        member: MemberIndex,
    ) -> (Box<DeviceRecord>, Vec<u8>) {
        let other = self.size_of_new_disk(array, member);
        let same = self.stack.member_bytes(array, usize::from(member.0));
        let record = self
            .arrays
            .engine(array)
            .record()
            .expect("it has superblocks");
        let device = areas_to_join(record, other, member);
        // With much headroom, a disk that the array was created on has its data elsewhere.
        let device = device
            .or_else(|_| areas_to_join(record, same, member))
            .or_else(|small| areas_to_join(record, small.needed_bytes, member))
            .expect("it is large enough");
        let block_bytes = u64::try_from(self.stack.block_bytes).expect("small");
        let start = device.data_start().0 * block_bytes;
        let length = if device.device_bytes <= SMALL_BYTES {
            device.device_bytes - start
        } else {
            let geometry = &self.stack.arrays[array].geometry;
            geometry
                .member_blocks_used(member)
                .min(device.data_blocks())
                * block_bytes
        };
        let mut contents = vec![0; usize::try_from(length).expect("small")];
        for word in contents.chunks_exact_mut(8) {
            word.copy_from_slice(&self.faults.any().to_le_bytes());
        }
        (Box::new(device), contents)
    }

    /// Returns the state of a member according to the engine.
    pub(crate) fn state_of(&self, array: usize, member: MemberIndex) -> Member {
        self.arrays.engine(array).status().members[usize::from(member.0)].state
    }

    /// Returns true if its array is filling the disk.
    pub fn is_being_filled(&self, disk: usize) -> bool {
        let (array, member) = self.stack.position(disk);
        !self.devices.is_gone(disk)
            && self.arrays.is_open(array)
            && matches!(self.state_of(array, member), Member::Rebuilding { .. })
    }

    /// Returns true if requests may fail: see `Scene`.
    pub(crate) fn excuses_errors(&self) -> bool {
        self.truth.excuse_of_all(&self.stack).is_some()
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

    /// Returns true if the array survives the loss of one more member. A member that is filled is
    /// no loss, even if no superblock records it yet.
    fn survives(&self, array: usize, member: MemberIndex) -> bool {
        let this = &self.stack.arrays[array];
        let members = self.arrays.engine(array).status().members;
        let is_active = |at: &MemberIndex| {
            let status = members.get(usize::from(at.0));
            status.is_some_and(|status| matches!(status.state, Member::Active))
        };
        let active = this.lost.iter().filter(is_active);
        let active = active.fold(MemberSet::EMPTY, MemberSet::with);
        (this.geometry).survives(this.lost.difference(active).with(member))
    }

    /// Asserts that the array survives the loss of a member put out for lack of space.
    pub(crate) fn assert_space_spares(&self, array: usize, member: MemberIndex, reason: OutReason) {
        assert!(
            reason != OutReason::Error(MemberError::NoSpace) || self.survives(array, member),
            "member {member} of array {array} was put out for space beyond the tolerance"
        );
    }

    /// Records that an engine put a member out for lack of space. If the array does not survive the
    /// loss, no superblock records it, and the member is back at the next opening.
    pub(crate) fn put_out_for_space(&mut self, array: usize, member: MemberIndex) {
        if !self.survives(array, member) {
            return;
        }
        self.log.count("put out for space", 1);
        let this = &self.stack.arrays[array];
        match this.members[usize::from(member.0)] {
            Below::Disk(disk) => self.lose(disk),
            Below::Array(_) => {
                self.stack.lose_array(array, member, true);
                self.truth.note_gone_rows(&self.stack);
            }
        }
    }

    /// Ends the process, and with it all I/O in flight.
    pub(crate) fn crash(&mut self, power: bool) {
        self.cure_what_may_tear(power);
        for disk in self.devices.numbers() {
            let mut writes = self.devices.writes(disk);
            for write in &mut writes {
                let bytes = self
                    .taken(disk, write, true)
                    .expect("a crash refuses nothing");
                write.bytes.truncate(bytes);
            }
            let writes: Vec<&WriteData> = writes.iter().collect();
            if power {
                let how = PowerLoss::random(&mut self.faults);
                self.note(&format!("disk {disk}: {how:?}"));
                let contents = self.devices.disk_mut(&mut self.stack, disk);
                contents.lose_power(&mut self.faults, how, &writes);
            } else if !self.devices.is_gone(disk) {
                let contents = self.devices.disk_mut(&mut self.stack, disk);
                for write in writes {
                    let landing = Landing::random(&mut self.faults);
                    contents.land(&mut self.faults, write, landing);
                }
            }
        }
        self.stop();
        (self.truth).crashed(&mut self.stack, &self.client, &mut self.log, power);
        if power {
            self.client.history.power_lost();
        } else {
            self.client.history.process_crashed();
        }
    }

    /// Stops all activity.
    pub(crate) fn stop(&mut self) {
        self.clock.stop();
        self.arrays.stop();
        self.devices.stop();
        self.tell(&mut Moment::Stopped);
        self.client.stalled_at = None;
        for array in &mut self.stack.arrays {
            array.filling = MemberSet::EMPTY;
        }
        self.stack.spoiled.clear();
        self.client.forget_flights();
    }
}

impl World {
    /// Draws the size of a new disk for this position: unchanged, or a different size that is large
    /// enough.
    pub(crate) fn size_of_new_disk(&mut self, array: usize, member: MemberIndex) -> u64 {
        let bytes = self.stack.member_bytes(array, usize::from(member.0));
        let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] else {
            return bytes;
        };
        // A blank disk may wait for this position already, and the array knows its size.
        let waits = self.stack.arrays[array].blank.contains(member);
        if self.options.disks.is_empty() || waits || self.sizing.percent(30) {
            return bytes;
        }
        let first = self
            .options
            .disks
            .get(disk)
            .map_or(bytes, |disk| disk.created_bytes);
        match self.sizing.below(3) {
            0 => first,
            1 => crate::sizes::larger(&mut self.sizing, first),
            _ => crate::sizes::larger(&mut self.sizing, bytes.min(1 << 30)),
        }
    }
}

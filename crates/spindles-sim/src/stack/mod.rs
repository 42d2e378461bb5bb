//! The stack of arrays over disks and over other arrays. The checkers use it to map a block of the
//! array to bytes on disks without the engine. It also shows how much redundancy is left.

mod bitmaps;
mod checksums;
mod maps;
pub(crate) mod places;
pub mod regions;
pub mod rot;
pub(crate) mod staged;
pub(crate) mod superblocks;

use crate::disk::{Disk, View};
use regions::Regions;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{ChecksumKind, Entries, RowSum, Uuid, block_checksum, stored_checksum};
use spindles_layout::{Geometry, Group, GroupIndex, Role, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// A member of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// A disk of the stack.
    Disk(usize),
    /// Another array of the stack.
    Array(usize),
}

/// One array.
#[derive(Clone, Debug)]
pub struct Array {
    /// The length of its stage on each member; 0 without one.
    pub stage_bytes: u64,
    /// Its map.
    pub geometry: Geometry,
    /// Where each member's data begins on the member.
    pub data_start: Vec<BlockIndex>,
    /// Its members.
    pub members: Vec<Below>,
    /// Members that are gone, or whose contents are out of date.
    pub lost: MemberSet,
    /// Lost members that never held the contents of their position: blank disks that are not full
    /// yet.
    pub blank: MemberSet,
    /// Set while parity may not match the data. No more members may be lost then.
    pub unsettled: bool,
    /// The member with damaged metadata. It counts against the budget like a lost member until the
    /// array is closed and no block lacks its checksum.
    pub damaged: Option<MemberIndex>,
    /// The outer array, and the position of this array there. `None` for the outermost array.
    pub above: Option<(usize, MemberIndex)>,
    /// Lost members whose disks are being rebuilt: they take part again.
    pub filling: MemberSet,
    /// Set if a region is marked dirty before each write to it. Otherwise regions are marked only
    /// while members are missing.
    pub marks: bool,
    /// Set if partial writes to rows with parity are logged. They are durable in the log before
    /// they are durable in their places.
    pub logs: bool,
    /// Groups that a growth has not moved to their places yet.
    pub staged: std::ops::Range<u64>,
    /// Region bitmaps; `None` if the array keeps no bitmaps.
    pub regions: Option<Regions>,
    /// The kind of checksums it is created with.
    pub checksum: ChecksumKind,
    /// Block checksums; `None` if the array keeps no checksums.
    pub checksums: Option<Checksums>,
}

/// The location of an array's checksums.
#[derive(Clone, Debug)]
pub struct Checksums {
    /// UUID of the array.
    pub array: Uuid,
    /// The kind of entries it keeps for each block.
    pub entries: Entries,
    /// The first block of the checksum area on each member.
    pub starts: Vec<BlockIndex>,
}

/// The right and the wrong contents of a corrupted block, valid until the block is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decay {
    /// The bytes it should hold.
    pub right: Vec<u8>,
    /// The bytes it holds.
    pub wrong: Vec<u8>,
    /// Set once a crash came since. The remains of a lost write may then be the right contents.
    pub outlived_crash: bool,
    /// Set if the block was corrupted by a lost write.
    pub is_lost_write: bool,
}

impl Decay {
    /// Records that a block holds `wrong` from now on.
    pub fn new(right: Vec<u8>, wrong: Vec<u8>) -> Self {
        Self {
            right,
            wrong,
            outlived_crash: false,
            is_lost_write: false,
        }
    }
}

/// Disks and the arrays on them. The outermost array is the last.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The arrays, inner ones before outer ones.
    pub arrays: Vec<Array>,
    /// The disks.
    pub disks: Vec<Disk>,
    /// Disk sectors that were unreadable at some time in this session. They count as unreadable
    /// until the session ends, because the engine may have read them before an overwrite.
    pub spoiled: BTreeSet<(usize, u64)>,
    /// Disk blocks corrupted while clients were running, including blocks rewritten since.
    pub decayed: BTreeMap<(usize, u64), Decay>,
    /// Blocks of arrays that an engine reported as lost, and that were not written since.
    pub lost_blocks: BTreeSet<(usize, u64)>,
    /// Arrays whose engine ever reported lost blocks. Those blocks may have held checksums of the
    /// array above. They can be rewritten, but the checksums stay lost until a read or a scrub
    /// finds that.
    pub lost_once: BTreeSet<usize>,
    /// Blocks that an array knows it could not fill on a member that is an array. Counted from the
    /// start of the member.
    pub unfilled: BTreeSet<(usize, MemberIndex, BlockIndex)>,
    /// Set while disks have no space for unwritten blocks, or had none since the last opening. The
    /// array may then put out any disk.
    pub is_short_of_space: bool,
    /// Bytes of a block, the same in all arrays.
    pub block_bytes: usize,
}

impl Stack {
    /// Returns the index of the outermost array.
    pub fn top(&self) -> usize {
        self.arrays.len() - 1
    }

    /// Returns the outermost array's map.
    pub fn geometry(&self) -> &Geometry {
        &self.arrays[self.top()].geometry
    }

    fn sectors_per_block(&self, disk: usize) -> u64 {
        u64::try_from(self.block_bytes / self.disks[disk].sector_bytes()).expect("fits")
    }

    /// Returns the sectors of a disk that hold one of its blocks.
    pub fn sectors(&self, disk: usize, block: BlockIndex) -> std::ops::Range<u64> {
        let per_block = self.sectors_per_block(disk);
        block.0 * per_block..(block.0 + 1) * per_block
    }

    /// Returns true if a crash may have destroyed blocks of an array. This is so if a member is
    /// missing, rebuilding, partly unreadable or was corrupt.
    pub(crate) fn may_lose_blocks(&self, array: usize) -> bool {
        let Array { lost, members, .. } = &self.arrays[array];
        let is_more =
            |below: &Below| matches!(*below, Below::Array(it) if !self.arrays[it].is_map());
        let mut of_disks = (0..self.disks.len()).filter(|&disk| self.keeper_of(disk).0 == array);
        !lost.is_empty()
            || members.iter().any(is_more)
            || of_disks.any(|disk| {
                let mut decayed = self.decayed.range((disk, 0)..=(disk, u64::MAX));
                self.disks[disk].unreadable().next().is_some() || decayed.next().is_some()
            })
    }

    /// Returns true if a crash may have destroyed blocks that an array uses as a block of a member.
    pub(crate) fn may_lose_member_blocks(&self, array: usize) -> bool {
        self.arrays[array].members.iter().any(|below| match *below {
            Below::Disk(_) => false,
            Below::Array(below) if self.arrays[below].is_map() => {
                self.may_lose_member_blocks(below)
            }
            Below::Array(below) => self.may_lose_blocks(below),
        })
    }

    /// Returns a block of a disk.
    pub fn disk_block(&self, disk: usize, block: BlockIndex, view: View) -> Vec<u8> {
        self.disks[disk].bytes_of(self.sectors(disk, block), view)
    }

    /// Returns a block of a member, counted in its data area. `None` if redundancy does not suffice
    /// to reconstruct it.
    pub fn member_block(&self, spot: Spot, view: View) -> Option<Vec<u8>> {
        let start = self.arrays[spot.array].data_start[usize::from(spot.member.0)];
        self.raw_block(spot.array, spot.member, start.plus(spot.offset.0), view)
    }

    /// Same as `member_block`, but counted from the start of the member.
    pub(crate) fn raw_block(
        &self,
        array: usize,
        member: MemberIndex,
        block: BlockIndex,
        view: View,
    ) -> Option<Vec<u8>> {
        match self.arrays[array].members[usize::from(member.0)] {
            Below::Disk(disk) if self.is_rotten(disk, block) => None,
            Below::Disk(disk) => Some(self.disk_block(disk, block, view)),
            Below::Array(below) => self.array_block(below, block, view),
        }
    }

    /// Returns a block of an array, reconstructed from redundancy if a member is lost. `None` if
    /// redundancy does not suffice.
    pub fn array_block(&self, array: usize, block: BlockIndex, view: View) -> Option<Vec<u8>> {
        if self.lost_blocks.contains(&(array, block.0)) {
            return None; // Reads of it fail, whatever the disks hold.
        }
        let Array { geometry, lost, .. } = &self.arrays[array];
        let location = geometry.locate(block);
        let group = group_of(geometry, location.group);
        let row = u64::from(location.block_in_chunk);
        if !self.is_written(array, location.group, view)
            || self.is_blank_row(array, &group, row, view)
        {
            return Some(vec![0; self.block_bytes]);
        }
        let wanted = group
            .slots()
            .iter()
            .find(|slot| slot.role == Role::Data(location.data_index))
            .expect("a data chunk is in its group");
        let mut held = Vec::new();
        for slot in group
            .slots()
            .iter()
            .filter(|slot| !lost.contains(slot.member))
        {
            let spot = Spot::of(array, slot, row);
            if !self.is_unfilled(spot)
                && let Some(bytes) = self.member_block(spot, view)
            {
                if slot == wanted || group.parity_chunks == 0 {
                    return Some(bytes);
                }
                held.push((slot.code_index, bytes));
            }
        }
        let suffices = held.len() >= usize::from(group.data_chunks) && group.parity_chunks > 0;
        suffices.then(|| solve(&group, &held, wanted.code_index))
    }

    /// Returns the bytes of a block of an array at every present place: each copy, or the one data
    /// chunk. Empty if the block needs reconstruction.
    pub fn places(&self, array: usize, block: BlockIndex, view: View) -> Vec<(String, Vec<u8>)> {
        let Array {
            geometry,
            lost,
            members,
            data_start,
            ..
        } = &self.arrays[array];
        if self.lost_blocks.contains(&(array, block.0)) {
            return Vec::new(); // Reported as lost: the disks hold nothing valid.
        }
        // What a power loss leaves of an array with a log is known only once it is opened again.
        // This also holds for the bitmaps that an array above keeps in it.
        let logs_below = members.iter().any(|member| match *member {
            Below::Array(below) => {
                self.arrays[below].logs && self.arrays[below].geometry.parity_chunks() > 0
            }
            Below::Disk(_) => false,
        });
        if view == View::Durable && logs_below {
            return Vec::new();
        }
        let location = geometry.locate(block);
        if self.arrays[array].staged.contains(&location.group.0) {
            return Vec::new(); // Not moved to its place yet.
        }
        if view == View::Durable && self.is_staged(array) {
            return Vec::new(); // As with a log.
        }
        if !self.is_written(array, location.group, view) {
            let zeros = vec![0; self.block_bytes];
            return vec![(format!("unwritten group {}", location.group.0), zeros)];
        }
        let group = group_of(geometry, location.group);
        let mut places = Vec::new();
        if view == View::Durable && group.parity_chunks > 0 && self.arrays[array].logs {
            return places; // What a power loss leaves is known only once it is opened again.
        }
        for slot in group.slots() {
            let holds = match slot.role {
                Role::Data(index) => index == location.data_index,
                Role::Copy(_) => true,
                Role::Parity(_) => false,
            };
            if !holds || lost.contains(slot.member) {
                continue;
            }
            let at = usize::from(slot.member.0);
            let spot = Spot::of(array, slot, u64::from(location.block_in_chunk));
            if self.lost_its_checksum(spot, view) || self.is_unfilled(spot) {
                continue; // Never trusted again, or not before it is written.
            }
            let block = data_start[at].plus(spot.offset.0);
            match members[at] {
                Below::Disk(disk) if self.is_rotten(disk, block) => {}
                Below::Disk(disk) => {
                    let bytes = self.disk_block(disk, block, view);
                    // If a crash destroyed a corrupt block, it reads as zeros and is in the list of
                    // bad blocks.
                    let rotted = self.decayed.contains_key(&(disk, block.0));
                    if !rotted || bytes.iter().any(|&byte| byte != 0) {
                        places.push((format!("disk {disk}"), bytes));
                    }
                }
                Below::Array(below) => places.extend(self.places(below, block, view)),
            }
        }
        places
    }

    /// Records that a block of an array was written or read: it is no longer lost, nor are the
    /// blocks that hold it.
    pub fn forget_lost(&mut self, array: usize, block: BlockIndex) {
        if self.lost_blocks.is_empty() {
            return;
        }
        self.lost_blocks.remove(&(array, block.0));
        let Array {
            geometry,
            members,
            data_start,
            ..
        } = &self.arrays[array];
        let location = geometry.locate(block);
        let group = group_of(geometry, location.group);
        let mut below = Vec::new();
        for slot in group.slots() {
            let is_other = matches!(slot.role, Role::Data(index) if index != location.data_index);
            let at = usize::from(slot.member.0);
            let offset = slot.offset.plus(u64::from(location.block_in_chunk));
            if is_other {
                continue;
            }
            if let Below::Array(array) = members[at] {
                below.push((array, data_start[at].plus(offset.0)));
            }
        }
        for (array, block) in below {
            self.forget_lost(array, block);
        }
    }

    /// Returns true if the array lost too many members, or the array above continues without it.
    pub fn is_given_up(&self, array: usize) -> bool {
        let Array {
            geometry,
            lost,
            above,
            ..
        } = &self.arrays[array];
        !geometry.survives(*lost)
            || above.is_some_and(|(above, member)| self.arrays[above].lost.contains(member))
    }

    /// Returns the bytes of a member, including metadata.
    pub fn member_bytes(&self, array: usize, position: usize) -> u64 {
        match self.arrays[array].members[position] {
            Below::Disk(disk) => self.disks[disk].bytes(),
            Below::Array(below) => {
                let block_bytes = u64::try_from(self.block_bytes).expect("fits");
                self.arrays[below].geometry.blocks() * block_bytes
            }
        }
    }

    /// Writes a block of a disk durably.
    pub fn put_disk_block(&mut self, disk: usize, block: BlockIndex, bytes: &[u8]) {
        let first = self.sectors(disk, block).start;
        self.disks[disk].write(first, bytes, true);
    }

    /// Writes a block of a member durably. `row_sum` is the row sum stored with parity.
    fn put_member_block(
        &mut self,
        array: usize,
        slot: Slot,
        row: u64,
        bytes: &[u8],
        row_sum: RowSum,
    ) {
        let at = usize::from(slot.member.0);
        let this = &self.arrays[array];
        let block = this.data_start[at].plus(slot.offset.0).plus(row);
        match this.members[at] {
            Below::Disk(disk) => self.put_disk_block(disk, block, bytes),
            Below::Array(below) => self.put_array_block(below, block, bytes),
        }
        self.put_checksum(Spot::of(array, &slot, row), bytes, row_sum);
    }

    /// Durably writes a block of an array and all its redundancy. No engine may have the array
    /// open.
    pub fn put_array_block(&mut self, array: usize, block: BlockIndex, bytes: &[u8]) {
        let geometry = self.arrays[array].geometry.clone();
        let location = geometry.locate(block);
        self.use_region(array, location.group);
        let row = u64::from(location.block_in_chunk);
        let group = group_of(&geometry, location.group);
        let mut data = Vec::new();
        for &slot in group.slots() {
            match slot.role {
                Role::Data(index) if index != location.data_index => {
                    let held = self.member_block(Spot::of(array, &slot, row), View::Current);
                    data.push((slot.code_index, held.expect("nothing is lost yet")));
                }
                Role::Data(_) => {
                    self.put_member_block(array, slot, row, bytes, RowSum::NONE);
                    data.push((slot.code_index, bytes.to_vec()));
                }
                Role::Copy(_) => self.put_member_block(array, slot, row, bytes, RowSum::NONE),
                Role::Parity(_) => {
                    let parity = solve(&group, &data, slot.code_index);
                    // In order of the slots, data first.
                    let sums = data.iter().map(|(_, bytes)| block_checksum(bytes));
                    let row_sum = RowSum::of((0..).zip(sums.map(stored_checksum)));
                    self.put_member_block(array, slot, row, &parity, row_sum);
                }
            }
        }
    }

    /// Checks that all present chunks of a group agree at every block.
    ///
    /// # Errors
    ///
    /// The first place that disagrees.
    pub fn check_group(&self, array: usize, index: GroupIndex, view: View) -> Result<(), String> {
        self.check_group_without(self.arrays[array].lost, array, index, view)
    }

    /// Same as `check_group`, but with the members `lost` missing.
    ///
    /// # Errors
    ///
    /// The first place that disagrees.
    pub fn check_group_without(
        &self,
        lost: MemberSet,
        array: usize,
        index: GroupIndex,
        view: View,
    ) -> Result<(), String> {
        let Array { geometry, .. } = &self.arrays[array];
        if !self.is_written(array, index, view) {
            return Ok(());
        }
        let group = group_of(geometry, index);
        let present = group
            .slots()
            .iter()
            .filter(|slot| !lost.contains(slot.member));
        let present: Vec<_> = present.collect();
        let data_chunks = usize::from(group.data_chunks);
        if present.len() <= data_chunks {
            return Ok(()); // Nothing to compare with.
        }
        'rows: for block in 0..u64::from(group.blocks) {
            if self.is_blank_row(array, &group, block, view) {
                continue;
            }
            if present.iter().any(|slot| {
                let spot = Spot::of(array, slot, block);
                self.lost_its_checksum(spot, view) || self.is_unfilled(spot)
            }) {
                continue; // The next reader repairs it, or it can't be repaired.
            }
            let mut held = Vec::with_capacity(present.len());
            for slot in &present {
                let Some(bytes) = self.member_block(Spot::of(array, slot, block), view) else {
                    continue 'rows;
                };
                held.push((slot.code_index, bytes));
            }
            for (slot, (_, bytes)) in present.iter().zip(&held).skip(data_chunks) {
                if solve(&group, &held, slot.code_index) != *bytes {
                    return Err(format!(
                        "array {array}, group {}: {} on member {} does not match at its block \
                         {block}",
                        index.0, slot.role, slot.member
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns true if a data block of a member could not be filled, and was not written since.
    pub(crate) fn is_unfilled(&self, spot: Spot) -> bool {
        let (array, member, offset) = spot.parts();
        let this = &self.arrays[array];
        let block = this.data_start[usize::from(member.0)].plus(offset.0);
        match this.members[usize::from(member.0)] {
            Below::Disk(disk) => self.disks[disk].is_unfilled(self.sectors(disk, block)),
            Below::Array(_) => self.unfilled.contains(&(array, member, block)),
        }
    }

    /// Returns true if all data stays readable after also losing `member` of the array and the
    /// place `extra`.
    fn survives(&self, array: usize, member: Option<MemberIndex>, extra: Option<Place>) -> bool {
        let this = &self.arrays[array];
        let lost = member.map_or(this.lost, |member| this.lost.with(member));
        let lost = (this.damaged).map_or(lost, |member| lost.with(member));
        let here = extra.filter(|place| place.array == array);
        let can_spare = !this.unsettled || member.is_none();
        if self.is_short_of_space {
            return false;
        }
        if !this.geometry.survives(lost) || !can_spare {
            // Then the array itself is a lost member of the one above.
            return this
                .above
                .is_some_and(|(above, member)| self.survives(above, Some(member), extra));
        }
        let mut places = self.unreadable_places(array);
        places.extend(here);
        places
            .iter()
            .all(|place| self.group_survives(place, lost, &places))
    }

    fn group_survives(&self, place: &Place, lost: MemberSet, places: &[Place]) -> bool {
        let geometry = &self.arrays[place.array].geometry;
        let group = group_of(geometry, place.group);
        let here = places.iter().filter(|other| other.group == place.group);
        let bad = here.fold(lost, |bad, place| bad.with(place.member));
        let kept = group
            .slots()
            .iter()
            .filter(|slot| !bad.contains(slot.member));
        kept.count() >= usize::from(group.data_chunks)
    }

    /// Returns the array and the position of a disk.
    pub fn position(&self, disk: usize) -> (usize, MemberIndex) {
        self.arrays
            .iter()
            .enumerate()
            .find_map(|(index, array)| {
                // Includes members that the array is about to grow to.
                let mut pairs = (0..).map(MemberIndex).zip(&array.members);
                pairs
                    .find(|(_, below)| **below == Below::Disk(disk))
                    .map(|(member, _)| (index, member))
            })
            .expect("every disk is a member")
    }

    fn unreadable_places(&self, array: usize) -> Vec<Place> {
        let disks = (0..self.disks.len()).filter(|&disk| self.keeper_of(disk).0 == array);
        disks
            .flat_map(|disk| {
                let spoiled = self.spoiled.range((disk, 0)..=(disk, u64::MAX));
                let spoiled = spoiled.map(|&(_, sector)| sector);
                let sectors = self.disks[disk].not_durably_readable().chain(spoiled);
                let sectors = sectors.chain(self.rotten_sectors(disk));
                sectors.filter_map(move |sector| self.place_of(disk, sector))
            })
            .collect()
    }

    /// Returns the chunk that a sector of a disk belongs to. `None` for metadata, unused space and
    /// disks that are not members.
    pub fn place_of(&self, disk: usize, sector: u64) -> Option<Place> {
        self.disks.get(disk)?;
        let block = BlockIndex(sector / self.sectors_per_block(disk));
        let (array, member, offset) = self.spot_at(disk, block)?.parts();
        let geometry = &self.arrays[array].geometry;
        if member.0 >= geometry.members() {
            return None;
        }
        let (group, _, _) = geometry.find(member, offset)?;
        Some(Place {
            array,
            member,
            group,
        })
    }

    /// Checks the budget: returns true if all data survives the loss of this disk too.
    pub fn may_lose_disk(&self, disk: usize) -> bool {
        let (array, member) = self.position(disk);
        !self.arrays[array].lost.contains(member) && self.survives(array, Some(member), None)
    }

    /// Checks the budget: returns true if all data survives the loss of this sector.
    pub fn may_lose_sector(&self, disk: usize, sector: u64) -> bool {
        if self.is_superblock(disk, sector) {
            return self.may_lose_superblock(disk);
        }
        self.place_of(disk, sector).is_some_and(|place| {
            let this = &self.arrays[place.array];
            // Nothing is read from a lost member, nor from an array that lost too much.
            !this.lost.contains(place.member)
                && !this.unsettled
                && this.geometry.survives(this.lost)
                && self.survives(place.array, None, Some(place))
        })
    }

    /// Records that a disk is lost: its position holds nothing, and arrays that can't work without
    /// it are lost too.
    pub fn lose_disk(&mut self, disk: usize) {
        let (array, member) = self.position(disk);
        self.lose_member(array, member);
    }

    /// Records that an array continues without a member that is itself an array. That member could
    /// not report its contents: parity may not match the data, and blocks are unreadable. In a run
    /// `beyond` the budget it may also have lost too much.
    pub fn lose_array(&mut self, array: usize, member: MemberIndex, beyond: bool) {
        if let Below::Array(below) = self.arrays[array].members[usize::from(member.0)]
            && (self.arrays[below].unsettled || beyond)
        {
            self.lose_member(array, member);
        }
    }

    fn lose_member(&mut self, mut array: usize, mut member: MemberIndex) {
        loop {
            let this = &mut self.arrays[array];
            this.lost = this.lost.with(member);
            if this.geometry.survives(this.lost) && !this.unsettled {
                return;
            }
            let Some((above, position)) = this.above else {
                return;
            };
            (array, member) = (above, position);
        }
    }
}

/// Returns a group of an array.
pub(crate) fn group_of(geometry: &Geometry, index: GroupIndex) -> Group {
    let mut group = Group::empty();
    geometry.group_into(index, &mut group);
    group
}

/// Computes a chunk of a group from its first chunks in `held`, by index in the code.
pub(crate) fn solve(group: &Group, held: &[(u8, Vec<u8>)], wanted: u8) -> Vec<u8> {
    if group.parity_chunks == 0 {
        return held[0].1.clone();
    }
    let sources = held.iter().take(usize::from(group.data_chunks));
    let sources: Vec<_> = sources.map(|(index, bytes)| (*index, &bytes[..])).collect();
    let mut out = vec![0; sources[0].1.len()];
    let code = spindles_parity::by_parity_chunks(group.parity_chunks);
    spindles_parity::solve(code, group.data_chunks, &sources, &mut [(wanted, &mut out)]);
    out
}

/// A block in the data area of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The array.
    pub array: usize,
    /// The member.
    pub member: MemberIndex,
    /// The block, counted from the start of the data area.
    pub offset: BlockIndex,
}

impl Spot {
    /// Returns the block of a chunk at a row.
    pub(crate) fn of(array: usize, slot: &Slot, row: u64) -> Self {
        Self {
            array,
            member: slot.member,
            offset: slot.offset.plus(row),
        }
    }

    /// Returns the array, the member and the block.
    pub(crate) fn parts(self) -> (usize, MemberIndex, BlockIndex) {
        (self.array, self.member, self.offset)
    }
}

/// A block of a member of an array that is more than a map, or of the outermost array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The array.
    pub array: usize,
    /// The member.
    pub member: MemberIndex,
    /// The block, counted from the start of the member.
    pub block: BlockIndex,
}

/// The row that a block of a disk belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The array that keeps redundancy or checksums for it, or the outermost array.
    pub(crate) array: usize,
    /// The member of that array that the block is on.
    pub(crate) member: MemberIndex,
    /// The group.
    pub(crate) group: Group,
    /// The index of the block in each chunk.
    pub(crate) block_in_chunk: u32,
}

impl Row {
    /// Returns the disk and block of each slot; `None` if an array below is more than a map.
    pub(crate) fn places<'a>(
        &'a self,
        stack: &'a Stack,
    ) -> impl Iterator<Item = Option<(usize, BlockIndex)>> + 'a {
        self.group.slots().iter().map(|slot| {
            let start = stack.arrays[self.array].data_start[usize::from(slot.member.0)];
            let block = start.plus(slot.offset.0 + u64::from(self.block_in_chunk));
            stack.disk_place(self.array, slot.member, block)
        })
    }
}

/// A chunk of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The array.
    pub array: usize,
    /// The member that holds it.
    pub member: MemberIndex,
    /// The group.
    pub group: GroupIndex,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::MODELS;
    use spindles_layout::{LEVELS, Level, Spec};

    const CHUNK_BLOCKS: u32 = 2;
    const BLOCK: usize = 512;

    fn array(level: &'static Level, below: &[Below], above: Option<(usize, MemberIndex)>) -> Array {
        let spec = Spec {
            level,
            layout: None,
            chunk_blocks: CHUNK_BLOCKS,
            member_blocks: vec![16; below.len()],
        };
        Array {
            geometry: Geometry::new(&spec).unwrap(),
            data_start: vec![BlockIndex(3); below.len()],
            members: below.to_vec(),
            lost: MemberSet::EMPTY,
            blank: MemberSet::EMPTY,
            stage_bytes: 0,
            unsettled: false,
            damaged: None,
            above,
            filling: MemberSet::EMPTY,
            marks: false,
            logs: false,
            regions: None,
            checksum: ChecksumKind::None,
            checksums: None,
            staged: 0..0,
        }
    }

    fn stack(level: &'static Level, members: usize) -> Stack {
        let below: Vec<_> = (0..members).map(Below::Disk).collect();
        Stack {
            arrays: vec![array(level, &below, None)],
            disks: vec![Disk::new(MODELS[0], 512, 19); members],
            spoiled: BTreeSet::new(),
            decayed: BTreeMap::new(),
            lost_blocks: BTreeSet::new(),
            lost_once: BTreeSet::new(),
            unfilled: BTreeSet::new(),
            is_short_of_space: false,
            block_bytes: BLOCK,
        }
    }

    /// Fills every data block with its number plus one, and updates redundancy.
    fn fill(stack: &mut Stack) {
        for block in 0..stack.geometry().blocks() {
            let bytes = [u8::try_from(block).unwrap() + 1; BLOCK];
            stack.put_array_block(0, BlockIndex(block), &bytes);
        }
    }

    #[test]
    fn every_block_is_found_after_any_survivable_loss() {
        for level in LEVELS {
            let members = usize::from(level.members_min.max(3));
            let mut stack = stack(level, members);
            fill(&mut stack);
            let blocks = stack.geometry().blocks();
            for lost in 0..1_u64 << members {
                let lost = MemberSet::from_bits(lost);
                stack.arrays[0].lost = lost;
                let survives = stack.geometry().survives(lost);
                let mut all = true;
                for block in (0..blocks).map(BlockIndex) {
                    let bytes = stack.array_block(0, block, View::Current);
                    all &= bytes.is_some();
                    let right = vec![u8::try_from(block.0).unwrap() + 1; BLOCK];
                    assert!(bytes.is_none_or(|bytes| bytes == right), "{level}");
                }
                assert_eq!(all, survives, "{level} without {lost:?}");
                for index in (0..stack.geometry().groups()).map(GroupIndex) {
                    stack.check_group(0, index, View::Durable).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_a_mismatch_in_any_redundant_array() {
        for level in LEVELS {
            let mut stack = stack(level, usize::from(level.members_min.max(3)));
            fill(&mut stack);
            let geometry = stack.geometry().clone();
            let mut bytes = stack.disk_block(1, BlockIndex(8), View::Current);
            bytes[77] ^= 4;
            stack.disks[1].write(8, &bytes, true);
            let (wrong, _, _) = geometry.find(MemberIndex(1), BlockIndex(5)).unwrap();
            for index in (0..geometry.groups()).map(GroupIndex) {
                let expected = index == wrong && geometry.redundancy() > 0;
                let result = stack.check_group(0, index, View::Current);
                assert_eq!(result.is_err(), expected, "{level} {index:?} {result:?}");
            }
        }
    }

    #[test]
    fn the_fault_budget_equals_the_levels_fault_tolerance() {
        for level in LEVELS {
            let members = usize::from(level.members_min.max(3));
            let mut stack = stack(level, members);
            let geometry = stack.geometry().clone();
            let mut lost = MemberSet::EMPTY;
            for disk in 0..members {
                let with = lost.with(MemberIndex(u8::try_from(disk).unwrap()));
                assert_eq!(
                    stack.may_lose_disk(disk),
                    geometry.survives(with),
                    "{level}"
                );
                if stack.may_lose_disk(disk) {
                    stack.lose_disk(disk);
                    lost = with;
                    assert!(!stack.may_lose_disk(disk), "it is lost already");
                }
            }
            assert_eq!(stack.arrays[0].lost, lost);
        }
    }

    #[test]
    fn unreadable_sectors_and_lost_disks_share_one_budget() {
        let raid5 = Level::by_name("raid5").unwrap();
        let mut stack = stack(raid5, 3);
        assert!(!stack.may_lose_sector(0, 2), "metadata");
        assert!(stack.may_lose_sector(0, 3));
        stack.disks[0].make_unreadable(3);
        assert!(!stack.may_lose_sector(1, 3), "the same group");
        assert!(!stack.may_lose_sector(1, 4), "the same group");
        assert!(stack.may_lose_sector(1, 5), "another group");
        assert!(!stack.may_lose_disk(1));
        assert!(stack.may_lose_disk(0), "it holds the unreadable sector");
        stack.disks[0].write(3, &[0; 512], false);
        assert!(
            !stack.may_lose_disk(1),
            "power loss would take the rewrite back, and the sector with it"
        );
        assert!(!stack.may_lose_sector(1, 3), "as well");
        let flush = stack.disks[0].flush_begins();
        stack.disks[0].flush_ends(flush);
        assert!(stack.may_lose_disk(1));
        stack.lose_disk(1);
        assert!(!stack.may_lose_sector(0, 3));
    }

    #[test]
    fn a_nested_array_beyond_its_tolerance_is_a_lost_member() {
        let named = |name| Level::by_name(name).unwrap();
        let disks =
            |first: usize, count| -> Vec<_> { (first..first + count).map(Below::Disk).collect() };
        let inner = |first, member| {
            array(
                named("raid5"),
                &disks(first, 3),
                Some((2, MemberIndex(member))),
            )
        };
        let arrays = |top| {
            let below = [Below::Array(0), Below::Array(1)];
            vec![inner(0, 0), inner(3, 1), array(named(top), &below, None)]
        };
        let mut stack = Stack {
            arrays: arrays("raid0"),
            disks: vec![Disk::new(MODELS[0], 512, 19); 6],
            spoiled: BTreeSet::new(),
            decayed: BTreeMap::new(),
            lost_blocks: BTreeSet::new(),
            lost_once: BTreeSet::new(),
            unfilled: BTreeSet::new(),
            is_short_of_space: false,
            block_bytes: BLOCK,
        };
        assert_eq!(stack.position(4), (1, MemberIndex(1)));
        stack.lose_disk(0);
        assert!(!stack.may_lose_disk(1) && stack.may_lose_disk(3));
        stack.arrays = arrays("raid1");
        stack.lose_disk(0);
        assert!(stack.may_lose_disk(1));
        stack.lose_disk(1);
        assert_eq!(stack.arrays[2].lost.count(), 1);
        assert!(stack.may_lose_disk(3));
        stack.lose_disk(3);
        assert!(!stack.may_lose_disk(4));
    }
}

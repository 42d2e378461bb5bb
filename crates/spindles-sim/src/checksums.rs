//! Access to the checksums of an array without the engine, for the checkers. Also corruption that
//! strikes while clients are running, which only checksums can detect.

use crate::maps::Kept;
use crate::stack::{Array, Below, Stack, View};
use crate::world::World;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_format::{
    CHECKSUM_BLANK, CHECKSUM_LOST, CHECKSUM_NONE, CHECKSUM_PAGE_BYTES, Entries, PageParts, RowSum,
    Uuid, block_checksum, open_checksums, seal_checksums, stored_checksum,
};
use spindles_layout::{Group, GroupIndex, Role, Slot};
use std::collections::{BTreeMap, BTreeSet};

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

impl Stack {
    /// Finds the checksum of a block in a member's data area. Returns the first block of the
    /// checksum page, the page number, and the place in the page.
    fn page_of(
        &self,
        checksums: &Checksums,
        member: usize,
        offset: BlockIndex,
    ) -> (BlockIndex, u64, usize) {
        let (page, place) = checksums.entries.find(offset.0);
        let blocks = u64::try_from(CHECKSUM_PAGE_BYTES / self.block_bytes).expect("small");
        (checksums.starts[member].plus(page * blocks), page, place)
    }

    /// Returns a page of a member. `None` if the member is an array without enough redundancy to
    /// read it.
    fn page_bytes(
        &self,
        array: usize,
        member: MemberIndex,
        first: BlockIndex,
        view: View,
    ) -> Option<Vec<u8>> {
        let mut page = vec![0; CHECKSUM_PAGE_BYTES];
        let mut blocks = (first.0..).zip(page.chunks_exact_mut(self.block_bytes));
        let is_readable = blocks.all(|(block, out)| {
            let block = BlockIndex(block);
            match self.disk_place(array, member, block) {
                Some((disk, block)) => {
                    self.disk_block(disk, block, view, out);
                    true
                }
                None => self.raw_block(array, member, block, view, out),
            }
        });
        is_readable.then_some(page)
    }

    /// Durably stores the checksum of a block of a member and its row sum. No engine may have the
    /// array open.
    pub(crate) fn put_checksum(
        &mut self,
        array: usize,
        member: MemberIndex,
        offset: BlockIndex,
        bytes: &[u8],
        row_sum: RowSum,
    ) {
        let at = usize::from(member.0);
        let Some(checksums) = &self.arrays[array].checksums else {
            return;
        };
        let (uuid, entries) = (checksums.array, checksums.entries);
        let (first, number, place) = self.page_of(checksums, at, offset);
        let page = self.page_bytes(array, member, first, View::Current);
        let mut page = page.expect("nothing is lost yet");
        let lost = open_checksums(entries, uuid, number, &mut page);
        assert_eq!(lost, PageParts::NONE, "it was made blank");
        let sum = stored_checksum(block_checksum(bytes));
        entries.set_in(&mut page, place, sum, row_sum);
        seal_checksums(uuid, number, 1, &mut page, PageParts::ALL);
        for (block, bytes) in (first.0..).zip(page.chunks_exact(self.block_bytes)) {
            self.put_raw(array, member, BlockIndex(block), bytes);
        }
    }

    /// Returns true if a row of a written group was never written and reads as zeros. No present
    /// member has a checksum of it then, and at least one has the blank mark or no checksum.
    pub(crate) fn is_blank_row(&self, array: usize, group: &Group, row: u64, view: View) -> bool {
        let this = &self.arrays[array];
        let Some(checksums) = this.checksums.as_ref().filter(|_| this.regions.is_some()) else {
            return false;
        };
        if group.parity_chunks == 0 || group.data_chunks < 2 || this.staged.contains(&group.index.0)
        {
            return false;
        }
        let kept = |slot: &Slot| {
            let is_there = !this.lost.contains(slot.member);
            let kept = is_there.then(|| {
                let offset = slot.offset.plus(row);
                self.kept_checksum(array, checksums, slot.member, offset, view)
            });
            kept.flatten()
        };
        let kept: Vec<u32> = group.slots().iter().filter_map(kept).collect();
        let is_marked = |kept: &u32| [CHECKSUM_NONE, CHECKSUM_BLANK].contains(kept);
        let is_unknown = |kept: &u32| is_marked(kept) || *kept == CHECKSUM_LOST;
        kept.iter().any(is_marked) && kept.iter().all(is_unknown)
    }

    /// Returns true if this block of the member's data area counts: its group is written and its
    /// row is not blank.
    pub(crate) fn is_held(
        &self,
        array: usize,
        member: MemberIndex,
        offset: BlockIndex,
        view: View,
    ) -> bool {
        let geometry = &self.arrays[array].geometry;
        let Some((index, _, row)) = geometry.find(member, offset) else {
            return false;
        };
        let mut group = Group::empty();
        geometry.group_into(index, &mut group);
        self.is_written(array, index, view) && !self.is_blank_row(array, &group, row.into(), view)
    }

    /// Checks that the checksums on the members match their contents, wherever they count.
    ///
    /// # Errors
    ///
    /// The first place that does not match.
    pub fn check_checksums(&self, array: usize, view: View) -> Result<(), String> {
        let this = &self.arrays[array];
        let Some(checksums) = &this.checksums else {
            return Ok(());
        };
        let mut group = Group::empty();
        for index in (0..this.geometry.groups()).map(GroupIndex) {
            if !self.is_written(array, index, view) {
                continue;
            }
            this.geometry.group_into(index, &mut group);
            self.check_row_sums(array, &group, view)?;
            for slot in group.slots() {
                let member = slot.member;
                if this.lost.contains(member) {
                    continue;
                }
                for row in 0..u64::from(group.blocks) {
                    let offset = slot.offset.plus(row);
                    if self.is_blank_row(array, &group, row, view) {
                        continue;
                    }
                    let kept = self.kept_checksum(array, checksums, member, offset, view);
                    let found = self.checksum_of_contents(array, member, offset, view);
                    let (Some(kept), Some(found)) = (kept, found) else {
                        continue;
                    };
                    // A block may lack its checksum in two cases: no bad-block list records losses
                    // because there is no redundancy, or an array below lost it. The next read
                    // finds that.
                    let may_be_lost =
                        this.geometry.redundancy() == 0 || self.lost_below(array, member);
                    let lost = kept == CHECKSUM_LOST && may_be_lost;
                    let none = lost || kept == CHECKSUM_NONE && this.regions.is_none();
                    // Damaged journals may have lost logged checksums: the next read finds that
                    // too.
                    let damaged = this.damaged.is_some();
                    if kept != found && !none && !damaged {
                        return Err(format!(
                            "array {array}: block {offset} of member {member} has the checksum \
                             {kept:#x} of something else"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the row sums stored with parity match the data, if all of it can be read.
    fn check_row_sums(&self, array: usize, group: &Group, view: View) -> Result<(), String> {
        let this = &self.arrays[array];
        let checksums = this.checksums.as_ref().expect("the caller looked");
        let found = |slot: &Slot, row: u64| {
            let is_there = !this.lost.contains(slot.member);
            let offset = slot.offset.plus(row);
            let found =
                is_there.then(|| self.checksum_of_contents(array, slot.member, offset, view));
            found.flatten()
        };
        if group.parity_chunks == 0 || this.damaged.is_some() || this.regions.is_none() {
            return Ok(());
        }
        let (data, parity) = group.slots().split_at(usize::from(group.data_chunks));
        for row in 0..u64::from(group.blocks) {
            let sums = (0..).zip(data).map(|(at, slot)| {
                let found = found(slot, row)?;
                Some((at, found))
            });
            let Some(sums) = sums.collect::<Option<Vec<(u8, u32)>>>() else {
                continue;
            };
            if self.is_blank_row(array, group, row, view) {
                continue;
            }
            let sum = RowSum::of(sums.into_iter());
            for slot in parity {
                if found(slot, row).is_none() {
                    continue;
                }
                let member = slot.member;
                let offset = slot.offset.plus(row);
                let (first, number, entry) = self.page_of(checksums, usize::from(member.0), offset);
                let Some(mut page) = self.page_bytes(array, member, first, view) else {
                    continue;
                };
                open_checksums(checksums.entries, checksums.array, number, &mut page);
                let kept = checksums.entries.row_sum_in(&page, entry);
                if kept != sum {
                    return Err(format!(
                        "array {array}: row {row} of group {} has the row sum {kept:?} of \
                         something else on member {member}",
                        group.index.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the stored checksum of a block of a member. `None` if it can't be read.
    fn kept_checksum(
        &self,
        array: usize,
        checksums: &Checksums,
        member: MemberIndex,
        offset: BlockIndex,
        view: View,
    ) -> Option<u32> {
        let (first, number, place) = self.page_of(checksums, usize::from(member.0), offset);
        let mut page = self.page_bytes(array, member, first, view)?;
        open_checksums(checksums.entries, checksums.array, number, &mut page);
        Some(checksums.entries.checksum_in(&page, place))
    }

    /// Computes the checksum of a block of a member. `None` if the block can't be read, is corrupt
    /// or could not be filled.
    fn checksum_of_contents(
        &self,
        array: usize,
        member: MemberIndex,
        offset: BlockIndex,
        view: View,
    ) -> Option<u32> {
        let mut bytes = vec![0; self.block_bytes];
        let is_readable = self.member_block(array, member, offset, view, &mut bytes);
        let is_readable = is_readable && !self.is_unfilled(array, member, offset);
        is_readable.then(|| stored_checksum(block_checksum(&bytes)))
    }

    /// Returns true if the stored checksum of a block of a member matches these bytes.
    pub(crate) fn is_summed(
        &self,
        array: usize,
        member: MemberIndex,
        offset: BlockIndex,
        bytes: &[u8],
    ) -> bool {
        let kept = (self.arrays[array].checksums.as_ref()).and_then(|checksums| {
            self.kept_checksum(array, checksums, member, offset, View::Current)
        });
        kept == Some(stored_checksum(block_checksum(bytes)))
    }

    /// Returns true if the stored checksum of a block of a disk matches these bytes.
    fn is_summed_on(&self, disk: usize, block: BlockIndex, bytes: &[u8]) -> bool {
        self.kept_at(disk, block).is_some_and(|kept| {
            let start = self.arrays[kept.array].data_start[usize::from(kept.member.0)];
            let offset = kept.block.0.checked_sub(start.0).map(BlockIndex);
            offset.is_some_and(|offset| self.is_summed(kept.array, kept.member, offset, bytes))
        })
    }

    /// Returns true if a block of a member counts as corrupt because its checksum was in a damaged
    /// journal.
    pub(crate) fn lost_its_checksum(
        &self,
        array: usize,
        member: MemberIndex,
        offset: BlockIndex,
        view: View,
    ) -> bool {
        let this = &self.arrays[array];
        let at = usize::from(member.0);
        let (Some(checksums), Below::Disk(disk)) = (&this.checksums, this.members[at]) else {
            return false;
        };
        let (page, _, _) = self.page_of(checksums, at, offset);
        let blocks = u64::try_from(CHECKSUM_PAGE_BYTES / self.block_bytes).expect("small");
        let sectors = self.sectors(disk, page).start..self.sectors(disk, page.plus(blocks)).start;
        this.damaged.is_some() && self.is_held(array, member, offset, view) && {
            let mut bytes = vec![0; self.block_bytes];
            let block = this.data_start[at].plus(offset.0);
            self.disk_block(disk, block, view, &mut bytes);
            let found = stored_checksum(block_checksum(&bytes));
            let kept = self.kept_checksum(array, checksums, member, offset, view);
            kept != Some(found) || self.disks[disk].is_unreadable(sectors)
        }
    }

    /// Returns true if a block of an array lost its checksum to damage, and was not read since.
    pub(crate) fn lacks_checksums(&self, array: usize) -> bool {
        let geometry = &self.arrays[array].geometry;
        let mut group = Group::empty();
        (0..geometry.groups()).map(GroupIndex).any(|index| {
            geometry.group_into(index, &mut group);
            let lacks = |slot: &Slot| {
                let mut rows = (0..u64::from(group.blocks)).map(|row| slot.offset.plus(row));
                rows.any(|offset| self.lost_its_checksum(array, slot.member, offset, View::Current))
            };
            // Includes members that are out: a member may return with old contents.
            self.is_written(array, index, View::Current) && group.slots().iter().any(lacks)
        })
    }

    /// Returns true if a block of a disk holds its corrupted contents, or would if the cache were
    /// lost.
    pub fn is_rotten(&self, disk: usize, block: BlockIndex) -> bool {
        self.decayed.get(&(disk, block.0)).is_some_and(|decay| {
            let holds = |view| {
                let mut bytes = vec![0; self.block_bytes];
                self.disk_block(disk, block, view, &mut bytes);
                bytes == decay.wrong
            };
            holds(View::Current) || holds(View::Durable)
        })
    }

    /// Removes blocks from the corrupted ones if a write intends exactly their wrong contents. This
    /// happens when parity returns to an earlier value.
    pub(crate) fn is_meant(&mut self, disk: usize, first: BlockIndex, bytes: &[u8]) {
        for (block, bytes) in (first.0..).zip(bytes.chunks_exact(self.block_bytes)) {
            let same = |decay: &Decay| decay.wrong == bytes;
            if self.decayed.get(&(disk, block)).is_some_and(same) {
                self.decayed.remove(&(disk, block));
            }
        }
    }

    /// Returns true if a member is an array that ever lost blocks to a crash.
    fn lost_below(&self, array: usize, member: MemberIndex) -> bool {
        let mut lost = self.lost_once.iter();
        lost.any(|&below| self.arrays[below].above == Some((array, member)))
    }

    /// Returns true if no member may be able to verify some blocks: one lost their checksums in an
    /// array below, and the members that could prove them are missing.
    pub(crate) fn may_lack_proof(&self, array: usize) -> bool {
        let Array { lost, members, .. } = &self.arrays[array];
        let mut members = (0..).map(MemberIndex).take(members.len());
        !lost.is_empty() && members.any(|member| self.lost_below(array, member))
    }

    /// Returns true if all these blocks of a member of any array were corrupt at some time.
    pub fn did_rot(&self, member: MemberIndex, first: BlockIndex, blocks: u32) -> bool {
        let did = |block| {
            let mut places = self.decayed.keys();
            places.any(|&(disk, rotten)| {
                let kept = self.kept_at(disk, BlockIndex(rotten));
                kept.is_some_and(|kept| (kept.member, kept.block.0) == (member, block))
            })
        };
        // Blocks without their checksums count as corrupt: if a journal is damaged, or if an array
        // below lost blocks that may have held them.
        let lost_below = (0..self.arrays.len()).any(|array| self.lost_below(array, member));
        lost_below
            || self.arrays.iter().any(|array| array.damaged.is_some())
            || (first.0..first.0 + u64::from(blocks)).all(did)
    }

    /// Returns true if a write changes nothing that counts: the disk should hold these bytes
    /// already. Blocks that could not be filled count as unchanged, since they are not read before
    /// a durable write.
    pub(crate) fn writes_nothing_new(&self, disk: usize, first: BlockIndex, bytes: &[u8]) -> bool {
        let mut blocks = (first.0..).zip(bytes.chunks_exact(self.block_bytes));
        blocks.all(|(block, bytes)| {
            let block = BlockIndex(block);
            self.disks[disk].is_unfilled(self.sectors(disk, block))
                || self.should_hold(disk, block, bytes)
        })
    }

    /// Returns true if a disk holds these bytes from block `first` on, or would if none were
    /// corrupt.
    pub(crate) fn should_hold(&self, disk: usize, first: BlockIndex, bytes: &[u8]) -> bool {
        let mut blocks = (first.0..).zip(bytes.chunks_exact(self.block_bytes));
        blocks.all(|(block, bytes)| {
            let decay = self.decayed.get(&(disk, block));
            let sector = self.sectors(disk, BlockIndex(block)).start;
            self.disks[disk].holds(sector, bytes)
                || decay.is_some_and(|decay| {
                    decay.right == bytes && self.is_rotten(disk, BlockIndex(block))
                })
        })
    }

    /// Returns the first sectors of the corrupt blocks of a disk.
    pub(crate) fn rotten_sectors(&self, disk: usize) -> impl Iterator<Item = u64> + '_ {
        let blocks = self.decayed.range((disk, 0)..=(disk, u64::MAX));
        blocks
            .map(|(&(_, block), _)| BlockIndex(block))
            .filter(move |&block| self.is_rotten(disk, block))
            .map(move |block| self.sectors(disk, block).start)
    }

    /// Restores the corrupt blocks that `sick` selects; returns how many.
    pub(crate) fn cure(&mut self, sick: impl Fn(usize, BlockIndex) -> bool) -> u64 {
        let mut cured = 0;
        for ((disk, block), decay) in self.decayed.clone() {
            let block = BlockIndex(block);
            let is_right = decay.outlived_crash && self.is_summed_on(disk, block, &decay.wrong);
            if sick(disk, block) && self.is_rotten(disk, block) && !is_right {
                let first = self.sectors(disk, block).start;
                self.disks[disk].correct(first, &decay.wrong, &decay.right);
                cured += 1;
            }
        }
        cured
    }
}

impl World {
    /// Corrupts random blocks of a disk while clients continue. Returns true if any was corrupted.
    pub fn rot_anywhere(&mut self) -> bool {
        let disk = self.random_disk();
        let mut any = false;
        for _ in 0..self.faults.between(1, 8) {
            let block = self.stack.in_use(disk).any(&mut self.faults);
            let bit = self.faults.any();
            if self.may_decay(disk, block) {
                self.decay(disk, block, bit);
                any = true;
            }
        }
        any
    }

    fn decay(&mut self, disk: usize, block: BlockIndex, bit: u64) {
        self.note(&format!("block {block} of disk {disk} rots"));
        let mut right = vec![0; self.stack.block_bytes];
        self.stack
            .disk_block(disk, block, View::Current, &mut right);
        let mut wrong = right.clone();
        let bits = 8 * wrong.len();
        let bit = usize::try_from(bit % u64::try_from(bits).expect("fits")).expect("fits");
        wrong[bit / 8] ^= 1 << (bit % 8);
        self.stack.put_disk_block(disk, block, &wrong);
        self.stack
            .decayed
            .insert((disk, block.0), Decay::new(right, wrong));
    }

    /// Returns true if a write to a block of a disk is in flight.
    fn is_in_flight(&self, disk: usize, block: BlockIndex) -> bool {
        let sectors = self.stack.sectors(disk, block);
        let sector_bytes = self.stack.disks[disk].sector_bytes();
        self.ios.iter().flatten().any(|io| {
            io.disk == disk
                && (io.data.as_ref()).is_some_and(|data| {
                    let count = u64::try_from(data.bytes.len() / sector_bytes).expect("fits");
                    data.first < sectors.end && sectors.start < data.first + count
                })
        })
    }

    /// Returns the row that a block of a disk belongs to; `None` for metadata.
    pub(crate) fn row_of(&self, disk: usize, block: BlockIndex) -> Option<Row> {
        let Kept {
            array,
            member,
            block,
        } = self.stack.kept_at(disk, block)?;
        let this = &self.stack.arrays[array];
        let start = this.data_start[usize::from(member.0)];
        let offset = block.0.checked_sub(start.0).map(BlockIndex)?;
        let (index, _, row) = this.geometry.find(member, offset)?;
        let mut group = Group::empty();
        this.geometry.group_into(index, &mut group);
        Some(Row {
            array,
            member,
            group,
            block_in_chunk: row,
        })
    }

    /// Returns true if clients were writing the data in this block of a disk, given the sectors
    /// they were writing. After a crash, the block may be torn, and so may the blocks that could
    /// verify it.
    fn is_in_doubt(&self, disk: usize, block: BlockIndex, doubts: &BTreeSet<u64>) -> bool {
        let Some(Row {
            array,
            member,
            group,
            block_in_chunk: row,
        }) = self.row_of(disk, block)
        else {
            return false;
        };
        if array != self.stack.top() {
            return !doubts.is_empty();
        }
        let sectors = self.stack.sectors(disk, block);
        let slot = group.slots().iter().find(|slot| slot.member == member);
        let chunk = match slot.expect("it was found there").role {
            Role::Data(chunk) => u64::from(chunk),
            Role::Copy(_) => 0,
            Role::Parity(_) => return false, // It is recomputed.
        };
        let first = group.first_block.0 + chunk * u64::from(group.blocks) + u64::from(row);
        let per_block = sectors.end - sectors.start;
        let written = first * per_block..(first + 1) * per_block;
        doubts.range(written).next().is_some()
    }

    /// Returns true if a write to a block of a disk is in flight or not durable.
    fn is_being_written(&self, disk: usize, block: BlockIndex) -> bool {
        let holds = |view| {
            let mut bytes = vec![0; self.stack.block_bytes];
            self.stack.disk_block(disk, block, view, &mut bytes);
            bytes
        };
        holds(View::Current) != holds(View::Durable) || self.is_in_flight(disk, block)
    }

    /// Returns true if a block in the row of a disk's block is being written or not durable.
    fn is_row_in_flight(&self, disk: usize, block: BlockIndex) -> bool {
        let row = self.row_of(disk, block);
        row.is_some_and(|row| {
            let mut places = row.places(&self.stack);
            places.any(|place| place.is_none_or(|(disk, block)| self.is_being_written(disk, block)))
        })
    }

    /// Returns true if a crash may leave a block partly written.
    pub(crate) fn tears(&self) -> bool {
        self.options.sector_bytes < self.options.block_size.bytes()
    }

    /// Restores corrupt blocks that a crash makes undetectable. A write over corruption may be
    /// torn. In a row about to be written as a whole, the data that could detect corruption is
    /// partly old.
    pub(crate) fn cure_what_may_tear(&mut self, power: bool) {
        if !self.tears() {
            return;
        }
        let doubts: BTreeSet<u64> = self.client.history.in_doubt(power).into_iter().collect();
        let places: Vec<_> = self.stack.decayed.keys().copied().collect();
        for (disk, block) in places {
            let is_written = self.is_being_written(disk, BlockIndex(block));
            let is_mixed = self.is_in_doubt(disk, BlockIndex(block), &doubts)
                && self.is_row_in_flight(disk, BlockIndex(block));
            if is_written || is_mixed {
                let torn = (disk, BlockIndex(block));
                self.stack.cure(|disk, block| (disk, block) == torn);
            }
        }
    }

    /// Restores corrupt blocks in rows that were being written, after the log is lost. They may be
    /// mistaken for valid data (docs/design/consistency.md, the named gaps).
    pub(crate) fn cure_rows_in_doubt(&mut self) {
        let mut places: Vec<_> = self.stack.decayed.keys().copied().collect();
        places.retain(|&(disk, block)| self.is_row_in_doubt(disk, BlockIndex(block)));
        let cured = self
            .stack
            .cure(|disk, block| places.contains(&(disk, block.0)));
        *self.struck.entry("gap: row without its log").or_default() += cured;
    }

    /// Returns true if clients were writing a block in the row of a disk's block.
    fn is_row_in_doubt(&self, disk: usize, block: BlockIndex) -> bool {
        let row = self.row_of(disk, block);
        row.is_some_and(|row| {
            let mut places = row.places(&self.stack);
            places.any(|place| {
                place.is_none_or(|(disk, block)| self.is_in_doubt(disk, block, &self.in_doubt.now))
            })
        })
    }

    /// Restores corrupt blocks that may be mistaken for an unfinished write
    /// (docs/design/consistency.md, the named gaps), and counts them by gap. `unflushed` are the
    /// sectors being written, for arrays of copies.
    pub(crate) fn cure_gaps(&mut self, unflushed: &BTreeSet<u64>) {
        let mut gaps = BTreeMap::<_, Vec<_>>::new();
        for &(disk, block) in self.stack.decayed.keys() {
            if let Some(gap) = self.gap(disk, BlockIndex(block), unflushed) {
                gaps.entry(gap).or_default().push((disk, BlockIndex(block)));
            }
        }
        for (gap, places) in gaps {
            let cured = self
                .stack
                .cure(|disk, block| places.contains(&(disk, block)));
            *self.struck.entry(gap).or_default() += cured;
        }
    }

    /// Returns the gap that a block of a disk is in; `None` if it is in none.
    fn gap(
        &self,
        disk: usize,
        block: BlockIndex,
        unflushed: &BTreeSet<u64>,
    ) -> Option<&'static str> {
        let row = self.row_of(disk, block)?;
        let Row { array, group, .. } = &row;
        let parity = group.parity_chunks > 0;
        if parity && self.is_of_half_written_row(disk, block) {
            return Some("gap: unlogged row");
        }
        if !self.stack.is_dirty(*array, group.index, View::Current) {
            return None;
        }
        let this = &self.stack.arrays[*array];
        let places = row.places(&self.stack);
        let others = group.slots().iter().zip(places).filter(|(slot, place)| {
            !this.lost.contains(slot.member)
                && place.is_none_or(|(other, block)| {
                    other != disk && !self.stack.is_rotten(other, block)
                })
        });
        if others.count() < usize::from(group.data_chunks) {
            return Some("gap: no redundancy");
        }
        let unflushed = !parity && self.is_in_doubt(disk, block, unflushed);
        unflushed.then_some("gap: unflushed copy")
    }

    /// Returns true if the budget allows corrupting a block. The rules are those for an unreadable
    /// sector; in addition, checksums must detect it. No write to the block may be in flight, or
    /// have been at a crash that may have torn it.
    pub(crate) fn may_decay(&self, disk: usize, block: BlockIndex) -> bool {
        let sectors = self.stack.sectors(disk, block);
        let (Some(place), Some(kept)) = (
            self.stack.place_of(disk, sectors.start),
            self.stack.kept_at(disk, block),
        ) else {
            return false; // Metadata.
        };
        let Kept { array, member, .. } = kept;
        let this = &self.stack.arrays[array];
        let in_flight = self.is_in_flight(disk, block);
        let may_be_torn = self.tears() && self.is_in_doubt(disk, block, &self.in_doubt.now);
        // A crash left the block partly written, and the array has not resynced it yet.
        let is_in_gap = [&self.in_doubt.now, &self.unflushed]
            .into_iter()
            .any(|unflushed| self.gap(disk, block, unflushed).is_some());
        let is = |view| {
            let mut bytes = vec![0; self.stack.block_bytes];
            self.stack.disk_block(disk, block, view, &mut bytes);
            bytes
        };
        let start = this.data_start[usize::from(member.0)].0;
        let offset = BlockIndex(kept.block.0 - start);
        let written = |view| self.stack.is_held(array, place.member, offset, view);
        this.checksums.is_some()
            && self.is_open(array)
            && !this.lost.contains(member)
            && !self.is_gone(disk)
            && !in_flight
            && !may_be_torn
            && !is_in_gap
            && !self.stack.is_rotten(disk, block)
            && written(View::Current)
            && written(View::Durable)
            && is(View::Current) == is(View::Durable)
            && self.stack.may_lose_sector(disk, sectors.start)
    }
}

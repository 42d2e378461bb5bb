//! Access to the checksums of an array without the engine, for the checkers.

use super::{Array, Below, Checksums, Decay, Spot, Stack, group_of};
use crate::disk::View;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_format::{
    CHECKSUM_BLANK, CHECKSUM_LOST, CHECKSUM_NONE, CHECKSUM_PAGE_BYTES, PageParts, RowSum,
    block_checksum, open_checksums, seal_checksums, stored_checksum,
};
use spindles_layout::{Group, GroupIndex, Slot};

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
        let count = CHECKSUM_PAGE_BYTES / self.block_bytes;
        let blocks = (first.0..).map(BlockIndex).take(count);
        let blocks = blocks.map(|block| match self.disk_place(array, member, block) {
            Some((disk, block)) => Some(self.disk_block(disk, block, view)),
            None => self.raw_block(array, member, block, view),
        });
        Some(blocks.collect::<Option<Vec<_>>>()?.concat())
    }

    /// Durably stores the checksum of a block of a member and its row sum. No engine may have the
    /// array open.
    pub(crate) fn put_checksum(&mut self, spot: Spot, bytes: &[u8], row_sum: RowSum) {
        let (array, member, offset) = spot.parts();
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
        if this.checksums.is_none() || this.regions.is_none() {
            return false;
        }
        if group.parity_chunks == 0 || group.data_chunks < 2 || this.staged.contains(&group.index.0)
        {
            return false;
        }
        let kept = |slot: &Slot| {
            let is_there = !this.lost.contains(slot.member);
            let kept = is_there.then(|| self.kept_checksum(Spot::of(array, slot, row), view));
            kept.flatten()
        };
        let kept: Vec<u32> = group.slots().iter().filter_map(kept).collect();
        let is_marked = |kept: &u32| [CHECKSUM_NONE, CHECKSUM_BLANK].contains(kept);
        let is_unknown = |kept: &u32| is_marked(kept) || *kept == CHECKSUM_LOST;
        kept.iter().any(is_marked) && kept.iter().all(is_unknown)
    }

    /// Returns true if this block of the member's data area counts: its group is written and its
    /// row is not blank.
    pub(crate) fn is_held(&self, spot: Spot, view: View) -> bool {
        let (array, member, offset) = spot.parts();
        let geometry = &self.arrays[array].geometry;
        let Some((index, _, row)) = geometry.find(member, offset) else {
            return false;
        };
        let group = group_of(geometry, index);
        self.is_written(array, index, view) && !self.is_blank_row(array, &group, row.into(), view)
    }

    /// Checks that the checksums on the members match their contents, wherever they count.
    ///
    /// # Errors
    ///
    /// The first place that does not match.
    pub fn check_checksums(&self, array: usize, view: View) -> Result<(), String> {
        let this = &self.arrays[array];
        if this.checksums.is_none() {
            return Ok(());
        }
        for index in (0..this.geometry.groups()).map(GroupIndex) {
            if !self.is_written(array, index, view) {
                continue;
            }
            let group = group_of(&this.geometry, index);
            self.check_row_sums(array, &group, view)?;
            for slot in group.slots() {
                let member = slot.member;
                if this.lost.contains(member) {
                    continue;
                }
                for row in 0..u64::from(group.blocks) {
                    let spot = Spot::of(array, slot, row);
                    if self.is_blank_row(array, &group, row, view) {
                        continue;
                    }
                    let kept = self.kept_checksum(spot, view);
                    let found = self.checksum_of_contents(spot, view);
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
                            "array {array}: block {} of member {member} has the checksum {kept:#x} \
                             of something else",
                            spot.offset
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
            let spot = Spot::of(array, slot, row);
            is_there
                .then(|| self.checksum_of_contents(spot, view))
                .flatten()
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
    fn kept_checksum(&self, spot: Spot, view: View) -> Option<u32> {
        let (array, member, offset) = spot.parts();
        let checksums = self.arrays[array].checksums.as_ref()?;
        let (first, number, place) = self.page_of(checksums, usize::from(member.0), offset);
        let mut page = self.page_bytes(array, member, first, view)?;
        open_checksums(checksums.entries, checksums.array, number, &mut page);
        Some(checksums.entries.checksum_in(&page, place))
    }

    /// Computes the checksum of a block of a member. `None` if the block can't be read, is corrupt
    /// or could not be filled.
    fn checksum_of_contents(&self, spot: Spot, view: View) -> Option<u32> {
        let bytes = self.member_block(spot, view);
        let bytes = bytes.filter(|_| !self.is_unfilled(spot));
        bytes.map(|bytes| stored_checksum(block_checksum(&bytes)))
    }

    /// Returns true if the stored checksum of a block of a member matches these bytes.
    pub(crate) fn is_summed(&self, spot: Spot, bytes: &[u8]) -> bool {
        let kept = self.kept_checksum(spot, View::Current);
        kept == Some(stored_checksum(block_checksum(bytes)))
    }

    /// Returns true if the stored checksum of a block of a disk matches these bytes.
    fn is_summed_on(&self, disk: usize, block: BlockIndex, bytes: &[u8]) -> bool {
        let spot = self.spot_at(disk, block);
        spot.is_some_and(|spot| self.is_summed(spot, bytes))
    }

    /// Returns true if a block of a member counts as corrupt because its checksum was in a damaged
    /// journal.
    pub(crate) fn lost_its_checksum(&self, spot: Spot, view: View) -> bool {
        let (array, member, offset) = spot.parts();
        let this = &self.arrays[array];
        let at = usize::from(member.0);
        let (Some(checksums), Below::Disk(disk)) = (&this.checksums, this.members[at]) else {
            return false;
        };
        let (page, _, _) = self.page_of(checksums, at, offset);
        let blocks = u64::try_from(CHECKSUM_PAGE_BYTES / self.block_bytes).expect("small");
        let sectors = self.sectors(disk, page).start..self.sectors(disk, page.plus(blocks)).start;
        this.damaged.is_some() && self.is_held(spot, view) && {
            let block = this.data_start[at].plus(offset.0);
            let found = stored_checksum(block_checksum(&self.disk_block(disk, block, view)));
            let kept = self.kept_checksum(spot, view);
            kept != Some(found) || self.disks[disk].is_unreadable(sectors)
        }
    }

    /// Returns true if a block of an array lost its checksum to damage, and was not read since.
    pub(crate) fn lacks_checksums(&self, array: usize) -> bool {
        let geometry = &self.arrays[array].geometry;
        (0..geometry.groups()).map(GroupIndex).any(|index| {
            let group = group_of(geometry, index);
            let lacks = |slot: &Slot| {
                let mut spots = (0..u64::from(group.blocks)).map(|row| Spot::of(array, slot, row));
                spots.any(|spot| self.lost_its_checksum(spot, View::Current))
            };
            // Includes members that are out: a member may return with old contents.
            self.is_written(array, index, View::Current) && group.slots().iter().any(lacks)
        })
    }

    /// Returns true if a block of a disk holds its corrupted contents, or would if the cache were
    /// lost.
    pub fn is_rotten(&self, disk: usize, block: BlockIndex) -> bool {
        self.decayed.get(&(disk, block.0)).is_some_and(|decay| {
            let holds = |view| self.disk_block(disk, block, view) == decay.wrong;
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

//! What is known of the contents of the array after a crash: the sectors in doubt, and all reasons
//! for which a sector may be something else than expected.

mod doubt;
mod rows;
pub mod rule;
mod unlogged;

use crate::client::Client;
use crate::disk::View;
use crate::log::Log;
use crate::stack::{Row, Stack};
use doubt::Doubt;
use rule::Rule;
use spindles_block::BlockIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use unlogged::{Unlogged, data_of};

/// The knowledge of one run.
#[derive(Debug)]
pub(crate) struct Truth {
    per_block: u64,
    /// Set while requests may fail: see `Scene`.
    beyond_budget: bool,
    /// Sectors that a crash interrupted while they were being written.
    in_doubt: Doubt,
    /// Sectors that were not flushed before a crash, until the resync is done. Their checksums may
    /// be old, so corruption there is indistinguishable from a write.
    unflushed: BTreeSet<u64>,
    /// Sectors in doubt whose log is lost.
    without_log: Doubt,
    unlogged: Unlogged,
    /// Set while the array has parity from growing, but no journal yet.
    unlogged_parity: bool,
}

impl Truth {
    pub(crate) fn new(sectors_per_block: u64, beyond_budget: bool) -> Self {
        Self {
            per_block: sectors_per_block,
            beyond_budget,
            in_doubt: Doubt::default(),
            unflushed: BTreeSet::new(),
            without_log: Doubt::default(),
            unlogged: Unlogged::default(),
            unlogged_parity: false,
        }
    }

    /// Records that more may be lost than the array survives.
    pub(crate) fn exceed_budget(&mut self) {
        self.beyond_budget = true;
    }

    /// Returns true if more may be lost than the array survives.
    pub(crate) fn is_beyond_budget(&self) -> bool {
        self.beyond_budget
    }

    pub(crate) fn set_unlogged_parity(&mut self, unlogged: bool) {
        self.unlogged_parity = unlogged;
    }

    pub(crate) fn has_unlogged_parity(&self) -> bool {
        self.unlogged_parity
    }

    /// Returns why any request may fail; `None` if requests must succeed.
    pub(crate) fn excuse_of_all(&self, stack: &Stack) -> Option<Rule> {
        if self.beyond_budget {
            Some(Rule::BeyondBudget)
        } else if stack.is_short_of_space {
            Some(Rule::NoSpace)
        } else {
            stack.may_lack_proof(stack.top()).then_some(Rule::NoProof)
        }
    }

    /// Returns why a request over sectors in doubt after a crash may fail; `None` if it must
    /// succeed.
    pub(crate) fn excuse(&self, stack: &Stack, sectors: &Range<u64>, token: u64) -> Option<Rule> {
        if !self.in_doubt.meets(sectors, token) && !self.unlogged.sectors.meets(sectors, token) {
            None
        } else if !stack.has_maps_below_only() {
            Some(Rule::LostBelow)
        } else if self.unlogged.gone.meets(sectors, token) {
            Some(Rule::UnloggedRow)
        } else {
            let meets = self.without_log.meets(sectors, token);
            meets.then_some(Rule::WithoutLog)
        }
    }

    /// Returns why a request over sectors in doubt may fail that is no read. The bad-block list,
    /// which makes parts of a torn row unwritable, need not be complete.
    pub(crate) fn excuse_of_write(
        &self,
        stack: &Stack,
        sectors: &Range<u64>,
        token: u64,
    ) -> Option<Rule> {
        let mut arrays = stack.arrays.iter();
        let unlisted = arrays.any(|array| array.damaged.is_some() && !array.lost.is_empty());
        (unlisted && self.in_doubt.meets(sectors, token)).then_some(Rule::Unlisted)
    }

    /// Returns true if a crash may have destroyed a block of the array.
    pub(crate) fn may_be_lost(&self, stack: &Stack, block: u64) -> bool {
        let sectors = block * self.per_block..(block + 1) * self.per_block;
        let is_in_doubt =
            !self.without_log.now.is_empty() || self.unlogged.sectors.has(sectors.clone());
        self.excuse(stack, &sectors, 0).is_some() || is_in_doubt && stack.is_gone_from(block)
    }

    /// Returns the sectors that a crash left in doubt.
    pub(crate) fn in_doubt(&self) -> &BTreeSet<u64> {
        &self.in_doubt.now
    }

    /// Returns true if no sector is in doubt.
    pub(crate) fn is_certain(&self) -> bool {
        self.in_doubt.now.is_empty() && self.unlogged.sectors.now.is_empty()
    }

    /// Records that sectors were read or written. `last` is the last request submitted before the
    /// answer.
    pub(crate) fn answered(&mut self, sectors: &Range<u64>, last: u64) {
        self.in_doubt.end(sectors, last);
        self.without_log.end(sectors, last);
        self.unlogged.end(sectors, last);
    }

    /// Records full-row writes that need not be logged. Called after a client write and after a
    /// member returns.
    pub(crate) fn note_rows(&mut self, stack: &Stack, client: &Client) {
        let writes: Vec<_> = client.writes().collect();
        self.unlogged.note_rows(stack, &writes);
    }

    /// Records blocks of full-row writes that may be lost with members that have gone missing.
    pub(crate) fn note_gone_rows(&mut self, stack: &Stack) {
        self.unlogged.note_gone(stack, self.per_block);
    }

    /// Records that the engine settled all rows in doubt.
    pub(crate) fn rows_have_settled(&mut self, stack: &Stack) {
        self.unlogged.settled(stack, self.per_block);
    }

    /// Records that the array reported blocks as lost. They stay lost until written.
    pub(crate) fn blocks_are_lost(&mut self, blocks: &Range<u64>) {
        let sectors = blocks.start * self.per_block..blocks.end * self.per_block;
        self.unlogged.are_lost(sectors);
    }

    /// Ends the doubts that last until the resync.
    pub(crate) fn resynced(&mut self) {
        self.unflushed.clear();
    }

    /// Records that the array was closed clean.
    pub(crate) fn closed_clean(&mut self) {
        self.unlogged.forget_writes();
    }

    /// Records a crash. Must run before the history learns of it.
    pub(crate) fn crashed(
        &mut self,
        stack: &mut Stack,
        client: &Client,
        log: &mut Log,
        power: bool,
    ) {
        self.unlogged.note_crash(stack, client, power);
        let unflushed: BTreeSet<u64> = client.history.in_doubt(true).into_iter().collect();
        self.cure_gaps(stack, log, &unflushed);
        self.unflushed.extend(unflushed);
        self.in_doubt.now.extend(client.history.in_doubt(power));
    }

    /// Records the loss of the log: of unfinished writes, and of answered writes not durable in
    /// their places. Restores corrupt blocks in these rows: they may be mistaken for valid data
    /// (docs/design/consistency.md, the named gaps).
    pub(crate) fn lose_log(&mut self, stack: &mut Stack, client: &Client, log: &mut Log) {
        let in_doubt = client.history.in_doubt(true);
        self.in_doubt.now.extend(&in_doubt);
        self.without_log.now.extend(in_doubt);
        let mut places: Vec<_> = stack.decayed.keys().copied().collect();
        places.retain(|&(disk, block)| {
            stack.is_row_in_doubt(disk, BlockIndex(block), &self.in_doubt.now)
        });
        let cured = stack.cure(|disk, block| places.contains(&(disk, block.0)));
        log.count(Rule::GapWithoutLog.name(), cured);
    }

    /// Restores corrupt blocks that may be mistaken for an unfinished write
    /// (docs/design/consistency.md, the named gaps), and counts them by gap. `unflushed` are the
    /// sectors being written, for arrays of copies.
    pub(crate) fn cure_gaps(&self, stack: &mut Stack, log: &mut Log, unflushed: &BTreeSet<u64>) {
        let mut gaps = BTreeMap::<_, Vec<_>>::new();
        for &(disk, block) in stack.decayed.keys() {
            if let Some(gap) = self.gap(stack, disk, BlockIndex(block), unflushed) {
                gaps.entry(gap).or_default().push((disk, BlockIndex(block)));
            }
        }
        for (gap, places) in gaps {
            let cured = stack.cure(|disk, block| places.contains(&(disk, block)));
            log.count(gap.name(), cured);
        }
    }

    /// Returns the gap that a block of a disk is in until the array has resynced it.
    pub(crate) fn gap_of(&self, stack: &Stack, disk: usize, block: BlockIndex) -> Option<Rule> {
        let mut doubts = [&self.in_doubt.now, &self.unflushed].into_iter();
        doubts.find_map(|unflushed| self.gap(stack, disk, block, unflushed))
    }

    /// Returns the gap that a block of a disk is in; `None` if it is in none.
    fn gap(
        &self,
        stack: &Stack,
        disk: usize,
        block: BlockIndex,
        unflushed: &BTreeSet<u64>,
    ) -> Option<Rule> {
        let row = stack.row_of(disk, block)?;
        let Row { array, group, .. } = &row;
        let parity = group.parity_chunks > 0;
        if parity && self.is_of_half_written_row(stack, disk, block) {
            return Some(Rule::GapUnloggedRow);
        }
        if !stack.is_dirty(*array, group.index, View::Current) {
            return None;
        }
        let this = &stack.arrays[*array];
        let places = row.places(stack);
        let others = group.slots().iter().zip(places).filter(|(slot, place)| {
            !this.lost.contains(slot.member)
                && place
                    .is_none_or(|(other, block)| other != disk && !stack.is_rotten(other, block))
        });
        if others.count() < usize::from(group.data_chunks) {
            return Some(Rule::GapNoRedundancy);
        }
        let unflushed = !parity && stack.is_in_doubt(disk, block, unflushed);
        unflushed.then_some(Rule::GapUnflushedCopy)
    }

    /// Returns true if a block of a disk is in a row that a crash left partly written and that was
    /// not repaired since. Corruption there is indistinguishable from the partial write.
    fn is_of_half_written_row(&self, stack: &Stack, disk: usize, block: BlockIndex) -> bool {
        let Some(row) = stack.row_of(disk, block) else {
            return false;
        };
        let Row { array, group, .. } = &row;
        let per_block = self.per_block;
        let row = u64::from(row.block_in_chunk);
        let unlogged = [&self.unlogged.sectors, &self.without_log];
        let is_unlogged = if *array == stack.top() {
            data_of(group, row).any(|block| {
                let sectors = block * per_block..(block + 1) * per_block;
                unlogged.iter().any(|all| all.has(sectors.clone()))
            })
        } else {
            // The blocks are not mapped to the outermost array: doubt about any block counts.
            !self.in_doubt.now.is_empty() || unlogged.iter().any(|all| !all.now.is_empty())
        };
        group.parity_chunks > 0 && is_unlogged && !stack.row_is_whole(*array, group, row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Token, Wish};
    use crate::disk::View;
    use crate::stack::Decay;
    use crate::world::World;
    use crate::{Ending, Fixed, Options, create};
    use spindles_block::{MemberIndex, Operation, Reply};
    use spindles_layout::Level;

    /// Returns a small `raid5` that no engine has open.
    fn world() -> World {
        let fixed = Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            depth: Some(8),
            faults: Some(Vec::new()),
            ending: Some(Ending::Close),
            checksums: Some(true),
            sizes: Some(false),
            ..Fixed::default()
        };
        let mut options = (0..).map(|seed| Options::swarm(seed, &fixed));
        let small = |options: &Options| {
            let stack = create::blank(options);
            options.sums() && options.sector_bytes == 512 && stack.geometry().stripe_blocks() == 4
        };
        let options = options.find(small).expect("some seed has such a stripe");
        let stack = create::blank(&options);
        let mut world = World::new(options, stack, Vec::new(), false);
        create::write_superblocks(&mut world);
        world
    }

    fn ask(world: &mut World, operation: Operation, block: u64, blocks: u32) -> u64 {
        let wish = Wish {
            operation,
            block,
            blocks,
            issue: None,
        };
        let now = world.now();
        let request = world.client.request(now, wish, world.arrays.memory_mut());
        if operation.is_write() {
            world.truth.note_rows(&world.stack, &world.client);
        }
        request.token
    }

    /// Returns the blocks that may be lost if they are on a missing member.
    fn unlogged(mut world: World, power: bool) -> BTreeSet<u64> {
        world
            .truth
            .unlogged
            .note_crash(&world.stack, &world.client, power);
        let per_block = world.client.sectors_per_block;
        let sectors = world.truth.unlogged.sectors.now.iter();
        sectors.map(|sector| sector / per_block).collect()
    }

    const WRITE: Operation = Operation::Write { fua: false };

    #[test]
    fn only_wholly_unlogged_rows_may_be_lost() {
        for power in [false, true] {
            let mut part = world();
            ask(&mut part, WRITE, 0, 2);
            assert_eq!(unlogged(part, power), [].into());
            // Rows of blocks 0 and 2, and 1 and 3.
            let mut row = world();
            ask(&mut row, WRITE, 1, 3);
            assert_eq!(unlogged(row, power), [1, 3].into());
            let mut both = world();
            ask(&mut both, WRITE, 0, 2);
            ask(&mut both, WRITE, 2, 1);
            assert_eq!(unlogged(both, power), [0, 2].into());
        }
    }

    /// A write is answered but not flushed, and another block of its row is corrupted. The
    /// corruption is detected while the log exists; once the log is lost it is in a named gap. Rows
    /// without writes in flight are in no gap.
    #[test]
    fn corruption_next_to_answered_writes_is_a_gap_once_the_log_is_lost() {
        let mut world = world();
        let token = ask(&mut world, WRITE, 0, 1);
        let now = world.now();
        let flight = world.client.take(
            now,
            Reply {
                token,
                result: Ok(()),
                exchanged: None,
            },
        );
        let Some(Token::Write { token, fua }) = flight.map(|flight| flight.token) else {
            panic!("a write was asked");
        };
        world.client.history.write_answered(token, true, fua);
        world.crash(false);
        // Blocks 0 and 2 are a row.
        let places = [1, 2].map(|block| {
            let geometry = world.stack.geometry();
            let at = geometry.locate(BlockIndex(block));
            let top = world.stack.top();
            let start = world.stack.arrays[top].data_start[usize::from(at.member.0)];
            let place = world
                .stack
                .disk_place(top, at.member, start.plus(at.offset.0));
            place.expect("it is on a disk")
        });
        for (disk, block) in places {
            let right = world.stack.disk_block(disk, block, View::Current);
            let wrong: Vec<u8> = right.iter().map(|byte| !byte).collect();
            world.stack.put_disk_block(disk, block, &wrong);
            let decay = Decay::new(right, wrong);
            world.stack.decayed.insert((disk, block.0), decay);
        }
        let rotten = |world: &World| places.map(|(disk, block)| world.stack.is_rotten(disk, block));
        world
            .truth
            .cure_gaps(&mut world.stack, &mut world.log, &BTreeSet::new());
        assert_eq!(rotten(&world), [true, true]);
        world
            .truth
            .lose_log(&mut world.stack, &world.client, &mut world.log);
        assert_eq!(rotten(&world), [true, false]);
    }

    #[test]
    fn only_blocks_on_a_missing_member_are_excused_until_read() {
        let mut world = world();
        ask(&mut world, WRITE, 0, 4);
        world
            .truth
            .unlogged
            .note_crash(&world.stack, &world.client, true);
        let per_block = world.client.sectors_per_block;
        let sectors = |block: u64| block * per_block..(block + 1) * per_block;
        let member = |block| world.stack.geometry().locate(BlockIndex(block)).member;
        let (here, there) = (member(0), member(2));
        assert!(here != there && here != MemberIndex(u8::MAX));
        assert_eq!(world.truth.excuse(&world.stack, &sectors(0), 9), None);
        let top = world.stack.top();
        let lost = &mut world.stack.arrays[top].lost;
        *lost = lost.with(here);
        world.truth.note_gone_rows(&world.stack);
        assert!(world.truth.excuse(&world.stack, &sectors(0), 9).is_some());
        assert_eq!(world.truth.excuse(&world.stack, &sectors(2), 9), None);
        // A member that returns has lost its blocks all the same; a member that goes missing later
        // has not.
        world.truth.rows_have_settled(&world.stack);
        let lost = &mut world.stack.arrays[top].lost;
        *lost = lost.without(here).with(there);
        world.truth.note_gone_rows(&world.stack);
        assert!(world.truth.excuse(&world.stack, &sectors(0), 9).is_some());
        assert_eq!(world.truth.excuse(&world.stack, &sectors(2), 9), None);
        world.truth.unlogged.end(&sectors(0), 4);
        assert_eq!(world.truth.excuse(&world.stack, &sectors(0), 9), None);
        assert!(
            world.truth.excuse(&world.stack, &sectors(0), 4).is_some(),
            "it looked before"
        );
    }
}

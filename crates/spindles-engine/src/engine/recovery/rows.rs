//! Settles rows of regions in doubt: fetches the evidence, and carries out the verdict of `decide`.
//!
//! ```text
//!     ┌───────────────────── disproved ──────────────────────┐
//!     ▼                                                      │
//!  reading ──▶ verifying ──decide──▶ (reconstructing ──▶ proving) ──▶ (encoding) ──▶ agreeing
//!     ▲                        └──lost──▶ listing ──┐                     ──▶ flushing ──▶ done
//!     └─────────────────────────────────────────────┘
//! ```
//!
//! A stripe range settles its current rows before it does anything else with them, under their
//! lock. It does so for the first read of a region in doubt, for a write of a part of the rows, and
//! for the resync job. The result is durable before the stripe range continues, so that a second
//! crash can't change contents that were read once.
//!
//! A write of a part of rows goes the same way, although nothing is in doubt, if more blocks are
//! rotten than redundancy can reconstruct. The rotten blocks are lost and listed, and the write is
//! done.
//!
//! Members that are missing or being filled give no evidence. Devices being filled still get
//! writes.

use crate::{
    Engine, Mutation, RangeId,
    checksums::{ChecksumsOf, entries::Entry},
    index,
    output::{Event, Output},
    plan::{Ask, Plan, Step, Steps, Strategy},
    recovery::{
        decide::{BlockEvidence, Verdict, decide_copies, decide_row, proves},
        rows::Settling,
    },
    slots::SlotSet,
    stripe::{Next, Past, Stage, Way},
    waits::WaitFor,
};
use spindles_block::{BlockIndex, MEMBERS_MAX, RequestError};
use spindles_format::{AreaKind, BadBlockKind, RowSum, stored_checksum};

/// The evidence about all blocks of a row.
type Row = [BlockEvidence; MEMBERS_MAX as usize];

/// The outcome for a row of data and parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing to do: the row is complete, fits its checksums, and is proved.
    Nothing,
    Decided(Verdict),
}

impl Engine {
    /// Leaves rows in doubt, since nothing proves their contents. Requested blocks that fit their
    /// checksums are answered all the same.
    fn stays_in_doubt(&mut self, id: RangeId) -> Next {
        let fits = |row: u32| {
            let evidence = self.evidence(id, row);
            let mut touched = self.ranges[id].touched.iter();
            touched.all(|slot| evidence[usize::from(slot)].fits())
        };
        if (0..self.ranges[id].blocks).all(fits) {
            self.ranges[id].rows.settling = Settling::Done;
            return Next::Plan;
        }
        if self.ranges[id].halve() {
            return Next::Plan;
        }
        self.ranges[id].error.get_or_insert(RequestError::InDoubt);
        Next::Done
    }

    /// Returns the next action of a stripe range whose rows in doubt can't be settled yet. Members
    /// that are out, but not durably, may be present at the next opening with other contents than
    /// the rest. The stripe range then waits, or ends with an error.
    pub(crate) fn awaits_record(&mut self, id: RangeId) -> Option<Next> {
        if self.ranges[id].replaces_all() || !self.counts_on_others(id) {
            return None;
        }
        if self.writes_nothing() {
            return Some(self.ranges[id].give_up());
        }
        self.ranges[id].move_to(Stage::Preparing);
        self.waits.wait(id, WaitFor::Superblocks);
        Some(Next::Wait)
    }

    /// Gives up rotten blocks as lost, and puts zeros in their place. The zeros are not logged, so
    /// the log must hold nothing of these rows that a replay would put there again.
    pub(crate) fn lose_rotten(&mut self, id: RangeId) -> Next {
        let logged = self.log.may_hold(self.ranges[id].group);
        let waits = self.log.is_undecided() || logged && self.restart_log();
        if waits && !self.writes_nothing() {
            self.ranges[id].move_to(Stage::Preparing);
            self.waits.wait(id, WaitFor::Superblocks);
            return Next::Wait;
        }
        self.begin_settling(id)
    }

    /// Reads the present blocks of the current rows.
    pub(crate) fn begin_settling(&mut self, id: RangeId) -> Next {
        if !self.bad_blocks_are_stored() {
            // Lost blocks must be durable in the list before anything is written in their place.
            self.ranges[id].move_to(Stage::Preparing);
            self.waits.wait(id, WaitFor::BadBlocks);
            return Next::Wait;
        }
        let missing = self.ranges.missing_slots(&self.members, id);
        let lost = self.ranges.slots_of(id, self.members.lost());
        let any_listed = self.bad.any_lost();
        let scratch_max = self.settings.limits.range_blocks;
        let range = &mut self.ranges[id];
        if range.shape.slots > 1 {
            range.blocks = range.blocks.min(scratch_max);
        }
        if any_listed && !range.shape.copies {
            range.blocks = 1;
        }
        let all = range.shape.all();
        let reads = all.minus(lost).minus(range.rows.unreadable);
        if reads.is_empty() {
            return self.ranges[id].give_up();
        }
        range.rows.settling = Settling::Reading { disproved: 0 };
        range.rows.zeros = SlotSet::EMPTY;
        range.plan = Plan {
            strategy: Strategy::Settle,
            steps: Steps::NONE.with(Step::Read).with(Step::Verify),
            reads,
            recover: SlotSet::EMPTY,
            encode: SlotSet::EMPTY,
            writes: all.minus(missing),
            writes_always: SlotSet::EMPTY,
        };
        if !self.grow.is_staged(self.ranges[id].group) && !self.pin_pages(id) {
            self.ranges[id].move_to(Stage::Paging);
            return Next::Wait;
        }
        Next::CarryOut
    }

    /// Returns the evidence about a row, counted from the first current row.
    fn evidence(&self, id: RangeId, row: u32) -> Row {
        let mut evidence = [BlockEvidence::default(); MEMBERS_MAX as usize];
        let range = &self.ranges[id];
        let missing = self.ranges.slots_of(id, self.members.lost());
        for slot in range.shape.all().iter() {
            let of = &mut evidence[usize::from(slot)];
            if range.rows.zeros.contains(slot) {
                of.read = Some(stored_checksum(self.checksum_of_zeros()));
                of.kept = of.read;
                continue;
            }
            if range.rows.read_checksums.contains(slot) {
                of.read = Some(self.checksum_at(id, ChecksumsOf::Read, slot, row));
            }
            if !missing.contains(slot) && range.plan.writes.contains(slot) {
                let entry = self.entry(id, slot, row);
                of.kept = entry.known();
                of.lost_checksum = entry.checksum == Entry::LOST.checksum;
                of.row_sum = (entry.row_sum != RowSum::NONE).then_some(entry.row_sum);
            }
        }
        evidence
    }

    /// Continues when the checksums of the blocks that were read are computed.
    pub(crate) fn settling_verified(&mut self, id: RangeId) -> Next {
        if !self.ranges[id].rows.rotten.is_empty() {
            // The region is not in doubt: each further block with a wrong checksum is rotten too.
            let rotten = self.rotten_slots(id);
            if !rotten.is_empty() {
                self.found_rotten(id, rotten);
                return self.begin_settling(id);
            }
        }
        if self.ranges[id].shape.copies {
            self.settle_copies(id)
        } else {
            self.settle_first_rows(id)
        }
    }

    /// Chooses one copy of each block, and writes it to the other members.
    fn settle_copies(&mut self, id: RangeId) -> Next {
        let shape = self.ranges[id].shape;
        let choice = |row| {
            let evidence = self.evidence(id, row);
            let copies = &evidence[..usize::from(shape.slots)];
            let truth = decide_copies(copies).expect("something was read");
            let sum = copies[usize::from(truth)].read;
            let differ = (0..).zip(copies).filter(|(_, copy)| copy.read != sum);
            let differ = differ.fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot));
            let fits = copies.iter().any(|copy| copy.kept == sum);
            let agrees = copies.len() > 1 && differ.is_empty();
            (truth, differ, fits || agrees)
        };
        let (truth, differ, proved) = choice(0);
        if !proved && self.wants_proof(id) {
            return self.stays_in_doubt(id);
        }
        let blocks = self.ranges[id].blocks;
        let alike = (0..blocks).take_while(|&row| choice(row) == (truth, differ, proved));
        let alike = u32::try_from(alike.count()).expect("rows of a range");
        let there = shape
            .all()
            .minus(self.ranges.missing_slots(&self.members, id));
        let mut changed = !differ.and(there).is_empty();
        for row in 0..alike {
            let sums = self
                .workspace
                .checksums_range(&self.ranges, id, ChecksumsOf::Read, truth);
            let sum = self.workspace.checksums()[sums.start + index(row)];
            for slot in there.iter() {
                changed |= self.correct_entry(id, slot, row, sum, RowSum::NONE);
            }
        }
        let range = &mut self.ranges[id];
        range.blocks = alike;
        range.plan.reads = SlotSet::one(truth);
        self.ranges[id].settle_with(differ.and(there), changed)
    }

    /// Decides the leading rows that have the same outcome.
    fn settle_first_rows(&mut self, id: RangeId) -> Next {
        let Settling::Reading { disproved } = self.ranges[id].rows.settling else {
            panic!("rows were read in the middle of something");
        };
        let first = self.outcome(id, 0, disproved);
        let blocks = self.ranges[id].blocks;
        let alike = (0..blocks).take_while(|&row| self.outcome(id, row, disproved) == first);
        let alike = u32::try_from(alike.count()).expect("rows of a range");
        if alike < blocks {
            self.ranges[id].blocks = alike;
            self.take_step(id, Step::Verify);
            return Next::Wait;
        }
        match first {
            Outcome::Nothing => self.ranges[id].settle_with(SlotSet::EMPTY, false),
            Outcome::Decided(Verdict::AsRead { proved }) => self.encode_settled(id, proved),
            Outcome::Decided(Verdict::Try { erased, sources }) => {
                self.reconstruct(id, disproved, erased, sources, true)
            }
            Outcome::Decided(Verdict::Lost(gone)) => self.settle_lost(id, gone),
        }
    }

    fn outcome(&self, id: RangeId, row: u32, disproved: u32) -> Outcome {
        let shape = self.ranges[id].shape;
        let evidence = self.evidence(id, row);
        let evidence = &evidence[..usize::from(shape.slots)];
        let verdict = decide_row(shape, evidence, index(disproved));
        let there = shape
            .all()
            .minus(self.ranges.missing_slots(&self.members, id));
        let data = |slot: usize| evidence[slot].read.expect("it was read");
        let fits = |slot: u8| {
            let block = &evidence[usize::from(slot)];
            let zeros = self.ranges[id].rows.zeros.contains(slot);
            block.read.is_some() && block.read == block.kept && !zeros
        };
        if self.mutated(Mutation::TrustAgreement) && shape.all().iter().all(fits) {
            return Outcome::Nothing;
        }
        if verdict == (Verdict::AsRead { proved: true }) && there.iter().all(fits) {
            let sums = (0..shape.data).map(|slot| (slot, data(usize::from(slot))));
            let sum = Some(RowSum::of(sums));
            let mut parity = shape.redundant().and(there).iter();
            if parity.all(|slot| evidence[usize::from(slot)].row_sum == sum) {
                return Outcome::Nothing;
            }
        }
        Outcome::Decided(verdict)
    }

    fn reconstruct(
        &mut self,
        id: RangeId,
        disproved: u32,
        erased: SlotSet,
        sources: SlotSet,
        proved: bool,
    ) -> Next {
        let range = &mut self.ranges[id];
        range.rows.settling = Settling::Reconstructing { disproved, proved };
        range.plan.reads = sources;
        range.plan.recover = erased;
        range.plan.steps = Steps::NONE.with(Step::Recover).with(Step::Prove);
        self.take_step(id, Step::Recover);
        Next::Wait
    }

    /// Gives up data that nothing proves: lists it as lost, and writes zeros when that is durable.
    fn settle_lost(&mut self, id: RangeId, gone: SlotSet) -> Next {
        let shape = self.ranges[id].shape;
        let parity = self.ranges[id].rows.read_checksums.and(shape.redundant());
        if self.settings.trust_unsettled && parity.count() >= gone.count() {
            let sources = shape.all_data().minus(gone).or(parity.lowest(gone.count()));
            return self.reconstruct(id, 0, gone, sources, false);
        }
        if gone
            .iter()
            .all(|slot| self.bad.is_listed_lost(&self.ranges, id, slot))
        {
            let range = &mut self.ranges[id];
            range.rows.zeros = gone;
            range.rows.settling = Settling::Reading { disproved: 0 };
            return self.settle_first_rows(id);
        }
        if self.wants_proof(id) {
            return self.stays_in_doubt(id);
        }
        if self.writes_nothing() {
            return self.ranges[id].give_up(); // The data may be there at the next opening.
        }
        for slot in gone.iter() {
            let blocks = self.ranges.array_blocks(id, slot);
            if !self.bad.add(BadBlockKind::Lost, blocks.clone()) {
                self.outbox.put(Output::Event(Event::TooMuchLost));
                return self.ranges[id].give_up();
            }
            self.report_lost(BlockIndex(blocks.start), self.ranges[id].blocks);
        }
        self.ranges[id].rows.settling = Settling::No;
        self.unpin_pages(id);
        self.write_area(AreaKind::BAD_BLOCKS);
        self.begin_settling(id)
    }

    /// Reports lost blocks. Placing repairs those that the stage covers, so they are left out.
    fn report_lost(&mut self, first: BlockIndex, blocks: u32) {
        let mut done = 0;
        while done < blocks {
            let (block, left) = (first.plus(done.into()), blocks - done);
            let staging = self.staging.as_ref();
            let cut = staging.and_then(|staging| staging.stage.cover().cut(block, left).next());
            let (blocks, is_covered) =
                cut.map_or((left, false), |cut| (cut.blocks, cut.contents.is_some()));
            if !is_covered {
                self.outbox
                    .put(Output::Event(Event::Lost { block, blocks }));
            }
            done += blocks;
        }
    }

    /// Handles the result of a computation for rows with parity.
    pub(crate) fn settling_computed(&mut self, id: RangeId, step: Step) -> Next {
        let range = &self.ranges[id];
        match (range.rows.settling, step) {
            (Settling::Reconstructing { .. }, Step::Recover) => {
                let erased = range.plan.recover;
                self.checksum_made(id, Step::Prove, erased);
                Next::Wait
            }
            (Settling::Reconstructing { disproved, proved }, Step::Prove) => {
                let blocks = range.blocks;
                let is_proved = |row| !proved || self.is_reconstructed(id, row);
                if (0..blocks).all(is_proved) || self.mutated(Mutation::TrustRecovered) {
                    return self.encode_settled(id, proved);
                }
                if blocks > 1 {
                    // Decide row by row: the verdict may differ between rows.
                    let range = &mut self.ranges[id];
                    range.blocks = 1;
                    return self.ranges[id].read_again(disproved);
                }
                let last = self.mutated(Mutation::TryOnce);
                self.ranges[id].read_again(if last { u32::MAX } else { disproved + 1 })
            }
            (Settling::Encoding { .. }, Step::Encode) => {
                let made = range.rows.made_checksums.or(range.plan.encode);
                self.checksum_made(id, Step::Witness, made);
                Next::Wait
            }
            (Settling::Encoding { proved }, Step::Witness) => self.write_settled(id, proved),
            (settling, step) => panic!("{step:?} came back while {settling:?}"),
        }
    }

    /// Returns true if the row sum of a parity of the row is that of the data now.
    fn is_reconstructed(&self, id: RangeId, row: u32) -> bool {
        let shape = self.ranges[id].shape;
        let evidence = self.evidence(id, row);
        let evidence = &evidence[..usize::from(shape.slots)];
        let used = self.ranges[id].plan.reads.and(shape.redundant());
        let fits = |slot: u8| {
            let block = &evidence[usize::from(slot)];
            block.read == block.kept
        };
        if self.mutated(Mutation::LinearRowSum) && used.iter().all(fits) {
            return true;
        }
        let sum = self.row_sum_of(id, shape.all_data(), row);
        sum.is_some_and(|sum| proves(shape, evidence, sum))
    }

    /// Computes parity from the data of the rows, all of which is known and at hand.
    fn encode_settled(&mut self, id: RangeId, proved: bool) -> Next {
        let shape = self.ranges[id].shape;
        let parity = shape
            .redundant()
            .minus(self.ranges.missing_slots(&self.members, id));
        let range = &mut self.ranges[id];
        range.rows.settling = Settling::Encoding { proved };
        range.plan.encode = parity;
        range.plan.steps = Steps::NONE.with(Step::Encode).with(Step::Witness);
        if parity.is_empty() {
            return self.write_settled(id, proved);
        }
        self.take_step(id, Step::Encode);
        Next::Wait
    }

    /// Writes the blocks that differ from the data and the parity that belongs to it.
    fn write_settled(&mut self, id: RangeId, proved: bool) -> Next {
        let shape = self.ranges[id].shape;
        let there = shape
            .all()
            .minus(self.ranges.missing_slots(&self.members, id));
        let range = &self.ranges[id];
        let (made, read, blocks) = (
            range.rows.made_checksums,
            range.rows.read_checksums,
            range.blocks,
        );
        let zeros = range.rows.zeros;
        let wants_proof = !proved && self.wants_proof(id);
        let (mut writes, mut changed) = (SlotSet::EMPTY, false);
        for row in 0..blocks {
            let row_sum = self.row_sum_of(id, shape.all_data(), row);
            let row_sum = row_sum.expect("all data is known");
            for slot in there.iter() {
                let sums = if made.contains(slot) {
                    Some(ChecksumsOf::Made)
                } else if zeros.contains(slot) {
                    None
                } else {
                    Some(ChecksumsOf::Read)
                };
                let sum = match sums {
                    None => self.checksum_of_zeros(),
                    Some(sums) => {
                        let range = self.workspace.checksums_range(&self.ranges, id, sums, slot);
                        self.workspace.checksums()[range.start + index(row)]
                    }
                };
                let was_read = read.contains(slot) && !zeros.contains(slot);
                let same = was_read
                    && self.checksum_at(id, ChecksumsOf::Read, slot, row) == stored_checksum(sum);
                if !same {
                    writes = writes.with(slot);
                }
                let parity = shape.redundant().contains(slot);
                let row_sum = if parity { row_sum } else { RowSum::NONE };
                if !wants_proof {
                    changed |= self.correct_entry(id, slot, row, sum, row_sum);
                }
            }
        }
        if wants_proof && writes.is_empty() && self.ranges[id].lacks_nothing() {
            return self.write_settled(id, true); // All redundancy agrees.
        }
        if wants_proof {
            return self.stays_in_doubt(id);
        }
        self.ranges[id].settle_with(writes, changed || !writes.is_empty())
    }

    /// Continues when all writes of the current rows are done.
    pub(crate) fn rows_settled(&mut self, id: RangeId) -> Next {
        let range = &mut self.ranges[id];
        if range.error.is_some() {
            return Next::Done;
        }
        let agrees = range.rows.settling == Settling::Agreeing;
        if agrees && range.plan.steps.contains(Step::Flush) {
            // Contents that are read from now on must stay true, and parts of the rows may be
            // logged.
            range.seen.mismatch = true;
            range.rows.settling = Settling::Flushing;
            let way = Way::Settled;
            return Next::Flush(Past {
                way,
                was_bad: false,
            });
        }
        let range = &mut self.ranges[id];
        range.rows.settling = Settling::Done;
        range.rows.zeros = SlotSet::EMPTY;
        // Unreadable blocks were rewritten.
        range.rows.unreadable = SlotSet::EMPTY;
        range.rows.rotten = SlotSet::EMPTY;
        range.plan.writes = SlotSet::EMPTY;
        self.unpin_pages(id);
        if self.ranges[id].ask == Ask::Settle {
            return Next::RowsDone;
        }
        Next::Plan
    }
}

//! `Computing`: the computations in the plan of a stripe range.

use crate::{
    Engine, RangeId, index,
    output::Output,
    plan::{Strategy, Work},
    ranges::{Owner, Phase},
    slots::SlotSet,
};
use spindles_block::{BufferSlice, Computation, Compute, ComputeResult, Operand, StepId};

impl Engine {
    /// Begins the computation after `done`, or commits.
    pub(crate) fn work(&mut self, id: RangeId, done: Option<Work>) {
        let Some(work) = self.ranges[id].plan.work_after(done) else {
            return self.commit(id);
        };
        self.work_step(id, work);
    }

    /// Begins a computation.
    pub(crate) fn work_step(&mut self, id: RangeId, work: Work) {
        let base = self.workspace.operands_start(id);
        let mut cursor = base;
        self.put_sources(id, work, &mut cursor);
        let sources = count(cursor - base);
        self.ranges[id].sources = sources;
        self.put_targets(id, work, &mut cursor);
        let range = &mut self.ranges[id];
        range.targets = count(cursor - base) - sources;
        range.move_to(Phase::Computing(work));
        self.output(Output::Compute(StepId(id.0)));
    }

    /// Adds the operands that a computation reads.
    fn put_sources(&mut self, id: RangeId, work: Work, cursor: &mut usize) {
        let (plan, touched) = (self.ranges[id].plan, self.ranges[id].touched);
        let shape = self.shape(id);
        match work {
            Work::Locate => self.put(id, cursor, plan.reads, Self::read_place),
            Work::Verify => {
                let rows = &mut self.ranges[id].rows;
                let read = plan.reads.minus(rows.zeros);
                (rows.read_checksums, rows.made_checksums) = (read, SlotSet::EMPTY);
                self.put(id, cursor, read, Self::read_place);
            }
            Work::Recover => {
                let read = plan.reads.lowest(u32::from(shape.data));
                self.put(id, cursor, read, Self::read_place);
            }
            Work::Update => {
                for slot in touched.iter() {
                    self.operand(id, cursor, slot, self.row(id, slot));
                    self.operand(id, cursor, slot, self.client(id, slot));
                }
            }
            Work::Encode => self.put(id, cursor, shape.all_data(), Self::new_place),
            Work::Fill => self.put(id, cursor, self.filled(id), |_, _, _| BufferSlice::ZEROS),
            Work::Keep => self.put(id, cursor, touched, Self::client),
            Work::Compare => {
                for slot in plan.writes.minus(plan.writes_always).iter() {
                    let (is, should_be) = if shape.copies {
                        let truth = plan.reads.first().expect("a copy was read");
                        (self.read_place(id, slot), self.read_place(id, truth))
                    } else {
                        (self.row(id, slot), self.witness_row(id, slot))
                    };
                    self.operand(id, cursor, slot, is);
                    self.operand(id, cursor, slot, should_be);
                }
            }
            Work::Prove => {
                let made = self.ranges[id].rows.made_checksums;
                self.put(id, cursor, made, |engine, id, slot| {
                    if shape.all_data().contains(slot) {
                        engine.read_place(id, slot)
                    } else {
                        engine.parity_place(id, slot)
                    }
                });
            }
            Work::Checksum => {
                let new = self.ranges[id].rows.new_checksums;
                self.put(id, cursor, new, Self::write_source);
            }
        }
    }

    /// Adds the operands that a computation writes.
    fn put_targets(&mut self, id: RangeId, work: Work, cursor: &mut usize) {
        let (plan, touched) = (self.ranges[id].plan, self.ranges[id].touched);
        match work {
            Work::Recover => self.put(id, cursor, plan.recover, Self::read_place),
            Work::Update => self.put(id, cursor, plan.reads.minus(touched), Self::row),
            Work::Encode => self.put(id, cursor, plan.encode, Self::parity_place),
            Work::Fill => self.put(id, cursor, self.filled(id), Self::client),
            Work::Keep => self.put(id, cursor, touched, Self::row),
            Work::Locate | Work::Verify | Work::Compare | Work::Prove | Work::Checksum => {}
        }
    }

    /// Returns the slots of a read that are zeros, and are not read.
    fn filled(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        match range.plan.strategy {
            Strategy::Zeros => range.touched,
            _ => range.touched.and(range.rows.zeros),
        }
    }

    /// Adds an operand for each of these slots.
    #[inline]
    fn put(
        &mut self,
        id: RangeId,
        cursor: &mut usize,
        slots: SlotSet,
        place: impl Fn(&Self, RangeId, u8) -> BufferSlice,
    ) {
        for slot in slots.iter() {
            self.operand(id, cursor, slot, place(self, id, slot));
        }
    }

    fn operand(&mut self, id: RangeId, cursor: &mut usize, slot: u8, slice: BufferSlice) {
        let code_index = self.groups[id.index()].slots()[usize::from(slot)].code_index;
        let operand = Operand {
            index: code_index,
            slice,
        };
        self.workspace.set_operand(*cursor, operand);
        *cursor += 1;
    }

    /// Returns the computation that `Output::Compute(id)` asks for.
    pub fn step(&self, id: StepId) -> Computation<'_> {
        let range = &self.ranges[RangeId(id.0)];
        let Phase::Computing(work) = range.phase() else {
            panic!("a step is asked for in phase {:?}", range.phase());
        };
        let start = self.workspace.operands_start(RangeId(id.0));
        let (sources, rest) = self
            .workspace
            .operands(start)
            .split_at(usize::from(range.sources));
        Computation {
            compute: match work {
                Work::Recover | Work::Encode => Compute::Solve,
                Work::Update => Compute::Update,
                Work::Fill | Work::Keep => Compute::Copy,
                Work::Compare => Compute::Compare,
                Work::Locate => Compute::Locate,
                Work::Checksum | Work::Verify | Work::Prove => Compute::Checksum,
            },
            data_chunks: range.shape.data,
            parity_chunks: range.shape.parity(),
            blocks: range.blocks,
            sources,
            targets: &rest[..usize::from(range.targets)],
        }
    }

    /// Returns the space for the checksums of a step that asks for them: first those of all blocks
    /// of the first source, then of the second, and so on.
    pub fn checksums_mut(&mut self, id: StepId) -> &mut [u32] {
        let range = &self.ranges[RangeId(id.0)];
        assert!(
            matches!(
                range.phase(),
                Phase::Computing(Work::Checksum | Work::Verify | Work::Prove)
            ),
            "checksums of a range that computes none"
        );
        let count = usize::from(range.sources) * index(range.blocks);
        let first = match range.phase() {
            Phase::Computing(Work::Prove) => range.rows.read_checksums.count(),
            Phase::Computing(Work::Checksum) => {
                range.rows.read_checksums.count() + range.rows.made_checksums.count()
            }
            _ => 0,
        };
        let first = index(first * range.blocks);
        let start = self.workspace.checksums_start(RangeId(id.0)) + first;
        self.workspace.checksums_mut(start..start + count)
    }

    /// Returns the most checksums that a step asks for.
    pub fn checksums_max(&self) -> usize {
        self.workspace.checksums_each()
    }

    /// Handles the result of a computation of a stripe range.
    pub(crate) fn range_computed(&mut self, id: RangeId, result: ComputeResult) {
        let proves = self.has_checksums();
        let range = &mut self.ranges[id];
        let Phase::Computing(work) = range.phase() else {
            panic!("a computation came back in phase {:?}", range.phase());
        };
        if range.owner == Owner::Replay {
            return self.replay_computed(id, work);
        }
        let settles = range.rows.settling.is_under_way() && !range.shape.copies;
        let recovers = range.plan.recover.and(range.shape.all_data());
        match work {
            Work::Checksum => return self.checksums_ready(id),
            Work::Keep => return self.answer_logged(id),
            Work::Fill if range.plan.strategy != Strategy::Zeros => return self.read_planned(id),
            Work::Verify => return self.verified(id),
            Work::Recover | Work::Encode | Work::Prove if settles => {
                return self.settling_computed(id, work);
            }
            Work::Recover if proves && !recovers.is_empty() => {
                return self.checksum_made(id, recovers);
            }
            Work::Prove => return self.recovered(id),
            _ => {}
        }
        if work == Work::Locate && result != ComputeResult::Done {
            return self.scrub_disagrees(id, result);
        }
        if work == Work::Compare {
            match result {
                ComputeResult::Done => range.plan.writes = range.plan.writes_always,
                ComputeResult::Mismatch => range.seen.mismatch = true,
                ComputeResult::Located(_) => panic!("nothing was to be located"),
            }
        }
        self.work(id, Some(work));
    }
}

fn count(operands: usize) -> u16 {
    u16::try_from(operands).expect("operands of one range")
}

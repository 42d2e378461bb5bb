//! Takes the steps of a plan up to the commit, and carries out computations.

use crate::{
    Engine, RangeId, index, output::Output, plan::Step, slots::SlotSet, staging::STAGE_STEP,
    stripe::Stage,
};
use spindles_block::{BufferSlice, Computation, StepId};

impl Engine {
    /// Begins a computation before the commit.
    pub(crate) fn take_step(&mut self, id: RangeId, step: Step) {
        self.compute(id, step, Stage::Computing(step));
    }

    /// Begins a computation, in this stage.
    pub(super) fn compute(&mut self, id: RangeId, step: Step, stage: Stage) {
        let base = self.workspace.operands_start(id);
        let mut cursor = base;
        self.put_sources(id, step, &mut cursor);
        let sources = count(cursor - base);
        self.ranges[id].sources = sources;
        self.put_targets(id, step, &mut cursor);
        let range = &mut self.ranges[id];
        assert!(
            range.plan.steps.contains(step),
            "{step:?} is not in the plan"
        );
        range.targets = count(cursor - base) - sources;
        range.move_to(stage);
        self.outbox.put(Output::Compute(StepId(id.0)));
    }

    /// Adds the operands that a computation reads.
    fn put_sources(&mut self, id: RangeId, step: Step, cursor: &mut usize) {
        let (plan, touched) = (self.ranges[id].plan, self.ranges[id].touched);
        let shape = self.ranges[id].shape;
        match step {
            Step::Locate => self.put(id, cursor, plan.reads, Self::read_place),
            Step::Verify => {
                let rows = &mut self.ranges[id].rows;
                let read = plan.reads.minus(rows.zeros);
                (rows.read_checksums, rows.made_checksums) = (read, SlotSet::EMPTY);
                self.put(id, cursor, read, Self::read_place);
            }
            Step::Recover => {
                let read = plan.reads.lowest(u32::from(shape.data));
                self.put(id, cursor, read, Self::read_place);
            }
            Step::Update => {
                for slot in touched.iter() {
                    self.workspace
                        .put_operand(&self.ranges, id, cursor, slot, self.row(id, slot));
                    self.workspace.put_operand(
                        &self.ranges,
                        id,
                        cursor,
                        slot,
                        self.client(id, slot),
                    );
                }
            }
            Step::Encode => self.put(id, cursor, shape.all_data(), Self::new_place),
            Step::Fill => self.put(id, cursor, self.ranges[id].filled(), |_, _, _| {
                BufferSlice::ZEROS
            }),
            Step::Keep => self.put(id, cursor, touched, Self::client),
            Step::Compare => {
                for slot in plan.writes.minus(plan.writes_always).iter() {
                    let (is, should_be) = if shape.copies {
                        let truth = plan.reads.first().expect("a copy was read");
                        (self.read_place(id, slot), self.read_place(id, truth))
                    } else {
                        (self.row(id, slot), self.witness_row(id, slot))
                    };
                    self.workspace
                        .put_operand(&self.ranges, id, cursor, slot, is);
                    self.workspace
                        .put_operand(&self.ranges, id, cursor, slot, should_be);
                }
            }
            Step::Prove | Step::Witness => {
                let made = self.ranges[id].rows.made_checksums;
                self.put(id, cursor, made, |engine, id, slot| {
                    if shape.all_data().contains(slot) {
                        engine.read_place(id, slot)
                    } else {
                        engine.parity_place(id, slot)
                    }
                });
            }
            Step::Checksum => {
                let new = self.ranges[id].rows.new_checksums;
                self.put(id, cursor, new, Self::write_source);
            }
            Step::Read | Step::Commit | Step::Log | Step::Write | Step::Flush => {
                panic!("{step:?} computes nothing")
            }
        }
    }

    /// Adds the operands that a computation writes.
    fn put_targets(&mut self, id: RangeId, step: Step, cursor: &mut usize) {
        let (plan, touched) = (self.ranges[id].plan, self.ranges[id].touched);
        match step {
            Step::Recover => self.put(id, cursor, plan.recover, Self::read_place),
            Step::Update => self.put(id, cursor, plan.reads.minus(touched), Self::row),
            Step::Encode => self.put(id, cursor, plan.encode, Self::parity_place),
            Step::Fill => self.put(id, cursor, self.ranges[id].filled(), Self::client),
            Step::Keep => self.put(id, cursor, touched, Self::row),
            _ => {}
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
            self.workspace
                .put_operand(&self.ranges, id, cursor, slot, place(self, id, slot));
        }
    }

    /// Returns the computation that `Output::Compute(id)` asks for.
    pub fn step(&self, id: StepId) -> Computation<'_> {
        if id == STAGE_STEP {
            let staging = self.staging.as_ref().expect("the stage computes");
            return staging.computation();
        }
        let range = &self.ranges[RangeId(id.0)];
        let Some(step) = range.stage().step() else {
            panic!("a step is asked for in stage {:?}", range.stage());
        };
        let start = self.workspace.operands_start(RangeId(id.0));
        let (sources, rest) = self
            .workspace
            .operands(start)
            .split_at(usize::from(range.sources));
        Computation {
            compute: step.compute().expect("a step that computes"),
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
        if id == STAGE_STEP {
            return self.staging().checksums_mut();
        }
        if self.ranges[RangeId(id.0)].stage() == Stage::Summing {
            return self.staged_checksums(RangeId(id.0));
        }
        let range = &self.ranges[RangeId(id.0)];
        let count = usize::from(range.sources) * index(range.blocks);
        let rows = &range.rows;
        let first = match range.stage().step() {
            Some(Step::Verify) => 0,
            Some(Step::Prove | Step::Witness) => rows.read_checksums.count(),
            Some(Step::Checksum) => rows.read_checksums.count() + rows.made_checksums.count(),
            _ => panic!("checksums of a range that computes none"),
        };
        let first = index(first * range.blocks);
        let start = self.workspace.checksums_start(RangeId(id.0)) + first;
        self.workspace.checksums_mut(start..start + count)
    }

    /// Returns the most checksums that a step asks for.
    pub fn checksums_max(&self) -> usize {
        self.workspace.checksums_each()
    }
}

fn count(operands: usize) -> u16 {
    u16::try_from(operands).expect("operands of one range")
}

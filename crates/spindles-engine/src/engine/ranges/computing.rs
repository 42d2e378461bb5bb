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
        let plan = self.ranges[id].plan;
        let touched = self.ranges[id].touched;
        match work {
            Work::Locate | Work::Verify => {
                if work == Work::Verify {
                    let range = &mut self.ranges[id];
                    let read = plan.reads.minus(range.rows.zeros);
                    (range.rows.read_checksums, range.rows.made_checksums) = (read, SlotSet::EMPTY);
                }
                let zeros = match work {
                    Work::Verify => self.ranges[id].rows.zeros,
                    _ => SlotSet::EMPTY,
                };
                for slot in plan.reads.minus(zeros).iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
            }
            Work::Recover => {
                for slot in plan.reads.lowest(u32::from(self.shape(id).data)).iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
                for slot in plan.recover.iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
            }
            Work::Update => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
                for slot in plan.reads.minus(touched).iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                }
            }
            Work::Encode => {
                for slot in 0..self.shape(id).data {
                    self.operand(id, &mut cursor, slot, self.new_place(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
                for slot in plan.encode.iter() {
                    self.operand(id, &mut cursor, slot, self.parity_place(id, slot));
                }
            }
            Work::Fill => {
                let filled = match plan.strategy {
                    Strategy::Zeros => touched,
                    _ => touched.and(self.ranges[id].rows.zeros),
                };
                for slot in filled.iter() {
                    self.operand(id, &mut cursor, slot, BufferSlice::ZEROS);
                }
                self.ranges[id].sources = count(cursor - base);
                for slot in filled.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
            }
            Work::Keep => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                }
            }
            Work::Compare => {
                for slot in plan.writes.minus(plan.writes_always).iter() {
                    let (is, should_be) = if self.shape(id).copies {
                        let truth = plan.reads.first().expect("a copy was read");
                        (self.read_place(id, slot), self.read_place(id, truth))
                    } else {
                        (self.row(id, slot), self.witness_row(id, slot))
                    };
                    self.operand(id, &mut cursor, slot, is);
                    self.operand(id, &mut cursor, slot, should_be);
                }
                self.ranges[id].sources = count(cursor - base);
            }
            Work::Prove => {
                let data = self.shape(id).all_data();
                for slot in self.ranges[id].rows.made_checksums.iter() {
                    let place = if data.contains(slot) {
                        self.read_place(id, slot)
                    } else {
                        self.parity_place(id, slot)
                    };
                    self.operand(id, &mut cursor, slot, place);
                }
                self.ranges[id].sources = count(cursor - base);
            }
            Work::Checksum => {
                for slot in self.ranges[id].rows.new_checksums.iter() {
                    self.operand(id, &mut cursor, slot, self.write_source(id, slot));
                }
                self.ranges[id].sources = count(cursor - base);
            }
        }
        let range = &mut self.ranges[id];
        range.targets = count(cursor - base) - range.sources;
        range.move_to(Phase::Computing(work));
        self.output(Output::Compute(StepId(id.0)));
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

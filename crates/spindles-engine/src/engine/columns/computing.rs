//! `Computing`: the steps that the plan of a column asks for.

use crate::{
    Engine, Mutation,
    columns::{Owner, Phase},
    index,
    output::Output,
    plan::{Strategy, Work},
    slots::SlotSet,
};
use spindles_block::{BufferSlice, Compute, ComputeResult, Operand, Step, StepId};

impl Engine {
    /// The computation after `done`, or the commit.
    pub(crate) fn work(&mut self, id: u32, done: Option<Work>) {
        let Some(work) = self.columns[index(id)].plan.work_after(done) else {
            return self.commit(id);
        };
        self.work_step(id, work);
    }

    /// Asks for a computation.
    pub(crate) fn work_step(&mut self, id: u32, work: Work) {
        let base = index(id) * self.operands_per_column();
        let mut cursor = base;
        let plan = self.columns[index(id)].plan;
        let touched = self.columns[index(id)].touched;
        match work {
            Work::Locate | Work::Verify => {
                if work == Work::Verify {
                    let column = &mut self.columns[index(id)];
                    let read = plan.reads.minus(column.zeros);
                    (column.read_sums, column.made_sums) = (read, SlotSet::EMPTY);
                }
                let zeros = match work {
                    Work::Verify => self.columns[index(id)].zeros,
                    _ => SlotSet::EMPTY,
                };
                for slot in plan.reads.minus(zeros).iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
            }
            Work::Recover => {
                for slot in plan.reads.lowest(u32::from(self.shape(id).data)).iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in plan.recover.iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
            }
            Work::Update => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in plan.reads.minus(touched).iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                }
            }
            Work::Encode => {
                for slot in 0..self.shape(id).data {
                    self.operand(id, &mut cursor, slot, self.new_place(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in plan.encode.iter() {
                    self.operand(id, &mut cursor, slot, self.parity_place(id, slot));
                }
            }
            Work::Fill => {
                let filled = match plan.strategy {
                    Strategy::Zeros => touched,
                    _ => touched.and(self.columns[index(id)].zeros),
                };
                for slot in filled.iter() {
                    self.operand(id, &mut cursor, slot, BufferSlice::ZEROS);
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in filled.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
            }
            Work::Keep => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                }
            }
            Work::Deliver => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.row(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
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
                self.columns[index(id)].sources = count(cursor - base);
            }
            Work::Prove => {
                let data = self.shape(id).all_data();
                for slot in self.columns[index(id)].made_sums.iter() {
                    let place = if data.contains(slot) {
                        self.read_place(id, slot)
                    } else {
                        self.parity_place(id, slot)
                    };
                    self.operand(id, &mut cursor, slot, place);
                }
                self.columns[index(id)].sources = count(cursor - base);
            }
            Work::Checksum => {
                for slot in self.columns[index(id)].new_sums.iter() {
                    self.operand(id, &mut cursor, slot, self.write_source(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
            }
        }
        let column = &mut self.columns[index(id)];
        column.targets = count(cursor - base) - column.sources;
        column.move_to(Phase::Computing(work));
        self.output(Output::Compute(StepId(id)));
    }

    pub(crate) fn operands_per_column(&self) -> usize {
        self.operands.len() / self.columns.len()
    }

    fn operand(&mut self, id: u32, cursor: &mut usize, slot: u8, slice: BufferSlice) {
        let code_index = self.groups[index(id)].slots()[usize::from(slot)].code_index;
        self.operands[*cursor] = Operand {
            index: code_index,
            slice,
        };
        *cursor += 1;
    }

    /// What `Output::Compute(id)` asks for.
    pub fn step(&self, id: StepId) -> Step<'_> {
        let column = &self.columns[index(id.0)];
        let Phase::Computing(work) = column.phase() else {
            panic!("a step is asked for in phase {:?}", column.phase());
        };
        let base = index(id.0) * self.operands_per_column();
        let (sources, rest) = self.operands[base..].split_at(usize::from(column.sources));
        Step {
            compute: match work {
                Work::Recover | Work::Encode => Compute::Solve,
                Work::Update => Compute::Update,
                Work::Fill | Work::Keep | Work::Deliver => Compute::Copy,
                Work::Compare => Compute::Compare,
                Work::Locate => Compute::Locate,
                Work::Checksum | Work::Verify | Work::Prove => Compute::Checksum,
            },
            data_chunks: column.shape.data,
            parity_chunks: column.shape.parity(),
            blocks: column.blocks,
            sources,
            targets: &rest[..usize::from(column.targets)],
        }
    }

    /// Where the driver puts the checksums of a step that asks for them: those of all blocks of
    /// the first source, then of the second, and so on.
    pub fn checksums_mut(&mut self, id: StepId) -> &mut [u32] {
        let column = &self.columns[index(id.0)];
        assert!(
            matches!(
                column.phase(),
                Phase::Computing(Work::Checksum | Work::Verify | Work::Prove)
            ),
            "checksums nobody asked for"
        );
        let count = usize::from(column.sources) * index(column.blocks);
        let first = match column.phase() {
            Phase::Computing(Work::Prove) => column.read_sums.count(),
            Phase::Computing(Work::Checksum) => column.read_sums.count() + column.made_sums.count(),
            _ => 0,
        };
        let first = index(first * column.blocks);
        let start = index(id.0) * self.checksums_of_column + first;
        &mut self.checksums[start..start + count]
    }

    /// How many checksums a step asks for at most.
    pub fn checksums_max(&self) -> usize {
        self.checksums_of_column
    }

    /// A step of computation of a column came back.
    pub(crate) fn column_computed(&mut self, id: u32, result: ComputeResult) {
        let believes = self.mutated(Mutation::BlindScrub);
        let proves = self.has_checksums();
        let column = &mut self.columns[index(id)];
        let Phase::Computing(work) = column.phase() else {
            panic!("a computation came back in phase {:?}", column.phase());
        };
        if column.owner == Owner::Replay {
            return self.replay_computed(id, work);
        }
        let settles = column.settling.is_under_way() && !column.shape.copies;
        let recovers = column.plan.recover.and(column.shape.all_data());
        match work {
            Work::Checksum => return self.summed_up(id),
            Work::Keep => return self.answer_logged(id),
            Work::Deliver => return self.delivered(id),
            Work::Fill if column.plan.strategy != Strategy::Zeros => return self.read_planned(id),
            Work::Verify => return self.verified(id),
            Work::Recover | Work::Encode | Work::Prove if settles => {
                return self.settling_computed(id, work);
            }
            Work::Recover if proves && !recovers.is_empty() => {
                return self.sum_up_made(id, recovers);
            }
            Work::Prove => return self.recovered(id),
            _ => {}
        }
        if work == Work::Locate && result != ComputeResult::Done && !believes {
            return self.scrub_disagrees(id, result);
        }
        if work == Work::Compare {
            match result {
                ComputeResult::Done => column.plan.writes = column.plan.writes_always,
                ComputeResult::Mismatch => column.mismatch = true,
                ComputeResult::Located(_) => panic!("nothing was to be located"),
            }
        }
        self.work(id, Some(work));
    }
}

fn count(operands: usize) -> u16 {
    u16::try_from(operands).expect("operands of one column")
}

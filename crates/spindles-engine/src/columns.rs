//! The executor: carries out the plan of a column, step by step.
//!
//! ```text
//!  Starting ──▶ Locking ──▶ Reading ──▶ Computing ──▶ Committing ──▶ Writing ──▶ Acknowledging
//!      │        (Preparing)   │  ▲
//!      └────────lock-free─────┘  └── a read failed: another plan without that slot
//! ```
//!
//! Where writes are logged, `Committing` goes on to `Logging`, and comes back when what is to be
//! written is durable in the journal (`journal/`).
//!
//! Writes that wait for the same rows of one stripe are merged into the first of them. An error
//! before the commit asks for another plan; an error after it puts the member out and
//! goes on. `Preparing` waits until the region is ready to be written, `Committing` until it is durable
//! that the array and the region are dirty, `Acknowledging` until
//! it is durable which members are out.

use crate::{
    Engine, Mutation, SLOT_BITS, index,
    output::{OutReason, Output},
    plan::{Ask, Health, Plan, Strategy, Work, plan},
    slots::SlotSet,
};
use spindles_block::{
    BlockIndex, BufferSlice, Compute, ComputeResult, Instant, MemberError, MemberIndex, MemberIo,
    MemberIoId, MemberResult, MemberSet, Operand, Operation, RequestError, Step, StepId,
};
use spindles_layout::GroupIndex;

/// Ends the list of merged columns.
const NO_COLUMN: u32 = u32::MAX;

/// Whom a column works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Request(u32),
    /// The replay of what the journals hold.
    Replay,
    /// The row of the job's table.
    Job(u8),
    /// A place where a read failed is made readable again.
    Repair,
}

/// How far a column has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Starting,
    /// One operation on one member, without a plan.
    Direct,
    Flushing,
    Locking,
    /// Its region is not ready to be written, or is being given back.
    Preparing,
    Reading,
    Computing(Work),
    Committing,
    /// What is to be written goes into the journal.
    Logging,
    /// Of a replay: what the log lacks is computed from what is read in place.
    Recovering,
    Writing,
    Acknowledging,
    /// Done by the column that it was merged into.
    Merged,
}

/// A range of rows in the chunks of one group, and what is being done with it.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of one column, each set and read by itself"
)]
pub(crate) struct Column {
    pub(crate) phase: Phase,
    pub(crate) owner: Owner,
    pub(crate) ask: Ask,
    pub(crate) group: GroupIndex,
    /// The touched data slots, those of columns merged into this one included.
    pub(crate) touched: SlotSet,
    /// Those of this column alone.
    own: SlotSet,
    /// The next of the columns that were merged, `NO_COLUMN` after the last.
    merged: u32,
    /// Of a direct read.
    pub(crate) member: MemberIndex,
    /// The copy to read.
    preferred: u8,
    /// The first row, of a job's column.
    pub(crate) start: u32,
    /// The rows under way are `low..low + blocks`, the column's end is at `end`.
    pub(crate) low: u32,
    pub(crate) blocks: u32,
    pub(crate) end: u32,
    pub(crate) pending: u32,
    locked: bool,
    /// Of the reads under way, one failed.
    read_failed: bool,
    corrupt: bool,
    mismatch: bool,
    pub(crate) unreadable: SlotSet,
    /// Of the unreadable slots, those that can be read and hold wrong bytes.
    pub(crate) rotten: SlotSet,
    /// Of the unreadable slots, those that are made to agree with the others without being known
    /// to be wrong.
    pub(crate) overruled: SlotSet,
    /// Slots that refused what was to repair them.
    pub(crate) refused: SlotSet,
    /// When the reads under way were begun.
    pub(crate) issued: Instant,
    /// It computes what a slow member holds.
    pub(crate) around: bool,
    pub(crate) error: Option<RequestError>,
    pub(crate) plan: Plan,
    /// Slots that are zeros, and are not read (of a replay).
    pub(crate) zeros: SlotSet,
    /// What goes into the journal, or comes out of it: slots, and those of them with blocks.
    pub(crate) log_slots: SlotSet,
    pub(crate) log_data: SlotSet,
    /// The half of the journal that has it.
    pub(crate) log_half: Option<u8>,
    /// It writes, and is not in the journal.
    pub(crate) unlogged: bool,
    sources: u16,
    targets: u16,
}

impl Column {
    pub(crate) const fn free() -> Self {
        Self {
            phase: Phase::Free,
            owner: Owner::Nobody,
            ask: Ask::Read,
            group: GroupIndex(0),
            touched: SlotSet::EMPTY,
            own: SlotSet::EMPTY,
            merged: NO_COLUMN,
            member: MemberIndex(0),
            preferred: 0,
            start: 0,
            low: 0,
            blocks: 0,
            end: 0,
            pending: 0,
            locked: false,
            read_failed: false,
            corrupt: false,
            mismatch: false,
            unreadable: SlotSet::EMPTY,
            rotten: SlotSet::EMPTY,
            overruled: SlotSet::EMPTY,
            refused: SlotSet::EMPTY,
            issued: Instant(0),
            around: false,
            error: None,
            plan: Plan {
                strategy: Strategy::Direct,
                reads: SlotSet::EMPTY,
                recover: SlotSet::EMPTY,
                encode: SlotSet::EMPTY,
                writes: SlotSet::EMPTY,
                writes_always: SlotSet::EMPTY,
            },
            zeros: SlotSet::EMPTY,
            log_slots: SlotSet::EMPTY,
            log_data: SlotSet::EMPTY,
            log_half: None,
            unlogged: false,
            sources: 0,
            targets: 0,
        }
    }

    /// Whether it keeps others from its rows.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// What a column learns while it is carried out is forgotten.
    pub(crate) fn reset(&mut self) {
        self.own = self.touched;
        self.merged = NO_COLUMN;
        self.locked = false;
        self.read_failed = false;
        self.corrupt = false;
        self.mismatch = false;
        self.error = None;
        self.look_anew();
    }

    /// What is known of the rows under way is forgotten.
    pub(crate) fn look_anew(&mut self) {
        self.unreadable = SlotSet::EMPTY;
        self.rotten = SlotSet::EMPTY;
        self.overruled = SlotSet::EMPTY;
        self.refused = SlotSet::EMPTY;
    }
}

impl Engine {
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of one member I/O")]
    pub(crate) fn member_io(
        &mut self,
        column: u32,
        slot: u8,
        member: MemberIndex,
        operation: Operation,
        offset: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        let member = self.swapped(member, operation);
        let block = self.members[usize::from(member.0)]
            .data_start
            .plus(offset.0);
        self.output(Output::Member(MemberIo {
            id: MemberIoId(column << SLOT_BITS | u32::from(slot)),
            member,
            operation,
            block,
            blocks,
            buffer,
        }));
    }

    #[inline]
    fn swapped(&self, member: MemberIndex, operation: Operation) -> MemberIndex {
        let both = self.geometry.members() > 1 && self.lost.is_empty();
        if self.mutated(Mutation::SwapMembers)
            && both
            && operation == Operation::Read
            && member.0 < 2
        {
            return MemberIndex(1 - member.0);
        }
        member
    }

    /// The I/O of one slot of a column, at the column's rows.
    pub(crate) fn slot_io(&mut self, id: u32, slot: u8, operation: Operation, buffer: BufferSlice) {
        let column = &self.columns[index(id)];
        let (low, blocks) = (column.low, column.blocks);
        let place = self.groups[index(id)].slots()[usize::from(slot)];
        let offset = place.offset.plus(u64::from(low));
        if self.mirrors() {
            self.load(place.member, offset, blocks);
        }
        self.member_io(id, slot, place.member, operation, offset, blocks, buffer);
    }

    /// Whether there are copies to choose from.
    #[inline]
    pub(crate) fn mirrors(&self) -> bool {
        self.shape.copies && self.shape.slots > 1
    }

    /// The slot, member and place of the copy that a read takes; of slot 0 where none is there.
    /// Fills in the group of column `id`.
    #[inline(never)]
    pub(crate) fn locate_copy(
        &mut self,
        id: u32,
        group: GroupIndex,
        low: u32,
        blocks: u32,
    ) -> (u8, MemberIndex, BlockIndex) {
        self.geometry.group_into(group, &mut self.groups[index(id)]);
        self.columns[index(id)].low = low;
        let slot = self.choose_copy(id, self.slots_not_held(id, low + blocks));
        let place = self.groups[index(id)].slots()[usize::from(slot)];
        let offset = place.offset.plus(u64::from(low));
        let direct = !self.indirect.contains(place.member);
        if direct && self.holds(place.member, group, low + blocks) {
            self.load(place.member, offset, blocks);
        }
        (slot, place.member, offset)
    }

    fn load(&mut self, member: MemberIndex, offset: BlockIndex, blocks: u32) {
        let load = &mut self.members[usize::from(member.0)].load;
        load.in_flight += 1;
        load.last_end = offset.plus(u64::from(blocks));
    }

    /// The operation of a request as its members get it.
    #[inline]
    pub(crate) fn handed_down(&self, operation: Operation) -> Operation {
        match operation {
            Operation::Write { .. } if self.mutated(Mutation::SkipFua) => {
                Operation::Write { fua: false }
            }
            Operation::WriteZeroes { .. } if self.mutated(Mutation::SkipFua) => {
                Operation::WriteZeroes { fua: false }
            }
            operation => operation,
        }
    }

    /// Where a row of the column's scratch space is.
    pub(crate) fn row(&self, id: u32, row: u8) -> BufferSlice {
        let id = if self.mutated(Mutation::SharedScratch) {
            id / 2
        } else {
            id
        };
        let row = id * self.scratch_rows() + u32::from(row);
        BufferSlice {
            buffer: self.scratch,
            first_block: row * self.limits.column_blocks,
        }
    }

    /// Where parity `slot` as it should be is computed to, beside what was read.
    fn witness_row(&self, id: u32, slot: u8) -> BufferSlice {
        self.row(id, slot + (self.shape.slots - self.shape.data))
    }

    /// Where the client's data for data slot `slot` of the column is.
    fn client(&self, id: u32, slot: u8) -> BufferSlice {
        let mut column = &self.columns[index(id)];
        while !column.own.contains(slot) {
            column = &self.columns[index(column.merged)];
        }
        let Owner::Request(request) = column.owner else {
            panic!("a column that touches data belongs to a request");
        };
        let group = &self.groups[index(id)];
        let block = group
            .first_block
            .plus(u64::from(slot) * u64::from(group.blocks) + u64::from(column.low));
        self.requests[index(request)].place(block)
    }

    /// Where what is read from `slot` goes: to the client where it asked for it.
    pub(crate) fn read_place(&self, id: u32, slot: u8) -> BufferSlice {
        let column = &self.columns[index(id)];
        if column.zeros.contains(slot) {
            return BufferSlice::ZEROS;
        }
        if column.ask == Ask::Read {
            if self.shape.copies {
                // The copy that is the truth.
                if column.plan.reads.first() == Some(slot) {
                    return self.client(id, 0);
                }
            } else if column.touched.contains(slot) {
                return self.client(id, slot);
            }
        }
        self.row(id, slot)
    }

    /// Where the data of `slot` are as they shall be after the plan.
    fn new_place(&self, id: u32, slot: u8) -> BufferSlice {
        let column = &self.columns[index(id)];
        if column.ask == Ask::Write && column.touched.contains(slot) {
            return self.client(id, slot);
        }
        self.read_place(id, slot)
    }

    pub(crate) fn writes_zeros(&self, id: u32) -> bool {
        match self.columns[index(id)].owner {
            Owner::Request(request) => matches!(
                self.requests[index(request)].operation,
                Operation::Discard | Operation::WriteZeroes { .. }
            ),
            Owner::Nobody | Owner::Job(_) | Owner::Repair | Owner::Replay => false,
        }
    }

    /// Begins a column whose fields are set and whose group is filled in.
    pub(crate) fn start(&mut self, id: u32) {
        self.columns[index(id)].reset();
        self.plan_column(id);
    }

    /// As `start`, of a column in which a read of `slot` failed. Where that was a single block it
    /// is not read again: a disk may try for seconds.
    pub(crate) fn start_repair(&mut self, id: u32, slot: u8) {
        let column = &mut self.columns[index(id)];
        column.reset();
        if column.blocks == 1 {
            column.unreadable = SlotSet::one(slot);
        }
        self.plan_column(id);
    }

    /// What waited in `ready` goes on.
    pub(crate) fn run(&mut self, id: u32) {
        match self.columns[index(id)].phase {
            Phase::Locking => {
                self.columns[index(id)].locked = true;
                self.merge_waiting(id);
                self.plan_column(id);
            }
            Phase::Preparing => self.plan_column(id),
            Phase::Committing => self.commit(id),
            Phase::Acknowledging => self.acknowledge(id),
            phase => panic!("a column in phase {phase:?} is not ready"),
        }
    }

    /// The slots of the column's group whose members are missing.
    pub(crate) fn missing_slots(&self, id: u32) -> SlotSet {
        self.slots_of(id, self.missing)
    }

    /// The slots of the column's group on these members.
    pub(crate) fn slots_of(&self, id: u32, members: MemberSet) -> SlotSet {
        if members.is_empty() {
            return SlotSet::EMPTY;
        }
        let slots = self.groups[index(id)].slots();
        (0..self.shape.slots)
            .filter(|&slot| members.contains(slots[usize::from(slot)].member))
            .fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// The slots whose members can't be read in the rows below `end` of the group of the column.
    fn slots_not_held(&self, id: u32, end: u32) -> SlotSet {
        if self.lost.is_empty() {
            return SlotSet::EMPTY;
        }
        let group = &self.groups[index(id)];
        let slots = group.slots();
        (0..self.shape.slots)
            .filter(|&slot| !self.holds(slots[usize::from(slot)].member, group.index, end))
            .fold(SlotSet::EMPTY, SlotSet::with)
    }

    pub(crate) fn plan_column(&mut self, id: u32) {
        if self.has_bad_blocks() && self.mark_bad_slots(id) {
            return self.plan_column(id);
        }
        let missing = self.missing_slots(id);
        let Column {
            ask,
            group,
            touched,
            low,
            blocks,
            end,
            ..
        } = self.columns[index(id)];
        let not_held = self.slots_not_held(id, low + blocks);
        let mut unreadable = not_held.or(self.columns[index(id)].unreadable);
        let doubtful = self.unreplayed && !touched.and(unreadable).is_empty();
        let settled = self.settled(group, low + blocks) && !doubtful;
        let (mut around, mut probed) = (SlotSet::EMPTY, SlotSet::EMPTY);
        if settled && !self.unreplayed && !self.slow.members.is_empty() {
            (around, probed) = self.slow_slots(id);
            around = around.minus(unreadable);
            let others = self.shape.all().minus(unreadable).minus(around);
            if others.count() >= u32::from(self.shape.data) {
                unreadable = unreadable.or(around);
            }
        }
        let written = self.regions.is_written(group);
        let readable = if self.shape.copies || !written {
            settled
        } else {
            settled && touched.and(unreadable).is_empty()
        };
        // A read of what is there and settled sees the old or the new of a write in flight, as on
        // any disk; everything else must not meet one half-way.
        let alone = !(ask == Ask::Read && readable) && self.shape.slots > 1;
        let lock = alone
            && !self.mutated(Mutation::DropStripeLock)
            && !(ask == Ask::Scrub && self.mutated(Mutation::ScrubUnlocked));
        if lock && !self.columns[index(id)].locked {
            if !self.locks.acquire(id, group, low, end) {
                self.columns[index(id)].phase = Phase::Locking;
                return;
            }
            self.columns[index(id)].locked = true;
        }
        if alone && self.regions.stored && !self.region_is_open(id) {
            self.columns[index(id)].phase = Phase::Preparing;
            self.gated.push_back(id);
            return self.pump_releases();
        }
        if self.metadata.broken && !written && ask == Ask::Write {
            self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }

        let health = Health {
            // A scrub leaves what a rebuild has not come to yet to the rebuild.
            missing: if ask == Ask::Scrub { not_held } else { missing },
            unreadable,
            settled,
            written,
            trust_unsettled: self.trust_unsettled,
        };
        let preferred = if ask == Ask::Read && self.shape.copies {
            let probed = probed.minus(unreadable).first();
            probed.unwrap_or_else(|| self.choose_copy(id, unreadable))
        } else {
            0
        };
        let gives_up = self.mutated(Mutation::NoRecovery) && unreadable != not_held;
        let planned = plan(self.shape, health, ask, touched, preferred);
        let Some(mut plan) = planned.filter(|_| !gives_up) else {
            if ask == Ask::Scrub {
                return self.scrub_gives_up(id);
            }
            let error = if self.columns[index(id)].corrupt {
                RequestError::Corrupt
            } else {
                RequestError::BeyondTolerance
            };
            self.columns[index(id)].error.get_or_insert(error);
            return self.finish(id);
        };
        if plan.strategy == Strategy::FullStripeWrite && self.writes_zeros(id) {
            // The parity of zeros is zeros, for every linear code.
            plan.strategy = Strategy::Direct;
            plan.encode = SlotSet::EMPTY;
        }
        let scratch_max = self.limits.column_blocks;
        let column = &mut self.columns[index(id)];
        if plan.strategy != Strategy::Direct && column.blocks > scratch_max {
            // A direct read that failed goes on in pieces that fit the scratch space.
            column.blocks = scratch_max;
            return self.plan_column(id);
        }
        column.plan = plan;
        column.preferred = preferred;
        column.issued = self.now;
        if !plan.recover.and(around).is_empty() {
            self.goes_around(id);
        }
        if plan.reads.is_empty() {
            return self.work(id, None);
        }
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Reading;
        column.pending = plan.reads.count();
        for slot in plan.reads.iter() {
            let place = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Read, place);
        }
    }

    /// The readable copy with the lowest cost; 0 where none is readable.
    fn choose_copy(&mut self, id: u32, unreadable: SlotSet) -> u8 {
        let low = u64::from(self.columns[index(id)].low);
        let slots = self.groups[index(id)].slots();
        let chosen = self
            .shape
            .all()
            .minus(unreadable)
            .iter()
            .min_by_key(|&slot| {
                let place = &slots[usize::from(slot)];
                let load = &self.members[usize::from(place.member.0)].load;
                (
                    load.write_mostly,
                    (self.read_policy.cost)(load, place.offset.plus(low)),
                )
            })
            .unwrap_or(0);
        self.reads_chosen += 1;
        let member = slots[usize::from(chosen)].member;
        self.members[usize::from(member.0)].load.last_chosen = self.reads_chosen;
        chosen
    }

    /// A member I/O of a column came back.
    #[inline]
    pub(crate) fn column_io_done(&mut self, id: u32, slot: u8, result: MemberResult) {
        let column = &mut self.columns[index(id)];
        assert!(column.pending > 0, "a member I/O came back twice");
        column.pending -= 1;
        if column.phase == Phase::Direct {
            if self.shape.copies && self.shape.slots > 1 {
                self.members[usize::from(column.member.0)].load.in_flight -= 1;
            }
            let (ask, member, issued) = (column.ask, column.member, column.issued);
            return match result {
                Ok(()) => {
                    if ask == Ask::Read {
                        self.read_took(member, issued);
                    }
                    self.finish_direct(id);
                }
                Err(error) => self.direct_failed(id, slot, error),
            };
        }
        let done = column.pending == 0;
        let member = match column.phase {
            Phase::Flushing => MemberIndex(slot),
            _ => self.groups[index(id)].slots()[usize::from(slot)].member,
        };
        if column.phase != Phase::Flushing && self.mirrors() {
            self.members[usize::from(member.0)].load.in_flight -= 1;
        }
        match (self.columns[index(id)].phase, self.columns[index(id)].owner) {
            (Phase::Logging, _) => return self.journal_written(member, result),
            (_, Owner::Replay) => return self.replay_io_done(id, slot, result),
            _ => {}
        }
        let column = &self.columns[index(id)];
        if column.phase == Phase::Reading && column.ask == Ask::Read {
            self.read_took(member, column.issued);
        }
        match result {
            Ok(()) if self.has_bad_blocks() => self.forget_bad_blocks(id, slot),
            Ok(()) => {}
            Err(error) => self.column_io_failed(id, slot, member, error),
        }
        if !done {
            return;
        }
        let column = &mut self.columns[index(id)];
        match column.phase {
            Phase::Reading if column.read_failed => {
                column.read_failed = false;
                if column.ask == Ask::Scrub {
                    self.narrow(id);
                }
                self.plan_column(id);
            }
            Phase::Reading => self.work(id, None),
            Phase::Writing => self.written(id),
            Phase::Flushing => {
                if !self.lost.is_empty() && !self.geometry.survives(self.lost) {
                    self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
                }
                self.acknowledge(id);
            }
            phase => panic!("a member I/O came back in phase {phase:?}"),
        }
    }

    fn column_io_failed(&mut self, id: u32, slot: u8, member: MemberIndex, error: MemberError) {
        if self.columns[index(id)].phase == Phase::Reading {
            return self.read_failed(id, slot, member, error);
        }
        if self.repairs(id) && self.rewrite_refused(id, slot, error) {
            return;
        }
        if !self.put_out(member, OutReason::Error(error)) {
            self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
        }
    }

    fn read_failed(&mut self, id: u32, slot: u8, member: MemberIndex, error: MemberError) {
        let column = &mut self.columns[index(id)];
        column.read_failed = true;
        column.unreadable = column.unreadable.with(slot);
        column.corrupt |= error == MemberError::Corrupt;
        match error {
            MemberError::Gone => {
                self.put_out(member, OutReason::Error(error));
            }
            MemberError::Medium | MemberError::Corrupt => self.note_fault(id, slot, member, error),
        }
    }

    fn direct_failed(&mut self, id: u32, slot: u8, error: MemberError) {
        let column = &mut self.columns[index(id)];
        column.reset();
        column.phase = Phase::Starting;
        let (ask, member, group) = (column.ask, column.member, column.group);
        if ask == Ask::Write {
            self.put_out(member, OutReason::Error(error));
            self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }
        self.geometry.group_into(group, &mut self.groups[index(id)]);
        self.read_failed(id, slot, member, error);
        self.columns[index(id)].read_failed = false;
        self.plan_column(id);
    }

    /// The computation after `done`, or the commit.
    fn work(&mut self, id: u32, done: Option<Work>) {
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
            Work::Locate => {
                for slot in plan.reads.iter() {
                    self.operand(id, &mut cursor, slot, self.read_place(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
            }
            Work::Recover => {
                for slot in plan.reads.lowest(u32::from(self.shape.data)).iter() {
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
                for slot in 0..self.shape.data {
                    self.operand(id, &mut cursor, slot, self.new_place(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in plan.encode.iter() {
                    self.operand(id, &mut cursor, slot, self.parity_place(id, slot));
                }
            }
            Work::Fill => {
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, BufferSlice::ZEROS);
                }
                self.columns[index(id)].sources = count(cursor - base);
                for slot in touched.iter() {
                    self.operand(id, &mut cursor, slot, self.client(id, slot));
                }
            }
            Work::Compare => {
                for slot in plan.writes.minus(plan.writes_always).iter() {
                    let (is, should_be) = if self.shape.copies {
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
            Work::Checksum => {
                for slot in self.columns[index(id)].log_data.iter() {
                    self.operand(id, &mut cursor, slot, self.write_source(id, slot));
                }
                self.columns[index(id)].sources = count(cursor - base);
            }
        }
        let column = &mut self.columns[index(id)];
        column.targets = count(cursor - base) - column.sources;
        column.phase = Phase::Computing(work);
        self.output(Output::Compute(StepId(id)));
    }

    /// Where parity is as it shall be after the plan.
    fn parity_place(&self, id: u32, slot: u8) -> BufferSlice {
        match self.columns[index(id)].plan.strategy {
            Strategy::Settle => self.witness_row(id, slot),
            _ => self.row(id, slot),
        }
    }

    fn operands_per_column(&self) -> usize {
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
        let Phase::Computing(work) = column.phase else {
            panic!("a step is asked for in phase {:?}", column.phase);
        };
        let base = index(id.0) * self.operands_per_column();
        let (sources, rest) = self.operands[base..].split_at(usize::from(column.sources));
        Step {
            compute: match work {
                Work::Recover | Work::Encode => Compute::Solve,
                Work::Update => Compute::Update,
                Work::Fill => Compute::Copy,
                Work::Compare => Compute::Compare,
                Work::Locate => Compute::Locate,
                Work::Checksum => Compute::Checksum,
            },
            data_chunks: self.shape.data,
            parity_chunks: self.geometry.parity_chunks(),
            blocks: column.blocks,
            sources,
            targets: &rest[..usize::from(column.targets)],
        }
    }

    /// Where the driver puts the checksums of a step that asks for them: those of all blocks of
    /// the first source, then of the second, and so on.
    pub fn checksums_mut(&mut self, id: StepId) -> &mut [u32] {
        let column = &self.columns[index(id.0)];
        assert_eq!(
            column.phase,
            Phase::Computing(Work::Checksum),
            "checksums nobody asked for"
        );
        let count = usize::from(column.sources) * index(column.blocks);
        let start = index(id.0) * self.checksums_of_column;
        &mut self.checksums[start..start + count]
    }

    /// How many checksums a step asks for at most.
    pub fn checksums_max(&self) -> usize {
        self.checksums_of_column
    }

    /// A step of computation of a column came back.
    pub(crate) fn column_computed(&mut self, id: u32, result: ComputeResult) {
        let believes = self.mutated(Mutation::BlindScrub);
        let column = &mut self.columns[index(id)];
        let Phase::Computing(work) = column.phase else {
            panic!("a computation came back in phase {:?}", column.phase);
        };
        if column.owner == Owner::Replay {
            return self.replay_computed(id, work, result);
        }
        if work == Work::Checksum {
            return self.log(id);
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

    /// The commit point: from here on a member that fails is out.
    fn commit(&mut self, id: u32) {
        let plan = self.columns[index(id)].plan;
        if plan.writes.is_empty() || self.read_only || self.only_looks(id) {
            return self.scrubbed(id, false);
        }
        let group = self.columns[index(id)].group;
        // A device that is being filled is not yet counted on, and what repairs a place writes what
        // should be there already: nothing is in doubt meanwhile.
        let harmless = plan.strategy == Strategy::Rebuild || self.repairs(id);
        let undecided = self.journal_undecided() && !self.metadata.broken;
        if !(harmless || !undecided && self.may_commit() && self.may_write_region(group)) {
            self.columns[index(id)].phase = Phase::Committing;
            self.gated.push_back(id);
            return;
        }
        // Members may have gone since the plan was made; what it computed for the others holds.
        let mut writes = plan.writes.minus(self.missing_slots(id));
        if self.mutated(Mutation::RebuildSkipsWrites) && self.columns[index(id)].ask == Ask::Write {
            let end = self.columns[index(id)].low + self.columns[index(id)].blocks;
            writes = writes.minus(self.slots_not_held(id, end));
        }
        if self.mutated(Mutation::StaleParity) && plan.strategy == Strategy::ReadModifyWrite {
            writes = writes.minus(self.shape.redundant());
        }
        let given_up = self.writes_nothing();
        if given_up || writes.is_empty() {
            // Settling what has only one copy left, or lost its parity, is done without a write.
            if given_up || self.columns[index(id)].ask == Ask::Write {
                self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let column = &mut self.columns[index(id)];
        if column.log_half.is_none() {
            if column.ask == Ask::Write && self.journals() {
                return self.begin_log(id, writes);
            }
            self.unlogged_begins(id);
        }
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Writing;
        column.pending = writes.count();
        for slot in writes.iter() {
            let (operation, source) = (self.slot_write(id, slot), self.write_source(id, slot));
            self.slot_io(id, slot, operation, source);
        }
    }

    /// Whether nothing can be written any more.
    pub(crate) fn writes_nothing(&self) -> bool {
        let failed = || !self.missing.is_empty() && !self.geometry.survives(self.lost);
        self.metadata.broken || (!self.shape.copies && failed())
    }

    /// What is to be written goes into the journal first.
    fn begin_log(&mut self, id: u32, writes: SlotSet) {
        let data = writes
            .iter()
            .filter(|&slot| matches!(self.slot_write(id, slot), Operation::Write { .. }))
            .fold(SlotSet::EMPTY, SlotSet::with);
        let column = &mut self.columns[index(id)];
        column.log_slots = writes;
        column.log_data = data;
        if data.is_empty() {
            return self.log(id);
        }
        self.work_step(id, Work::Checksum);
    }

    /// How `slot` of a column is written.
    fn slot_write(&self, id: u32, slot: u8) -> Operation {
        let (fua, zeros) = self.write_kind(id);
        let data = slot < self.shape.data || self.shape.copies;
        let parity_of_zeros = self.columns[index(id)].plan.strategy == Strategy::Direct;
        match zeros {
            Some(operation) if data || parity_of_zeros => operation,
            _ => Operation::Write { fua },
        }
    }

    /// Whether a column writes durably, and which operation stands for zeros.
    fn write_kind(&self, id: u32) -> (bool, Option<Operation>) {
        if self.columns[index(id)].ask != Ask::Write {
            // A copy that was read must be the one that is there after power loss, even if the
            // member it was read from is lost as well: the others agree durably before the reply.
            let settles = self.shape.copies
                && self.columns[index(id)].plan.strategy == Strategy::Settle
                && !self.mutated(Mutation::SettleInCache);
            // What is told to be repaired is.
            let repairs = self.repairs(id) && !self.mutated(Mutation::RepairInCache);
            return (settles || repairs, None);
        }
        let Owner::Request(request) = self.columns[index(id)].owner else {
            return (false, None);
        };
        match self.handed_down(self.requests[index(request)].operation) {
            Operation::Write { fua } => (fua, None),
            zeros @ Operation::WriteZeroes { fua } => (fua, Some(zeros)),
            Operation::Discard => (false, Some(Operation::Discard)),
            Operation::Read | Operation::Flush => (false, None),
        }
    }

    pub(crate) fn write_source(&self, id: u32, slot: u8) -> BufferSlice {
        let column = &self.columns[index(id)];
        if self.shape.copies {
            return match (column.ask, column.plan.reads.first()) {
                (Ask::Write, _) | (_, None) => self.client(id, 0),
                (Ask::Read | Ask::Settle | Ask::Rebuild | Ask::Scrub, Some(truth)) => {
                    self.read_place(id, truth)
                }
            };
        }
        if slot < self.shape.data {
            return self.new_place(id, slot);
        }
        match column.plan.strategy {
            Strategy::Direct => BufferSlice::ZEROS,
            _ => self.parity_place(id, slot),
        }
    }

    fn written(&mut self, id: u32) {
        let parity = u32::from(self.shape.slots - self.shape.data);
        let column = &self.columns[index(id)];
        let not_held = self.slots_not_held(id, column.low + column.blocks);
        if !self.shape.copies && not_held.count() > parity {
            self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
        }
        self.acknowledge(id);
    }

    /// The rows of a column are done, `wrote` or not: a scrub tells what it found.
    fn scrubbed(&mut self, id: u32, wrote: bool) {
        if self.repairs(id) {
            self.tell_repairs(id, wrote);
        }
        self.finish_rows(id);
    }

    /// Nothing that skipped a member is acknowledged before that is durable.
    fn acknowledge(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Acknowledging;
        if self.metadata.busy() && !self.mutated(Mutation::SkipFailureRecord) {
            self.gated.push_back(id);
            return;
        }
        let column = &mut self.columns[index(id)];
        if self.metadata.broken && column.ask == Ask::Write {
            column.error = Some(RequestError::BeyondTolerance);
        }
        self.scrubbed(id, true);
    }

    /// The rows are done; on to the next, or the end.
    pub(crate) fn finish_rows(&mut self, id: u32) {
        self.log_done(id);
        let column = &mut self.columns[index(id)];
        column.low += column.blocks;
        if column.low < column.end && column.error.is_none() {
            column.blocks = column.end - column.low;
            if column.ask == Ask::Scrub {
                // Having narrowed, wider again, so that few blocks are read more often than once
                // for each width there is.
                column.blocks = column.blocks.min(widest(column.low - column.start));
            }
            column.look_anew();
            return self.plan_column(id);
        }
        self.finish(id);
    }

    /// As `finish`, for what had neither plan nor lock.
    #[inline]
    fn finish_direct(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Free;
        let Owner::Request(request) = column.owner else {
            panic!("a direct operation belongs to a request");
        };
        self.free_columns.push(id);
        self.request_part_done(request, None);
    }

    pub(crate) fn finish(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Free;
        let (owner, error, mismatch) = (column.owner, column.error, column.mismatch);
        let around = column.around;
        if column.locked {
            column.locked = false;
            self.locks.release(id, &mut self.ready);
            if self.mutated(Mutation::LostWakeup) {
                self.ready.pop_back();
            }
        }
        if around {
            self.went_around(id);
        }
        match owner {
            Owner::Request(request) => {
                let merged = self.columns[index(id)].merged;
                self.free_columns.push(id);
                self.request_part_done(request, error);
                self.finish_merged(merged, error);
            }
            Owner::Job(row) => self.job_column_done(id, row, error.is_none(), mismatch),
            Owner::Repair => self.repair_done(id),
            Owner::Nobody | Owner::Replay => panic!("a column without an owner ended"),
        }
        self.pump_releases();
    }

    /// Takes along the writes that wait for the same rows of other chunks: together they read less,
    /// and parity is written once. Nothing overtakes what waits for its own turn.
    fn merge_waiting(&mut self, id: u32) {
        if self.shape.copies || self.columns[index(id)].ask != Ask::Write {
            return;
        }
        let mut last = id;
        let mut at = id;
        while let Some(next) = self.locks.next_overlapping(id, at) {
            let (column, other) = (&self.columns[index(id)], &self.columns[index(next)]);
            let same_rows = column.low == other.low && column.end == other.end;
            let disjoint = column.touched.and(other.touched).is_empty();
            let same_kind = self.write_operation(id).is_some_and(|operation| {
                other.ask == Ask::Write && self.write_operation(next) == Some(operation)
            });
            if !(same_rows && disjoint && same_kind) {
                return;
            }
            let touched = column.touched.or(other.touched);
            at = self.locks.withdraw(next);
            self.columns[index(id)].touched = touched;
            self.columns[index(last)].merged = next;
            self.columns[index(next)].phase = Phase::Merged;
            last = next;
        }
    }

    /// The operation of a column's request, if it writes data.
    fn write_operation(&self, id: u32) -> Option<Operation> {
        let Owner::Request(request) = self.columns[index(id)].owner else {
            return None;
        };
        let operation = self.requests[index(request)].operation;
        matches!(operation, Operation::Write { .. }).then_some(operation)
    }

    fn finish_merged(&mut self, mut id: u32, error: Option<RequestError>) {
        while id != NO_COLUMN {
            let column = &mut self.columns[index(id)];
            assert_eq!(
                column.phase,
                Phase::Merged,
                "only merged columns are in the list"
            );
            column.phase = Phase::Free;
            let (owner, next) = (column.owner, column.merged);
            let Owner::Request(request) = owner else {
                panic!("a merged column belongs to a request");
            };
            self.free_columns.push(id);
            self.request_part_done(request, error);
            id = next;
        }
    }

    /// Flushes all members for a column.
    pub(crate) fn flush_members(&mut self, id: u32, skip: bool) {
        let column = &mut self.columns[index(id)];
        column.reset();
        column.low = 0;
        column.blocks = 0;
        column.end = 0;
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        if skip || active.is_empty() {
            return self.acknowledge(id);
        }
        column.pending = active.count();
        for member in active.iter() {
            self.output(Output::Member(MemberIo {
                id: MemberIoId(id << SLOT_BITS | u32::from(member.0)),
                member,
                operation: Operation::Flush,
                block: BlockIndex(0),
                blocks: 0,
                buffer: BufferSlice::NONE,
            }));
        }
    }
}

/// The longest piece of a column that may begin so many rows after its start.
fn widest(rows: u32) -> u32 {
    1 << rows.trailing_zeros()
}

fn count(operands: usize) -> u16 {
    u16::try_from(operands).expect("operands of one column")
}

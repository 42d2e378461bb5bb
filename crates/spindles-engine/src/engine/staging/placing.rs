//! Placing: ordinary writes of the newest staged contents.

use crate::{
    Engine, Mutation, RangeId,
    plan::Ask,
    slots::SlotSet,
    stage::{Contents, Newest},
    staging::{FILL_TO_PLACE, IDLE_NS, Life},
    stripe::Owner,
    system_io::Purpose,
};
use spindles_block::BufferSlice;

/// The staged blocks of some rows of a group.
struct Rows {
    touched: SlotSet,
    count: u32,
    /// The number of the newest batch with such a block.
    number: u64,
    is_whole: bool,
}

impl Engine {
    /// Returns true if staged blocks are to be placed now: nothing is taken any longer, clients are
    /// idle, or the stage fills.
    pub(super) fn may_place(&self) -> bool {
        let staging = self.staging.as_ref().expect("the array has a stage");
        let is_idle = || {
            self.requests.all_free() && self.now.ns_since(staging.asked) >= IDLE_NS
                || staging.is_awaited
        };
        let rests = staging
            .failed
            .is_some_and(|failed| self.now.ns_since(failed) < crate::staging::AGAIN_NS);
        !rests
            && match staging.life {
                Life::Draining => true,
                Life::On => staging.stage.fill() >= FILL_TO_PLACE || is_idle(),
                _ => false,
            }
    }

    /// Begins to place the next rows. Returns true if anything began.
    pub(crate) fn place_staged(&mut self) -> bool {
        let most = self.client_ranges().div_ceil(2);
        let staging = self.staging.as_ref().expect("the array has a stage");
        let waits = staging.pass_flush.is_some() || staging.placing >= most;
        let waits = waits || staging.is_awaited && self.mutated(Mutation::PlacingNeedsRoom);
        if waits || self.ranges.free_count() == 0 || !self.may_place() {
            return false;
        }
        let staging = self.staging();
        staging.failed = None;
        let Some(block) = staging.pass.last().copied() else {
            return self.staging().begin_pass();
        };
        let id = self.ranges.next_free();
        let location = self.geometry.locate(block);
        self.ranges.take_group(&self.geometry, id, location.group);
        let Some(rows) = self.staged_rows(id, location.block_in_chunk) else {
            self.staging().pass.pop();
            return true;
        };
        let staging = self.staging();
        let is_durable = staging.stage.is_durable(rows.number);
        if rows.is_whole && !is_durable && !staging.is_pass_flushed {
            self.flush_for_pass();
            return true;
        }
        staging.pass.pop();
        self.place_staged_rows(id, location.block_in_chunk, &rows);
        true
    }

    /// Makes answered batches durable by themselves, a second after they are answered.
    pub(crate) fn commit_staged(&mut self) -> bool {
        let staging = self.staging.as_ref().expect("the array has a stage");
        let is_due = staging.commit_is_due(self.now);
        if is_due {
            self.flush_holders();
        }
        is_due
    }

    /// Flushes the holders once for a pass, so that whole rows need no log (rule 4).
    fn flush_for_pass(&mut self) {
        self.staging().is_pass_flushed = true;
        self.flush_holders();
    }

    fn flush_holders(&mut self) {
        let present = self.present();
        let staging = self.staging();
        let (holders, mark) = staging.stage.flush();
        let holders = holders.iter().filter(|holder| present.contains(*holder));
        let holders = holders.collect();
        staging.pass_flush = Some(mark);
        if self.flush_counted(holders, Purpose::StageFlush) == 0 {
            self.staging().pass_flushed();
        }
    }

    fn placeable(&self, id: RangeId, slot: u8, row: u32) -> Option<Newest> {
        let staging = self.staging.as_ref().expect("the array has a stage");
        staging
            .stage
            .cover()
            .placeable(self.ranges.block_at(id, slot, row))
    }

    /// Returns the staged blocks of a row, and of the rows after it whose contents follow in
    /// memory. `None` if none can be placed now.
    fn staged_rows(&self, id: RangeId, row: u32) -> Option<Rows> {
        let shape = self.ranges[id].shape;
        let group = self.ranges.group(id);
        let staged = |row: u32| {
            let slots = (0..shape.data).filter(|&slot| self.placeable(id, slot, row).is_some());
            slots.fold(SlotSet::EMPTY, SlotSet::with)
        };
        let touched = staged(row);
        if touched.is_empty() {
            return None;
        }
        let contents = |slot, row| self.placeable(id, slot, row).map(|newest| newest.contents);
        let follows = |at: &u32| {
            let follows = |slot: u8| {
                let first = contents(slot, row).expect("it is staged");
                contents(slot, row + at) == Some(first.plus(*at))
            };
            staged(row + at) == touched && touched.iter().all(follows)
        };
        let most = self.settings.limits.range_blocks.min(group.blocks - row);
        let more = (1..most).take_while(follows).count();
        let count = 1 + u32::try_from(more).expect("within the chunk");
        let number = |row: u32| {
            let numbers = touched
                .iter()
                .filter_map(|slot| self.placeable(id, slot, row));
            numbers.map(|newest| newest.number).max().unwrap_or(0)
        };
        Some(Rows {
            touched,
            count,
            number: (row..row + count).map(number).max().unwrap_or(0),
            is_whole: touched == shape.all_data(),
        })
    }

    /// Places rows by an ordinary write, whose group is filled in.
    fn place_staged_rows(&mut self, id: RangeId, row: u32, rows: &Rows) {
        for slot in rows.touched.iter() {
            for at in 0..rows.count {
                let block = self.ranges.block_at(id, slot, row + at);
                let staging = self.staging();
                let newest = staging.stage.take_to_place(block);
                if at == 0 {
                    let source = match newest.expect("it was looked at").contents {
                        Contents::Slot(slot) => staging.stage.memory(slot),
                        Contents::Zeros => BufferSlice::ZEROS,
                    };
                    staging.set_source(id, slot, source);
                }
            }
        }
        let now = self.now;
        let staging = self.staging();
        staging.placing += 1;
        staging.pace.places(now);
        let is_durable = staging.stage.is_durable(rows.number);
        let taken = self.ranges.take();
        assert_eq!(taken, id, "the next free one");
        let group = self.ranges.group(id).index;
        let owner = Owner::Stage { is_durable };
        let range = &mut self.ranges[id];
        range.begin_own(owner, Ask::Write, group, row..row + rows.count);
        range.touched = rows.touched;
        self.start(id);
    }
}

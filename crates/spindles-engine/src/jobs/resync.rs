//! Makes redundancy agree with data again, after creation or a crash: every column is read, and
//! what disagrees is written. A client's read of what is not settled settles it first.

use crate::{
    Engine,
    columns::{Owner, Phase},
    engine::{Closing, JOB_COLUMNS},
    index,
    output::{Event, Output},
    plan::Ask,
    slots::SlotSet,
};
use spindles_layout::GroupIndex;

/// A resync under way. It goes in batches of columns; everything below `next` at the beginning of
/// a batch is settled, unless a column could not be, which holds the mark for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resync {
    next: (GroupIndex, u32),
    /// Everything below is settled.
    mark: (GroupIndex, u32),
    pending: u32,
    mismatches: u64,
    /// Columns that could not be settled.
    unsettled: u64,
    /// Whether it was said that some could not.
    reported: bool,
}

impl Resync {
    pub(crate) const fn new() -> Self {
        Self {
            next: (GroupIndex(0), 0),
            mark: (GroupIndex(0), 0),
            pending: 0,
            mismatches: 0,
            unsettled: 0,
            reported: false,
        }
    }

    /// Groups gone through.
    pub(crate) const fn groups_done(&self) -> u64 {
        self.next.0.0
    }

    pub(crate) const fn mismatches(&self) -> u64 {
        self.mismatches
    }
}

impl Engine {
    /// Whether redundancy of the rows below `end` of `group`, from where a column begins, is known
    /// to agree with data.
    #[inline]
    pub(crate) fn settled(&self, group: GroupIndex, end: u32) -> bool {
        self.all_settled
            || self
                .resync
                .is_some_and(|resync| (group, end) <= resync.mark)
    }

    /// Begins the next batch where one is due. Whether anything was begun or ended.
    pub(crate) fn pump_resync(&mut self) -> bool {
        if self.closing != Closing::Open || !self.serving {
            return false;
        }
        let Some(mut resync) = self.resync else {
            return false;
        };
        if resync.pending > 0 || self.all_settled {
            return false;
        }
        if resync.unsettled == 0 {
            resync.mark = resync.next;
        }
        if resync.next.0.0 == self.geometry.groups() {
            return self.resync_ended(resync);
        }
        let mut batch = [0; JOB_COLUMNS as usize];
        let mut columns = 0;
        for slot in &mut batch {
            if resync.next.0.0 == self.geometry.groups() {
                break;
            }
            let Some(id) = self.free_job_columns.pop() else {
                break;
            };
            let (group, low) = resync.next;
            self.geometry.group_into(group, &mut self.groups[index(id)]);
            let chunk = self.groups[index(id)].blocks;
            let end = low + self.limits.column_blocks.min(chunk - low);
            resync.next = if end == chunk {
                (GroupIndex(group.0 + 1), 0)
            } else {
                (group, end)
            };
            let column = &mut self.columns[index(id)];
            column.phase = Phase::Starting;
            column.owner = Owner::Resync;
            column.ask = Ask::Settle;
            column.group = group;
            column.touched = SlotSet::EMPTY;
            column.low = low;
            column.blocks = end - low;
            column.end = end;
            *slot = id;
            columns += 1;
        }
        resync.pending = columns;
        self.resync = Some(resync);
        for &id in &batch[..index(columns)] {
            self.start(id);
        }
        columns > 0
    }

    fn resync_ended(&mut self, resync: Resync) -> bool {
        if resync.unsettled == 0 {
            self.all_settled = true;
            self.resync = None;
            let event = Event::ResyncDone {
                mismatches: resync.mismatches,
            };
            self.output(Output::Event(event));
            return true;
        }
        // The mark stays where it is: what is above it is settled again at each read.
        if !resync.reported {
            let unsettled = resync.unsettled;
            self.resync = Some(Resync {
                reported: true,
                ..resync
            });
            self.output(Output::Event(Event::ResyncIncomplete { unsettled }));
        }
        false
    }

    /// A column of the resync ended.
    pub(crate) fn resync_part_done(&mut self, settled: bool, mismatch: bool) {
        let resync = self
            .resync
            .as_mut()
            .expect("a column of a resync that there is");
        assert!(resync.pending > 0, "a column of a resync ended twice");
        resync.pending -= 1;
        resync.unsettled += u64::from(!settled);
        resync.mismatches += u64::from(mismatch);
    }
}

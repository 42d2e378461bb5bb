//! An overlay of the log over an array that is open read only: reads take logged contents instead
//! of the older ones in place.

use crate::{
    recovery::log_index::{LogIndex, Part, Run},
    slots::SlotSet,
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_layout::GroupIndex;

/// The logged state of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logged<'a> {
    /// The newest logged contents.
    Part(&'a Part),
    /// The log has lost the newest contents, and those in place are older.
    Lost,
}

/// The records of the log.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    pub(crate) log: LogIndex,
    /// Rows of which the log holds blocks, in order.
    runs: Vec<Run>,
    /// Rows of records that are not whole: only a replay finds out whether they count.
    unproved: Vec<Run>,
}

impl Overlay {
    /// Creates an overlay from the records that count, and the rows of incomplete records. `None`
    /// without such records.
    pub(crate) fn new(log: LogIndex, mut unproved: Vec<Run>) -> Option<Self> {
        let runs = log.runs();
        unproved.retain(|run| !log.is_superseded(run));
        let is_empty = runs.is_empty() && unproved.is_empty();
        (!is_empty).then_some(Self {
            log,
            runs,
            unproved,
        })
    }

    /// Returns true if the log holds anything of a group.
    pub(crate) fn has(&self, group: GroupIndex) -> bool {
        self.runs_of(group).next().is_some()
    }

    /// Returns all runs of a group.
    fn runs_of(&self, group: GroupIndex) -> impl Iterator<Item = &Run> {
        let first = self.runs.partition_point(|run| run.group < group.0);
        let runs = self.runs[first..].iter();
        runs.take_while(move |run| run.group == group.0)
            .chain(self.unproved_of(group))
    }

    fn unproved_of(&self, group: GroupIndex) -> impl Iterator<Item = &Run> {
        let unproved = self.unproved.iter();
        unproved.filter(move |run| run.group == group.0)
    }

    /// Returns how many of these rows, from the first on, belong to the same runs.
    pub(crate) fn alike(&self, group: GroupIndex, rows: &Range<u32>) -> u32 {
        let bounds = self.runs_of(group);
        let bounds = bounds.flat_map(|run| [run.rows.start, run.rows.end]);
        let next = bounds.filter(|bound| *bound > rows.start).min();
        next.map_or(rows.end, |next| next.min(rows.end)) - rows.start
    }

    /// Returns the logged state of a slot's block in a row. `None` if the log does not have the
    /// block.
    pub(crate) fn at(&self, group: GroupIndex, row: u32, slot: u8) -> Option<Logged<'_>> {
        let place = |run: &Run| (run.group, run.rows.end) <= (group.0, row);
        let run = self.runs.get(self.runs.partition_point(place))?;
        if run.group != group.0 || !run.rows.contains(&row) {
            return None;
        }
        if run.lacks.contains(slot) {
            return Some(Logged::Lost);
        }
        self.log.find(run, slot).map(Logged::Part)
    }

    /// Returns the slots that records which are not whole wrote in a row.
    pub(crate) fn unproved(&self, group: GroupIndex, row: u32) -> SlotSet {
        let runs = self.unproved_of(group);
        runs.filter(|run| run.rows.contains(&row))
            .fold(SlotSet::EMPTY, |slots, run| {
                slots.or(self.log.record_slots(run))
            })
    }
}

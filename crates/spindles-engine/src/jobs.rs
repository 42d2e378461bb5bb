//! Progress of background jobs.
//!
//! Stripe ranges of a job end in any order. The job is complete below its *mark*. The mark is the
//! lowest place that is under way or failed, or otherwise the place that the walk has reached.
//!
//! ```text
//!                          ┌──────────────stopped early──────────────┐
//!                          │                                         ▼
//!  Idle ──begun──▶ Going ──┴─on command──▶ Stopping ──last range──▶ Idle
//!                    │ ▲
//!    went through all│ │begun again
//!                    ▼ │
//!                   Over
//! ```

pub(crate) mod grow;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub mod scrub;

use crate::throttle::Throttle;
use alloc::{vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BlockSize, Instant};
use spindles_layout::{Geometry, GroupIndex};

/// Stripe ranges reserved for jobs, so that clients and jobs cannot starve each other.
pub(crate) const JOB_RANGES: u32 = 8;

/// The default rate that jobs are guaranteed while clients are busy, in bytes of each member per
/// second.
pub const JOB_RATE: u64 = 10 << 20;

/// A row in the chunks of a group. Places are ordered as a walk visits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    group: GroupIndex,
    row: u32,
}

impl Place {
    /// Returns a row of a group.
    #[inline]
    pub(crate) const fn new(group: GroupIndex, row: u32) -> Self {
        Self { group, row }
    }

    /// Returns the first row of a group.
    pub(crate) const fn start_of(group: GroupIndex) -> Self {
        Self::new(group, 0)
    }

    /// Returns the group.
    pub(crate) const fn group(self) -> GroupIndex {
        self.group
    }
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Never begun, or stopped.
    Idle,
    Going,
    /// Waiting for its last stripe ranges to end.
    Stopping,
    /// Went through the whole array.
    Over,
}

/// A job's walk through the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    stage: Stage,
    /// Where the next stripe range begins.
    next: Place,
    /// The job is complete below this place.
    mark: Place,
    /// The lowest place that failed.
    held: Option<Place>,
    /// Stripe ranges under way.
    pending: u32,
    /// Stripe ranges that failed.
    failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    mismatches: u64,
    /// True if a stripe range has ended since the last look at the mark.
    has_moved: bool,
}

impl Walk {
    const IDLE: Self = Self::at(Stage::Idle, Place::start_of(GroupIndex(0)));

    const fn at(stage: Stage, from: Place) -> Self {
        Self {
            stage,
            next: from,
            mark: from,
            held: None,
            pending: 0,
            has_moved: false,
            failed: 0,
            mismatches: 0,
        }
    }

    /// Returns true while the job begins stripe ranges.
    pub(crate) const fn is_going(&self) -> bool {
        matches!(self.stage, Stage::Going)
    }

    /// Returns true if the walk went through the whole array.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns true while the job runs, or waits for its last stripe ranges to stop.
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Going | Stage::Stopping)
    }

    /// Returns the group in which the next stripe range begins.
    pub(crate) const fn next_group(&self) -> GroupIndex {
        self.next.group
    }

    /// Returns the place below which the job is complete.
    #[inline]
    pub(crate) const fn mark(&self) -> Place {
        self.mark
    }

    /// Returns the number of stripe ranges that failed.
    pub(crate) const fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the number of stripe ranges in which redundancy did not agree with data.
    pub(crate) const fn mismatches(&self) -> u64 {
        self.mismatches
    }

    /// Skips the groups below `group`, which the job need not visit.
    fn skip_to(&mut self, group: GroupIndex) {
        assert!(group >= self.next.group, "a walk goes forwards");
        if group > self.next.group {
            self.next = Place::start_of(group);
        }
    }

    /// Takes the rows of the next stripe range: at most `rows_max` of a chunk of `chunk_rows`.
    fn take_rows(&mut self, chunk_rows: u32, rows_max: u32) -> Range<u32> {
        let Place { group, row: low } = self.next;
        let end = low + rows_max.min(chunk_rows - low);
        self.pending += 1;
        self.next = if end == chunk_rows {
            Place::start_of(GroupIndex(group.0 + 1))
        } else {
            Place { group, row: end }
        };
        low..end
    }

    /// Holds the mark at a place that is not done, whether the walk has come there or not.
    fn hold(&mut self, place: Place) {
        self.failed += 1;
        self.held = Some(self.held.map_or(place, |held| held.min(place)));
        self.mark = self.mark.min(place);
    }

    /// Handles the end of the stripe range that began at `place`.
    fn range_done(&mut self, place: Place, done: bool, mismatch: bool) {
        assert!(self.pending > 0, "a range of a job ended twice");
        self.pending -= 1;
        self.has_moved = true;
        self.mismatches += u64::from(mismatch);
        if !done {
            self.hold(place);
        }
    }

    /// Moves the mark to the lowest place that is under way, or failed, or is next. Returns true if
    /// the mark of a running job has advanced.
    fn find_mark(&mut self, under_way: impl Iterator<Item = Place>) -> bool {
        let before = self.mark;
        self.mark = under_way.chain(self.held).fold(self.next, Place::min);
        self.is_going() && self.mark > before
    }
}

/// All jobs of an array. A job is named by its row in the table.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    /// One for each row of the table.
    walks: Vec<Walk>,
    /// The number of jobs that run, plus places that wait to be repaired.
    going: u32,
    throttle: Throttle,
    /// When to check again whether a job may continue.
    wake: Option<Instant>,
}

impl Jobs {
    /// Creates `kinds` idle jobs with a guaranteed rate, in bytes of each member per second.
    pub(crate) fn new(kinds: usize, rate: u64) -> Self {
        Self {
            walks: vec![Walk::IDLE; kinds],
            going: 0,
            throttle: Throttle::new(rate),
            wake: None,
        }
    }

    /// Sets the guaranteed rate, in bytes of each member per second.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.throttle.set_rate(rate);
    }

    /// Returns true if a job has work to do.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.going > 0
    }

    /// Counts a place that waits to be repaired.
    pub(crate) fn someone_waits(&mut self) {
        self.going += 1;
    }

    /// Uncounts a place that waited to be repaired.
    pub(crate) fn nobody_waits(&mut self) {
        self.going -= 1;
    }

    /// When a job that waits only for time may continue.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Returns the progress of a job.
    #[inline]
    pub(crate) fn walk_of(&self, row: usize) -> &Walk {
        &self.walks[row]
    }

    /// Begins a job at `from`; all groups below count as done. No stripe range of the job may be
    /// under way.
    pub(crate) fn begin_walk(&mut self, row: usize, from: Place) {
        let walk = &mut self.walks[row];
        assert_eq!(walk.pending, 0, "ranges of job {row} are under way");
        self.going += u32::from(!walk.is_going());
        *walk = Walk::at(Stage::Going, from);
    }

    /// Holds a job's mark at a place that is not done, whether the job has come there or not.
    pub(crate) fn hold_walk(&mut self, row: usize, place: Place) {
        self.walks[row].hold(place);
    }

    /// Stops a job early. Its stripe ranges under way still end.
    pub(crate) fn stop_walk(&mut self, row: usize) {
        let walk = &mut self.walks[row];
        self.going -= u32::from(walk.is_going());
        walk.stage = Stage::Idle;
        self.wake = None;
    }

    /// Begins no more stripe ranges of a running job, which stops after the last one under way.
    pub(crate) fn let_stop(&mut self, row: usize) {
        self.walks[row].stage = Stage::Stopping;
        self.going -= 1;
        self.wake = None;
    }

    /// Returns true if a job that stops has no stripe range under way any more.
    pub(crate) fn has_stopped(&self, row: usize) -> bool {
        let walk = &self.walks[row];
        walk.stage == Stage::Stopping && walk.pending == 0
    }

    /// Returns the job whose turn it is: the first that runs.
    pub(crate) fn next_job(&self) -> Option<usize> {
        self.walks.iter().position(Walk::is_going)
    }

    /// Notes whether requests of clients are under way `now`.
    pub(crate) fn look_at_clients(&mut self, now: Instant, clients: bool) {
        self.wake = None;
        self.throttle.look(now, clients);
    }

    /// Returns true if the pace allows a stripe range now. Otherwise sets the time to check again.
    pub(crate) fn may_begin(&mut self, now: Instant) -> bool {
        match self.throttle.next(now) {
            Some(at) if at <= now => true,
            wake => {
                self.wake = wake;
                false
            }
        }
    }

    /// Counts work of a job that begins, with `bytes` bytes of each member.
    pub(crate) fn count_pace(&mut self, now: Instant, bytes: u64) {
        self.throttle.gone(now, bytes);
    }

    /// Skips the groups below `group`, which a job need not visit.
    pub(crate) fn skip_to(&mut self, row: usize, group: GroupIndex) {
        self.walks[row].skip_to(group);
    }

    /// Takes the rows of a job's next stripe range: at most `rows_max` of a chunk of `chunk_rows`.
    pub(crate) fn take_rows(&mut self, row: usize, chunk_rows: u32, rows_max: u32) -> Range<u32> {
        self.walks[row].take_rows(chunk_rows, rows_max)
    }

    /// Handles the end of a job's stripe range that began at `place`. `mismatch`: redundancy did
    /// not agree with data.
    pub(crate) fn range_done(&mut self, row: usize, place: Place, done: bool, mismatch: bool) {
        self.walks[row].range_done(place, done, mismatch);
    }

    /// Takes the next job of which a stripe range has ended.
    pub(crate) fn next_moved(&mut self) -> Option<usize> {
        let row = self.walks.iter().position(|walk| walk.has_moved)?;
        self.walks[row].has_moved = false;
        Some(row)
    }

    /// Moves a job's mark, of which stripe ranges are under way at these places. Returns true if
    /// the mark of a running job has advanced.
    pub(crate) fn find_mark(&mut self, row: usize, under_way: impl Iterator<Item = Place>) -> bool {
        self.walks[row].find_mark(under_way)
    }

    /// Ends the walk of a job, which went through the whole array. Returns the walk, which is kept
    /// until the job begins again.
    pub(crate) fn end_walk(&mut self, row: usize) -> Walk {
        let walk = &mut self.walks[row];
        walk.stage = Stage::Over;
        self.going -= 1;
        *walk
    }

    /// Returns true if stripe ranges of a job are under way.
    pub(crate) fn has_ranges(&self, row: usize) -> bool {
        self.walks[row].pending > 0
    }

    /// Returns the progress of a job for display; `None` if it never ran, or ended without a
    /// failure.
    pub(crate) fn status(
        &self,
        row: usize,
        name: &'static str,
        geometry: &Geometry,
        block_size: BlockSize,
    ) -> Option<JobStatus> {
        let walk = &self.walks[row];
        let is_shown = match walk.stage {
            Stage::Idle => false,
            Stage::Going | Stage::Stopping => true,
            Stage::Over => walk.failed > 0,
        };
        let (total, block_bytes) = (geometry.blocks(), u64::from(block_size.bytes()));
        is_shown.then(|| JobStatus {
            name,
            going: walk.is_going(),
            done_bytes: geometry.blocks_before(walk.next.group).min(total) * block_bytes,
            total_bytes: total * block_bytes,
            failed: walk.failed,
            mismatches: walk.mismatches,
            rate: self.throttle.rate(),
        })
    }
}

/// The progress of a job, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The job's name.
    pub name: &'static str,
    /// True while it runs. False if it went through the array and some stripe ranges failed.
    pub going: bool,
    /// Bytes of the array that the job has passed.
    pub done_bytes: u64,
    /// Bytes of the array.
    pub total_bytes: u64,
    /// Stripe ranges that failed.
    pub failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    pub mismatches: u64,
    /// The guaranteed rate while clients are busy, in bytes of each member per second.
    pub rate: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: bool = true;
    const FAILED: bool = false;

    const fn place(group: u64, row: u32) -> Place {
        let group = GroupIndex(group);
        Place { group, row }
    }

    /// The jobs of an array with chunks of six rows, and the ranges of job 0 under way.
    struct World {
        jobs: Jobs,
        under_way: Vec<Place>,
    }

    impl World {
        fn begun() -> Self {
            let mut jobs = Jobs::new(2, JOB_RATE);
            jobs.begin_walk(0, Place::default());
            let under_way = Vec::new();
            Self { jobs, under_way }
        }

        /// Begins a stripe range of at most four rows.
        fn range(&mut self) -> Place {
            let group = self.jobs.walk_of(0).next_group();
            let row = self.jobs.take_rows(0, 6, 4).start;
            self.under_way.push(Place { group, row });
            Place { group, row }
        }

        /// Ends the range at a place. Returns true if the mark has advanced.
        fn end(&mut self, place: Place, done: bool) -> bool {
            self.under_way.retain(|range| *range != place);
            self.jobs.range_done(0, place, done, false);
            self.jobs.find_mark(0, self.under_way.iter().copied())
        }

        fn mark(&self) -> Place {
            self.jobs.walk_of(0).mark()
        }
    }

    #[test]
    fn a_range_ends_with_its_chunk() {
        let mut world = World::begun();
        let places = [(); 4].map(|()| world.range());
        assert_eq!(places, [place(0, 0), place(0, 4), place(1, 0), place(1, 4)]);
    }

    #[test]
    fn the_mark_waits_for_the_lowest_range_under_way() {
        let mut world = World::begun();
        let [first, second] = [world.range(), world.range()];
        assert!(!world.end(second, DONE));
        assert_eq!(world.mark(), first);
        assert!(world.end(first, DONE));
        assert_eq!(world.mark(), place(1, 0));
    }

    #[test]
    fn the_mark_stays_at_the_lowest_range_that_failed() {
        let mut world = World::begun();
        let [first, second, third] = [world.range(), world.range(), world.range()];
        world.end(third, FAILED);
        world.end(second, FAILED);
        assert!(world.end(first, DONE));
        assert_eq!(world.mark(), second);
        world.jobs.skip_to(0, GroupIndex(9));
        assert!(!world.jobs.find_mark(0, [].into_iter()));
        assert_eq!(world.mark(), second);
        assert_eq!(world.jobs.walk_of(0).failed(), 2);
    }

    #[test]
    fn a_place_that_is_held_later_takes_the_mark_back() {
        let mut world = World::begun();
        world.jobs.skip_to(0, GroupIndex(5));
        assert!(world.jobs.find_mark(0, [].into_iter()));
        world.jobs.hold_walk(0, place(2, 3));
        assert_eq!(world.mark(), place(2, 3));
    }

    #[test]
    fn a_job_stops_after_its_last_range() {
        let mut world = World::begun();
        let [first, second] = [world.range(), world.range()];
        world.jobs.let_stop(0);
        assert!(!world.jobs.any() && world.jobs.walk_of(0).is_busy());
        assert!(
            !world.end(first, DONE),
            "a job that stops makes no progress"
        );
        assert!(!world.jobs.has_stopped(0));
        world.end(second, DONE);
        assert!(world.jobs.has_stopped(0));
        world.jobs.stop_walk(0);
        assert!(!world.jobs.walk_of(0).is_busy() && !world.jobs.any());
    }

    #[test]
    fn the_first_job_that_runs_has_its_turn() {
        let mut world = World::begun();
        world.jobs.begin_walk(1, Place::default());
        assert_eq!(world.jobs.next_job(), Some(0));
        assert!(world.jobs.end_walk(0).is_over());
        assert_eq!(world.jobs.next_job(), Some(1));
        world.jobs.stop_walk(1);
        assert_eq!((world.jobs.next_job(), world.jobs.any()), (None, false));
    }

    #[test]
    #[should_panic(expected = "a range of a job ended twice")]
    fn a_range_ends_once() {
        let mut world = World::begun();
        let range = world.range();
        world.end(range, DONE);
        world.end(range, DONE);
    }

    #[test]
    #[should_panic(expected = "a walk goes forwards")]
    fn a_walk_goes_forwards() {
        let mut world = World::begun();
        world.jobs.skip_to(0, GroupIndex(5));
        world.jobs.skip_to(0, GroupIndex(4));
    }
}

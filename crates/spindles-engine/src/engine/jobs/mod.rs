//! Background jobs: each walks the groups of the array, a stripe range at a time, with a pool of
//! stripe ranges of its own, and keeps out of the clients' way. One file each, one row in the
//! table.

pub(crate) mod grow;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub(crate) mod resync;
pub(crate) mod scrub;

use crate::{
    Engine, RangeId,
    engine::Closing,
    jobs::{JobStatus, Jobs, Place, Stage, Walk},
    output::CommandError,
    plan::Ask,
    slots::SlotSet,
    stripe::{Owner, Stage as RangeStage},
};
use alloc::vec::Vec;
use spindles_block::Instant;
use spindles_layout::GroupIndex;

/// A kind of job.
#[derive(Debug)]
pub struct Job {
    /// Name of the job, for users.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// The task of each stripe range.
    pub(crate) ask: Ask,
    /// The first group from the given one on that the job has to visit; may be beyond the last.
    pub(crate) next_group: fn(&Engine, GroupIndex) -> GroupIndex,
    /// Called when its mark has advanced.
    pub(crate) advanced: fn(&mut Engine),
    /// Called when the walk went through everything. The walk is kept until the job begins again.
    pub(crate) ended: fn(&mut Engine, Walk),
    /// Called when the job was stopped and its last stripe range has ended; `None` if it can't be
    /// stopped.
    pub(crate) stopped: Option<fn(&mut Engine)>,
    /// Returns true while something must come before the next stripe range or, with `true`, before
    /// the end.
    pub(crate) waits: Option<fn(&mut Engine, bool) -> bool>,
    /// Called at its turn instead of beginning a stripe range. Returns true if it began anything.
    pub(crate) turn: Option<fn(&mut Engine) -> bool>,
}

/// All jobs. If several have work to do, the first of them comes first.
pub static JOBS: &[&Job] = &[
    &resync::JOB,
    &rebuild::JOB,
    &replace::JOB,
    &scrub::JOB,
    &grow::JOB,
];

impl Job {
    /// Returns the job of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        JOBS.iter().find(|job| job.name == name).copied()
    }

    fn row(&'static self) -> usize {
        JOBS.iter()
            .position(|row| core::ptr::eq(*row, self))
            .expect("a job is a row of the table")
    }
}

impl Jobs {
    /// Returns the progress of a job.
    pub(crate) fn walk(&self, job: &'static Job) -> &Walk {
        &self.walks[job.row()]
    }

    /// Begins a job at `from`; all groups below count as done. No stripe range of the job may be
    /// under way.
    pub(crate) fn begin(&mut self, job: &'static Job, from: Place) {
        let walk = &mut self.walks[job.row()];
        assert_eq!(walk.pending, 0, "ranges of {} are under way", job.name);
        self.going += u32::from(walk.stage != Stage::Going);
        *walk = Walk {
            stage: Stage::Going,
            next: from,
            mark: from,
            ..Walk::IDLE
        };
    }

    /// Holds a job's mark at a place that is not done, whether the job has come there or not.
    pub(crate) fn hold(&mut self, job: &'static Job, place: Place) {
        let walk = &mut self.walks[job.row()];
        walk.failed += 1;
        walk.held = Some(walk.held.map_or(place, |held| held.min(place)));
        walk.mark = walk.mark.min(place);
    }

    /// Stops a job early. Its stripe ranges under way still end.
    pub(crate) fn stop(&mut self, job: &'static Job) {
        let walk = &mut self.walks[job.row()];
        if walk.stage == Stage::Going {
            self.going -= 1;
        }
        walk.stage = Stage::Idle;
        self.wake = None;
    }

    /// Returns an error if a job can't be ended on command.
    pub(crate) fn may_stop(&self, name: &str) -> Result<(), CommandError> {
        let job = Job::by_name(name).ok_or(CommandError::NoSuchJob)?;
        if job.stopped.is_none() {
            return Err(CommandError::MustGoOn);
        }
        if self.walk(job).stage != Stage::Going {
            return Err(CommandError::NoSuchJob);
        }
        Ok(())
    }
}

impl Engine {
    /// Ends a job on command, as soon as its stripe ranges under way have ended.
    pub(crate) fn stop_on_command(&mut self, name: &str) {
        if let Some(job) = Job::by_name(name) {
            self.begin_to_stop(job.row());
        }
    }

    fn begin_to_stop(&mut self, row: usize) {
        self.jobs.walks[row].stage = Stage::Stopping;
        self.jobs.going -= 1;
        self.jobs.wake = None;
        self.find_mark(row);
        self.job_may_have_stopped(row);
    }

    /// Stops one job, because the array has failed and no job can be completed. Returns true if
    /// there was one to stop.
    #[cold]
    fn stop_what_may_be(&mut self) -> bool {
        let going = |row: &usize| {
            JOBS[*row].stopped.is_some() && self.jobs.walks[*row].stage == Stage::Going
        };
        let row = (0..JOBS.len()).find(going);
        if let Some(row) = row {
            self.begin_to_stop(row);
        }
        row.is_some()
    }

    fn job_may_have_stopped(&mut self, row: usize) {
        let walk = &mut self.jobs.walks[row];
        if walk.stage == Stage::Stopping && walk.pending == 0 {
            let stopped = JOBS[row].stopped.expect("one that may be stopped");
            stopped(self);
            self.jobs.walks[row].stage = Stage::Idle;
        }
    }

    /// Lets the first job that can continue do so. Returns true if anything was begun or ended.
    pub(crate) fn pump_jobs(&mut self, now: Instant) -> bool {
        self.jobs.wake = None;
        let clients = !self.requests.all_free();
        self.jobs.throttle.look(now, clients);
        if self.has_failed() {
            return self.stop_what_may_be();
        }
        if self.closing != Closing::Open || self.holds_back() {
            return false;
        }
        let going = |walk: &Walk| walk.stage == Stage::Going;
        let Some(row) = self.jobs.walks.iter().position(going) else {
            return false;
        };
        if self.job_waits(row, false) {
            return false;
        }
        let mut next = self.jobs.walks[row].next;
        let group = (JOBS[row].next_group)(self, next.group);
        assert!(group >= next.group, "a walk goes forwards");
        if group > next.group {
            next = Place { group, row: 0 };
        }
        self.jobs.walks[row].next = next;
        if next.group.0 >= self.geometry.groups() {
            return self.end_job(row);
        }
        self.find_mark(row);
        if !self.ranges.any_free_for_jobs() {
            return false;
        }
        match self.jobs.throttle.next(now) {
            Some(at) if at <= now => {}
            wake => {
                self.jobs.wake = wake;
                return false;
            }
        }
        if let Some(turn) = JOBS[row].turn {
            return turn(self);
        }
        self.begin_job_range(now, row);
        true
    }

    fn job_waits(&mut self, row: usize, at_end: bool) -> bool {
        JOBS[row].waits.is_some_and(|waits| waits(self, at_end))
    }

    fn end_job(&mut self, row: usize) -> bool {
        self.find_mark(row);
        if self.jobs.walks[row].pending > 0 || self.job_waits(row, true) {
            return false;
        }
        let walk = &mut self.jobs.walks[row];
        walk.stage = Stage::Over;
        self.jobs.going -= 1;
        let walk = *walk;
        (JOBS[row].ended)(self, walk);
        true
    }

    fn begin_job_range(&mut self, now: Instant, row: usize) {
        let id = self.ranges.take_for_job();
        let Place { group, row: low } = self.jobs.walks[row].next;
        self.ranges.take_group(&self.geometry, id, group);
        let chunk = self.ranges.group(id).blocks;
        let end = low + self.settings.limits.range_blocks.min(chunk - low);
        let walk = &mut self.jobs.walks[row];
        walk.pending += 1;
        walk.next = if end == chunk {
            Place {
                group: GroupIndex(group.0 + 1),
                row: 0,
            }
        } else {
            Place { group, row: end }
        };
        let bytes = u64::from(end - low) * u64::from(self.settings.block_size.bytes());
        self.jobs.throttle.gone(now, bytes);
        let range = &mut self.ranges[id];
        range.move_to(RangeStage::Starting);
        range.owner = Owner::Job(u8::try_from(row).expect("few jobs"));
        range.ask = JOBS[row].ask;
        range.group = group;
        range.touched = SlotSet::EMPTY;
        range.start = low;
        range.low = low;
        range.blocks = end - low;
        range.end = end;
        if range.ask == Ask::Replace {
            self.ranges[id].touched = self.replace.slots(&self.ranges, id);
        }
        self.start(id);
    }

    /// Handles the end of a job's stripe range, whose slot is free again.
    pub(crate) fn job_range_done(&mut self, id: RangeId, row: u8, done: bool, mismatch: bool) {
        let range = &self.ranges[id];
        let place = Place {
            group: range.group,
            row: range.start,
        };
        self.ranges.give_back_of_job(id);
        let row = usize::from(row);
        let walk = &mut self.jobs.walks[row];
        assert!(walk.pending > 0, "a range of a job ended twice");
        walk.pending -= 1;
        walk.mismatches += u64::from(mismatch);
        if !done {
            self.jobs.hold(JOBS[row], place);
        }
        self.find_mark(row);
        self.job_may_have_stopped(row);
    }

    fn find_mark(&mut self, row: usize) {
        let walk = &self.jobs.walks[row];
        let (before, going) = (walk.mark, walk.stage == Stage::Going);
        let mark = self
            .ranges
            .for_jobs()
            .filter(|range| {
                range.stage() != RangeStage::Free
                    && matches!(range.owner, Owner::Job(owner) if usize::from(owner) == row)
            })
            .map(|range| Place {
                group: range.group,
                row: range.start,
            })
            .chain(walk.held)
            .fold(walk.next, Place::min);
        self.jobs.walks[row].mark = mark;
        if going && mark > before {
            (JOBS[row].advanced)(self);
        }
    }

    /// Returns the jobs that run, and those that went through the array with failures.
    pub(crate) fn job_statuses(&self) -> Vec<JobStatus> {
        let total = self.geometry.blocks();
        let block_bytes = u64::from(self.settings.block_size.bytes());
        let walks = JOBS.iter().zip(&self.jobs.walks);
        walks
            .filter(|(_, walk)| match walk.stage {
                Stage::Idle => false,
                Stage::Going | Stage::Stopping => true,
                Stage::Over => walk.failed > 0,
            })
            .map(|(job, walk)| JobStatus {
                name: job.name,
                going: walk.stage == Stage::Going,
                done_bytes: self.geometry.blocks_before(walk.next.group).min(total) * block_bytes,
                total_bytes: total * block_bytes,
                failed: walk.failed,
                mismatches: walk.mismatches,
                rate: self.jobs.throttle.rate,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (row, job) in JOBS.iter().enumerate() {
            assert!(JOBS[..row].iter().all(|other| other.name != job.name));
            assert!(Job::by_name(job.name).is_some_and(|found| core::ptr::eq(found, *job)));
            assert!(!job.about.is_empty() && !job.about.ends_with('.'));
        }
    }
}

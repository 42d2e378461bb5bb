//! Background jobs: each walks the groups of the array, a stripe range at a time, with a pool of
//! stripe ranges of its own, and keeps out of the clients' way. One file each, one row in the
//! table.

pub(crate) mod grow;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub(crate) mod resync;
pub(crate) mod scrub;

use crate::{
    Engine,
    engine::Closing,
    jobs::{JobStatus, Jobs, Place, Walk},
    output::CommandError,
    plan::Ask,
    stripe::Owner,
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
        self.walk_of(job.row())
    }

    /// Begins a job at `from`; all groups below count as done. No stripe range of the job may be
    /// under way.
    pub(crate) fn begin(&mut self, job: &'static Job, from: Place) {
        self.begin_walk(job.row(), from);
    }

    /// Holds a job's mark at a place that is not done, whether the job has come there or not.
    pub(crate) fn hold(&mut self, job: &'static Job, place: Place) {
        self.hold_walk(job.row(), place);
    }

    /// Stops a job early. Its stripe ranges under way still end.
    pub(crate) fn stop(&mut self, job: &'static Job) {
        self.stop_walk(job.row());
    }

    /// Returns an error if a job can't be ended on command.
    pub(crate) fn may_stop(&self, name: &str) -> Result<(), CommandError> {
        let job = Job::by_name(name).ok_or(CommandError::NoSuchJob)?;
        if job.stopped.is_none() {
            return Err(CommandError::MustGoOn);
        }
        if !self.walk(job).is_going() {
            return Err(CommandError::NoSuchJob);
        }
        Ok(())
    }

    /// Returns a job that runs and can be stopped.
    fn one_to_stop(&self) -> Option<usize> {
        let may_stop = |row: &usize| JOBS[*row].stopped.is_some() && self.walk_of(*row).is_going();
        (0..JOBS.len()).find(may_stop)
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
        self.jobs.let_stop(row);
        self.find_mark(row);
        self.job_may_have_stopped(row);
    }

    fn job_may_have_stopped(&mut self, row: usize) {
        if self.jobs.has_stopped(row) {
            let stopped = JOBS[row].stopped.expect("one that may be stopped");
            stopped(self);
            self.jobs.stop_walk(row);
        }
    }

    /// Lets the first job that can continue do so. Returns true if anything was begun or ended.
    pub(crate) fn pump_jobs(&mut self, now: Instant) -> bool {
        let clients = !self.requests.all_free();
        self.jobs.look_at_clients(now, clients);
        if self.has_failed() {
            // No job can be completed.
            let row = self.jobs.one_to_stop();
            return row.is_some_and(|row| {
                self.begin_to_stop(row);
                true
            });
        }
        if self.closing != Closing::Open || self.holds_back() {
            return false;
        }
        let Some(row) = self.jobs.next_job() else {
            return false;
        };
        if self.job_waits(row, false) {
            return false;
        }
        let group = (JOBS[row].next_group)(self, self.jobs.walk_of(row).next_group());
        self.jobs.skip_to(row, group);
        if group.0 >= self.geometry.groups() {
            return self.end_job(row);
        }
        self.find_mark(row);
        if !self.ranges.any_free_for_jobs() || !self.jobs.may_begin(now) {
            return false;
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
        if self.jobs.has_ranges(row) || self.job_waits(row, true) {
            return false;
        }
        let walk = self.jobs.end_walk(row);
        (JOBS[row].ended)(self, walk);
        true
    }

    fn begin_job_range(&mut self, now: Instant, row: usize) {
        let id = self.ranges.take_for_job();
        let group = self.jobs.walk_of(row).next_group();
        self.ranges.take_group(&self.geometry, id, group);
        let chunk = self.ranges.group(id).blocks;
        let rows = (self.jobs).take_rows(row, chunk, self.settings.limits.range_blocks);
        let bytes = u64::from(rows.end - rows.start) * u64::from(self.settings.block_size.bytes());
        self.jobs.count_pace(now, bytes);
        let owner = Owner::Job(u8::try_from(row).expect("few jobs"));
        self.ranges[id].begin_own(owner, JOBS[row].ask, group, rows);
        if JOBS[row].ask == Ask::Replace {
            self.ranges[id].touched = self.replace.slots(&self.ranges, id);
        }
        self.start(id);
    }

    /// Continues the jobs of which a stripe range has ended.
    pub(crate) fn jobs_moved(&mut self) {
        while let Some(row) = self.jobs.next_moved() {
            self.find_mark(row);
            self.job_may_have_stopped(row);
        }
    }

    fn find_mark(&mut self, row: usize) {
        if self.jobs.find_mark(row, self.ranges.places_of_job(row)) {
            (JOBS[row].advanced)(self);
        }
    }

    /// Returns the jobs that run, and those that went through the array with failures.
    pub(crate) fn job_statuses(&self) -> Vec<JobStatus> {
        let (geometry, block_size) = (&self.geometry, self.settings.block_size);
        let status =
            |(row, job): (usize, &&Job)| self.jobs.status(row, job.name, geometry, block_size);
        JOBS.iter().enumerate().filter_map(status).collect()
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

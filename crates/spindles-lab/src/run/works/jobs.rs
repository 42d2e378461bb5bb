//! Begins the jobs of an array, and follows their progress.

use crate::experiment::jobs::{self, Job};
use crate::systems::targets::System;
use spindles_array::{PlaceWanted, Target};
use spindles_device::Examined;
use spindles_engine::{Repair, Scrub};

/// Begins a job on an open system, and returns the target to continue with.
type Begin = fn(&mut dyn System, Box<dyn Target>) -> Result<Box<dyn Target>, String>;

/// Returns the progress of a job; `None` if none is running.
type Progress = fn(&dyn Target) -> Option<u64>;

/// How a job runs.
pub(super) struct JobRun {
    job: &'static Job,
    /// Begins the job, on the open array or after reopening it.
    pub(super) begin: Begin,
    /// Returns the bytes of the array that the job has processed.
    pub(super) progress: Progress,
}

/// The runs of all jobs.
static RUNS: [&JobRun; 4] = [&GROW, &REBUILD, &REPLACE, &SCRUB];

/// Returns how a job runs.
pub(super) fn run_of(job: &Job) -> &'static JobRun {
    let found = RUNS.into_iter().find(|run| run.job.name == job.name);
    found.expect("each job can be run")
}

static GROW: JobRun = JobRun {
    job: &jobs::GROW,
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        system.open_growing()
    },
    progress: |target| {
        let growth = target.status()?.growth?;
        Some(growth.done_bytes)
    },
};

static REBUILD: JobRun = JobRun {
    job: &jobs::REBUILD,
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        let devices = system.devices();
        let first = devices.first().ok_or("there is no member to lose")?;
        let mut target = system.open_without_first()?;
        let attached = target.attach(first, PlaceWanted::First, Examined::now(first));
        attached.map_err(|error| error.to_string())?;
        Ok(target)
    },
    progress: filled_bytes,
};

static REPLACE: JobRun = JobRun {
    job: &jobs::REPLACE,
    begin: |system, mut open| {
        system.replace_first(open.as_mut())?;
        Ok(open)
    },
    progress: filled_bytes,
};

static SCRUB: JobRun = JobRun {
    job: &jobs::SCRUB,
    begin: |_, mut open| {
        let scrub = Scrub {
            anew: true,
            repair: Repair::Nothing,
        };
        let begun = open.begin_scrub(scrub);
        begun.map_err(|why| format!("the scrub can't begin: {why:?}"))?;
        Ok(open)
    },
    progress: |target| {
        let progress = target.scrub_progress();
        progress.going.then_some(progress.done_bytes)
    },
};

fn filled_bytes(target: &dyn Target) -> Option<u64> {
    let progress = target.rebuild_progress();
    progress.map(|progress| progress.done_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_can_be_run() {
        let names = jobs::JOBS.iter().map(|job| job.name);
        assert!(names.eq(RUNS.iter().map(|run| run.job.name)));
    }
}

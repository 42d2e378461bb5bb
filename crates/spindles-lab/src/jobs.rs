//! Jobs of an array that a workload can run beside: a row of the table each.

use crate::targets::System;
use spindles_engine::{Repair, Scrub};
use spindles_io::Target;

/// Begins a job on a system that is open, and gives back the target to go on with.
type Begin = fn(&mut dyn System, Box<dyn Target>) -> Result<Box<dyn Target>, String>;

/// How far a job is; `None` where none is under way.
type Progress = fn(&dyn Target) -> Option<u64>;

/// A job that a workload can run beside.
#[derive(Debug)]
pub struct Job {
    /// What experiments call it.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// Begins it, on the open array or on the one that is opened anew for it.
    pub(crate) begin: Begin,
    /// Bytes of the array that it has gone through.
    pub(crate) progress: Progress,
}

/// All of them.
pub static JOBS: &[&Job] = &[&REBUILD, &SCRUB];

impl Job {
    /// The job of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        JOBS.iter().copied().find(|job| job.name == name)
    }
}

static REBUILD: Job = Job {
    name: "rebuild",
    about: "the first member is lost, and a blank device in its place is filled",
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        let devices = system.devices();
        let first = devices.first().ok_or("there is no member to lose")?;
        let mut target = system.open_without_first()?;
        let attached = target.attach(first, None);
        attached.map_err(|error| error.to_string())?;
        Ok(target)
    },
    progress: |target| {
        target
            .rebuild_progress()
            .map(|progress| progress.done_bytes)
    },
};

static SCRUB: Job = Job {
    name: "scrub",
    about: "everything is read and compared",
    begin: |_, mut open| {
        let scrub = Scrub {
            anew: true,
            repair: Repair::Nothing,
        };
        let begun = open.begin_scrub(scrub);
        begun.map_err(|why| format!("no scrub begins: {why:?}"))?;
        Ok(open)
    },
    progress: |target| {
        let progress = target.scrub_progress();
        progress.going.then_some(progress.done_bytes)
    },
};

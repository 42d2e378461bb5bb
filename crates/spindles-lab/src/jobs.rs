//! Jobs of an array that a workload can run beside: a row of the table each.

use crate::experiment::WorkloadSpec;
use crate::targets::System;
use spindles_engine::{Repair, Scrub};
use spindles_io::Target;
use spindles_measure::Stage;

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
    /// How many devices it takes that are no members, and how many members it sets free.
    devices: (usize, usize),
    /// Begins it, on the open array or on the one that is opened anew for it.
    pub(crate) begin: Begin,
    /// Bytes of the array that it has gone through.
    pub(crate) progress: Progress,
}

/// All of them.
pub static JOBS: &[&Job] = &[&GROW, &REBUILD, &REPLACE, &SCRUB];

impl Job {
    /// The job of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        JOBS.iter().copied().find(|job| job.name == name)
    }
}

/// How many devices the jobs beside these workloads take together that are no members.
pub(crate) fn newcomers<'a>(workloads: impl Iterator<Item = &'a WorkloadSpec>) -> usize {
    let (mut taken, mut free) = (0, 0);
    for workload in workloads {
        if let Some((job, Stage::During)) = workload.beside {
            let (needs, frees) = job.devices;
            taken += needs.saturating_sub(free);
            free = free.saturating_sub(needs) + frees;
        }
    }
    taken
}

static GROW: Job = Job {
    name: "grow",
    about: "a device becomes one more member",
    devices: (1, 0),
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        system.open_growing()
    },
    progress: |target| {
        let growth = target.status()?.growth?;
        Some(growth.done_bytes)
    },
};

static REBUILD: Job = Job {
    name: "rebuild",
    about: "the first member is lost, and a blank device in its place is filled",
    devices: (0, 0),
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        let devices = system.devices();
        let first = devices.first().ok_or("there is no member to lose")?;
        let mut target = system.open_without_first()?;
        let attached = target.attach(first, None);
        attached.map_err(|error| error.to_string())?;
        Ok(target)
    },
    progress: filled_bytes,
};

static REPLACE: Job = Job {
    name: "replace",
    about: "the first member is copied onto a device that takes its place",
    devices: (1, 1),
    begin: |system, mut open| {
        system.replace_first(open.as_mut())?;
        Ok(open)
    },
    progress: filled_bytes,
};

fn filled_bytes(target: &dyn Target) -> Option<u64> {
    let progress = target.rebuild_progress();
    progress.map(|progress| progress.done_bytes)
}

static SCRUB: Job = Job {
    name: "scrub",
    about: "everything is read and compared",
    devices: (0, 0),
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

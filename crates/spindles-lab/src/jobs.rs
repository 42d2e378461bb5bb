//! Jobs of an array that a workload can run alongside. The table has a row for each job.

use crate::experiment::WorkloadSpec;
use crate::targets::System;
use crate::targets::options::Subject;
use spindles_array::{PlaceWanted, Target};
use spindles_device::Seen;
use spindles_engine::{Repair, Scrub};
use spindles_layout::LEVELS;
use spindles_measure::Stage;

/// Begins a job on an open system, and returns the target to continue with.
type Begin = fn(&mut dyn System, Box<dyn Target>) -> Result<Box<dyn Target>, String>;

/// Returns the progress of a job; `None` if none is running.
type Progress = fn(&dyn Target) -> Option<u64>;

/// A job that a workload can run alongside.
#[derive(Debug)]
pub struct Job {
    /// Its name in experiments.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// Extra devices that it needs, and members that it sets free.
    devices: (usize, usize),
    /// Returns true if a system supports the job, as far as known before the system is created.
    can_run: fn(&Subject) -> bool,
    /// Describes such systems.
    is_for: fn() -> String,
    /// Begins the job, on the open array or after reopening it.
    pub(crate) begin: Begin,
    /// Returns the bytes of the array that the job has processed.
    pub(crate) progress: Progress,
}

/// All jobs.
pub static JOBS: &[&Job] = &[&GROW, &REBUILD, &REPLACE, &SCRUB];

impl Job {
    /// Returns the job of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        JOBS.iter().copied().find(|job| job.name == name)
    }

    /// Checks that the job can run on a system.
    ///
    /// # Errors
    /// When it can't; names the systems that can.
    pub(crate) fn check(&self, subject: &Subject) -> Result<(), String> {
        if (self.can_run)(subject) {
            return Ok(());
        }
        Err(format!(
            "it runs beside {}, which is for {}: leave that out, or list in its `systems` those \
             that can",
            self.name,
            (self.is_for)()
        ))
    }
}

/// Returns how many extra devices the jobs of these workloads need together.
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
    can_run: |system| system.has_superblocks() && system.grows(),
    is_for: || {
        let levels = LEVELS.iter().filter(|level| level.grows());
        let names: Vec<&str> = levels.map(|level| level.name).collect();
        format!(
            "arrays on files or devices of a level that grows ({})",
            names.join(", ")
        )
    },
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
    can_run: |system| system.has_superblocks() && system.may_be_redundant(),
    is_for: || "arrays on files or devices with redundancy".to_owned(),
    begin: |system, open| {
        open.close().map_err(|error| error.to_string())?;
        let devices = system.devices();
        let first = devices.first().ok_or("there is no member to lose")?;
        let mut target = system.open_without_first()?;
        let attached = target.attach(first, PlaceWanted::First, Seen::now(first));
        attached.map_err(|error| error.to_string())?;
        Ok(target)
    },
    progress: filled_bytes,
};

static REPLACE: Job = Job {
    name: "replace",
    about: "the first member is copied onto a device that takes its place",
    devices: (1, 1),
    can_run: Subject::has_superblocks,
    is_for: || "arrays on files or devices".to_owned(),
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
    can_run: Subject::may_be_redundant,
    is_for: || "arrays with redundancy".to_owned(),
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

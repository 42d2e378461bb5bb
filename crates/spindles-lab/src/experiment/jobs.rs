//! Jobs of an array that a workload can run alongside. The table has a row for each job.

use crate::experiment::systems::options::Subject;
use spindles_layout::LEVELS;

/// A job that a workload can run alongside.
#[derive(Debug)]
pub struct Job {
    /// Its name in experiments.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// Extra devices that it needs, and members that it sets free.
    pub(crate) devices: (usize, usize),
    /// Returns true if a system supports the job, as far as known before the system is created.
    can_run: fn(&Subject) -> bool,
    /// Describes such systems.
    is_for: fn() -> String,
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
            "it runs alongside {}, which is for {}: leave out `beside`, or list in its `systems` \
             only systems that can run the job",
            self.name,
            (self.is_for)()
        ))
    }
}

pub(crate) static GROW: Job = Job {
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
};

pub(crate) static REBUILD: Job = Job {
    name: "rebuild",
    about: "the first member is lost, and a blank device in its place is filled",
    devices: (0, 0),
    can_run: |system| system.has_superblocks() && system.may_be_redundant(),
    is_for: || "arrays on files or devices with redundancy".to_owned(),
};

pub(crate) static REPLACE: Job = Job {
    name: "replace",
    about: "the first member is copied onto a device that takes its place",
    devices: (1, 1),
    can_run: Subject::has_superblocks,
    is_for: || "arrays on files or devices".to_owned(),
};

pub(crate) static SCRUB: Job = Job {
    name: "scrub",
    about: "everything is read and compared",
    devices: (0, 0),
    can_run: Subject::may_be_redundant,
    is_for: || "arrays with redundancy".to_owned(),
};

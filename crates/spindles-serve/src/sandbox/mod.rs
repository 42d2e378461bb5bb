//! The sandbox: what a server gives up before the first client connects, one table row for each
//! part.
//!
//! An attacker who takes over the server through a client connection gets an array, and no more of
//! the machine.
//!
//! ```text
//!  open the devices ─▶ listen ─▶ enter ─▶ start threads ─▶ serve
//!                                                            │ a device more, a hook, an unmount
//!                                 helper, outside  ◀─────────┘
//! ```
//!
//! Most parts apply to the thread that enters, and to threads that it starts later. So most threads
//! are started afterwards, and existing threads enter by themselves. Parts that the kernel lacks
//! are skipped and reported.

pub mod helper; // Not a row: the process outside.
mod landlock;
mod privileges;
mod seccomp;

use std::fmt;
use std::path::PathBuf;

/// Requirements of a server in the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Folders in which the server creates, writes and removes files.
    pub writes_in: Vec<PathBuf>,
    /// Folders from which the server removes files that it left there.
    pub removes_from: Vec<PathBuf>,
    /// True if the server connects to other machines that hold members.
    pub connects: bool,
    /// True if the server has more locked memory than its limit.
    pub exceeds_locked_memory: bool,
}

/// A part of the sandbox.
struct Restriction {
    /// Name for people.
    name: fn(&Needs) -> &'static str,
    /// True if the part applies to all threads of the process at once.
    for_all_threads: bool,
    /// Enters the part; returns true if it is in force.
    enter: fn(&Needs) -> bool,
}

/// All parts, in the order of entering: none removes what a later one needs.
static PARTS: &[&Restriction] = &[
    &privileges::NO_NEW_PRIVILEGES,
    &privileges::NO_CAPABILITIES,
    &landlock::LANDLOCK,
    &seccomp::SECCOMP,
];

/// The parts in force and the missing ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    holding: Vec<&'static str>,
    missing: Vec<&'static str>,
}

/// Drops what is not needed, for this thread and those that it starts from now on. The system call
/// filter applies to all threads. Existing threads must call [`enter_thread`] before.
#[must_use]
pub fn enter(needs: &Needs) -> Sandbox {
    enter_parts(needs, |_| true)
}

/// Drops what is per thread, for the calling thread.
#[must_use]
pub fn enter_thread(needs: &Needs) -> Sandbox {
    enter_parts(needs, |part| !part.for_all_threads)
}

fn enter_parts(needs: &Needs, which: impl Fn(&Restriction) -> bool) -> Sandbox {
    let parts = PARTS.iter().filter(|part| which(part));
    let (holding, missing): (Vec<_>, Vec<_>) = parts.partition(|part| (part.enter)(needs));
    let names = |parts: Vec<&&Restriction>| parts.iter().map(|part| (part.name)(needs)).collect();
    Sandbox {
        holding: names(holding),
        missing: names(missing),
    }
}

impl Sandbox {
    /// Reduces the parts in force to those that also apply to a thread that entered by itself.
    #[must_use]
    pub fn with_thread(mut self, thread: &Self) -> Self {
        let lost = self
            .holding
            .extract_if(.., |part| thread.missing.contains(part));
        self.missing.extend(lost);
        self
    }

    /// Parts in force.
    #[must_use]
    pub fn holding(&self) -> &[&'static str] {
        &self.holding
    }

    /// Parts that this kernel lacks, or that the parent process denies.
    #[must_use]
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holding.as_slice() {
            [] => f.write_str("none"),
            parts => f.write_str(&parts.join(", ")),
        }
    }
}

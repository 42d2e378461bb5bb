//! What a server gives up before the first client comes, each part a row of a table.
//!
//! Whoever takes the server over by what a client sends gets an array, and no more of the machine.
//!
//! ```text
//!  open the devices ─▶ listen ─▶ enter ─▶ start threads ─▶ serve
//!                                                            │ a device more, a hook, an unmount
//!                                 helper, outside  ◀─────────┘
//! ```
//!
//! Most hold for the thread that enters and for what it starts then: threads are started after it, and those that are
//! there already enter themselves. A kernel that does not have a part goes without; which hold are known.

pub mod helper; // Not a row: who stays outside.
mod landlock;
mod privileges;
mod seccomp;

use std::fmt;
use std::path::PathBuf;

/// What a server still has to do by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Folders in which it makes, writes and removes files.
    pub writes_in: Vec<PathBuf>,
    /// Folders from which it removes what it left there.
    pub removes_from: Vec<PathBuf>,
    /// It connects to other machines, since members lie there.
    pub connects: bool,
    /// It has more memory locked than its limit.
    pub exceeds_locked_memory: bool,
}

/// A part of the sandbox.
struct Part {
    /// For people.
    name: fn(&Needs) -> &'static str,
    /// Whether it holds for all threads of the process at once.
    for_all_threads: bool,
    /// Whether it holds from now on.
    enter: fn(&Needs) -> bool,
}

/// All parts, in the order in which they are entered: none takes away what a later one needs.
static PARTS: &[&Part] = &[
    &privileges::NO_NEW_PRIVILEGES,
    &privileges::NO_CAPABILITIES,
    &landlock::LANDLOCK,
    &seccomp::SECCOMP,
];

/// Which parts hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    holding: Vec<&'static str>,
    missing: Vec<&'static str>,
}

/// Gives up all that is not needed, for this thread and those that it starts from now on; what system calls there are,
/// for all threads. Threads that go on enter before, by [`enter_thread`].
#[must_use]
pub fn enter(needs: &Needs) -> Sandbox {
    enter_parts(needs, |_| true)
}

/// Gives up what each thread has for itself: for this one.
#[must_use]
pub fn enter_thread(needs: &Needs) -> Sandbox {
    enter_parts(needs, |part| !part.for_all_threads)
}

fn enter_parts(needs: &Needs, which: impl Fn(&Part) -> bool) -> Sandbox {
    let parts = PARTS.iter().filter(|part| which(part));
    let (holding, missing): (Vec<_>, Vec<_>) = parts.partition(|part| (part.enter)(needs));
    let names = |parts: Vec<&&Part>| parts.iter().map(|part| (part.name)(needs)).collect();
    Sandbox {
        holding: names(holding),
        missing: names(missing),
    }
}

impl Sandbox {
    /// What holds here and for a thread that entered by itself.
    #[must_use]
    pub fn with_thread(mut self, thread: &Self) -> Self {
        let lost = self
            .holding
            .extract_if(.., |part| thread.missing.contains(part));
        self.missing.extend(lost);
        self
    }

    /// The parts that hold.
    #[must_use]
    pub fn holding(&self) -> &[&'static str] {
        &self.holding
    }

    /// The parts that this kernel does not have, or whoever started the server keeps from it.
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

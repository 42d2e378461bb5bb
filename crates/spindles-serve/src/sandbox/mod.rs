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
//! Each holds for the thread that enters and for what it starts then, so that threads are
//! started after it. A kernel that does not have a part goes without; which hold is known.

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
}

/// A part of the sandbox.
struct Part {
    /// For people.
    name: &'static str,
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
/// for all threads.
#[must_use]
pub fn enter(needs: &Needs) -> Sandbox {
    let (holding, missing): (Vec<_>, Vec<_>) = PARTS.iter().partition(|part| (part.enter)(needs));
    let names = |parts: Vec<&&'static Part>| parts.iter().map(|part| part.name).collect();
    Sandbox {
        holding: names(holding),
        missing: names(missing),
    }
}

impl Sandbox {
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

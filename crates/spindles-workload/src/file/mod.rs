//! Workloads on files. Each actor waits for one answer at a time, like the processes and threads of
//! the classic tools. Workloads only decide which operation comes next; the driver opens files,
//! runs threads and reads the clock.

mod action;
mod fileset;
pub mod kinds;
mod layout;
mod plan;
mod script;
mod sizes;
mod tree;
mod unsynced;

pub use action::{
    Access, Action, Answer, At, Class, FileCounted, FileId, FileIssue, FileNext, FilePhase,
    FileWorkload, Slot,
};
pub use kinds::{KINDS, by_name};
pub use layout::{EXTENT_BYTES, Full, Layout, Piece};
pub(crate) use plan::Choices;
pub use plan::{FileKind, FilePlan, NotBare, Parameter, ParameterError, Range, SECONDS, Value};
pub use sizes::times;
pub use tree::{Entry, Tree};

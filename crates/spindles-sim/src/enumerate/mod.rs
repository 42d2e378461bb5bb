//! Small arrays, enumerated. The real engine runs on disks of a few blocks, with a few overlapping
//! requests in every order and a crash at every moment. Explores all
//! contents that the crash can leave on the disks. Afterwards every set of members is missing once,
//! and a second crash comes at every moment of the recovery.
//!
//! The contents of disks and caches, together with the legal contents of each atom, are a *state*.
//! No state is visited twice. From each state the array is assembled, opened and read, with every
//! tolerated set of members missing. Every atom is checked, and read again without further members.
//!
//! Contents are numbers (`store.rs`), so that a state costs microseconds. The engine is cloned
//! where the order of events branches. Two branches with the same disks, the same operations in
//! flight and the same answers count as one, whatever else the engine remembers.

mod assemble;
mod bounds;
mod explore;
mod fresh;
mod legal;
mod machine;
mod media;
mod scenario;
mod store;
mod way;

pub use bounds::{Bounds, Finding, Summary};
pub use explore::explore;
pub use scenario::{Event, Scenario, scenarios};

//! Disks that lie, below the real program.
//!
//! A FUSE file system serves files that are disks: each has a volatile cache of its own, answers
//! out of order, tears what power loss catches, and fails, stalls or hangs as drawn. A
//! client, a process of its own, opens an array on them through the library, writes and reads at
//! random, and logs what it asked and what was answered. At some request of a disk it is killed, and
//! where power is lost the caches go too. Others read the array back then, with members away that it
//! survives, and judge what they find by `docs/consistency.md` alone.
//!
//! ```text
//!   session (server of the disks)          client (a process, killed)
//!   ─────────────────────────────          ──────────────────────────
//!   shape: which array                     assemble, submit, poll ─▶ log
//!   machine: disks, faults, power  ◀─FUSE─ io_uring or threads
//!   medium: cache, tearing
//!   session: lives, crashes, checks ─────▶ read back with members away ─▶ ledger judges
//! ```

mod client;
mod image;
mod job;
mod ledger;
mod machine;
mod medium;
mod mount;
mod random;
mod session;
mod shape;

pub use client::serve;
pub use medium::Lie;
pub use mount::{Mount, NoMount};
pub use session::{Counts, Failure, Harness, Sessions};

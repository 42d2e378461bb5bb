//! Disks that lie, below the real program.
//!
//! A FUSE file system whose files are disks. Each has its own volatile cache, answers out of order,
//! tears writes at power loss, and fails, stalls or hangs as drawn. A client, a separate process,
//! opens an array on them through the library. It writes and reads at random, and logs its requests
//! and their answers. At some request of a disk it is killed; if the power is lost, the caches are
//! lost too. Then other clients read the array back, with as many members missing as it survives,
//! and judge the results by `docs/design/consistency.md` alone.
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

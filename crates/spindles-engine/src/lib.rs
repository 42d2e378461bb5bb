//! The array engine of Spindles, sans-IO: requests, completions and commands go in, outputs come
//! out, and nothing else happens. Time is an argument, payloads are handles, limits are reserved
//! at open. `plan.rs` decides, `ranges/` does.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bad_blocks;
mod bitmaps;
mod bits;
mod checksums;
pub mod config;
pub mod consistency;
mod durable;
pub(crate) mod engine;
mod extension;
mod faults;
mod first_touch;
mod flushes;
mod growth;
mod hedges;
mod ids;
mod inspection;
pub mod jobs;
mod locks;
mod log;
pub mod member;
pub mod membership;
mod metadata;
pub mod mutation;
mod opening;
pub mod output;
pub mod plan;
mod ranges;
pub mod read_policies;
mod recovery;
mod regions;
mod requests;
mod role;
pub mod slots;
mod slow;
mod status;
mod system_io;
mod throttle;
mod waits;
mod zeroing;

pub use config::{Config, FaultLimits, Limits, OpenError, Persistence};
pub use consistency::{POLICIES, Policy, WriteHole};
pub use engine::Engine;
pub use engine::jobs::{JOBS, Job};
pub use extension::{Extent, largest, plan_size};
pub use faults::MemberFaults;
pub use growth::{PlanError, Target as GrowthTarget, geometry_of, plan_abort, plan_growth};
pub(crate) use ids::{PAGE_IO, REPLACEMENT, RangeId, SLOT_BITS, SYSTEM_IO, index};
pub use inspection::MetadataFinding;
pub use jobs::scrub::{Fate, Finding, Flaw, Repair, Scrub, ScrubStatus};
pub use jobs::{JOB_RATE, JobStatus};
pub use log::JOURNAL_DEVICE;
pub use member::{ArrayState, Member};
pub use membership::{Change, Growing, Membership, Plan};
pub use mutation::Mutation;
pub use output::{Busy, Command, CommandError, Event, IoPurpose, OutReason, Output, ReplaceEnd};
pub use read_policies::{READ_POLICIES, ReadPolicy};
pub use role::Role;
pub use status::{GrowthStatus, JournalStatus, MemberStatus, RegionsStatus, Status};
pub use system_io::{MetadataRead, Purpose};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_engine;
#[cfg(test)]
#[path = "../tests/engine/main.rs"]
mod public;

//! The array engine of Spindles, sans-IO: requests, completions and commands go in, outputs come
//! out, and nothing else happens. Time is an argument, payloads are handles, limits are reserved
//! at open. `plan.rs` decides, `columns/` does.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bad_blocks;
mod bitmaps;
mod bits;
mod checksums;
mod columns;
pub mod config;
pub mod consistency;
mod engine;
mod extension;
mod faults;
mod first_touch;
mod flushes;
mod growth;
mod hedges;
pub mod jobs;
mod journal;
mod locks;
pub mod member;
mod metadata;
pub mod mutation;
pub mod output;
pub mod plan;
pub mod read_policies;
mod recovery;
mod regions;
mod requests;
pub mod slots;
mod slow;
mod status;
mod system_io;
mod throttle;
mod zeroing;

pub use config::{Config, FaultLimits, Limits, OpenError, Persistence};
pub use consistency::{POLICIES, Policy, WriteHole};
pub use engine::Engine;
pub use extension::{Extent, largest, plan_size};
pub use faults::MemberFaults;
pub use growth::{PlanError, Target as GrowthTarget, geometry_of, plan_abort, plan_growth};
pub use jobs::scrub::{Fate, Finding, Flaw, Repair, Scrub, ScrubStatus};
pub use jobs::{JOB_RATE, JOBS, Job, JobStatus};
pub use journal::JOURNAL_DEVICE;
pub use member::{ArrayState, Member};
pub use mutation::Mutation;
pub use output::{Busy, Command, CommandError, Event, OutReason, Output, ReplaceEnd};
pub use read_policies::{READ_POLICIES, ReadPolicy};
pub use status::{GrowthStatus, JournalStatus, MemberStatus, RegionsStatus, Status};
pub use system_io::MetadataRead;

/// Set in the ids of member I/O that belongs to no column.
pub(crate) const SYSTEM_IO: u32 = 1 << 31;
/// And this one, where it is a page of checksums: the rest is the number of its frame.
pub(crate) const PAGE_IO: u32 = 1 << 30;
/// Set in the ids of what goes to the device that is to replace a member: of a column, or a page.
pub(crate) const NEWCOMER: u32 = 1 << 29;
/// Bits of a member I/O's id that hold the slot in its column.
pub(crate) const SLOT_BITS: u32 = 6;

/// A pool index as an index of a slice.
#[inline]
pub(crate) fn index(value: u32) -> usize {
    usize::try_from(value).expect("pools are smaller than the address space")
}

const _: () = assert!(spindles_block::MEMBERS_MAX as u32 <= 1 << SLOT_BITS);

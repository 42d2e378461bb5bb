//! The array engine of Spindles, sans-IO: requests, completions and commands go in, outputs come
//! out, and nothing else happens. Time is an argument, payloads are handles, limits are reserved
//! at open. `plan.rs` decides, `ranges/` does.
//!
//! A driver carries outputs out. This one drives a mirror of two members, each an array of bytes:
//!
//! ```
//! use spindles_block::{
//!     BlockIndex, BlockSize, BufferId, BufferSlice, Instant, Operation, Request,
//! };
//! use spindles_engine::{Config, Engine, Output};
//! use spindles_layout::{Geometry, Level, Spec};
//!
//! let spec = Spec {
//!     level: Level::by_name("raid1").expect("a row of the table"),
//!     layout: None,
//!     chunk_blocks: 1,
//!     member_blocks: vec![8; 2],
//! };
//! let geometry = Geometry::new(&spec).expect("a legal array");
//! let config = Config::bare(geometry, BlockSize::B512, 1);
//! let now = Instant(0);
//! let mut engine = Engine::open(now, config).expect("no member is missing");
//!
//! let mut members = [[0; 8 * 512]; 2];
//! let mut client = [7; 512];
//! let buffer = BufferSlice { buffer: BufferId(1), first_block: 0 };
//! for operation in [Operation::Write { fua: false }, Operation::Read] {
//!     let request = Request { token: 1, operation, block: BlockIndex(3), blocks: 1, buffer };
//!     engine.submit(now, request).expect("no other request is under way");
//!     let mut pending = Vec::new();
//!     loop {
//!         // An input may follow when all outputs of the last one are taken.
//!         while let Some(output) = engine.poll_output() {
//!             match output {
//!                 Output::Member(io) => pending.push(io),
//!                 Output::Reply(reply) => assert_eq!((reply.token, reply.result), (1, Ok(()))),
//!                 other => panic!("a mirror computes nothing: {other:?}"),
//!             }
//!         }
//!         let Some(io) = pending.pop() else { break };
//!         let start = usize::try_from(io.block.0).expect("small") * 512;
//!         let block = &mut members[usize::from(io.member.0)][start..][..512];
//!         match io.operation {
//!             Operation::Write { .. } => block.copy_from_slice(&client),
//!             Operation::Read => client.copy_from_slice(block),
//!             other => panic!("a mirror needs no {other:?}"),
//!         }
//!         engine.complete_member(now, io.id, Ok(()));
//!     }
//! }
//! assert_eq!(members[0][3 * 512..4 * 512], client);
//! assert_eq!(members[0], members[1]);
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agenda;
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
mod members;
pub mod membership;
mod metadata;
pub mod mutation;
mod opening;
mod outbox;
pub mod output;
pub mod plan;
pub mod read_policies;
mod recovery;
mod regions;
mod requests;
mod role;
mod settled;
pub mod slots;
mod slow;
pub mod stage;
mod staging;
mod status;
mod stripe;
mod system_io;
mod throttle;
mod waits;
mod workspace;
mod zeroing;

pub use config::{Config, FaultLimits, Limits, OpenError, Persistence, WriteBack, WriteBackMode};
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
pub use log::{JOURNAL_DEVICE, PIECES_MAX};
pub use member::{ArrayState, Member};
pub use membership::{Change, Growing, Membership, Plan};
pub use mutation::Mutation;
pub use output::{Busy, Command, CommandError, Event, IoPurpose, OutReason, Output, ReplaceEnd};
pub use read_policies::{READ_POLICIES, ReadPolicy};
pub use role::Role;
pub use status::{
    GrowthStatus, JournalStatus, MemberStatus, RegionsStatus, StageState, StageStatus, Status,
};
pub use system_io::{MetadataRead, Purpose};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_engine;
#[cfg(test)]
#[path = "../tests/engine/main.rs"]
mod public;

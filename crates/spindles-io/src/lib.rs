//! Real members, buffers, the one real clock, and the driver that carries requests
//! to them. Nothing here simulates, serves or decides where a block belongs.

mod areas;
pub mod assemble;
pub mod attach;
mod backends;
pub mod bad_pages;
pub mod bench;
mod buffers;
mod clearing;
mod clock;
mod compute;
pub mod copy;
mod core;
mod counters;
pub mod create;
mod driver;
#[cfg(test)]
mod dying;
mod errors;
pub mod export;
mod facts;
mod files;
pub mod grow;
mod holders;
pub mod host;
mod identity;
mod incidents;
pub mod journal;
#[cfg(test)]
mod killed;
mod labels;
mod left_over;
mod lost;
mod managed;
mod members;
pub mod membership;
pub mod notice;
mod options;
mod physical;
mod positioned;
mod probe;
mod progress;
mod queues;
mod random;
pub mod reading;
pub mod rebuild;
pub mod rename;
pub mod replace;
mod report;
pub mod resync;
mod room;
pub mod scan;
pub mod scratch;
pub mod scrub;
pub mod settings;
mod shell;
pub mod signatures;
pub mod spare;
mod stack;
#[cfg(test)]
mod stalls;
pub mod survey;
mod target;
#[cfg(test)]
mod tests;
mod transfer;
mod waiting;
pub mod wipe;
mod zeros;

pub use areas::Areas;
pub use backends::{BACKENDS, Backend};
pub use clock::{Clock, utc};
pub use counters::{Counters, DeviceCounters};
pub use errors::{CloseError, OpenError};
pub use facts::{ArrayFacts, BackendFacts, DeviceFacts, TargetFacts};
pub use files::{Opener, open_devices_by};
pub use incidents::{Incident, no_space, why_out};
pub use lost::LostBytes;
pub use managed::{Managed, await_resync};
pub use options::{Direct, IoChoice, OpenOptions};
pub use probe::holds_superblock;
pub use queues::{Readiness, Watch, WatchId};
pub use room::TooSmall;
pub use stack::{NodeId, Stack, open_device};
pub use target::{Busy, Target};
pub use waiting::{report_waits, stop_waiting_for_space};

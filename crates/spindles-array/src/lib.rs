//! Arrays on devices: the driver that carries requests of the engine to members, nested arrays and
//! their export. This crate names no files and decides nothing about membership.

mod access;
mod areas;
mod compute;
pub mod core;
mod degraded;
mod device_io;
mod driver;
pub mod errors;
pub mod export;
mod incidents;
pub mod labels;
pub mod lists;
mod lost;
pub mod managed;
mod members;
mod modelled;
mod overlay;
#[cfg(test)]
#[path = "../tests/peer_tests.rs"]
mod peer_tests;
#[cfg(test)]
#[path = "../tests/piece_tests.rs"]
mod piece_tests;
pub mod positions;
pub mod progress;
pub mod room;
#[cfg(test)]
#[path = "../tests/scripted.rs"]
mod scripted;
pub mod shell;
pub mod snapshot;
pub mod spare_report;
mod stack;
#[cfg(test)]
#[path = "../tests/stalls.rs"]
mod stalls;
pub mod tap;
mod target;
#[cfg(test)]
#[path = "../tests/tests.rs"]
mod tests;

pub use areas::Areas;
pub use degraded::Lacks;
pub use errors::AttachError;
pub use incidents::{Incident, SpaceChange, no_space, why_out};
pub use lost::LostBytes;
pub use managed::{Managed, PlaceWanted, PutOut, await_resync};
pub use positions::positions;
pub use room::TooSmall;
pub use snapshot::{ArraySnapshot, DeviceSnapshot, MemberSnapshot};
pub use stack::open_blocks;
pub use stack::{NodeId, Stack, open_device};
pub use target::{Busy, Target};

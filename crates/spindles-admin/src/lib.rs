//! Real members, buffers, the one real clock, and the driver that carries requests to them. This
//! crate neither simulates nor serves, and does not decide where a block belongs.

pub mod assemble;
pub mod attach;
mod away;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
pub mod configuration;
pub mod create;
#[cfg(test)]
#[path = "../tests/dying.rs"]
mod dying;
mod errors;
pub mod grow;
pub mod host;
pub mod journal;
#[cfg(test)]
#[path = "../tests/killed.rs"]
mod killed;
pub mod membership;
mod occupants;
pub mod plain;
pub mod reading;
pub mod rebuild;
pub mod rename;
pub mod replace;
mod report;
pub mod resync;
pub mod scan;
pub mod scrub;
pub mod settings;
pub mod spare;
pub mod survey;
pub mod wipe;
pub mod write_back;

pub use spindles_format::Uuid;

#[cfg(test)]
extern crate self as spindles_admin;

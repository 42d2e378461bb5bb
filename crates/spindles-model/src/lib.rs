//! Modelled disks and links in virtual time. A [`World`] takes requests with the moment they were
//! sent, and answers them at moments computed in closed form. The crate reads no file and no clock:
//! callers pass texts and times. Same parameters, draw and requests: same answers.

#![forbid(unsafe_code)]

mod account;
mod draw;
mod fault;
mod kinds;
mod parameters;
mod preset;
mod world;

pub use account::Account;
pub use draw::Draw;
pub use fault::{Fault, Problem};
pub use kinds::{KINDS, Kind};
pub use parameters::{How, Number, Parameters, Switch};
pub use preset::parse_preset;
pub use world::{Answer, DeviceId, Link, LinkId, Tag, Work, World};

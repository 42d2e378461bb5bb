//! Modelled disks, links and controllers in virtual time. A [`World`] takes requests with the
//! moment they were sent, and answers them at moments computed in closed form. The crate reads no
//! file and no clock:
//! callers pass texts and times. Same parameters, draw and requests: same answers.

#![forbid(unsafe_code)]

mod account;
mod controller;
mod disciplines;
mod draw;
mod drive;
mod drive_folder;
mod fault;
mod inference;
mod kind;
mod kinds;
mod mechanics;
mod model;
mod number;
mod parameters;
mod preset;
mod presets;
mod read_ahead;
mod replay;
mod world;

pub use account::Account;
pub use controller::{Controller, Surroundings};
pub use draw::Draw;
pub use drive_folder::{DriveTexts, Measured, parse_drive, parse_requests};
pub use fault::{Fault, Problem};
pub use kinds::{KINDS, Kind, NumberRule, Part, SwitchRule};
pub use parameters::{Extent, How, Link, Number, Parameters, Portrait, Switch, Zone};
pub use preset::parse_preset;
pub use presets::{preset, preset_names};
pub use replay::{Demerit, demerit, percentile, replay};
pub use world::{Answer, DeviceId, LinkId, Tag, Work, World};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_model;
#[cfg(test)]
#[path = "../tests/model.rs"]
mod public;

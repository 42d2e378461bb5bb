//! RAID levels as rows of one table. A [`Geometry`] maps the blocks of an array to redundancy
//! groups of chunks on its members, and back. No state, no time, no I/O.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod checksums;
mod choices;
mod divisor;
mod error;
mod expression;
mod extension;
mod geometry;
mod group;
mod growth;
mod level;
mod levels;
mod named;
mod rotation;
mod table;
mod zone;

pub use checksums::Covered;
pub use choices::choices;
pub use error::GeometryError;
pub use expression::{Expression, ExpressionError, MISSING, Slice, parse_devices, quoted};
pub use geometry::{Geometry, Spec};
pub use group::{Group, GroupIndex, Location, Role, Slot};
pub use growth::GrowthError;
pub use level::{Layout, LayoutRow, Level, Redundancy};
pub use levels::LEVELS;
pub use named::{CHUNK_BYTES_MAX, chunk_blocks};
pub use table::{Cell, Numbers, Table};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_layout;
#[cfg(test)]
#[path = "../tests/layout.rs"]
mod public;

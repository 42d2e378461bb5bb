//! The mechanics of a disk: where sectors lie, how the arm moves, and when a sector passes.

mod geometry;
mod mechanism;
mod seek;
mod spindle;

pub(crate) use geometry::{Geometry, SurfaceOrder};
pub(crate) use mechanism::{Inflow, Mechanism, Pass};
pub(crate) use seek::Seeks;
pub(crate) use spindle::Spindle;

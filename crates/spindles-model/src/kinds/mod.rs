//! Kinds of devices: one file each, one row in the table.

mod fixed;
mod link;
mod mechanical;

use crate::fault::Fault;
use crate::parameters::{Portrait, Values};
use crate::world::Model;

/// A number that a kind reads.
#[derive(Clone, Copy, Debug)]
pub struct NumberRule {
    /// The key.
    pub key: &'static str,
    /// The least value allowed.
    pub least: f64,
    /// The largest value allowed.
    pub most: f64,
    /// What it is, with its unit.
    pub about: &'static str,
}

/// A switch that a kind reads.
#[derive(Clone, Copy, Debug)]
pub struct SwitchRule {
    /// The key.
    pub key: &'static str,
    /// The words it takes; the first is the default.
    pub words: &'static [&'static str],
    /// What it decides.
    pub about: &'static str,
}

/// A kind of device.
#[derive(Debug)]
pub struct Kind {
    /// The name that presets use.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// The numbers it reads.
    pub numbers: &'static [NumberRule],
    /// The switches it reads.
    pub switches: &'static [SwitchRule],
    /// Builds a device; `None` if the kind is no device.
    pub(crate) build: Option<Build>,
    /// Draws a device; `None` if there is nothing to draw.
    pub(crate) portrait: Option<Draw>,
}

/// Draws a device from nominal values.
pub(crate) type Draw = fn(&Values) -> Result<Portrait, Fault>;

/// Builds a device from the values of a draw and its angle at time 0.
pub(crate) type Build = fn(&Values, u64) -> Result<Box<dyn Model>, Fault>;

/// Every kind.
pub static KINDS: &[&Kind] = &[&mechanical::KIND, &fixed::KIND, &link::KIND];

impl Kind {
    /// Returns the kind of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name).copied()
    }
}

/// Kinds are equal if their names are.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

//! Kinds of devices: one file each, one row in the table.

mod controller;
mod fixed;
mod flash;
mod host;
mod link;
mod mechanical;
mod software;

use crate::draw::Draw;
use crate::fault::Fault;
pub use crate::kind::{Kind, NumberRule, Part, SwitchRule};
use crate::model::Model;
use crate::number::Number;
use crate::parameters::{Parameters, Portrait, Values};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A row of the table: a kind, and how its devices are made.
pub(crate) struct Row {
    pub(crate) kind: Kind,
    /// `None` if the kind is no device.
    pub(crate) build: Option<Build>,
    /// `None` if nothing can be drawn.
    pub(crate) portrait: Option<Draws>,
}

/// Draws a device from nominal values.
type Draws = fn(&Values) -> Result<Portrait, Fault>;

/// Builds a device from the values of a draw and its angle at time 0.
type Build = fn(&Values, u64) -> Result<Box<dyn Model>, Fault>;

static ROWS: &[&Row] = &[
    &mechanical::ROW,
    &fixed::ROW,
    &flash::ROW,
    &link::ROW,
    &controller::ROW,
    &software::ROW,
    &host::ROW,
];

/// Every kind.
pub static KINDS: &[&Kind] = &[
    &mechanical::ROW.kind,
    &fixed::ROW.kind,
    &flash::ROW.kind,
    &link::ROW.kind,
    &controller::ROW.kind,
    &software::ROW.kind,
    &host::ROW.kind,
];

/// Returns the row of a kind.
fn row(kind: &Kind) -> &'static Row {
    let row = ROWS.iter().find(|row| row.kind == *kind);
    row.expect("each kind is in the table")
}

/// Returns the function that builds devices of a kind; `None` if the kind is no device.
pub(crate) fn build(kind: &Kind) -> Option<Build> {
    row(kind).build
}

impl Kind {
    /// Returns true if parameters of the kind make a disk.
    pub fn is_disk(&self) -> bool {
        build(self).is_some()
    }

    /// Returns the kind of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name).copied()
    }
}

impl Parameters {
    /// The numbers that the parameters leave out and that rules infer, by key.
    pub fn inferred(&self) -> Result<BTreeMap<String, Number>, Fault> {
        self.inferred_in(&Draw::exact())
    }

    /// The values in a draw of the numbers that rules infer, by key.
    pub fn drawn_inferred(&self, draw: &Draw) -> Result<BTreeMap<String, f64>, Fault> {
        let inferred = self.inferred_in(draw)?.into_iter();
        let value = |(key, number): (String, Number)| {
            let value = draw.number(&self.name, &key, &number);
            (key, value)
        };
        Ok(inferred.map(value).collect())
    }

    fn inferred_in(&self, draw: &Draw) -> Result<BTreeMap<String, Number>, Fault> {
        let inferred = RefCell::new(BTreeMap::new());
        if let Some(build) = build(self.kind) {
            let values = self.values_noted(draw, &inferred);
            build(&values, 0)?;
        }
        Ok(inferred.into_inner())
    }

    /// What can be drawn of the device: its seek curve and its rates.
    pub fn portrait(&self) -> Result<Portrait, Fault> {
        match row(self.kind).portrait {
            Some(portrait) => portrait(&self.values(&Draw::exact())),
            None => Ok(Portrait::default()),
        }
    }
}

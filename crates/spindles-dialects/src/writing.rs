//! Arrays that a dialect writes as one text.

use crate::expressions::{MISSING, Smallest};
use crate::shape::{Shape, Unsayable};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use spindles_layout::Expression;

/// The state of a text that several arrays are written to: names and devices are used once.
pub struct Writing<'a> {
    /// Returns the size of a device in bytes, if known.
    bytes_of: &'a dyn Fn(&str) -> Option<u64>,
    names: BTreeSet<String>,
    devices: BTreeSet<String>,
    notes: Vec<String>,
}

impl fmt::Debug for Writing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Writing");
        debug.field("names", &self.names);
        debug.finish_non_exhaustive()
    }
}

impl<'a> Writing<'a> {
    /// Begins a text with these arrays.
    pub fn new<'shapes>(
        shapes: impl IntoIterator<Item = &'shapes Shape>,
        bytes_of: &'a dyn Fn(&str) -> Option<u64>,
    ) -> Self {
        let names = shapes.into_iter().filter_map(|shape| shape.name.clone());
        Self {
            bytes_of,
            names: names.collect(),
            devices: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Returns what the written words do not say, or say differently.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns true before the first array.
    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Returns the prefix with the first number that makes it a new name.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        let mut names = (0_u64..).map(|number| format!("{prefix}{number}"));
        let free = names.find(|name| !self.names.contains(name));
        let free = free.expect("a text has fewer names");
        self.names.insert(free.clone());
        free
    }

    /// Returns an error if a device has several parts in the arrays so far.
    pub(crate) fn each_device_once(&mut self, shape: &Shape) -> Result<(), Unsayable> {
        let others = shape.spares.iter().chain(&shape.journal);
        let mut devices = shape.expression.leaves();
        devices.extend(others.map(String::as_str));
        devices.retain(|device| *device != MISSING);
        match (devices.iter()).find(|device| !self.devices.insert((**device).to_owned())) {
            None => Ok(()),
            Some(device) => Err(Unsayable::new(format!("several parts of {device}"))),
        }
    }

    /// Compares the sizes of the devices among these members.
    pub(crate) fn smallest(&self, members: &[Expression]) -> Smallest {
        let devices = members.iter().filter_map(|member| match member {
            Expression::Leaf(device) if device != MISSING => Some((self.bytes_of)(device)),
            _ => None,
        });
        Smallest::of(&devices.collect::<Vec<_>>())
    }

    /// Notes an array that ends at its smallest member, for a system that uses all of each.
    pub(crate) fn note_uniform(&mut self, shape: &Shape, system: &str) {
        let members = match &shape.expression {
            Expression::Array { members, .. } => members.as_slice(),
            _ => &[],
        };
        if shape.is_uniform && self.smallest(members) != Smallest::Even {
            self.note(format!(
                "the array ends at its smallest member, and {system} uses all of each"
            ));
        }
    }
}

//! Everything there is on one thread: arrays and devices, and the spares of the arrays.

mod carry;
pub(crate) mod manage;
pub(crate) mod progress;
pub(crate) mod spares;
pub(crate) mod tree;

pub(crate) use carry::{ArrayIndex, Carry, Node};

use crate::labels::Spare;
use crate::{OpenError, OpenOptions};
use spares::Spares;

/// Everything there is on this thread.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) carry: Carry,
    pub(crate) spares: Spares,
}

impl Core {
    pub(crate) fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        Ok(Self {
            carry: Carry::new(options)?,
            spares: Spares::default(),
        })
    }

    /// Gives the arrays spares, which take the places of what is missing now and later.
    pub(crate) fn provide_spares(&mut self, spares: Vec<Spare>) {
        self.spares.provide(&mut self.carry, spares);
    }

    /// Hands over what was started, waits if asked to, and carries what has ended as far as it
    /// goes. Where a member went out, spares take its place.
    pub(crate) fn turn(&mut self, wait: bool) {
        self.carry.turn(wait);
        if self.carry.lost_members() {
            self.spares.take_places(&mut self.carry);
        }
    }
}

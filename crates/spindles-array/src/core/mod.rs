//! The single-threaded core: arrays, devices, and the spares of the arrays.

mod carry;
pub mod manage;
pub(crate) mod progress;
mod space;
pub(crate) mod spares;
pub(crate) mod tree;

pub(crate) use carry::{ArrayIndex, Carry, Node};

use crate::ArraySnapshot;
use crate::incidents::SpaceChange;
use crate::labels::Spare;
use carry::Full;
use space::{Space, Waiting};
use spares::Spares;
use spindles_block::{Instant, Request, RequestError};
use spindles_device::{OpenError, OpenOptions};
use std::time::Duration;

/// All arrays, devices and spares of this thread.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) carry: Carry,
    pub(crate) spares: Spares,
    space: Space,
}

impl Core {
    pub(crate) fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        Ok(Self {
            carry: Carry::new(options)?,
            spares: Spares::default(),
            space: Space::default(),
        })
    }

    /// Gives the arrays spares for members that are missing now or later.
    pub(crate) fn provide_spares(&mut self, spares: Vec<Spare>) {
        self.spares.provide(&mut self.carry, spares);
    }

    /// Submits a client's request to a node. With `exchangeable`, the reply may name other memory.
    pub(crate) fn submit(
        &mut self,
        node: Node,
        request: Request,
        exchangeable: bool,
    ) -> Result<(), Full> {
        if !self.space.take(&mut self.carry, node, &request) {
            self.lacks_space(Waiting {
                node,
                request,
                exchangeable,
            });
            return Ok(());
        }
        self.carry.submit(node, request, exchangeable)
    }

    fn lacks_space(&mut self, write: Waiting) {
        if let Some(write) = self.space.wait(write) {
            self.carry.refuse(&write.request, RequestError::NoSpace);
        }
    }

    /// Returns the changes in space for writes since the last call.
    pub(crate) fn space_changes(&mut self) -> Vec<SpaceChange> {
        self.space.news()
    }

    /// Returns the current state of all arrays in use, each before its inner arrays.
    pub(crate) fn snapshot(&self) -> Vec<ArraySnapshot> {
        progress::snapshot(&self.carry, self.space.lacking(&self.carry))
    }

    /// Returns true if an operation is in flight, an engine waits for a timeout, or a write waits
    /// for space.
    pub(crate) fn busy(&self) -> bool {
        self.carry.busy() || self.space.is_waited_for()
    }

    /// Lets the clock go on to a moment if nothing happens until then.
    pub(crate) fn skip_to(&mut self, moment: Instant) -> bool {
        !self.space.is_waited_for() && self.carry.skip_to(moment)
    }

    /// Submits started operations, waits if asked to, and carries completed ones as far up as they
    /// go. Spares take the places of members that went out.
    pub(crate) fn turn(&mut self, wait: bool) {
        self.turn_at_most(wait, None);
    }

    /// Does the same, and waits no longer than `at_most`.
    pub(crate) fn turn_at_most(&mut self, wait: bool, at_most: Option<Duration>) {
        let at_most = at_most.into_iter().chain(self.space.next_try()).min();
        self.carry.turn(wait, at_most);
        for write in self.space.tried_again() {
            if !self.space.take(&mut self.carry, write.node, &write.request) {
                self.lacks_space(write);
                continue;
            }
            let taken = self
                .carry
                .submit(write.node, write.request, write.exchangeable);
            if taken.is_err() {
                self.space.keep(write);
            }
        }
        if self.carry.lost_members() {
            self.spares.take_places(&mut self.carry);
        }
    }
}

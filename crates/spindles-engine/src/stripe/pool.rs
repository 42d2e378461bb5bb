//! The stripe ranges of an engine, and which of them are free.

use super::range::{Owner, StripeRange};
use crate::{RangeId, index, plan::Shape};
use alloc::{vec, vec::Vec};
use core::ops::{Index, IndexMut};

/// The stripe ranges of an engine: first for requests, then for jobs.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    all: Vec<StripeRange>,
    /// The number of stripe ranges for requests.
    clients: u32,
    free: Vec<RangeId>,
    free_for_jobs: Vec<RangeId>,
    /// The number of stripe ranges of `Owner::Answered`.
    answered: u32,
}

impl Ranges {
    /// Creates free stripe ranges for requests, and then for jobs.
    pub(crate) fn new(clients: u32, jobs: u32, shape: Shape) -> Self {
        let all = clients + jobs;
        Self {
            all: vec![StripeRange::free(shape); index(all)],
            clients,
            free: (0..clients).rev().map(RangeId).collect(),
            free_for_jobs: (clients..all).rev().map(RangeId).collect(),
            answered: 0,
        }
    }

    /// The number of stripe ranges.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).expect("stripe ranges are counted in 32 bits")
    }

    /// The number of stripe ranges that are free for requests.
    #[inline]
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// The number of stripe ranges that requests use.
    pub(crate) fn used_count(&self) -> usize {
        index(self.clients) - self.free.len()
    }

    /// Returns true if neither a request nor a job uses one.
    pub(crate) fn all_free(&self) -> bool {
        self.free.len() + self.free_for_jobs.len() == self.all.len()
    }

    /// Returns the stripe range that `take` takes next. Panics if none is free.
    #[inline]
    pub(crate) fn next_free(&self) -> RangeId {
        *self.free.last().expect("the caller looked")
    }

    /// Takes a stripe range for a request. Panics if none is free.
    #[inline]
    pub(crate) fn take(&mut self) -> RangeId {
        self.free.pop().expect("the caller looked")
    }

    /// Returns a request's stripe range to the pool.
    #[inline]
    pub(crate) fn give_back(&mut self, id: RangeId) {
        self.free.push(id);
    }

    /// Returns true if a stripe range is free for a job.
    pub(crate) fn any_free_for_jobs(&self) -> bool {
        !self.free_for_jobs.is_empty()
    }

    /// Takes a stripe range for a job. Panics if none is free.
    pub(crate) fn take_for_job(&mut self) -> RangeId {
        self.free_for_jobs.pop().expect("the caller looked")
    }

    /// Returns a job's stripe range to the pool.
    pub(crate) fn give_back_of_job(&mut self, id: RangeId) {
        self.free_for_jobs.push(id);
    }

    /// Notes that the request of a stripe range is answered, although its rows are not in place.
    pub(crate) fn note_answered(&mut self, id: RangeId) {
        self[id].owner = Owner::Answered;
        self.answered += 1;
    }

    /// Returns such a stripe range to the pool.
    pub(crate) fn give_back_answered(&mut self, id: RangeId) {
        self.answered -= 1;
        self.give_back(id);
    }

    /// The number of stripe ranges whose requests are answered.
    #[inline]
    pub(crate) fn answered_count(&self) -> u32 {
        self.answered
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StripeRange> {
        self.all.iter()
    }

    /// Iterates over the stripe ranges for jobs.
    pub(crate) fn for_jobs(&self) -> impl Iterator<Item = &StripeRange> {
        self.all[index(self.clients)..].iter()
    }

    /// Sets the shape of all groups.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        for range in &mut self.all {
            range.shape = shape;
        }
    }
}

impl Index<RangeId> for Ranges {
    type Output = StripeRange;

    #[inline]
    fn index(&self, id: RangeId) -> &StripeRange {
        &self.all[id.index()]
    }
}

impl IndexMut<RangeId> for Ranges {
    #[inline]
    fn index_mut(&mut self, id: RangeId) -> &mut StripeRange {
        &mut self.all[id.index()]
    }
}

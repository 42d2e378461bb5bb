//! The workloads there are. A workload is one file here and two lines in this one.

mod block_read;
mod block_write;
mod dd_parallel;
mod dd_read;
mod dd_write;
mod random_mixed;
mod random_read;
mod random_write;
mod rewrite;
mod seeks;

#[cfg(test)]
mod tests;

use crate::{BlockWorkload, Counted, Params, Plan, PlanError, Streams};
use alloc::boxed::Box;
use alloc::string::String;

/// A workload of the table.
#[derive(Debug)]
pub struct Kind {
    /// What users call it.
    pub name: &'static str,
    /// One line that says what a plan of it does.
    pub(crate) summary: fn(&Plan) -> String,
    /// What its result counts.
    pub counted: Counted,
    /// Whether the target's contents are lost.
    pub writes: bool,
    /// Targets it works on.
    pub streams: Streams,
    /// Size of one operation, unless chosen otherwise.
    pub chunk_bytes: u32,
    /// Operations in flight on one target, unless chosen otherwise.
    pub in_flight: u32,
    /// Operations in all, unless chosen otherwise; `None`: through the whole size once.
    pub operations: Option<u64>,
    /// How many of 100 operations read, unless chosen otherwise; `None`: it does not mix.
    pub read_percent: Option<u32>,
    pub(crate) start: fn(&Plan) -> Box<dyn BlockWorkload>,
}

impl Kind {
    /// One line of help: what it does unless chosen otherwise.
    ///
    /// # Panics
    /// Never: every kind fits a gibibyte.
    pub fn summary(&'static self) -> String {
        let plan = self.plan(&Params::new(1 << 30, 0));
        plan.expect("a kind fits a gibibyte").summary()
    }

    /// Resolves every default and checks the choices.
    ///
    /// # Errors
    /// When the choices don't fit each other or the kind.
    pub fn plan(&'static self, params: &Params) -> Result<Plan, PlanError> {
        Plan::new(self, params)
    }
}

/// All workloads.
pub static KINDS: &[&Kind] = &[
    &dd_read::KIND,
    &dd_write::KIND,
    &dd_parallel::KIND,
    &block_write::KIND,
    &block_read::KIND,
    &rewrite::KIND,
    &seeks::KIND,
    &random_read::KIND,
    &random_write::KIND,
    &random_mixed::KIND,
];

/// The workload of that name.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

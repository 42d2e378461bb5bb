//! All workloads. A workload is one file here and two lines in this one.

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
    /// The name that users type.
    pub name: &'static str,
    /// Returns one line that describes a plan of this kind.
    pub(crate) summary: fn(&Plan) -> String,
    /// The unit of its result.
    pub counted: Counted,
    /// True if the target's contents are lost.
    pub writes: bool,
    /// The number of its targets.
    pub streams: Streams,
    /// Default size of one operation.
    pub chunk_bytes: u32,
    /// Default number of operations in flight on one target.
    pub in_flight: u32,
    /// Default total of operations; `None`: once through the whole size.
    pub operations: Option<u64>,
    /// Default percent of reads; `None` if it does not mix reads and writes.
    pub read_percent: Option<u32>,
    pub(crate) start: fn(&Plan) -> Box<dyn BlockWorkload>,
}

impl Kind {
    /// Returns one line of help that describes the kind with its defaults.
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
    /// If the choices don't fit each other or the kind.
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

/// Returns the workload of that name.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

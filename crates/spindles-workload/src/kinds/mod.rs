//! All workloads. A workload is one file here and two lines in this one.

mod backward_read;
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

use crate::plan::Kind;

/// All workloads. A new row goes to the end: the simulator's seeds count on the order.
pub static KINDS: &[&Kind] = &[
    &dd_read::KIND,
    &dd_write::KIND,
    &dd_parallel::KIND,
    &block_write::KIND,
    &block_read::KIND,
    &backward_read::KIND,
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

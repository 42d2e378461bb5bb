//! Workloads of fio: their options, checked and completed.

pub(crate) mod jobfile;
mod on_nodes;
mod options;
mod work;

pub(crate) use on_nodes::check as check_on_nodes;
pub(crate) use options::rivals;
pub(crate) use work::Source;
pub use work::{FIO, FioWork};

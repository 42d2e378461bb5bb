//! Runs fio on a block device, or on a file in a folder, and reads its JSON. The lab drives this
//! well-kept tool instead of rewriting it.

mod ask;
pub(crate) mod jobfile;
mod on_nodes;
mod options;
mod output;
mod run;
mod work;

pub(crate) use ask::{Refusal, ask};
pub(crate) use on_nodes::check as check_on_nodes;
pub(crate) use options::rivals;
pub(crate) use output::read;
pub(crate) use run::{lay_out, make_ready, run};
pub(crate) use work::Source;
pub use work::{FIO, FioWork};

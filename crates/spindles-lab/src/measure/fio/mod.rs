//! Runs fio on a block device, or on a file in a folder, and reads its JSON. The lab drives this
//! well-kept tool instead of rewriting it.

mod ask;
mod output;
mod run;

pub(crate) use ask::{Refusal, ask};
pub(crate) use output::read;
pub(crate) use run::{lay_out, make_ready, run};

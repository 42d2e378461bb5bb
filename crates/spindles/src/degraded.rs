//! `--degraded`, the same for all commands that write to arrays.

use clap::Args;

// No doc comment: it would stand for that of the commands that take it.
#[derive(Args)]
pub(crate) struct Degraded {
    /// Go on without members that are away, even if they may hold newer data than what is here, or
    /// alone the last writes before a crash. That data is given up: they are out of date from then on
    #[arg(long)]
    pub(crate) degraded: bool,
}

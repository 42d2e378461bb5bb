//! `--degraded`, the same for all commands that write to arrays.

use clap::Args;

// No doc comment: it would stand for that of the commands that take it.
#[derive(Args)]
pub(crate) struct Degraded {
    /// Go on without members that are away, also where that gives up what they hold: they could
    /// have gone on alone and may be newer, or alone hold blocks of the last writes before a crash;
    /// from then on they are out of date
    #[arg(long)]
    pub(crate) degraded: bool,
}

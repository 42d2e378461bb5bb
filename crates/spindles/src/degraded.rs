//! `--degraded`, the same for all commands that write to arrays.

use clap::Args;

// No doc comment: it would stand for that of the commands that take it.
#[derive(Args)]
pub(crate) struct Degraded {
    /// Go on without members that are away, also where these could have gone on alone and may be
    /// newer; from then on they are out of date
    #[arg(long)]
    pub(crate) degraded: bool,
}

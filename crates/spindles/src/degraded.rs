//! `--degraded`, shared by all commands that write to arrays.

use clap::Args;

// No doc comment: clap would show it as the help of the commands that flatten this.
#[derive(Args)]
pub(crate) struct Degraded {
    /// Continue without absent members, even if they may hold newer data, or the only copy of the
    /// last writes before a crash. This discards such data for good: the absent members are out
    /// of date from then on
    #[arg(long)]
    pub(crate) degraded: bool,
}

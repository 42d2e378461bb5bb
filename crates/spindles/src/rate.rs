//! `--rebuild-rate`, the same for all commands whose work may go on beside clients.

use clap::Args;
use spindles_block::SizeBytes;
use spindles_io::OpenOptions;

// No doc comment: it would stand for that of the commands that take it.
#[derive(Args)]
pub(crate) struct Rate {
    /// While the array is in use, resync, rebuild, replace and scrub go through at least so much of each
    /// member per second, such as 20M, even if that slows down those who use it; with 0 they take what
    /// is left. While nobody uses it they go as fast as they can
    #[arg(long, value_name = "SIZE", default_value = "10M")]
    rebuild_rate: SizeBytes,
}

impl Rate {
    /// Devices are to be opened so.
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            job_rate: self.rebuild_rate.0,
            ..OpenOptions::default()
        }
    }
}

//! `--rebuild-rate`, shared by all commands whose work may run while clients use the array.

use clap::Args;
use spindles_admin::assemble::EngineOptions;
use spindles_block::SizeBytes;

// No doc comment: clap would show it as the help of the commands that flatten this.
#[derive(Args)]
pub(crate) struct Rate {
    /// Minimum rate per member and second of resync, rebuild, replace and scrub while the array is
    /// in use, such as 20M, even if that slows clients down. With 0 they take what clients leave.
    /// They run at full speed while the array is idle
    #[arg(long, value_name = "SIZE", default_value = "10M")]
    rebuild_rate: SizeBytes,
}

impl Rate {
    /// Returns the rate in bytes per second.
    pub(crate) const fn bytes(&self) -> u64 {
        self.rebuild_rate.0
    }

    /// Returns the options of the engines of arrays.
    pub(crate) fn options(&self) -> EngineOptions {
        EngineOptions {
            job_rate: Some(self.bytes()),
            ..EngineOptions::default()
        }
    }
}

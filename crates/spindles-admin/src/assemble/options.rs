//! Options of an assembly.

use spindles_device::OpenOptions;
use spindles_engine::{JOB_RATE, READ_POLICIES, ReadPolicy};

/// Options of the engine of an array.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineOptions {
    /// Guaranteed rate of jobs such as a resync while clients are active, in bytes of each member
    /// per second; `None` for the engine's default. Jobs run at full speed while no client waits.
    pub job_rate: Option<u64>,
    /// The policy by which a read of a mirror chooses a copy; `None` for the default.
    pub read_policy: Option<&'static ReadPolicy>,
    /// A fixed seed in place of the kernel's randomness, for reproducible contents, as in tests.
    /// Then no times are recorded and no regions are marked ahead of writes.
    pub drawn: Option<u64>,
    /// Takes nothing into the stage, and places what it holds before anything else is done.
    pub drains: bool,
}

impl EngineOptions {
    pub(crate) fn job_rate(&self) -> u64 {
        self.job_rate.unwrap_or(JOB_RATE)
    }

    pub(crate) fn read_policy(&self) -> &'static ReadPolicy {
        self.read_policy.unwrap_or(READ_POLICIES[0])
    }
}

/// Options of an assembly. The default opens for writing and takes no risk.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
pub struct AssembleOptions {
    /// How to open the devices. The block size is the array's.
    pub open: OpenOptions,
    /// Options of the engines of the array and those inside it.
    pub engine: EngineOptions,
    /// Also open an array with parity that is degraded and was not closed in order.
    pub force: bool,
    /// Write to an array even though this discards data of missing members. Missing members may
    /// have continued alone and be newer, or a crash left blocks that only they hold. The first
    /// write marks these members out of date.
    pub degraded: bool,
    /// Open a cleanly closed array read-only even if more members are missing than its level
    /// survives. Reads of unreachable blocks then fail.
    pub rescue: bool,
    /// Only recover from a crash: continue no growth and no rebuild, and bring no returning member
    /// up to date. Together with `keep_spares`, nothing else is written.
    pub only_recovers: bool,
    /// Leave given spares unused.
    pub keep_spares: bool,
}

impl AssembleOptions {
    /// Opens an array even if it is degraded and was not closed in order.
    pub(crate) fn forced() -> Self {
        Self {
            force: true,
            ..Self::default()
        }
    }

    /// Returns these options for reading only.
    pub(crate) fn to_read(&self) -> Self {
        let mut options = self.clone();
        options.open.read_only = true;
        options
    }

    /// Returns these options for an opening that only recovers from a crash.
    pub(crate) fn to_recover(&self) -> Self {
        Self {
            only_recovers: true,
            keep_spares: true,
            ..self.clone()
        }
    }
}

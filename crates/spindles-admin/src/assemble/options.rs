//! Options of an assembly.

use spindles_device::OpenOptions;

/// Options of an assembly. The default opens for writing and takes no risk.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
pub struct AssembleOptions {
    /// How to open the devices. The block size is the array's.
    pub open: OpenOptions,
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

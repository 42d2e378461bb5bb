//! Waits until the redundancy of an array agrees with its data.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions};
use crate::host::Host;
use spindles_array::await_resync;

/// The result of a resync.
#[derive(Clone, Debug)]
pub struct Resynced {
    /// The array as found.
    pub report: ArrayReport,
    /// True if it finished. Otherwise `progress` stopped it, and the next resync starts over.
    pub through: bool,
}

/// Opens an array and waits until its redundancy, and that of inner arrays, agrees with the data.
/// `progress` gets the bytes done and the total bytes; it returns `false` to stop the resync.
/// Errors before closing leave the array unwritten.
pub fn resync<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Resynced, AssembleError> {
    let mut array = host.into().open(options)?;
    let through = await_resync(array.target.as_mut(), progress);
    let report = array.close()?;
    Ok(Resynced { report, through })
}

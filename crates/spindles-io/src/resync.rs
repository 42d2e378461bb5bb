//! Waits until the redundancy of an array agrees with its data.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions};
use crate::await_resync;
use crate::host::Host;

/// How a resync ended.
#[derive(Clone, Debug)]
pub struct Resynced {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// Whether it went through; otherwise `progress` stopped it, and it starts over next time.
    pub through: bool,
}

/// Opens an array and waits until its redundancy agrees with its data, that of arrays inside it too. `progress`
/// gets the bytes that are done and the bytes that there are; `false` stops the resync.
///
/// # Errors
///
/// Other than at closing, nothing was written.
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

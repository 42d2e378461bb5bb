//! What of an array that lies in its superblocks may be set otherwise later.

use crate::assemble::{ArrayReport, AssembleOptions, Change};
use crate::errors::ChangeError;
use crate::host::Host;

/// Sets whether an array, and arrays inside it, may be written without being asked for it while members
/// are away that could have gone on alone. An array that was not closed in order is put in order.
///
/// # Errors
///
/// Before the superblocks are written, nothing is changed.
pub fn set_degraded_writes<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    allowed: bool,
) -> Result<ArrayReport, ChangeError> {
    let host = host.into();
    let options = AssembleOptions {
        only_recovers: true,
        keep_spares: true,
        ..options.clone()
    };
    let change = Change::DegradedWrites(allowed);
    let report = host.change(&options, &change)?.close()?;
    let looked = host.look(&options)?.report;
    if looked.degraded_writes != allowed {
        let array = report.name;
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(report)
}

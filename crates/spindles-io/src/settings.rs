//! What of an array that lies in its superblocks may be set otherwise later.

use crate::assemble::{self, ArrayReport, AssembleOptions, Change, assemble, assemble_to_change};
use crate::errors::ChangeError;

/// Sets whether an array, and arrays inside it, may be written without being asked for it while members
/// are away that could have gone on alone. An array that was not closed in order is put in order.
///
/// # Errors
///
/// Before the superblocks are written, nothing is changed.
pub fn set_degraded_writes(
    devices: &[&str],
    options: &AssembleOptions,
    allowed: bool,
) -> Result<ArrayReport, ChangeError> {
    let mut options = AssembleOptions {
        only_recovers: true,
        keep_spares: true,
        ..options.clone()
    };
    let change = Change::DegradedWrites(allowed);
    let assembled = assemble_to_change(devices, &options, &change)?;
    let mut report = assembled.report;
    assemble::close(assembled.target, &mut report)?;
    options.open.read_only = true;
    let looked = assemble(devices, &options)?.report;
    if looked.degraded_writes != allowed {
        let array = report.name;
        return Err(ChangeError::NotRecorded { array });
    }
    Ok(report)
}

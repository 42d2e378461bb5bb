//! Opens arrays for commands that only read.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, Assembled, assemble};
use crate::report::positions;

/// Assembles an array that is only read. An unclean array is opened for writing first, so that what is
/// read once stays: recovery runs, and nothing else. No growth or rebuild continues, and no spare is
/// taken. The superblocks then record which members are missing; `warn` says so before it happens.
///
/// Recovery is skipped with `options.force`, and while missing members may be newer, unless `options`
/// or the array allow it.
///
/// # Errors
///
/// As `assemble`.
pub fn assemble_to_read(
    devices: &[&str],
    options: &AssembleOptions,
    warn: &mut dyn FnMut(String),
) -> Result<Assembled, AssembleError> {
    let mut options = options.clone();
    options.open.read_only = true;
    let looked = assemble(devices, &options)?;
    let report = &looked.report;
    if options.force || report.is_clean() {
        return Ok(looked);
    }
    let arrays = report.arrays();
    if !options.degraded && arrays.iter().any(|array| array.must_ask_to_write()) {
        warn(format!(
            "array '{}' was not closed in order, and is not put in order while members are away that \
             may be newer: what was being written then may not be readable; --degraded goes on \
             without those members",
            report.name
        ));
        return Ok(looked);
    }
    for array in arrays {
        if let Some(line) = before_recovering(array) {
            warn(line);
        }
    }
    drop(looked);
    options.open.read_only = false;
    options.only_recovers = true;
    options.keep_spares = true;
    assemble(devices, &options)
}

/// What an array that is put in order says first, where that matters to a member that may come back.
fn before_recovering(array: &ArrayReport) -> Option<String> {
    let away = array.unheard_of;
    if array.loses_last_writes() {
        return Some(format!(
            "WARNING: array '{}' was not closed in order: what only {} holds of the last writes before \
             the crash is lost for good by this. If it can come back, stop now and bring it first; \
             `spindles copy --force` reads without changing anything",
            array.name,
            positions(away)
        ));
    }
    (!array.clean && !away.is_empty()).then(|| {
        format!(
            "array '{}' was not closed in order: so that what is read stays, what was being written \
             is put in order now, and it is noted that {} is not there; what comes back gets what it \
             missed",
            array.name,
            positions(away)
        )
    })
}

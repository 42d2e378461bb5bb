//! Arrays that are opened to be read, by who writes nothing to them.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, Assembled, assemble};
use crate::report::positions;

/// Assembles an array that is only read. One that a crash left is opened for writing all the same, so that
/// what is read once stays: what was being written is put in order, and nothing else is done, neither a
/// growth nor a rebuild goes on, no spare is taken. That members are away is then noted on the others,
/// which `tell` says before it happens. Where those could have gone on alone it is not done, unless
/// `options` or the array allow it; neither is it with `options.force`.
///
/// # Errors
///
/// As `assemble`.
pub fn assemble_to_read(
    devices: &[&str],
    options: &AssembleOptions,
    tell: &mut dyn FnMut(String),
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
        tell(format!(
            "array '{}' was not closed in order, and is not put in order while members are away that \
             may be newer: what was being written then may not be readable; --degraded goes on \
             without those members",
            report.name
        ));
        return Ok(looked);
    }
    for array in arrays {
        if let Some(line) = before_recovering(array) {
            tell(line);
        }
    }
    drop(looked);
    options.open.read_only = false;
    options.only_recovers = true;
    options.keep_spares = true;
    assemble(devices, &options)
}

/// The options of an array that is only put in order, where that matters to a member that may come
/// back.
fn before_recovering(array: &ArrayReport) -> Option<String> {
    let away = array.unheard_of;
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

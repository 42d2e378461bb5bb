//! Opens arrays for commands that only read.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, Assembled, assemble};
use crate::report::GivenUp;
use spindles_array::positions::positions;

/// Assembles an array for reading only. An unclean array is first opened for writing, so that
/// repeated reads return the same data: recovery runs, and nothing else. No growth or rebuild
/// continues, and no spare is taken. The superblocks then record which members are missing; `warn`
/// gets a message before that.
///
/// Recovery is skipped with `options.force`. It is also skipped if it would discard data of missing
/// members, unless `options` or the array allow that.
pub fn assemble_to_read(
    devices: &[&str],
    options: &AssembleOptions,
    warn: &mut dyn FnMut(String),
) -> Result<Assembled, AssembleError> {
    let looked = assemble(devices, &options.to_read())?;
    let report = &looked.report;
    if options.force || report.is_clean() {
        return Ok(looked);
    }
    let arrays = report.arrays();
    let asks = arrays.iter().find(|array| array.must_ask_to_write());
    if let Some(asks) = asks.filter(|_| !options.degraded) {
        let GivenUp { newer, last_writes } = asks.given_up;
        let away = positions(newer.union(last_writes));
        warn(format!(
            "array '{}' was not closed in order, and is only read, not put in order, since it \
             lacks {away}: interrupted writes may not be readable; --degraded goes on \
             without {away} for good",
            asks.name
        ));
        return Ok(looked);
    }
    let recorded = arrays
        .into_iter()
        .filter(|array| !array.clean && !array.away.is_empty());
    recorded.map(before_recovering).for_each(warn);
    drop(looked);
    let mut options = options.to_recover();
    options.open.read_only = false;
    assemble(devices, &options)
}

/// Returns the warning before a recovery that affects a returning member.
fn before_recovering(array: &ArrayReport) -> String {
    let away = positions(array.away);
    let lost = if array.given_up.last_writes.is_empty() {
        String::new()
    } else {
        format!("; blocks of the last writes that {away} alone may hold are lost for good by this")
    };
    format!(
        "array '{}' was not closed in order: so that later reads agree, interrupted writes are put \
         in order now, and {away} is recorded as missing; a member that comes back gets \
         what it missed{lost}",
        array.name
    )
}

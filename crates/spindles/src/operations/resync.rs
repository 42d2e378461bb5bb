//! Makes an array consistent that was not closed cleanly.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::operation::Resync;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use serde_json::json;
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::resync::resync;
use spindles_admin::scan::Given;
use spindles_array::no_space;

pub(super) fn perform(operation: &Resync, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let options = AssembleOptions {
        force: operation.force,
        ..assembling(operation.degraded, operation.rebuild_rate)
    };
    let mut on_progress = ui.until_interrupted("resync")?;
    let resynced = resync(
        arrays::host(&arrays::names(&given.devices), ui),
        &options,
        &mut on_progress,
    )?;
    drop(on_progress);
    arrays::note_devices(&resynced.report.incidents, &resynced.report.taken, &[], ui);
    for warning in words::report::warnings(&resynced.report) {
        ui.note(warning);
    }
    let name = &resynced.report.name;
    if !resynced.through
        && let Some(no_space) = no_space(&resynced.report.incidents)
    {
        bail!("array '{name}': {no_space}");
    }
    if !resynced.through {
        let what = ui.what_becomes_of_it("was stopped, and goes on next time");
        bail!("array '{name}': the resync {what}");
    }
    // This covers the arrays inside it.
    let was_clean = resynced.report.is_clean();
    ui.line(if was_clean {
        format!("array '{name}' is clean: there is nothing to resync")
    } else {
        format!("array '{name}' is consistent")
    });
    if resynced.report.may_be_wrong() {
        ui.note(format!(
            "array '{name}': devices were away, so data near the last writes before the crash \
             may be wrong: compare it with a backup"
        ));
    }
    let document = json!({
        "name": name,
        "uuid": resynced.report.uuid.to_string(),
        "incidents": arrays::incidents(&resynced.report.incidents),
        "was_clean": was_clean,
        "consistent": true,
    });
    Ok(Outcome::of(&document))
}

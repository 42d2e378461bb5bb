//! Copies a working member onto a device that takes its place.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::operation::Replace;
use crate::ui::Ui;
use crate::words;
use serde_json::{Value, json};
use spindles_admin::replace::{ReplaceOptions, Replaced, replace};
use spindles_admin::scan::Given;

pub(super) fn perform(operation: &Replace, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let (old, onto) = (&operation.old, &operation.onto);
    let options = ReplaceOptions {
        assemble: assembling(operation.degraded, operation.rebuild_rate),
        old: old.clone(),
        onto: onto.clone(),
        overwrite: operation.force,
    };
    let mut on_progress = ui.until_interrupted("replace")?;
    let replaced = replace(
        arrays::host(&arrays::names(&given.devices), ui),
        &options,
        &mut on_progress,
    )?;
    drop(on_progress);
    for warning in words::report::warnings(&replaced.report) {
        ui.note(warning);
    }
    arrays::note_devices(
        &replaced.report.incidents,
        &[], // The report warns of them.
        &replaced.wiped,
        ui,
    );
    Ok(Outcome::of(&report(&replaced, old, onto, ui)))
}

/// Reports the replaced member, and a superblock left on the old device.
fn report(replaced: &Replaced, old: &str, onto: &str, ui: &Ui) -> Value {
    if let Some(error) = &replaced.not_cleared {
        ui.note(format!(
            "{old} still has its superblock, which could not be cleared: {error}; never give it \
             alone, and clear it with spindles wipe when it can be written"
        ));
    }
    let how = if replaced.rebuilt {
        format!("{old} failed on the way, and its place was rebuilt from the others")
    } else {
        format!("{old} is no member any more")
    };
    ui.line(format!(
        "array '{}': member {} is {onto} now; {how}",
        replaced.array, replaced.member
    ));
    json!({
        "name": replaced.report.name,
        "uuid": replaced.report.uuid.to_string(),
        "incidents": arrays::incidents(&replaced.report.incidents),
        "array": replaced.array,
        "member": replaced.member.0,
        "old": old,
        "new": onto,
        "rebuilt": replaced.rebuilt,
        "not_cleared": replaced.not_cleared,
    })
}

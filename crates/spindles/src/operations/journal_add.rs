//! Gives an array a separate device for its journal.

use super::outcome::Outcome;
use crate::arrays;
use crate::operation::JournalAdd;
use crate::ui::Ui;
use crate::words;
use serde_json::json;
use spindles_admin::journal::add;
use spindles_admin::scan::Given;

pub(super) fn perform(operation: &JournalAdd, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let device = &operation.device;
    let mut on_progress = ui.until_interrupted("journal")?;
    let added = add(
        device,
        arrays::host(&arrays::names(&given.devices), ui),
        operation.force,
        operation.degraded,
        &mut on_progress,
    )?;
    drop(on_progress);
    let warnings = words::report::warnings(&added.report);
    for warning in &warnings {
        ui.note(warning);
    }
    arrays::note_devices(&[], &[], &added.wiped, ui);
    let name = &added.report.name;
    ui.line(format!("array '{name}' has its journal on {device}"));
    let document = json!({
        "name": name,
        "uuid": added.report.uuid.to_string(),
        "warnings": warnings,
        "journal": device,
    });
    Ok(Outcome::of(&document))
}

//! Moves the journal of an array back to its members.

use super::outcome::Outcome;
use crate::arrays;
use crate::operation::JournalRemove;
use crate::ui::Ui;
use crate::words;
use serde_json::json;
use spindles_admin::assemble::JournalReport;
use spindles_admin::journal::remove;
use spindles_admin::scan::Given;

pub(super) fn perform(
    operation: &JournalRemove,
    given: &Given,
    ui: &Ui,
) -> anyhow::Result<Outcome> {
    let mut on_progress = ui.until_interrupted("journal")?;
    let report = remove(
        arrays::host(&arrays::names(&given.devices), ui),
        operation.degraded,
        &mut on_progress,
    )?;
    drop(on_progress);
    let warnings = words::report::warnings(&report);
    for warning in &warnings {
        ui.note(warning);
    }
    let device = match &report.journal {
        JournalReport::Device(device) => Some(device),
        JournalReport::Members | JournalReport::DeviceMissing => None,
    };
    let name = &report.name;
    ui.line(format!("array '{name}' has its journal on its members"));
    let document = json!({
        "name": name,
        "uuid": report.uuid.to_string(),
        "warnings": warnings,
        "removed": device,
    });
    Ok(Outcome::of(&document))
}

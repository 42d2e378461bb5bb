//! Makes plain devices of spares.

use super::outcome::Outcome;
use crate::arrays;
use crate::operation::SpareRemove;
use crate::ui::Ui;
use serde_json::json;
use spindles_admin::scan::Given;
use spindles_admin::spare::{Removed, remove};

pub(super) fn perform(operation: &SpareRemove, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let devices = &operation.devices;
    let members = arrays::names(&given.devices);
    let of_array = !members.is_empty();
    let host = of_array.then(|| arrays::host(&members, ui));
    let removed = remove(&arrays::names(devices), host)?;
    for (device, removed) in devices.iter().zip(&removed) {
        report(device, removed, ui);
    }
    let shared = devices.iter().zip(&removed);
    let shared = shared.filter(|(_, removed)| matches!(removed, Removed::Of(_)));
    let still_spares: Vec<&String> = shared.map(|(device, _)| device).collect();
    Ok(Outcome::of(
        &json!({ "removed": devices, "still_spares": still_spares }),
    ))
}

/// Reports what became of a spare.
pub(super) fn report(device: &str, removed: &Removed, ui: &Ui) {
    ui.line(match removed {
        Removed::Plain => format!("{device} is a spare no more"),
        Removed::Of(array) => {
            format!("{device} is a spare of array '{array}' no more, and of others it is")
        }
    });
}

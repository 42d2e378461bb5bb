//! Shows or changes the settings of an array.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::operation::Set;
use crate::ui::Ui;
use serde_json::json;
use spindles_admin::host::report_of;
use spindles_admin::scan::Given;
use spindles_admin::settings::set_degraded_writes;

pub(super) fn perform(operation: &Set, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let (report, allowed) = if let Some(allowed) = operation.degraded_writes {
        let names = arrays::names(&given.devices);
        let options = assembling(operation.degraded, None);
        let set = set_degraded_writes(arrays::host(&names, ui), &options, allowed);
        (set?, allowed)
    } else {
        let report = report_of(&given.devices)?;
        let allowed = report.degraded_writes;
        (report, allowed)
    };
    let name = &report.name;
    ui.line(if allowed {
        format!(
            "array '{name}' is written without a question while members are away that may be \
             newer, or alone hold blocks of the last writes before a crash"
        )
    } else {
        format!(
            "array '{name}' is written only with --degraded while members are away that may be \
             newer, or alone hold blocks of the last writes before a crash"
        )
    });
    let document = json!({
        "name": name,
        "uuid": report.uuid.to_string(),
        "degraded_writes": allowed,
    });
    Ok(Outcome::of(&document))
}

//! Gives an array another name.

use super::outcome::Outcome;
use crate::arrays;
use crate::operation::Rename;
use crate::serving::Serving;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use serde_json::{Value, json};
use spindles_admin::rename::rename;
use spindles_admin::scan::Given;
use spindles_format::Uuid;

pub(super) fn perform(operation: &Rename, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let to = &operation.to;
    if ui.serving().is_some_and(|it| it.is_other_export(to)) {
        bail!(
            "clients of this server find another array by the name '{to}', whatever that is called \
             by now: take another name, or stop serving that one first"
        );
    }
    let mut on_progress = ui.until_interrupted("rename")?;
    let devices = arrays::names(&given.devices);
    let report = rename(arrays::host(&devices, ui), to, &mut on_progress)?;
    drop(on_progress);
    for warning in words::report::warnings(&report) {
        ui.note(warning);
    }
    let from = &report.name;
    if from == to {
        ui.line(format!("array '{from}' is called that already"));
        return Ok(Outcome::of(&document(from, to, report.uuid)));
    }
    ui.line(format!("array '{from}' is called '{to}' now"));
    // Renaming leaves the path of a file or block device unchanged.
    let by_nbd = |serving: &&Serving| serving.addresses().len() > serving.files().count();
    if let Some(serving) = ui.serving().filter(by_nbd) {
        ui.note(format!(
            "until it is served again, NBD clients find it as export '{}', and another array of \
             that name is another export",
            serving.handle().export()
        ));
    }
    Ok(Outcome::of(&document(from, to, report.uuid)))
}

fn document(from: &str, to: &str, uuid: Uuid) -> Value {
    json!({
        "name": to,
        "name_before": from,
        "uuid": uuid.to_string(),
    })
}

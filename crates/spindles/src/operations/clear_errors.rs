//! Resets error counters.

use super::outcome::Outcome;
use crate::arrays::{self, Scan};
use crate::operation::{ClearErrors, Operation};
use crate::ui::Ui;
use anyhow::bail;
use serde_json::{Value, json};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::scan::{Given, is_device};
use spindles_admin::settings::{ClearedErrors, array_of_member, clear_errors};

/// Resets the error counters of a device to 0, or those of all members of an array.
pub(crate) fn run(word: &str, given: &[String], scan: &Scan, ui: &Ui) -> anyhow::Result<()> {
    let (array, device) = match (given, array_of_member(word)) {
        ([], Some(array)) => (vec![array.to_string()], Some(word)),
        ([], None) if is_device(word) => {
            bail!("{word} is no member of an array: nothing is counted on it")
        }
        ([], None) => (vec![word.to_owned()], None),
        (given, _) => (given.to_vec(), Some(word)),
    };
    let found = scan.find(&array, &[], ui)?;
    let operation = Operation::ClearErrors(ClearErrors {
        device: device.map(|device| found.device(device)).transpose()?,
        called: word.to_owned(),
    });
    super::run(&operation, &found, ui)?;
    Ok(())
}

pub(super) fn perform(operation: &ClearErrors, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let names = arrays::names(&given.devices);
    let (host, device) = (arrays::host(&names, ui), operation.device.as_deref());
    let cleared = clear_errors(host, &AssembleOptions::default(), device)?;
    for it in cleared.iter().filter(|it| !it.errors.is_empty()) {
        let errors = arrays::errors_text(&it.errors, it.block_bytes);
        ui.line(format!("{}: cleared {errors}", cleared_place(it)));
    }
    if cleared.iter().all(|it| it.errors.is_empty()) {
        ui.line(match (device, cleared.first()) {
            (Some(_), Some(it)) => format!("{}, had no errors", cleared_place(it)),
            _ => format!("{}: no member had errors", operation.called),
        });
    }
    let members: Vec<Value> = cleared.iter().map(cleared_document).collect();
    // The first is the device itself; arrays with it follow.
    let mut document = match (device, members.first()) {
        (Some(_), Some(own)) => own.clone(),
        _ => json!({ "array": operation.called }),
    };
    document["members"] = json!(members);
    Ok(Outcome::of(&document))
}

/// `array 'pool': member 1, b.img`.
fn cleared_place(cleared: &ClearedErrors) -> String {
    let what = cleared.device.as_deref().unwrap_or("an array");
    format!(
        "array '{}': member {}, {what}",
        cleared.array, cleared.member
    )
}

fn cleared_document(cleared: &ClearedErrors) -> Value {
    json!({
        "array": cleared.array,
        "member": cleared.member.0,
        "device": cleared.device,
        "cleared": arrays::errors_json(&cleared.errors, cleared.block_bytes),
    })
}

//! Makes devices spares.

use super::outcome::Outcome;
use crate::arrays;
use crate::operation::SpareAdd;
use crate::ui::Ui;
use crate::words;
use serde_json::{Value, json};
use spindles_admin::scan::{Given, shell_word};
use spindles_admin::spare::{For, Taken, add};

pub(super) fn perform(operation: &SpareAdd, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let devices = arrays::names(&operation.devices);
    let members = arrays::names(&given.devices);
    let whose = if operation.shared {
        For::All
    } else {
        For::Array(arrays::host(&members, ui))
    };
    let added = add(&devices, whose, operation.force)?;
    let warnings = words::report::warnings_before(&added);
    let is_taken = |device: &str| {
        let mut taken = added.taken.iter();
        taken.any(|taken| taken.device == device && taken.error.is_none())
    };
    // Warnings about missing members are outdated: a spare is being filled.
    if added.taken.is_empty() {
        for warning in &warnings {
            ui.note(warning);
        }
    }
    arrays::note_devices(&[], &added.taken, &added.wiped, ui);
    for spare in &added.spares {
        if is_taken(&spare.name) {
            continue;
        }
        ui.line(match &added.array {
            Some(array) if !spare.shared => {
                format!("{} is a spare of array '{}'", spare.name, array.name)
            }
            _ => format!(
                "{} is a shared spare: arrays that it is given with take it, as by `spindles serve \
                 NAME {}`",
                spare.name,
                shell_word(&spare.name)
            ),
        });
    }
    if let Some(array) = &added.array
        && added.is_degraded
    {
        let name = shell_word(&array.name);
        ui.note(if ui.serving().is_some() {
            format!("`spindles status {name}` shows how far it is filled")
        } else {
            format!("`spindles rebuild {name}` fills it now, in the place of what is missing")
        });
    }
    let document = json!({
        "spares": arrays::spares(&added.spares),
        "taken": added.taken.iter().map(taken).collect::<Vec<_>>(),
        "warnings": warnings,
        "name": added.array.as_ref().map(|array| &array.name),
        "uuid": added.array.as_ref().map(|array| array.uuid.to_string()),
    });
    Ok(Outcome::of(&document))
}

fn taken(taken: &Taken) -> Value {
    json!({
        "device": taken.device,
        "array": taken.array,
        "member": taken.member.0,
        "error": taken.error,
    })
}

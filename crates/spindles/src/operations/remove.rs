//! Makes an array release a device.

use super::outcome::Outcome;
use super::spare_remove;
use crate::arrays;
use crate::operation::Remove;
use crate::ui::Ui;
use serde_json::json;
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::membership::{Out, Removed, remove};
use spindles_admin::scan::{Given, shell_word};

pub(super) fn perform(operation: &Remove, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let (device, devices) = (&operation.device, arrays::names(&given.devices));
    let removed = remove(
        arrays::host(&devices, ui),
        device,
        &AssembleOptions::default(),
    )?;
    let what = match &removed {
        Removed::Member(out) => {
            let (array, member) = (&out.array, out.member);
            if ui.serving().is_some() {
                ui.line(format!(
                    "array '{array}' has let go of member {member}, {device}"
                ));
            } else {
                ui.line(format!(
                    "nothing was changed: array '{array}' is not served, so no server uses \
                     member {member}, {device}, which is out"
                ));
                let (word, of) = (shell_word(device), shell_word(array));
                ui.note(format!(
                    "`spindles add {word} {of}` takes it back; `spindles wipe {word}` makes a \
                     plain device of it"
                ));
            }
            "member"
        }
        Removed::Replaced(Out { array, member }, by) => {
            ui.line(format!(
                "array '{array}' has let go of {device} already: {by} is member {member} in its \
                 place"
            ));
            ui.note(format!(
                "`spindles wipe {}` makes a plain device of it",
                shell_word(device)
            ));
            "member"
        }
        Removed::Spare(removed) => {
            for removed in removed {
                spare_remove::report(device, removed, ui);
            }
            "spare"
        }
    };
    Ok(Outcome::of(&json!({ "device": device, "was": what })))
}

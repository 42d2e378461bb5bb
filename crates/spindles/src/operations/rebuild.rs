//! Fills a device that replaces a missing one.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::failure::Usage;
use crate::operation::{Onto, Rebuild};
use crate::ui::Ui;
use anyhow::bail;
use serde_json::{Value, json};
use spindles_admin::assemble::MemberReport;
use spindles_admin::rebuild::{RebuildOptions, Rebuilt, rebuild};
use spindles_admin::scan::{self, Given};
use spindles_array::Incident;
use spindles_block::{MemberIndex, counted};
use spindles_format::ChecksumKind;

pub(super) fn perform(operation: &Rebuild, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let onto = operation.onto.as_ref().map(Onto::expression);
    let options = RebuildOptions {
        assemble: assembling(operation.degraded, operation.rebuild_rate),
        onto: onto.transpose().map_err(Usage::error)?,
        member: operation.member.map(MemberIndex),
        overwrite: operation.force,
    };
    let mut on_progress = ui.until_interrupted("rebuild")?;
    let rebuilt = rebuild(
        arrays::host(&arrays::names(&given.devices), ui),
        &options,
        &mut on_progress,
    )?;
    drop(on_progress);
    arrays::note_devices(
        &rebuilt.report.incidents,
        &rebuilt.report.taken,
        &rebuilt.wiped,
        ui,
    );
    show_members(&rebuilt, options.onto.is_some(), ui);
    if is_filled(&rebuilt) {
        show_missing(&rebuilt, ui);
    }
    let document = document(&rebuilt);
    let end = check_filled(&rebuilt, ui);
    Ok(Outcome::of(&document).ending(end))
}

/// Returns true if the rebuild finished and filled everything that could be computed.
fn is_filled(rebuilt: &Rebuilt) -> bool {
    rebuilt.through && rebuilt.failed == 0
}

/// Shows the inner array that was created, and the members that are active again.
fn show_members(rebuilt: &Rebuilt, is_onto_given: bool, ui: &Ui) {
    if let Some(made) = &rebuilt.made {
        let end = if is_filled(rebuilt) {
            ", and filled"
        } else {
            ""
        };
        ui.line(format!(
            "array '{}': the inner array '{}' ({}) is recreated from {}{end}",
            rebuilt.report.name,
            made.name,
            made.level,
            made.devices.join(", ")
        ));
    }
    for (array, member) in &rebuilt.members {
        let what = if is_onto_given && lacks_checksums(rebuilt, array) {
            ", a single device among arrays: reads do not detect its corruption, since the \
             outer array has no checksums (--onto 'concat(DEV)' has them)"
        } else {
            ""
        };
        ui.line(format!(
            "array '{array}': member {member} is active again{what}"
        ));
    }
}

/// Returns true if the new member is a single device next to arrays, in an array without checksums.
fn lacks_checksums(rebuilt: &Rebuilt, array: &str) -> bool {
    let around = rebuilt.report.arrays();
    let around = around.iter().find(|report| report.name == array);
    let is_array = |member: &MemberReport| matches!(member, MemberReport::Array(_));
    rebuilt.made.is_none()
        && around.is_some_and(|report| {
            report.checksum == ChecksumKind::None.name() && report.members.iter().any(is_array)
        })
}

/// Shows that there was nothing to rebuild, and notes the members that are still missing.
fn show_missing(rebuilt: &Rebuilt, ui: &Ui) {
    let name = &rebuilt.report.name;
    if rebuilt.members.is_empty() {
        for refused in &rebuilt.report.refused {
            ui.note(format!("left out: {refused}"));
        }
        ui.line(format!(
            "array '{name}' lacks no member: there is nothing to rebuild"
        ));
    }
    for (array, missing) in rebuilt.still_missing() {
        ui.note(format!(
            "array '{array}' is still degraded: {missing} missing; `spindles status {}` says what \
             can be done",
            scan::shell_word(name)
        ));
    }
}

/// Returns the bytes of the new device that could not be computed.
fn unfilled_bytes(rebuilt: &Rebuilt) -> u64 {
    let incidents = rebuilt.report.incidents.iter();
    incidents.map(Incident::unfilled_bytes).sum()
}

/// Returns the JSON document of a rebuild.
fn document(rebuilt: &Rebuilt) -> Value {
    json!({
        "name": rebuilt.report.name,
        "uuid": rebuilt.report.uuid.to_string(),
        "incidents": arrays::incidents(&rebuilt.report.incidents),
        "made": rebuilt.made.as_ref().map(|made| json!({
            "array": made.name,
            "level": made.level,
            "devices": made.devices,
        })),
        "rebuilt": rebuilt.members.iter().map(|(array, member)| {
            json!({ "array": array, "member": member.0 })
        }).collect::<Vec<_>>(),
        "through": is_filled(rebuilt),
        "unreadable": rebuilt.failed,
        "unfilled_bytes": unfilled_bytes(rebuilt),
    })
}

/// Returns an error if the new device is not filled completely.
fn check_filled(rebuilt: &Rebuilt, ui: &Ui) -> anyhow::Result<()> {
    let name = &rebuilt.report.name;
    if rebuilt.failed > 0 {
        bail!(
            "array '{name}': {} could not be read, so the new device is not active yet; restore \
             the data there from a backup",
            counted(rebuilt.failed, "place")
        );
    }
    let unfilled_bytes = unfilled_bytes(rebuilt);
    if unfilled_bytes > 0 {
        bail!(
            "array '{name}': {} of the new device can't be filled, since other members can't be \
             read there either; the rest is filled; `spindles scrub {}` names the places: \
             restore them from a backup",
            arrays::size(unfilled_bytes),
            scan::shell_word(name)
        );
    }
    if !rebuilt.through {
        let what = ui.what_becomes_of_it("was stopped, and goes on there next time");
        bail!("array '{name}': the rebuild {what}");
    }
    Ok(())
}

//! Takes a member out of an array.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::failure::Usage;
use crate::operation::Fail;
use crate::ui::Ui;
use crate::words;
use serde_json::json;
use spindles_admin::assemble::MemberReport;
use spindles_admin::host::report_of;
use spindles_admin::membership::fail;
use spindles_admin::scan::{Given, shell_word};

pub(super) fn perform(operation: &Fail, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let device = match (&operation.device, operation.member) {
        (Some(device), _) => device.clone(),
        (None, Some(member)) => device_at(member, &given.devices)?,
        (None, None) => return Err(Usage::error(words::control::NO_MEMBER)),
    };
    let (device, devices) = (device.as_str(), arrays::names(&given.devices));
    let mut on_progress = ui.until_interrupted("resync")?;
    let out = fail(
        arrays::host(&devices, ui),
        device,
        &assembling(operation.degraded, None),
        &mut on_progress,
    )?;
    drop(on_progress);
    let (array, member) = (&out.array, out.member);
    ui.line(format!(
        "array '{array}': member {member}, {device}, is out"
    ));
    let (word, of) = (shell_word(device), shell_word(&out.outermost));
    ui.note(match (&out.spare, ui.serving()) {
        (None, _) => format!(
            "it stays out until `spindles add {word} {of}` takes it back, or another device has \
             its place"
        ),
        (Some(spare), Some(_)) => format!(
            "{spare}, a spare, takes its place: `spindles status {of}` shows how far that is. Then \
             the array has no use for {device}: `spindles wipe {word}` makes a plain device of it"
        ),
        (Some(spare), None) => format!(
            "{spare}, a spare, takes its place as soon as the array is used: `spindles rebuild \
             {of}` fills it now. Before that, `spindles add {word} {of}` takes {device} back"
        ),
    });
    let document = json!({
        "array": array,
        "member": member.0,
        "device": device,
        "spare": out.spare,
    });
    Ok(Outcome::of(&document))
}

/// Returns the device of the member at this position.
fn device_at(member: u8, devices: &[String]) -> anyhow::Result<String> {
    let report = report_of(devices)?;
    let why = match report.members.get(usize::from(member)) {
        Some(MemberReport::Device { name, .. }) => return Ok(name.clone()),
        Some(MemberReport::Array(inner)) => {
            format!(
                "that is the array '{}': give one of its devices",
                inner.name
            )
        }
        Some(MemberReport::Missing { .. }) => format!(
            "that member is missing already: `spindles status {}` says why, and what to do",
            shell_word(&report.name)
        ),
        None => format!(
            "array '{}' has {} members, 0 to {}",
            report.name,
            report.members.len(),
            report.members.len() - 1
        ),
    };
    Err(Usage::error(format!("--member {member}: {why}")))
}

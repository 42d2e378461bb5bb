//! Adds members, changes chunk size or level, or uses all the room of the members.

use super::outcome::{Outcome, assembling};
use crate::arrays;
use crate::failure::Usage;
use crate::operation::{Grow, Size};
use crate::ui::Ui;
use anyhow::bail;
use serde_json::json;
use spindles_admin::grow::{self, GrowOptions, Grown, NewSize};
use spindles_admin::scan::Given;
use spindles_layout::Level;

pub(super) fn perform(operation: &Grow, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let options = options(operation)?;
    let mut on_progress = ui.until_interrupted("grow")?;
    let devices = arrays::names(&given.devices);
    let grown = grow::grow(arrays::host(&devices, ui), &options, &mut on_progress)?;
    drop(on_progress);
    arrays::note_devices(
        &grown.report.incidents,
        &grown.report.taken,
        &grown.wiped,
        ui,
    );
    if let Some(line) = outcome(&grown, &options) {
        ui.line(line);
    }
    let document = json!({
        "name": grown.report.name,
        "uuid": grown.report.uuid.to_string(),
        "incidents": arrays::incidents(&grown.report.incidents),
        "bytes_before": grown.report.bytes,
        "bytes": grown.bytes,
        "already": grown.already,
        "through": grown.through,
        "stuck_at_block": grown.stuck,
    });
    let end = check_grown(&grown, ui);
    Ok(Outcome::of(&document).ending(end))
}

/// Returns an error if the growth has not come to its end.
fn check_grown(grown: &Grown, ui: &Ui) -> anyhow::Result<()> {
    let name = &grown.report.name;
    if let Some(block) = grown.stuck {
        bail!(
            "array '{name}': what begins at block {block} can't be read, and so not moved; \
             what comes before it is moved, and the growth goes on there next time"
        );
    }
    if !grown.through {
        let what = ui.what_becomes_of_it("was stopped, and goes on there next time");
        bail!("array '{name}': the growth {what}");
    }
    Ok(())
}

/// Parses the new shape of the array.
fn options(operation: &Grow) -> anyhow::Result<GrowOptions> {
    let level = operation.level.as_deref().map(Level::named).transpose();
    let level = level.map_err(|error| Usage::error(format!("--level: {error}")))?;
    let layout = match (&operation.layout, level) {
        (None, _) => None,
        (Some(_), None) => return Err(Usage::error("--layout goes with --level".to_owned())),
        (Some(name), Some(level)) => {
            Some((level.layout(name)).map_err(|error| Usage::error(format!("--layout: {error}")))?)
        }
    };
    Ok(GrowOptions {
        assemble: assembling(operation.degraded, None),
        add: operation.add.clone(),
        chunk_bytes: operation.chunk_bytes,
        level,
        layout,
        size: operation.size.map(|size| match size {
            Size::Max => NewSize::Max,
            Size::Bytes(bytes) => NewSize::Bytes(bytes),
        }),
        overwrite: operation.force,
    })
}

/// Returns the line for people on the array after its growth; `None` if the growth was stopped.
fn outcome(grown: &Grown, options: &GrowOptions) -> Option<String> {
    let name = &grown.report.name;
    if let Some(reason) = &grown.as_large {
        return Some(format!("array '{name}' stays as it is: {reason}"));
    }
    if grown.already {
        return Some(format!(
            "array '{name}' has grown that way already: it holds {}",
            arrays::size(grown.bytes)
        ));
    }
    if !grown.through {
        return None;
    }
    let more = match grown.bytes - grown.report.bytes {
        0 => "as much as before".to_owned(),
        more => format!("{} more than before", arrays::size(more)),
    };
    let holds = format!("holds {}, {more}", arrays::size(grown.bytes));
    if options.size.is_some() {
        return Some(format!("array '{name}' {holds}"));
    }
    // The report of a resumed growth already counts the new members.
    let new = match grown.report.growing {
        Some(_) => 0,
        None => options.add.len(),
    };
    Some(format!(
        "array '{name}' is {} on {} members now, and {holds}",
        options.level.unwrap_or(grown.report.level).name,
        grown.report.members.len() + new
    ))
}

/// Cancels a growth that has moved nothing.
pub(super) fn abort(given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
    let mut on_progress = ui.until_interrupted("abort")?;
    let devices = arrays::names(&given.devices);
    let aborted = grow::abort(arrays::host(&devices, ui), &mut on_progress)?;
    drop(on_progress);
    let name = &aborted.report.name;
    ui.line(format!(
        "array '{name}' is what it was before it began to grow"
    ));
    for device in &aborted.removed {
        ui.line(format!("{device} is a plain device again"));
    }
    let document = json!({
        "name": name,
        "uuid": aborted.report.uuid.to_string(),
        "removed": aborted.removed,
    });
    Ok(Outcome::of(&document))
}

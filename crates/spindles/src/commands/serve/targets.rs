//! What the TARGETs of the command line mean. Nothing is opened.

use super::Arguments;
use crate::arrays;
use crate::commands::create;
use crate::failure::Usage;
use crate::ui::Ui;
use spindles_format::ChecksumKind;
use spindles_io::scratch;
use spindles_layout::Expression;
use spindles_serve::Readiness;
use std::time::{Duration, Instant};

/// Between two looks whether members have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What is to be served.
pub(super) enum What {
    /// The array on these devices.
    Assembled(Vec<String>),
    /// A device or an array that is gone when the server ends.
    Scratch(Expression, Option<ChecksumKind>),
    /// A file or device itself.
    AsIs(String),
}

/// What the arguments mean, once it is there. Nothing is opened.
pub(super) fn what(arguments: &Arguments, readiness: &Readiness, ui: &Ui) -> anyhow::Result<What> {
    let checksum = arguments.checksum.as_deref().map(create::checksum);
    let checksum = checksum.transpose()?;
    let what = match &arguments.targets[..] {
        [device] if arguments.as_is => What::AsIs(device.clone()),
        _ if arguments.as_is => {
            return Err(Usage::error("--as-is serves one file or device: give one"));
        }
        [text] => match arrays::expression(text)? {
            expression if scratch::is_scratch(&expression) => What::Scratch(expression, checksum),
            Expression::Leaf(_) => assembled(arguments, readiness, ui)?,
            Expression::Array { .. } => {
                return Err(Usage::error(format!(
                    "{text}: arrays of files and devices are not made by serving them: make it with spindles \
                     create, and serve it by its name"
                )));
            }
        },
        _ => assembled(arguments, readiness, ui)?,
    };
    let is_fresh = matches!(what, What::Scratch(Expression::Array { .. }, _));
    if checksum.is_some() && !is_fresh {
        return Err(Usage::error(
            "--checksum is for a fresh array on memory: what else is served has its own, or none",
        ));
    }
    if arguments.control.is_some() && !matches!(what, What::Assembled(_)) {
        return Err(Usage::error(
            "--control is for commands on an array: there are none on what else is served",
        ));
    }
    Ok(what)
}

fn assembled(arguments: &Arguments, readiness: &Readiness, ui: &Ui) -> anyhow::Result<What> {
    if arguments.wait > 0 {
        await_members(arguments, readiness, ui);
    }
    let devices = arguments.scan.devices(&arguments.targets, &[], ui)?;
    Ok(What::Assembled(devices))
}

/// Waits for members that the array counts on. Whoever starts this is told.
fn await_members(arguments: &Arguments, readiness: &Readiness, ui: &Ui) {
    let limit = Duration::from_secs(arguments.wait);
    let begun = Instant::now();
    let mut told = None;
    while let Some(absent) = arguments.scan.awaited(&arguments.targets) {
        if begun.elapsed() >= limit {
            let seconds = arguments.wait;
            ui.note(format!("{absent}: that did not change in {seconds} s"));
            return;
        }
        if told.as_ref() != Some(&absent) {
            ui.note(format!("waiting: {absent}"));
            readiness.status(&format!("waiting: {absent}"));
            told = Some(absent);
        }
        std::thread::sleep(LOOK_INTERVAL.min(limit));
    }
}

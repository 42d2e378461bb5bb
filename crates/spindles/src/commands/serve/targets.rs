//! Interprets the TARGETs of the command line. Opens nothing.

use super::arguments::Arguments;
use crate::arrays;
use crate::commands::create;
use crate::failure::Usage;
use crate::output::begin_log;
use crate::ui::Ui;
use spindles_admin::create::vanishes;
use spindles_admin::plain::PlainTarget;
use spindles_device::identity::absolute;
use spindles_device::named_twice;
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use spindles_serve::Readiness;
use std::time::{Duration, Instant};

/// Time between two looks for absent members.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A target to be served.
pub(super) enum What {
    /// The array on these devices.
    Assembled(Vec<String>),
    /// A device or an array that vanishes when the server ends.
    Fresh(Expression, Option<ChecksumKind>),
    /// A plain array.
    Plain(PlainTarget),
    /// The file or device itself.
    AsIs(String),
}

/// The kind of a single TARGET.
enum Kind {
    /// A file or device itself, not the array on it.
    AsIs,
    /// Fresh, on memory.
    Fresh(Expression),
    /// A plain array.
    Plain(PlainTarget),
    /// The name of an array, or some of its devices.
    Array,
}

fn kind(target: &str, arguments: &Arguments) -> anyhow::Result<Kind> {
    if arguments.as_is {
        return Ok(Kind::AsIs);
    }
    if target.starts_with("array:") {
        return Ok(Kind::Array);
    }
    if let Some(array) = arguments.plain.target(target)? {
        return Ok(Kind::Plain(array));
    }
    match arrays::expression(target)? {
        expression if vanishes(&expression) => Ok(Kind::Fresh(expression)),
        Expression::Leaf(_) => Ok(Kind::Array),
        Expression::Array { .. } | Expression::Slice { .. } => Err(Usage::error(format!(
            "{target}: serve does not create arrays of files and devices: use spindles create, \
             then serve the array by its name"
        ))),
    }
}

/// Finds the exports that the arguments name, after waiting for members. Opens nothing.
///
/// | TARGET | export |
/// |---|---|
/// | any target, with `--as-is` | one for each target |
/// | memory, and fresh arrays on it | one for each target |
/// | plain arrays | one for each target |
/// | names of arrays, and devices | one for each array that these belong to |
pub(super) fn exports(
    arguments: &Arguments,
    readiness: &Readiness,
    ui: &Ui,
) -> anyhow::Result<Vec<What>> {
    (arguments.plain).check(&arguments.targets, arguments.writable)?;
    let checksum = arguments.checksum.as_deref().map(create::checksum);
    let checksum = checksum.transpose()?;
    let mut exports = Vec::new();
    let mut of_arrays = Vec::new();
    for (at, target) in arguments.targets.iter().enumerate() {
        match kind(target, arguments)? {
            Kind::AsIs => exports.push((at, What::AsIs(target.clone()))),
            Kind::Fresh(expression) => exports.push((at, What::Fresh(expression, checksum))),
            Kind::Plain(array) => exports.push((at, What::Plain(array))),
            Kind::Array => of_arrays.push((at, target.clone())),
        }
    }
    if arguments.as_is
        && let Some(twice) = named_twice(&arrays::names(&arguments.targets))
    {
        return Err(Usage::error(format!(
            "{twice}: serve it once, as one export for all clients"
        )));
    }
    let is_fresh = |what: &What| matches!(what, What::Fresh(Expression::Array { .. }, _));
    let all_fresh = of_arrays.is_empty() && exports.iter().all(|(_, what)| is_fresh(what));
    if checksum.is_some() && !all_fresh {
        return Err(Usage::error(
            "--checksum is for a fresh array on memory: what else is served has its own, or none",
        ));
    }
    if arguments.control.is_some() && !exports.is_empty() {
        return Err(Usage::error(
            "--control is for commands on an array: there are none on what else is served",
        ));
    }
    if !of_arrays.is_empty() {
        let (places, targets): (Vec<usize>, Vec<String>) = of_arrays.into_iter().unzip();
        let arrays = arrays(&targets, arguments, readiness, ui)?.into_iter();
        exports.extend(arrays.map(|(at, devices)| (places[at], What::Assembled(devices))));
    }
    if arguments.control.is_some() && exports.len() > 1 {
        return Err(Usage::error(
            "--control is a socket for commands on one array: leave it out, and commands find each \
             of several",
        ));
    }
    exports.sort_by_key(|(at, _)| *at);
    Ok(exports.into_iter().map(|(_, what)| what).collect())
}

/// Returns the devices of each array, and the first target that names it. Device names are
/// absolute, like those in commands, which come from other folders.
fn arrays(
    targets: &[String],
    arguments: &Arguments,
    readiness: &Readiness,
    ui: &Ui,
) -> anyhow::Result<Vec<(usize, Vec<String>)>> {
    if arguments.wait > 0 {
        await_members(targets, arguments, readiness, ui);
    }
    let arrays = arguments.scan.arrays(targets, ui)?.into_iter();
    let whole = |devices: Vec<String>| devices.iter().map(|device| absolute(device)).collect();
    Ok(arrays.map(|(at, devices)| (at, whole(devices))).collect())
}

/// Waits for absent members that the arrays count on, and reports whom it waits for.
fn await_members(targets: &[String], arguments: &Arguments, readiness: &Readiness, ui: &Ui) {
    let limit = Duration::from_secs(arguments.wait);
    let begun = Instant::now();
    let mut reported = None;
    begin_log();
    while let Some(absent) = arguments.scan.awaited(targets) {
        if begun.elapsed() >= limit {
            let seconds = arguments.wait;
            ui.note(format!("{absent}: that did not change in {seconds} s"));
            return;
        }
        if reported.as_ref() != Some(&absent) {
            ui.note(format!("waiting: {absent}"));
            readiness.status(&format!("waiting: {absent}"));
            reported = Some(absent);
        }
        std::thread::sleep(LOOK_INTERVAL.min(limit));
    }
}

//! An open target, and the facts about it.

use super::arguments::{Arguments, FLUSHES};
use super::targets::What;
use crate::arrays;
use crate::words;
use spindles_admin::assemble::{ArrayReport, AssembleOptions, EngineOptions, assemble, look};
use spindles_admin::create::{CreateOptions, fresh};
use spindles_admin::plain::{self, PlainTarget};
use spindles_admin::wipe;
use spindles_array::{Target, open_device};
use spindles_device::{Locks, OpenOptions};
use spindles_layout::Expression;
use spindles_serve::description_of;
use std::path::Path;

/// Facts about a target to be served.
pub(super) struct Subject {
    /// The name of the export.
    pub(super) name: String,
    /// Its name for an administrator.
    pub(super) called: String,
    /// A remark about how it is served.
    pub(super) but: &'static str,
    /// Its description for clients.
    pub(super) description: String,
    /// Warnings to show when it is served.
    pub(super) warnings: Vec<String>,
    /// The array that accepts commands: its report, its devices, and its options.
    pub(super) array: Option<(ArrayReport, Vec<String>, AssembleOptions)>,
    /// The name of the array, if it was not closed cleanly before.
    pub(super) not_closed: Option<String>,
}

fn open_options(arguments: &Arguments) -> OpenOptions {
    OpenOptions {
        read_only: arguments.read_only,
        ignore_flushes: arguments.flushes == FLUSHES[1],
        ..OpenOptions::default()
    }
}

fn assemble_options(arguments: &Arguments) -> AssembleOptions {
    AssembleOptions {
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        open: open_options(arguments),
        engine: EngineOptions {
            read_policy: Some(arguments.read_policy()),
            ..arguments.rate.options()
        },
        ..AssembleOptions::default()
    }
}

/// Returns the export name of a target. Writes nothing, but fails if opening the array would be
/// refused.
pub(super) fn name(what: &What, arguments: &Arguments) -> anyhow::Result<String> {
    Ok(match what {
        What::Assembled(devices) => {
            look(&arrays::names(devices), &assemble_options(arguments))?.name
        }
        What::Plain(PlainTarget {
            name: Some(name), ..
        }) => name.clone(),
        What::Fresh(expression, _) | What::Plain(PlainTarget { expression, .. }) => {
            match expression {
                Expression::Leaf(device) => device.clone(),
                Expression::Array { level, .. } => level.name.to_owned(),
                Expression::Slice { .. } => expression.to_string(),
            }
        }
        What::AsIs(device) => {
            let file = Path::new(device).file_name();
            file.map_or_else(|| device.clone(), |file| file.to_string_lossy().into())
        }
    })
}

pub(super) fn open(
    what: What,
    arguments: &Arguments,
) -> anyhow::Result<(Box<dyn Target>, Subject)> {
    let open = open_options(arguments);
    match what {
        What::Assembled(devices) => {
            let mut options = assemble_options(arguments);
            options.open.locks = Locks::lasting();
            let array = assemble(&arrays::names(&devices), &options)?;
            let report = array.report;
            let subject = Subject {
                called: format!("array '{}'", report.name),
                but: "",
                description: description_of(report.level.name, report.members.len()),
                warnings: words::report::warnings(&report),
                // A new array that was never written only needs its first resync.
                not_closed: (!report.is_clean() && report.last_written_s > 0)
                    .then(|| report.name.clone()),
                name: report.name.clone(),
                array: Some((report, devices, options)),
            };
            Ok((array.target, subject))
        }
        What::Fresh(ref expression, checksum) => {
            let name = name(&what, arguments)?;
            let options = CreateOptions {
                checksum,
                open,
                ..CreateOptions::new(&name)
            };
            let target = fresh(expression, &options)?;
            let subject = Subject {
                called: expression.to_string(),
                but: ", and gone when this ends",
                description: expression.to_string(),
                name,
                warnings: Vec::new(),
                array: None,
                not_closed: None,
            };
            Ok((target, subject))
        }
        What::Plain(ref array) => open_plain(array, name(&what, arguments)?, arguments),
        What::AsIs(ref device) => {
            let labelled = wipe::overwritten(device).filter(|_| !arguments.read_only);
            let warning = labelled.map(|labelled| {
                format!(
                    "{device} holds {}: serve it only to its owner, on another machine",
                    labelled.holds
                )
            });
            let target = open_device(device, &open)?;
            let subject = Subject {
                name: name(&what, arguments)?,
                called: device.clone(),
                but: " as it is, without an array",
                description: "a device".to_owned(),
                warnings: warning.into_iter().collect(),
                array: None,
                not_closed: None,
            };
            Ok((target, subject))
        }
    }
}

fn open_plain(
    plain: &PlainTarget,
    name: String,
    arguments: &Arguments,
) -> anyhow::Result<(Box<dyn Target>, Subject)> {
    let open = OpenOptions {
        read_only: !arguments.writable,
        ..open_options(arguments)
    };
    let options = arguments.plain.options(plain, open, arguments.force);
    let expression = &plain.expression;
    let array = plain::open(expression, &options)?;
    let subject = Subject {
        name,
        called: format!("plain array '{expression}'"),
        but: if arguments.writable {
            ""
        } else {
            ", read only"
        },
        description: description_of(array.report.level.name, array.report.members.len()),
        warnings: words::plain::notes(plain, &options, &array.report),
        array: None,
        not_closed: None,
    };
    Ok((array.target, subject))
}

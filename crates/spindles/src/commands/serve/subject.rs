//! What is served, once it is open.

use super::Arguments;
use super::targets::What;
use crate::arrays;
use anyhow::bail;
use spindles_io::assemble::{ArrayReport, AssembleOptions, assemble};
use spindles_io::create::CreateOptions;
use spindles_io::{OpenOptions, Target, open_device, scratch, wipe};
use spindles_layout::Expression;
use std::path::Path;

/// What is served, but for the target itself.
pub(super) struct Subject {
    /// The name of the export.
    pub(super) name: String,
    /// What an administrator calls it.
    pub(super) called: String,
    /// What is to be known of it when it is served.
    pub(super) but: &'static str,
    /// What it is to clients.
    pub(super) description: String,
    /// What else is to be known of it.
    pub(super) warnings: Vec<String>,
    /// The array that commands can be given for: how it was found, its devices, and how it was opened.
    pub(super) array: Option<(ArrayReport, Vec<String>, AssembleOptions)>,
}

pub(super) fn open(
    what: What,
    arguments: &Arguments,
) -> anyhow::Result<(Box<dyn Target>, Subject)> {
    let open = OpenOptions {
        read_only: arguments.read_only,
        ..arguments.rate.options()
    };
    match what {
        What::Assembled(devices) => {
            let options = AssembleOptions {
                force: arguments.force,
                degraded: arguments.degraded.degraded,
                open,
                ..AssembleOptions::default()
            };
            let array = assemble(&arrays::names(&devices), &options)?;
            let report = array.report;
            let subject = Subject {
                called: format!("array '{}'", report.name),
                but: "",
                description: format!("{} of {}", report.level, report.members.len()),
                warnings: report.warnings(),
                name: report.name.clone(),
                array: Some((report, devices, options)),
            };
            Ok((array.target, subject))
        }
        What::Scratch(expression, checksum) => {
            let name = match &expression {
                Expression::Leaf(device) => device.clone(),
                Expression::Array { level, .. } => level.name.to_owned(),
            };
            let options = CreateOptions {
                checksum,
                open,
                ..CreateOptions::new(&name)
            };
            let target = scratch::open_created(&expression, &options)?;
            let subject = Subject {
                called: expression.to_string(),
                but: ", and gone when this ends",
                description: expression.to_string(),
                name,
                warnings: Vec::new(),
                array: None,
            };
            Ok((target, subject))
        }
        What::AsIs(device) => {
            let labelled = wipe::look(&[&device]).unwrap_or_default();
            if let Some(labelled) = labelled.first().filter(|_| !arguments.read_only) {
                bail!(
                    "{device} holds {}, which clients would overwrite: serve that, or give --read-only",
                    labelled.holds
                );
            }
            let name = Path::new(&device).file_name();
            let name = name.map_or_else(|| device.clone(), |it| it.to_string_lossy().into());
            let target = open_device(&device, &open)?;
            let subject = Subject {
                called: device,
                but: " as it is, without an array",
                description: "a device".to_owned(),
                name,
                warnings: Vec::new(),
                array: None,
            };
            Ok((target, subject))
        }
    }
}

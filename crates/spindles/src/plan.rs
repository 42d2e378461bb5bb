//! `spindles create --plan`: the arrays that devices can become, as a table.

use crate::arrays;
use crate::documents::changes::{self, PlanDevice};
use crate::failure::Usage;
use crate::ui::Ui;
use spindles_admin::create::{Choice, CreateOptions, choices, size_of};
use spindles_admin::scan::shell_word;
use spindles_block::{MEMBERS_MAX, SizeBytes, counted};
use std::path::Path;

/// The array's name in the commands shown.
const NAME: &str = "pool";

/// Smaller sizes probably lack their unit, in bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// Shows the arrays that devices, or devices of these sizes, can become. Writes nothing.
pub(crate) fn show(
    given: &[String],
    rate: SizeBytes,
    options: &CreateOptions,
    ui: &Ui,
) -> anyhow::Result<()> {
    if rate.0 == 0 {
        return Err(Usage::error(
            "--rate 0: a rebuild never ends; take a rate such as 100M",
        ));
    }
    if given.len() > usize::from(MEMBERS_MAX) {
        let count = given.len();
        return Err(Usage::error(format!(
            "--plan: {count} devices; an array has at most {MEMBERS_MAX} members"
        )));
    }
    let devices = devices(given)?;
    let options = CreateOptions {
        name: NAME.to_owned(),
        ..options.clone()
    };
    let choices = choices(&devices, &options)?;
    let command = |choice: &Choice| {
        let expression = shell_word(&choice.expression.to_string()).into_owned();
        format!("spindles create {NAME} {expression}{}", flags(&options))
    };
    let rebuild_s = |choice: &Choice| choice.rebuild_bytes.map(|bytes| bytes.div_ceil(rate.0));
    let all: u64 = devices.iter().map(|(_, bytes)| bytes).sum();
    ui.line(format!(
        "{}, {}; a lost one is refilled at {}/s; nothing is written\n",
        counted(devices.len() as u64, "device"),
        arrays::size(all),
        arrays::size(rate.0),
    ));
    let rows = choices.iter().map(|choice| {
        vec![
            arrays::size(choice.bytes).to_string(),
            survives(choice.survives),
            arrays::size(choice.unused_bytes).to_string(),
            rebuild_s(choice).map_or("-".to_owned(), arrays::duration),
            command(choice),
        ]
    });
    let header = ["holds", "survives", "unused", "rebuild", "command"];
    ui.table(&header, &rows.collect::<Vec<_>>());
    let choices = choices.iter().map(|choice| changes::Choice {
        expression: choice.expression.to_string(),
        command: command(choice),
        bytes: choice.bytes,
        survives: choice.survives,
        unused_bytes: choice.unused_bytes,
        rebuild_s: rebuild_s(choice),
    });
    let devices = devices.iter();
    let devices = devices.map(|&(ref device, bytes)| PlanDevice { device, bytes });
    ui.json(&changes::Plan {
        devices: devices.collect(),
        rate_bytes_per_s: rate.0,
        choices: choices.collect(),
    });
    Ok(())
}

/// Returns names and sizes. A size that is no file stands for a new device, and gets a name.
fn devices(given: &[String]) -> anyhow::Result<Vec<(String, u64)>> {
    let mut devices: Vec<(String, u64)> = Vec::new();
    for text in given {
        let size = text.parse::<SizeBytes>();
        let device = match size {
            Ok(size) if !Path::new(text).exists() && size.0 < LEAST_BYTES => {
                return Err(Usage::error(format!(
                    "--plan {text}: that is {size}; a size takes its unit, as {text}T"
                )));
            }
            Ok(size) if !Path::new(text).exists() => (format!("disk{}", devices.len() + 1), size.0),
            Err(error) if is_meant_as_size(text) => {
                return Err(Usage::error(format!("--plan {text}: {error}")));
            }
            _ => (text.clone(), size_of(text)?),
        };
        if devices.iter().any(|(name, _)| *name == device.0) {
            return Err(Usage::error(format!(
                "--plan names '{}' twice: take different devices",
                device.0
            )));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// Returns true if the text begins like a size and names no file.
fn is_meant_as_size(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && !Path::new(text).exists()
}

fn survives(devices: u64) -> String {
    match devices {
        0 => "no loss".to_owned(),
        1 => "any one".to_owned(),
        devices => format!("any {devices}"),
    }
}

/// The options for which the figures hold, if they differ from the defaults.
fn flags(options: &CreateOptions) -> String {
    let usual = CreateOptions::new(NAME);
    let chunk = options.chunk_bytes.map(|bytes| SizeBytes(bytes).typed());
    let other = options.block_size != usual.block_size;
    let block = other.then(|| options.block_size.bytes().to_string());
    let flags = [
        ("--block-size", block),
        ("--chunk", chunk.map(|chunk| chunk.to_string())),
        (
            "--consistency",
            options.consistency.map(|policy| policy.name.to_owned()),
        ),
        (
            "--checksum",
            options.checksum.map(|kind| kind.name().to_owned()),
        ),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(flag, value)| Some(format!(" {flag} {}", value?)));
    flags.collect()
}

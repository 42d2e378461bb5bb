//! `spindles model list`: lists the presets.

use super::Command;
use crate::documents::models::{ListedModel, ModelList};
use crate::ui::Ui;
use clap::ArgMatches;
use spindles_host::file_systems::{self, Row};
use spindles_model::{Parameters, preset, preset_names};

/// A disk maker's terabyte.
const TB: u64 = 1_000_000_000_000;

pub(crate) static COMMAND: Command = Command {
    name: "list",
    about: "List the models: disks, links, controllers, hosts and file systems",
    details: "spindles model list",
    hidden: false,
    arguments: |command| command,
    run,
};

/// The kind of rows that are file systems.
pub(super) const FILE_SYSTEM: &str = "file system";

fn run(_: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let presets = preset_names()
        .map(preset)
        .collect::<Result<Vec<Parameters>, _>>()?;
    let file_systems = file_systems::ROWS.iter().map(|row| listed_row(row));
    let models: Vec<ListedModel> = presets.iter().map(listed).chain(file_systems).collect();
    let rows: Vec<Vec<String>> = models.iter().map(row).collect();
    ui.table(
        &["model", "kind", "year", "capacity", "numbers assumed"],
        &rows,
    );
    ui.json(&ModelList { models });
    Ok(())
}

fn listed(parameters: &Parameters) -> ListedModel {
    let numbers = parameters.numbers.values();
    let assumed = numbers.filter(|number| number.how == spindles_model::How::Assumed);
    ListedModel {
        name: parameters.name.clone(),
        kind: parameters.kind.name,
        year: parameters.year,
        capacity_bytes: parameters.capacity_bytes(),
        numbers: parameters.numbers.len(),
        assumed: assumed.count(),
    }
}

fn listed_row(row: &Row) -> ListedModel {
    ListedModel {
        name: row.name.to_owned(),
        kind: FILE_SYSTEM,
        year: row.year,
        capacity_bytes: None,
        numbers: 0,
        assumed: 0,
    }
}

fn row(model: &ListedModel) -> Vec<String> {
    let capacity = model.capacity_bytes.map_or_else(String::new, |bytes| {
        let (unit, name) = if bytes < TB {
            (TB / 1000, "GB")
        } else {
            (TB, "TB")
        };
        let tenths = (bytes + unit / 20) / (unit / 10);
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    });
    vec![
        model.name.clone(),
        model.kind.to_owned(),
        model.year.map_or_else(String::new, |year| year.to_string()),
        capacity,
        match model.numbers {
            0 => String::new(),
            numbers => format!("{} of {numbers}", model.assumed),
        },
    ]
}

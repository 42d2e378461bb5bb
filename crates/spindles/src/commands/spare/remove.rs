//! `spindles spare remove`: spares become plain devices again.

use crate::arrays;
use crate::commands::Command;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_io::spare::remove;

pub(crate) static COMMAND: Command = Command {
    name: "remove",
    about: "Make plain devices of spares again",
    details: "Nothing but spares is touched.\n\n\
              spindles spare remove e.img",
    hidden: false,
    forwards: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The spares
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arrays::devices(&arguments.devices)?;
    remove(&arrays::names(&devices))?;
    for device in &devices {
        ui.line(format!("{device} is a spare no more"));
    }
    ui.json(&json!({ "removed": devices }));
    Ok(())
}

//! `spindles spare remove`: makes plain devices of spares again.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::served;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_admin::spare::{Removed, remove};

pub(crate) static COMMAND: Command = Command {
    name: "remove",
    about: "Turn spares back into plain devices",
    details: "Touches only spares. With --array, the devices must be spares of that array; a \
              spare that also serves other arrays stays a spare of these. Without --array, the \
              command refuses a spare of an array that is served.\n\n\
              spindles spare remove e.img\n\
              spindles spare remove e.img --array pool",
    hidden: false,
    forwards: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The spares; give them first, then the array with --array
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
    /// The array that owns the spares: its name, or its devices
    #[arg(long, value_name = "ARRAY|DEV,..")]
    array: Option<String>,
    #[command(flatten)]
    scan: Scan,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arrays::devices(&arguments.devices)?;
    let array: Vec<String> = arguments.array.into_iter().collect();
    let members = (arguments.scan).devices(&array, &arrays::names(&devices), ui)?;
    let meant = devices.iter().map(|it| arrays::device_meant(it, &members));
    let devices: Vec<String> = meant.collect::<anyhow::Result<_>>()?;
    let (names, members) = (arrays::names(&devices), arrays::names(&members));
    let of_array = !array.is_empty();
    if !of_array {
        served::check_no_spares(&names)?;
    }
    let removed = remove(&names, of_array.then(|| arrays::host(&members, ui)))?;
    for (device, removed) in devices.iter().zip(&removed) {
        report(device, removed, ui);
    }
    let shared = devices.iter().zip(&removed);
    let shared = shared.filter(|(_, removed)| matches!(removed, Removed::Of(_)));
    let still_spares: Vec<&String> = shared.map(|(device, _)| device).collect();
    ui.json(&json!({ "removed": devices, "still_spares": still_spares }));
    Ok(())
}

/// Reports what became of a spare.
pub(crate) fn report(device: &str, removed: &Removed, ui: &Ui) {
    ui.line(match removed {
        Removed::Plain => format!("{device} is a spare no more"),
        Removed::Of(array) => {
            format!("{device} is a spare of array '{array}' no more, and of others it is")
        }
    });
}

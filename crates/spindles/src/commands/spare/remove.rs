//! `spindles spare remove`: makes plain devices of spares again.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::operation::{Operation, SpareRemove};
use crate::operations;
use crate::served;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "remove",
    about: "Turn spares back into plain devices",
    details: "Touches only spares. With --array, the devices must be spares of that array; a \
              spare that also serves other arrays stays a spare of these. Without --array, the \
              command refuses a spare of an array that is served.\n\n\
              spindles spare remove e.img\n\
              spindles spare remove e.img --array pool",
    hidden: false,
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
    let found = (arguments.scan).find(&array, &arrays::names(&devices), ui)?;
    let devices = devices.iter().map(|device| found.device(device));
    let devices: Vec<String> = devices.collect::<anyhow::Result<_>>()?;
    if array.is_empty() {
        served::check_no_spares(&arrays::names(&devices))?;
    }
    let operation = Operation::SpareRemove(SpareRemove { devices });
    operations::run(&operation, &found, ui)?;
    Ok(())
}

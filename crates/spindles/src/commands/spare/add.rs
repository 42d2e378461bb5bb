//! `spindles spare add`: makes devices spares.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::operation::{Operation, SpareAdd};
use crate::operations;
use crate::ui::Ui;
use clap::{ArgGroup, ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "add",
    about: "Make devices spares of an array, or shared spares",
    details: "The previous contents of the devices are lost. A device that is already a spare \
              serves the array in addition to its earlier ones. A spare must be as large as a \
              member; the command reports members that it is too small for.\n\n\
              spindles spare add e.img --array pool\n\
              spindles spare add e.img --array a.img,b.img,c.img\n\
              spindles spare add e.img f.img --shared",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
#[command(group(ArgGroup::new("whose")))]
struct Arguments {
    /// The devices that become spares; give them first, then the array with --array
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
    /// The array that may use the spares, also for its inner arrays: its name, or its devices
    #[arg(long, value_name = "ARRAY|DEV,..", group = "whose")]
    array: Option<String>,
    /// Let any array use the spares if they are large enough
    #[arg(long, group = "whose")]
    shared: bool,
    /// Overwrite what the devices hold
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    scan: Scan,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if arguments.array.is_none() && !arguments.shared {
        return Err(arguments.scan.needs_array(
            "spare add",
            &arguments.devices,
            ", or make them spares of all arrays with --shared",
        ));
    }
    let devices = arrays::devices(&arguments.devices)?;
    let array: Vec<String> = arguments.array.into_iter().collect();
    let found = arguments.scan.find(&array, &arrays::names(&devices), ui)?;
    let devices = devices.iter().map(|device| found.new_device(device));
    let devices: Vec<String> = devices.collect();
    let operation = Operation::SpareAdd(SpareAdd {
        devices: devices.clone(),
        shared: arguments.shared,
        force: arguments.force,
    });
    operations::run(&operation, &found, ui)?;
    (arguments.scan).note_out_of_sight(&arrays::names(&devices), &found, ui);
    Ok(())
}

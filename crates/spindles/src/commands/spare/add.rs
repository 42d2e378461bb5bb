//! `spindles spare add`: makes devices spares.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::documents::array::{self, Spare};
use crate::documents::changes::SparesAdded;
use crate::operation::SpareAdd;
use crate::operations::{self, Outcome, Perform};
use crate::ui::Ui;
use crate::words;
use clap::{ArgGroup, ArgMatches, Args, FromArgMatches as _};
use spindles_admin::scan::{Given, shell_word};
use spindles_admin::spare::{For, add};

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
    let operation = SpareAdd {
        devices: devices.clone(),
        shared: arguments.shared,
        force: arguments.force,
    };
    operations::run(operation, &found, ui)?;
    (arguments.scan).note_out_of_sight(&arrays::names(&devices), &found, ui);
    Ok(())
}

impl Perform for SpareAdd {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<SparesAdded>> {
        let devices = arrays::names(&self.devices);
        let members = arrays::names(&given.devices);
        let whose = if self.shared {
            For::All
        } else {
            For::Array(arrays::host(&members, ui))
        };
        let added = add(&devices, whose, self.force)?;
        let warnings = words::report::warnings_before(&added);
        let is_taken = |device: &str| {
            let mut taken = added.taken.iter();
            taken.any(|taken| taken.device == device && taken.error.is_none())
        };
        // Warnings about missing members are outdated: a spare is being filled.
        if added.taken.is_empty() {
            for warning in &warnings {
                ui.note(warning);
            }
        }
        arrays::note_devices(&[], &added.taken, &added.wiped, ui);
        for spare in &added.spares {
            if is_taken(&spare.name) {
                continue;
            }
            ui.line(match &added.array {
            Some(array) if !spare.shared => {
                format!("{} is a spare of array '{}'", spare.name, array.name)
            }
            _ => format!(
                "{} is a shared spare: arrays that it is given with take it, as by `spindles serve \
                 NAME {}`",
                spare.name,
                shell_word(&spare.name)
            ),
        });
        }
        if let Some(array) = &added.array
            && array.is_degraded()
        {
            let name = shell_word(&array.name);
            ui.note(if ui.serving().is_some() {
                format!("`spindles status {name}` shows how far it is filled")
            } else {
                format!("`spindles rebuild {name}` fills it now, in the place of what is missing")
            });
        }
        Ok(Outcome::of(SparesAdded {
            name: added.array.as_ref().map(|array| array.name.clone()),
            uuid: added.array.as_ref().map(|array| array.uuid.to_string()),
            warnings,
            spares: added.spares.iter().map(Spare::from).collect(),
            taken: added.taken.iter().map(array::Taken::from).collect(),
        }))
    }
}

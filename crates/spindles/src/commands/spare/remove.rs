//! `spindles spare remove`: makes plain devices of spares again.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::documents::changes::SparesRemoved;
use crate::operation::SpareRemove;
use crate::operations::{self, Outcome, Perform};
use crate::served;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::scan::Given;
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
    operations::run(SpareRemove { devices }, &found, ui).map(drop)
}

impl Perform for SpareRemove {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<SparesRemoved>> {
        let devices = &self.devices;
        let members = arrays::names(&given.devices);
        let of_array = !members.is_empty();
        let host = of_array.then(|| arrays::host(&members, ui));
        let removed = remove(&arrays::names(devices), host)?;
        for (device, removed) in devices.iter().zip(&removed) {
            report(device, removed, ui);
        }
        let shared = devices.iter().zip(&removed);
        let shared = shared.filter(|(_, removed)| matches!(removed, Removed::Of(_)));
        Ok(Outcome::of(SparesRemoved {
            removed: devices.clone(),
            still_spares: shared.map(|(device, _)| device.clone()).collect(),
        }))
    }
}

/// Reports what became of a spare.
pub(crate) fn report(device: &str, removed: &Removed, ui: &Ui) {
    ui.line(match removed {
        Removed::Plain => format!("{device} is no longer a spare"),
        Removed::Of(array) => {
            format!("{device} is no longer a spare of array '{array}', but still of others")
        }
    });
}

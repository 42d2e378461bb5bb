//! `spindles journal add`: gives an array a separate device for its journal.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::degraded::Degraded;
use crate::documents::changes::{JournalAdded, Of};
use crate::failure::Usage;
use crate::operation::JournalAdd;
use crate::operations::{self, Outcome, Perform};
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::journal::add;
use spindles_admin::scan::Given;

pub(crate) static COMMAND: Command = Command {
    name: "add",
    about: "Give an array a dedicated journal device",
    details: "The previous contents of the device are lost. The array forgets an earlier \
              journal device that is missing. An array that was not closed cleanly is \
              recovered first.\n\n\
              spindles journal add fast.img --array pool\n\
              spindles journal add fast.img --array a.img,b.img,c.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The device for the journal; give it first, then the array with --array
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
    /// The array: its name, or its devices
    #[arg(long, value_name = "ARRAY|DEV,..")]
    array: Option<String>,
    /// Overwrite what the device holds
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    degraded: Degraded,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let Some(array) = &arguments.array else {
        return Err((arguments.scan).needs_array("journal add", &arguments.devices, ""));
    };
    let [device] = arguments.devices.as_slice() else {
        let devices = arguments.devices.join(", ");
        return Err(Usage::error(format!(
            "{devices}: give one device, which gets all of the journal"
        )));
    };
    let array = [array.clone()];
    let found = arguments.scan.find(&array, &[device.as_str()], ui)?;
    let device = found.new_device(device);
    let operation = JournalAdd {
        device: device.clone(),
        force: arguments.force,
        degraded: arguments.degraded.degraded,
    };
    operations::run(operation, &found, ui)?;
    arguments.scan.note_out_of_sight(&[&device], &found, ui);
    Ok(())
}

impl Perform for JournalAdd {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<JournalAdded>> {
        let device = &self.device;
        let mut on_progress = ui.until_interrupted("journal")?;
        let added = add(
            device,
            arrays::host(&arrays::names(&given.devices), ui),
            self.force,
            self.degraded,
            &mut on_progress,
        )?;
        drop(on_progress);
        let warnings = words::report::warnings(&added.report);
        for warning in &warnings {
            ui.note(warning);
        }
        arrays::note_devices(&[], &[], &added.wiped, ui);
        let name = &added.report.name;
        ui.line(format!("array '{name}' has its journal on {device}"));
        Ok(Outcome::of(JournalAdded {
            of: Of::from(&added.report),
            warnings,
            journal: device.clone(),
        }))
    }
}

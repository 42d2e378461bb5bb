//! `spindles journal remove`: moves the journal of an array back to its members.

use crate::arrays::{self, Scan};
use crate::commands::Command;
use crate::degraded::Degraded;
use crate::documents::changes::{JournalRemoved, Of};
use crate::failure::Usage;
use crate::operation::JournalRemove;
use crate::operations::{self, Outcome, Perform};
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::JournalReport;
use spindles_admin::journal::remove;
use spindles_admin::scan::{Given, shell_word};

pub(crate) static COMMAND: Command = Command {
    name: "remove",
    about: "Move the journal of an array back to its members, and free its journal device",
    details: "The members log again, and the journal device becomes a plain device. The device \
              may be among those given, or be lost. An array that was not closed cleanly is \
              recovered first.\n\n\
              spindles journal remove --array pool\n\
              spindles journal remove --array a.img,b.img,c.img,fast.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The array: its name, or its devices, with the journal device if present
    #[arg(long, value_name = "ARRAY|DEV,..")]
    array: String,
    /// Rejected, with a message that the array is enough
    #[arg(hide = true)]
    devices: Vec<String>,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    degraded: Degraded,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if !arguments.devices.is_empty() {
        return Err(Usage::error(format!(
            "{}: the array is enough, it knows its device: `spindles journal remove --array {}`",
            arguments.devices.join(", "),
            shell_word(&arguments.array)
        )));
    }
    let found = arguments.scan.find(&[arguments.array], &[], ui)?;
    let degraded = arguments.degraded.degraded;
    operations::run(JournalRemove { degraded }, &found, ui).map(drop)
}

impl Perform for JournalRemove {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<JournalRemoved>> {
        let mut on_progress = ui.until_interrupted("journal")?;
        let report = remove(
            arrays::host(&arrays::names(&given.devices), ui),
            self.degraded,
            &mut on_progress,
        )?;
        drop(on_progress);
        let warnings = words::report::warnings(&report);
        for warning in &warnings {
            ui.note(warning);
        }
        let device = match &report.journal {
            JournalReport::Device(device) => Some(device),
            JournalReport::Members | JournalReport::DeviceMissing => None,
        };
        let name = &report.name;
        ui.line(format!("array '{name}' has its journal on its members"));
        Ok(Outcome::of(JournalRemoved {
            of: Of::from(&report),
            warnings,
            removed: device.cloned(),
        }))
    }
}

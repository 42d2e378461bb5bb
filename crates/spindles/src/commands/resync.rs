//! `spindles resync`: makes an array consistent that was not closed cleanly.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::documents::changes;
use crate::operation::Resync;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::resync::resync;
use spindles_admin::scan::Given;
use spindles_array::no_space;

pub(crate) static COMMAND: Command = Command {
    name: "resync",
    about: "Make an array consistent that was not closed cleanly",
    details: "Compares copies and parity with the data and corrects them, in the regions that \
              were being written. If the array has no bitmaps, the command does this on the \
              whole array. An array in use resyncs by itself, a little at a time; this command \
              does nothing else and waits for the end. A clean array needs no resync.\n\n\
              spindles resync pool\n\
              spindles resync a.img b.img c.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Also open an array with parity that lacks devices: data near interrupted writes may be wrong
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let found = arguments.array.find(&[], ui)?;
    let operation = Resync {
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        job_rate: Some(arguments.rate.bytes()),
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for Resync {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<changes::Resynced>> {
        let options = AssembleOptions {
            force: self.force,
            ..assembling(self.degraded, self.job_rate)
        };
        let mut on_progress = ui.until_interrupted("resync")?;
        let resynced = resync(
            arrays::host(&arrays::names(&given.devices), ui),
            &options,
            &mut on_progress,
        )?;
        drop(on_progress);
        arrays::note_devices(&resynced.report.incidents, &resynced.report.taken, &[], ui);
        for warning in words::report::warnings(&resynced.report) {
            ui.note(warning);
        }
        let name = &resynced.report.name;
        if !resynced.through
            && let Some(no_space) = no_space(&resynced.report.incidents)
        {
            bail!("array '{name}': {no_space}");
        }
        if !resynced.through {
            let what = ui.what_becomes_of_it("was stopped, and goes on next time");
            bail!("array '{name}': the resync {what}");
        }
        // This covers the arrays inside it.
        let was_clean = resynced.report.is_clean();
        ui.line(if was_clean {
            format!("array '{name}' is clean: there is nothing to resync")
        } else {
            format!("array '{name}' is consistent")
        });
        if resynced.report.may_be_wrong() {
            ui.note(format!(
                "array '{name}': devices were away, so data near the last writes before the crash \
                 may be wrong: compare it with a backup"
            ));
        }
        let (of, incidents) = changes::with_incidents(&resynced.report);
        Ok(Outcome::of(changes::Resynced {
            of,
            incidents,
            was_clean,
            consistent: true,
        }))
    }
}

//! `spindles resync`: makes an array consistent that was not closed cleanly.

use super::Command;
use crate::arrays::ArrayArguments;
use crate::degraded::Degraded;
use crate::operation::{Operation, Resync};
use crate::operations;
use crate::rate::Rate;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

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
    let operation = Operation::Resync(Resync {
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        rebuild_rate: Some(arguments.rate.bytes()),
    });
    operations::run(&operation, &found, ui)?;
    Ok(())
}

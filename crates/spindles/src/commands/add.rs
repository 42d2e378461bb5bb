//! `spindles add`: gives an array a device, as a member that it lacks or as a spare.

use super::Command;
use crate::arrays::DeviceOfArray;
use crate::degraded::Degraded;
use crate::operation::{Add, Operation};
use crate::operations;
use crate::rate::Rate;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "add",
    about: "Add a device to an array: a returning member, a new one, or a spare",
    details: "A member that is out and still known to the array receives only the writes that \
              it missed. Any other device replaces a missing member and is filled; its \
              previous contents are lost. If no member is missing, the device becomes a spare. \
              The command waits until the device is filled. Ctrl-C ends only the wait if the \
              array is served: the server continues to fill the device.\n\n\
              spindles add b.img pool",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    given: DeviceOfArray,
    /// The position to take if several members are missing; otherwise the first
    #[arg(long, value_name = "N")]
    member: Option<u8>,
    /// Overwrite what the device holds
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let (device, found) = arguments.given.find(ui)?;
    let operation = Operation::Add(Add {
        device: device.clone(),
        member: arguments.member,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        rebuild_rate: Some(arguments.rate.bytes()),
    });
    operations::run(&operation, &found, ui)?;
    arguments
        .given
        .scan
        .note_out_of_sight(&[&device], &found, ui);
    Ok(())
}

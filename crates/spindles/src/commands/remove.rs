//! `spindles remove`: makes an array release a device.

use super::Command;
use crate::arrays::DeviceOfArray;
use crate::operation::{Operation, Remove};
use crate::operations;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "remove",
    about: "Release a device: a member that is out, or a spare",
    details: "A server closes the device of a member that is out, so that you can pull the \
              device out or use it for something else. The device keeps its contents: spindles \
              add takes it back, and copies only the writes that it missed. A member that \
              failed by itself, not by spindles fail, also returns when the array is opened \
              with it again. spindles wipe makes a plain device of it. A spare becomes a plain \
              device. Take a working member out first, with spindles fail.\n\n\
              spindles remove b.img pool",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    given: DeviceOfArray,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let (device, found) = arguments.given.find(ui)?;
    operations::run(&Operation::Remove(Remove { device }), &found, ui)?;
    Ok(())
}

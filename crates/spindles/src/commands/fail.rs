//! `spindles fail`: takes a member out of an array.

use super::Command;
use crate::arrays::MemberOfArray;
use crate::degraded::Degraded;
use crate::operation::{Fail, Operation};
use crate::operations;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "fail",
    about: "Take a member out of an array: the array runs on without it",
    details: "Use this for a device that is about to fail, or before you pull a device out. \
              The command refuses if the level does not survive the loss. If there is a spare, \
              it takes the member's place at once. The device keeps its contents. The member \
              stays out, even if the array is opened with it again, until spindles add takes \
              it back. Then it receives the writes that it missed. If the array is served, the \
              server keeps the device open until spindles remove.\n\n\
              To exchange a working member, spindles replace is safer: redundancy never drops \
              during the exchange.\n\n\
              spindles fail b.img pool\n\
              spindles fail --member 1 pool",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    given: MemberOfArray,
    #[command(flatten)]
    degraded: Degraded,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let (found, device) = arguments.given.find(ui)?;
    let operation = Operation::Fail(Fail {
        device,
        member: arguments.given.member,
        degraded: arguments.degraded.degraded,
    });
    operations::run(&operation, &found, ui)?;
    Ok(())
}

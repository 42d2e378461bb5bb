//! `spindles rebuild`: fills a device that replaces a missing one.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::operation::{Onto, Operation, Rebuild};
use crate::operations;
use crate::rate::Rate;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_layout::Expression;

pub(crate) static COMMAND: Command = Command {
    name: "rebuild",
    about: "Fill a new device in place of a missing member",
    details: "Give the name of the array, or its remaining devices in any order, and the new \
              device with --onto. The command computes the missing member's data from the \
              other members. The new device must be as large as the missing one; its previous \
              contents are lost. Until it is filled completely, the array is as unsafe as \
              before. Blocks that can't be computed, because other members can't be read there \
              either, are not filled. They return errors until they are written, or can be \
              read again.\n\n\
              After Ctrl-C or a crash, the rebuild continues at the same point as soon as the \
              array is used with its new device. Any program that writes to the array \
              continues it. So does this command, with or without --onto. Without --onto the \
              command also waits for spares that are given with the devices and take places \
              automatically (spindles spare). It also waits for members that returned and \
              receive the writes that they missed.\n\n\
              If an inner array has lost more than it survives, it is made again from its \
              remaining devices and the new device, and filled completely. The same happens if \
              --onto names an array: any level, on new devices or on those left of the old \
              array. A single device as large as the whole inner array takes its place alone, \
              if the remaining devices of the inner array are not given. If an array keeps \
              copies of redundant arrays, only these have checksums. Such a single device has \
              none: 'concat(new.img)' has them.\n\n\
              spindles rebuild pool --onto new.img\n\
              spindles rebuild a.img c.img --onto new.img\n\
              spindles rebuild c.img d.img --onto 'raid0(new.img,other.img)'",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The new device, or the new array: 'raid0(DEV,DEV)'
    #[arg(long, value_name = "DEV|ARRAY")]
    onto: Option<String>,
    /// The position to take if several members are missing; otherwise the first
    #[arg(long, value_name = "N", requires = "onto")]
    member: Option<u8>,
    /// Overwrite what the new device holds
    #[arg(long, requires = "onto")]
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
    let onto = arguments.onto.as_deref().map(arrays::expression);
    let onto = onto.transpose()?;
    let new = onto.as_ref().map_or(Vec::new(), Expression::leaves);
    let found = arguments.array.find(&new, ui)?;
    let onto = onto.as_ref().map(|onto| found.new_devices(onto));
    let operation = Operation::Rebuild(Rebuild {
        onto: onto.as_ref().map(Onto::from),
        member: arguments.member,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        rebuild_rate: Some(arguments.rate.bytes()),
    });
    operations::run(&operation, &found, ui)?;
    let new = onto.as_ref().map_or(Vec::new(), Expression::leaves);
    arguments.array.scan.note_out_of_sight(&new, &found, ui);
    Ok(())
}

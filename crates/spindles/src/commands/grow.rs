//! `spindles grow`: adds members, changes chunk size or level, or uses all the room of the members.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::operation::{Grow, Operation, Size};
use crate::operations;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::SizeBytes;

pub(crate) static COMMAND: Command = Command {
    name: "grow",
    about: "Add members to an array, or change its chunk size, level or size",
    details: "Give the name of the array, or its devices in any order, and each new device \
              with --add. A growing array stays redundant and needs no backup file. Data that \
              moves is first written to headroom that every member reserves, then to its \
              place. You can stop the growth with Ctrl-C, and it survives a crash at any \
              moment. The array may lose as many members as it survives both before and after \
              the growth. There is one exception: growth from copies without checksums to \
              parity does not survive a crash together with the loss of a member. Such an \
              array logs nothing until it has grown.\n\n\
              After a stop, the growth continues at the same point as soon as the array is \
              used with all its devices. Any program that writes to the array continues it. So \
              does this command, with the same arguments or with the devices alone. Until data \
              was moved, --abort restores the original array. The command refuses an \
              impossible change before it writes anything.\n\n\
              After all members were replaced by larger devices, --size max gives the array \
              the room that all of them have. With a value, --size stops there. This moves no \
              data and takes a moment: a crash leaves the old size or the new one. All members \
              must be present.\n\n\
              spindles grow pool --add d.img\n\
              spindles grow a.img b.img c.img --add d.img\n\
              spindles grow a.img b.img c.img --add d.img --level raid6\n\
              spindles grow a.img b.img --add c.img --level raid5 --chunk 64K\n\
              spindles grow pool --size max",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// A new device that becomes a member
    #[arg(long, value_name = "DEV")]
    add: Vec<String>,
    /// The new chunk size, any multiple of the block
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// The new level
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// The new layout, if the level has a choice
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// New size of the array, on its present members; `max` for all the room that they have
    #[arg(long, value_name = "SIZE", value_parser = new_size,
          conflicts_with_all = ["add", "chunk", "level", "layout", "force"])]
    size: Option<Size>,
    /// Overwrite what the new devices hold
    #[arg(long, requires = "add")]
    force: bool,
    /// Cancel a growth that has moved nothing yet: the array is what it was before, and new devices
    /// that are given become plain devices again
    #[arg(long, conflicts_with_all = ["add", "chunk", "level", "layout", "size"])]
    abort: bool,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
}

fn new_size(text: &str) -> Result<Size, String> {
    if text == "max" {
        return Ok(Size::Max);
    }
    let size: Result<SizeBytes, _> = text.parse();
    size.map(|size| Size::Bytes(size.0))
        .map_err(|error| format!("{error}, or max"))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let found = arguments.array.find(&arrays::names(&arguments.add), ui)?;
    if arguments.abort {
        operations::run(&Operation::GrowAbort, &found, ui)?;
        return Ok(());
    }
    let add = arguments.add.iter().map(|device| found.new_device(device));
    let add: Vec<String> = add.collect();
    let operation = Operation::Grow(Grow {
        add: add.clone(),
        chunk_bytes: arguments.chunk.map(|chunk| chunk.0),
        level: arguments.level,
        layout: arguments.layout,
        size: arguments.size,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
    });
    operations::run(&operation, &found, ui)?;
    (arguments.array.scan).note_out_of_sight(&arrays::names(&add), &found, ui);
    Ok(())
}

//! `spindles grow`: adds members, changes chunk size or level, or uses all the room of the members.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::documents::changes::{self, GrowthAborted, Of};
use crate::failure::Usage;
use crate::operation::{Grow, GrowAbort, Size};
use crate::operations::{self, Outcome, Perform, assembling};
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::grow::{self, GrowOptions, Grown, NewSize};
use spindles_admin::scan::Given;
use spindles_block::SizeBytes;
use spindles_layout::Level;

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
        return operations::run(GrowAbort {}, &found, ui).map(drop);
    }
    let add = arguments.add.iter().map(|device| found.new_device(device));
    let add: Vec<String> = add.collect();
    let operation = Grow {
        add: add.clone(),
        chunk_bytes: arguments.chunk.map(|chunk| chunk.0),
        level: arguments.level,
        layout: arguments.layout,
        size: arguments.size,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
    };
    operations::run(operation, &found, ui)?;
    (arguments.array.scan).note_out_of_sight(&arrays::names(&add), &found, ui);
    Ok(())
}

impl Perform for Grow {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<changes::Grown>> {
        let options = options(self)?;
        let mut on_progress = ui.until_interrupted("grow")?;
        let devices = arrays::names(&given.devices);
        let grown = grow::grow(arrays::host(&devices, ui), &options, &mut on_progress)?;
        drop(on_progress);
        arrays::note_devices(
            &grown.report.incidents,
            &grown.report.taken,
            &grown.wiped,
            ui,
        );
        if let Some(line) = outcome(&grown, &options) {
            ui.line(line);
        }
        let (of, incidents) = changes::with_incidents(&grown.report);
        let document = changes::Grown {
            of,
            incidents,
            bytes_before: grown.report.bytes,
            bytes: grown.bytes,
            already: grown.already,
            through: grown.through,
            stuck_at_block: grown.stuck,
        };
        let end = check_grown(&grown, ui);
        Ok(Outcome::of(document).ending(end))
    }
}

/// Returns an error if the growth has not come to its end.
fn check_grown(grown: &Grown, ui: &Ui) -> anyhow::Result<()> {
    let name = &grown.report.name;
    if let Some(block) = grown.stuck {
        bail!(
            "array '{name}': the data at block {block} can't be read, so the growth stopped \
             there; everything before it is moved, and the next growth continues there"
        );
    }
    if !grown.through {
        let what = ui.what_becomes_of_it("was stopped, and goes on there next time");
        bail!("array '{name}': the growth {what}");
    }
    Ok(())
}

/// Parses the new shape of the array.
fn options(operation: &Grow) -> anyhow::Result<GrowOptions> {
    let level = operation.level.as_deref().map(Level::named).transpose();
    let level = level.map_err(|error| Usage::error(format!("--level: {error}")))?;
    let layout = match (&operation.layout, level) {
        (None, _) => None,
        (Some(_), None) => return Err(Usage::error("--layout goes with --level".to_owned())),
        (Some(name), Some(level)) => {
            Some((level.layout(name)).map_err(|error| Usage::error(format!("--layout: {error}")))?)
        }
    };
    Ok(GrowOptions {
        assemble: assembling(operation.degraded, None),
        add: operation.add.clone(),
        chunk_bytes: operation.chunk_bytes,
        level,
        layout,
        size: operation.size.map(|size| match size {
            Size::Max => NewSize::Max,
            Size::Bytes(bytes) => NewSize::Bytes(bytes),
        }),
        overwrite: operation.force,
    })
}

/// Returns the line for people on the array after its growth; `None` if the growth was stopped.
fn outcome(grown: &Grown, options: &GrowOptions) -> Option<String> {
    let name = &grown.report.name;
    if let Some(reason) = &grown.as_large {
        return Some(format!("array '{name}' stays as it is: {reason}"));
    }
    if grown.already {
        return Some(format!(
            "array '{name}' has grown that way already: it holds {}",
            arrays::size(grown.bytes)
        ));
    }
    if !grown.through {
        return None;
    }
    let more = match grown.bytes - grown.report.bytes {
        0 => "as much as before".to_owned(),
        more => format!("{} more than before", arrays::size(more)),
    };
    let holds = format!("holds {}, {more}", arrays::size(grown.bytes));
    if options.size.is_some() {
        return Some(format!("array '{name}' {holds}"));
    }
    // The report of a resumed growth already counts the new members.
    let new = match grown.report.growing {
        Some(_) => 0,
        None => options.add.len(),
    };
    Some(format!(
        "array '{name}' is {} on {} members now, and {holds}",
        options.level.unwrap_or(grown.report.level).name,
        grown.report.members.len() + new
    ))
}

impl Perform for GrowAbort {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<GrowthAborted>> {
        let mut on_progress = ui.until_interrupted("abort")?;
        let devices = arrays::names(&given.devices);
        let aborted = grow::abort(arrays::host(&devices, ui), &mut on_progress)?;
        drop(on_progress);
        let name = &aborted.report.name;
        ui.line(format!(
            "array '{name}' is what it was before it began to grow"
        ));
        for device in &aborted.removed {
            ui.line(format!("{device} is a plain device again"));
        }
        Ok(Outcome::of(GrowthAborted {
            of: Of::from(&aborted.report),
            removed: aborted.removed,
        }))
    }
}

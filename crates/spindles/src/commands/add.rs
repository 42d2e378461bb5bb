//! `spindles add`: gives an array a device, as a member that it lacks or as a spare.

use super::Command;
use crate::arrays::{self, DeviceOfArray};
use crate::degraded::Degraded;
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::membership::{Added, add};
use spindles_admin::rebuild::{RebuildOptions, Rebuilt};
use spindles_admin::scan::shell_word;
use spindles_admin::spare;
use spindles_block::{MemberIndex, counted};

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
    forwards: true,
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
    let (device, devices) = arguments.given.find(ui)?;
    let (device, devices) = (device.as_str(), arrays::names(&devices));
    let devices: Vec<&str> = devices.into_iter().filter(|it| *it != device).collect();
    let options = RebuildOptions {
        assemble: AssembleOptions {
            open: arguments.rate.options(),
            degraded: arguments.degraded.degraded,
            ..AssembleOptions::default()
        },
        onto: None,
        member: arguments.member.map(MemberIndex),
        overwrite: arguments.force,
    };
    let mut on_progress = ui.until_interrupted("rebuild")?;
    let added = add(
        arrays::host(&devices, ui),
        device,
        &options,
        &mut on_progress,
    )?;
    drop(on_progress);
    arguments.given.scan.note_out_of_sight(device, &devices, ui);
    match added {
        Added::Spare(added) => {
            report_spare(device, &added, ui);
            Ok(())
        }
        Added::Member(rebuilt) => report_member(device, &rebuilt, ui),
    }
}

/// Reports that the device became a spare.
fn report_spare(device: &str, added: &spare::Added, ui: &Ui) {
    let warnings = words::report::warnings_before(added);
    for warning in warnings {
        ui.note(warning);
    }
    arrays::note_devices(&[], &[], &added.wiped, ui);
    let array = added.array.as_ref().map(|array| &array.name);
    let of = array.map_or_else(String::new, |name| format!(" of array '{name}'"));
    ui.line(format!("{device} is a spare{of}: no member is missing"));
    ui.json(&json!({ "device": device, "array": array, "is": "spare", "through": true }));
}

/// Reports that the device became a member. Returns an error if it is not filled completely.
fn report_member(device: &str, rebuilt: &Rebuilt, ui: &Ui) -> anyhow::Result<()> {
    let report = &rebuilt.report;
    arrays::note_devices(&report.incidents, &report.taken, &rebuilt.wiped, ui);
    for (array, member) in &rebuilt.members {
        ui.line(format!("array '{array}': member {member} is active again"));
    }
    if rebuilt.is_doubtful {
        ui.note(format!(
            "{device} had gone out because too much of it could not be read or written, and got \
             only what it missed: `spindles scrub {}` reads the rest",
            shell_word(&report.name)
        ));
    }
    let through = rebuilt.through && rebuilt.failed == 0;
    ui.json(&json!({
        "device": device,
        "array": report.name,
        "is": "member",
        "through": through,
    }));
    if rebuilt.failed > 0 {
        bail!(
            "array '{}': in {} it could not be read, so {device} does not count yet",
            report.name,
            counted(rebuilt.failed, "place")
        );
    }
    if !through {
        let what = ui.what_becomes_of_it("goes on when the array is used");
        bail!(
            "array '{}': {device} is not filled yet, and that {what}",
            report.name
        );
    }
    Ok(())
}

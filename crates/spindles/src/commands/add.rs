//! `spindles add`: gives an array a device, as a member that it lacks or as a spare.

use super::Command;
use crate::arrays::{self, DeviceOfArray};
use crate::degraded::Degraded;
use crate::documents::Role;
use crate::documents::changes;
use crate::operation::Add;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::membership::{Added, add};
use spindles_admin::rebuild::{RebuildOptions, Rebuilt};
use spindles_admin::scan::{Given, shell_word};
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
    let operation = Add {
        device: device.clone(),
        member: arguments.member,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        job_rate: Some(arguments.rate.bytes()),
    };
    operations::run(operation, &found, ui)?;
    arguments
        .given
        .scan
        .note_out_of_sight(&[&device], &found, ui);
    Ok(())
}

impl Perform for Add {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<changes::Added>> {
        let device = self.device.as_str();
        let devices = given.devices.iter().map(String::as_str);
        let devices: Vec<&str> = devices.filter(|it| *it != device).collect();
        let options = RebuildOptions {
            assemble: assembling(self.degraded, self.job_rate),
            onto: None,
            member: self.member.map(MemberIndex),
            overwrite: self.force,
        };
        let mut on_progress = ui.until_interrupted("rebuild")?;
        let added = add(
            arrays::host(&devices, ui),
            device,
            &options,
            &mut on_progress,
        )?;
        drop(on_progress);
        match added {
            Added::Spare(added) => {
                let document = report_spare(device, &added, ui);
                Ok(Outcome::of(document))
            }
            Added::Member(rebuilt) => {
                let document = report_member(device, &rebuilt, ui);
                let end = check_member(device, &rebuilt, ui);
                Ok(Outcome::of(document).ending(end))
            }
        }
    }
}

/// Reports that the device became a spare.
fn report_spare(device: &str, added: &spare::Added, ui: &Ui) -> changes::Added {
    let warnings = words::report::warnings_before(added);
    for warning in warnings {
        ui.note(warning);
    }
    arrays::note_devices(&[], &[], &added.wiped, ui);
    let array = added.array.as_ref().map(|array| &array.name);
    let of = array.map_or_else(String::new, |name| format!(" of array '{name}'"));
    ui.line(format!("{device} is a spare{of}: no member is missing"));
    changes::Added {
        device: device.to_owned(),
        array: array.cloned(),
        is: Role::Spare,
        through: true,
    }
}

/// Reports that the device became a member.
fn report_member(device: &str, rebuilt: &Rebuilt, ui: &Ui) -> changes::Added {
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
    changes::Added {
        device: device.to_owned(),
        array: Some(report.name.clone()),
        is: Role::Member,
        through: rebuilt.through && rebuilt.failed == 0,
    }
}

/// Returns an error if the new member is not filled completely.
fn check_member(device: &str, rebuilt: &Rebuilt, ui: &Ui) -> anyhow::Result<()> {
    let report = &rebuilt.report;
    if rebuilt.failed > 0 {
        bail!(
            "array '{}': {} could not be read, so {device} is not active yet",
            report.name,
            counted(rebuilt.failed, "place")
        );
    }
    if !rebuilt.through {
        let what = ui.what_becomes_of_it("goes on when the array is used");
        bail!(
            "array '{}': {device} is not filled yet, and that {what}",
            report.name
        );
    }
    Ok(())
}

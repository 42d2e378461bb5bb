//! `spindles wipe`: takes the superblocks of Spindles off devices.

use super::Command;
use crate::arrays;
use crate::served;
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_io::survey::freed_by;
use spindles_io::wipe::{look, wipe};

pub(crate) static COMMAND: Command = Command {
    name: "wipe",
    about: "Take the superblocks of Spindles off devices that it shall not know any more",
    details: "Members, spares and devices of journals become plain devices. First it only says what \
              each device is, and which array loses it; the same command with --force does it. A \
              device that another command uses is refused, and so is one without a superblock. All \
              else that is on a member stays as it is, but without its superblocks an array can't \
              be read again. A file that is of no use to any array any more, as a member that is out, \
              a spare or a journal, is emptied: it is taken as any new one.\n\n\
              A spare goes with spindles spare remove, the device of a journal with spindles journal \
              remove: then its array knows.\n\n\
              spindles wipe old.img\n\
              spindles wipe old.img --force",
    hidden: false,
    forwards: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The devices
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
    /// Do it, instead of only reporting it
    #[arg(long)]
    force: bool,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arrays::devices(&arguments.devices)?;
    let devices = arrays::names(&devices);
    let labelled = if arguments.force {
        served::check_no_spares(&devices)?;
        wipe(&devices)?
    } else {
        look(&devices)?
    };
    for device in &labelled {
        let (name, holds) = (&device.device, &device.holds);
        ui.line(if arguments.force {
            let rest = if device.is_emptied {
                ""
            } else {
                "; all else on it stays, so commands ask for --force to overwrite it"
            };
            format!("{name} was {holds}, and is a plain device now{rest}")
        } else {
            format!("{name} is {holds}")
        });
        for lacking in &device.lacking {
            ui.line(format!("  {lacking}"));
        }
        let is_file = || std::fs::metadata(name).is_ok_and(|it| it.is_file());
        if !arguments.force && device.is_emptied && is_file() {
            ui.line("  all that is on it goes too");
        }
        if let Some(users) = device.users.as_ref().filter(|_| !arguments.force) {
            let command = freed_by(name).map_or_else(String::new, |it| format!(", as by `{it}`"));
            ui.line(format!("  in use by {users}: stop that first{command}"));
        }
    }
    let documents = labelled.iter().map(|device| {
        json!({
            "device": device.device,
            "held": device.holds,
            "lacking": device.lacking,
        })
    });
    ui.json(&json!({
        "devices": documents.collect::<Vec<_>>(),
        "wiped": arguments.force,
    }));
    if !arguments.force {
        bail!("nothing was changed: the same with --force takes the superblocks off");
    }
    Ok(())
}

//! `spindles wipe`: takes the superblocks of Spindles off devices.

use super::Command;
use crate::arrays;
use crate::documents::changes::{Wiped, WipedDevice};
use crate::served;
use crate::ui::Ui;
use crate::words::{self, wipe::Tense};
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::survey::freed_by;
use spindles_admin::wipe::{Labelled, look, wipe};

pub(crate) static COMMAND: Command = Command {
    name: "wipe",
    about: "Remove the superblocks of Spindles from devices that it should no longer know",
    details: "Members, spares and journal devices become plain devices. At first the command \
              only shows what each device is, and which array loses it; the same command with \
              --force wipes them. It refuses a device that another command uses, and a device \
              without a superblock. All other contents of a member stay, but without its \
              superblocks an array can't be read again. A file that is useless to every array \
              is emptied, such as a member that is out, a spare or a journal. It then counts \
              as a new file.\n\n\
              Remove a spare with spindles spare remove, and a journal device with spindles \
              journal remove: these also update its array.\n\n\
              spindles wipe old.img\n\
              spindles wipe old.img --force",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The devices
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
    /// Wipe the devices, instead of only showing what they are
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
    let tense = if arguments.force {
        Tense::Past
    } else {
        Tense::Future
    };
    let losses = |device: &Labelled| words::wipe::losses(&device.losses, tense);
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
        for lacking in losses(device) {
            ui.line(format!("  {lacking}"));
        }
        let is_file = || std::fs::metadata(name).is_ok_and(|it| it.is_file());
        if !arguments.force && device.is_emptied && is_file() {
            ui.line("  all that is on it goes too");
        }
        if let Some(users) = device.users.as_ref().filter(|_| !arguments.force) {
            let command = freed_by(name).map(|it| words::errors::releases(&it, name));
            let command =
                command.map_or_else(String::new, |command| format!(", as by `{command}`"));
            ui.line(format!("  in use by {users}: stop that first{command}"));
        }
    }
    let devices = labelled.iter().map(|device| WipedDevice {
        device: &device.device,
        held: &device.holds,
        lacking: losses(device),
    });
    ui.json(&Wiped {
        devices: devices.collect(),
        wiped: arguments.force,
    });
    if !arguments.force {
        bail!("nothing was changed: the same with --force takes the superblocks off");
    }
    Ok(())
}

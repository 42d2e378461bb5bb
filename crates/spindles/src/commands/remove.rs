//! `spindles remove`: makes an array release a device.

use super::{Command, spare};
use crate::arrays::{self, DeviceOfArray};
use crate::documents::Role;
use crate::documents::changes::Released;
use crate::operation::Remove;
use crate::operations::{self, Outcome, Perform};
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::membership::{Out, Removed, remove};
use spindles_admin::scan::{Given, shell_word};

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
    operations::run(Remove { device }, &found, ui).map(drop)
}

impl Perform for Remove {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Released>> {
        let (device, devices) = (&self.device, arrays::names(&given.devices));
        let removed = remove(
            arrays::host(&devices, ui),
            device,
            &AssembleOptions::default(),
        )?;
        let was = match &removed {
            Removed::Member(out) => {
                let (array, member) = (&out.array, out.member);
                if ui.serving().is_some() {
                    ui.line(format!(
                        "array '{array}' has released member {member}, {device}"
                    ));
                } else {
                    ui.line(format!(
                        "nothing was changed: array '{array}' is not served, so no server uses \
                         member {member}, {device}, which is out"
                    ));
                    let (word, of) = (shell_word(device), shell_word(array));
                    ui.note(format!(
                        "`spindles add {word} {of}` takes it back; `spindles wipe {word}` makes a \
                         plain device of it"
                    ));
                }
                Role::Member
            }
            Removed::Replaced(Out { array, member }, by) => {
                ui.line(format!(
                    "array '{array}' has already released {device}: {by} is member {member} in its \
                 place"
                ));
                ui.note(format!(
                    "`spindles wipe {}` makes a plain device of it",
                    shell_word(device)
                ));
                Role::Member
            }
            Removed::Spare(removed) => {
                for removed in removed {
                    spare::report(device, removed, ui);
                }
                Role::Spare
            }
        };
        let device = device.clone();
        Ok(Outcome::of(Released { device, was }))
    }
}

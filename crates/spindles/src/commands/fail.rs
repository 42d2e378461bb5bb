//! `spindles fail`: takes a member out of an array.

use super::Command;
use crate::arrays::{self, MemberOfArray};
use crate::degraded::Degraded;
use crate::documents::changes::Failed;
use crate::failure::Usage;
use crate::operation::Fail;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::MemberReport;
use spindles_admin::host::report_of;
use spindles_admin::membership::fail;
use spindles_admin::scan::{Given, shell_word};

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
    let operation = Fail {
        device,
        member: arguments.given.member,
        degraded: arguments.degraded.degraded,
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for Fail {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Failed>> {
        let device = match (&self.device, self.member) {
            (Some(device), _) => device.clone(),
            (None, Some(member)) => device_at(member, &given.devices)?,
            (None, None) => return Err(Usage::error(words::control::NO_MEMBER)),
        };
        let (device, devices) = (device.as_str(), arrays::names(&given.devices));
        let mut on_progress = ui.until_interrupted("resync")?;
        let out = fail(
            arrays::host(&devices, ui),
            device,
            &assembling(self.degraded, None),
            &mut on_progress,
        )?;
        drop(on_progress);
        let (array, member) = (&out.array, out.member);
        ui.line(format!(
            "array '{array}': member {member}, {device}, is out"
        ));
        let (word, of) = (shell_word(device), shell_word(&out.outermost));
        ui.note(match (&out.spare, ui.serving()) {
        (None, _) => format!(
            "it stays out until `spindles add {word} {of}` takes it back, or another device has \
             its place"
        ),
        (Some(spare), Some(_)) => format!(
            "{spare}, a spare, takes its place: `spindles status {of}` shows how far that is. Then \
             the array has no use for {device}: `spindles wipe {word}` makes a plain device of it"
        ),
        (Some(spare), None) => format!(
            "{spare}, a spare, takes its place as soon as the array is used: `spindles rebuild \
             {of}` fills it now. Before that, `spindles add {word} {of}` takes {device} back"
        ),
    });
        Ok(Outcome::of(Failed {
            array: array.clone(),
            member: member.0,
            device: device.to_owned(),
            spare: out.spare,
        }))
    }
}

/// Returns the device of the member at this position.
fn device_at(member: u8, devices: &[String]) -> anyhow::Result<String> {
    let report = report_of(devices)?;
    let why = match report.members.get(usize::from(member)) {
        Some(MemberReport::Device { name, .. }) => return Ok(name.clone()),
        Some(MemberReport::Array(inner)) => {
            format!(
                "that is the array '{}': give one of its devices",
                inner.name
            )
        }
        Some(MemberReport::Missing { .. }) => format!(
            "that member is missing already: `spindles status {}` says why, and what to do",
            shell_word(&report.name)
        ),
        None => format!(
            "array '{}' has {} members, 0 to {}",
            report.name,
            report.members.len(),
            report.members.len() - 1
        ),
    };
    Err(Usage::error(format!("--member {member}: {why}")))
}

//! `spindles fail`: takes a member out of an array.

use super::Command;
use crate::arrays::{self, MemberOfArray};
use crate::degraded::Degraded;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::membership::fail;
use spindles_admin::scan::shell_word;

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
    forwards: true,
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
    let (device, devices) = arguments.given.find(ui)?;
    let (device, devices) = (device.as_str(), arrays::names(&devices));
    let options = AssembleOptions {
        degraded: arguments.degraded.degraded,
        ..AssembleOptions::default()
    };
    let mut on_progress = ui.until_interrupted("resync")?;
    let out = fail(
        arrays::host(&devices, ui),
        device,
        &options,
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
    ui.json(&json!({
        "array": array,
        "member": member.0,
        "device": device,
        "spare": out.spare,
    }));
    Ok(())
}

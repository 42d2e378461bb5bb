//! `spindles stop`: ends serving an array.

use super::Command;
use crate::arrays::ArrayArguments;
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;

pub(crate) static COMMAND: Command = Command {
    name: "stop",
    about: "End serving an array: what is under way is answered, and the array is closed in order",
    details: "The same as Ctrl-C where spindles serve was typed, from anywhere: the command waits until the array is \
              closed. Unmount what is mounted first.\n\n\
              spindles stop pool",
    hidden: false,
    forwards: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    array: ArrayArguments,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    arguments.array.devices(&[], ui)?;
    let Some(serving) = ui.serving() else {
        bail!("nobody serves that array, as far as this user may know");
    };
    match serving.stop() {
        Ok(notes) => notes.iter().for_each(|note| ui.note(note)),
        Err(error) => bail!("{error}"),
    }
    ui.line("it is not served any more, and closed");
    ui.json(&json!({ "stopped": true }));
    Ok(())
}

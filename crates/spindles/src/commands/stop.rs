//! `spindles stop`: ends serving an array.

use super::Command;
use crate::arrays::ArrayArguments;
use crate::served::Serving;
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_serve::{User, by_users, lasting_users};
use std::path::Path;

pub(crate) static COMMAND: Command = Command {
    name: "stop",
    about: "End serving an array: what is under way is answered, and the array is closed in order",
    details: "The same as Ctrl-C where spindles serve was typed, from anywhere: the command waits until the array is \
              closed. Unlike Ctrl-C it does nothing while somebody uses the file of --fuse or the block device of \
              --ublk: it says who, and how they let go. Clients over NBD do not keep it from its end; many of them connect \
              again when the array is served again.\n\n\
              spindles stop pool",
    hidden: false,
    forwards: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Stop it also while its file or block device is in use, as Ctrl-C does: who has the file gets errors, and what a
    /// file system on it had not written yet is lost; who has the block device waits until the array is served
    /// with --ublk again
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    array: ArrayArguments,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    arguments.array.devices(&[], ui)?;
    let Some(serving) = ui.serving() else {
        bail!("nobody serves that array, as far as this user may know");
    };
    let name = serving.name();
    if !arguments.force {
        refuse_in_use(serving, &name)?;
    }
    match serving.stop() {
        Ok(notes) => notes.iter().for_each(|note| ui.note(note)),
        Err(error) => bail!("{error}"),
    }
    ui.line(format!("array '{name}' is not served any more, and closed"));
    ui.json(&json!({ "stopped": true, "name": name }));
    Ok(())
}

/// A file or block device that goes away while somebody uses it is a disk that is pulled out.
fn refuse_in_use(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let in_use = |path: &Path| Some((path.display().to_string(), lasting_users(path)?));
    let Some((path, users)) = serving.files().find_map(in_use) else {
        return Ok(());
    };
    let remedies: Vec<String> = users.iter().map(User::remedy).collect();
    let first = match remedies.as_slice() {
        [] => "end whoever has it".to_owned(),
        remedies => remedies.join("; "),
    };
    bail!(
        "{path}, which is array '{name}', is in use {}: it is served as before. To stop it, first: {first}. What --force \
         does to them says spindles stop --help",
        by_users(&users)
    )
}

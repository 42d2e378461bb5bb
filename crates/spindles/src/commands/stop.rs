//! `spindles stop`: ends serving an array.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::served::{InServer, Serving};
use crate::ui::Ui;
use anyhow::{anyhow, bail};
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_io::OpenOptions;
use spindles_io::assemble::{AssembleError, AssembleOptions, look};
use spindles_io::scan::Given;
use spindles_serve::{User, by_users};
use std::time::Duration;

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
    let given = arguments.array.given(ui)?;
    let Some(serving) = ui.serving() else {
        return Err(why_not(&given));
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

/// No server does what this user says with that array.
fn why_not(given: &Given) -> anyhow::Error {
    if let Some(socket) = InServer::denied(&given.arrays) {
        // Only the folders of this user and of root are looked at.
        return anyhow!(
            "the array is served by root, and its server does the commands of root alone ({})",
            socket.display()
        );
    }
    let options = AssembleOptions {
        force: true,
        degraded: true,
        open: OpenOptions {
            read_only: true,
            busy_timeout: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    };
    match look(&arrays::names(&given.devices), &options) {
        // Another user's server, or no server at all: who it is.
        Err(AssembleError::Open(error)) => {
            anyhow!("no server of this user, or of root, has that array: {error}")
        }
        _ => anyhow!("nobody serves that array"),
    }
}

/// A file or block device that goes away while somebody uses it is a disk that is pulled out.
fn refuse_in_use(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let Some((path, users)) = serving.in_use()? else {
        return Ok(());
    };
    let path = path.display();
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

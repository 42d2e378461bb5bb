//! `spindles serve-watch`: the process that `serve --fuse` starts, to unmount when it dies.

use super::Command;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_serve::{WatcherCommand, watch};
use std::ffi::OsString;

pub(crate) static COMMAND: Command = Command {
    name: "serve-watch",
    about: "Unmount a file when the server that mounted it has died",
    details: "Only `serve --fuse` starts it.",
    hidden: true,
    forwards: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// What the server says
    #[arg(value_name = "WORD")]
    words: Vec<OsString>,
}

/// How a server starts it.
pub(super) fn command() -> anyhow::Result<WatcherCommand> {
    Ok(WatcherCommand {
        program: std::env::current_exe()?,
        arguments: vec![COMMAND.name.into()],
    })
}

fn run(matches: &ArgMatches, _: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    Ok(watch(&arguments.words)?)
}

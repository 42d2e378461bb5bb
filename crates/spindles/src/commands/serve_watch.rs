//! `spindles serve-watch`: the process outside of the sandbox that removes the mount or block
//! device of a server.

use super::Command;
use crate::output::begin_log;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_serve::{WatcherCommand, watch};
use std::ffi::OsString;

pub(crate) static COMMAND: Command = Command {
    name: "serve-watch",
    about: "Remove the mount or block device of a server; `serve` starts this",
    details: "",
    hidden: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The server's request
    #[arg(value_name = "WORD")]
    words: Vec<OsString>,
}

/// The command with which a server starts it.
pub(super) fn command() -> anyhow::Result<WatcherCommand> {
    Ok(WatcherCommand {
        program: std::env::current_exe()?,
        arguments: vec![COMMAND.name.into()],
    })
}

fn run(matches: &ArgMatches, _ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    // A signal may go to all processes of the server; this one must end after the server.
    ctrlc::set_handler(|| ())?;
    begin_log();
    Ok(watch(&arguments.words)?)
}

//! `spindles serve-watch`: the process outside of the sandbox that ends what a door of `serve` made of the kernel's.

use super::Command;
use crate::ui::{Ui, begin_log};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_serve::{WatcherCommand, watch};
use std::ffi::OsString;

pub(crate) static COMMAND: Command = Command {
    name: "serve-watch",
    about: "End a mount or a block device of a server; `serve` starts this",
    details: "",
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

fn run(matches: &ArgMatches, _ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    // Whoever ends the server may end all of its processes: this one ends after it.
    ctrlc::set_handler(|| ())?;
    begin_log();
    Ok(watch(&arguments.words)?)
}

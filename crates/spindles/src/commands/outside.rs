//! `spindles outside`: the helper outside of a server's sandbox. Its standard input is the server's
//! socket.

use super::Command;
use crate::output::write_log;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_serve::sandbox::helper::{self, Rules};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;

pub(crate) static COMMAND: Command = Command {
    name: "outside",
    about: "Run operations that a server's sandbox forbids; `serve` starts this",
    details: "",
    hidden: true,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Allow opening files in this folder
    #[arg(long, value_name = "DIR")]
    folder: Vec<PathBuf>,
    /// Allow running this program
    #[arg(long, value_name = "PROGRAM")]
    hook: Option<PathBuf>,
}

/// Returns the command that starts the helper with these rules.
pub(crate) fn command(rules: &Rules) -> process::Command {
    // An update may have replaced the file at the executable's path with another version.
    let mut command = process::Command::new("/proc/self/exe");
    command.arg0("spindles").arg(COMMAND.name);
    for folder in &rules.folders {
        command.arg("--folder").arg(folder);
    }
    if let Some(hook) = &rules.hook {
        command.arg("--hook").arg(hook);
    }
    command
}

fn run(matches: &ArgMatches, _: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let rules = Rules {
        folders: arguments.folder,
        hook: arguments.hook,
    };
    // A signal may go to all processes of the server; this one must end after the server.
    ctrlc::set_handler(|| ())?;
    helper::serve(std::io::stdin().as_fd(), &rules, |message| {
        write_log(&format!("spindles: {message}\n"));
    })?;
    Ok(())
}

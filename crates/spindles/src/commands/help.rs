//! `spindles help`: prints what `--help` prints.

use super::Command;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "help",
    about: "Print the help of a command, or the list of commands",
    details: "spindles help\n\
              spindles help create\n\
              spindles help lab run",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The command, and its subcommand if it has some
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

fn run(matches: &ArgMatches, _ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let words = arguments.command.iter().map(String::as_str);
    let asked = ["spindles"].into_iter().chain(words).chain(["--help"]);
    match super::command_line().try_get_matches_from(asked) {
        // clap returns the help as an error, like a usage error.
        Err(help) => Err(help.into()),
        Ok(_) => unreachable!("--help ends the parsing"),
    }
}

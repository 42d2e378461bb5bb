//! `spindles completions`: a completion script for a shell.

use super::Command;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "completions",
    about: "Print a completion script for your shell",
    details: "For bash: spindles completions bash > /etc/bash_completion.d/spindles",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The shell to write the script for
    shell: clap_complete::Shell,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut super::command_line(),
        "spindles",
        &mut script,
    );
    let script = String::from_utf8(script)?;
    ui.text("script", &script);
    Ok(())
}

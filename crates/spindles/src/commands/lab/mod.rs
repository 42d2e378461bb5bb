//! `spindles lab`: experiments and their reports. Each command is one file and one row of
//! the table.

mod agent;
mod compare;
mod list;
mod report;
mod run;
mod serve;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "lab",
    about: "Compare arrays with each other and with a single disk, and report",
    details: "Begin with `spindles lab run`: it needs no disks and no privileges, and makes \
              its own files. It takes under two minutes, and writes a report that opens in any \
              browser.\n\n\
              spindles lab run\n\
              spindles lab report lab-results/*",
    hidden: false,
    arguments: |command| {
        with_commands(command, ROWS)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: run_row,
};

static ROWS: &[&Command] = &[
    &run::COMMAND,
    &report::COMMAND,
    &compare::COMMAND,
    &serve::COMMAND,
    &list::COMMAND,
    &agent::COMMAND,
];

fn run_row(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    run_one_of(ROWS, matches, ui).expect("clap lets no other than our commands through")
}

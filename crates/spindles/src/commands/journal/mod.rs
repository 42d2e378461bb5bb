//! `spindles journal`: manages the separate device for an array's journal. Each command is one file
//! and one row.

mod add;
mod remove;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "journal",
    about: "Give an array a device of its own for its journal, or take it away",
    details: "What is about to be written is logged first: on the members, or on a fast device of its own, \
              as one that `spindles create` gets with --journal. Give that with the devices of the \
              array, in any order, to any command. Where it is not there the members log; an array \
              that is used without it needs it no more, and `spindles journal add` gives it \
              another one.\n\n\
              spindles journal add /dev/nvme0n1 --array pool\n\
              spindles journal remove --array pool",
    hidden: false,
    forwards: true,
    arguments: |command| {
        with_commands(command, ROWS)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: run_row,
};

static ROWS: &[&Command] = &[&add::COMMAND, &remove::COMMAND];

fn run_row(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    run_one_of(ROWS, matches, ui).expect("clap lets no other than our commands through")
}

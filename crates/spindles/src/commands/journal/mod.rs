//! `spindles journal`: manages the separate device for an array's journal. Each command is one file
//! and one row of the table.

mod add;
mod remove;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "journal",
    about: "Give an array a dedicated journal device, or take it away",
    details: "An array logs data before it writes the data to its place: on the members, or on \
              a fast journal device. `spindles create` adds such a device with --journal. Give \
              the journal device with the devices of the array, in any order, to any command. \
              If it is missing, the members log. An array that is used without the device no \
              longer needs it, and `spindles journal add` gives it another one.\n\n\
              spindles journal add /dev/nvme0n1 --array pool\n\
              spindles journal remove --array pool",
    hidden: false,
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

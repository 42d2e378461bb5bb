//! `spindles spare`: devices that replace lost members. Each command is one file and one row.

mod add;
mod remove;

pub(super) use remove::report;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "spare",
    about: "Set devices aside that take the places of lost members by themselves",
    details: "A spare holds nothing but that it is one. Give it with the devices of an array, in any \
              order, to any command that writes to the array: if a member is missing, or fails \
              meanwhile, the spare takes its place and is filled from the others. From then on it \
              is a member, and the other one is left out when it comes back. Forget no device of \
              the array then: a spare takes the place of one that is not given, too. An array that can be \
              opened by --force only takes no spare before it was closed in order. One that \
              lacks members which may hold something that is given up by that takes one with \
              --degraded only: half of a mirror of two that is away may be newer than what is here, and \
              a member with parity that was there at a crash may alone hold blocks of the last \
              writes (see spindles set).\n\n\
              What `spindles create` makes with --spare are spares of that array. A shared one is \
              taken by the first array that needs it.\n\n\
              spindles spare add d.img --array pool\n\
              spindles spare add e.img --shared\n\
              spindles spare remove d.img",
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

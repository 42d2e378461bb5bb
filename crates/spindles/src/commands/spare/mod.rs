//! `spindles spare`: devices that replace lost members. Each command is one file and one row of the
//! table.

mod add;
mod remove;

pub(super) use remove::report;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "spare",
    about: "Set aside devices that replace lost members automatically",
    details: "A spare holds no data, only the record that it is a spare. Give it with the \
              devices of an array, in any order, to any command that writes to the array. If a \
              member is missing, or fails meanwhile, the spare takes its place and is filled \
              from the others. From then on the spare is a member, and the old member is left \
              out when it returns. Therefore give all devices of the array: a spare also takes \
              the place of a device that is not given. An array that can be opened only with \
              --force takes no spare until it was closed cleanly. If absent members may hold \
              data that a spare in their place discards, the array takes one only with \
              --degraded. The absent half of a mirror of two may be newer than the present \
              half. A member with parity that was there at a crash may alone hold blocks of \
              the last writes (see spindles set).\n\n\
              `spindles create` with --spare makes spares of that array. A shared spare goes \
              to the first array that needs it.\n\n\
              spindles spare add d.img --array pool\n\
              spindles spare add e.img --shared\n\
              spindles spare remove d.img",
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

//! `spindles model`: modelled disks, links, controllers and hosts. Each command is one file and one
//! row of the table.

mod list;
mod show;

use super::{Command, run_one_of, with_commands};
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "model",
    about: "Show models of disks, controllers, hosts and file systems: each number with its source",
    details: "A model computes how long a disk takes, from numbers that it has or that are \
              known of its family. Each number has a lower and an upper bound, and says where \
              it is from.\n\n\
              spindles model list\n\
              spindles model show exos-x18-18tb",
    hidden: false,
    arguments: |command| {
        with_commands(command, ROWS)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: run_row,
};

static ROWS: &[&Command] = &[&list::COMMAND, &show::COMMAND];

fn run_row(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    run_one_of(ROWS, matches, ui).expect("clap lets no other than our commands through")
}

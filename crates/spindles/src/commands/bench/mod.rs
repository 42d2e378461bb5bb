//! `spindles bench`: measurements without an experiment file. Each measurement is one file and one
//! row of the table.

mod engine;
mod parity;
mod workload;

use super::{Command, run_one_of, with_commands};
use crate::failure::Usage;
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "bench",
    about: "Run one measurement: a workload on a target, the engine, or the parity kernels",
    details: "",
    hidden: false,
    arguments,
    run,
};

/// The measurements. The row `workload` is not a subcommand: its command line is `spindles bench
/// WORKLOAD TARGET`, so `bench` itself takes the arguments.
static BENCHES: &[&Command] = &[&workload::COMMAND, &engine::COMMAND, &parity::COMMAND];

/// The row that `bench` runs if no other is named.
const DEFAULT: &str = "workload";

fn arguments(command: clap::Command) -> clap::Command {
    let named: Vec<&Command> = rows(|name| name != DEFAULT);
    let command = with_commands(command, &named)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg_required_else_help(true);
    rows(|name| name == DEFAULT)
        .iter()
        .fold(command, |command, row| (row.arguments)(command))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    if let Some(result) = run_one_of(BENCHES, matches, ui) {
        return result;
    }
    match rows(|name| name == DEFAULT).first() {
        Some(row) => (row.run)(matches, ui),
        None => Err(Usage::error(
            "bench: name what to measure, see bench --help",
        )),
    }
}

fn rows(wanted: impl Fn(&str) -> bool) -> Vec<&'static Command> {
    let rows = BENCHES.iter().copied();
    rows.filter(|row| wanted(row.name)).collect()
}

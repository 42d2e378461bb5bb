//! `spindles trace`: recorded requests. Each command is one file and one row of the table.

mod convert;
mod record;
mod replay;
mod show;

use super::{Command, run_one_of, with_commands};
use crate::failure::{Failed, STATUS_FAILED, Usage};
use crate::ui::Ui;
use clap::ArgMatches;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use spindles_lab::traces::TraceFileError;
use spindles_workload::trace::{FORMATS, TraceFormat, named};

pub(crate) static COMMAND: Command = Command {
    name: "trace",
    about: "Record, show, convert or replay the requests that a disk or array was asked",
    details: "A trace has a line for each request: when, operation, place, length, and the \
              response time where measured. It holds no data. Traces are read from files, or \
              from standard input, named -. The first line shows the format.\n\n\
              spindles trace show day.trace\n\
              zcat msr.csv.gz | spindles trace convert - day.trace",
    hidden: false,
    arguments: |command| {
        with_commands(command, ROWS)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    run: run_row,
};

static ROWS: &[&Command] = &[
    &record::COMMAND,
    &show::COMMAND,
    &convert::COMMAND,
    &replay::COMMAND,
];

fn run_row(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    run_one_of(ROWS, matches, ui).expect("clap lets no other than our commands through")
}

/// The formats that satisfy a condition, each with a line of help.
fn formats(
    is_meant: fn(&TraceFormat) -> bool,
) -> impl TypedValueParser<Value = &'static TraceFormat> {
    let formats = FORMATS.iter().filter(move |format| is_meant(format));
    let values = formats.map(|format| PossibleValue::new(format.name).help(format.summary));
    PossibleValuesParser::new(values).map(|name| named(&name).expect("it is a name of the table"))
}

/// Returns the error of a trace: a wrong line is wrong usage, an unreadable file is a failure.
fn refused(error: &TraceFileError) -> anyhow::Error {
    match error {
        TraceFileError::Trace { .. } => Usage::error(error),
        TraceFileError::Io { .. } => anyhow::Error::new(Failed {
            status: STATUS_FAILED,
            text: error.to_string(),
            absent: None,
        }),
    }
}

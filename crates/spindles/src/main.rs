//! The command line: parses, wires, prints, exits. The other crates do the work.

mod arrays;
mod bench;
mod commands;
mod degraded;
mod documents;
mod failure;
mod interrupt;
mod measuring;
mod operation;
mod operations;
mod output;
mod overview;
mod plain;
mod plan;
mod progress;
mod rate;
mod rates;
mod served;
mod serving;
mod several;
mod ui;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(commands::execute(std::env::args_os()))
}

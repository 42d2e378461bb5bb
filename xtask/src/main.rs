//! The project's own checks and chores: `cargo xtask`. A build doesn't need them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command line"
)]

mod measures;
mod outcome;
mod predictions;
mod process;
mod repo;
mod rules;
mod source;
mod steps;
mod tasks;
mod test_binaries;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", tasks::help());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        print!("{}", tasks::help());
        return ExitCode::SUCCESS;
    }
    let Some(task) = tasks::TASKS.iter().find(|task| task.name == name) else {
        eprint!("xtask: there is no task {name}\n\n{}", tasks::help());
        return ExitCode::from(2);
    };
    // Tasks run in the workspace's root, wherever they were called.
    if let Err(error) = std::env::set_current_dir(repo::root()) {
        eprintln!("xtask: {}: {error}", repo::root().display());
        return ExitCode::FAILURE;
    }
    match (task.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

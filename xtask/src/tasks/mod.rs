//! The tasks of `cargo xtask`: a file and a row of the table for every task.

mod book;
mod check;
mod ci;
pub(crate) mod deb;
mod fleet;
mod guests; // Not a row: a job of the fleet.
pub(crate) mod instructions;
pub(crate) mod measure;
mod reference;
mod task; // Not a row: the type of one.
mod test;
mod texts;
mod tidy;

use std::fmt::Write as _;
use task::Task;

/// All tasks.
pub(crate) static TASKS: &[&Task] = &[
    &test::TASK,
    &check::TASK,
    &ci::TASK,
    &tidy::TASK,
    &measure::TASK,
    &texts::TASK,
    &instructions::TASK,
    &fleet::TASK,
    &deb::TASK,
    &reference::TASK,
    &book::TASK,
];

/// The list of tasks.
pub(crate) fn help() -> String {
    let mut text = String::from("usage: cargo xtask TASK\n\n");
    for task in TASKS {
        let call = format!("{} {}", task.name, task.arguments);
        writeln!(text, "  {call:<28} {}", task.about).expect("strings take everything");
    }
    text
}

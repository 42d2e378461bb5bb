//! The tasks of `cargo xtask`: one file and one row each.

mod check;
mod ci;
pub(crate) mod deb;
mod fleet;
mod guests; // Not a row: a job of the fleet.
mod instructions;
pub(crate) mod measure;
mod test;
mod texts;
mod tidy;

use std::fmt::Write as _;

/// One task.
pub(crate) struct Task {
    /// The name as typed after `cargo xtask`.
    pub(crate) name: &'static str,
    /// The arguments, as help prints them.
    pub(crate) arguments: &'static str,
    /// A one-line description.
    pub(crate) about: &'static str,
    /// Runs it. An error is printed and makes the exit status 1.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}

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

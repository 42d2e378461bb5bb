//! Performs operations: here, or by the server that has the array open.

mod add;
pub(crate) mod clear_errors;
mod fail;
mod grow;
mod journal_add;
mod journal_remove;
pub(crate) mod outcome;
mod rebuild;
mod remove;
mod rename;
mod replace;
mod resync;
mod scrub;
mod set;
mod spare_add;
mod spare_remove;
mod stop;

use crate::arrays::Found;
use crate::commands::status;
use crate::operation::Operation;
use crate::ui::Ui;
use outcome::Outcome;
use serde_json::{Value, json};
use spindles_admin::scan::Given;
use spindles_serve::control::Report;

/// Performs an operation where its array is open, and prints the result. Returns its values.
///
/// # Errors
///
/// It failed, or the server does not answer.
pub(crate) fn run(operation: &Operation, found: &Found, ui: &Ui) -> anyhow::Result<Value> {
    let report = match &found.server {
        Some(server) => server.perform(operation, ui)?,
        None => perform(operation, &found.given, ui),
    };
    outcome::finish(report, ui)
}

/// Performs an operation on the array that this process has open, or on the devices of `given`.
pub(crate) fn perform(operation: &Operation, given: &Given, ui: &Ui) -> Report {
    let outcome = match operation {
        Operation::Add(add) => add::perform(add, given, ui),
        Operation::ClearErrors(clear) => clear_errors::perform(clear, given, ui),
        Operation::Devices => Ok(Outcome::of(&json!({ "devices": given.devices }))),
        Operation::Fail(fail) => fail::perform(fail, given, ui),
        Operation::Grow(grow) => grow::perform(grow, given, ui),
        Operation::GrowAbort => grow::abort(given, ui),
        Operation::JournalAdd(add) => journal_add::perform(add, given, ui),
        Operation::JournalRemove(remove) => journal_remove::perform(remove, given, ui),
        Operation::Rebuild(rebuild) => rebuild::perform(rebuild, given, ui),
        Operation::Remove(remove) => remove::perform(remove, given, ui),
        Operation::Rename(rename) => rename::perform(rename, given, ui),
        Operation::Replace(replace) => replace::perform(replace, given, ui),
        Operation::Resync(resync) => resync::perform(resync, given, ui),
        Operation::Scrub(scrub) => scrub::perform(scrub, given, ui),
        Operation::Set(set) => set::perform(set, given, ui),
        Operation::SpareAdd(add) => spare_add::perform(add, given, ui),
        Operation::SpareRemove(remove) => spare_remove::perform(remove, given, ui),
        Operation::Status => status::show(given, false, ui),
        Operation::Stop(stop) => stop::perform(stop, ui),
    };
    outcome::report(outcome)
}

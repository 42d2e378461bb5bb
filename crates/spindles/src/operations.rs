//! Performs operations: here, or by the server that has the array open.

use crate::arrays::Found;
use crate::failure::{self, Answer, Failed, STATUS_DONE};
use crate::operation::{Devices, Operation};
use crate::ui::Ui;
use serde::Serialize;
use serde_json::{Value, json};
use spindles_admin::assemble::{AssembleOptions, EngineOptions};
use spindles_admin::scan::Given;
use spindles_serve::control::Report;

/// An operation that its command implements.
pub(crate) trait Perform {
    /// Performs it on the array that this process has open, or on the devices of `given`.
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome>;
}

impl Perform for Operation {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome> {
        match self {
            Self::Add(operation) => operation.perform(given, ui),
            Self::ClearErrors(operation) => operation.perform(given, ui),
            Self::Devices(operation) => operation.perform(given, ui),
            Self::Fail(operation) => operation.perform(given, ui),
            Self::Grow(operation) => operation.perform(given, ui),
            Self::GrowAbort(operation) => operation.perform(given, ui),
            Self::JournalAdd(operation) => operation.perform(given, ui),
            Self::JournalRemove(operation) => operation.perform(given, ui),
            Self::Rebuild(operation) => operation.perform(given, ui),
            Self::Remove(operation) => operation.perform(given, ui),
            Self::Rename(operation) => operation.perform(given, ui),
            Self::Replace(operation) => operation.perform(given, ui),
            Self::Resync(operation) => operation.perform(given, ui),
            Self::Scrub(operation) => operation.perform(given, ui),
            Self::Set(operation) => operation.perform(given, ui),
            Self::SpareAdd(operation) => operation.perform(given, ui),
            Self::SpareRemove(operation) => operation.perform(given, ui),
            Self::Status(operation) => operation.perform(given, ui),
            Self::Stop(operation) => operation.perform(given, ui),
        }
    }
}

impl Perform for Devices {
    fn perform(&self, given: &Given, _: &Ui) -> anyhow::Result<Outcome> {
        Ok(Outcome::of(&json!({ "devices": given.devices })))
    }
}

/// Performs an operation where its array is open, and prints the result. Returns its values.
///
/// # Errors
///
/// It failed, or the server does not answer.
pub(crate) fn run(operation: &Operation, found: &Found, ui: &Ui) -> anyhow::Result<Value> {
    let report = match &found.server {
        Some(server) => server.perform(operation, ui)?,
        None => report(operation.perform(&found.given, ui)),
    };
    finish(report, ui)
}

/// The values that an operation returns, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    document: Value,
    end: anyhow::Result<()>,
}

impl Outcome {
    /// Returns these values, as `--json` prints them, of an operation that succeeded.
    pub(crate) fn of(document: &impl Serialize) -> Self {
        let document = serde_json::to_value(document).expect("documents have strings as keys");
        let end = Ok(());
        Self { document, end }
    }

    /// Sets how the operation ended.
    pub(crate) fn ending(self, end: anyhow::Result<()>) -> Self {
        Self { end, ..self }
    }
}

/// Makes the report of an operation.
pub(crate) fn report(outcome: anyhow::Result<Outcome>) -> Report {
    let outcome = outcome.unwrap_or_else(|error| Outcome::of(&Value::Null).ending(Err(error)));
    let mut report = Report {
        document: outcome.document,
        ..Report::default()
    };
    let Err(error) = outcome.end else {
        return report;
    };
    if let Some(Answer(status)) = error.downcast_ref() {
        report.status = *status;
    } else {
        let (status, text) = failure::describe(&error);
        (report.status, report.error) = (status, Some(text));
        report.absent = failure::absent_device(&error).map(str::to_owned);
    }
    report
}

/// Prints the values of a report, and returns them.
///
/// # Errors
///
/// The operation failed.
pub(crate) fn finish(report: Report, ui: &Ui) -> anyhow::Result<Value> {
    if !report.document.is_null() {
        ui.json(&report.document);
    }
    match (report.error, report.status) {
        (None, STATUS_DONE) => Ok(report.document),
        (None, status) => Err(Answer(status).into()),
        (Some(text), status) => {
            let absent = report.absent;
            let failed = Failed {
                status,
                text,
                absent,
            };
            Err(failed.into())
        }
    }
}

/// Returns the options with which an operation opens the array.
pub(crate) fn assembling(degraded: bool, rebuild_rate: Option<u64>) -> AssembleOptions {
    AssembleOptions {
        degraded,
        engine: EngineOptions {
            job_rate: rebuild_rate,
            ..EngineOptions::default()
        },
        ..AssembleOptions::default()
    }
}

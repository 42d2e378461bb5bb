//! The outcome of an operation, its report, and options that operations share.

use crate::failure::{self, Answer, Failed, STATUS_DONE};
use crate::ui::Ui;
use serde::Serialize;
use serde_json::Value;
use spindles_admin::assemble::AssembleOptions;
use spindles_device::OpenOptions;
use spindles_serve::control::Report;

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
pub(super) fn assembling(degraded: bool, rebuild_rate: Option<u64>) -> AssembleOptions {
    AssembleOptions {
        degraded,
        open: OpenOptions {
            job_rate: rebuild_rate,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

//! Performs operations: here, or by the server that has the array open.

use crate::arrays::Found;
use crate::documents::{self, changes, scrub, status, tools, traces};
use crate::failure::{self, Answer, Failed, STATUS_DONE};
use crate::operation::{self, Operation};
use crate::ui::Ui;
use serde::Serialize;
use serde::de::DeserializeOwned;
use spindles_admin::assemble::{AssembleOptions, EngineOptions};
use spindles_admin::scan::Given;
use spindles_serve::control::Report;

/// An operation, with the values that it returns.
pub(crate) trait Returns: Into<Operation> {
    /// The values, as `--json` prints them.
    type Document: DeserializeOwned + Serialize;
}

/// An operation that its command implements.
pub(crate) trait Perform: Returns {
    /// Performs it on the array that this process has open, or on the devices of `given`.
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Self::Document>>;
}

/// Says which values each operation returns.
macro_rules! returns {
    ($($operation:ident => $document:ty,)*) => {
        /// The values of any operation.
        #[derive(Serialize)]
        #[serde(untagged)]
        pub(crate) enum Document {
            $($operation($document),)*
        }

        $(
            impl From<operation::$operation> for Operation {
                fn from(operation: operation::$operation) -> Self {
                    Self::$operation(operation)
                }
            }

            impl Returns for operation::$operation {
                type Document = $document;
            }
        )*

        /// Performs an operation of another process.
        pub(crate) fn perform(operation: &Operation, given: &Given, ui: &Ui) -> Report<Document> {
            match operation {
                $(Operation::$operation(operation) => {
                    report(operation.perform(given, ui)).map(Document::$operation)
                })*
            }
        }
    };
}

returns! {
    Add => changes::Added,
    ClearErrors => status::ClearedAll,
    Devices => documents::Devices,
    Fail => changes::Failed,
    Grow => changes::Grown,
    GrowAbort => changes::GrowthAborted,
    JournalAdd => changes::JournalAdded,
    JournalRemove => changes::JournalRemoved,
    Rebuild => changes::RebuildResult,
    Remove => changes::Released,
    Rename => changes::Renamed,
    Replace => changes::Replaced,
    Resync => changes::Resynced,
    Scrub => scrub::Scrubbed,
    Set => changes::Settings,
    SpareAdd => changes::SparesAdded,
    SpareRemove => changes::SparesRemoved,
    Status => status::Status<status::Arrays>,
    Stop => tools::Stopped,
    TraceRecord => traces::TraceRecorded,
}

impl Perform for operation::Devices {
    fn perform(&self, given: &Given, _: &Ui) -> anyhow::Result<Outcome<documents::Devices>> {
        let devices = given.devices.clone();
        Ok(Outcome::of(documents::Devices { devices }))
    }
}

/// Performs an operation where its array is open, and prints the result. Returns its values.
///
/// # Errors
///
/// It failed, or the server does not answer.
pub(crate) fn run<O: Perform>(
    operation: O,
    found: &Found,
    ui: &Ui,
) -> anyhow::Result<Option<O::Document>> {
    let report = match &found.server {
        Some(server) => server.perform(&operation.into(), ui)?,
        None => report(operation.perform(&found.given, ui)),
    };
    finish(report, ui)
}

/// The values that an operation returns, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome<D> {
    document: D,
    end: anyhow::Result<()>,
}

impl<D> Outcome<D> {
    /// Returns the values of an operation that succeeded.
    pub(crate) const fn of(document: D) -> Self {
        let end = Ok(());
        Self { document, end }
    }

    /// Returns true if the operation succeeded.
    pub(crate) const fn is_success(&self) -> bool {
        self.end.is_ok()
    }

    /// Sets how the operation ended.
    pub(crate) fn ending(self, end: anyhow::Result<()>) -> Self {
        Self { end, ..self }
    }
}

/// Makes the report of an operation.
pub(crate) fn report<D>(outcome: anyhow::Result<Outcome<D>>) -> Report<D> {
    let (document, end) = match outcome {
        Ok(outcome) => (Some(outcome.document), outcome.end),
        Err(error) => (None, Err(error)),
    };
    let (status, error, absent) = match end {
        Ok(()) => (STATUS_DONE, None, None),
        Err(error) => {
            if let Some(Answer(status)) = error.downcast_ref() {
                (*status, None, None)
            } else {
                let (status, text) = failure::describe(&error);
                let absent = failure::absent_device(&error).map(str::to_owned);
                (status, Some(text), absent)
            }
        }
    };
    Report {
        status,
        error,
        absent,
        document,
    }
}

/// Prints the values of a report, and returns them.
///
/// # Errors
///
/// The operation failed.
pub(crate) fn finish<D: Serialize>(report: Report<D>, ui: &Ui) -> anyhow::Result<Option<D>> {
    if let Some(document) = &report.document {
        ui.json(document);
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

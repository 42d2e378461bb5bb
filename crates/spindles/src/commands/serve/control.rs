//! The control socket of a served array.

use crate::failure::{STATUS_DONE, STATUS_FAILED, STATUS_USAGE};
use crate::operation::Operation;
use crate::operations::{self, Document};
use crate::output;
use crate::serving::Serving;
use crate::ui::Ui;
use crate::words;
use anyhow::Context as _;
use spindles_admin::host::Served as _;
use spindles_device::notice::{self, Named};
use spindles_device::{device_of, is_address};
use spindles_format::Uuid;
use spindles_report::outputs::printable;
use spindles_serve::control::{Answer, Answers, BadRequest, Control, OpenControl, Report, Request};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The control socket of an array, before it answers anybody.
pub(super) struct Sockets {
    /// `None` if there is no folder for it.
    pub(super) control: Option<Control>,
    /// The link to it by the array's name.
    named: Option<Named>,
}

impl Sockets {
    /// Binds the socket to the path asked for, or else where commands of this user look for it.
    pub(super) fn bind(array: Uuid, name: &str, asked: Option<&Path>) -> anyhow::Result<Self> {
        let own = || notice::own_socket(array);
        let path = asked.map(Path::to_owned).or_else(own);
        let bind = |path: PathBuf| Control::bind(&path).with_context(|| path.display().to_string());
        let control = path.map(bind).transpose()?;
        let named = asked.is_none().then(|| Named::put(array, name));
        Ok(Self {
            control,
            named: named.flatten(),
        })
    }

    /// Starts to accept commands.
    pub(super) fn open(self, serving: Serving) -> anyhow::Result<Commands> {
        let answers = serving.clone();
        let control = self.control.map(|control| {
            control.open(Arc::new(move |request, to| answer(&answers, request, to)))
        });
        Ok(Commands {
            serving,
            control: control.transpose()?,
            named: self.named,
        })
    }
}

/// The control socket of a served array, in use.
pub(super) struct Commands {
    serving: Serving,
    control: Option<OpenControl>,
    named: Option<Named>,
}

impl Commands {
    /// Ends the commands that wait for the array to be closed, with the result of closing it.
    pub(super) fn end(self, result: Result<Vec<String>, String>) {
        let Self {
            serving,
            mut control,
            named,
        } = self;
        // Before `stop` returns: afterwards, no command may find the server.
        drop(named);
        control.iter_mut().for_each(OpenControl::hide);
        serving.end(result);
        if let Some(control) = control {
            control.close();
        }
    }
}

/// Answers a client: performs its operation, and reports how that ended.
fn answer(serving: &Serving, request: Result<Request<Operation>, BadRequest>, answers: &Answers) {
    let taken = request.map_err(|bad| words::control::refused(&bad));
    let taken = taken.and_then(|request| take(serving, request));
    let (operation, command) = match taken {
        Ok(taken) => taken,
        Err((status, why)) => {
            note(&why, answers);
            return answers.send(&failed(status, None));
        }
    };
    let heard = serving.handle().subscribe();
    let ui = Ui::for_server(answers, serving);
    let perform = || operations::perform(&operation, &serving.given(), &ui);
    let refused = |why| failed(STATUS_FAILED, Some(why));
    let report = serving.refuses(&operation).map_or_else(perform, refused);
    if !operation.only_shows() {
        let error = report.error.as_deref();
        output::write_log(&log_line(&serving.name(), &command, report.status, error));
    }
    // All earlier events have been delivered when this call returns.
    serving.handle().managed().is_working();
    for lacking in heard.lacking() {
        note(&lacking, answers);
    }
    answers.send(&report);
}

/// Returns the operation of a request and its command line, or the exit status and why it is
/// refused.
fn take(
    serving: &Serving,
    request: Request<Operation>,
) -> Result<(Operation, String), (u8, String)> {
    if request.array != serving.array() {
        let why = words::control::other_array(&serving.name(), &request.array);
        return Err((STATUS_FAILED, why));
    }
    let operation = request.operation;
    let is_relative = |name: &String| {
        let name = device_of(name);
        !is_address(&name) && Path::new(&*name).is_relative()
    };
    if let Some(name) = operation.devices().into_iter().find(is_relative) {
        return Err((STATUS_USAGE, words::control::relative(&name)));
    }
    Ok((operation, request.command.unwrap_or_default()))
}

/// Sends a remark.
fn note(text: &str, answers: &Answers) {
    let note = printable(&format!("spindles: {text}\n")).into_owned();
    answers.send(&Answer::Note { note });
}

const fn failed(status: u8, error: Option<String>) -> Report<Document> {
    Report {
        status,
        error,
        absent: None,
        document: None,
    }
}

/// Formats an operation for the log: `spindles: array 'pool': command done: spindles fail b pool`.
fn log_line(array: &str, command: &str, status: u8, error: Option<&str>) -> String {
    let how = match status {
        STATUS_DONE => "command done".to_owned(),
        status => format!("command ended with exit status {status}"),
    };
    let why = error.map_or_else(String::new, |error| format!(": {error}"));
    let line = format!("spindles: array '{array}': {how}: {command}{why}");
    // Keep each log entry on one line: names may contain line feeds.
    line.replace(char::is_control, " ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_logged_on_one_line() {
        let line = |status, error| log_line("pool", "spindles spare add 'a b'", status, error);
        assert_eq!(
            line(0, None),
            "spindles: array 'pool': command done: spindles spare add 'a b'\n"
        );
        assert_eq!(
            line(1, Some("no\nroom")),
            "spindles: array 'pool': command ended with exit status 1: spindles spare add 'a b': \
             no room\n"
        );
    }
}

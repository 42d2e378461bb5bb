//! What commands print: results on standard output, everything else on standard error.

use crate::documents::{Document, Error, Help, NotGiven};
use crate::output::{remark, table, write_out};
use crate::progress::{Progress, Shown, Unit};
use crate::serving::Serving;
use serde::Serialize;
use spindles_device::notice::Notice;
use spindles_format::Uuid;
use spindles_report::outputs::printable;
use spindles_serve::control::{Answer, Answers};
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of all documents that `--json` prints. It grows when a field is removed or changes
/// its meaning, but not for a new field. docs/reference/json.schema.json lists all fields.
pub(crate) const VERSION: u32 = 1;

/// How a command communicates with its user.
#[derive(Debug)]
pub(crate) struct Ui {
    json: bool,
    /// The name of the command's JSON document.
    schema: String,
    terminal: bool,
    /// Set once the JSON document is printed. There is one, even if the command fails afterwards.
    json_is_out: Cell<bool>,
    /// Devices that belong to the arrays of the command and were not given, once known.
    not_given: RefCell<Option<Vec<NotGiven>>>,
    /// The arrays of the command, as far as known.
    arrays: RefCell<Vec<Uuid>>,
    place: Place,
}

/// Where the command runs.
#[derive(Debug)]
enum Place {
    /// In a process of its own.
    Own,
    /// In the server that has its array, for another process.
    Server(Answers, Box<Serving>),
}

impl Ui {
    /// Creates it. With `json`, lines and tables are silent and only [`Ui::json`] prints.
    pub(crate) fn new(json: bool, schema: &str) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            json,
            schema: schema.to_owned(),
            terminal,
            json_is_out: Cell::new(false),
            not_given: RefCell::new(None),
            arrays: RefCell::new(Vec::new()),
            place: Place::Own,
        }
    }

    /// Creates it for an operation that a server performs.
    pub(crate) fn for_server(answers: &Answers, serving: &Serving) -> Self {
        Self {
            terminal: false,
            place: Place::Server(answers.clone(), Box::new(serving.clone())),
            ..Self::new(false, "")
        }
    }

    /// The array served here, if the command runs in a server.
    pub(crate) fn serving(&self) -> Option<&Serving> {
        match &self.place {
            Place::Own => None,
            Place::Server(_, serving) => Some(serving),
        }
    }

    /// Describes the fate of work for which a command no longer waits: `was stopped, and goes on
    /// there next time`.
    pub(crate) fn what_becomes_of_it(&self, otherwise: &'static str) -> &'static str {
        let lives = |serving: &Serving| serving.handle().numbers().is_some();
        if self.serving().is_some_and(lives) {
            "goes on in the server"
        } else {
            otherwise
        }
    }

    /// Shows the progress of work in a server.
    pub(crate) fn progress_elsewhere(&self, what: &str, total: u64) -> Progress {
        let shown = if self.terminal {
            Shown::Bar
        } else {
            Shown::Lines
        };
        Progress::new(what, total, Unit::Bytes, shown, None)
    }

    /// Writes to standard output, unchanged.
    fn out(&self, text: &str) {
        match &self.place {
            Place::Own => write_out(text),
            Place::Server(answers, _) => answers.send(&Answer::Text {
                text: text.to_owned(),
            }),
        }
    }

    /// Writes to standard error, unchanged.
    pub(crate) fn remark(&self, text: &str) {
        match &self.place {
            Place::Own => remark(text),
            Place::Server(answers, _) => answers.send(&Answer::Note {
                note: text.to_owned(),
            }),
        }
    }

    /// Returns true if the user wants JSON.
    pub(crate) const fn wants_json(&self) -> bool {
        self.json
    }

    /// Prints a line of the result, for people. Silent with `--json`.
    pub(crate) fn line(&self, line: impl Display) {
        self.drawn(&printable(&line.to_string()));
    }

    /// Like `line`, for coloured text that contains no other control sequences.
    pub(crate) fn drawn(&self, text: &str) {
        if !self.json {
            self.out(&format!("{text}\n"));
        }
    }

    /// Prints a part of the result that a server made. Silent with `--json`.
    pub(crate) fn printed(&self, text: &str) {
        if !self.json {
            self.out(text);
        }
    }

    /// Prints the whole result as one JSON document. Silent without `--json`.
    pub(crate) fn json(&self, result: &impl Serialize) {
        self.document(&self.schema, result);
    }

    /// Prints a JSON document with its schema. All documents go through here.
    fn document(&self, schema: &str, result: &impl Serialize) {
        if self.json && !self.json_is_out.replace(true) {
            let document = serde_json::to_value(Document {
                schema,
                version: VERSION,
                not_given: self.not_given.take(),
                result,
            });
            let document = document.expect("documents have strings as keys");
            self.out(&format!("{document:#}\n"));
        }
    }

    /// Records devices that belong to the arrays of the command and were not given, for the JSON
    /// document.
    pub(crate) fn not_given(&self, devices: impl Iterator<Item = NotGiven>) {
        let mut all = self.not_given.borrow_mut();
        all.get_or_insert_default().extend(devices);
    }

    /// Prints a result that is a text, such as a script; with `--json` the document with it.
    pub(crate) fn text(&self, text: &str, document: &impl Serialize) {
        if self.json {
            self.json(document);
        } else {
            self.out(text);
        }
    }

    /// Prints the help of a command; with `--json` as `{"help": ...}`.
    pub(crate) fn help(&self, text: &str) {
        if self.json {
            self.document("spindles.help", &Help { help: text });
        } else {
            self.out(text);
        }
    }

    /// Prints a table of the result with aligned columns, numbers to the right. Silent with
    /// `--json`.
    pub(crate) fn table(&self, header: &[&str], rows: &[Vec<String>]) {
        if !self.json {
            self.out(&printable(&table(header, rows)));
        }
    }

    /// Prints a remark that is not part of the result, on standard error, even with `--json`.
    pub(crate) fn note(&self, note: impl Display) {
        self.remark(&printable(&format!("spindles: {note}\n")));
    }

    /// Reports the error that ended a command on standard error; with `--json` also as `{"error":
    /// ...}` on standard output, unless the result was already printed.
    pub(crate) fn error(&self, status: u8, text: &str) {
        if self.json {
            let error = text;
            self.document("spindles.error", &Error { error, status });
        }
        self.remark(&printable(&format!("spindles: {text}\n")));
    }

    /// Records the arrays of the command, on which `status` then shows its progress.
    pub(crate) fn works_on(&self, arrays: &[Uuid]) {
        self.arrays.borrow_mut().extend_from_slice(arrays);
    }

    /// Shows the progress of long work: a bar on a terminal, or else a line every few seconds. If
    /// its arrays are known, `status` shows it too.
    pub(crate) fn progress(&self, what: &str, total: u64, unit: Unit) -> Progress {
        let arrays = self.arrays.borrow();
        let notice =
            (unit == Unit::Bytes && !arrays.is_empty()).then(|| Notice::put(what, &arrays));
        let shown = match &self.place {
            Place::Own if self.terminal => Shown::Bar,
            Place::Own => Shown::Lines,
            Place::Server(answers, _) => Shown::Elsewhere(answers.clone()),
        };
        Progress::new(what, total, unit, shown, notice.flatten())
    }

    /// Shows the progress of work in bytes that Ctrl-C may stop. The closure takes the bytes done
    /// and the total, and returns false to stop. Dropping it removes the bar.
    pub(crate) fn until_interrupted(
        &self,
        what: &str,
    ) -> anyhow::Result<impl FnMut(u64, u64) -> bool> {
        let interrupted = stops(self)?;
        let mut bar: Option<Progress> = None;
        Ok(move |done, total| {
            bar.get_or_insert_with(|| self.progress(what, total, Unit::Bytes))
                .set(done);
            !interrupted.load(Ordering::SeqCst)
        })
    }
}

/// Returns a flag that becomes true once the command is to end.
pub(crate) fn stops(ui: &Ui) -> anyhow::Result<Arc<AtomicBool>> {
    match &ui.place {
        Place::Own => crate::interrupt::flag(),
        Place::Server(answers, _) => Ok(answers.stops()),
    }
}

//! What commands print: results on standard output, everything else on standard error.

use crate::progress::{Progress, Shown, Unit};
use crate::served::Serving;
use serde_json::Value;
use spindles_format::Uuid;
use spindles_io::notice::Notice;
use spindles_io::rfc3339_now;
use spindles_report::outputs::printable;
use spindles_serve::control::Answers;
use std::cell::{Cell, RefCell};
use std::env;
use std::fmt::{Display, Write as _};
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of all documents that `--json` prints. It grows when a field is removed or changes
/// its meaning, but not for a new field. docs/json.md lists all fields.
const VERSION: u32 = 1;

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
    not_given: RefCell<Option<Vec<Value>>>,
    /// The arrays of the command, as far as known.
    arrays: RefCell<Vec<Uuid>>,
    /// Set if a server that has the array runs the command.
    forwards: Cell<bool>,
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
            forwards: Cell::new(false),
            place: Place::Own,
        }
    }

    /// Creates it for a command that runs in a server.
    pub(crate) fn for_server(
        json: bool,
        schema: &str,
        answers: &Answers,
        serving: &Serving,
    ) -> Self {
        Self {
            terminal: false,
            place: Place::Server(answers.clone(), Box::new(serving.clone())),
            ..Self::new(json, schema)
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

    /// Sets whether a server that has the array runs the command.
    pub(crate) fn may_forward(&self, may: bool) {
        self.forwards.set(may && self.serving().is_none());
    }

    /// Returns true if `may_forward` allowed it.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards.get()
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
    pub(crate) fn out(&self, text: &str) {
        match &self.place {
            Place::Own => write_out(text),
            Place::Server(answers, _) => answers.out(text),
        }
    }

    /// Writes to standard error, unchanged.
    pub(crate) fn remark(&self, text: &str) {
        match &self.place {
            Place::Own if IS_LOG.load(Ordering::Relaxed) => write_log(text),
            Place::Own => write_error(text),
            Place::Server(answers, _) => answers.note(text),
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

    /// Prints the whole result as one JSON document. Silent without `--json`.
    pub(crate) fn json(&self, value: &Value) {
        self.document(&self.schema, value);
    }

    /// Prints a JSON document with its schema. All documents go through here.
    fn document(&self, schema: &str, value: &Value) {
        if self.json && !self.json_is_out.replace(true) {
            let mut document = value.clone();
            document["schema"] = schema.into();
            document["version"] = VERSION.into();
            if let Some(devices) = self.not_given.take() {
                document["not_given"] = devices.into();
            }
            self.out(&format!("{document:#}\n"));
        }
    }

    /// Records devices that belong to the arrays of the command and were not given, for the JSON
    /// document.
    pub(crate) fn not_given(&self, devices: Vec<Value>) {
        let mut all = self.not_given.borrow_mut();
        all.get_or_insert_default().extend(devices);
    }

    /// Prints a result that is a text, such as a script; with `--json` as `{key: text}`.
    pub(crate) fn text(&self, key: &str, text: &str) {
        if self.json {
            self.json(&serde_json::json!({ key: text }));
        } else {
            self.out(text);
        }
    }

    /// Prints the help of a command; with `--json` as `{"help": ...}`.
    pub(crate) fn help(&self, text: &str) {
        if self.json {
            self.document("spindles.help", &serde_json::json!({ "help": text }));
        } else {
            self.out(text);
        }
    }

    /// Returns true if the result is JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
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
            let error = serde_json::json!({ "error": text, "status": status });
            self.document("spindles.error", &error);
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
        let interrupted = match &self.place {
            Place::Own => crate::interrupt::flag()?,
            Place::Server(answers, _) => answers.stops(),
        };
        let mut bar: Option<Progress> = None;
        Ok(move |done, total| {
            bar.get_or_insert_with(|| self.progress(what, total, Unit::Bytes))
                .set(done);
            !interrupted.load(Ordering::SeqCst)
        })
    }
}

/// Writes to standard output. A closed pipe (`| head`) is no error.
fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        write_error(&format!("spindles: standard output: {error}\n"));
        IS_RESULT_LOST.store(true, Ordering::Relaxed);
    }
}

/// Set if some output was lost.
static IS_RESULT_LOST: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output did not get the whole result, so the command did not succeed.
pub(crate) fn is_result_lost() -> bool {
    IS_RESULT_LOST.load(Ordering::Relaxed)
}

/// Writes to standard error; ignores errors, as there is nowhere left to report them.
pub(crate) fn write_error(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// True if standard error is systemd's journal. Processes with other output inherit the variable
/// too.
static IS_JOURNAL: LazyLock<bool> = LazyLock::new(|| {
    let own = fs::metadata("/proc/self/fd/2").map(|it| format!("{}:{}", it.dev(), it.ino()));
    own.is_ok_and(|own| env::var("JOURNAL_STREAM").is_ok_and(|journal| journal == own))
});

/// Writes to a log, with the time in front unless it is the journal, which records the time itself.
pub(crate) fn write_log(text: &str) {
    if *IS_JOURNAL {
        write_error(text);
    } else {
        write_error(&format!("{} {text}", rfc3339_now()));
    }
}

/// Set once standard error is a log.
static IS_LOG: AtomicBool = AtomicBool::new(false);

/// Makes standard error a log from now on.
pub(crate) fn begin_log() {
    IS_LOG.store(true, Ordering::Relaxed);
}

/// Reports what the command waits for, even while a bar is shown.
pub(crate) fn report_waits(what: &str) {
    let write = if IS_LOG.load(Ordering::Relaxed) {
        write_log
    } else {
        write_error
    };
    write(&printable(&format!("spindles: {what}\n")));
}

pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row.get(column).map_or(0, |cell| cell.chars().count()))
            .chain([header[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let to_the_right: Vec<bool> = (0..header.len())
        .map(|column| {
            let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
            cells.peek().is_some() && cells.all(|cell| is_number(cell))
        })
        .collect();
    let mut text = String::new();
    let mut write_row = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, cell) in cells.enumerate().take(widths.len()) {
            let width = widths[column];
            let written = if to_the_right[column] {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
            written.expect("strings take everything");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    write_row(&mut header.iter().copied());
    for row in rows {
        write_row(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let rows = [
            vec!["raid5".to_owned(), "4".to_owned(), "healthy".to_owned()],
            vec!["mirror".to_owned(), "10".to_owned(), "degraded".to_owned()],
        ];
        assert_eq!(
            table(&["level", "members", "state"], &rows),
            "level   members  state\n\
             raid5         4  healthy\n\
             mirror       10  degraded\n"
        );
    }
}

//! Standard output and standard error, which may be a log.

use spindles_device::rfc3339_now;
use spindles_report::outputs::printable;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes to standard output. A closed pipe (`| head`) is no error.
pub(crate) fn write_out(text: &str) {
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
    let own = fs::metadata("/proc/self/fd/2")
        .map(|metadata| format!("{}:{}", metadata.dev(), metadata.ino()));
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

/// Writes to standard error, or to the log that it has become.
pub(crate) fn remark(text: &str) {
    if IS_LOG.load(Ordering::Relaxed) {
        write_log(text);
    } else {
        write_error(text);
    }
}

/// Reports what the command waits for, even while a bar is shown.
pub(crate) fn report_waits(what: &str) {
    remark(&printable(&format!("spindles: {what}\n")));
}

/// Aligns rows under a header: numbers to the right, text to the left.
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

//! The output formats of reports, in one table. They show the same content.

mod bonnie_plus;
mod csv;
mod html;
mod json;
mod legacy;
mod markdown;
mod series;
mod terminal;

pub use html::{change_page, prediction_page, report_page};

use spindles_measure::{Analysis, Change, PredictionCheck};
use std::borrow::Cow;

/// Formats the changes from one experiment to another.
pub type DrawChange = fn(&Change, &Options) -> String;

/// Formats a prediction next to a measurement.
pub type DrawPrediction = fn(&PredictionCheck, &Options) -> String;

/// An output format.
#[derive(Debug)]
pub struct Output {
    /// Name of the format: `markdown`.
    pub name: &'static str,
    /// Description in one line, for the help text.
    pub summary: &'static str,
    /// Usual name of the file.
    pub file_name: &'static str,
    /// True if it has the sections of the page, so that `--sections` can select some.
    pub has_sections: bool,
    /// Returns true if the format applies to these runs.
    pub applies: fn(&Analysis) -> bool,
    /// Formats the report of one experiment. Empty if the format does not apply to its runs.
    pub report: fn(&Analysis, &Options) -> String,
    /// Joins several reports in one text. `None` if the format does not allow it.
    pub together: Option<fn(&[String]) -> String>,
    /// Formats the changes from one experiment to another. `None` if not supported.
    pub change: Option<DrawChange>,
    /// Formats a prediction next to a measurement. `None` if not supported.
    pub prediction: Option<DrawPrediction>,
}

/// Options of a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Width of the terminal in columns.
    pub width: u16,
    /// True if the terminal shows colours.
    pub colour: bool,
    /// True to show a table for each workload before the choice of a system. Terminal only.
    pub tables: bool,
    /// True to list all doubts instead of the first few.
    pub all_doubts: bool,
    /// Command that formats this report again and accepts `--tables`, `--all-doubts` and
    /// `--format`: `spindles lab report results`. `None` if there are no records for it.
    pub command: Option<String>,
    /// Names of the sections to show, for formats with sections. Empty for all.
    pub sections: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
            tables: false,
            all_doubts: false,
            command: None,
            sections: Vec::new(),
        }
    }
}

/// Escapes control characters except newlines and tabs, for instance as `\u{1b}`. Terminals obey
/// such characters, and names come from other people's files.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// All output formats.
pub static OUTPUTS: &[&Output] = &[
    &terminal::OUTPUT,
    &markdown::OUTPUT,
    &csv::OUTPUT,
    &json::OUTPUT,
    &html::OUTPUT,
    &series::OUTPUT,
    &legacy::OUTPUT,
    &bonnie_plus::OUTPUT,
];

/// Concatenates reports.
fn concatenated(reports: &[String]) -> String {
    reports.concat()
}

/// Concatenates tables with equal headers; keeps the first header only.
fn under_one_header(reports: &[String]) -> String {
    let first = reports.iter().take(1).map(String::as_str);
    let later = reports.iter().skip(1);
    let later = later.filter_map(|report| report.split_once('\n'));
    first.chain(later.map(|(_, rows)| rows)).collect()
}

/// Names of the page's sections, in order.
pub fn section_names() -> Vec<&'static str> {
    crate::sections::parts()
        .iter()
        .map(|part| part.name)
        .collect()
}

/// Returns the output format of this name.
pub fn by_name(name: &str) -> Option<&'static Output> {
    OUTPUTS.iter().copied().find(|output| output.name == name)
}

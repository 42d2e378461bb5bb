//! The forms a report comes in: one row each. What is drawn is the same
//! everywhere; only the form differs.

mod bonnie_plus;
mod csv;
mod html;
mod json;
mod legacy;
mod markdown;
mod series;
mod terminal;

pub use html::{change_page, report_page};

use spindles_measure::{Analysis, Change};
use std::borrow::Cow;

/// Draws a change from one experiment to another.
pub type DrawChange = fn(&Change, &Options) -> String;

/// A form of reports.
#[derive(Debug)]
pub struct Output {
    /// Its name: `markdown`.
    pub name: &'static str,
    /// One line for the help text.
    pub summary: &'static str,
    /// The name of the file it is usually kept in.
    pub file_name: &'static str,
    /// Whether it has the sections of the page, of which some may be chosen.
    pub has_sections: bool,
    /// Whether it has anything to say of these runs.
    pub applies: fn(&Analysis) -> bool,
    /// The report of one experiment. Empty where it has nothing to say of its runs.
    pub report: fn(&Analysis, &Options) -> String,
    /// Several reports as one text, where there is such a form.
    pub together: Option<fn(&[String]) -> String>,
    /// The report of a change from one experiment to another, where there is such a form.
    pub change: Option<DrawChange>,
}

/// What may be chosen about a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Columns of the terminal.
    pub width: u16,
    /// Whether the terminal shows colours.
    pub colour: bool,
    /// Whether the terminal has a table for each workload before what to take.
    pub tables: bool,
    /// Whether all doubts are listed where else the first few are.
    pub all_doubts: bool,
    /// The command that draws this again and takes `--tables`, `--all-doubts` and `--format`: `spindles lab report results`. `None`
    /// where there are no records to draw it from.
    pub command: Option<String>,
    /// Names of the sections wanted, of those that have sections. Empty: all.
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

/// A text with control characters in words, `\u{1b}`, but line ends and tabs: for terminals, which obey what they are sent,
/// and names come from files of others.
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

/// All forms.
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

/// One report after the other.
fn concatenated(reports: &[String]) -> String {
    reports.concat()
}

/// One table after the other, under the header of the first: all have the same.
fn under_one_header(reports: &[String]) -> String {
    let first = reports.iter().take(1).map(String::as_str);
    let later = reports.iter().skip(1);
    let later = later.filter_map(|it| it.split_once('\n'));
    first.chain(later.map(|(_, rows)| rows)).collect()
}

/// Names of the sections that a form with sections has, in their order.
pub fn section_names() -> Vec<&'static str> {
    crate::sections::parts()
        .iter()
        .map(|part| part.name)
        .collect()
}

/// The form of this name.
pub fn by_name(name: &str) -> Option<&'static Output> {
    OUTPUTS.iter().copied().find(|output| output.name == name)
}

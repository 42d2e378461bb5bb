//! The sections of the page, in their order: each a row of one table.

mod charts;
mod comparison;
mod doubts;
mod environment;
mod headline;
mod overview;
mod records;

use spindles_measure::Analysis;

/// A section of the page.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name: its anchor in the page and what `--sections` calls it.
    pub(crate) name: &'static str,
    /// Its heading in the page's contents. Empty: not listed there.
    pub(crate) title: &'static str,
    /// The section, or nothing when there is nothing to show.
    pub(crate) body: fn(&Analysis) -> String,
}

/// All sections.
pub(crate) static SECTIONS: &[&Section] = &[
    &headline::SECTION,
    &overview::SECTION,
    &charts::SECTION,
    &comparison::SECTION,
    &doubts::SECTION,
    &environment::SECTION,
    &records::SECTION,
];

/// A section with its heading and a line that says how to read it.
fn section(name: &str, title: &str, caption: &str, body: &str) -> String {
    classed(name, "", title, caption, body)
}

/// A section of a class of the style sheet.
fn classed(name: &str, class: &str, title: &str, caption: &str, body: &str) -> String {
    let caption = match caption {
        "" => String::new(),
        caption => format!("<p class=\"caption\">{caption}</p>"),
    };
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<section id=\"{name}\"{class}><h2>{title}</h2>{caption}{body}</section>\n")
}

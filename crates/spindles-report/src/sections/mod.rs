//! The sections of the page in order, in one table.

mod charts;
mod choice;
mod comparison;
pub(crate) mod deciding;
mod doubts;
mod environment;
mod headline;
pub(crate) mod help;
pub(crate) mod jobs;
mod legacy;
pub(crate) mod nodes;
mod overview;
pub(crate) mod own_baselines;
mod pairs;
pub(crate) mod prices;
mod records;
pub(crate) mod request_time;
mod verdicts;

pub(crate) use charts::grid;
pub(crate) use deciding::correlation;
pub(crate) use doubts::listed as listed_doubts;

use spindles_measure::Analysis;

use crate::charts::{CHARTS, Chart};
use crate::comparisons::Column;
use crate::svg::escape;

/// A section of the page.
#[derive(Debug)]
pub(crate) struct Section {
    /// Name: the anchor in the page, and the name for `--sections`.
    pub(crate) name: &'static str,
    /// Heading, also used in the table of contents. Sections without one are not listed.
    pub(crate) title: &'static str,
    /// Contents of the section.
    pub(crate) body: Body,
}

/// Contents of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// One section. Empty if there is nothing to show.
    One(fn(&Analysis) -> String),
    /// A table.
    Table(&'static TextTable),
    /// A section for each chart with panels.
    Charts(fn(&Analysis, &Chart) -> String),
}

/// A table of texts that every output shows.
#[derive(Debug)]
pub(crate) struct TextTable {
    /// How to read the table.
    caption: &'static str,
    /// Returns its CSS class, for a number of columns.
    class: fn(usize) -> &'static str,
    /// Returns the columns; none if there is nothing to show.
    columns: fn(&Analysis) -> Vec<Column>,
}

/// The titles of all such tables, and the tables, in the order of the page.
pub(crate) fn text_tables() -> impl Iterator<Item = (&'static str, &'static TextTable)> {
    SECTIONS.iter().filter_map(|section| match section.body {
        Body::Table(table) => Some((section.title, table)),
        Body::One(_) | Body::Charts(_) => None,
    })
}

/// A part of the page that can be requested by name: a section or a chart.
#[derive(Debug)]
pub(crate) struct PagePart {
    /// Name and anchor.
    pub(crate) name: &'static str,
    /// Entry in the table of contents. Parts without one are not listed.
    pub(crate) entry: &'static str,
    draw: Draw,
}

#[derive(Debug)]
enum Draw {
    Section(fn(&Analysis) -> String),
    Table(&'static Section, &'static TextTable),
    Chart(fn(&Analysis, &Chart) -> String, &'static Chart),
}

impl PagePart {
    /// Formats the part. Empty if there is nothing to show.
    pub(crate) fn draw(&self, analysis: &Analysis) -> String {
        match self.draw {
            Draw::Section(body) => body(analysis),
            Draw::Table(section, table) => table.section(section, analysis),
            Draw::Chart(body, chart) => body(analysis, chart),
        }
    }
}

/// All parts of the page, in order.
pub(crate) fn parts() -> Vec<PagePart> {
    let mut parts = Vec::new();
    for section in SECTIONS {
        match section.body {
            Body::One(body) => parts.push(part(section, Draw::Section(body))),
            Body::Table(table) => parts.push(part(section, Draw::Table(section, table))),
            Body::Charts(body) => parts.extend(CHARTS.iter().map(|chart| PagePart {
                name: chart.name,
                entry: chart.entry,
                draw: Draw::Chart(body, chart),
            })),
        }
    }
    parts
}

fn part(section: &Section, draw: Draw) -> PagePart {
    PagePart {
        name: section.name,
        entry: section.title,
        draw,
    }
}

impl TextTable {
    /// Returns how to read the table.
    pub(crate) fn caption(&self) -> &'static str {
        self.caption
    }

    /// Returns the columns; none if there is nothing to show.
    pub(crate) fn columns(&self, analysis: &Analysis) -> Vec<Column> {
        (self.columns)(analysis)
    }

    fn section(&self, of: &Section, analysis: &Analysis) -> String {
        let columns = (self.columns)(analysis);
        let table = table_of_columns(of.title, (self.class)(columns.len()), &columns);
        table.map_or(String::new(), |table| {
            section(of.name, of.title, self.caption, &table)
        })
    }
}

/// Formats columns of texts as a table; `None` without columns.
pub(crate) fn table_of_columns(title: &str, class: &str, columns: &[Column]) -> Option<String> {
    let first = columns.first()?;
    let titles: Vec<&str> = columns.iter().map(|column| column.title.as_str()).collect();
    let row = |at: usize| {
        columns
            .iter()
            .map(|column| column.texts[at].clone())
            .collect()
    };
    let rows: Vec<Vec<String>> = (0..first.texts.len()).map(row).collect();
    let is_figure = |column: usize| columns[column].figures;
    Some(table_of_texts(title, class, &titles, is_figure, &rows))
}

/// All sections.
pub(crate) static SECTIONS: &[&Section] = &[
    &headline::SECTION,
    &choice::SECTION,
    &overview::SECTION,
    &charts::SECTION,
    &verdicts::SECTION,
    &comparison::SECTION,
    &pairs::SECTION,
    &own_baselines::SECTION,
    &request_time::SECTION,
    &deciding::SECTION,
    &help::SECTION,
    &jobs::SECTION,
    &nodes::SECTION,
    &prices::SECTION,
    &legacy::SECTION,
    &doubts::SECTION,
    &environment::SECTION,
    &records::SECTION,
];

/// Formats a section with its heading and a caption.
fn section(name: &str, title: &str, caption: &str, body: &str) -> String {
    classed(name, "", title, caption, body)
}

/// Formats a section with a CSS class.
pub(crate) fn classed(name: &str, class: &str, title: &str, caption: &str, body: &str) -> String {
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

/// This many panels are shown before the rest is folded.
const PANELS_SHOWN: usize = 12;

/// Shows the first panels and folds the rest: `5 more panels`.
fn folded<T>(panels: &[T], what: &str, grid: impl Fn(&[T]) -> String) -> String {
    // Don't fold just a few panels.
    let shown = match panels.len() {
        few if few <= PANELS_SHOWN + 2 => few,
        _ => PANELS_SHOWN,
    };
    let (first, rest) = panels.split_at(shown);
    let rest = match rest.len() {
        0 => String::new(),
        count => format!(
            "<details class=\"more\"><summary>{count} more {what}</summary>{}</details>",
            grid(rest)
        ),
    };
    grid(first) + &rest
}

/// Colours the marks of verdicts in a legend.
fn coloured(legend: &str) -> String {
    legend
        .replace("▲ faster", "<span class=\"faster\">▲ faster</span>")
        .replace("▼ slower", "<span class=\"slower\">▼ slower</span>")
}

/// Formats a part that is folded on a phone, where a page of all workloads would be endless, and
/// open elsewhere: see the style sheet. `summary` is HTML that names the contents.
fn fold(class: &str, summary: &str, body: &str) -> String {
    let space = if class.is_empty() { "" } else { " " };
    format!("<details class=\"fold{space}{class}\"><summary>{summary}</summary>{body}</details>")
}

/// Formats a table that becomes a list of cards if there is no room. Each cell must be made by
/// [`cell`], so that a card can name it.
pub(crate) fn table(title: &str, class: &str, head: &str, bodies: &str) -> String {
    format!(
        "<div class=\"frame\"><table class=\"{class}\"><caption class=\"hidden\">{title}</caption>\
         <thead><tr>{head}</tr></thead>{bodies}</table></div>"
    )
}

/// Formats a table of texts, each row with its name first. Columns with figures are aligned right.
pub(crate) fn table_of_texts(
    title: &str,
    class: &str,
    columns: &[&str],
    is_figure: impl Fn(usize) -> bool,
    rows: &[impl AsRef<[String]>],
) -> String {
    let of = |column: usize| {
        if is_figure(column) {
            " class=\"n\""
        } else {
            ""
        }
    };
    let head: String = (columns.iter().enumerate())
        .map(|(at, title)| format!("<th scope=\"col\"{}>{}</th>", of(at), escape(title)))
        .collect();
    let rows = rows.iter().map(|row| {
        let cells = row.as_ref().iter().enumerate().map(|(at, text)| match at {
            0 => format!("<th scope=\"row\">{}</th>", escape(text)),
            _ => cell(columns[at], of(at), &escape(text)),
        });
        format!("<tr>{}</tr>", cells.collect::<String>())
    });
    let body = format!("<tbody>{}</tbody>", rows.collect::<String>());
    table(title, class, &head, &body)
}

/// Formats a cell of a table from its column, its attributes (classes and style), and its content.
pub(crate) fn cell(column: &str, attributes: &str, content: &str) -> String {
    let column = escape(column);
    format!("<td data-column=\"{column}\"{attributes}>{content}</td>")
}

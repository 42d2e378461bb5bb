//! What clients saw before, during and after jobs.

use spindles_measure::Analysis;

use super::{Body, Section, cell, section, table};
use crate::jobs;
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "jobs",
    title: "Beside jobs",
    body: Body::One(body),
};

/// Columns that are texts; figures follow.
const TEXTS: usize = 2;

fn body(analysis: &Analysis) -> String {
    let rows = jobs::rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let class = |column: usize| match column {
        0..TEXTS => "",
        _ => " class=\"n\"",
    };
    let head: String = (jobs::COLUMNS.iter().enumerate())
        .map(|(at, title)| format!("<th scope=\"col\"{}>{title}</th>", class(at)))
        .collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let cells = row.iter().enumerate().map(|(at, text)| match at {
                0 => format!("<th scope=\"row\">{}</th>", escape(text)),
                _ => cell(jobs::COLUMNS[at], class(at), &escape(text)),
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        })
        .collect();
    let body = format!("<tbody>{rows}</tbody>");
    let table = table(SECTION.title, "full loose", &head, &body);
    section(SECTION.name, SECTION.title, jobs::CAPTION, &table)
}

//! Systems beside baselines of their own.

use spindles_measure::Analysis;

use super::{Body, Section, cell, section, table};
use crate::own_baselines::{CAPTION, COLUMNS, FIGURES, rows};
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "own-baselines",
    title: "Beside their own baselines",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let rows = rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let class = |column: usize| {
        if FIGURES.contains(&column) {
            " class=\"n\""
        } else {
            ""
        }
    };
    let head: String = (COLUMNS.iter().enumerate())
        .map(|(at, title)| format!("<th scope=\"col\"{}>{title}</th>", class(at)))
        .collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let cells = row.iter().enumerate().map(|(at, text)| match at {
                0 => format!("<th scope=\"row\">{}</th>", escape(text)),
                _ => cell(COLUMNS[at], class(at), &escape(text)),
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        })
        .collect();
    let body = format!("<tbody>{rows}</tbody>");
    let table = table(SECTION.title, "full", &head, &body);
    section(SECTION.name, SECTION.title, CAPTION, &table)
}

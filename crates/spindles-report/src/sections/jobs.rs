//! What clients saw before, during and after jobs.

use spindles_measure::Analysis;

use super::{Body, Section, section};
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
                _ => format!("<td{}>{}</td>", class(at), escape(text)),
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        })
        .collect();
    let table = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
         <table class=\"full\"><caption class=\"hidden\">{0}</caption>\
         <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        SECTION.title,
    );
    section(SECTION.name, SECTION.title, jobs::CAPTION, &table)
}

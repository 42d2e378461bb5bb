//! Latencies of clients before, during and after jobs.

use spindles_measure::Analysis;

use super::{Body, Section, section, table_of_texts};
use crate::jobs;

pub(super) static SECTION: Section = Section {
    name: "jobs",
    title: "Latency around jobs",
    body: Body::One(body),
};

/// Number of text columns; figures follow.
const TEXTS: usize = 2;

fn body(analysis: &Analysis) -> String {
    let rows = jobs::rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let is_figure = |column: usize| column >= TEXTS;
    let table = table_of_texts(SECTION.title, "full loose", jobs::COLUMNS, is_figure, &rows);
    section(SECTION.name, SECTION.title, jobs::CAPTION, &table)
}

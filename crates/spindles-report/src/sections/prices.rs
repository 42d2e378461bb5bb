//! Prices of systems per capacity and per rate.

use spindles_measure::Analysis;

use super::{Body, Section, section, table_of_texts};
use crate::prices::{CAPTION, columns, rows};

pub(super) static SECTION: Section = Section {
    name: "prices",
    title: "Prices",
    body: Body::One(body),
};

/// With more columns than this, the table becomes cards.
const COLUMNS_MAX: usize = 8;

fn body(analysis: &Analysis) -> String {
    let rows = rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let columns = columns(analysis);
    let titles: Vec<&str> = columns.iter().map(String::as_str).collect();
    let class = match titles.len() {
        0..=COLUMNS_MAX => "glance",
        _ => "glance cards",
    };
    let table = table_of_texts(SECTION.title, class, &titles, |column| column > 0, &rows);
    section(SECTION.name, SECTION.title, CAPTION, &table)
}

//! Comparisons of systems with baselines of their own.

use spindles_measure::Analysis;

use super::{Body, Section, section, table_of_texts};
use crate::own_baselines::{CAPTION, COLUMNS, FIGURES, rows};

pub(super) static SECTION: Section = Section {
    name: "own-baselines",
    title: "Against their own baselines",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let rows = rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let is_figure = |column: usize| FIGURES.contains(&column);
    let table = table_of_texts(SECTION.title, "full", COLUMNS, is_figure, &rows);
    section(SECTION.name, SECTION.title, CAPTION, &table)
}

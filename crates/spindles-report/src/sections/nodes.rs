//! Results by machine, if the experiment ran on several machines.

use spindles_measure::Analysis;

use super::{Body, Section, section, table_of_texts};
use crate::nodes;

pub(super) static SECTION: Section = Section {
    name: "nodes",
    title: "On several machines",
    body: Body::One(body),
};

/// Number of text columns; figures follow.
const TEXTS: usize = 2;

fn body(analysis: &Analysis) -> String {
    let rows = nodes::rows(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let is_figure = |column: usize| column >= TEXTS;
    let table = table_of_texts(
        SECTION.title,
        "full loose",
        nodes::COLUMNS,
        is_figure,
        &rows,
    );
    section(SECTION.name, SECTION.title, nodes::CAPTION, &table)
}

//! The matrix as lines of text, within a width and a number of lines.

use std::cmp::Reverse;

use spindles_measure::Analysis;

use crate::choice::{self, Matrix, Row};

/// Spaces between columns.
const GAP: usize = 2;
/// Fewest workloads shown, however little room there is.
const ROWS_MIN: usize = 3;

/// A table of texts: a row of titles, then the other rows.
type Grid = Vec<Vec<String>>;

/// Formats the matrix for this width, with at most this many rows below its titles. Systems are
/// columns, or rows if there are too many of them for the width. Returns the numbers of systems and
/// workloads left out, in words.
pub(crate) fn fitted(
    analysis: &Analysis,
    matrix: &Matrix<'_>,
    width: usize,
    rows_max: usize,
) -> (Grid, String) {
    let rows_max = rows_max.max(matrix.facts.len() + ROWS_MIN);
    let fits = |grid: &Grid| width_of(grid) <= width && grid.len() <= rows_max + 1;
    let all: Vec<usize> = (0..matrix.systems.len()).collect();
    for grid in [across(matrix, &all, &matrix.rows), down(matrix)] {
        if fits(&grid) {
            return (grid, String::new());
        }
    }
    let rows = matrix.rows.len().min(rows_max - matrix.facts.len());
    let rows = &matrix.rows[..rows];
    // Keep the systems that are among the best most often.
    let mut shown = all.clone();
    shown.sort_by_key(|at| Reverse(analysis.choice.best_in(&matrix.systems[*at].name)));
    let grid = loop {
        let mut in_order = shown.clone();
        in_order.sort_unstable();
        let grid = across(matrix, &in_order, rows);
        if width_of(&grid) <= width || shown.len() < 2 {
            break grid;
        }
        shown.pop();
    };
    let left_out = [
        (all.len() - shown.len(), "system"),
        (matrix.rows.len() - rows.len(), "workload"),
    ];
    let left_out = left_out.into_iter().filter(|(count, _)| *count > 0);
    let left_out = left_out.map(|(count, what)| {
        let s = if count == 1 { "" } else { "s" };
        format!("{count} more {what}{s}")
    });
    (grid, left_out.collect::<Vec<_>>().join(" and "))
}

/// Workloads as rows, these systems as columns.
fn across(matrix: &Matrix<'_>, systems: &[usize], rows: &[Row<'_>]) -> Grid {
    let line = |title: &str, text: &dyn Fn(usize) -> String| {
        let texts = systems.iter().map(|at| text(*at));
        std::iter::once(title.to_owned()).chain(texts).collect()
    };
    let titles = line("", &|at| matrix.systems[at].name.clone());
    let facts = matrix.facts.iter();
    let facts = facts.map(|(name, texts)| line(name, &|at| texts[at].clone()));
    let rows = rows.iter().map(|row| line(&row.name, &|at| place(row, at)));
    std::iter::once(titles).chain(facts).chain(rows).collect()
}

/// Systems as rows, workloads as columns.
fn down(matrix: &Matrix<'_>) -> Grid {
    let line = |title: &str, fact: &dyn Fn(usize) -> String, text: &dyn Fn(&Row<'_>) -> String| {
        let facts = (0..matrix.facts.len()).map(fact);
        let texts = facts.chain(matrix.rows.iter().map(text));
        std::iter::once(title.to_owned()).chain(texts).collect()
    };
    let titles = line("", &|fact| matrix.facts[fact].0.to_owned(), &|row| {
        row.name.clone()
    });
    let systems = matrix.systems.iter().enumerate();
    let systems = systems.map(|(at, system)| {
        line(
            &system.name,
            &|fact| matrix.facts[fact].1[at].clone(),
            &|row| place(row, at),
        )
    });
    std::iter::once(titles).chain(systems).collect()
}

fn place(row: &Row<'_>, system: usize) -> String {
    row.places[system].map_or(String::new(), choice::cell)
}

/// Width of a line in characters.
fn width_of(grid: &Grid) -> usize {
    let widths = column_widths(grid);
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn column_widths(grid: &Grid) -> Vec<usize> {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let texts = grid.iter().map(|row| row[column].chars().count());
        texts.max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Formats a grid as lines, with a rule below the titles. The first column is aligned left, all
/// others right.
pub(crate) fn lines(grid: &Grid) -> Vec<String> {
    let widths = column_widths(grid);
    let mut lines: Vec<String> = grid
        .iter()
        .map(|row| {
            let mut line = String::new();
            for (column, (text, width)) in row.iter().zip(&widths).enumerate() {
                let space = " ".repeat(width - text.chars().count());
                line += &match column {
                    0 => format!("{text}{space}"),
                    _ => format!("{}{space}{text}", " ".repeat(GAP)),
                };
            }
            line.trim_end().to_owned()
        })
        .collect();
    lines.insert(1.min(lines.len()), "─".repeat(width_of(grid)));
    lines
}

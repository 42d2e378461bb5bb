//! The printed map of every level and layout, compared with tables that were checked by hand
//! against the formulas. `SPINDLES_UPDATE=1` rewrites them: then review the difference.

use spindles_layout::{Expression, LEVELS, Numbers, Redundancy, Table};
use std::fmt::Write as _;

const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables.txt");

/// Further tables besides the one of every layout: odd numbers of members and copies, and nests,
/// each with its number of stripes.
const FURTHER: &[(&str, u32)] = &[
    ("raid0(1)", 2),
    ("raid1(2)", 3),
    ("raid10(4)", 3),
    ("raid10:near3(5)", 4),
    ("raid10:near3(4)", 4),
    ("raid10:far2(4)", 3),
    ("raid10:far3(5)", 2),
    ("raid10:near2far2(4)", 3),
    ("raid10:offset2(4)", 4),
    ("raid10:offset3(4)", 7),
    ("raid5(2)", 4),
    ("raid6:left-asymmetric(4)", 4),
    ("raid0(raid5(3),raid5(3))", 3),
    ("raid1(raid0(2),raid0(2))", 2),
    ("raid10:far2(raid5(3),raid5(3))", 2),
    ("raid5(raid1(2),raid5(3),raid1(2))", 3),
];

fn expressions() -> Vec<(String, u32)> {
    let mut expressions = Vec::new();
    for level in LEVELS {
        for row in level.layouts {
            let members = match level.redundancy {
                Redundancy::Parity(chunks) => chunks + 3,
                Redundancy::Copies => 5,
                _ => 3,
            };
            let layout = match row.name {
                "" => String::new(),
                name => format!(":{name}"),
            };
            expressions.push((format!("{level}{layout}({members})"), 7));
        }
    }
    let further = FURTHER
        .iter()
        .map(|(text, rows)| ((*text).to_owned(), *rows));
    expressions.extend(further);
    expressions
}

#[test]
fn layout_tables_equal_the_hand_checked_ones() {
    let mut text = String::new();
    for (expression, stripes) in expressions() {
        let parsed = Expression::parse_counted(&expression).expect(&expression);
        let numbers = Table::numbers_default(&parsed);
        let table = Table::new(&parsed, stripes, numbers).expect(&expression);
        writeln!(text, "{expression}\n{table}").unwrap();
    }
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        std::fs::write(TABLES, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(TABLES).unwrap(), text);
}

#[test]
fn data_numbering_can_continue_through_the_array() {
    let parsed = Expression::parse_counted("raid6(5)").unwrap();
    let table = Table::new(&parsed, 2, Numbers::Array).unwrap();
    assert_eq!(
        table.to_string(),
        "stripe  0  1  2  3  4\n     \
              0  Q  D0 D1 D2 P\n     \
              1  D3 D4 D5 P  Q\n"
    );
}

//! The tables of `docs/reference/levels.md` match the level table, and `maps.txt` has the map of
//! every layout. `SPINDLES_UPDATE=1` rewrites them.

use spindles_block::SizeBytes;
use spindles_layout::{Expression, LEVELS, Level, Redundancy, Table};
use std::fmt::Write as _;

const LEVELS_MD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/levels.md"
);

const MAPS_TXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps.txt");

#[test]
fn every_layout_has_its_kept_map() {
    let maps = maps(|_, _| true);
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        std::fs::write(MAPS_TXT, &maps).expect("maps.txt is written");
        return;
    }
    let kept = std::fs::read_to_string(MAPS_TXT).expect("maps.txt");
    assert_eq!(maps, kept, "crates/spindles-layout/tests/maps.txt differs");
}

#[test]
fn docs_match_the_table_of_levels() {
    let on_disk = std::fs::read_to_string(LEVELS_MD).expect("docs/reference/levels.md");
    let mut text = on_disk.clone();
    for (name, part) in [
        ("levels", levels()),
        ("layouts", layouts()),
        ("maps", maps(is_in_docs)),
    ] {
        text = with_part(&text, name, &part);
    }
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        std::fs::write(LEVELS_MD, &text).expect("docs/reference/levels.md is written");
        return;
    }
    assert!(
        text == on_disk,
        "docs/reference/levels.md is stale: SPINDLES_UPDATE=1 cargo test -p spindles-layout"
    );
}

fn with_part(text: &str, name: &str, part: &str) -> String {
    let begin = format!("<!-- {name}: SPINDLES_UPDATE=1 cargo test -p spindles-layout -->\n");
    let end = format!("<!-- {name} end -->");
    let (before, rest) = text.split_once(&begin).expect("the part begins");
    let (_, after) = rest.split_once(&end).expect("the part ends");
    format!("{before}{begin}{part}{end}{after}")
}

fn levels() -> String {
    let mut text = "| level | | members | holds | survives | default chunk |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for level in LEVELS {
        let Level {
            name,
            summary,
            members_min,
            capacity,
            survives,
            ..
        } = level;
        let note = level
            .note
            .map_or(String::new(), |(usual, _)| format!(" (usually ≥ {usual})"));
        let chunk = SizeBytes(level.chunk_bytes.into());
        let row = format!("`{name}` | {summary} | ≥ {members_min}{note} | {capacity} | {survives}");
        writeln!(text, "| {row} | {chunk} |").expect("strings take everything");
    }
    text
}

fn layouts() -> String {
    // Levels with the same layout share its line.
    let mut lines: Vec<(String, String)> = Vec::new();
    for level in LEVELS {
        for row in level.layouts.iter().filter(|row| !row.name.is_empty()) {
            let layout = format!("`{}`: {}", level.written(row), row.summary);
            match lines.iter_mut().find(|(_, known)| *known == layout) {
                Some((levels, _)) => {
                    write!(levels, ", `{level}`").expect("strings take everything");
                }
                None => lines.push((format!("`{level}`"), layout)),
            }
        }
    }
    lines
        .into_iter()
        .fold(String::new(), |mut text, (levels, layout)| {
            writeln!(text, "- {levels} {layout}").expect("strings take everything");
            text
        })
}

/// Returns true if the document shows this map. Of levels with several layouts it shows the
/// default, and all layouts of copies.
fn is_in_docs(level: &Level, layout: &str) -> bool {
    let has_several = level.layouts.len() > 1;
    has_several && (level.redundancy == Redundancy::Copies || layout == level.layouts[0].name)
}

fn maps(is_chosen: fn(&Level, &str) -> bool) -> String {
    let mut text = String::new();
    for level in LEVELS {
        let rows = level.layouts.iter();
        for row in rows.filter(|row| is_chosen(level, row.name)) {
            let members = match level.redundancy {
                Redundancy::Parity(chunks) => chunks + 3,
                Redundancy::Copies => 5,
                _ => 3,
            };
            let layout = match row.name {
                "" => String::new(),
                name => format!(":{name}"),
            };
            let expression = format!("{level}{layout}({members})");
            let parsed = Expression::parse_counted(&expression).expect("an expression");
            let numbers = Table::numbers_default(&parsed);
            let table = Table::new(&parsed, 4, numbers).expect("a table");
            write!(text, "`{expression}`\n\n```\n{table}```\n\n").expect("strings take everything");
        }
    }
    text
}

//! The tables of `docs/reference/format.md` agree with those of the code.

use spindles_format::versions::VERSIONS;
use spindles_format::{
    AreaKind, BITMAP_FIELDS, BITMAP_PAGE_BYTES, CHECKSUM_FIELDS, CHECKSUM_PART_BYTES,
    JOURNAL_DEVICE_FIELDS, SLOT_BYTES, SPARE_FIELDS, STAGE_FIELDS, SUPERBLOCK_BYTES,
};

/// Returns the cells of the tables in the section with this heading, one table after another. A
/// table is one of Markdown, or a block of text with at least two spaces between columns.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let page = include_str!("../../../docs/reference/format.md");
    let from = page.find(heading).expect("the section is there") + heading.len();
    let section = &page[from..];
    let end = section.find("\n#").unwrap_or(section.len());
    let mut is_text = false;
    let mut rows = Vec::new();
    for line in section[..end].lines() {
        is_text ^= line.starts_with("```");
        let cells: Vec<&str> = if is_text {
            line.split("  ").map(str::trim).collect()
        } else if let Some(row) = line.strip_prefix("| ") {
            row.trim_end_matches('|')
                .split('|')
                .map(str::trim)
                .collect()
        } else {
            continue;
        };
        if cells[0].starts_with(|first: char| first.is_ascii_digit()) {
            rows.push(cells.into_iter().filter(|cell| !cell.is_empty()).collect());
        }
    }
    rows
}

#[test]
fn the_superblock_is_as_documented() {
    for version in VERSIONS {
        let documented = rows(&format!("## The superblock, version {}", version.number));
        let fields = version.fields.iter().map(|(offset, length, name)| {
            [offset.to_string(), length.to_string(), (*name).to_owned()]
        });
        assert!(
            documented.into_iter().eq(fields),
            "version {}",
            version.number
        );
    }
}

#[test]
fn bitmap_pages_are_as_documented() {
    let documented = rows("## The bitmaps");
    let fields = BITMAP_FIELDS
        .iter()
        .map(|(offset, length, name)| [offset.to_string(), length.to_string(), (*name).to_owned()]);
    assert!(documented.into_iter().eq(fields));
}

#[test]
fn checksum_pages_are_as_documented() {
    let documented = rows("## The checksums");
    let fields = CHECKSUM_FIELDS
        .iter()
        .map(|(offset, length, name)| [offset.to_string(), length.to_string(), (*name).to_owned()]);
    assert!(documented.into_iter().eq(fields));
}

#[test]
fn spares_are_as_documented() {
    let documented = rows("## Spares");
    let fields = SPARE_FIELDS
        .iter()
        .map(|(offset, length, name)| [offset.to_string(), length.to_string(), (*name).to_owned()]);
    assert!(documented.into_iter().eq(fields));
}

#[test]
fn journal_devices_are_as_documented() {
    let documented = rows("## The device of a journal");
    let fields = JOURNAL_DEVICE_FIELDS
        .iter()
        .map(|(offset, length, name)| [offset.to_string(), length.to_string(), (*name).to_owned()]);
    assert!(documented.into_iter().eq(fields));
}

#[test]
fn descriptors_of_a_stage_are_as_documented() {
    let documented = rows("## The stage");
    let fields = STAGE_FIELDS
        .iter()
        .map(|(offset, length, name)| [offset.to_string(), length.to_string(), (*name).to_owned()]);
    let descriptor = &documented[..STAGE_FIELDS.len()];
    assert!(descriptor.iter().cloned().eq(fields));
    let header = &documented[STAGE_FIELDS.len()..];
    let offsets = [
        "0", "8", "12", "16", "32", "40", "48", "56", "64", "68", "69", "72", "76", "88",
    ];
    assert!(header.iter().map(|row| row[0]).eq(offsets));
}

/// The fields of each table are adjacent.
#[test]
fn tables_have_no_gaps() {
    let superblock = rows("## The superblock, version 1");
    let areas = rows("### Area table");
    let members = rows("### Member table");
    let bitmap = rows("## The bitmaps");
    let checksums = rows("## The checksums");
    let spares = rows("## Spares");
    for (table, bytes) in [
        (&superblock[..], SUPERBLOCK_BYTES),
        (&spares[..], SUPERBLOCK_BYTES),
        (&rows("## The device of a journal")[..], SUPERBLOCK_BYTES),
        (
            &rows("## The stage")[..STAGE_FIELDS.len()],
            SUPERBLOCK_BYTES,
        ),
        (&areas[..6], 32),
        (&members[..], 48),
        (&bitmap[..], BITMAP_PAGE_BYTES),
        (&checksums[..], CHECKSUM_PART_BYTES),
    ] {
        let end = table.iter().fold(0_usize, |end, row| {
            assert_eq!(row[0].parse(), Ok(end), "{row:?}");
            end + row[1].parse::<usize>().expect("a length")
        });
        assert_eq!(end, bytes);
    }
    let kinds = AreaKind::NAMES.map(|(kind, name)| [kind.0.to_string(), name.to_owned()]);
    assert!(areas.into_iter().skip(6).eq(kinds));
}

#[test]
fn the_slots_are_as_documented() {
    let slots: Vec<String> = rows("## A member")
        .iter()
        .filter(|row| row[1].starts_with("superblock slot"))
        .map(|row| row[0].to_owned())
        .collect();
    let bytes = u64::try_from(SUPERBLOCK_BYTES).expect("4096");
    let expected = SLOT_BYTES.map(|slot| format!("{slot} to {}", slot + bytes));
    assert_eq!(slots, expected);
}

//! The output of `mdadm --examine`, each line that may change the data.

use super::read;
use crate::public::tables::printed;
use std::fmt::Write as _;

/// A line of the output.
type Line<'a> = (&'a str, &'a str);

const LINES: [Line<'_>; 12] = [
    ("Magic", "a92b4efc"),
    ("Version", "1.2"),
    ("Feature Map", "0x0"),
    ("Raid Level", "raid5"),
    ("Raid Devices", "3"),
    ("Data Offset", "8 sectors"),
    ("State", "clean"),
    ("Checksum", "5faf703c - correct"),
    ("Events", "7"),
    ("Layout", "left-symmetric"),
    ("Chunk Size", "16K"),
    ("Array State", "AAA ('A' == active)"),
];

/// Returns the output for `a`, `b` and `c`. Changes replace a line of one device, or remove it if
/// empty.
fn output(changes: &[(&str, Line<'_>)]) -> String {
    let mut text = String::new();
    for (index, device) in ["a", "b", "c"].iter().enumerate() {
        writeln!(text, "{device}:").unwrap();
        let role = format!("Active device {index}");
        for (name, value) in LINES.into_iter().chain([("Device Role", role.as_str())]) {
            let mut changes = changes.iter();
            let change = changes.find(|(on, (of, _))| on.contains(device) && *of == name);
            let value = change.map_or(value, |(_, (_, value))| value);
            if !value.is_empty() {
                writeln!(text, "{name:>15} : {value}").unwrap();
            }
        }
    }
    text
}

/// Checks the members, `unclean` and the only note.
fn check(changes: &[(&str, Line<'_>)], members: &str, is_unclean: bool, note: &str) {
    let translation = read("mdadm", &output(changes), &[]).unwrap();
    let shape = translation.arrays[0].shape.expression.to_string();
    assert_eq!(shape, format!("raid5({members})"), "{changes:?}");
    assert_eq!(translation.arrays[0].unclean, is_unclean, "{changes:?}");
    let notes = &translation.notes;
    let is_noted = notes.iter().any(|had| had.text.contains(note));
    assert!(is_noted, "{changes:?} {notes:?}");
}

#[test]
fn lines_that_change_the_data_are_noted() {
    let plain = read("mdadm", &output(&[]), &[]).unwrap();
    assert_eq!(plain.notes, []);
    assert!(!plain.arrays[0].unclean);
    assert_eq!(
        printed(&plain),
        "@raid5(slice(a,8s),slice(b,8s),slice(c,8s)) = raid5(a,b,c) 16K"
    );
    for (device, line, members, is_unclean, note) in [
        (
            "b",
            ("Feature Map", "0x8"),
            "a,b,c",
            false,
            "b has bad blocks in its log",
        ),
        (
            "a",
            ("Checksum", "5faf703c - expected 5faf703d"),
            "missing,b,c",
            false,
            "the checksum of a's superblock is wrong",
        ),
        (
            "abc",
            ("Feature Map", "0x200"),
            "a,b,c",
            true,
            "md's journal is not read",
        ),
        (
            "c",
            ("Feature Map", "0x2"),
            "a,b,missing",
            false,
            "c is being rebuilt",
        ),
        ("b", ("State", ""), "a,b,c", true, "b has no line 'State :'"),
        ("b", ("State", "active"), "a,b,c", true, "is 'active'"),
        (
            "a",
            ("State", "clean TIME OUT OF SYNC"),
            "a,b,c",
            true,
            "OUT OF SYNC",
        ),
        (
            "a",
            ("State", "clean, degraded, recovering"),
            "a,b,c",
            true,
            "degraded",
        ),
        (
            "c",
            ("Events", "18446744073709551615"),
            "missing,missing,c",
            false,
            "a is stale",
        ),
        (
            "c",
            ("Events", "18446744073709551615"),
            "missing,missing,c",
            false,
            "too many members are missing",
        ),
    ] {
        check(&[(device, line)], members, is_unclean, note);
    }
}

#[test]
fn the_log_of_bad_blocks_is_noted() {
    let log =
        "  Bad Block Log : 512 entries available at offset 16 sectors - bad blocks present.\n";
    let text = output(&[]).replace("b:\n", &format!("b:\n{log}"));
    let translation = read("mdadm", &text, &[]).unwrap();
    assert_eq!(translation.notes[0].line, 16);
    assert!(translation.notes[0].text.starts_with("b has bad blocks"));
}

/// Version 0.90 names absent devices in a table, and once printed its events as two numbers.
#[test]
fn the_table_of_the_first_version_has_a_say() {
    let section = |device: &str, index: u8, events: &str, states: [&str; 3]| {
        let mut text = format!(
            "{device}:\n Magic : a92b4efc\n Version : 0.90.00\n Raid Level : raid5\n \
             Raid Devices : 3\n Used Dev Size : 2496\n State : clean\n Events : {events}\n \
             Layout : left-symmetric\n Chunk Size : 64K\n"
        );
        writeln!(text, "this {index} 7 {index} {index} active sync").unwrap();
        for (index, state) in states.iter().enumerate() {
            writeln!(text, " {index} {index} 7 {index} {index} {state}").unwrap();
        }
        text
    };
    let all = ["active sync"; 3];
    let lacks = ["active sync", "faulty removed", "active sync"];
    for (events, states, members, note) in [
        (
            ["0.18", "0.17", "0.18"],
            lacks,
            "a,missing,c",
            "b is out, by the newest",
        ),
        (
            ["1.2", "0.9", "1.2"],
            all,
            "a,missing,c",
            "b is stale, with 9 events of 4294967298",
        ),
        (["0.18", "0.17", "0.18"], all, "a,b,c", ""),
    ] {
        let devices = ["a", "b", "c"].iter().zip(0..).zip(events);
        let text = devices.map(|((device, index), events)| section(device, index, events, states));
        let translation = read("mdadm", &text.collect::<String>(), &[]).unwrap();
        let shape = translation.arrays[0].shape.expression.to_string();
        assert_eq!(shape, format!("raid5({members})"), "{events:?}");
        let notes: String = translation
            .notes
            .iter()
            .map(|had| had.text.as_str())
            .collect();
        assert!(notes.contains(note), "{notes}");
        assert_eq!(notes.is_empty(), note.is_empty(), "{notes}");
    }
}

#[test]
fn what_the_superblocks_dont_say_is_an_error() {
    let error = read("mdadm", &output(&[("b", ("Events", ""))]), &[]).unwrap_err();
    assert!(
        error
            .message
            .contains("the line 'Events :' of b is missing"),
        "{error}"
    );
    for (line, place, message) in [
        (
            ("Data Offset", ""),
            "1:1",
            "the line 'Data Offset :' of a is missing",
        ),
        (("Layout", ""), "1:1", "the line 'Layout :' of a is missing"),
        (("Version", "1.3"), "3:19", "there is no version 1.3 of md"),
        (("Version", "0.91.00"), "3:19", "one during a reshape"),
        (
            ("Version", ""),
            "1:1",
            "the line 'Version :' of a is missing",
        ),
        (
            ("Feature Map", "0x2001"),
            "4:19",
            "feature 0x2000 is not known",
        ),
        (("Feature Map", "zero"), "4:19", "a feature map, as 0x8,"),
        (("Feature Map", "0x4"), "4:19", "a reshape is under way"),
        (
            ("Array State", "A..."),
            "13:19",
            "4 states of 3 devices: the two have to agree",
        ),
        (("Array State", "AxA"), "13:19", "'x' is no state"),
        (
            ("Checksum", "1 - expected 2"),
            "1:1",
            "no active member of this array is given with a correct checksum",
        ),
    ] {
        let error = read("mdadm", &output(&[("abc", line)]), &[]).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        assert_eq!(format!("{}:{}", error.line, error.column), place, "{error}");
    }
}

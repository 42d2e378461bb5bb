//! Texts at the limits: large numbers, long words, marks that show a text as another, and notes of
//! many lines.

use super::bad::{self, SIZES, in_full};
use super::{read, rows};
use spindles_dialects::recognise;

/// Numbers at the limits of 64 bits are read or refused in every place.
#[test]
fn numbers_of_any_size_are_no_overflow() {
    const NUMBERS: [&str; 4] = [
        "0",
        "9223372036854775807",
        "18446744073709551615",
        "36028797018963967",
    ];
    let texts = [
        ("mdadm", include_str!("mdadm.txt")),
        ("lvm", include_str!("lvm.txt")),
        ("zpool", include_str!("zpool.txt")),
        ("btrfs", include_str!("btrfs.txt")),
        ("storcli", include_str!("storcli.txt")),
    ];
    let texts = texts.into_iter().flat_map(|(dialect, table)| {
        let end = |line: &&str| line.starts_with("= ") || line.starts_with("! ");
        let lines: Vec<&str> = table
            .lines()
            .filter(|line| !line.starts_with("~ "))
            .collect();
        let texts: Vec<_> = lines
            .split(end)
            .map(|lines| (dialect, lines.join("\n")))
            .collect();
        texts
    });
    let mut count = 0;
    for (dialect, text) in texts.chain(bad::texts()).chain(rows::texts()) {
        let mut end = 0;
        while let Some(start) = text[end..].find(|c: char| c.is_ascii_digit()) {
            let start = end + start;
            let after = text[start..].find(|c: char| !c.is_ascii_digit());
            end = after.map_or(text.len(), |length| start + length);
            for number in NUMBERS {
                let changed = format!("{}{number}{}", &text[..start], &text[end..]);
                drop(read(dialect, &changed, SIZES));
                count += 1;
            }
        }
    }
    assert!(count > 5000, "{count}");
}

#[test]
fn errors_quote_the_beginning_of_a_long_word() {
    let word = "a".repeat(10 << 20);
    for (dialect, text) in [
        ("raidctl", word.clone()),
        ("ccd", format!("ccd0 {word} none a b")),
        ("vinum", format!("volume v {word}")),
        ("zpool", format!("zpool create {word}/ a")),
        ("mdadm", format!("mdadm -C x --{word}")),
        (
            "mdadm",
            format!("mdadm -C x -l '{}' -n2 a b", "a ".repeat(5 << 20)),
        ),
    ] {
        let error = read(dialect, &text, &[]).unwrap_err();
        assert!(
            error.message.chars().count() < 1100,
            "{dialect}: {}",
            error.message
        );
        let quoted = error.message.contains(&"a".repeat(44));
        assert!(
            !quoted && error.message.contains('…'),
            "{dialect}: {}",
            error.message
        );
    }
}

#[test]
fn texts_of_a_dialect_are_recognised_by_their_first_words() {
    let many = format!("ccd0 16 none{}", " a".repeat(5000));
    for (text, dialect) in [
        ("ccd0", Some("ccd")),
        ("# a comment\n\n  ccd0 auto none a b", Some("ccd")),
        (&many, Some("ccd")),
        ("/dev/ccd0", None),
        ("/dev/ccd0 16 none a b", Some("ccd")),
        (
            "drvie a device /a\ndrive b device /b\nvolume v\n",
            Some("vinum"),
        ),
        ("garbage\nvolume v\n plex org concat\n", Some("vinum")),
        ("A text of any kind.\nvolume one\n", None),
        ("ccd0 16 none a\0 b", None),
    ] {
        let found = recognise(text).map(|dialect| dialect.name);
        assert_eq!(found, dialect, "{}", &text[..text.len().min(40)]);
    }
    let error = read("ccd", "ccd0", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 1, column 5: the interleave, a number of sectors is missing here"
    );
    let error = read("ccd", &many, &[]).unwrap_err();
    assert!(error.message.contains("more than 4096 words"), "{error}");
}

/// Marks of the direction of writing would show other words than those of the text.
#[test]
fn marks_of_direction_are_escaped() {
    let error = read("zpool", "zpool create t a\u{202e}b", &[]).unwrap_err();
    assert_eq!(
        error.message,
        "'a\\u{202e}b' is no text: no device has such a name"
    );
    let translation = read("zpool", "zpool create -m /\u{2066}x t a", &[]).unwrap();
    let notes = &translation.notes;
    assert!(notes[0].text.contains("/\\u{2066}x"), "{notes:?}");
}

#[test]
fn notes_of_equal_text_have_all_lines() {
    let text = "zpool create -f t a\nzpool add -f t b\nzpool create u c\nzpool add -f u d";
    let translation = read("zpool", text, &[]).unwrap();
    let notes: Vec<_> = translation
        .notes
        .iter()
        .map(|note| (note.line, note.text.as_str()))
        .collect();
    assert!(
        notes.contains(&(1, "-f has no meaning here (also lines 2, 4)")),
        "{notes:?}"
    );
}

#[test]
fn too_many_missing_members_are_noted() {
    let text = "mdadm -C x -l5 -n3 a missing missing";
    for (dialect, text, is_lost) in [
        ("mdadm", text.to_owned(), true),
        ("mdadm", text.replace("missing missing", "b missing"), false),
        (
            "mdadm",
            "mdadm -C x -l10 -n4 a missing missing b".to_owned(),
            false,
        ),
        (
            "mdadm",
            "mdadm -C x -l10 -n4 missing missing a b".to_owned(),
            true,
        ),
        (
            "raidctl",
            in_full("@\n3 0\nSTART disks\na\nabsent\nabsent\n#").replace("1 1 0", "1 1 5"),
            true,
        ),
        (
            "raidctl",
            in_full("@\n3 0\nSTART disks\na\nb\nabsent\n#").replace("1 1 0", "1 1 5"),
            false,
        ),
    ] {
        let translation = read(dialect, &text, &[]).unwrap();
        let note = "too many members are missing";
        let found = translation.notes.iter().any(|had| had.text.contains(note));
        assert_eq!(found, is_lost, "{text}");
    }
}

//! Vinum's states and offsets.

use super::read;
use crate::public::tables::printed;

const MIRROR: &str = "drive a device /a
drive b device /b
volume v state up
plex name v.p0 org striped 8b vol v state up
sd name s0 drive a plex v.p0 len 16b state up
sd name s1 drive b plex v.p0 len 16b state up
plex name v.p1 org concat vol v state up
sd name s2 drive b plex v.p1 len 32b state up
";

const RAID5: &str = "drive a device /a
drive b device /b
drive c device /c state up
volume v
plex org raid5 8b
sd drive a len 16b state up
sd drive b len 16b state up
sd drive c len 16b state up
";

#[test]
fn parts_that_are_not_up_are_missing() {
    let whole = read("vinum", MIRROR, &[]).unwrap();
    let notes: Vec<&str> = (whole.notes.iter().map(|note| note.text.as_str())).collect();
    assert!(
        !notes.iter().any(|note| note.contains("state")),
        "{notes:?}"
    );
    for (line, state, note, shape) in [
        (4, "faulty", "plex v.p0 is faulty", "raid1(missing,b)"),
        (
            5,
            "stale",
            "sd s0 is stale: it is read as missing",
            "raid1(missing,b)",
        ),
        (8, "reborn", "sd s2 is reborn", "raid1(raid0(a,b),missing)"),
        (7, "new", "plex v.p1 is new", "raid1(raid0(a,b),missing)"),
        (3, "down", "state down of a volume", "raid1(raid0(a,b),b)"),
    ] {
        let translation = read("vinum", &with_state(MIRROR, line, state), &[]).unwrap();
        let found = translation.arrays[0].shape.expression.to_string();
        assert_eq!(found, shape, "{line} {state}");
        let mut notes = translation.notes.iter();
        let is_noted = |had: &spindles_dialects::Note| had.text.contains(note) && had.line == line;
        assert!(
            notes.any(is_noted),
            "{line} {state} {:?}",
            translation.notes
        );
    }
    for (line, state, shape) in [
        (6, "crashed", "raid5:left-asymmetric(missing,b,c)"),
        (3, "down", "raid5:left-asymmetric(a,b,missing)"),
    ] {
        let translation = read("vinum", &with_state(RAID5, line, state), &[]).unwrap();
        let found = translation.arrays[0].shape.expression.to_string();
        assert_eq!(found, shape, "{line} {state}");
    }
    // Its subdisk explains the plex.
    let degraded = with_state(RAID5, 6, "down").replace("raid5 8b", "raid5 8b state degraded");
    let translation = read("vinum", &degraded, &[]).unwrap();
    let found = translation.arrays[0].shape.expression.to_string();
    assert_eq!(found, "raid5:left-asymmetric(missing,b,c)");
}

#[test]
fn arrays_without_a_readable_plex_are_errors() {
    let two = with_state(&with_state(RAID5, 6, "stale"), 7, "obsolete");
    let both = with_state(&with_state(MIRROR, 4, "down"), 8, "stale");
    for (text, error) in [
        (
            two,
            "line 7, column 26: volume v has no plex that can be read: sd v.p0.s1 is obsolete",
        ),
        (
            both,
            "line 4, column 43: volume v has no plex that can be read",
        ),
        (
            RAID5.replace("raid5 8b", "raid5 8b state degraded"),
            "line 5, column 25: volume v has no plex",
        ),
        (
            with_state(MIRROR, 4, "down").replace(" vol v", " detached"),
            "line 4, column 46: plex v.p0 can't be read: plex v.p0 is down",
        ),
    ] {
        let found = read("vinum", &text, &[]).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }
}

#[test]
fn subdisks_lie_in_the_order_of_their_offsets() {
    let text = "drive a device /a\ndrive b device /b\ndrive c device /c\nvolume v\n\
                plex org concat\nsd len 8b drive a plexoffset 16b\n\
                sd len 8b drive b plexoffset 0\nsd len 8b drive c plexoffset 8b\n";
    let translation = read("vinum", text, &[]).unwrap();
    let shape = translation.arrays[0].shape.expression.to_string();
    assert_eq!(shape, "concat(b,c,a)");
    assert_eq!(
        printed(&translation),
        "@v: concat(slice(b,265s,8s),slice(c,265s,8s),slice(a,265s,8s)) = concat(b,c,a)"
    );
}

/// Returns a configuration with another state on a line, from 1.
fn with_state(text: &str, line: usize, state: &str) -> String {
    let lines = text.lines().enumerate().map(|(index, had)| {
        let had = if index + 1 == line {
            had.replace("state up", &format!("state {state}"))
        } else {
            had.to_owned()
        };
        had + "\n"
    });
    lines.collect()
}

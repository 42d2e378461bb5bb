//! `spindles layout`, run as a user types it: good and bad input.

use serde_json::{Value, json};
use std::process::Command;

/// Exit status, standard output, standard error.
fn layout(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .arg("layout")
        .args(arguments)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_map_is_printed() {
    let (status, out, err) = layout(&["raid6(5)", "--stripes", "3"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(
        out,
        "raid6 left-symmetric: 5 members, chunks of 64 KiB; holds all members but two; \
         survives any two missing members\n\
         \n\
         stripe  0  1  2  3  4\n     \
              0  Q  D0 D1 D2 P\n     \
              1  D0 D1 D2 P  Q\n     \
              2  D1 D2 P  Q  D0\n"
    );

    let (_, out, _) = layout(&[
        "raid5(a,b,c)",
        "--layout",
        "left-asymmetric",
        "--chunk",
        "12K",
    ]);
    assert!(
        out.starts_with("raid5 left-asymmetric: 3 members, chunks of 12 KiB"),
        "{out}"
    );
    assert!(
        out.ends_with("a  b  c\n     0  D0 D1 P\n     1  D0 P  D1\n     2  P  D0 D1\n"),
        "{out}"
    );

    let (_, out, _) = layout(&["raid5(3)", "--numbers", "array", "--stripes", "2"]);
    assert!(out.ends_with("0  D0 D1 P\n     1  D3 P  D2\n"), "{out}");

    let (status, out, err) = layout(&["raid5(2)"]);
    assert_eq!(status, Some(0));
    assert!(out.ends_with("0  D0 P\n     1  P  D0\n"), "{out}");
    assert!(
        err.starts_with("spindles: raid5 on two members is a mirror in effect"),
        "{err}"
    );
}

#[test]
fn the_map_is_printed_as_json() {
    let (status, out, _) = layout(&["raid10:far2(3)", "--stripes", "1", "--json"]);
    assert_eq!(status, Some(0));
    let map: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(map["layout"], "far 2");
    assert_eq!(map["chunk_bytes"], 65536);
    assert_eq!(map["columns"], json!(["0", "1", "2"]));
    assert_eq!(map["sections"], json!([1]));
    assert_eq!(map["rows"], json!([["D0", "D1", "D2"], ["C2", "C0", "C1"]]));
}

#[test]
fn help_lists_every_level() {
    let (status, out, _) = layout(&["--help"]);
    assert_eq!(status, Some(0));
    for level in spindles_layout::LEVELS {
        assert!(
            out.contains(level.summary.split(',').next().expect("words")),
            "{level}: {out}"
        );
    }
}

#[test]
fn errors_name_the_bad_input_and_the_remedy() {
    for (arguments, message) in [
        (&["raid5"][..], "lacks a level with its members here"),
        (
            &["raid5(4"],
            "lacks a ',' or a ')' here\n  raid5(4\n         ^",
        ),
        (&["raid5(0)"], "has a count that is not in 1..=64"),
        (
            &["raid11(4)"],
            "there is no level 'raid11'; there are concat, raid0, raid1,",
        ),
        (
            &["raid6(3)"],
            "raid6 needs at least 4 members, and there are 3: add members",
        ),
        (&["raid0(99)"], "has a count that is not in 1..=64"),
        (
            &["raid10:far9(4)"],
            "9 copies on 4 members: take at least 2",
        ),
        (
            &["raid0(4)", "--layout", "near"],
            "raid0 has no layout 'near'",
        ),
        (
            &["raid5(4)", "--layout", "far 2"],
            "it has left-symmetric, left-asymmetric",
        ),
        (
            &["raid5(4)", "--chunk", "0"],
            "--chunk 0: a chunk of 0 bytes: take at least one block",
        ),
        (
            &["raid5(4)", "--chunk", "1000"],
            "is not a multiple of the block of 512 bytes",
        ),
        (
            &["raid5(4)", "--chunk", "65M"],
            "a chunk above 64M: take 64M or less",
        ),
        (
            &["raid5(4)", "--chunk", "much"],
            "invalid value 'much' for '--chunk <SIZE>'",
        ),
        (&["raid5(4)", "--stripes", "0"], "0 is not in 1..=10000"),
        (&[], "<EXPR>"),
    ] {
        let (status, out, err) = layout(arguments);
        assert_eq!(
            (status, out.as_str()),
            (Some(2), ""),
            "{arguments:?}: {err}"
        );
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
}

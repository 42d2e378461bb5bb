//! `spindles sim`, run as a user types it.

use serde_json::Value;
use std::process::Command;

/// Exit status, standard output, standard error.
fn sim(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .arg("sim")
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
fn a_summary_covers_many_seeds() {
    let (status, out, err) = sim(&["--seeds", "0..8", "--twice"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("seeds 0..8: 8 runs in "), "{out}");
    assert!(out.ends_with("all promises were kept\n"), "{out}");

    let arguments = [
        "--seeds",
        "0..4",
        "--level",
        "raid6",
        "--members",
        "5",
        "--json",
    ];
    let (status, out, _) = sim(&arguments);
    assert_eq!(status, Some(0));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&value["runs"], &value["failures"]),
        (&4.into(), &Value::Array(vec![]))
    );
}

#[test]
fn one_seed_is_traced_and_replayed() {
    let run = ["--seed", "5", "--no-faults", "--ending", "power-loss"];
    let (status, end, _) = sim(&run);
    assert_eq!(status, Some(0));
    let arguments = [&run[..], &["--trace"]].concat();
    let (status, out, _) = sim(&arguments);
    assert_eq!(status, Some(0));
    assert!(out.contains("-- power loss\n"), "{out}");
    assert!(out.contains("request 1: ") && out.ends_with("all promises were kept\n"));
    assert_eq!(sim(&arguments).1, out);
    let (first, last) = end.split_once('\n').expect("many lines");
    assert!(
        first.ends_with(" lines before these: --trace tells all)"),
        "{first}"
    );
    assert!(out.ends_with(last) && last.lines().count() < 50, "{last}");
}

#[test]
fn invalid_arguments_are_refused() {
    let refused = [
        (&["--seeds", "9..3"][..], "write 0..1000"),
        (&["--level", "raid9"], "only concat, raid0"),
        (
            &["--level", "raid6", "--members", "3"],
            "raid6 needs at least 4",
        ),
        (&["--fault", "flood"], "only dropout"),
        (&["--disk", "tape"], "only memory"),
        (&["--members", "3"], "--level"),
    ];
    for (arguments, reason) in refused {
        let (status, out, err) = sim(arguments);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains(reason), "{arguments:?}: {err}");
    }
}

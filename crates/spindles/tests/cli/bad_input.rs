//! Every wrong input gives one clear error that names the thing and the remedy.

use crate::binary::spindles;

/// A command line, its exit status, and what the error says.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

fn check(cases: &[Case]) {
    for (arguments, status, texts) in cases {
        let run = spindles(arguments);
        run.fails(*status, texts);
        assert_eq!(run.out, "", "{arguments:?}");
        let with_json = [arguments, &["--json"][..]].concat();
        let run = spindles(&with_json);
        assert_eq!(run.status, *status, "{arguments:?} --json");
        let error = run.json()["error"].as_str().unwrap_or_default().to_owned();
        for text in *texts {
            assert!(error.contains(text), "{arguments:?} --json: {error}");
        }
    }
}

#[test]
fn layouts() {
    check(&[
        (&["layout"], 2, &["<EXPR>", "--help"]),
        (
            &["layout", "raid9(4)"],
            2,
            &["there is no level 'raid9'", "raid5, raid6"],
        ),
        (&["layout", "raid5(4"], 2, &["lacks", "raid5(4\n", "^"]),
        (&["layout", "raid5(99)"], 2, &["1..=64"]),
        (
            &["layout", "raid6(3)"],
            2,
            &["needs at least 4 members", "add members"],
        ),
        (
            &["layout", "raid5(4)", "--layout", "far"],
            2,
            &["no layout 'far'", "left-symmetric"],
        ),
        (
            &["layout", "raid5(4)", "--chunk", "64Q"],
            2,
            &["'64Q'", "K, M, G or T"],
        ),
        (
            &["layout", "raid5(4)", "--chunk", "0"],
            2,
            &["take at least one block"],
        ),
        (&["layout", "raid5(4)", "--chunk", "1T"], 2, &["64M"]),
        (&["layout", "raid5(4)", "--chunk", "1000"], 2, &["1000"]),
        (&["layout", "raid5(4)", "--stripes", "0"], 2, &["1..="]),
        (&["layout", "raid5(4)", "--stripes", "many"], 2, &["'many'"]),
    ]);
}

#[test]
fn labs_and_benches() {
    check(&[
        (
            &["lab", "run", "nothing.toml"],
            2,
            &[
                "no file and no built-in experiment \"nothing.toml\"",
                "quickstart",
            ],
        ),
        (
            &["lab", "run", "Cargo.toml"],
            2,
            &["Cargo.toml, line ", "unknown field `", "`workload`"],
        ),
        (
            &["lab", "run", "--blocks", "0"],
            2,
            &["--blocks", "1..=1000"],
        ),
        (
            &[
                "lab",
                "run",
                "--folder",
                "/no/such/folder",
                "--out",
                "/tmp/never-made",
            ],
            1,
            &["/no/such/folder", "can't be made there"],
        ),
        (
            &["lab", "list", "--show", "x"],
            2,
            &["experiment \"x\"", "your-devices"],
        ),
        (
            &["lab", "report", "src"],
            1,
            &["src holds no records.jsonl", "spindles lab run"],
        ),
        (
            &["lab", "report", "src", "--format", "pdf"],
            2,
            &["'pdf'", "csv"],
        ),
        (
            &["lab", "compare", "src", "src"],
            1,
            &["src holds no records.jsonl"],
        ),
        (
            &["bench", "bonnie", "single"],
            2,
            &["no workload \"bonnie\"", "seeks"],
        ),
        (&["bench", "dd-read", "raid9(4)"], 2, &["no level 'raid9'"]),
        (
            &["bench", "dd-read", "single", "--size", "4K"],
            2,
            &["dd-read: a size of 4096 bytes", "choose a larger size"],
        ),
        (
            &["bench", "dd-read", "single", "--operations", "4"],
            2,
            &["dd-read goes through the whole size once"],
        ),
        (
            &["bench", "block-write", "Cargo.toml", "--size", "8K"],
            1,
            &["Cargo.toml", "--force"],
        ),
        (
            &["bench", "dd-read", "/no/such/device"],
            1,
            &["/no/such/device"],
        ),
        (
            &["bench", "dd-read", "array:a,,b"],
            2,
            &["lacks the name of a device here"],
        ),
    ]);
}

#[test]
fn devices_and_files() {
    check(&[
        (
            &["status", "/nonexistent/a.img"],
            1,
            &["can't open /nonexistent/a.img"],
        ),
        (
            &["copy", "/nonexistent/a", "null:1M"],
            1,
            &["can't open /nonexistent/a"],
        ),
        (&["copy", "-", "null:1M"], 2, &["give a file"]),
        (&["copy", "mem:1M"], 2, &["<TO>", "--help"]),
        (
            &["copy", "mem:1X", "null:1M"],
            2,
            &["mem:1X", "K, M, G or T"],
        ),
        (
            &["copy", "mem:2M", "null:1M"],
            1,
            &["null:1M", "take something larger"],
        ),
        (
            &["copy", "mem:1M", "array:"],
            2,
            &["lacks the name of a device here"],
        ),
        (&["create", "x"], 2, &["<EXPR>", "--help"]),
        (
            &["create", "x", "raid5(/nonexistent/a,b,c)"],
            1,
            &["there is no /nonexistent/a"],
        ),
        (&["create", "x", "raid1(a,a)"], 2, &["'a' twice"]),
        (
            &["lab", "run", "/nonexistent/x.toml"],
            2,
            &["/nonexistent/x.toml"],
        ),
        (&["lab", "report", "/nonexistent"], 1, &["/nonexistent"]),
        (&["lab", "compare", "/nonexistent"], 2, &["<AFTER>"]),
        (
            &["lab", "list", "--show", "slow"],
            2,
            &["no built-in experiment", "quickstart"],
        ),
        (
            &["bench", "no-such-workload", "null:1M"],
            2,
            &["no-such-workload", "dd-read"],
        ),
    ]);
}

/// A document that is out is not followed by another when the command fails after it.
#[test]
fn a_failure_after_the_result_is_still_one_document() {
    let run = spindles(&["examine", "/nonexistent/a.img", "--json"]);
    assert_eq!(run.status, 1);
    let error = &run.json()["devices"][0]["error"];
    assert!(
        error
            .as_str()
            .is_some_and(|error| error.contains("/nonexistent/a.img")),
        "{error}"
    );
}

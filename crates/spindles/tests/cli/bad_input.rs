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
        (&["bench", "dd-read", "array:a,,b"], 2, &["array:DEV,DEV"]),
    ]);
}

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

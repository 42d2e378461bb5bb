//! With `--json` a command prints one JSON document on standard output, and nothing else there.

use crate::binary::spindles;

#[test]
fn commands_print_one_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let devices = ["a", "b", "c"].map(path);
    for device in &devices {
        let file = std::fs::File::create(device).expect("a new file");
        file.set_len(4 << 20).expect("a sparse file");
    }
    let data = path("data");
    std::fs::write(&data, "some data").expect("room");
    let expression = format!("raid5({})", devices.join(","));
    let array = format!("array:{}", devices.join(","));
    let [a, b, c] = devices.each_ref().map(String::as_str);
    // In order: the later ones use the array that the first makes.
    for (arguments, key) in [
        (&["create", "pool", &expression][..], "uuid"),
        (&["examine", a, b, c], "devices"),
        (&["status", a, b, c], "members"),
        (&["status", &array], "members"),
        (&["copy", &data, &array, "--verify"], "verified"),
        (&["layout", "raid6(5)", "--stripes", "5"], "rows"),
        (&["lab", "list"], "workloads"),
        (&["lab", "list", "--show", "quickstart"], "experiment"),
        (&["sim", "--seeds", "0..3"], "runs"),
        (
            &[
                "bench",
                "engine",
                "raid5(3)",
                "--members",
                "null",
                "--slice",
                "1",
            ],
            "rows",
        ),
        (&["completions", "zsh"], "script"),
        (&["man"], "page"),
        (&["--help"], "help"),
    ] {
        let with_json = [arguments, &["--json"][..]].concat();
        let run = spindles(&with_json).ok();
        assert!(
            !run.json()[key].is_null(),
            "{arguments:?} has no {key}: {}",
            run.out
        );
        let plain = spindles(arguments);
        let is_json = plain.out.starts_with('{');
        assert!(!is_json, "{arguments:?} prints JSON unasked");
    }
}

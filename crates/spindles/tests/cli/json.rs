//! With `--json` a command prints exactly one JSON document on standard output. The document names
//! its schema, which `docs/reference/json.schema.json` has.

use crate::checker::Checker;
use crate::cli::every_command::commands;
use crate::world::spindles;
use serde_json::Value;

fn schema() -> Value {
    let text = include_str!("../../../../docs/reference/json.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

/// Panics unless the document fits its schema, and has only fields that the schema lists.
fn is_documented(document: &Value) {
    let all = schema();
    let name = document["schema"].as_str().expect("it has a schema");
    let mut checker = Checker::new(&all);
    checker.check(&format!("/$defs/{name}"), document, name);
    assert!(checker.errors.is_empty(), "{:?}", checker.errors);
}

#[test]
fn commands_print_one_documented_json_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let devices = ["a", "b", "c", "new", "added", "shared", "fast"].map(path);
    for device in &devices {
        let file = std::fs::File::create(device).expect("a new file");
        file.set_len(8 << 20).expect("a sparse file");
    }
    let data = path("data");
    std::fs::write(&data, "some data").expect("room");
    let [a, b, c, new, added, shared, fast] = devices.each_ref().map(String::as_str);
    let expression = format!("raid5({a},{b},{c})");
    let (of_three, of_four) = (format!("{a},{b},{c}"), format!("{a},{b},{c},{added}"));
    let array = format!("array:{of_three}");
    let (man, experiment) = (path("man"), path("small.toml"));
    let [results, again] = ["results", "again"].map(path);
    let small = "name = \"small\"\nsize = \"1M\"\nblocks = 2\nmembers = \"mem\"\n\
                 baseline = \"single\"\n\
                 [[system]]\nname = \"single\"\ntarget = \"single\"\n\
                 [[system]]\nname = \"mirror\"\ntarget = \"raid1(2)\"\n\
                 [[workload]]\nkind = \"random-read\"\noperations = 100\n";
    std::fs::write(&experiment, small).expect("room");
    // In this order: later commands use the array of the first one.
    for (arguments, key) in [
        (
            &["create", "pool", &expression, "--chunk", "4K"][..],
            "uuid",
        ),
        (&["examine", a, b, c, "--areas"], "devices"),
        (&["status", a, b, c], "members"),
        (&["status", &array], "members"),
        (&["status", a, b], "members"),
        (&["copy", &data, &array, "--verify"], "verified"),
        (&["spare", "add", new, "--array", &of_three], "spares"),
        (&["spare", "add", shared, "--shared"], "spares"),
        (&["examine", new, shared, &data], "devices"),
        (&["spare", "remove", new, shared], "removed"),
        (&["journal", "add", fast, "--array", &of_three], "journal"),
        (&["examine", fast, &data], "devices"),
        (&["journal", "remove", "--array", &array], "uuid"),
        (&["replace", c, "--onto", new, a, b], "member"),
        (&["rebuild", a, b, "--onto", c, "--force"], "rebuilt"),
        (&["resync", a, b, c], "was_clean"),
        (&["scrub", a, b, c], "places"),
        (&["grow", a, b, c, "--add", added], "bytes_before"),
        (&["status", &format!("array:{of_four}")], "members"),
        (&["layout", "raid6(5)", "--stripes", "5"], "rows"),
        (&["lab", "list"], "workloads"),
        (&["lab", "list", "--show", "quickstart"], "experiment"),
        (&["lab", "run", &experiment, "--out", &results], "folder"),
        (&["lab", "run", &experiment, "--out", &again], "folder"),
        (&["lab", "report", &results, &again], "reports"),
        (&["lab", "compare", &results, &again], "change"),
        (&["sim", "--seeds", "0..3"], "runs"),
        (&["sim", "--seed", "3"], "story"),
        (&["rename", a, b, c, added, "attic"], "name_before"),
        (&["wipe", new, "--force"], "wiped"),
        (&["bench", "dd-write", "mem:1M", "--runs", "2"], "report"),
        (&["bench", "parity", "--rounds", "1"], "rows"),
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
        (&["model", "list"], "models"),
        (&["model", "show", "exos-x18-18tb"], "numbers"),
        (&["completions", "zsh"], "script"),
        (&["man"], "page"),
        (&["man", "--out", &man], "pages"),
        (&["help"], "help"),
        (&["help", "lab", "run"], "help"),
        (&["--help"], "help"),
        (&["--version"], "help"),
        (&["status", "nothing-is-here"], "error"),
        (&["status", "--no-such-option"], "error"),
    ] {
        let with_json = [arguments, &["--json"][..]].concat();
        let run = spindles(&with_json);
        let document = run.json();
        let (out, error) = (&run.out, &run.error);
        assert!(
            !document[key].is_null(),
            "{arguments:?}: no {key}: {out}{error}"
        );
        // For `status`, 3 is no failure.
        let is_done = [0, 3].contains(&run.status);
        assert_eq!(is_done, key != "error", "{arguments:?}: {error}");
        is_documented(&document);
        let schema = document["schema"].as_str().expect("a text");
        let words = format!("spindles.{}", arguments.join("."));
        let of_any = ["spindles.help", "spindles.error"].contains(&schema);
        assert!(of_any || words.starts_with(schema), "{words}: {schema}");
    }
}

#[test]
fn the_schema_covers_every_command() {
    let all: Vec<String> = (commands().iter())
        .map(|command| format!("spindles.{}", command.join(".")))
        .collect();
    let schema = schema();
    // Its standard output goes to `lab run`.
    for name in all.iter().filter(|name| *name != "spindles.lab.agent") {
        let below = format!("{name}.");
        let is_parent = all.iter().any(|other| other.starts_with(&below));
        let has_schema = !schema["$defs"][name].is_null();
        assert!(has_schema || is_parent, "json.schema.json lacks {name}");
    }
}

/// Tests the check itself: it finds a new field, a missing one and a wrong type.
#[test]
fn a_document_that_violates_its_schema_is_detected() {
    let document = spindles(&["layout", "raid5(3)", "--json"]).ok().json();
    is_documented(&document);
    for (field, value) in [
        ("colour", Value::from("red")),
        ("members", Value::Null),
        ("version", 0.into()),
    ] {
        let mut broken = document.clone();
        broken[field] = value;
        let checked = std::panic::catch_unwind(|| is_documented(&broken));
        assert!(checked.is_err(), "{field}");
    }
}

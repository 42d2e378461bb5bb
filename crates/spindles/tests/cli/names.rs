//! Arrays called by their names: every command finds all their devices, forgotten devices are
//! named, and odd names are quoted.

use crate::cli::arrays::{Folder, MIB};
use crate::cli::binary::{Run, spindles_in};
use crate::loop_devices::Loop;
use spindles_admin::scan;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// An array of three devices with a spare and a journal device, and a nested array.
fn folder() -> Folder {
    let folder = Folder::new("a b c d e f g journal spare", 32 * MIB);
    let create = "create pool raid5(@a,@b,@c) --spare @spare --journal @journal";
    folder.run(create).ok();
    folder
        .run("create nest raid0(raid1(@d,@e),raid1(@f,@g))")
        .ok();
    folder
}

fn here(folder: &Folder, arguments: &str) -> Run {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    spindles_in(&folder.path(""), &[], &arguments)
}

/// The devices of the members, including those of inner arrays.
fn devices(status: &serde_json::Value) -> Vec<String> {
    let mut devices = Vec::new();
    for member in status["members"].as_array().expect("members") {
        match member["device"].as_str() {
            Some(device) => devices.push(device.to_owned()),
            None if member["array"].is_object() => devices.extend(self::devices(&member["array"])),
            None => devices.push("missing".to_owned()),
        }
    }
    devices
}

/// If members are in several folders, the error says how to find them.
#[test]
fn status_advises_scan_for_members_in_another_folder() {
    let folder = Folder::new("a b c", 8 * MIB);
    here(&folder, "create pool raid5(a,b,c)").ok();
    let other = Folder::new("x", MIB);
    std::fs::rename(folder.path("c"), other.path("c")).expect("it is moved");
    let run = here(&folder, "status pool");
    let remedy = "`--scan . --scan FOLDER`";
    assert_eq!(run.status, 3, "{}", run.error);
    assert!(run.error.contains(remedy), "{}", run.error);
    let both = format!("status pool --scan . --scan {}", other.path(""));
    let run = here(&folder, &both).ok();
    assert!(!run.error.contains("--scan"), "{}", run.error);
    // A member with another role in the command is present, and a member known to be out is not
    // searched for.
    std::fs::rename(other.path("c"), folder.path("c")).expect("it is moved back");
    for line in ["fail a pool", "status pool"] {
        let run = here(&folder, line);
        assert!(!run.error.contains("--scan"), "{line}: {}", run.error);
    }
}

#[test]
fn a_name_selects_all_devices_of_an_array() {
    let folder = folder();
    let run = here(&folder, "status pool --json").ok();
    assert_eq!(run.error, "");
    let status = run.json();
    assert_eq!(devices(&status), ["a", "b", "c"]);
    assert_eq!(status["journal"]["device"], "journal");
    assert_eq!(status["spares"][0]["device"], "spare");
    assert_eq!(status["not_given"], serde_json::json!([]));
    let nest = here(&folder, "status nest --json").ok().json();
    assert_eq!(devices(&nest), ["d", "e", "f", "g"]);
    for (name, uuid) in [("pool", &status["uuid"]), ("nest", &nest["uuid"])] {
        let uuid = uuid.as_str().expect("a text").to_uppercase();
        let by_uuid = here(&folder, &format!("status {uuid} --json")).ok().json();
        assert_eq!(by_uuid["name"], name);
    }
    // From elsewhere, it is found by --scan or by SPINDLES_SCAN.
    let other = Folder::new("x", MIB);
    here(&other, "status pool").fails(1, &["'pool' is neither a file", "--scan"]);
    let scan = format!("status pool --json --scan {}", folder.path(""));
    let found = devices(&here(&other, &scan).ok().json());
    assert_eq!(
        found,
        [folder.path("a"), folder.path("b"), folder.path("c")]
    );
    let scan = format!("/nonexistent:{}", folder.path(""));
    let set = [("SPINDLES_SCAN", scan.as_str())];
    let run = spindles_in(&other.path(""), &set, &["status", "nest"]).ok();
    assert!(
        run.error.contains("/nonexistent: can't look there"),
        "{}",
        run.error
    );
    // Single devices as places.
    let some = format!(
        "status pool --scan {} --scan {}",
        folder.path("a"),
        folder.path("c")
    );
    let run = here(&other, &format!("{some} --json"));
    assert_eq!(
        devices(&run.json()),
        [&folder.path("a"), "missing", &folder.path("c")]
    );
}

/// The name that `create` prints at its end works for a copy, whatever else is there.
#[test]
fn create_prints_a_name_that_works() {
    let folder = Folder::new("a b c,d e f g h i journal spare", 32 * MIB);
    let elsewhere = Folder::new("x", 32 * MIB);
    std::fs::write(folder.path("hides"), b"").expect("room");
    let outside = elsewhere.path("x");
    let listed = |devices: &str| format!("array:{devices}");
    for (create, target) in [
        (
            "pool raid5(a,b) --spare spare --journal journal",
            listed("pool"),
        ),
        (
            "listed raid5(e,f) --journal journal --force",
            listed("listed"),
        ),
        ("comma raid1(\"c,d\",g)", listed("comma")),
        // A file of that name takes precedence.
        ("hides raid1(h,i)", listed("h,i")),
        (
            &format!("far raid1(g,{outside}) --force"),
            listed(&format!("g,{outside}")),
        ),
    ] {
        let run = here(&folder, &format!("create {create}")).ok();
        let last = run.out.lines().last().expect("a line");
        let typed = scan::shell_word(&target);
        assert_eq!(last, format!("use it as {typed}"), "{create}");
        std::fs::write(folder.path("data"), b"some").expect("room");
        let run = here(&folder, &format!("copy data {target}"));
        assert_eq!(run.status, 0, "{create}: {}", run.error);
    }
}

/// If a file has the name of an array, the name means the file: `create` and `rename` warn of it.
#[test]
fn create_and_rename_warn_of_a_file_with_the_arrays_name() {
    let folder = Folder::new("a b c d music tank", 8 * MIB);
    let created = here(&folder, "create tank raid1(a,b)").ok();
    here(&folder, "create pool raid1(c,d)").ok();
    let renamed = here(&folder, "rename pool music").ok();
    for (run, name) in [(created, "tank"), (renamed, "music")] {
        let message = format!("there is a file {name} in this folder");
        assert!(run.error.contains(&message), "{}", run.error);
        let uuid = run.error.split(", ").find(|word| word.len() == 36);
        let uuid = uuid.expect("it says how to call it");
        let status = here(&folder, &format!("status {uuid} --json")).ok().json();
        assert_eq!(status["name"], name);
    }
    let renamed = here(&folder, "rename c d pool").ok();
    assert_eq!(renamed.error, "");
}

/// A member that returns after the array dropped its list of missed writes needs a complete
/// rebuild: `status` and `rebuild` suggest nothing else.
#[test]
fn a_member_that_the_array_outlived_needs_a_complete_rebuild() {
    let folder = Folder::new("a b c", 8 * MIB);
    here(&folder, "create pool raid5(a,b,c)").ok();
    std::fs::write(folder.path("data"), vec![7; 4 << 20]).expect("room");
    here(&folder, "copy data array:pool").ok();
    std::fs::create_dir(folder.path("away")).expect("a folder");
    std::fs::rename(folder.path("c"), folder.path("away/c")).expect("it is there");
    for _ in 0..9 {
        here(&folder, "copy data array:pool --bytes 4K --degraded").ok();
    }
    std::fs::rename(folder.path("away/c"), folder.path("c")).expect("it is there");
    let remedy = "rebuild pool --onto c --force";
    let safe = format!("to make array 'pool' safe again: `spindles {remedy}` fills c completely");
    let status = here(&folder, "status pool");
    let of_no_use = "; c is back, and what it missed is not known\n";
    assert!(status.out.contains(of_no_use), "{}", status.out);
    assert!(
        status.error.ends_with(&format!("{safe}\n")),
        "{}",
        status.error
    );
    let rebuild = here(&folder, "rebuild pool");
    assert!(rebuild.error.contains(&safe), "{}", rebuild.error);
    for run in [status, rebuild] {
        for wrong in ["comes back", "bring", "older state"] {
            assert!(
                !run.out.contains(wrong) && !run.error.contains(wrong),
                "{run:?}"
            );
        }
    }
    here(&folder, remedy).ok();
    here(&folder, "status pool").ok();
}

/// A member whose device is an outdated copy is missing, and the copy is of use only as a new
/// device.
#[test]
fn an_outdated_copy_of_a_member_is_reported() {
    let folder = Folder::new("a b c", 8 * MIB);
    here(&folder, "create pool raid5(a,b,c)").ok();
    let old = std::fs::read(folder.path("a")).expect("a file");
    std::fs::write(folder.path("data"), vec![7; 4 << 20]).expect("room");
    here(&folder, "copy data array:pool").ok();
    std::fs::write(folder.path("a"), old).expect("room");
    let status = here(&folder, "status pool");
    assert_eq!(status.status, 3);
    assert!(
        status
            .out
            .contains("member 0: not there; a holds an older state of it")
    );
    let remedy = "rebuild pool --onto a --force";
    assert!(
        status.error.contains(&format!("`spindles {remedy}`")),
        "{}",
        status.error
    );
    here(&folder, remedy).ok();
    here(&folder, "status pool").ok();
}

/// A truncated member is reported as too short, whatever its state, and the remedy fills it again.
#[test]
fn a_truncated_member_is_reported_with_a_remedy() {
    for is_outdated in [false, true] {
        let folder = Folder::new("a b c d", 8 * MIB);
        here(&folder, "create pool raid6(a,b,c,d)").ok();
        let old = std::fs::read(folder.path("a")).expect("a file");
        std::fs::write(folder.path("data"), vec![7; 4 << 20]).expect("room");
        here(&folder, "copy data array:pool").ok();
        if is_outdated {
            std::fs::write(folder.path("a"), old).expect("room");
        }
        let set_len = |bytes| {
            let file = std::fs::File::options().write(true).open(folder.path("a"));
            file.and_then(|file| file.set_len(bytes)).expect("room");
        };
        set_len(1 << 20);
        let status = here(&folder, "status pool");
        assert_eq!(status.status, 3, "{}", status.error);
        let line = "member 0: not there; a is too short\n";
        assert!(status.out.contains(line), "{}", status.out);
        let [wipe, rebuild] = ["wipe a --force", "rebuild pool --onto a --force"];
        for text in [
            "a: truncated: it has 1 MiB and had 8 MiB",
            &format!("safe again: make a 8 MiB long again, then `spindles {wipe}` empties it, "),
            &format!("and `spindles {rebuild}` fills it"),
        ] {
            assert!(status.error.contains(text), "{}", status.error);
        }
        set_len(8 << 20);
        here(&folder, wipe).ok();
        here(&folder, rebuild).ok();
        here(&folder, "status pool").ok();
    }
}

/// A name with a line break could inject lines into messages.
#[test]
fn a_name_with_a_control_character_is_refused() {
    let folder = Folder::new("a b", 8 * MIB);
    let odd = "b\nhealthy";
    std::fs::rename(folder.path("b"), folder.path(odd)).expect("it is ours");
    let create = ["create", "pool", &format!("raid1(a,{odd})")];
    let refused = spindles_in(&folder.path(""), &[], &create);
    assert_eq!(refused.status, 2, "{}", refused.error);
    let message = "the name \"b\\nhealthy\" has a control character in it: rename it";
    assert!(refused.error.contains(message), "{}", refused.error);
    std::fs::rename(folder.path(odd), folder.path("b")).expect("it is ours");
    here(&folder, "create pool raid1(a,b)").ok();
    std::fs::rename(folder.path("b"), folder.path(odd)).expect("it is ours");
    for line in ["status pool", "scrub pool", "status"] {
        let run = here(&folder, line);
        assert!(
            run.error.contains("\\nhealthy: it belongs"),
            "{}",
            run.error
        );
        assert!(!run.out.contains(odd), "{}", run.out);
    }
}

/// A warning says that the array's name will not find a new device.
#[test]
fn commands_warn_of_a_new_device_outside_the_searched_folders() {
    let folder = Folder::new("a b c", 8 * MIB);
    let other = Folder::new("new spare", 8 * MIB);
    here(&folder, "create pool raid1(a,b)").ok();
    let run = here(&folder, "replace a pool --onto c").ok();
    assert_eq!(run.error, "");
    let (new, spare) = (other.path("new"), other.path("spare"));
    for (line, device) in [
        (format!("replace b pool --onto {new}"), &new),
        (format!("spare add {spare} --array c,{new}"), &spare),
    ] {
        let run = here(&folder, &line).ok();
        let message = format!("{device} lies where arrays are not looked for");
        assert!(run.error.contains(&message), "{line}: {}", run.error);
    }
    let scan = format!("status pool --scan . --scan {}", other.path(""));
    let run = here(&folder, &scan).ok();
    assert_eq!(run.error, "");
}

/// Returns the exit status for the worst of the listed arrays. Arrays that other tests serve are
/// listed too.
fn worst(list: &serde_json::Value) -> i32 {
    let arrays = list["arrays"].as_array().expect("a list").iter();
    let status = arrays.map(|array| match array["state"].as_str() {
        Some("healthy") => 0,
        Some("degraded") => 3,
        _ => 4,
    });
    status.max().unwrap_or(0)
}

#[test]
fn status_without_an_array_lists_all_arrays() {
    let folder = folder();
    std::fs::remove_file(folder.path("b")).expect("it is there");
    let run = here(&folder, "status --scan . --json");
    let list = run.json();
    assert_eq!(run.status, worst(&list), "{list}");
    for (name, level, state, devices) in [
        ("pool", "raid5", "degraded", 4),
        ("nest", "raid0", "healthy", 4),
    ] {
        let arrays = list["arrays"].as_array().expect("a list").iter();
        let mine = |array: &&serde_json::Value| {
            array["name"] == name && array["served"].is_null() && array["devices"][0].is_string()
        };
        let found = { arrays }.find(mine).expect("it is listed");
        assert_eq!(
            (&found["level"], &found["state"]),
            (&level.into(), &state.into())
        );
        let found = found["devices"].as_array().expect("a list");
        assert_eq!(found.len(), devices, "{found:?}");
    }
    let run = here(&folder, "status --scan .");
    let mut lines = run.out.lines();
    let pool = lines.find(|line| line.starts_with("pool ") && line.ends_with(" no"));
    let pool = pool.unwrap_or_else(|| panic!("{}", run.out));
    assert!(
        pool.contains("raid5") && pool.contains("degraded"),
        "{pool}"
    );
    // Without arrays, the message says where `status` searched.
    let other = Folder::new("x", MIB);
    let run = here(&other, "status --scan .");
    if !run.out.starts_with("array ") {
        assert_eq!(
            run.out,
            "there is no array in .: --scan says where else to look\n"
        );
        assert_eq!(run.status, 0);
    }
}

/// Otherwise commands could not distinguish the arrays by name.
#[test]
fn create_and_rename_refuse_a_name_already_in_use() {
    let folder = Folder::new("a b c d e", 8 * MIB);
    here(&folder, "create pool raid1(a,b)").ok();
    let before = folder.read("c");
    let taken = [
        "there is an array 'pool' already",
        "take another name",
        "rename that one",
        "wipe its devices",
        ": a, b)",
    ];
    here(&folder, "create pool raid1(c,d)").fails(1, &taken);
    // Part of the old array would be left.
    here(&folder, "create pool raid1(b,c) --force").fails(1, &taken);
    here(&folder, "create pool raid1(b,c)").fails(1, &taken);
    assert!(folder.read("c") == before);
    // An array that is overwritten entirely does not reserve its name.
    here(&folder, "create pool raid1(a,b)").fails(1, &["use --force"]);
    here(&folder, "create pool raid1(a,b,c) --force").ok();
    here(&folder, "create other raid1(d,e)").ok();
    let taken = ["there is an array 'pool' already", ": a, b, c)"];
    here(&folder, "rename other pool").fails(1, &taken);
    here(&folder, "rename d e pool").fails(1, &taken);
    here(&folder, "rename pool pool").ok();
    // In a folder that is not searched.
    let scan = format!("rename other pool --scan {}", folder.path("d"));
    here(&folder, &format!("{scan} --scan {}", folder.path("e"))).ok();
    here(&folder, "status pool").fails(1, &["2 arrays are called 'pool'"]);
}

#[test]
fn every_command_accepts_an_array_name() {
    let folder = folder();
    std::fs::write(folder.path("data"), vec![7; 3 << 20]).expect("room");
    for device in ["h", "i", "fast"] {
        folder.make(device, 32 * MIB);
    }
    for arguments in [
        "copy data array:pool --verify",
        "copy array:pool back --bytes 3M",
        "copy data array:nest",
        "examine pool",
        "resync pool",
        "scrub pool",
        "scrub nest",
        "bench dd-read array:pool --size 1M --runs 1",
        "journal remove --array pool",
        "journal add fast --array pool",
        "replace b --onto h pool",
        "spare remove spare",
        "spare add spare --array nest",
        "grow pool --add i",
    ] {
        let run = here(&folder, arguments).ok();
        assert!(
            !run.error.contains("was not given"),
            "{arguments}: {}",
            run.error
        );
    }
    assert!(folder.read("data") == folder.read("back"));
    let status = here(&folder, "status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "h", "c", "i"]);
    assert_eq!(status["journal"]["device"], "fast");
    let away = tempfile::tempdir().expect("a temporary folder");
    std::fs::rename(folder.path("h"), away.path().join("h")).expect("one file system");
    // A replaced device is blank enough to be used again.
    here(&folder, "rebuild pool --onto b --force").ok();
    let status = here(&folder, "status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "b", "c", "i"]);
    let spares = here(&folder, "status nest --json").ok().json();
    assert_eq!(spares["spares"][0]["device"], "spare");
}

#[test]
fn commands_name_devices_that_were_not_given() {
    let folder = folder();
    // Devices that were not given are not missing.
    for (line, state) in [
        ("status a --json", "unknown"),
        ("status a c --json", "unknown"),
    ] {
        let run = here(&folder, line).ok();
        assert_eq!(run.json()["state"], state);
        assert!(!run.error.contains("missing"), "{}", run.error);
    }
    let run = here(&folder, "status a c --json");
    for text in [
        "b is member 1 of array 'pool'",
        "journal has the journal of array 'pool'",
        "spare is a spare of array 'pool'",
        "give them too, or the name of the array",
    ] {
        assert!(run.error.contains(text), "no {text:?} in {}", run.error);
    }
    let forgotten = &run.json()["not_given"];
    assert_eq!(forgotten.as_array().expect("a list").len(), 3);
    assert_eq!(forgotten[0]["device"], "b");
    assert_eq!(forgotten[0]["role"], "member");
    assert_eq!(forgotten[0]["member"], 1);
    let run = here(&folder, "status d e f journal spare");
    let text = "g is member 1 of array 'nest.1', and was not given: give it too";
    assert!(run.error.contains(text), "{}", run.error);
    // Not reported as forgotten: the copy of a given device, a replaced device, and the new device.
    folder.make("new", 32 * MIB);
    let run = here(&folder, "replace b --onto new a c journal spare").ok();
    assert!(!run.error.contains("not given"), "{}", run.error);
    std::fs::create_dir(folder.path("deeper")).expect("a folder");
    folder.copy("c", "deeper/c");
    folder.copy("c", "copy");
    let run = here(&folder, "status a new c journal spare").ok();
    assert!(!run.error.contains("not given"), "{}", run.error);
    // With --scan elsewhere, no forgotten device is found.
    let run = folder.run("status @a @c --scan @deeper");
    assert!(!run.error.contains("not given"), "{}", run.error);
}

#[test]
fn an_ambiguous_name_selects_neither_array() {
    let folder = Folder::new("a b c d", 8 * MIB);
    folder.run("create twin raid1(@a,@b)").ok();
    folder.run("create twin raid1(@c,@d)").ok();
    let uuid = |device| folder.newest(device).0.uuid.to_string();
    for command in ["scrub twin", "copy array:twin out", "rebuild twin --onto x"] {
        let texts = ["2 arrays are called 'twin': give the UUID", "a, b", "c, d"];
        here(&folder, command).fails(1, &texts);
        here(&folder, command).fails(1, &[&uuid("a"), &uuid("c")]);
    }
    here(&folder, &format!("scrub {}", uuid("c"))).ok();
    let error = "'twins' is neither a file nor a block device, nor the name of an array";
    here(&folder, "scrub twins").fails(1, &[error, "Found:", "'twin' ("]);
    // A file of the same name takes precedence.
    std::fs::write(folder.path("twin"), b"text").expect("room");
    here(&folder, "status twin").fails(1, &["twin"]);
}

#[test]
fn the_search_reads_only_files_and_block_devices() {
    let folder = Folder::new("a b", 8 * MIB);
    // Other tests serve arrays called `pool`, which that name would find too.
    folder.run("create lonely raid1(@a,@b)").ok();
    let fifo = Command::new("mkfifo").arg(folder.path("0")).status();
    assert!(fifo.expect("mkfifo is there").success());
    symlink("/nonexistent", folder.path("1")).expect("a link");
    symlink("/dev/tty", folder.path("2")).expect("a link");
    symlink(folder.path("a"), folder.path("link")).expect("a link");
    std::fs::create_dir(folder.path("lonely")).expect("a folder");
    let status = here(&folder, "status lonely --json").ok().json();
    assert_eq!(devices(&status), ["a", "b"]);
    let run = here(&folder, "status b link --json").ok();
    assert_eq!(run.json()["not_given"], serde_json::json!([]));
    let run = here(&folder, "status lonely --scan 0");
    run.fails(1, &["'lonely' is neither a file"]);
}

/// Every valid name works as typed, and in the form that `create` prints.
#[test]
fn every_valid_array_name_works_everywhere() {
    for name in ["my pool", "it's", "a(b", "ä$HOME", "a;b*", "a\\b"] {
        let folder = Folder::new("a b new", 8 * MIB);
        let run = |arguments: &[&str]| spindles_in(&folder.path(""), &[], arguments);
        let made = run(&["create", name, "raid1(a,b)"]).ok();
        let last = made.out.lines().last().expect("a line");
        let target = last
            .strip_prefix("use it as ")
            .expect("that is its last line");
        let pasted = format!("printf %s {target}");
        let pasted = Command::new("sh")
            .args(["-c", &pasted])
            .output()
            .expect("a shell");
        let pasted = String::from_utf8(pasted.stdout).expect("text");
        for name in [name, &format!("array:{name}"), &pasted] {
            run(&["status", name]).ok();
            run(&["scrub", name]).ok();
        }
        for target in [&pasted, &format!("array:{name}")] {
            run(&["copy", target, "out", "--bytes", "4K"]).ok();
            run(&["bench", "dd-read", target, "--size", "1M", "--runs", "1"]).ok();
        }
        std::fs::remove_file(folder.path("b")).expect("it is there");
        run(&["rebuild", name, "--onto", "new", "--degraded"]).ok();
        run(&["rename", name, "plain"]).ok();
        run(&["rename", "plain", name]).ok();
        run(&["status", name]).ok();
    }
}

#[test]
fn odd_device_names_are_quoted_the_same_everywhere() {
    let folder = Folder::new("a,b q\"z d(1) mem:1M", 8 * MIB);
    std::fs::write(folder.path("data"), vec![7; 1 << 20]).expect("room");
    let expression = r#"raid6("a,b","q""z","d(1)",./mem:1M)"#;
    here(&folder, &format!("create odd {expression}")).ok();
    let status = here(&folder, "status odd --json").ok().json();
    assert_eq!(devices(&status), ["a,b", "q\"z", "d(1)", "./mem:1M"]);
    // An existing file needs no quotes, so globs work; inside a list it does.
    let run = here(&folder, "status d(1) a,b q\"z ./mem:1M --json").ok();
    assert_eq!(devices(&run.json()), ["a,b", "q\"z", "d(1)", "./mem:1M"]);
    for target in [
        r#"array:"a,b","q""z",d(1),./mem:1M"#,
        r#"array:"a,b","q""z","d(1)",./mem:1M"#,
    ] {
        here(&folder, &format!("copy data {target} --verify --force")).ok();
        here(
            &folder,
            &format!("bench dd-read {target} --size 1M --runs 1"),
        )
        .ok();
    }
    here(&folder, "copy data array:a,b,d(1)").fails(1, &["'a' is neither a file"]);
    here(&folder, r#"copy data array:d(1),"q"z""#).fails(2, &["lacks a ',' here", "^"]);
    here(&folder, r#"status "a,b"#).fails(2, &["lacks the quote", "^"]);
}

/// Devices record the name of the outermost array, so it is found even if an inner array lacks too
/// many devices.
#[test]
fn a_name_finds_an_array_with_a_lost_inner_array() {
    let folder = Folder::new("a b c", 8 * MIB);
    here(&folder, "create pool raid1(a,raid0(b,c))").ok();
    std::fs::remove_file(folder.path("c")).expect("it is there");
    let run = here(&folder, "status pool --json");
    assert_eq!(run.status, 3, "{}", run.error);
    assert_eq!(run.json()["name"], "pool");
}

/// A spare replaces lost members, not forgotten ones.
#[test]
fn a_spare_does_not_replace_a_member_that_was_not_given() {
    let folder = Folder::new("a b c f", 8 * MIB);
    std::fs::write(folder.path("data"), vec![7; 1 << 20]).expect("room");
    here(&folder, "create pool raid5(a,b,c) --spare f").ok();
    let run = here(&folder, "copy data array:a,b,f").ok();
    for words in ["c is member 2", "f: a spare, left out"] {
        assert!(run.error.contains(words), "{}", run.error);
    }
    let status = here(&folder, "rebuild pool").ok();
    assert!(
        !status.error.contains("takes the place"),
        "{}",
        status.error
    );
    let status = here(&folder, "status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "b", "c"]);
    assert_eq!(status["spares"][0]["device"], "f");
}

/// A nested array is found by its name, although the folder also has a copy of one of its devices.
#[test]
fn a_copy_of_a_member_does_not_hide_the_arrays_name() {
    let folder = Folder::new("a b c d e", 4 * MIB);
    here(&folder, "create pool raid1(raid1(a,b),raid1(c,d))").ok();
    folder.copy("d", "twin");
    for arguments in ["status pool", "scrub pool"] {
        let both = "d and twin are both member 1 of array 'pool.1'";
        here(&folder, arguments).fails(1, &[both, "leave one out"]);
    }
    here(&folder, "create pool concat(e)").fails(1, &["there is an array 'pool' already"]);
}

/// Devices that were absent while others took their places, one after another, are attached again
/// after more openings than a record covers.
#[test]
fn replaced_members_do_not_make_a_name_ambiguous() {
    let folder = Folder::new("a b c d", 8 * MIB);
    folder.make("data", MIB);
    here(&folder, "create pool raid1(a,b) --degraded-writes allow").ok();
    std::fs::create_dir(folder.path("away")).expect("room");
    let away = |name: &str| folder.path(&format!("away/{name}"));
    for (gone, new) in [("b", "c"), ("a", "d")] {
        std::fs::rename(folder.path(gone), away(gone)).expect("it is there");
        here(&folder, &format!("rebuild pool --onto {new}")).ok();
        for _ in 0..9 {
            here(&folder, "copy data array:pool").ok();
        }
    }
    for gone in ["b", "a"] {
        std::fs::rename(away(gone), folder.path(gone)).expect("it is there");
        let status = here(&folder, "status pool --json").ok();
        assert_eq!(devices(&status.json()), ["d", "c"]);
        let message = format!("left out: {gone}: array 'pool' has another device in its position");
        assert!(status.error.contains(&message), "{}", status.error);
    }
    // With only one device of each side present, the superblocks can't show which side continued.
    for gone in ["a", "d"] {
        std::fs::remove_file(folder.path(gone)).expect("it is there");
    }
    here(&folder, "status pool").fails(1, &["have no record of each other"]);
}

/// A folder may contain any number of other files.
#[test]
fn members_are_found_among_thousands_of_files() {
    let folder = Folder::new("a z", 8 * MIB);
    for number in 0..5000 {
        std::fs::File::create(folder.path(&format!("f{number}"))).expect("a file");
    }
    here(&folder, "create pool raid1(a,z)").ok();
    let run = here(&folder, "status pool --scan .").ok();
    assert_eq!(run.error, "");
}

/// Partitions and loop devices on the same part of a disk are one device with two names.
#[test]
fn a_second_name_of_a_device_is_left_out() {
    let folder = Folder::new("disk", 32 * MIB);
    let part = |at: u64| {
        let (offset, limit) = ((at * 16 * MIB).to_string(), (16 * MIB).to_string());
        let arguments = ["--offset", &offset, "--sizelimit", &limit];
        Loop::with(Path::new(&folder.path("disk")), &arguments)
    };
    let parts: Result<Vec<Loop>, _> = [0, 1, 0, 1].into_iter().map(part).collect();
    let parts = match parts {
        Ok(parts) => parts,
        Err(reason) => return println!("SKIPPED: a_second_name_of_a_device: {reason}"),
    };
    let [a, b, a2, b2] = [0, 1, 2, 3].map(|at| parts[at].0.as_str());
    let scan = [a, b, a2, b2]
        .map(|device| format!(" --scan {device}"))
        .concat();
    here(&folder, &format!("create pool raid1({a},{b})")).ok();
    let run = here(&folder, &format!("status pool{scan}")).ok();
    for (left, kept) in [(a2, a), (b2, b)] {
        let message = format!("left out: {left}: it has the same bytes as {kept}");
        assert!(run.error.contains(&message), "{}", run.error);
    }
    let json = here(&folder, &format!("status pool --json{scan}")).json();
    assert_eq!(devices(&json), [a, b]);
}

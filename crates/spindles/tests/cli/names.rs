//! Arrays called by their names: every command finds all their devices, forgotten devices are
//! named, and odd names are quoted.

use crate::loop_devices::Loop;
use crate::world::{MIB, Run, World, spindles_in};
use spindles_admin::scan;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// An array of three devices with a spare and a journal device, and a nested array.
fn folder() -> World {
    let folder = World::outside("a b c d e f g journal spare", 32 * MIB);
    let create = "create pool raid5(@a,@b,@c) --spare @spare --journal @journal";
    folder.ok(create);
    folder.ok("create nest raid0(raid1(@d,@e),raid1(@f,@g))");
    folder
}

fn here(folder: &World, arguments: &str) -> Run {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    spindles_in(&folder.full(""), &[], &arguments)
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
    let folder = World::outside("a b c", 8 * MIB);
    folder.here("create pool raid5(a,b,c)").ok();
    let other = World::outside("x", MIB);
    std::fs::rename(folder.full("c"), other.full("c")).expect("it is moved");
    let remedy = "`--scan . --scan FOLDER`";
    folder.here("status pool").ends(3).warns(remedy);
    let both = format!("status pool --scan . --scan {}", other.full(""));
    folder.here(&both).ok().warns_no("--scan");
    // A member with another role in the command is present, and a member known to be out is not
    // searched for.
    std::fs::rename(other.full("c"), folder.full("c")).expect("it is moved back");
    for line in ["fail a pool", "status pool"] {
        folder.here(line).warns_no("--scan");
    }
}

/// A search finds slices that it is given; without them, the error says how.
#[test]
fn slices_are_found_that_the_search_names() {
    let folder = World::outside("a b c", 16 * MIB);
    let slices = ["slice(a,64s,7M)", "slice(a,8M,7M)"];
    let array = format!("raid5({},{},b)", slices[0], slices[1]);
    folder.here(&format!("create pool {array}")).ok();
    folder
        .here("status pool")
        .ends(4)
        .warns("or are slices")
        .warns("`--scan 'slice(DEV,START,LENGTH)'`");
    let scan = slices.map(|slice| format!("--scan {slice}")).join(" ");
    folder.here(&format!("status pool --scan . {scan}")).ok();
    let replaced = format!("replace slice(a,8M,7M) pool --onto c --scan . {scan}");
    folder.here(&replaced).ok();
    folder
        .here(&format!("scrub pool --scan . {scan}"))
        .prints("nothing is wrong");
}

#[test]
fn a_name_selects_all_devices_of_an_array() {
    let folder = folder();
    let run = folder.here("status pool --json").ok();
    assert_eq!(run.error, "");
    let status = run.json();
    assert_eq!(devices(&status), ["a", "b", "c"]);
    assert_eq!(status["journal"]["device"], "journal");
    assert_eq!(status["spares"][0]["device"], "spare");
    assert_eq!(status["not_given"], serde_json::json!([]));
    let nest = folder.here("status nest --json").ok().json();
    assert_eq!(devices(&nest), ["d", "e", "f", "g"]);
    for (name, uuid) in [("pool", &status["uuid"]), ("nest", &nest["uuid"])] {
        let uuid = uuid.as_str().expect("a text").to_uppercase();
        let by_uuid = folder.here(&format!("status {uuid} --json")).ok().json();
        assert_eq!(by_uuid["name"], name);
    }
    // From elsewhere, it is found by --scan or by SPINDLES_SCAN.
    let other = folder.namesake("x", MIB);
    other
        .here("status pool")
        .fails(1, ["'pool' is neither a file", "--scan"]);
    let scan = format!("status pool --json --scan {}", folder.full(""));
    let found = devices(&other.here(&scan).ok().json());
    assert_eq!(
        found,
        [folder.full("a"), folder.full("b"), folder.full("c")]
    );
    let scan = format!("/nonexistent:{}", folder.full(""));
    let mut status = other.command_in(other.folder(), &["status", "nest"]);
    other
        .run_command(status.env("SPINDLES_SCAN", scan))
        .ok()
        .warns("/nonexistent: can't look there");
    // Single devices as places.
    let some = format!(
        "status pool --scan {} --scan {}",
        folder.full("a"),
        folder.full("c")
    );
    let run = other.here(&format!("{some} --json"));
    assert_eq!(
        devices(&run.json()),
        [&folder.full("a"), "missing", &folder.full("c")]
    );
}

/// The name that `create` prints at its end works for a copy, whatever else is there.
#[test]
fn create_prints_a_name_that_works() {
    let folder = World::outside("a b c,d e f g h i journal spare", 32 * MIB);
    let elsewhere = World::outside("x", 32 * MIB);
    folder.put("hides", b"");
    let outside = elsewhere.full("x");
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
        let run = folder.here(&format!("create {create}")).ok();
        let last = run.out.lines().last().expect("a line");
        let typed = scan::shell_word(&target);
        assert_eq!(last, format!("use it as {typed}"), "{create}");
        folder.put("data", b"some");
        folder.here(&format!("copy data {target}")).ends(0);
    }
}

/// If a file has the name of an array, the name means the file: `create` and `rename` warn of it.
#[test]
fn create_and_rename_warn_of_a_file_with_the_arrays_name() {
    let folder = World::outside("a b c d tank", 8 * MIB);
    folder.make(&folder.unique("music"), MIB);
    let created = folder.here("create tank raid1(a,b)").ok();
    folder.here("create pool raid1(c,d)").ok();
    let renamed = folder.here("rename pool music").ok();
    for (run, name) in [(created, "tank"), (renamed, "music")] {
        let message = format!("a file in this folder is called {name} too");
        assert!(run.error.contains(&message), "{}", run.error);
        let uuid = run.error.split(", ").find(|word| word.len() == 36);
        let uuid = uuid.expect("it says how to call it");
        let status = folder.here(&format!("status {uuid} --json")).ok().json();
        assert_eq!(status["name"], name);
    }
    let renamed = folder.here("rename c d pool").ok();
    assert_eq!(renamed.error, "");
}

/// A member that returns after the array dropped its list of missed writes needs a complete
/// rebuild: `status` and `rebuild` suggest nothing else.
#[test]
fn a_member_that_the_array_outlived_needs_a_complete_rebuild() {
    let folder = World::outside("a b c", 8 * MIB);
    folder.here("create pool raid5(a,b,c)").ok();
    folder.put("data", vec![7; 4 << 20]);
    folder.here("copy data array:pool").ok();
    std::fs::create_dir(folder.full("away")).expect("a folder");
    folder.rename("c", "away/c");
    for _ in 0..9 {
        folder
            .here("copy data array:pool --bytes 4K --degraded")
            .ok();
    }
    folder.rename("away/c", "c");
    let remedy = "rebuild pool --onto c --force";
    let safe = format!("to make array 'pool' safe again: `spindles {remedy}` fills c completely");
    let of_no_use = "; c is back, and what it missed is not known\n";
    let status = folder.here("status pool").prints(of_no_use);
    assert!(
        status.error.ends_with(&format!("{safe}\n")),
        "{}",
        status.error
    );
    let rebuild = folder.here("rebuild pool").warns(&safe);
    for run in [status, rebuild] {
        for wrong in ["comes back", "bring", "older state"] {
            assert!(
                !run.out.contains(wrong) && !run.error.contains(wrong),
                "{run:?}"
            );
        }
    }
    folder.here(remedy).ok();
    folder.here("status pool").ok();
}

/// A member whose device is an outdated copy is missing, and the copy is of use only as a new
/// device.
#[test]
fn an_outdated_copy_of_a_member_is_reported() {
    let folder = World::outside("a b c", 8 * MIB);
    folder.here("create pool raid5(a,b,c)").ok();
    let old = std::fs::read(folder.full("a")).expect("a file");
    folder.put("data", vec![7; 4 << 20]);
    folder.here("copy data array:pool").ok();
    folder.put("a", old);
    let remedy = "rebuild pool --onto a --force";
    folder
        .here("status pool")
        .ends(3)
        .prints("member 0: not there; a holds an older state of it")
        .warns(format!("`spindles {remedy}`"));
    folder.here(remedy).ok();
    folder.here("status pool").ok();
}

/// A truncated member is reported as too short, whatever its state, and the remedy fills it again.
#[test]
fn a_truncated_member_is_reported_with_a_remedy() {
    for is_outdated in [false, true] {
        let folder = World::outside("a b c d", 8 * MIB);
        folder.here("create pool raid6(a,b,c,d)").ok();
        let old = std::fs::read(folder.full("a")).expect("a file");
        folder.put("data", vec![7; 4 << 20]);
        folder.here("copy data array:pool").ok();
        if is_outdated {
            folder.put("a", old);
        }
        let set_len = |bytes| {
            let file = std::fs::File::options().write(true).open(folder.full("a"));
            file.and_then(|file| file.set_len(bytes)).expect("room");
        };
        set_len(1 << 20);
        let line = "member 0: not there; a is too short\n";
        let status = folder.here("status pool").ends(3).prints(line);
        let [wipe, rebuild] = ["wipe a --force", "rebuild pool --onto a --force"];
        for text in [
            "a: truncated: it has 1 MiB and had 8 MiB",
            &format!("safe again: make a 8 MiB long again, then `spindles {wipe}` empties it, "),
            &format!("and `spindles {rebuild}` fills it"),
        ] {
            assert!(status.error.contains(text), "{}", status.error);
        }
        set_len(8 << 20);
        folder.here(wipe).ok();
        folder.here(rebuild).ok();
        folder.here("status pool").ok();
    }
}

/// A name with a line break could inject lines into messages.
#[test]
fn a_name_with_a_control_character_is_refused() {
    let folder = World::outside("a b", 8 * MIB);
    let odd = "b\nhealthy";
    folder.rename("b", odd);
    let create = ["create", "pool", &format!("raid1(a,{odd})")];
    let message = "the name \"b\\nhealthy\" has a control character in it: rename it";
    spindles_in(&folder.full(""), &[], &create)
        .ends(2)
        .warns(message);
    folder.rename(odd, "b");
    folder.here("create pool raid1(a,b)").ok();
    folder.rename("b", odd);
    for line in ["status pool", "scrub pool", "status"] {
        folder
            .here(line)
            .warns("\\nhealthy: it belongs")
            .prints_no(odd);
    }
}

/// A warning says that the array's name will not find a new device.
#[test]
fn commands_warn_of_a_new_device_outside_the_searched_folders() {
    let folder = World::outside("a b c", 8 * MIB);
    let other = World::outside("new spare", 8 * MIB);
    folder.here("create pool raid1(a,b)").ok();
    let run = folder.here("replace a pool --onto c").ok();
    assert_eq!(run.error, "");
    let (new, spare) = (other.full("new"), other.full("spare"));
    for (line, device) in [
        (format!("replace b pool --onto {new}"), &new),
        (format!("spare add {spare} --array c,{new}"), &spare),
    ] {
        let message = format!("{device} lies outside of the searched paths");
        folder.here(&line).ok().warns(&message);
    }
    let scan = format!("status pool --scan . --scan {}", other.full(""));
    let run = folder.here(&scan).ok();
    assert_eq!(run.error, "");
}

/// Returns the exit status for the worst of the listed arrays. Arrays that other tests serve are
/// listed too.
fn worst(list: &serde_json::Value) -> i32 {
    let arrays = list["arrays"].as_array().expect("a list").iter();
    let status = arrays.map(|array| match array["state"].as_str() {
        Some("healthy") => 0,
        Some("degraded") => 3,
        Some(_) => 4,
        // Its server does not answer.
        None => 1,
    });
    status.max().unwrap_or(0)
}

#[test]
fn status_without_an_array_lists_all_arrays() {
    let folder = folder();
    folder.remove("b");
    let run = folder.here("status --scan . --json");
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
    let run = folder.here("status --scan .");
    let mut lines = run.out.lines();
    let pool = lines.find(|line| line.starts_with("pool ") && line.ends_with(" no"));
    let pool = pool.unwrap_or_else(|| panic!("{}", run.out));
    assert!(
        pool.contains("raid5") && pool.contains("degraded"),
        "{pool}"
    );
    // Without arrays, the message says where `status` searched.
    let other = World::outside("x", MIB);
    let run = other.here("status --scan .");
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
    let folder = World::outside("a b c d e", 8 * MIB);
    folder.here("create pool raid1(a,b)").ok();
    let before = folder.read("c");
    let taken = [
        "there is an array 'pool' already",
        "take another name",
        "rename that one",
        "wipe its devices",
        ": a, b)",
    ];
    folder.here("create pool raid1(c,d)").fails(1, taken);
    // Part of the old array would be left.
    folder
        .here("create pool raid1(b,c) --force")
        .fails(1, taken);
    folder.here("create pool raid1(b,c)").fails(1, taken);
    assert!(folder.read("c") == before);
    // An array that is overwritten entirely does not reserve its name.
    folder
        .here("create pool raid1(a,b)")
        .fails(1, "use --force");
    folder.here("create pool raid1(a,b,c) --force").ok();
    folder.here("create other raid1(d,e)").ok();
    let taken = ["there is an array 'pool' already", ": a, b, c)"];
    folder.here("rename other pool").fails(1, taken);
    folder.here("rename d e pool").fails(1, taken);
    folder.here("rename pool pool").ok();
    // In a folder that is not searched.
    let scan = format!("rename other pool --scan {}", folder.full("d"));
    folder
        .here(&format!("{scan} --scan {}", folder.full("e")))
        .ok();
    folder
        .here("status pool")
        .fails(1, "2 arrays are called 'pool'");
}

#[test]
fn every_command_accepts_an_array_name() {
    let folder = folder();
    folder.put("data", vec![7; 3 << 20]);
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
        folder.here(arguments).ok().warns_no("was not given");
    }
    assert!(folder.read("data") == folder.read("back"));
    let status = folder.here("status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "h", "c", "i"]);
    assert_eq!(status["journal"]["device"], "fast");
    let away = tempfile::tempdir().expect("a temporary folder");
    std::fs::rename(folder.full("h"), away.path().join("h")).expect("one file system");
    // A replaced device is blank enough to be used again.
    folder.here("rebuild pool --onto b --force").ok();
    let status = folder.here("status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "b", "c", "i"]);
    let spares = folder.here("status nest --json").ok().json();
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
        let run = folder.here(line).ok();
        assert_eq!(run.json()["state"], state);
        assert!(!run.error.contains("missing"), "{}", run.error);
    }
    let run = folder.here("status a c --json").warns([
        "b is member 1 of array 'pool'",
        "journal has the journal of array 'pool'",
        "spare is a spare of array 'pool'",
        "give them too, or the name of the array",
    ]);
    let forgotten = &run.json()["not_given"];
    assert_eq!(forgotten.as_array().expect("a list").len(), 3);
    assert_eq!(forgotten[0]["device"], "b");
    assert_eq!(forgotten[0]["role"], "member");
    assert_eq!(forgotten[0]["member"], 1);
    let text = "g is member 1 of array 'nest.1', and was not given: give it too";
    folder.here("status d e f journal spare").warns(text);
    // Not reported as forgotten: the copy of a given device, a replaced device, and the new device.
    folder.make("new", 32 * MIB);
    folder
        .here("replace b --onto new a c journal spare")
        .ok()
        .warns_no("not given");
    std::fs::create_dir(folder.full("deeper")).expect("a folder");
    folder.copy("c", "deeper/c");
    folder.copy("c", "copy");
    folder
        .here("status a new c journal spare")
        .ok()
        .warns_no("not given");
    // With --scan elsewhere, no forgotten device is found.
    folder
        .run("status @a @c --scan @deeper")
        .warns_no("not given");
}

#[test]
fn an_ambiguous_name_selects_neither_array() {
    let folder = World::outside("a b c d", 8 * MIB);
    folder.ok("create twin raid1(@a,@b)");
    folder.ok("create twin raid1(@c,@d)");
    let uuid = |device| folder.newest(device).0.uuid.to_string();
    for command in ["scrub twin", "copy array:twin out", "rebuild twin --onto x"] {
        let texts = ["2 arrays are called 'twin': give the UUID", "a, b", "c, d"];
        folder.here(command).fails(1, texts);
        folder.here(command).fails(1, [&uuid("a"), &uuid("c")]);
    }
    folder.here(&format!("scrub {}", uuid("c"))).ok();
    let error = "'twins' is neither a file nor a block device, nor the name of an array";
    folder
        .here("scrub twins")
        .fails(1, [error, "Found:", "'twin' ("]);
    // A file of the same name takes precedence.
    folder.put("twin", b"text");
    folder.here("status twin").fails(1, "twin");
}

#[test]
fn the_search_reads_only_files_and_block_devices() {
    let folder = World::outside("a b", 8 * MIB);
    // Other tests serve arrays called `pool`, which that name would find too.
    folder.ok("create lonely raid1(@a,@b)");
    let fifo = Command::new("mkfifo").arg(folder.full("0")).status();
    assert!(fifo.expect("mkfifo is there").success());
    symlink("/nonexistent", folder.full("1")).expect("a link");
    symlink("/dev/tty", folder.full("2")).expect("a link");
    symlink(folder.full("a"), folder.full("link")).expect("a link");
    std::fs::create_dir(folder.full("lonely")).expect("a folder");
    let status = folder.here("status lonely --json").ok().json();
    assert_eq!(devices(&status), ["a", "b"]);
    let run = folder.here("status b link --json").ok();
    assert_eq!(run.json()["not_given"], serde_json::json!([]));
    folder
        .here("status lonely --scan 0")
        .fails(1, "'lonely' is neither a file");
}

/// Every valid name works as typed, and in the form that `create` prints.
#[test]
fn every_valid_array_name_works_everywhere() {
    for name in ["my pool", "it's", "a(b", "ä$HOME", "a;b*", "a\\b"] {
        let folder = World::outside("a b new", 8 * MIB);
        let run = |arguments: &[&str]| spindles_in(&folder.full(""), &[], arguments);
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
        folder.remove("b");
        run(&["rebuild", name, "--onto", "new", "--degraded"]).ok();
        run(&["rename", name, "plain"]).ok();
        run(&["rename", "plain", name]).ok();
        run(&["status", name]).ok();
    }
}

#[test]
fn odd_device_names_are_quoted_the_same_everywhere() {
    let folder = World::outside("a,b q\"z d(1) mem:1M", 8 * MIB);
    folder.put("data", vec![7; 1 << 20]);
    let expression = r#"raid6("a,b","q""z","d(1)",./mem:1M)"#;
    folder.here(&format!("create odd {expression}")).ok();
    let status = folder.here("status odd --json").ok().json();
    assert_eq!(devices(&status), ["a,b", "q\"z", "d(1)", "./mem:1M"]);
    // An existing file needs no quotes, so globs work; inside a list it does.
    let run = folder.here("status d(1) a,b q\"z ./mem:1M --json").ok();
    assert_eq!(devices(&run.json()), ["a,b", "q\"z", "d(1)", "./mem:1M"]);
    for target in [
        r#"array:"a,b","q""z",d(1),./mem:1M"#,
        r#"array:"a,b","q""z","d(1)",./mem:1M"#,
    ] {
        folder
            .here(&format!("copy data {target} --verify --force"))
            .ok();
        here(
            &folder,
            &format!("bench dd-read {target} --size 1M --runs 1"),
        )
        .ok();
    }
    folder
        .here("copy data array:a,b,d(1)")
        .fails(1, "'a' is neither a file");
    folder
        .here(r#"copy data array:d(1),"q"z""#)
        .fails(2, ["lacks a ',' here", "^"]);
    folder
        .here(r#"status "a,b"#)
        .fails(2, ["lacks the quote", "^"]);
}

/// Devices record the name of the outermost array, so it is found even if an inner array lacks too
/// many devices.
#[test]
fn a_name_finds_an_array_with_a_lost_inner_array() {
    let folder = World::outside("a b c", 8 * MIB);
    folder.here("create pool raid1(a,raid0(b,c))").ok();
    folder.remove("c");
    let run = folder.here("status pool --json").ends(3);
    assert_eq!(run.json()["name"], "pool");
}

/// A spare replaces lost members, not forgotten ones.
#[test]
fn a_spare_does_not_replace_a_member_that_was_not_given() {
    let folder = World::outside("a b c f", 8 * MIB);
    folder.put("data", vec![7; 1 << 20]);
    folder.here("create pool raid5(a,b,c) --spare f").ok();
    folder
        .here("copy data array:a,b,f")
        .ok()
        .warns(["c is member 2", "f: a spare, left out"]);
    folder.here("rebuild pool").ok().warns_no("takes the place");
    let status = folder.here("status pool --json").ok().json();
    assert_eq!(devices(&status), ["a", "b", "c"]);
    assert_eq!(status["spares"][0]["device"], "f");
}

/// A nested array is found by its name, although the folder also has a copy of one of its devices.
#[test]
fn a_copy_of_a_member_does_not_hide_the_arrays_name() {
    let folder = World::outside("a b c d e", 4 * MIB);
    folder.here("create pool raid1(raid1(a,b),raid1(c,d))").ok();
    folder.copy("d", "twin");
    for arguments in ["status pool", "scrub pool"] {
        let both = "d and twin are both member 1 of array 'pool.1'";
        folder.here(arguments).fails(1, [both, "leave one out"]);
    }
    folder
        .here("create pool concat(e)")
        .fails(1, "there is an array 'pool' already");
}

/// Devices that were absent while others took their places, one after another, are attached again
/// after more openings than a record covers.
#[test]
fn replaced_members_do_not_make_a_name_ambiguous() {
    let folder = World::outside("a b c d", 8 * MIB);
    folder.make("data", MIB);
    folder
        .here("create pool raid1(a,b) --degraded-writes allow")
        .ok();
    std::fs::create_dir(folder.full("away")).expect("room");
    let away = |name: &str| folder.full(&format!("away/{name}"));
    for (gone, new) in [("b", "c"), ("a", "d")] {
        std::fs::rename(folder.full(gone), away(gone)).expect("it is there");
        folder.here(&format!("rebuild pool --onto {new}")).ok();
        for _ in 0..9 {
            folder.here("copy data array:pool").ok();
        }
    }
    for gone in ["b", "a"] {
        std::fs::rename(away(gone), folder.full(gone)).expect("it is there");
        let status = folder.here("status pool --json").ok();
        assert_eq!(devices(&status.json()), ["d", "c"]);
        let message = format!("left out: {gone}: array 'pool' has another device in its position");
        assert!(status.error.contains(&message), "{}", status.error);
    }
    // With only one device of each side present, the superblocks can't show which side continued.
    for gone in ["a", "d"] {
        folder.remove(gone);
    }
    folder
        .here("status pool")
        .fails(1, "have no record of each other");
}

/// A folder may contain any number of other files.
#[test]
fn members_are_found_among_thousands_of_files() {
    let folder = World::outside("a z", 8 * MIB);
    for number in 0..5000 {
        std::fs::File::create(folder.full(&format!("f{number}"))).expect("a file");
    }
    folder.here("create pool raid1(a,z)").ok();
    let run = folder.here("status pool --scan .").ok();
    assert_eq!(run.error, "");
}

/// Partitions and loop devices on the same part of a disk are one device with two names.
#[test]
fn a_second_name_of_a_device_is_left_out() {
    let folder = World::outside("disk", 32 * MIB);
    let part = |at: u64| {
        let (offset, limit) = ((at * 16 * MIB).to_string(), (16 * MIB).to_string());
        let arguments = ["--offset", &offset, "--sizelimit", &limit];
        Loop::with(Path::new(&folder.full("disk")), &arguments)
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
    folder.here(&format!("create pool raid1({a},{b})")).ok();
    let run = folder.here(&format!("status pool{scan}")).ok();
    for (left, kept) in [(a2, a), (b2, b)] {
        let message = format!("left out: {left}: it has the same bytes as {kept}");
        assert!(run.error.contains(&message), "{}", run.error);
    }
    let json = folder.here(&format!("status pool --json{scan}")).json();
    assert_eq!(devices(&json), [a, b]);
}

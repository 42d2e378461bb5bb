//! `status`: its words, its exit status, and that it works whoever has the array.

use crate::arrays::{Folder, MIB};
use crate::binary::Run;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Fails unless the exit status, the JSON and the words are those.
fn is(folder: &Folder, devices: &str, status: i32, texts: &[&str]) -> Run {
    let state = ["healthy", "", "", "degraded", "failed"][usize::try_from(status).expect("few")];
    let run = folder.run(&format!("status {devices} --json"));
    assert_eq!(run.status, status, "{devices}: {}{}", run.out, run.error);
    assert_eq!(run.json()["state"], state, "{devices}");
    let run = folder.run(&format!("status {devices}"));
    assert_eq!(run.status, status, "{devices}: {}{}", run.out, run.error);
    let all = format!("{}{}", run.out, run.error);
    for text in texts {
        assert!(all.contains(text), "{devices}: no {text:?} in {all}");
    }
    run
}

#[test]
fn the_exit_status_says_how_an_array_is() {
    for (expression, devices, degraded, failed, missing) in [
        ("raid1(@a,@b)", "@a @b", "@b", "", ""),
        (
            "raid5(@a,@b,@c)",
            "@a @b @c",
            "@c @a",
            "@b",
            "members 0 and 2 of 3",
        ),
        (
            "raid6(@a,@b,@c,@d)",
            "@a @b @c @d",
            "@a @d",
            "@c",
            "members 0, 1 and 3 of 4",
        ),
        (
            "raid10(@a,@b,@c,@d)",
            "@a @b @c @d",
            "@a @c",
            "@a @b",
            "members 2 and 3 of 4",
        ),
        (
            "raid0(raid1(@a,@b),raid1(@c,@d))",
            "@a @b @c @d",
            "@b @c",
            "@a @b",
            "member 1 of 2",
        ),
        (
            "raid0(@a,@b)",
            "@a @b",
            "",
            "@b",
            "member 0 of 2 missing, more than raid0 survives",
        ),
    ] {
        let folder = Folder::new("a b c d", 8 * MIB);
        folder.run(&format!("create data {expression}")).ok();
        is(
            &folder,
            devices,
            0,
            &["healthy, clean", "last written 2", "ago; never scrubbed"],
        );
        if !degraded.is_empty() {
            is(
                &folder,
                degraded,
                3,
                &["degraded, clean", "array 'data", "not safe from"],
            );
        }
        if !failed.is_empty() {
            let texts = [
                "failed, clean",
                "array 'data' has failed: ",
                missing,
                "backup",
                "active",
            ];
            is(&folder, failed, 4, &texts);
        }
        if devices.len() > 8 {
            folder.run(&format!("scrub {devices}")).ok();
            is(&folder, devices, 0, &["; last scrubbed 2", " ago"]);
        }
    }
    let folder = Folder::new("a b c d", 8 * MIB);
    folder
        .run("create data raid1(raid0(@a,@b),raid0(@c,@d))")
        .ok();
    is(
        &folder,
        "@a @b @c",
        3,
        &["'data.1' can't be opened: member 1 of 2 missing"],
    );
    // What is around them is not known.
    let run = is(
        &folder,
        "@a @d",
        4,
        &["array 'data.0' has failed", "array 'data.1' has failed"],
    );
    assert!(run.out.contains("member 0: not there"), "{}", run.out);
    folder.run("status @nothing").fails(1, &["nothing"]);
    folder.run("status").fails(2, &["Usage"]);
}

#[test]
fn whoever_has_the_array_is_named() {
    let folder = Folder::new("a b c d", 16 * MIB);
    for (name, expression) in [
        ("data", "raid5(@a,@b,@c)"),
        ("nest", "raid0(raid1(@a,@b),raid1(@c,@d))"),
    ] {
        folder
            .run(&format!("create {name} {expression} --force"))
            .ok();
        let devices = &"@a @b @c @d"[..if name == "data" { 8 } else { 11 }];
        let locked = ["a", "b", "c"].map(|device| {
            let file = File::open(folder.path(device)).expect("it is there");
            file.lock().expect("nobody has it");
            file
        });
        let pid = std::process::id();
        let user = format!("in use by pid {pid} (cli-");
        let run = is(&folder, devices, 0, &[&user, "healthy, "]);
        assert!(!run.error.contains("spindles: "), "{}", run.error);
        let json = folder.run(&format!("status {devices} --json")).json();
        assert_eq!(json["users"][0]["pid"], pid);
        assert_eq!(json["users"][0]["work"], serde_json::Value::Null);
        is(
            &folder,
            "@b @c @d"
                .get(..if name == "data" { 5 } else { 8 })
                .expect("few"),
            3,
            &[&user],
        );
        drop(locked);
        let run = is(&folder, devices, 0, &["healthy, clean"]);
        assert!(!run.out.contains("in use"), "{}", run.out);
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("kill is there").success());
}

/// Lets a command run step by step until `status` shows what it is doing; then it stands still.
fn caught(folder: &Folder, arguments: &str, status: &str) -> (Child, Run) {
    let here = folder.path("");
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(
            arguments
                .split(' ')
                .map(|argument| argument.replace('@', &here)),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built");
    loop {
        std::thread::sleep(Duration::from_millis(3));
        signal(&child, "-STOP");
        let run = folder.run(&format!("{status} --json"));
        let what = &run.json()["users"][0]["work"]["what"];
        if what.is_string() {
            return (child, run);
        }
        signal(&child, "-CONT");
        let ended = child.try_wait().expect("it is ours");
        assert!(
            ended.is_none(),
            "{arguments} was over before it was seen: {}",
            run.out
        );
    }
}

#[test]
fn what_is_being_done_is_told_and_how_far_it_is() {
    let folder = Folder::new("a b c new", 64 * MIB);
    folder.run("create data raid5(@a,@b,@c)").ok();
    std::fs::write(folder.path("data"), vec![0x5a; 100 << 20]).expect("room");
    folder.run("copy @data array:@a,@b,@c").ok();
    std::fs::remove_file(folder.path("b")).expect("it is there");
    let (mut child, run) = caught(&folder, "rebuild @a @c --onto @new", "status @a @c @new");
    let json = run.json();
    assert_eq!(json["users"][0]["pid"], child.id());
    let work = &json["users"][0]["work"];
    assert_eq!(work["what"], "rebuild");
    assert!(
        work["done_bytes"].as_u64() < work["total_bytes"].as_u64(),
        "{work}"
    );
    let by = format!("in use: rebuild by pid {}, ", child.id());
    let member = format!("being rebuilt by pid {}, ", child.id());
    let command = "(spindles rebuild ";
    is(
        &folder,
        "@a @c @new",
        3,
        &[&by, &member, " % done", command, "degraded, "],
    );
    // Killed, it has nothing any more.
    child.kill().expect("it is ours");
    child.wait().expect("it ended");
    let texts = [
        "/new, rebuilding, ",
        " % done",
        "degraded, ",
        "goes on while the array is open for writing",
    ];
    let run = is(&folder, "@a @c @new", 3, &texts);
    assert!(!run.out.contains("in use"), "{}", run.out);
    folder.run("rebuild @a @c @new").ok();
    is(&folder, "@a @c @new", 0, &["healthy, clean"]);
    let (mut child, run) = caught(&folder, "scrub @a @c @new", "status @a @c @new");
    assert_eq!(run.json()["users"][0]["work"]["what"], "scrub");
    assert_eq!(run.status, 0);
    child.kill().expect("it is ours");
    child.wait().expect("it ended");
}

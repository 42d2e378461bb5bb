//! `status`: its text and exit status, also while another process has the array.

use crate::world::{MIB, Run, Running, World, spindles_in};
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

/// Fails unless the exit status, the JSON and the text match.
fn is(folder: &World, devices: &str, status: i32, texts: &[&str]) -> Run {
    let state = ["healthy", "", "", "degraded", "failed"][usize::try_from(status).expect("few")];
    let run = folder.run(&format!("status {devices} --json")).ends(status);
    assert_eq!(run.json()["state"], state, "{devices}");
    let run = folder.run(&format!("status {devices}")).ends(status);
    let all = format!("{}{}", run.out, run.error);
    for text in texts {
        assert!(all.contains(text), "{devices}: no {text:?} in {all}");
    }
    run
}

#[test]
fn the_exit_status_reports_the_state_of_an_array() {
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
        let folder = World::outside("a b c d", 8 * MIB);
        folder.ok(&format!("create data {expression}"));
        is(
            &folder,
            devices,
            0,
            &["healthy, clean", "last used 2", "ago; never scrubbed"],
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
            folder.ok(&format!("scrub {devices}"));
            is(&folder, devices, 0, &["; last scrubbed 2", " ago"]);
        }
    }
    let folder = World::outside("a b c d", 8 * MIB);
    folder.ok("create data raid1(raid0(@a,@b),raid0(@c,@d))");
    is(
        &folder,
        "@a @b @c",
        3,
        &["'data.1' can't be opened: member 1 of 2 missing"],
    );
    // The outer array is unknown.
    let run = is(
        &folder,
        "@a @d",
        4,
        &["array 'data.0' has failed", "array 'data.1' has failed"],
    );
    assert!(run.out.contains("member 0: not there"), "{}", run.out);
    folder.run("status @nothing").fails(1, "nothing");
}

/// How many more members may be lost, without claims about the unknown.
#[test]
fn status_reports_known_facts_of_a_partial_array() {
    let (none, one, two) = (
        "it is not safe from further losses",
        "it survives the loss of one member more",
        "it survives the loss of 2 members more",
    );
    for (expression, left, text) in [
        ("raid6(@a,@b,@c,@d)", "@a @b @c", one),
        ("raid6(@a,@b,@c,@d)", "@a @b", none),
        ("raid7(@a,@b,@c,@d,@e)", "@a @b @c @d", two),
        ("raid1(@a,@b,@c)", "@a @c", one),
        ("raid10:near3(@a,@b,@c,@d,@e,@f)", "@a @b @d @e", one),
        ("raid10:near3(@a,@b,@c,@d,@e,@f)", "@a @d @e @f", none),
        ("raid0(raid6(@a,@b,@c,@d),@e)", "@b @c @d @e", one),
        ("raid5(@a,@b,@c) --consistency resync", "@a @b", none),
    ] {
        let folder = World::outside("a b c d e f", 8 * MIB);
        folder.ok(&format!("create data {expression}"));
        let run = is(&folder, left, 3, &[text]);
        assert!(!run.error.contains("complete"), "{}", run.error);
        assert_eq!(
            run.error.matches(" further losses").count(),
            usize::from(text == none)
        );
    }
}

/// Devices without read permission do not count as lost.
#[test]
fn devices_without_read_permission_do_not_count_as_lost() {
    let folder = World::outside("a b c", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let mode = |name: &str, mode| {
        let mode = Permissions::from_mode(mode);
        std::fs::set_permissions(folder.full(name), mode).expect("it is ours");
    };
    mode("", 0o755);
    let run = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
        command
            .args(arguments.split(' '))
            .current_dir(folder.full(""));
        command.env("SPINDLES_SCAN", ".");
        if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    if let Err(error) = run("--version") {
        return println!("SKIPPED: devices_without_read_permission: as nobody: {error}");
    }
    for (denied, status, texts) in [
        (
            "b",
            3,
            &[
                "it is not known whether the array lacks members: b can't be read: \
                 permission denied",
            ][..],
        ),
        (
            "a b",
            0,
            &[
                "too few devices could be read to know the state of the array",
                "a, b can't be read: permission denied",
            ],
        ),
        (
            "a b c",
            1,
            &["'data' is neither a file", "a, b, c: permission denied"],
        ),
    ] {
        for name in ["a", "b", "c"] {
            mode(name, if denied.contains(name) { 0 } else { 0o644 });
        }
        for arguments in ["status data", "status data --json"] {
            let run = run(arguments).expect("it ran before");
            let error = String::from_utf8(run.stderr).expect("text");
            assert_eq!(run.status.code(), Some(status), "{denied}: {error}");
            for text in texts {
                assert!(error.contains(text), "{denied}: no {text:?} in {error}");
            }
            let out = String::from_utf8(run.stdout).expect("text");
            assert_eq!(out.contains("unknown"), denied == "a b", "{out}");
            for prophecy in ["backup", "degraded", "rebuild", "failed"] {
                assert!(!error.contains(prophecy), "{denied}: {error}");
            }
        }
    }
    // Other commands report it too.
    mode("a", 0o644);
    let run = run("scrub data --check").expect("it ran before");
    let error = String::from_utf8(run.stderr).expect("text");
    assert!(
        error.contains("may be here: b, c can't be read: permission denied"),
        "{error}"
    );
}

/// A nested array is shown with its inner arrays, and which device belongs to which.
#[test]
fn status_shows_inner_arrays_and_their_devices() {
    let logs_nothing = "policy journal (this level has nothing to log), checksums crc32c";
    let (outer, inner) = ("\narray 'data' (", "\n    inner array 'data.1' (");
    for (expression, texts) in [
        (
            "raid1(raid0(@a,@b),raid0(@c,@d))",
            [
                outer,
                logs_nothing,
                inner,
                "checksums none; the array around",
            ],
        ),
        (
            "raid0(raid1(@a,@b),raid1(@c,@d))",
            [
                outer,
                "checksums none; arrays inside it",
                inner,
                logs_nothing,
            ],
        ),
    ] {
        let folder = World::outside("a b c d", 8 * MIB);
        folder.ok(&format!("create data {expression}"));
        let run = folder.ok("status @a @b @c @d");
        let mut rest = &*format!("\n{}", run.out);
        for text in texts {
            let at = rest.find(text);
            rest = &rest[at.unwrap_or_else(|| panic!("no {text:?} in {}", run.out))..];
        }
    }
}

#[test]
fn status_names_the_process_using_the_array() {
    let folder = World::outside("a b c d", 16 * MIB);
    for (name, expression) in [
        ("data", "raid5(@a,@b,@c)"),
        ("nest", "raid0(raid1(@a,@b),raid1(@c,@d))"),
    ] {
        folder.ok(&format!("create {name} {expression} --force"));
        let devices = &"@a @b @c @d"[..if name == "data" { 8 } else { 11 }];
        let locked = ["a", "b", "c"].map(|device| {
            let file = File::open(folder.full(device)).expect("it is there");
            file.lock().expect("it is unlocked");
            file
        });
        let pid = std::process::id();
        let user = format!("in use by pid {pid} (program-");
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

/// Runs a command step by step until `status --json` shows its work, and this text; then stops it.
fn caught(folder: &World, arguments: &str, status: &str, shows: &str) -> (Running, Run) {
    let mut child = folder.begin(arguments);
    loop {
        std::thread::sleep(Duration::from_millis(3));
        child.signal("STOP");
        let run = folder.run(&format!("{status} --json"));
        let what = &run.json()["users"][0]["work"]["what"];
        if what.is_string() && run.out.contains(shows) {
            return (child, run);
        }
        child.signal("CONT");
        assert!(!child.has_ended(), "it was over before: {run:?}");
    }
}

#[test]
fn status_reports_running_work_and_its_progress() {
    let folder = World::outside("a b c new", 64 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    folder.put("data", vec![0x5a; 100 << 20]);
    folder.ok("copy @data array:@a,@b,@c");
    folder.remove("b");
    let (mut child, run) = caught(
        &folder,
        "rebuild @a @c --onto @new",
        "status @a @c @new",
        "\"rebuilding\"",
    );
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
    // After the kill, no process has the array.
    child.kill();
    let texts = [
        "/new, rebuilding, ",
        " % done",
        "degraded, ",
        "that goes on with `spindles rebuild data`, or by itself",
    ];
    let run = is(&folder, "@a @c @new", 3, &texts);
    assert!(!run.out.contains("in use"), "{}", run.out);
    folder.ok("rebuild @a @c @new");
    is(&folder, "@a @c @new", 0, &["healthy, clean"]);
    let (mut child, run) = caught(&folder, "scrub @a @c @new", "status @a @c @new", "scrub");
    assert_eq!(run.json()["users"][0]["work"]["what"], "scrub");
    assert_eq!(run.status, 0);
    child.kill();
}

/// A member whose missed writes are known needs no new device.
#[test]
fn status_names_the_command_that_updates_a_stale_member() {
    let folder = World::outside("a b c d data", 16 * MIB);
    folder.ok("create k6 raid6(@a,@b,@c,@d)");
    folder.ok("copy @data array:@a,@c,@d --bytes 4M --force");
    let back = format!(
        "`spindles rebuild k6` brings {} up to date",
        folder.full("b")
    );
    let safe = format!("to make array 'k6' safe again: {back}");
    let run = is(&folder, "@a @b @c @d", 3, &[&safe]);
    assert!(!run.error.contains("--onto"), "{}", run.error);
    // Another member is lost for good.
    let more = format!("{safe}; bring back member 3, with `spindles add DEV k6`");
    is(&folder, "@a @b @c", 3, &[&more, "--onto DEV --member 3`"]);
    folder.ok("rebuild @a @b @c @d");
    is(&folder, "@a @b @c @d", 0, &[]);
}

/// The remedy names what each missing member needs.
#[test]
fn status_names_a_remedy_for_each_missing_member() {
    let folder = World::outside("a b c d", 8 * MIB);
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        spindles_in(&folder.full(""), &[], &words)
    };
    run("create pool raid6(a,b,c,d)").ok();
    run("fail a pool").ok();
    let safe = "to make array 'pool' safe again: `spindles add a pool` takes a back; ";
    let says = |texts: &[&str]| {
        let status = run("status pool");
        for text in texts {
            assert!(status.error.contains(text), "no {text:?}: {}", status.error);
        }
    };
    says(&[&format!("{safe}or put a new device in its place: ")]);
    // Subfolders are not searched.
    std::fs::create_dir(folder.full("away")).expect("it is ours");
    folder.rename("c", "away/c");
    says(&[
        "members 0 and 2 of 4 missing",
        &format!("{safe}bring back member 2, with `spindles add DEV pool`"),
        "`spindles rebuild pool --onto DEV --member 2`",
    ]);
    folder.rename("away/c", "c");
    run("fail b pool").ok();
    says(&[&format!(
        "{safe}`spindles add b pool` takes b back; or put a new device in the place of"
    )]);
}

/// Names the command that finishes a resync which a read-only command left.
#[test]
fn a_read_only_copy_names_the_command_that_finishes_a_resync() {
    let folder = World::outside("a b", 16 * MIB);
    folder.ok("create m raid1(@a,@b)");
    folder.advance(&["a", "b"], &[], false);
    let words = "a resync makes its members agree again while this command runs; `spindles resync \
        m` finishes what is left";
    folder.ok("copy array:@a,@b @out --bytes 64K").warns(words);
}

/// The list and the status of one array agree, and so do their exit statuses.
#[test]
fn the_list_and_the_status_of_one_array_agree() {
    let folder = World::outside("a b c", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let scan = format!("--scan {}", folder.full(""));
    let agree = |status: i32, state: &str| {
        let one = folder.run(&format!("status data {scan}"));
        let all = folder.run(&format!("status {scan}"));
        // The list also has the arrays that other tests serve.
        assert!(
            one.status == status && all.status >= status,
            "{}",
            all.error
        );
        let mut lines = all.out.lines();
        let line = lines.find(|line| line.starts_with("data "));
        assert!(line.is_some_and(|line| line.contains(state)), "{}", all.out);
        assert!(status == 1 || one.out.contains(state), "{}", one.out);
    };
    agree(0, "healthy");
    folder.copy("a", "again");
    // Either device may be the member: that is not a state of the array, but an error.
    agree(1, "not known");
    for (gone, status, state) in [
        ("again", 0, "healthy"),
        ("a", 3, "degraded"),
        ("b", 4, "failed"),
    ] {
        folder.remove(gone);
        agree(status, state);
    }
}

/// A truncated member is left out, however little is left of it.
#[test]
fn a_member_that_is_too_small_for_a_superblock_is_left_out() {
    for bytes in [0, 100, 4095, 5000, 9000, 36_863] {
        let folder = World::outside("a b c", 8 * MIB);
        folder.ok("create data raid5(@a,@b,@c)");
        folder.make("b", bytes);
        for (line, status) in [
            ("status @a @b @c", 3),
            ("scrub @a @b @c", 0),
            ("set @a @b @c", 0),
        ] {
            let run = folder.run(line).ends(status);
            let is_reported = run.error.contains("b: ") && run.error.contains("leave it out");
            assert!(is_reported || status == 0, "{line}, {bytes}: {}", run.error);
        }
        folder.run("status @b").fails(1, "b");
    }
}

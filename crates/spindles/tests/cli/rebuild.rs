//! `rebuild` on arrays of files: the new device holds the data of the lost one, and a refused
//! command changes nothing.

use crate::world::{MIB, World};
use spindles_block::BlockIndex;
use spindles_format::MemberState;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

const BLOCK: u64 = 4096;

/// An array with data on it, and the file that was copied into it.
pub(crate) fn filled(expression: &str, devices: &str, bytes: u64) -> World {
    let folder = World::outside(devices, bytes);
    let create = format!("create data {expression} --chunk 16K --degraded-writes allow");
    folder.ok(&create);
    let data: Vec<u8> = (0..bytes / 2)
        .map(|at| u8::try_from((at * 7 + at / 4096) % 251).expect("small"))
        .collect();
    folder.put("data", data);
    let array = list(devices, ",");
    let copy = format!("copy @data array:{array} --force");
    folder.ok(&copy);
    folder
}

pub(crate) fn list(devices: &str, between: &str) -> String {
    let names: Vec<String> = devices.split(' ').map(|name| format!("@{name}")).collect();
    names.join(between)
}

/// Checks what the array on these devices holds at its beginning.
pub(crate) fn same(folder: &World, devices: &str) {
    let array = list(devices, ",");
    folder.ok(&format!("copy array:{array} @back"));
    let (data, back) = (folder.read("data"), folder.read("back"));
    assert!(back[..data.len()] == data, "{devices}");
    folder.remove("back");
}

#[test]
fn a_rebuild_restores_the_data_of_a_lost_device() {
    for (expression, left, others) in [
        ("raid1(@a,@b)", "a", "new"),
        ("raid5(@a,@b,@c)", "a c", "a new"),
        ("raid6(@a,@b,@c,@d)", "a c d", "new c"),
        ("raid0(raid1(@a,@b),raid1(@c,@d))", "a c d", "new c"),
    ] {
        let devices = ["a", "b", "c", "d"];
        let count = expression.matches('@').count();
        let folder = filled(expression, &devices[..count].join(" "), 8 * MIB);
        folder.remove("b");
        folder.put("new", vec![0x5a; 8 << 20]);
        let left_devices = list(left, " ");
        let run = folder.run(&format!("rebuild {left_devices} --onto @new --force"));
        run.ok().prints("member 1 is active again");
        let all = list(&format!("{left} new"), " ");
        let status = folder.run(&format!("status {all} --json"));
        assert_eq!(status.ok().json()["state"], "healthy", "{expression}");
        // Without the other dispensable members, the data must come from the new device.
        same(&folder, others);
    }
}

/// An interrupted program left a checkpoint: it is shown, and the rebuild resumes there.
#[test]
fn a_rebuild_resumes_at_its_checkpoint() {
    let folder = filled("raid5(@a,@b,@c)", "a b c", 8 * MIB);
    let (array, _) = folder.newest("a");
    // An eighth of the array: there are two data chunks in each stripe.
    let part = array.member[1].data_blocks / 4;
    let group_blocks = 2 * u64::from(array.chunk_blocks);
    let mark = BlockIndex(part / group_blocks * group_blocks);
    for name in ["a", "b", "c"] {
        let (mut array, device) = folder.newest(name);
        array.generation += 1;
        array.member[1].state = MemberState::Rebuilding {
            mark,
            missed_since: 0,
        };
        array.note_rebuilding();
        folder.put_superblock(name, &array, &device);
        if name == "b" {
            // Data above the checkpoint was never copied.
            let from = (device.data_start().0 + part / 2 + 4) * 4096;
            folder.write(name, from, &vec![0x5a; 1 << 20]);
        }
    }
    let risk = "member 1 of 3 not filled yet; it is not safe from further losses";
    folder
        .ok("status @a @b @c")
        .prints("/b, rebuilding, 12 % done")
        .prints("degraded")
        .warns(risk);
    let json = folder.ok("status @a @b @c --json").json();
    assert_eq!(json["members"][1]["state"], "rebuilding");
    folder
        .ok("rebuild @a @b @c")
        .prints("member 1 is active again");
    same(&folder, "b c");
    same(&folder, "a b");
}

/// Rows that the other members can't read are not filled on the new device. All else is safe again,
/// and a write repairs those rows too.
#[test]
fn a_rebuild_skips_rows_that_other_members_can_not_read() {
    let folder = filled("raid5(@a,@b,@c)", "a b c", 16 * MIB);
    let data = folder.read("data");
    let (_, record) = folder.newest("b");
    folder.write("b", (record.data_start().0 + 30) * BLOCK, b"rotten");
    folder.remove("c");
    let new = std::fs::File::create(folder.full("d")).expect("room");
    new.set_len(16 * MIB).expect("room");
    folder
        .run("rebuild @a @b --onto @d")
        .fails(
            1,
            ["4 KiB of the new device can't be filled", "scrub", "backup"],
        )
        .prints("member 2 is active again");
    let status = folder.run("status @a @b @d --json").json();
    assert_eq!(status["state"], "degraded");
    assert_eq!(status["scrub_left_bytes"], 2 * BLOCK);
    assert_eq!(
        status["bad_blocks"]["members"],
        serde_json::json!([0, 0, 1])
    );
    let scrub = folder.run("scrub @a @b @d --json");
    let places = scrub.json()["places"].clone();
    assert_eq!(places.as_array().map(Vec::len), Some(2), "{places}");
    // Without another member only that row is lost.
    folder.rename("a", "away");
    folder
        .run("copy array:@b,@d @rescued --rescue")
        .fails(1, "could not be read");
    let rescued = folder.read("rescued");
    let block = usize::try_from(BLOCK).expect("small");
    let pairs = data.chunks(block).zip(rescued.chunks(block));
    let different = pairs.filter(|(data, rescued)| data != rescued).count();
    assert!((1..=2).contains(&different), "{different} blocks");
    folder.rename("away", "a");
    folder.ok("copy @data array:@a,@b,@d --force");
    let status = folder.run("status @a @b @d --json").json();
    assert_eq!(
        status["bad_blocks"]["members"],
        serde_json::json!([0, 0, 0])
    );
    folder.ok("scrub @a @b @d");
    folder.ok("status @a @b @d");
    same(&folder, "a b d");
}

#[test]
fn an_impossible_rebuild_is_refused() {
    let folder = filled("raid5(@a,@b,@c)", "a b c", 4 * MIB);
    let other = World::outside("x y", 4 * MIB);
    other.ok("create other raid1(@x,@y)");
    std::fs::copy(other.full("x"), folder.full("x")).expect("room");
    folder.put("small", vec![0; 1 << 20]);
    folder.put("new", vec![0; 4 << 20]);
    folder.refuses("rebuild @a @c --onto @x", 1, &["--force"]);
    folder.refuses("rebuild @a @c --onto @small", 1, &["too small"]);
    folder.refuses("rebuild @a @c --onto @none", 1, &["there is no"]);
    folder.refuses("rebuild @a @c --onto @a", 2, &["is given twice"]);
    let remedy = [
        "no member is missing",
        "`spindles replace`",
        "`spindles spare add`",
    ];
    folder.refuses("rebuild @a @b @c --onto @new", 1, &remedy);
    for member in ["0", "9"] {
        let choices = format!("member {member} is not one that is missing: a device takes");
        folder.refuses(
            &format!("rebuild @a @c --onto @new --member {member}"),
            1,
            &[&choices, "missing: member 1 of array 'data'"],
        );
    }
    folder.refuses("rebuild @a @c --member 1", 2, &["--onto"]);
    let rescue = "`spindles copy --rescue`, if it was closed in order";
    folder.refuses("rebuild @a --onto @new", 1, &["can't be opened", rescue]);
    folder.refuses(
        "rebuild @a @c --onto @new --rebuild-rate fast",
        2,
        &["fast"],
    );
    folder.refuses("rebuild @a @c", 1, &["--onto"]);
    // Without a missing member, a rebuild has no work.
    folder.ok("rebuild @a @b @c").prints("nothing to rebuild");
    let json = folder.ok("rebuild @a @b @c --json").json();
    assert_eq!(json["rebuilt"], serde_json::json!([]));
    let nested = filled("raid1(raid0(@a,@b),raid0(@c,@d))", "a b c d", 4 * MIB);
    nested.put("new", vec![0; 4 << 20]);
    nested.refuses("rebuild @a @b --onto @new", 1, &["itself an array"]);
    nested.make("small", 1 << 20);
    nested.refuses(
        "rebuild @a @b @c --onto @small",
        1,
        &["take new ones of at least 4 MiB"],
    );
    for (onto, status, text) in [
        ("raid0(@new", 2, "')'"),
        ("raid9(@new,@small)", 2, "raid9"),
        (
            "raid0(@a,@new)",
            1,
            "/a is member 0 of array 'data.0'; take another device",
        ),
        ("raid0(@none,@new)", 1, "there is no"),
    ] {
        nested.refuses(&format!("rebuild @a @b @c --onto {onto}"), status, &[text]);
    }
    // Overwritten contents are reported.
    let run = folder.ok("rebuild @a @c --onto @x --force --rebuild-rate 20M --json");
    let json = run.json();
    assert_eq!(json["rebuilt"][0]["member"], 1);
    assert_eq!(json["through"], true);
    same(&folder, "a x c");
    // The lost device is not accepted again.
    let run = folder.ok("status @a @b @c --json");
    assert_eq!(run.json()["state"], "degraded");
}

/// After one of two missing members is filled, the message names the other member. After both are
/// filled, it names none.
#[test]
fn a_rebuild_names_members_that_are_still_missing() {
    let folder = filled("raid6(@a,@b,@c,@d)", "a b c d", 8 * MIB);
    for lost in ["b", "d"] {
        folder.remove(lost);
    }
    folder.make("new", 8 * MIB);
    folder.make("more", 8 * MIB);
    let still = "array 'data' is still degraded: member 3 missing; `spindles status data` says \
        what can be done";
    folder.ok("rebuild @a @c --onto @new").warns(still);
    folder
        .ok("rebuild @a @c @new --onto @more")
        .warns_no("still degraded");
    same(&folder, "a new c more");
}

/// The rest of an inner array is recreated with the new device, which is reported; or all of it on
/// new devices.
#[test]
fn an_inner_array_is_recreated_with_new_devices() {
    for (left, onto, names, devices) in [
        ("@a @c @d", "@new", "raid0", vec!["a", "new"]),
        ("data --scan @", "raid0(@new,@a)", "raid0", vec!["new", "a"]),
        (
            "@a @c @d",
            "raid1(@new,@more)",
            "raid1",
            vec!["new", "more"],
        ),
    ] {
        let folder = filled("raid1(raid0(@a,@b),raid0(@c,@d))", "a b c d", 4 * MIB);
        folder.remove("b");
        folder.make("new", 9 * MIB);
        folder.make("more", 9 * MIB);
        let run = folder.ok(&format!("rebuild {left} --onto {onto}"));
        let paths: Vec<String> = devices.iter().map(|name| folder.full(name)).collect();
        let message = format!(
            "array 'data': the inner array 'data.0' ({names}) is recreated from {}, and filled",
            paths.join(", ")
        );
        assert!(run.out.contains(&message), "{}", run.out);
        assert!(run.out.contains("member 0 is active again"), "{}", run.out);
        let new = devices.join(" ");
        let status = folder.run(&format!("status {} @c @d --json", list(&new, " ")));
        assert_eq!(status.ok().json()["state"], "healthy");
        same(&folder, &new);
    }
}

/// Returns true if one of both slots of a device holds a superblock.
fn has_superblock(device: &Path) -> bool {
    let device = File::open(device).expect("it is there");
    let starts = |at: u64| {
        let mut magic = [0; 8];
        device.read_exact_at(&mut magic, at).expect("it is larger");
        &magic == b"SPINDLES"
    };
    starts(4096) || starts(32768)
}

/// Killed while it fills, and then the array is written without the new device: the same command
/// starts again, and a device that was full gets only what it missed. A former member is not
/// overwritten without --force.
#[test]
fn a_repeated_rebuild_also_fills_missed_writes() {
    let folder = filled("raid1(@a,@b)", "a b", 32 * MIB);
    folder.rename("b", "old");
    let rebuild = "rebuild @a --onto @new";
    let is_filling = || {
        let status = folder.run("status @a @new --json").json();
        status["members"][1]["filled_bytes"].is_u64()
    };
    // Once the new device has a superblock, it is being filled. It may be full before the kill.
    let mut filling = (0..40).map(|_| {
        folder.make("new", 32 * MIB);
        let mut command = folder.begin(rebuild);
        while !command.has_ended() && !has_superblock(&folder.path("new")) {
            std::thread::sleep(Duration::from_micros(200));
        }
        command.kill();
        is_filling()
    });
    assert!(filling.any(|is_filling| is_filling));
    let copy = "copy @data array:@a --force";
    folder.ok(copy);
    folder.ok(rebuild).prints("member 1 is active again");
    folder.ok(copy);
    let status = folder.run("status @a @new --json").json();
    assert_eq!(status["state"], "degraded");
    folder.ok(rebuild);
    let status = folder.run("status @a @new --json").json();
    assert_eq!(status["state"], "healthy");
    same(&folder, "new");
    folder.remove("new");
    folder.refuses(
        "rebuild @a --onto @old",
        1,
        &["use --force to overwrite it"],
    );
    folder.ok("rebuild @a --onto @old --force");
    same(&folder, "old");
}

/// Killed at any moment, the same command resumes, even if a copy was killed before.
#[test]
fn recreating_an_inner_array_resumes_after_a_kill_at_any_moment() {
    for (array, left, onto) in [
        ("raid1(raid0(@a,@b),raid0(@c,@d))", "a c d", "@new"),
        (
            "raid1(raid0(@a,@b),raid0(@c,@d))",
            "a c d",
            "raid0(@new,@more)",
        ),
        ("raid0(raid1(@a,@b),raid1(@c,@d))", "a c d", "@new"),
    ] {
        let folder = filled(array, "a b c d", 8 * MIB);
        let copy = "copy @data array:@a,@b,@c,@d";
        folder.kill(copy, Duration::from_millis(15));
        folder.remove("b");
        folder.make("new", 8 * MIB);
        folder.make("more", 8 * MIB);
        let rebuild = format!("rebuild {} --onto {onto}", list(left, " "));
        // The last rebuild is slow and is killed while it fills: then the array continues without
        // the new device.
        let slowly = format!("{rebuild} --rebuild-rate 1M");
        for (rebuild, ms) in [(&rebuild, 6), (&rebuild, 12), (&slowly, 25), (&slowly, 400)] {
            folder.kill(rebuild, Duration::from_millis(ms));
            // The killed copy wrote the same contents again, so the array still holds them, however
            // far the rebuild came.
            same(&folder, left);
        }
        let run = folder.run(&rebuild);
        let is_through = run.error.contains("take another device");
        assert!(run.status == 0 || is_through, "{}", run.error);
        let more = if onto.contains("more") { " more" } else { "" };
        let all = format!("{left} new{more}");
        let status = folder.ok(&format!("status {} --json", list(&all, " ")));
        assert_eq!(status.json()["state"], "healthy", "{array} {onto}");
        same(&folder, &all);
    }
}

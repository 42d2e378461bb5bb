//! A separate device for the journal: an impossible one is refused and nothing changes, and the
//! array continues without the device.

use crate::loop_devices::Loop;
use crate::world::{MIB, World};
use std::path::Path;
use std::time::Duration;

#[test]
fn an_array_keeps_its_journal_on_a_separate_device() {
    let folder = World::outside("a b c j", 16 * MIB);
    folder.make("small", MIB);
    let before = folder.read("j");
    for (refused, why) in [
        ("raid5(@a,@b,@c) --journal @small", "too small"),
        ("raid1(@a,@b) --journal @j", "without parity logs nothing"),
        (
            "raid5(@a,@b,@c) --journal @j --consistency resync",
            "--consistency journal",
        ),
        ("raid5(@a,@b,@c) --journal @a", "given twice"),
    ] {
        folder.run(&format!("create data {refused}")).warns(why);
    }
    assert!(folder.read("j") == before, "nothing was changed");
    folder
        .ok("create data raid5(@a,@b,@c) --journal @j --json")
        .prints("\"checksum\": \"crc32c\"");
    let shown = folder.ok("status @a @b @c @j").prints("journal: ");
    folder.ok("examine @j").prints("the journal of array");
    folder
        .run("create other concat(@j)")
        .warns("the journal of a Spindles array");
    assert_eq!(shown.status, 0, "{}", shown.error);
    // Without that device the array does not keep the promise it made with it.
    folder.ends("status @a @b @c", 3).warns([
        "array 'data' is degraded: it has a device for its journal that is not there",
        "its members log meanwhile; give that device too, or",
        "spindles journal remove",
    ]);
    let json = folder.run("status @a @b @c --json").json();
    assert_eq!(json["state"], "degraded");
    folder.ok("journal remove --array @a,@b,@c");
    folder.does("status @a @b @c");
}

/// An array without a journal device gets one, loses it, gets another, and returns that one: its
/// data stays, and nothing else is overwritten.
#[test]
fn a_journal_device_is_added_replaced_and_removed() {
    let folder = World::outside("a b c j k", 16 * MIB);
    folder.make("other", 16 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let contents: Vec<u8> = (0..MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
    folder.put("in", &contents);
    let holds = |devices: &str| {
        folder.ok(&format!("copy array:{devices} @out"));
        let out = folder.read("out");
        folder.remove("out");
        out[..contents.len()] == contents
    };
    folder.ok("copy @in array:@a,@b,@c");
    folder.ok("create else concat(@other)");
    let before = folder.read("other");
    for (refused, why) in [
        ("journal add @other --array @a,@b,@c", "--force"),
        ("journal add @a --array @a,@b,@c", "given twice"),
        ("journal remove --array @a,@b,@c", "no device of its own"),
    ] {
        folder.run(refused).warns(why);
    }
    assert!(folder.read("other") == before, "nothing was changed");
    folder.ok("journal add @j --array @a,@b,@c");
    folder.ok("status @a @b @c @j").prints("journal: ");
    folder.ok("copy @in array:@a,@b,@c,@j");
    assert!(holds("@a,@b,@c,@j"));
    folder
        .run("journal add @k --array @a,@b,@c,@j")
        .warns("journal remove");
    // After a loss, another device replaces it, and the lost one never counts again.
    folder.ok("journal add @k --array @a,@b,@c");
    folder.ok("status @a @b @c @j @k").warns("j: outdated");
    assert!(holds("@a,@b,@c,@k"));
    folder
        .ok("journal add @other --array @a,@b,@c --force")
        .warns("; that is overwritten");
    folder
        .ok("journal remove --array @a,@b,@c,@other --json")
        .prints("\"removed\"");
    folder.ok("create else concat(@other)"); // It holds no data any longer.
    assert!(holds("@a,@b,@c"));
}

/// After a kill at any moment the array is intact, also when the command is repeated.
#[test]
fn a_killed_journal_change_leaves_the_array_intact() {
    let folder = World::outside("a b c j", 16 * MIB);
    let contents: Vec<u8> = (0..MIB).map(|at| u8::try_from(at % 241).unwrap()).collect();
    folder.put("in", &contents);
    let holds = |devices: &str| {
        folder.ok(&format!("copy array:{devices} @out"));
        let out = folder.read("out");
        folder.remove("out");
        out[..contents.len()] == contents
    };
    folder.ok("create data raid5(@a,@b,@c)");
    folder.ok("copy @in array:@a,@b,@c");
    let mut cut_short = 0;
    for round in 0..12 {
        let after = Duration::from_millis(round * 4);
        cut_short += u32::from(folder.kill("journal add @j --array @a,@b,@c --force", after));
        assert!(holds("@a,@b,@c"), "killed after {after:?}");
        let again = folder.run("journal add @j --array @a,@b,@c --force");
        assert!(
            again.status == 0 || again.error.contains("has its journal on"),
            "killed after {after:?}: {}",
            again.error
        );
        assert!(holds("@a,@b,@c,@j"), "killed after {after:?}");
        // `journal remove` resyncs interrupted writes first. The interrupted copy writes the same
        // data again, so the array's contents stay the same.
        let later = Duration::from_millis(5 + round);
        folder.kill("copy @in array:@a,@b,@c,@j", later);
        cut_short += u32::from(folder.kill("journal remove --array @a,@b,@c,@j", after));
        assert!(holds("@a,@b,@c"), "killed after {after:?}");
        let again = folder.run("journal remove --array @a,@b,@c");
        assert!(
            again.status == 0 || again.error.contains("no device of its own"),
            "killed after {after:?}: {}",
            again.error
        );
        let whole = folder.ok("scrub @a @b @c --json");
        assert!(holds("@a,@b,@c"), "killed after {after:?}: {}", whole.out);
    }
    assert!(cut_short > 0, "none was killed in the middle");
}

/// Writes in flight at the kill are on the journal device. Without it and without a member the
/// array does not open, and the error names what is missing and the remedy.
#[test]
fn an_unclean_array_lacking_journal_and_member_is_refused() {
    let folder = World::outside("a b c j new", 16 * MIB);
    folder.ok("create data raid5(@a,@b,@c) --journal @j --checksum none");
    folder.put("in", vec![0x5a; 16 << 20]);
    // Kills it as soon as the array is marked unclean, even on a slow machine.
    let was_cut_short = |_| {
        let mut copying = folder.begin("copy @in array:@a,@b,@c,@j");
        let is_marked = || {
            let (array, _) = folder.newest("a");
            !array.clean && array.journal.on_device
        };
        while !copying.has_ended() && !is_marked() {}
        copying.kill();
        is_marked()
    };
    assert!((0..100).any(was_cut_short), "none was killed in the middle");
    let missing = "member 1 of 3 is missing, and the device of its journal too";
    let remedy = "give the device of its journal, which records them, or bring the missing members \
                  back, or use --force";
    for command in [
        "copy array:@a,@c @out",
        "scrub @a @c",
        "rebuild @a @c --onto @new",
    ] {
        folder.refuses(command, 1, &["was not closed in order", missing, remedy]);
    }
    // Either of the two is enough, and so is --force.
    for (devices, force) in [("@a,@c,@j", ""), ("@a,@b,@c", ""), ("@a,@c", " --force")] {
        let status = folder.run(&format!("status {}", devices.replace(',', " ")));
        assert!(status.ok().out.contains("unclean"));
        for device in ["a", "b", "c", "j"] {
            folder.copy(device, &format!("{device}.kept"));
        }
        let run = folder.run(&format!("copy array:{devices} @out --bytes 1M{force}"));
        // Blocks of the missing member in whole stripes that were being written may be lost.
        let is_torn = !devices.contains("@b") && run.error.contains("more is lost than");
        if !is_torn {
            run.ok();
            folder.remove("out");
        }
        for device in ["a", "b", "c", "j"] {
            folder.copy(&format!("{device}.kept"), device);
        }
    }
}

/// The reason why an array has nothing to log fits the command.
#[test]
fn journal_add_explains_why_it_refuses_an_array() {
    let folder = World::outside("a b c j", 16 * MIB);
    folder.ok("create m raid1(@a,@b) --checksum none");
    let refused = "/j can't have the journal: an array without parity";
    folder.refuses("journal add @j --array @a,@b", 1, &[refused]);
    folder.ok("create m raid5(@a,@b,@c) --consistency resync --force");
    let refused = "/j can't have the journal: only an array that is created with --consistency";
    folder.refuses("journal add @j --array @a,@b,@c", 1, &[refused]);
    folder
        .run("journal add @j --array @a,@b,@c")
        .warns_no("--journal");
}

/// Distinguishes a former journal device from the current one, and from that of another array.
#[test]
fn status_reports_outdated_and_foreign_journal_devices() {
    let folder = World::outside("a b c j k l x y z", 16 * MIB);
    folder.ok("create m raid5(@a,@b,@c) --journal @j");
    folder.ok("journal add @k --array @a,@b,@c");
    let check_message = |devices: &str, texts: &[&str]| {
        let status = folder.ok(&format!("status {devices}"));
        for text in texts {
            assert!(
                status.error.contains(text),
                "no {text:?} in {}",
                status.error
            );
        }
    };
    let elsewhere = "/j: outdated: the array had its journal there, and has it on another device";
    check_message(
        "@a @b @c @j @k",
        &[elsewhere, "something else with --force"],
    );
    check_message(
        "@a @b @c @j",
        &[elsewhere, "for its journal that is not there"],
    );
    folder.copy("k", "l");
    let both = "one is a copy of the other; leave one out";
    folder.refuses("status @a @b @c @k @l", 1, &[both]);
    let short = std::fs::File::options().write(true).open(folder.full("l"));
    short.unwrap().set_len(8 * MIB).unwrap();
    check_message(
        "@a @b @c @l",
        &["/l: truncated: it has 8 MiB and had 16 MiB"],
    );
    folder.ok("journal remove --array @a,@b,@c,@k");
    check_message(
        "@a @b @c @j",
        &["/j: outdated: ", "has it on its members now"],
    );
    folder.ok("create n raid5(@x,@y,@z)");
    check_message("@x @y @z @j", &["/j: it has the journal of another array"]);
}

/// Every command that takes a device makes the checks of opening before it writes.
#[test]
fn commands_refuse_devices_with_sectors_larger_than_a_block() {
    let folder = World::outside("a b c d j", 16 * MIB);
    let device = match Loop::new(Path::new(&folder.full("j")), 4096) {
        Ok(device) => device,
        Err(reason) => return println!("SKIPPED: commands_refuse_devices_with_sectors: {reason}"),
    };
    let device = device.0.as_str();
    let why = [device, "sectors of 4096 bytes", "blocks of 512"];
    let small = "raid5(@a,@b,@c) --block-size 512";
    for more in [
        format!("--journal {device}"),
        format!("--spare {device}"),
        format!("--journal {device} --force"),
    ] {
        folder.refuses(&format!("create data {small} {more}"), 1, &why);
    }
    folder.refuses(
        &format!("create data raid1(@a,{device}) --block-size 512"),
        1,
        &why,
    );
    folder.ok(&format!("create data {small}"));
    let array = "@a,@b,@c";
    for line in [
        format!("journal add {device} --array {array}"),
        format!("spare add {device} --array {array}"),
        format!("replace @a --onto {device} @b @c"),
        format!("grow @a @b @c --add {device}"),
    ] {
        folder.refuses(&line, 1, &why);
        folder.refuses(&format!("{line} --force"), 1, &why);
    }
    // A shared spare may fit other arrays, so `spare add` accepts it; this array rejects it.
    folder.ok(&format!("spare add {device} --shared"));
    folder.remove("b");
    folder
        .run(&format!("status @a @c {device}"))
        .warns("can't be used");
    folder.refuses(&format!("rebuild @a @c --onto {device}"), 1, &why);
    folder
        .run(&format!("rebuild @a @c {device}"))
        .warns_no("takes the place");
    folder.ok("rebuild @a @c --onto @d");
    folder.does("status @a @c @d");
    // With blocks of the same size, the device works like any other.
    folder.ok(&format!("wipe {device} --force"));
    folder.ok(&format!("create other concat({device})"));
}

//! No command overwrites data on a device without --force, and none takes a device twice, under
//! whichever names.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::loop_devices::Loop;
use crate::world::{MIB, World};
use spindles_block::SizeBytes;
use std::path::Path;

/// Every command that takes a new device `@x`.
const TAKING: &[&str] = &[
    "create one concat(@x)",
    "create two raid1(@free,@x)",
    "create two raid1(@free,@other) --spare @x",
    "create two raid5(@free,@other) --journal @x",
    "spare add @x --shared",
    "spare add @free @x --shared",
    "spare add @x --array @a,@b,@c",
    "journal add @x --array @a,@b,@c",
    "rebuild @a @b --onto @x",
    "replace @a --onto @x @b @c",
    "grow @a @b @c --add @x",
    "grow @a @b @c --add @free --add @x",
];

fn folder_with_array() -> World {
    let folder = World::outside("a b c free other", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c) --chunk 16K");
    folder
}

#[test]
fn files_with_data_are_not_overwritten_without_force() {
    let folder = folder_with_array();
    for (at, bytes) in [
        (0, &b"From the one who keeps notes in files.\n"[..]),
        (5 * MIB + 4321, b"x"),
        (8 * MIB - 1, b"x"),
    ] {
        folder.make("x", 8 * MIB);
        folder.write("x", at, bytes);
        for command in TAKING {
            folder.refuses(
                command,
                1,
                &[
                    "/x holds data of no known kind",
                    &format!("from byte {at} on; use --force"),
                ],
            );
        }
    }
    // Written zeros count as zeros.
    folder.write("x", 0, &vec![0; 8 << 20]);
    folder.ok("spare add @x --shared");
    folder.ok("spare remove @x");
    folder.ok("create two raid1(@free,@x)");
    folder.write("other", 0, b"data");
    folder.ok("spare add @other --shared --force");
}

#[test]
fn slices_of_files_with_data_are_not_overwritten_without_force() {
    let folder = folder_with_array();
    folder.make("x", 12 * MIB);
    // Data outside the slice does not count.
    folder.write("x", 4096, b"x");
    folder.write("x", 11 * MIB, b"x");
    let taking = |command: &str| command.replace("@x", "slice(@x,1M,9M)");
    for at in [3 * MIB + 4321, 9 * MIB - 1] {
        folder.write("x", MIB + at, b"x");
        let why = format!("holds data of no known kind, from byte {at} on; use --force");
        for command in TAKING {
            folder.refuses(&taking(command), 1, &["slice(", &why]);
        }
        folder.make("data", 4096);
        folder.refuses("copy @data slice(@x,1M,9M)", 1, &["slice(", &why]);
        folder.write("x", MIB + at, &[0]);
    }
    folder.ok(&taking("create two raid1(@free,@x)"));
}

/// A superblock at the start of a slice shows only if a scan names the slice.
#[test]
fn devices_that_share_bytes_with_a_scanned_slice_are_not_overwritten_without_force() {
    let mut folder = folder_with_array();
    folder.make("x", 32 * MIB);
    folder.ok("create two concat(slice(@x,4M,9M))");
    folder.also_scan("slice(@x,4M,9M)");
    for part in ["slice(@x,12M,9M)", "slice(@x,3M,20M)"] {
        let refused = "which holds a member of the Spindles array 'two'";
        for command in TAKING {
            folder.refuses(&command.replace("@x", part), 1, &[refused]);
        }
        folder.make("data", 4096);
        let plain = format!("copy @data plain:concat({part}) --writable");
        folder.refuses(&plain, 1, &["a member of the Spindles array 'two'"]);
    }
}

/// Nor does a refused command make it longer.
#[test]
fn short_files_are_refused_and_not_extended() {
    let folder = folder_with_array();
    for bytes in [0, 28, 4096, 65536] {
        folder.make("x", bytes);
        for force in ["", " --force"] {
            for command in TAKING {
                let zeros_refused = ["/x ", "too small"];
                folder.refuses(&format!("{command}{force}"), 1, &zeros_refused);
            }
        }
    }
}

/// The required size is reported before the contents are checked, and suffices.
#[test]
fn the_error_for_a_small_device_names_a_sufficient_size() {
    for command in TAKING {
        let folder = folder_with_array();
        // Room for the metadata of a member suffices for an array of this single device.
        let bytes = if command.contains("concat") || command.contains("--shared") {
            64 << 10
        } else {
            160 << 10
        };
        folder.make("x", bytes);
        folder.write("x", 0, b"notes");
        let has = format!(": it has {} KiB, and needs ", bytes >> 10);
        folder.refuses(
            command,
            1,
            &["/x is too small", &has, "; take a larger device"],
        );
        let message = folder.run(command).error;
        let needed = message
            .split("needs ")
            .nth(1)
            .and_then(|it| it.split(';').next());
        let needed = needed.expect("a size").replace(' ', "");
        let needed: SizeBytes = needed.parse().expect("a size");
        folder.make("x", needed.0);
        folder.does(command);
    }
}

/// A loop device on a file; `None` if loop devices are unavailable, which is printed.
fn on_loop(folder: &World, file: &str, arguments: &[&str]) -> Option<Loop> {
    let made = Loop::with(Path::new(&folder.full(file)), arguments);
    made.map_err(|reason| println!("SKIPPED: loop devices: {reason}"))
        .ok()
}

#[test]
fn a_device_under_two_names_counts_as_one_device() {
    let folder = folder_with_array();
    let Some(whole) = on_loop(&folder, "free", &[]) else {
        return;
    };
    let Some(again) = on_loop(&folder, "free", &[]) else {
        return;
    };
    let halves = [["--offset", "0"], ["--offset", "4194304"]];
    let halves = halves.map(|offset| {
        let limit = ["--sizelimit", "4194304"];
        on_loop(&folder, "other", &[offset, limit].concat())
    });
    let [Some(first), Some(second)] = halves else {
        return;
    };
    let whole = &whole.0;
    for command in [
        &format!("create x raid1(@free,{whole})"),
        &format!("create x raid1({whole},{})", again.0),
        &format!("create x raid1(@other,{})", second.0),
        &format!("create x raid1(@x,@free) --spare {whole}"),
        &format!("create x raid5(@x,@free) --journal {whole}"),
        &format!("spare add @free {whole} --shared"),
    ] {
        folder.refuses(command, 2, &["the same device", whole_or(command, whole)]);
    }
    folder.refuses(&format!("copy {whole} @free"), 2, &["on both sides"]);
    folder.refuses(&format!("copy @free {whole}"), 2, &["on both sides"]);
    // Parts of a file that do not overlap are two devices.
    folder.ok(&format!("create x raid1({},{})", first.0, second.0));
}

fn whole_or<'a>(command: &str, whole: &'a str) -> &'a str {
    if command.contains(whole) { whole } else { "/" }
}

/// As in `mkfs`: recognized contents of a disk are protected; unknown contents may be overwritten.
#[test]
fn block_devices_with_unknown_contents_need_no_force() {
    let folder = folder_with_array();
    folder.write("free", 0, &vec![0x5a; 8 << 20]);
    folder.write("other", 1080, &[0x53, 0xef]);
    let Some(free) = on_loop(&folder, "free", &[]) else {
        return;
    };
    let Some(occupied) = on_loop(&folder, "other", &[]) else {
        return;
    };
    folder.refuses(
        &format!("create x raid1({},{})", free.0, occupied.0),
        1,
        &[&format!("{} holds an ext2 file system", occupied.0)],
    );
    folder.ok(&format!("create x concat({})", free.0));
}

/// Devices that the array itself needs are never reused, with or without --force.
#[test]
fn an_array_never_overwrites_devices_it_needs() {
    let folder = folder_with_array();
    let member = &["/b is member 1 of array 'data'; take another device"][..];
    for command in [
        "replace @a --onto @b @c",
        "rebuild @a @c --onto @b",
        "journal add @b --array @a,@c",
        "spare add @b --array @a,@c",
        "spare add @free @b --array @a,@c",
        // Named by its array, with the target device itself not listed.
        "replace @a --onto @b data --scan @",
        "rebuild data --onto @b --scan @",
        "journal add @b --array data --scan @",
        "spare add @b --array data --scan @",
    ] {
        for force in ["", " --force"] {
            folder.refuses(&format!("{command}{force}"), 1, member);
        }
    }
    let fast = World::outside("a b c j s", 8 * MIB);
    fast.ok("create fast raid5(@a,@b,@c) --journal @j --spare @s");
    let journal = &["/j is the journal of array 'fast'; take another device"][..];
    for command in [
        "replace @a --onto @j @b @c",
        "rebuild @a @b --onto @j",
        "grow @a @b @c --add @j",
        "spare add @j --array @a,@b,@c",
    ] {
        fast.refuses(&format!("{command} --force"), 1, journal);
    }
    fast.refuses(
        "journal add @j --array @a,@b,@c --force",
        1,
        &[
            "array 'fast' has its journal on ",
            "/j: take that away first",
        ],
    );
    fast.ok("journal remove --array @a,@b,@c,@j");
    let spare = &[
        "/s is a spare of array 'fast'; take another device",
        "spindles spare remove",
    ][..];
    fast.refuses("journal add @s --array @a,@b,@c --force", 1, spare);
    // A spare may take a place.
    fast.ok("replace @a --onto @s @b @c");
}

/// The same for nested arrays; a device that an array has lost for good may be reused.
#[test]
fn a_device_lost_for_good_may_be_reused() {
    let nested = World::outside("a b c d new", 8 * MIB);
    nested.ok("create nest raid1(raid0(@a,@b),raid0(@c,@d))");
    let member = &["/c is member 0 of array 'nest.1'; take another device"][..];
    for command in [
        "rebuild @a @b --onto raid0(@c,@d)",
        "rebuild @a @b @d --onto raid0(@c,@new)",
        "replace @a --onto @c @b @d",
        "spare add @c --array @a,@b,@d",
    ] {
        nested.refuses(&format!("{command} --force"), 1, member);
    }
    // Without @d, @c is of no use in its old role.
    nested.ok("rebuild @a @b --onto raid0(@c,@new) --degraded");
    let folder = folder_with_array();
    folder.put("in", vec![0x5a; 1 << 20]);
    folder.ok("copy @in array:@a,@c");
    folder.ok("rebuild @a @c --onto @b --force");
    let status = folder.ok("status @a @b @c --json").json();
    assert_eq!(status["state"], "healthy");
}

/// A device with several members is a single point of failure.
#[test]
fn create_warns_of_slices_of_one_device() {
    let folder = World::outside("a b", 40 * MIB);
    let on_a = "slice(@a,1M,12M),slice(@a,13M,12M)";
    let made = folder.ok(&format!(
        "create one raid5({on_a},slice(@b,1M)) --journal slice(@a,25M)"
    ));
    made.says(["/a holds slice(", "25M): a failure takes them all"]);
    let made = folder.ok("create two raid1(slice(@a,1M),slice(@b,1M)) --force");
    made.says_no("a failure takes them all");
}

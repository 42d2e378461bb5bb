//! `create`, `examine` and `status`: their effects and messages. A refused command changes nothing
//! on any device.

use crate::world::{MIB, World, spindles};
use spindles_format::{
    ArrayRecord, BITMAPS, DeviceRecord, MemberState, SLOT_BYTES, SUPERBLOCK_BYTES, decode, encode,
    uniform_bitmap,
};
use std::fs::{self, File};

impl World {
    /// Decodes the newest superblock of a device.
    pub(crate) fn newest(&self, name: &str) -> (ArrayRecord, DeviceRecord) {
        let bytes = self.read(name);
        let slots = SLOT_BYTES.into_iter().filter_map(|offset| {
            let at = usize::try_from(offset).expect("small");
            decode(&bytes[at..at + SUPERBLOCK_BYTES]).ok()
        });
        let newest = slots.max_by_key(|(array, _)| array.generation);
        newest.expect("a member")
    }

    /// Writes a superblock into its slot.
    pub(crate) fn put_superblock(&self, name: &str, array: &ArrayRecord, device: &DeviceRecord) {
        let mut out = [0; SUPERBLOCK_BYTES];
        encode(array, device, &mut out);
        let slot = SLOT_BYTES[usize::from(array.generation % 2 == 1)];
        self.write(name, slot, &out);
    }

    /// Writes the next generation to these devices, as left by a program that crashed.
    pub(crate) fn advance(&self, devices: &[&str], missing: &[usize], clean: bool) {
        for name in devices {
            let (mut array, device) = self.newest(name);
            array.generation += 1;
            array.clean = clean;
            for &member in missing {
                let out_since = array.generation;
                array.member[member].state = MemberState::Missing {
                    out_since,
                    held_out: false,
                };
            }
            if !clean {
                // All regions are dirty and out of sync.
                for kind in BITMAPS {
                    let area = device.area(kind).expect("a member has all areas");
                    let bits = uniform_bitmap(array.uuid, kind, 1, true);
                    self.write(name, area.offset_bytes, &bits);
                }
            }
            self.put_superblock(name, &array, &device);
        }
    }
}

#[test]
fn create_reports_unused_space_of_larger_devices() {
    let folder = World::outside("a b", 8 * MIB);
    folder.make("small", 4 * MIB);
    let run = folder.ok("create x raid5(@a,@b,@small)");
    for device in ["a", "b"] {
        let text = format!("{} are not used", folder.full(device));
        assert!(run.error.contains(&text), "{}", run.error);
    }
    assert!(!run.error.contains("small are"), "{}", run.error);
    folder
        .ok("create x raid5(@a,@b) --force")
        .warns_no("not used");
}

/// Every command of a plan makes an array with the size and the fault tolerance that the plan
/// shows.
#[test]
fn create_makes_the_size_and_fault_tolerance_of_its_plan() {
    for sizes in [&[20, 20][..], &[12, 18, 24, 33], &[16, 16, 16, 24, 24, 40]] {
        let names: Vec<String> = (0..sizes.len())
            .map(|device| format!("d{device}"))
            .collect();
        let folder = World::outside(&names[0], 0);
        for (name, mib) in names.iter().zip(sizes) {
            folder.make(name, mib * MIB);
        }
        let devices: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
        let before = folder.contents();
        let plan = folder.run(&format!("create --json --plan {}", devices.join(" ")));
        let plan = plan.ok().json();
        assert!(folder.contents() == before, "a plan writes nothing");
        let choices = plan["choices"].as_array().expect("a list").clone();
        assert!(choices.len() >= 4, "{plan}");
        for choice in choices {
            let expression = choice["expression"].as_str().expect("a text");
            let command = choice["command"].as_str().expect("a text");
            let quoted = format!("spindles create pool '{expression}'");
            assert_eq!(command, quoted);
            let created = spindles(&["create", "pool", expression, "--force", "--json"]);
            let created = created.ok().json();
            assert_eq!(created["bytes"], choice["bytes"], "{expression}");
            let survives = usize::try_from(choice["survives"].as_u64().expect("a number"));
            let left = names[survives.expect("small")..].iter();
            let left: Vec<String> = left.map(|name| folder.full(name)).collect();
            let status: Vec<&str> = ["status"]
                .into_iter()
                .chain(left.iter().map(String::as_str))
                .collect();
            let status = spindles(&status);
            assert!(
                [0, 3].contains(&status.status),
                "{expression}: {}",
                status.out
            );
        }
    }
}

/// Sizes stand for devices still to be bought.
#[test]
fn create_plans_with_sizes_instead_of_devices() {
    spindles(&["create", "--plan", "4T", "4T", "2T", "2T", "--rate", "200M"])
        .ok()
        .prints([
            "4 devices, 12 TiB",
            "refilled at 200 MiB/s",
            "spindles create pool 'raid0(raid1(disk1,disk2),raid1(disk3,disk4))'",
            "spindles create pool 'raid5(disk1,disk2,raid0(disk3,disk4))'",
        ]);
    for (arguments, text) in [
        (&["create", "--plan", "4T", "--rate", "0"][..], "--rate 0"),
        (&["create", "pool", "--plan", "4T"], "--plan"),
        (&["create", "--plan", "nothing.img", "1T"], "nothing.img"),
    ] {
        let run = spindles(arguments);
        assert!(run.status != 0 && run.error.contains(text), "{}", run.error);
    }
}

#[test]
fn arrays_are_created_and_shown() {
    let folder = World::outside("a b c", 8 * MIB);
    let run = folder.ok("create data raid5(@a,@b,@c) --chunk 32K");
    let first = run.out.lines().next().expect("a line");
    assert_eq!(
        first,
        "array 'data' created: raid5 left-symmetric, 3 members, chunks of 32 KiB, blocks of 4 KiB, \
         holds 15.5 MiB"
    );
    assert!(
        run.out
            .contains("ready: it holds zeros, and redundancy is made where it is written"),
        "{}",
        run.out
    );
    let status = folder.ok("status @c @a @b");
    assert_eq!(status.error, "");
    assert!(status.out.contains("policy journal, "), "{}", status.out);
    let mirror = World::outside("a b s", 8 * MIB);
    mirror
        .ok("create data raid1(@a,@b) --spare @s")
        .prints("/s is a spare of it");
    for shown in ["status @a @b", "examine @a"] {
        let policy = "policy journal (this level has nothing to log), ";
        mirror.ok(shown).prints(policy);
    }
    let json = mirror.ok("status @a @b --json").json();
    assert_eq!(json["consistency"], "journal");
    for text in [
        "array 'data' (",
        "healthy, clean, generation 1",
        "member 2: ",
        "/c, active",
    ] {
        assert!(status.out.contains(text), "no {text:?} in {}", status.out);
    }
    folder.ok("examine @a @b @c --areas").prints([
        "/b: member 1 of array 'data'",
        "journal",
        "The superblocks agree.",
    ]);
    let json = folder.ok("examine @a --json").json();
    assert_eq!(json["devices"][0]["level"], "raid5");
    assert_eq!(json["devices"][0]["chunk_bytes"], 32 << 10);
    assert_eq!(
        json["disagreements"][1],
        "member 2 of array 'data' is not among these devices"
    );
    let json = folder.ok("status @a @b --json").json();
    assert_eq!(json["state"], "degraded");
    assert_eq!(json["members"][2]["state"], "missing");
    assert_eq!(json["bytes"], 15 * MIB + 512 * 1024);
}

#[test]
fn create_reports_its_result_as_json() {
    let folder = World::outside("a b", 8 * MIB);
    let json = folder.ok("create m raid1(@a,@b) --json").json();
    assert_eq!(json["initial_sync"], "not needed");
    assert_eq!(json["members"], 2);
    assert_eq!(json["devices"][1], folder.full("b"));
    let json = folder
        .ok("create m raid0(@a,@b) --force --block-size 512 --json")
        .json();
    assert_eq!(json["initial_sync"], "not needed");
    assert_eq!(json["block_bytes"], 512);
    assert_eq!(
        json["overwritten"][0]["what"],
        "a member of the Spindles array 'm'"
    );
}

#[test]
fn nested_arrays_are_created_and_shown() {
    let folder = World::outside("a b c d e f", 8 * MIB);
    folder.ok("create n raid0(raid5(@a,@b,@c),raid5(@d,@e,@f))");
    folder.ok("status @f @e @d @c @b @a").prints([
        "array 'n' (",
        "array 'n.1' (",
        "member 1: an array, healthy",
    ]);
    folder
        .ok("status @f @e @c @b @a")
        .prints("member 1: an array, degraded")
        .warns("array 'n.1' is degraded: member 0 of 3");
    folder
        .ok("examine @a")
        .prints("the array is a member of array ");
    folder.refuses(
        "scrub @a @b @c",
        1,
        &["'n' can't be opened: member 1 of 2 missing"],
    );
    let all = ["array 'n.0' can't be opened: members 1 and 2 of 3", "'n.1'"];
    folder.refuses("scrub @a @d", 1, &all);
}

#[test]
fn create_refuses_wrong_usage() {
    let folder = World::outside("a b c", 2 * MIB);
    for (arguments, texts) in [
        (
            "create x raid1(@a,@b",
            &["lacks a ',' or a ')' here", "^"][..],
        ),
        ("create x @a", &["lacks a level with its members here"]),
        ("create x raid9(@a,@b)", &["no level 'raid9'", "raid10"]),
        (
            "create x raid5(3)",
            &["counts devices where it has to name them"],
        ),
        (
            "create x raid6(@a,@b,@c)",
            &["raid6 needs at least 4 members"],
        ),
        ("create x raid1(@a,@a)", &["names '", "twice"]),
        (
            "create x raid1(@a,@./a)",
            &["are the same device: an array needs different devices"],
        ),
        (
            "create a/b raid1(@a,@b)",
            &["'a/b' can't be the name of an array"],
        ),
        (
            "create x raid1(@a,@b) --chunk 5000",
            &["--chunk 5000", "multiple of 4096"],
        ),
        (
            "create x raid1(@a,@b) --chunk 0",
            &["--chunk 0", "at least one block"],
        ),
        (
            "create x raid1(@a,@b) --chunk 128M",
            &["--chunk 128M", "64M or less"],
        ),
        ("create x raid1(@a,@b) --chunk big", &["not a size"]),
        (
            "create x raid1(@a,@b) --block-size 1K",
            &["--block-size 1K: a block is 512 or 4K"],
        ),
        (
            "create x raid1(@a,@b) --layout near",
            &["raid1 has no layout 'near'"],
        ),
        (
            "create x raid10(@a,@b) --layout far3",
            &["3 copies on 2 members"],
        ),
        (
            "create x raid1(@a,@b) --consistency hope",
            &["no such policy", "resync, none"],
        ),
        ("create x raid1(@a,@b) --spare @a", &["is given twice"]),
        (
            "create x raid1(@a,@b) --checksum crc32c --consistency resync",
            &["checksums need --consistency journal", "--checksum none"],
        ),
        (
            "create x raid5(@a,@b,@c) --checksum md5",
            &["no such checksum", "none, crc32c"],
        ),
    ] {
        folder.refuses(arguments, 2, texts);
    }
}

#[test]
fn create_refuses_devices_it_must_not_take() {
    let folder = World::outside("a b c used", 2 * MIB);
    folder.ok("create other raid1(@used,@c)");
    for (name, offset, magic) in [
        ("ext", 1080, &b"\x53\xef"[..]),
        ("gpt", 512, b"EFI PART"),
        ("xfs", 0, b"XFSB"),
        ("lvm", 512, b"LABELONE"),
        ("luks", 0, b"LUKS\xba\xbe"),
        ("md", 4096, b"\xfc\x4e\x2b\xa9"),
    ] {
        folder.make(name, 2 * MIB);
        folder.write(name, offset, magic);
    }
    folder.write("gpt", 446 + 4, &[0xee]);
    folder.write("gpt", 510, &[0x55, 0xaa]);
    folder.make("tiny", 64 << 10);
    folder.make("small", 512 << 10);
    folder.make("damaged", 2 * MIB);
    folder.write("damaged", 4096, b"SPINDLES\x01\0\0\0garbage");
    for (arguments, texts) in [
        (
            "create x raid1(@a,@ext)",
            &["/ext holds an ext2 file system; use --force"][..],
        ),
        (
            "create x raid1(@a,@gpt)",
            &["/gpt holds a GPT partition table; use --force"],
        ),
        (
            "create x raid1(@a,@xfs)",
            &["/xfs holds an XFS file system; use --force"],
        ),
        (
            "create x raid1(@a,@lvm)",
            &["/lvm holds an LVM physical volume; use --force"],
        ),
        (
            "create x raid1(@a,@luks)",
            &["/luks holds a LUKS encrypted volume; use --force"],
        ),
        (
            "create x raid1(@a,@md)",
            &["/md holds a member of a Linux md array; use --force"],
        ),
        (
            "create x raid1(@xfs,@ext)",
            &["/xfs holds", "/ext holds", "to overwrite them"],
        ),
        (
            "create x raid1(@a,@used)",
            &["/used holds a member of the Spindles array 'other'"],
        ),
        (
            "create x raid1(@a,@damaged)",
            &["/damaged holds a damaged Spindles superblock"],
        ),
        (
            "create x raid1(@a,@tiny)",
            &[
                "/tiny is too small for a member of raid1 with chunks of 1 MiB: it has 64 KiB, and \
                 needs 2 MiB",
            ],
        ),
        (
            "create x raid1(@a,@small)",
            &[
                "/small is too small for a member",
                "chunks of 1 MiB: it has 512 KiB, and needs 2 MiB",
            ],
        ),
        (
            "create x raid1(@a,@none)",
            &["there is no ", "/none: make a file with 'truncate"],
        ),
    ] {
        folder.refuses(arguments, 1, texts);
    }
    for (arguments, texts) in [
        ("create x raid1(@a,@)", &["is a folder"][..]),
        (
            "create x raid1(iscsi://a,@)",
            &["its kind is unknown", "nbd://HOST"],
        ),
        (
            "create x raid1(@a,/dev/null)",
            &["/dev/null is a character device"],
        ),
        (
            "create x raid1(@a,mem:8M)",
            &["mem:8M exists only while this command runs"],
        ),
    ] {
        folder.refuses(arguments, 2, texts);
    }
    // A program has it open.
    let open = File::open(folder.full("b")).expect("it is there");
    open.lock().expect("it is unlocked");
    let waits = format!("/b is in use by pid {} (program-", std::process::id());
    folder.refuses(
        "create x raid1(@a,@b)",
        1,
        &[
            &waits,
            "): waiting up to 5 s for it",
            "): stop or unmount that first",
        ],
    );
}

#[test]
fn status_refuses_devices_that_do_not_belong_together() {
    let folder = World::outside("a b c x y blank", 2 * MIB);
    folder.ok("create data raid1(@a,@b,@c)");
    folder.ok("create other raid1(@x,@y)");
    folder.copy("a", "twin");
    folder.make("ext", 2 * MIB);
    folder.write("ext", 1080, &[0x53, 0xef]);
    folder.write("ext", 1120, &[0x40]);
    std::os::unix::fs::symlink(folder.full("a"), folder.full("link")).expect("a link");
    fs::hard_link(folder.full("a"), folder.full("hard")).expect("a link");
    for (arguments, texts) in [
        (
            "status @a @x @b",
            &["/x belongs to another array, 'other'", "one array"][..],
        ),
        (
            "status @a @twin",
            &["are both member 0 of array 'data'", "leave one out"],
        ),
        ("status @a @blank", &["/blank has no Spindles superblock"]),
        (
            "status @a @ext",
            &["/ext has no Spindles superblock: it carries an ext4"],
        ),
        ("status @none", &["can't open", "/none"]),
    ] {
        folder.refuses(arguments, 1, texts);
    }
    for same in ["./a", "link", "hard"] {
        let line = format!("status @b @a @{same}");
        folder.refuses(&line, 2, &["are the same device"]);
    }
    folder.refuses("status @a @", 2, &["is a folder"]);
}

#[test]
fn status_reports_stale_truncated_and_corrupt_members() {
    let folder = World::outside("a b c d", 8 * MIB);
    folder.ok("create data raid1(@a,@b,@c,@d)");
    folder.copy("d", "old");
    folder.advance(&["b", "c", "d"], &[0], true);
    folder.advance(&["b", "c", "d"], &[], true);
    let truncated = File::options().write(true).open(folder.full("c"));
    truncated
        .expect("it is there")
        .set_len(6 * MIB)
        .expect("shorter");
    folder
        .ok("status @a @b @c @d")
        .warns([
            "/a: stale: the array goes on without it since generation 2",
            "/c: truncated: it has 6 MiB and had 8 MiB when it became a member; make it 8 MiB",
        ])
        .prints([
            "degraded, clean, generation 3",
            "member 0: missing since generation 2",
        ]);
    folder
        .ok("status @old @b")
        .warns("/old: stale: it has generation 1");
    folder.write("d", 4096 + 50, b"damaged");
    folder.write("d", 32768 + 50, b"damaged");
    folder
        .ok("status @b @d")
        .warns("/d: the superblock's checksum is");
    folder
        .ok("examine @a @b @d")
        .prints(["/a: stale", "/d: the superblock's checksum"]);
}

/// Shows how much of an array is written, and how much a returning or new member lacks.
#[test]
fn status_reports_written_regions_and_missed_writes() {
    let folder = World::outside("a b c", 16 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let bytes: Vec<u8> = (0..5 * MIB).map(|at| at.to_le_bytes()[1] | 1).collect();
    folder.put("file", bytes);
    let says = |devices: &str, text: &str| {
        folder.ok(&format!("status {devices}")).prints(text);
    };
    says(
        "@a @b @c",
        "0 of 63 regions of 512 KiB are allocated; none is dirty\n",
    );
    folder.ok("copy @file array:@a,@b,@c");
    // Regions ahead of a sequential writer are marked, and zeroed, before it reaches them.
    let count = |devices: &str, what: &str| {
        let json = folder.ok(&format!("status {devices} --json")).json();
        json["regions"][what].as_u64().expect("a number")
    };
    let written = count("@a @b @c", "written");
    assert!((10..=30).contains(&written), "{written}");
    let all = format!("{written} of 63 regions of 512 KiB are allocated; none is dirty\n");
    says("@a @b @c", &all);
    says("@a @b", "member 2: not there; it missed nothing");
    folder.ok("copy @file array:@a,@b --bytes 2M");
    let dirty = count("@a @b", "dirty");
    assert!((4..=20).contains(&dirty), "{dirty}");
    let lacks = format!(
        "{dirty} of {written} regions were written without it, and are copied to it when it comes \
         back"
    );
    let lacks = format!("member 2: missing since generation 5; {lacks}");
    says("@a @b", &lacks);
    says("@a @b @c", &lacks);
    let json = folder.ok("status @a @b --json").json();
    assert_eq!(json["regions"]["total"], 63);
    assert_eq!(json["regions"]["region_bytes"], 512 << 10);
    assert_eq!(json["regions"]["unsettled"], 0);
    assert_eq!(json["members"][0]["lacks_regions"], 0);
    assert_eq!(json["members"][2]["lacks_regions"], dirty);
    // The rebuild copies only the regions that member 2 lacks.
    folder
        .ok("rebuild @a @b @c")
        .prints("member 2 is active again");
    says("@a @b @c", &all);
    says("@a @b @c", "/c, active\n");

    // A crash of an inner array without a journal.
    let folder = World::outside("a b c d", 8 * MIB);
    folder.ok("create n raid0(raid1(@a,@b),raid1(@c,@d)) --consistency resync");
    folder.advance(&["c", "d"], &[], false);
    let json = folder.ok("status @a @b @c @d --json").json();
    assert_eq!(json["regions"], serde_json::Value::Null);
    assert_eq!(json["members"][0]["array"]["regions"]["unsettled"], 0);
    assert_eq!(json["members"][1]["array"]["regions"]["unsettled"], 7);
    folder.ok("status @a @b @c @d").prints(
        "7 are marked dirty: written lately or while a member was away, or about to \
                get their first data; 7 to resync after a crash\n",
    );
    // An array without bitmaps.
    let folder = World::outside("a b", 8 * MIB);
    folder.ok("create z raid0(@a,@b) --checksum none");
    folder.ok("status @a @b").prints_no("regions");
}

/// If a superblock is overwritten, the other copy counts. Readers report it, and writers restore
/// it.
#[test]
fn an_overwritten_superblock_is_reported_and_rewritten() {
    let folder = World::outside("a b", 8 * MIB);
    folder.ok("create data raid1(@a,@b)");
    folder.ok("scrub @a @b");
    for at in [4096, 32768] {
        folder.write("a", at, &[0x5a; 4096]);
        let message = "/a: one of its two superblocks is damaged (there is no Spindles \
            superblock), and is rewritten ";
        folder
            .ok("status @a @b")
            .warns(format!("{message}when the array is next written"));
        folder
            .ok("examine @a @b")
            .prints("one of the two slots is damaged");
        folder.ok("scrub @a @b").warns(format!("{message}now"));
        folder.ok("examine @a @b").prints_no("damaged");
        assert_eq!(folder.ok("status @a @b").error, "");
    }
}

#[test]
fn split_brain_is_refused_and_shown() {
    let folder = World::outside("a b", 8 * MIB);
    folder.ok("create data raid1(@a,@b)");
    folder.advance(&["a"], &[1], true);
    folder.advance(&["b"], &[0], true);
    let texts = [
        "split brain: ",
        "/a",
        "/b",
        "decide which half to keep",
        "; last written: ",
    ];
    folder.refuses("status @a @b", 1, &texts);
    let examine = folder.ok("examine @a @b");
    for text in texts {
        assert!(examine.out.contains(text), "{}", examine.out);
    }
    folder.ok("status @a");
    folder.ok("status @b");
    // The advised command ends the split.
    let (a, b) = (folder.full("a"), folder.full("b"));
    let remedy = format!("spindles rebuild {a} --onto {b} --force");
    assert!(
        examine
            .out
            .contains(&format!("`{remedy}` keeps what {a} holds"))
    );
    folder.ok("rebuild @a --onto @b --force");
    folder.ok("status @a @b").prints("healthy");
}

#[test]
fn examine_describes_any_device() {
    let folder = World::outside("a b blank", 8 * MIB);
    folder.ok("create data raid1(@a,@b)");
    folder.advance(&["a"], &[], false);
    folder.make("xfs", 8 * MIB);
    folder.write("xfs", 0, b"XFSB");
    folder
        .run("examine @a @b @blank @xfs @none")
        .fails(1, "/none")
        .prints([
            "/a: member 0 of array 'data'",
            "generation 2, unclean",
            "/b: missed the last superblock write",
            "/blank: there is no Spindles superblock",
            "/xfs: there is no Spindles superblock; it holds an XFS file system",
        ]);
    let json = folder.ok("examine @a @b --json").json();
    assert_eq!(json["devices"][0]["generation"], 2);
    assert_eq!(json["devices"][0]["clean"], false);
    folder
        .ok("status @a @b")
        .prints("healthy, unclean, generation 2")
        .prints("missed the last superblock write");
}

/// A crash left the array unclean, and a device is gone: parity can't reconstruct blocks in flight.
#[test]
fn an_unclean_degraded_array_with_parity_needs_force() {
    let folder = World::outside("a b c", 4 * MIB);
    // Without a journal.
    folder.ok("create data raid5(@a,@b,@c) --consistency resync");
    folder.put("in", vec![0x5a; 1 << 20]);
    folder.ok("copy @in array:@a,@b,@c");
    folder.advance(&["a", "b", "c"], &[], false);
    let texts = [
        "array 'data' was not closed in order and member 1 of 3 is missing",
        "bring the missing members back, or use --force",
    ];
    folder.refuses("copy @in array:@a,@c", 1, &texts);
    // Examining it changes nothing and needs no force.
    folder
        .ok("status @a @c")
        .prints("degraded, unclean")
        .warns("was not closed in order");
    let run = folder.ok("copy array:@a,@c @out --bytes 1M --force");
    assert!(folder.read("out") == folder.read("in"));
    for text in [
        "bytes near interrupted writes may be wrong, and reads report no error",
        "`spindles resync data --force`",
    ] {
        assert!(run.error.contains(text), "no {text:?} in {}", run.error);
    }
    let halves = World::outside("a c", 0);
    for name in ["a", "c"] {
        fs::copy(folder.full(name), halves.full(name)).expect("room");
    }
    halves
        .ok("resync @a @c --force")
        .warns("may be wrong: compare it with a backup");
    // With all members it becomes consistent, and no longer needs force.
    folder
        .ok("copy @in array:@c,@b,@a --verify")
        .warns("was not closed in order");
    folder.run("copy array:@a,@c @again --bytes 1M");
}

/// The same if the absent member could have continued alone: all required options are named at
/// once, whichever were given.
#[test]
fn an_unclean_array_names_all_required_options_at_once() {
    let folder = World::outside("a b c d", 4 * MIB);
    let create = "create data raid6(@a,@b,@c,@d) --consistency resync";
    folder.ok(create);
    folder.advance(&["a", "b", "c", "d"], &[], false);
    let unclean = "use --force --degraded to open it all the same";
    folder.refuses("resync @a @b", 1, &[unclean]);
    folder.refuses("resync @a @b --degraded", 1, &[unclean]);
    let newer = "or go on without them by --force --degraded, or for good by";
    folder.refuses("resync @a @b --force", 1, &[newer]);
    folder.ok("status @a @b").warns(unclean);
    folder.ok("resync @a @b --force --degraded");
}

/// After a crash, writing without a member that was present then needs --degraded; reading only
/// warns.
#[test]
fn an_absent_members_last_writes_are_discarded_only_with_degraded() {
    let folder = World::outside("a b c new", 4 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    folder.put("in", vec![0x5a; 1 << 20]);
    folder.ok("copy @in array:@a,@b,@c");
    folder.advance(&["a", "b", "c"], &[], false);
    let only = "blocks of the last writes that member 1 alone may hold are lost for good as soon \
        as the array is written";
    let status = folder.ok("status @a @c").warns([
        "array 'data' was not closed in order, and lacks member 1, which it had until then",
        "bring member 1 back first",
        only,
        "`spindles resync data --degraded`",
        "to lose nothing, bring member 1 of array 'data' back",
        "`spindles rebuild data --degraded --onto DEV`",
    ]);
    // No block is written while the device is out.
    let differ = "regions may differ after the crash, and are made to agree when the array is next";
    assert!(status.out.contains(differ), "{}", status.out);
    let status = folder.run("status @a @c --json").json();
    assert_eq!(status["hold_last_writes"], serde_json::json!([1]));
    assert_eq!(status["members"][1]["lacks_regions"], 0);
    let before = ["a", "c"].map(|name| folder.read(name));
    folder.ok("copy array:@a,@c @out --bytes 1M").warns([
        "is only read, not put in order, since it lacks member 1",
        only,
        "--degraded goes on without member 1 for good",
    ]);
    assert!(folder.read("out") == folder.read("in"));
    folder.ok("copy array:@a,@c @out --bytes 1M --force");
    assert!(before == ["a", "c"].map(|name| folder.read(name)));
    for writer in [
        "copy @in array:@a,@c",
        "scrub @a @c",
        "resync @a @c",
        "resync @a @c --force",
        "rebuild @a @c --onto @new",
        "set @a @c --degraded-writes allow",
    ] {
        folder.refuses(writer, 1, &[only, "bring member 1 back", "--degraded"]);
    }
    // A copy that is refused does not resync its source.
    let occupied = "copy array:@a,@c @in --bytes 1M --degraded";
    folder.refuses(occupied, 1, &["use --force to overwrite it"]);
    let noted = "member 1 is recorded as missing";
    folder
        .ok("copy array:@a,@c @other --bytes 1M --degraded")
        .warns([noted, "`spindles resync data` finishes what is left"]);
    // From now on the array records this.
    folder.advance(&["a", "c"], &[1], false);
    folder.ok("resync @a @c");
    // A mirror loses no blocks that way.
    let mirror = World::outside("a b c", 4 * MIB);
    mirror.ok("create data raid1(@a,@b,@c)");
    mirror.advance(&["a", "b", "c"], &[], false);
    mirror
        .run("copy array:@a,@c @other --bytes 1M --degraded")
        .warns_no("lost for good");
}

/// After its writer is killed, the array can be used at once, and after the resync all members hold
/// the same copy.
#[test]
fn an_array_is_usable_right_after_its_writer_is_killed() {
    let folder = World::outside("a b c", 24 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let data: Vec<u8> = (0..40 * MIB)
        .map(|at| ((at * at) >> 7).to_le_bytes()[0])
        .collect();
    folder.put("in", &data);
    for delay_ms in [5, 20, 60] {
        let delay = std::time::Duration::from_millis(delay_ms);
        folder.kill("copy @in array:@a,@b,@c", delay);
        folder.ok("status @c @b @a");
    }
    folder.ok("copy @in array:@c,@b,@a --verify");
    for two in ["@a,@b", "@b,@c"] {
        folder
            .ok(&format!("copy array:{two} @out --bytes 40M --force"))
            .warns("degraded");
        assert!(folder.read("out") == data, "{two}");
        folder.remove("out");
    }
}

#[test]
fn resync_makes_an_unclean_array_consistent() {
    let folder = World::outside("a b c", 8 * MIB);
    // With checksums, data written behind its back would be corruption.
    folder.ok("create data raid5(@a,@b,@c) --checksum none");
    let json = folder.ok("resync @c @a @b --json").json();
    assert_eq!(json["was_clean"], true);
    // Data that parity does not match, as after a crash.
    let start = usize::try_from(2 * MIB).expect("small");
    let before = folder.read("b");
    folder.write("b", 2 * MIB, &[7; 4096]);
    folder.advance(&["a", "b", "c"], &[], false);
    folder.ok("status @a @b @c").prints("unclean");
    let run = folder.ok("resync @a @b @c");
    assert_eq!(run.out, "array 'data' is consistent\n");
    folder.ok("status @a @b @c").prints("healthy, clean");
    // Parity is consistent again: each member is the xor of the other two.
    let members = ["a", "b", "c"].map(|name| folder.read(name));
    let xor = (start..start + 4096).fold(0, |sum, at| {
        sum | (members[0][at] ^ members[1][at] ^ members[2][at])
    });
    assert_eq!(xor, 0);
    assert!(members[1] != before, "the test wrote somewhere");
    folder.refuses("resync @a", 1, &["members 1 and 2 of 3 missing"]);
}

/// A resync reports work even if only inner arrays needed it.
#[test]
fn a_resync_of_inner_arrays_only_is_reported_as_work() {
    let folder = World::outside("a b c d", 8 * MIB);
    folder.ok("create kn raid0(raid1(@a,@b),raid1(@c,@d))");
    folder.advance(&["c", "d"], &[], false);
    folder
        .ok("resync @a @b @c @d")
        .prints("array 'kn' is consistent\n");
    folder.advance(&["a", "b"], &[], false);
    let json = folder.ok("resync @a @b @c @d --json").json();
    assert_eq!(json["was_clean"], false);
    let json = folder.ok("resync @a @b @c @d --json").json();
    assert_eq!(json["was_clean"], true);
    folder
        .ok("resync @a @b @c @d")
        .prints("there is nothing to resync");
}

/// Each command waits for the others to end, and takes the array as they left it.
#[test]
fn concurrent_commands_run_one_after_another() {
    let folder = World::outside("a b c data", 16 * MIB);
    folder.ok("create pool raid5(@a,@b,@c)");
    let copies = [(); 3].map(|()| folder.begin("copy @data array:@a,@b,@c --bytes 256K"));
    for copy in copies {
        copy.end(None).ends(0);
    }
}

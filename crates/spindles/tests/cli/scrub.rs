//! `scrub` on arrays of files: flipped bytes are found at exactly their places, and repaired if the
//! right contents are known.

use crate::world::{MIB, World, pattern};
use serde_json::Value;
use spindles_admin::assemble::AssembleOptions;
use spindles_engine::Scrub;
use spindles_format::{AreaKind, SLOT_BYTES, SUPERBLOCK_BYTES, decode};
use std::collections::BTreeSet;
use std::path::Path;

const BLOCK: u64 = 4096;

/// A small random number generator with fixed results.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// An array of which no two words are equal, on devices a, b, c, ...
fn filled(expression: &str, devices: &str) -> World {
    let folder = World::outside(devices, 8 * MIB);
    let run = folder.run(&format!(
        "create data {expression} --chunk 64K --degraded-writes allow --json"
    ));
    run.ok();
    let status = folder.run(&format!("status {} --json", list(devices)));
    let bytes = status.ok().json()["bytes"].as_u64().expect("a size");
    folder.put(
        "source",
        pattern(usize::try_from(bytes).expect("64 bits"), bytes),
    );
    let target = list(devices).replace(' ', ",");
    folder.ok(&format!("copy @source array:{target} --force"));
    folder
}

fn list(devices: &str) -> String {
    let names: Vec<String> = devices.split(' ').map(|name| format!("@{name}")).collect();
    names.join(" ")
}

/// The data area of a member, in blocks of the device.
fn data_area(folder: &World, device: &str) -> std::ops::Range<u64> {
    let bytes = folder.read(device);
    let slot = |at: u64| {
        let at = usize::try_from(at).expect("small");
        decode(&bytes[at..at + SUPERBLOCK_BYTES]).ok()
    };
    let (_, device) = SLOT_BYTES.into_iter().find_map(slot).expect("a superblock");
    let start = device.data_start().0;
    // The rest after the last whole chunk is unused.
    start..start + device.data_blocks() / 16 * 16
}

fn data(folder: &World, devices: &str) -> Vec<Vec<u8>> {
    let area = |device: &str| {
        let area = data_area(folder, device);
        let at = |block: u64| usize::try_from(block * BLOCK).expect("small");
        folder.read(device)[at(area.start)..at(area.end)].to_vec()
    };
    devices.split(' ').map(area).collect()
}

/// Flips bits in this many blocks, at most one in each row. Returns the device and block of each.
fn flip(folder: &World, devices: &str, count: usize) -> BTreeSet<(String, u64)> {
    let mut random = Random(4711);
    let names: Vec<&str> = devices.split(' ').collect();
    let mut rows = BTreeSet::new();
    let mut flipped = BTreeSet::new();
    while flipped.len() < count {
        let device = names[usize::try_from(random.below(names.len() as u64)).expect("few")];
        let area = data_area(folder, device);
        let row = random.below(area.end - area.start);
        if !rows.insert(row) {
            continue;
        }
        let block = area.start + row;
        let at = block * BLOCK + random.below(BLOCK);
        let byte = folder.read(device)[usize::try_from(at).expect("small")];
        folder.write(device, at, &[byte ^ 0x10]);
        flipped.insert((folder.full(device), block));
    }
    flipped
}

/// The blocks reported as corrupt and repaired.
fn repaired(json: &Value) -> BTreeSet<(String, u64)> {
    let places = json["places"].as_array().expect("a list").iter();
    places
        .flat_map(|place| {
            assert_eq!(
                (&place["what"], &place["fate"]),
                (&"rotten".into(), &"repaired".into())
            );
            let member = place["member"].as_str().expect("a name").to_owned();
            let first = place["offset_bytes"].as_u64().expect("a number") / BLOCK;
            let blocks = place["bytes"].as_u64().expect("a number") / BLOCK;
            (first..first + blocks).map(move |block| (member.clone(), block))
        })
        .collect()
}

/// Scrubs an array, and stops half-way. Returns the place where the next scrub continues.
fn stop_half_way(folder: &World, devices: &str) -> u64 {
    let paths: Vec<String> = devices.split(' ').map(|name| folder.full(name)).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let scrubbed = spindles_admin::scrub::scrub(
        &paths,
        &AssembleOptions::default(),
        Scrub::default(),
        &mut |_| {},
        &mut |done, total| done * 2 < total,
    );
    assert!(!scrubbed.expect("it is there").through);
    stopped_at(folder, devices)
}

/// Where a stopped scrub continues, by `status`.
fn stopped_at(folder: &World, devices: &str) -> u64 {
    let json = folder
        .run(&format!("status {} --json", list(devices)))
        .json();
    json["scrub_stopped_bytes"].as_u64().expect("a number")
}

/// Bytes per member, enough to stop a scrub midway.
const LARGE: u64 = 48 * MIB;

/// A scrub that continues a stopped one says which part it does not read.
#[test]
fn a_continued_scrub_names_the_part_that_it_skips() {
    let folder = World::outside("a b c", LARGE);
    folder.ok("create data raid5(@a,@b,@c)");
    folder.put("source", vec![7; 90 << 20]);
    folder.ok("copy @source array:@a,@b,@c --force");
    let scrub = "scrub @a @b @c";
    for json in [false, true] {
        let at = stop_half_way(&folder, "a b c");
        let bytes = folder.run("status @a @b @c --json").json()["bytes"].as_u64();
        let percent = at * 100 / bytes.expect("a number");
        assert!(percent > 0, "{at}");
        if json {
            let json = folder.ok(&format!("{scrub} --json")).json();
            assert_eq!(json["resumed"][0]["offset_bytes"], at);
            assert_eq!(json["places"].as_array().expect("a list").len(), 0);
            continue;
        }
        let run = folder.ok(scrub);
        let expected = format!(
            "array 'data': goes on at {percent} %, where it was stopped; --restart reads all\n\
             array 'data': only what follows {percent} % was read now\n\
             array 'data': nothing is wrong in the part that was read\n"
        );
        assert_eq!(run.out, expected);
    }
    let run = folder.ok(scrub);
    assert_eq!(run.out, "array 'data': nothing is wrong\n");
}

/// A stopped scrub starts from the beginning if a member has another device since, or blocks
/// have moved.
#[test]
fn a_stopped_scrub_restarts_after_a_change_of_members() {
    for (change, devices) in [
        ("replace @c @a @b @c --onto @d", "a b d"),
        ("rebuild @a @b --onto @d", "a b d"),
        ("grow @a @b @c --add @d", "a b c d"),
    ] {
        let folder = World::outside("a b c d", LARGE);
        folder.ok("create data raid5(@a,@b,@c)");
        folder.put("source", vec![7; 90 << 20]);
        folder.ok("copy @source array:@a,@b,@c --force");
        assert!(stop_half_way(&folder, "a b c") > 0);
        folder.ok(change);
        assert_eq!(stopped_at(&folder, devices), 0, "{change}");
        let run = folder.ok(&format!("scrub {}", list(devices)));
        assert_eq!(run.out, "array 'data': nothing is wrong\n", "{change}");
    }
}

/// Data that could not be compared is not reported as right.
#[test]
fn a_scrub_without_a_member_reports_uncompared_data() {
    for (expression, left, message) in [
        (
            "raid6(@a,@b,@c,@d)",
            "a b",
            "without members 2 and 3 some of it was read",
        ),
        (
            "raid0(raid1(@a,@b),raid1(@c,@d))",
            "a c d",
            "without member 1 of array 'data.0' some",
        ),
    ] {
        let folder = filled(expression, "a b c d");
        let fine = "array 'data': nothing is wrong with what is there; ";
        folder
            .ok(&format!("scrub {} --degraded", list(left)))
            .prints(format!("{fine}{message}"));
    }
}

#[test]
fn scrub_finds_and_repairs_exactly_the_flipped_bytes() {
    for (expression, devices) in [
        ("raid6(@a,@b,@c,@d)", "a b c d"),
        ("raid1(@a,@b,@c) --checksum none", "a b c"),
        ("raid6(@a,@b,@c,@d,@e) --checksum none", "a b c d e"),
        ("raid7(@a,@b,@c,@d,@e) --checksum none", "a b c d e"),
        ("raid1(@a,@b)", "a b"),
        ("raid10(@a,@b,@c)", "a b c"),
        ("raid4(@a,@b,@c)", "a b c"),
        ("raid5(@a,@b,@c)", "a b c"),
    ] {
        let folder = filled(expression, devices);
        let good = data(&folder, devices);
        let scrub = format!("scrub {}", list(devices));
        let run = folder.ok(&scrub);
        assert_eq!(run.out, "array 'data': nothing is wrong\n", "{expression}");
        let flipped = flip(&folder, devices, 40);
        let rotten = data(&folder, devices);
        let texts = [
            "`spindles status` does not show it",
            "`spindles scrub data`",
        ];
        let check = folder
            .run(&format!("{scrub} --check --json"))
            .fails(1, texts);
        assert_eq!(check.json()["left_bytes"], 40 * BLOCK);
        assert!(data(&folder, devices) == rotten, "{expression}: --check");
        let run = folder.ok(&format!("{scrub} --json"));
        assert_eq!(repaired(&run.json()), flipped, "{expression}");
        assert_eq!(run.json()["repaired_bytes"], 40 * BLOCK);
        assert!(data(&folder, devices) == good, "{expression}");
        let run = folder.ok(&scrub);
        assert_eq!(run.out, "array 'data': nothing is wrong\n", "{expression}");
    }
}

/// A check changes nothing: it takes no spare, and brings no member up to date.
#[test]
fn a_check_writes_nothing() {
    let folder = filled("raid1(@a,@b)", "a b");
    folder.make("c", 8 * MIB);
    folder.ok("spare add @c --shared");
    let all = || ["a", "b", "c"].map(|name| folder.read(name));
    let before = all();
    for devices in ["@a @c", "@a @b @c"] {
        folder.ok(&format!("scrub --check {devices}"));
        assert!(all() == before, "{devices}");
    }
}

/// Not one byte changes on any device: corruption, traces of a crash, a member's missed writes and
/// outdated superblocks stay as they are.
#[test]
fn a_check_changes_nothing_whatever_it_finds() {
    for (expression, devices, left) in [
        ("raid1(@a,@b)", "a b", "a"),
        ("raid5(@a,@b,@c)", "a b c", "a c"),
        ("raid5(@a,@b,@c) --journal @j", "a b c j", "a c j"),
        ("raid6(@a,@b,@c,@d) --checksum none", "a b c d", "a c d"),
    ] {
        let folder = filled(expression, devices);
        let members: Vec<&str> = devices.split(' ').filter(|name| *name != "j").collect();
        let all = || -> Vec<Vec<u8>> { devices.split(' ').map(|name| folder.read(name)).collect() };
        let check = |devices: &str, status: i32, what: &str| {
            let before = all();
            folder
                .run(&format!("scrub --check {}", list(devices)))
                .ends(status);
            assert!(all() == before, "{expression}: {what}");
        };
        let target = |devices: &str| list(devices).replace(' ', ",");
        // A member that missed writes, and is back.
        folder.put("more", vec![0x77; 1 << 20]);
        folder.ok(&format!("copy @more array:{}", target(left)));
        check(left, 0, "degraded");
        check(devices, 0, "one came back");
        folder.ok(&format!("rebuild {}", list(devices)));
        check(devices, 0, "nothing is wrong");
        flip(&folder, &members.join(" "), 20);
        check(devices, 1, "rot");
        folder.run(&format!("scrub {}", list(devices)));
        // The last superblock write reached only one of them.
        folder.advance(&members[..1], &[], true);
        check(devices, 0, "the others lag");
        folder.advance(&members, &[], false);
        check(devices, 0, "unclean");
        // A read-only check can't distinguish corruption from interrupted writes.
        flip(&folder, &members.join(" "), 20);
        let run = folder.run(&format!("scrub --check {}", list(devices)));
        let texts = [
            "was not closed in order",
            "run `spindles resync data`, then scrub",
        ];
        run.fails(1, texts);
    }
}

/// With too few members nothing is scrubbed; with just enough, the scrub completes.
#[test]
fn a_scrub_of_too_few_members_is_refused() {
    for (expression, devices, too_few, enough) in [
        ("raid1(@a,@b)", "a b", "", "b"),
        ("raid5(@a,@b,@c)", "a b c", "c", "a c"),
        ("raid5(@a,@b,@c) --checksum none", "a b c", "b", "a b"),
        ("raid6(@a,@b,@c,@d)", "a b c d", "d", "b d"),
        ("raid10(@a,@b,@c)", "a b c", "a", "a b"),
    ] {
        let folder = filled(expression, devices);
        for options in ["", " --check", " --restart", " --trust-data", " --force"] {
            if !too_few.is_empty() {
                let scrub = format!("scrub {}{options}", list(too_few));
                let texts = [
                    "can't be opened",
                    "more than ",
                    " survives",
                    "copy --rescue",
                ];
                folder.refuses(&scrub, 1, &texts);
            }
            let run = folder.run(&format!("scrub {}{options}", list(enough)));
            let wrong = run.out.contains("nothing is wrong");
            assert!(run.status == 0 && wrong, "{expression}{options}: {run:?}");
        }
    }
}

/// With checksums, readers of corrupt blocks get the right bytes, even with one parity.
#[test]
fn corrupt_blocks_are_read_correctly() {
    for (expression, devices) in [
        ("raid1(@a,@b)", "a b"),
        ("raid5(@a,@b,@c)", "a b c"),
        ("raid6(@a,@b,@c,@d)", "a b c d"),
    ] {
        let folder = filled(expression, devices);
        let good = data(&folder, devices);
        let flipped = flip(&folder, devices, 40);
        // The same with one copy of the bitmap of written regions damaged.
        let mut device = folder.read("b");
        let (_, record) = folder.newest("b");
        let area = record.area(AreaKind::WRITTEN_BITMAP).expect("a bitmap");
        let at = usize::try_from(area.offset_bytes).expect("small");
        device[at..at + 512].fill(0);
        folder.put("b", device);
        let target = list(devices).replace(' ', ",");
        let bytes = folder.read("source").len();
        folder.put("back", []);
        let run = folder.ok(&format!("copy array:{target} @back --bytes {bytes} --json"));
        let incidents = run.json()["incidents"].clone();
        assert!(folder.read("back") == folder.read("source"), "{expression}");
        // Each affected device is reported once, with the action taken.
        let incidents = incidents.as_array().expect("some");
        assert!(!incidents.is_empty(), "{expression}");
        for incident in incidents {
            let rotten = &incident["rotten_bytes"];
            let bytes = rotten.as_u64().expect("a number");
            assert!((BLOCK..=40 * BLOCK).contains(&bytes), "{incident}");
            assert_eq!(
                (incident["out"].as_bool(), incident["failed_reads"].as_u64()),
                (Some(false), Some(0))
            );
            let device = incident["device"].as_str().expect("a name");
            assert_eq!(run.error.matches(device).count(), 2, "{}", run.error);
        }
        assert_eq!(run.error.matches(" found rotten").count(), incidents.len());
        assert!(
            run.error.contains("spindles scrub repairs them"),
            "{}",
            run.error
        );
        // The array was opened read-only, so a scrub finds all corruption.
        let run = folder.ok(&format!("scrub {} --json", list(devices)));
        assert_eq!(repaired(&run.json()), flipped, "{expression}");
        assert!(data(&folder, devices) == good, "{expression}");
    }
}

/// A verified copy reads corruption twice, and reports it once.
#[test]
fn copy_reports_each_corrupt_block_once() {
    let folder = filled("raid5(@a,@b,@c)", "a b c");
    assert_eq!(flip(&folder, "a b c", 1).len(), 1);
    let bytes = folder.read("source").len();
    for verify in ["", " --verify"] {
        folder.put("back", []);
        let copy = format!("copy array:@a,@b,@c @back --bytes {bytes}{verify}");
        let run = folder.ok(&copy);
        assert_eq!(
            run.error.matches(" found rotten").count(),
            1,
            "{}",
            run.error
        );
        assert!(run.error.contains(": 4 KiB found rotten"), "{}", run.error);
    }
}

/// Checks that the copy holds the source, with zeros for skipped ranges. Returns the percentage
/// copied.
fn read_of(json: &Value, source: &[u8], back: &[u8]) -> u64 {
    let mut expected = source.to_vec();
    let mut lost = 0;
    for left_out in json["left_out"].as_array().expect("a list") {
        let number = |name: &str| left_out[name].as_u64().expect("a number");
        let (at, bytes) = (number("offset_bytes"), number("bytes"));
        let index = |bytes| usize::try_from(bytes).expect("small");
        expected[index(at)..index(at + bytes)].fill(0);
        lost += bytes;
    }
    assert!(back == expected, "something else was copied");
    let bytes = u64::try_from(source.len()).expect("small");
    (bytes - lost) * 100 / bytes
}

/// Data on the remaining devices can be read, however many are missing.
#[test]
fn a_rescue_copies_the_rest_of_a_failed_array() {
    for (expression, devices, left, part) in [
        ("raid0(@a,@b)", "a b", "@a", 50),
        ("raid5(@a,@b,@c)", "a b c", "@b", 33),
        ("raid6(@a,@b,@c,@d)", "a b c d", "@d", 25),
        ("raid10(@a,@b,@c,@d)", "a b c d", "@a,@b", 50),
    ] {
        let folder = filled(expression, devices);
        let source = folder.read("source");
        folder
            .run(&format!("copy array:{left} @back"))
            .fails(1, ["can't be opened", "missing, more than", "; --rescue"]);
        let before: Vec<_> = devices.split(' ').map(|name| folder.read(name)).collect();
        let run = folder
            .run(&format!("copy array:{left} @back --rescue --json"))
            .warns("has failed: ");
        let after: Vec<_> = devices.split(' ').map(|name| folder.read(name)).collect();
        assert!(before == after, "{expression}: a device changed");
        assert_eq!(run.status, 1, "{}", run.error);
        let read = read_of(&run.json(), &source, &folder.read("back"));
        assert!(read.abs_diff(part) < 2, "{expression}: {read}");
    }
    // Unwritten blocks are known to be zero, even if part of their stripe was written.
    let folder = World::outside("a b c", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let mut source = vec![0x5a; (1 << 20) + 5 * 4096];
    folder.put("source", &source);
    folder.ok("copy @source array:@a,@b,@c");
    for left in ["@a", "@b", "@c"] {
        drop(std::fs::remove_file(folder.full("back")));
        let run = folder.run(&format!("copy array:{left} @back --rescue --json"));
        let back = folder.read("back");
        source.resize(back.len(), 0);
        assert!(read_of(&run.json(), &source, &back) > 30);
    }
    // Interrupted writes of a crash are unknown without the other members.
    let folder = filled("raid5(@a,@b,@c)", "a b c");
    folder.advance(&["a", "b", "c"], &[], false);
    folder.refuses(
        "copy array:@a @back --rescue",
        1,
        &["can't be opened", "only if it was closed in order"],
    );
}

/// A range that can't be read as a whole is read block by block.
#[test]
fn a_rescue_reports_each_corrupt_block_once() {
    for verify in ["", " --verify"] {
        let folder = filled("raid0(@a,@b)", "a b");
        let first = data_area(&folder, "a").start + 64;
        for block in [first, first + 1] {
            folder.write("a", block * BLOCK + 5, b"something else");
        }
        folder
            .run(&format!("copy array:@a,@b @back --rescue{verify}"))
            .fails(1, ["8 KiB could not be read", ": 8 KiB found rotten"]);
        // The first unreadable block ends the copy.
        folder
            .run("copy array:@a,@b @other")
            .fails(1, ["can't read at byte", ": 4 KiB found rotten"]);
    }
}

/// An array that has lost the first blocks of two adjacent chunks, and their offsets in the array.
fn with_losses() -> (World, [usize; 2]) {
    let folder = filled("raid5(@a,@b,@c)", "a b c");
    let source = folder.read("source");
    // The first row of two adjacent chunks, and more of one of them.
    let chunks = [1 << 20, (1 << 20) + (64 << 10)];
    let place = |offset: usize| {
        let block = &source[offset..offset + 4096];
        let of = |device: &str| {
            let bytes = folder.read(device);
            bytes.chunks_exact(4096).position(|held| held == block)
        };
        let mut found = ["a", "b", "c"]
            .into_iter()
            .filter_map(|device| Some((device, of(device)?)));
        found.next().expect("it is on one of them")
    };
    for offset in [chunks[0], chunks[0] + 4096, chunks[1]] {
        let (device, block) = place(offset);
        folder.write(device, block as u64 * BLOCK + 17, &[1, 2, 3]);
    }
    (folder, chunks)
}

/// A rescue copies all readable data, and reports the rest.
#[test]
fn a_rescue_copies_all_readable_data() {
    let (folder, lost) = with_losses();
    let source = folder.read("source");
    let copy = |more: &str| {
        drop(std::fs::remove_file(folder.full("back")));
        folder.run(&format!("copy array:@a,@b,@c @back{more}"))
    };
    let message = format!("can't read at byte {}", lost[0]);
    copy("")
        .fails(1, [&message, "--rescue"])
        .warns_no("scrub repairs");
    assert!(!Path::new(&folder.full("back")).exists());
    for more in [" --rescue", " --rescue --verify", " --rescue --json"] {
        let run = copy(more);
        let messages = lost.map(|at| {
            let at = spindles_block::SizeBytes(u64::try_from(at).expect("small"));
            format!("data: 4 KiB at {at} can't be read")
        });
        let run = run
            .fails(1, messages)
            .warns("data: 8 KiB could not be read and was left out")
            .warns_no("scrub repairs");
        let mut expected = source.clone();
        for at in lost {
            expected[at..at + 4096].fill(0);
        }
        assert!(folder.read("back") == expected, "{more}");
        if more.ends_with("json") {
            let places = run.json()["left_out"].clone();
            let expected = lost.map(|at| serde_json::json!({"offset_bytes": at, "bytes": 4096}));
            assert_eq!(places, serde_json::json!(expected));
        }
    }
}

/// Adjacent blocks are reported as one range, in whatever order they are found. People see at most
/// 50 ranges.
#[test]
fn adjacent_corrupt_blocks_are_reported_as_one_range() {
    let folder = filled("raid5(@a,@b,@c)", "a b c");
    let start = data_area(&folder, "b").start * BLOCK;
    let length = 2 << 20;
    folder.write("b", start + BLOCK, &vec![0x5a; length]);
    let run = folder.ok("scrub @a @b @c");
    let at = start + BLOCK;
    let place = format!("{length} bytes at {at} were rotten: repaired\n");
    assert!(run.out.contains(&place), "no {place:?} in {}", run.out);
    assert_eq!(run.out.matches(" were rotten").count(), 1, "{}", run.out);
    let count = 120;
    for block in 0..count {
        folder.write("b", start + 2 * block * BLOCK, &[1, 2, 3]);
    }
    let run = folder.run("scrub @a @b @c --check");
    assert_eq!(run.out.matches(" were rotten").count(), 50, "{}", run.out);
    assert!(
        run.out.contains("and 70 more places: --json names all"),
        "{}",
        run.out
    );
    let json = folder.ok("scrub @a @b @c --json").json();
    assert_eq!(json["places"].as_array().map(Vec::len), Some(120));
}

/// Lost ranges are reported as bytes of the array: array offsets lead to the affected files.
#[test]
fn scrub_reports_lost_ranges_as_bytes_of_the_array() {
    let (folder, chunks) = with_losses();
    let run = folder.run("scrub @a @b @c").fails(
        1,
        "some damage could not be repaired: restore these places from a backup",
    );
    for offset in chunks {
        let text = format!("in array 'data' that is 4096 bytes at {offset}");
        assert!(run.out.contains(&text), "no {text:?} in {}", run.out);
    }
    let json = folder.run("scrub @a @b @c --json").json();
    let places = json["places"].as_array().expect("a list").iter();
    let lost: BTreeSet<_> = places
        .map(|place| place["array_offset_bytes"].as_u64().expect("data"))
        .collect();
    assert_eq!(lost, chunks.map(|offset| offset as u64).into());
}

#[test]
fn undecidable_disagreements_are_reported_and_not_repaired() {
    for (expression, devices) in [("raid5(@a,@b,@c)", "a b c"), ("raid1(@a,@b)", "a b")] {
        let folder = filled(&format!("{expression} --checksum none"), devices);
        let good = data(&folder, devices);
        let flipped = flip(&folder, devices, 25);
        assert_eq!(flipped.len(), 25);
        let rotten = data(&folder, devices);
        let scrub = format!("scrub {}", list(devices));
        let run = folder.ends(&format!("{scrub} --json"), 1);
        let json = run.json();
        assert_eq!(json["disagreement_bytes"], 25 * BLOCK, "{expression}");
        assert_eq!(json["repaired_bytes"], 0);
        // A wrong block may be in any data chunk of the stripe: the report lists the array offset
        // for each.
        for place in json["places"].as_array().expect("a list") {
            let at = place["offset_bytes"].as_u64().expect("a number");
            let chunks = if devices == "a b" { 1 } else { 2 };
            let offsets: Vec<u64> = (0..chunks).map(|chunk| at + (chunk << 16)).collect();
            assert_eq!(
                place["array_offsets_bytes"],
                serde_json::json!(offsets),
                "{place}"
            );
        }
        status_says_left(&folder, devices, 25 * BLOCK);
        assert!(data(&folder, devices) == rotten, "{expression}");
        let run = folder
            .run(&scrub)
            .fails(1, "some damage could not be repaired")
            .prints("nothing tells which is wrong");
        let names_chunks = run
            .out
            .contains("; in the array these are 4096 bytes at each of ");
        assert_eq!(names_chunks, devices == "a b c", "{}", run.out);
        folder
            .ok(&format!("{scrub} --trust-data"))
            .warns("--trust-data")
            .prints("made to agree");
        let after = data(&folder, devices);
        assert!(after != rotten && after != good, "{expression}");
        status_says_left(&folder, devices, 0);
        folder.ok(&scrub);
    }
}

#[test]
fn scrub_covers_inner_arrays_and_refuses_raid0_without_checksums() {
    let devices = "a b c d e f";
    let folder = filled("raid0(raid1(@a,@b,@c),raid1(@d,@e,@f))", devices);
    folder.write("e", 5 * MIB, &[1, 2, 3]);
    let run = folder.ok(&format!("scrub {} --json", list(devices)));
    let member = (folder.full("e"), 5 * MIB / BLOCK);
    assert_eq!(repaired(&run.json()), BTreeSet::from([member]));
    let folder = World::outside("a b", 8 * MIB);
    folder.ok("create data raid0(@a,@b) --checksum none");
    folder.refuses("scrub @a @b", 1, &["keeps no redundancy (raid0)"]);
}

/// A place that several arrays report is named once, and blocks that an inner array repaired for
/// the outer one are counted.
#[test]
fn nested_arrays_report_each_place_once() {
    let expression = "raid1(raid5(@a,@b,@c),raid5(@d,@e,@f))";
    let folder = crate::cli::rebuild::filled(expression, "a b c d e f", 4 * MIB);
    let all = "@a @b @c @d @e @f";
    let rot = |device: &str, block: u64| {
        let (_, record) = folder.newest(device);
        let block = record.data_start().0 + block;
        folder.write(device, block * BLOCK, b"rotten");
        (folder.full(device), block)
    };
    let one = BTreeSet::from([rot("e", 200)]);
    let run = folder.ok(&format!("scrub {all} --json"));
    assert_eq!(repaired(&run.json()), one);
    assert_eq!(run.json()["repaired_bytes"], BLOCK);
    // More of one row than the inner array survives.
    for device in ["a", "b", "c"] {
        for block in 300..304 {
            rot(device, block);
        }
    }
    let json = folder.run(&format!("scrub {all} --json")).json();
    let places = json["places"].as_array().expect("a list").iter();
    let mut places: Vec<String> = places
        .map(|place| format!("{} {}", place["member"], place["offset_bytes"]))
        .collect();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), count, "{json}");
    crate::cli::rebuild::same(&folder, "a b c d e f");
}

/// Without redundancy a scrub reports corruption, and a read of it fails.
#[test]
fn checksums_alone_detect_corruption_in_scrubs_and_reads() {
    let folder = filled("raid0(@a,@b)", "a b");
    folder.ok("scrub @a @b");
    let flipped = flip(&folder, "a b", 3);
    let run = folder.ends("scrub @a @b --json", 1);
    assert_eq!(run.json()["left_bytes"], 3 * BLOCK);
    assert_eq!(flipped.len(), 3);
    status_says_left(&folder, "a b", 3 * BLOCK);
    let bytes = folder.read("source").len();
    folder.put("back", []);
    folder
        .run(&format!("copy array:@a,@b @back --bytes {bytes}"))
        .fails(1, "are corrupt");
    // Rewritten it is good, which the next scrub finds.
    folder.ok("copy @source array:@a,@b");
    folder.ok("scrub @a @b");
    status_says_left(&folder, "a b", 0);
}

/// Checks what `status` reports about the bytes that the last scrub left.
fn status_says_left(folder: &World, devices: &str, bytes: u64) {
    let status = format!("status {}", list(devices));
    let run = folder.run(&format!("{status} --json"));
    let json = run.json();
    let state = if bytes > 0 { "degraded" } else { "healthy" };
    let expected = (if bytes > 0 { 3 } else { 0 }, state.into(), bytes.into());
    let actual = (run.status, &json["state"], &json["scrub_left_bytes"]);
    assert_eq!(
        actual,
        (expected.0, &expected.1, &expected.2),
        "{}",
        run.out
    );
    let run = folder.run(&status);
    let warned = run
        .error
        .contains("that was found wrong could not be repaired");
    let is_reported = run
        .out
        .contains("that was found wrong could not be repaired");
    assert_eq!((warned, is_reported), (bytes > 0, bytes > 0), "{}", run.out);
}

/// Inner arrays without redundancy: corruption is repaired from the other inner array, and reported
/// with its device.
#[test]
fn corruption_without_inner_redundancy_is_reported_by_device() {
    for expression in [
        "raid1(raid0(@a,@b),raid0(@c,@d))",
        "raid5(raid0(@a,@b),concat(@c),@d)",
    ] {
        let folder = crate::cli::rebuild::filled(expression, "a b c d", 4 * MIB);
        // In the second chunk of the outer array's data: every other chunk of the inner array is on
        // b.
        let mut expected = BTreeSet::new();
        for (device, block) in [("a", 40), ("b", 100), ("b", 103)] {
            let (_, record) = folder.newest(device);
            let block = record.data_start().0 + block;
            folder.write(device, block * BLOCK, b"rotten");
            expected.insert((folder.full(device), block));
        }
        let run = folder.ok("scrub @a @b @c @d --json");
        assert_eq!(repaired(&run.json()), expected, "{expression}");
        folder.ok("scrub @a @b @c @d").prints("nothing is wrong");
        status_says_left(&folder, "a b c d", 0);
        crate::cli::rebuild::same(&folder, "a b c d");
    }
}

/// A device that replaced an inner array with redundancy keeps checksums itself: its corruption is
/// repaired by the outer array, and reported that way.
#[test]
fn corruption_repaired_by_the_outer_array_is_reported_as_repaired() {
    let folder =
        crate::cli::rebuild::filled("raid1(raid1(@a,@b),raid1(@c,@d))", "a b c d", 4 * MIB);
    folder.make("e", 8 * MIB);
    folder.ok("rebuild @a @b --onto concat(@e)");
    let (_, device) = folder.newest("e");
    for block in [400, 500, 600] {
        folder.write("e", (device.data_start().0 + block) * 4096, b"rotten");
    }
    folder
        .ok("scrub @a @b @e")
        .prints("repaired")
        .prints_no("not repaired");
    folder.ok("scrub @a @b @e").prints("nothing is wrong");
    status_says_left(&folder, "a b e", 0);
    // The outer array can't repair data that it does not use, and does not need it.
    folder.write("e", device.data_start().0 * 4096, b"rot");
    folder.ends("scrub @a @b @e", 1);
    folder.does("status @a @b @e");
    crate::cli::rebuild::same(&folder, "a b e");
}

/// An unreadable beginning may hold data that must not be overwritten: writing needs --force.
#[test]
fn overwriting_an_array_with_a_corrupt_beginning_needs_force() {
    let folder = World::outside("a b data", 16 * MIB);
    folder.ok("create pool raid0(@a,@b)");
    folder.ok("copy @data array:@a,@b --bytes 64K");
    let first = data_area(&folder, "a").start;
    folder.write("a", first * BLOCK, b"something else");
    let refused = [
        "pool holds what can't be looked at",
        "the blocks are corrupt",
        "use --force to overwrite it",
    ];
    let data = |device: &str| {
        let start = usize::try_from(data_area(&folder, device).start * BLOCK).expect("it fits");
        folder.read(device).split_off(start)
    };
    let before = [data("a"), data("b")];
    // Only the error counters in the superblock change.
    folder
        .run("copy @data array:@a,@b --bytes 64K")
        .fails(1, refused);
    assert!(before == [data("a"), data("b")]);
    folder.run("status @a @b").prints("    errors: ");
    folder.ok("copy @data array:@a,@b --bytes 64K --force --verify");
}

/// Corruption of an inner array is repaired from the other one, and never puts the inner array out.
#[test]
fn corruption_of_an_inner_array_is_repaired_without_failing_it() {
    let folder = World::outside("a b c d data", 16 * MIB);
    folder.ok("create pool raid1(raid0(@a,@b),raid0(@c,@d)) --chunk 64K");
    folder.write("data", 0, &vec![0x5a; 16 << 20]);
    folder.ok("copy @data array:@a,@b,@c,@d");
    let data = |device: &str| {
        let area = data_area(&folder, device);
        // Written blocks, without the metadata of the outer array.
        area.start + 256..area.start + 1500
    };
    let mut random = Random(7);
    for (device, parity, count) in [("a", 0, 60), ("c", 1, 30)] {
        let area = data(device);
        for _ in 0..count {
            let row = random.below((area.end - area.start) / 32) * 32 + 16 * parity;
            folder.write(device, (area.start + row) * BLOCK, b"rot");
        }
    }
    folder.ok("scrub @a @b @c @d");
    let status = folder.run("status @a @b @c @d --json");
    assert_eq!(
        (status.status, &status.json()["state"]),
        (0, &"healthy".into())
    );
    folder.ok("copy array:@a,@b,@c,@d @out --bytes 16M");
    assert!(folder.read("out") == folder.read("data"));
}

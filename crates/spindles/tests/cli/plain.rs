//! Plain arrays, without metadata of ours: arrays of other systems, and the promises for arrays
//! that no superblock describes.

use crate::world::{MIB, World, pattern};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An array that another system wrote. In the expression, `0` stands for the slice of `d0.img`.
type Foreign = (&'static str, &'static str, &'static str, &'static str);

/// The name, the start and the length of each member's data, the chunk, the expression. The test
/// opens unclean arrays with `--unclean`.
const FOREIGN: &[Foreign] = &[
    ("md-raid1-2-dirty", "0s:4992s", "64K", "raid1(0,1)"),
    (
        "md-raid5-3-dirty-nobitmap",
        "2048s:3072s",
        "16K",
        "raid5(0,1,2)",
    ),
    ("md-raid5-4-dirty", "2048s:3072s", "16K", "raid5(0,1,2,3)"),
    (
        "md-linear-3",
        "",
        "4K",
        "concat(0:2048s:3072s,1:2048s:4096s,2:2048s:3584s)",
    ),
    ("md-raid0-3-1.2", "2048s:3072s", "16K", "raid0(0,1,2)"),
    ("md-raid0-3chunk48", "2048s:3072s", "48K", "raid0(0,1,2)"),
    ("md-raid0-uneq-alternate", "2048s", "16K", "raid0(0,1,2)"),
    ("md-raid1-2-1.1", "2048s:3072s", "64K", "raid1(0,1)"),
    ("md-raid1-2-1.2", "2048s:3072s", "64K", "raid1(0,1)"),
    (
        "md-raid1-2-logical-block-size",
        "2048s:3072s",
        "64K",
        "raid1(0,1)",
    ),
    ("md-raid1-2-writemostly", "2048s:3072s", "64K", "raid1(0,1)"),
    ("md-raid10-3-n2", "0s:5088s", "16K", "raid10:near2(0,1,2)"),
    (
        "md-raid10-4-f2",
        "2048s:3072s",
        "16K",
        "raid10:far2(0,1,2,3)",
    ),
    (
        "md-raid10-4-n2",
        "2048s:3072s",
        "16K",
        "raid10:near2(0,1,2,3)",
    ),
    (
        "md-raid10-4-o2",
        "2048s:3072s",
        "16K",
        "raid10:offset2(0,1,2,3)",
    ),
    ("md-raid4-4-1.2", "2048s:3072s", "16K", "raid4(0,1,2,3)"),
    ("md-raid5-3-0.90", "0s:4992s", "64K", "raid5(0,1,2)"),
    ("md-raid5-3-journal", "2048s:3072s", "16K", "raid5(0,1,2)"),
    ("md-raid5-3-spare", "2048s:3072s", "16K", "raid5(0,1,2)"),
    ("md-raid5-4-bitmap", "2048s:3072s", "16K", "raid5(0,1,2,3)"),
    (
        "md-raid5-4-degraded",
        "2048s:3072s",
        "16K",
        "raid5(0,missing,2,3)",
    ),
    (
        "md-raid5-4-left-symmetric",
        "2048s:3072s",
        "16K",
        "raid5(0,1,2,3)",
    ),
    // Parity on the last member is level 4.
    (
        "md-raid5-4-parity-last",
        "2048s:3072s",
        "16K",
        "raid4(0,1,2,3)",
    ),
    ("md-raid5-4-ppl", "4096s:3072s", "16K", "raid5(0,1,2,3)"),
    (
        "md-raid5-4-rebuilding",
        "2048s:3072s",
        "16K",
        "raid5(0,missing,2,3)",
    ),
    (
        "md-raid5-4-right-asymmetric",
        "2048s:3072s",
        "16K",
        "raid5:right-asymmetric(0,1,2,3)",
    ),
    (
        "md-raid6-5-bitmap",
        "2048s:3072s",
        "16K",
        "raid6(0,1,2,3,4)",
    ),
    (
        "md-raid6-5-left-symmetric",
        "2048s:3072s",
        "16K",
        "raid6(0,1,2,3,4)",
    ),
    ("fs-ext4-raid0-3", "2048s:3072s", "32K", "raid0(0,1,2)"),
    (
        "fs-ext4-raid10-4-f2",
        "2048s:3072s",
        "64K",
        "raid10:far2(0,1,2,3)",
    ),
    ("fs-ext4-raid5-4", "2048s:3072s", "64K", "raid5(0,1,2,3)"),
    // The shape of the array before the superblocks were overwritten.
    (
        "fs-ext4-raid5-4-recreated",
        "2048s:3072s",
        "64K",
        "raid5(0,1,2,3)",
    ),
    (
        "lvm-linear-2",
        "",
        "4K",
        "concat(1:2048s:4096s,0:2048s:3072s)",
    ),
    // The first extent of each physical volume holds metadata of the array.
    (
        "lvm-raid10-4",
        "2304s:2048s",
        "16K",
        "raid10:near2(0,1,2,3)",
    ),
    ("lvm-raid5-4", "2304s:1536s", "16K", "raid5(0,1,2,3)"),
    ("raidframe-raid1-2-be", "64s:1088s", "32K", "raid1(0,1)"),
    (
        "raidframe-raid1-4-stale",
        "64s:1088s",
        "16K",
        "raid0(raid1(0,1),raid1(2,missing))",
    ),
    ("raidframe-raid5-4", "64s:1536s", "16K", "raid5(0,1,2,3)"),
    ("ccd-uneven-3", "", "8K", "raid0(0:16s,1:16s,2:16s:1184s)"),
    ("vinum-concat", "", "512", "concat(p:265s:500s,q:300s:400s)"),
    (
        "vinum-raid5-3",
        "265s:800s",
        "25K",
        "raid5:left-asymmetric(a,b,c)",
    ),
];

/// The folder of real arrays, if it is there.
fn foreign() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/foreign");
    folder.is_dir().then_some(folder)
}

/// Unpacks an array, and returns what its `info` says of the key.
fn unpack(world: &World, folder: &Path, name: &str) -> Option<()> {
    let archive = folder.join(format!("{name}.tar.zst"));
    let unpacked = Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(archive)
        .arg("-C")
        .arg(world.folder())
        .status();
    unpacked.is_ok_and(|status| status.success()).then_some(())
}

/// Returns what the file `info` of an array says of the key.
fn info<'a>(text: &'a str, key: &str) -> &'a str {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.expect("every array has it")
}

/// Returns the expression with the slices of members, `name:start:length`, in place of their names.
fn with_slices(expression: &str, cut: &str) -> String {
    let mut named = String::new();
    for word in expression.split_inclusive(['(', ')', ',']) {
        let (name, end) = word.split_at(word.len() - 1);
        if end == "(" || name.is_empty() || name == "missing" {
            named += word;
            continue;
        }
        let (device, own) = name.split_once(':').unwrap_or((name, cut));
        let prefix = if device.parse::<u8>().is_ok() {
            "d"
        } else {
            ""
        };
        let slice = own.replace(':', ",");
        let words = ["slice(IN/", prefix, device, ".img,", &slice, ")", end];
        named.extend(words);
    }
    named
}

/// Returns the expression without each member that may be missing: one at a time.
fn each_without_one(expression: &str) -> Vec<String> {
    let is_redundant = ["raid1", "raid4", "raid5", "raid6"].iter();
    let mut is_redundant = is_redundant.filter(|level| expression.starts_with(**level));
    if is_redundant.next().is_none() || expression.contains("missing") {
        return Vec::new();
    }
    let (level, members) = expression.split_once('(').expect("an array");
    let members: Vec<&str> = members.trim_end_matches(')').split(',').collect();
    let without = (0..members.len()).map(|lost| {
        let mut left = members.clone();
        left[lost] = "missing";
        format!("{level}({})", left.join(","))
    });
    without.collect()
}

/// Copies an array to `out.bin`, and compares its size and its SHA-256.
fn check_copy(world: &World, copied: &str, wanted: (&str, &str)) {
    world.does(&format!("copy {copied}"));
    let sum = Command::new("sha256sum")
        .arg(world.path("out.bin"))
        .output();
    let sum = String::from_utf8(sum.expect("coreutils").stdout).expect("digits");
    let bytes = world.read("out.bin").len().to_string();
    let got = (bytes.as_str(), sum.split(' ').next().expect("a word"));
    assert_eq!(got, wanted, "{copied}");
    world.remove("out.bin");
}

/// Each archive with its configuration, where `IN` stands for the folder.
const CONFIGURATIONS: &[(&str, &str)] = &[
    (
        "ccd-uneven-3",
        "ccd0 16 none IN/d0.img IN/d1.img IN/d2.img\n",
    ),
    (
        "raidframe-raid5-4",
        "START array\n4 0\nSTART disks\nIN/d0.img\nIN/d1.img\nIN/d2.img\nIN/d3.img\n\
         START layout\n32 1 1 5\nSTART queue\nfifo 100\n",
    ),
    (
        "vinum-raid5-3",
        "drive a device IN/a.img\ndrive b device IN/b.img\ndrive c device IN/c.img\n\
         volume v\n  plex org raid5 25k\n    sd length 400k drive a\n\
         \x20   sd length 400k drive b\n    sd length 400k drive c\n",
    ),
];

#[test]
fn configurations_open_arrays_of_other_systems_where_they_lie() {
    const NAME: &str = "configurations_open_arrays_of_other_systems_where_they_lie";
    let Some(folder) = foreign() else {
        return println!("SKIPPED {NAME}: ../shared/foreign is not there");
    };
    for (name, text) in CONFIGURATIONS {
        let world = World::new("", 0);
        if unpack(&world, &folder, name).is_none() {
            return println!("SKIPPED {NAME}: tar can't unpack zstd here");
        }
        world.put("old.conf", text.replace("IN", name));
        let said = world.text(&format!("{name}/info"));
        let wanted = (info(&said, "bytes"), info(&said, "sha256"));
        check_copy(&world, "plain:old.conf out.bin", wanted);
    }
}

#[test]
fn arrays_of_other_systems_hold_what_they_held_there() {
    const NAME: &str = "arrays_of_other_systems_hold_what_they_held_there";
    let Some(folder) = foreign() else {
        return println!("SKIPPED {NAME}: ../shared/foreign is not there");
    };
    for (name, cut, chunk, expression) in FOREIGN {
        let world = World::new("", 0);
        if unpack(&world, &folder, name).is_none() {
            return println!("SKIPPED {NAME}: tar can't unpack zstd here");
        }
        let said = world.text(&format!("{name}/info"));
        let wanted = (info(&said, "bytes"), info(&said, "sha256"));
        let is_unclean = name.contains("dirty");
        let (unclean, others) = if is_unclean {
            (" --unclean", Vec::new())
        } else {
            ("", each_without_one(expression))
        };
        for shape in [vec![(*expression).to_owned()], others].concat() {
            let array = with_slices(&shape, cut).replace("IN", name);
            let copied = format!("plain:{array} out.bin --chunk {chunk}{unclean}");
            check_copy(&world, &copied, wanted);
        }
        let redundant = !each_without_one(expression).is_empty();
        let is_as_it_was = !name.ends_with("recreated");
        if redundant && is_as_it_was {
            let array = with_slices(expression, cut).replace("IN", name);
            world
                .does(&format!("scrub plain:{array} --chunk {chunk}"))
                .prints("nothing is wrong");
        }
    }
}

/// Returns data in which no two words are equal.
fn data(bytes: u64) -> Vec<u8> {
    pattern(usize::try_from(bytes).expect("64 bits"), 0)
}

#[test]
fn an_array_is_read_only_unless_it_is_to_be_written() {
    let world = World::new("a b c", MIB);
    world.put("data", data(2 * MIB));
    let array = "plain:raid5:left-asymmetric(a,b,c)";
    world.refuses(
        &format!("copy data {array} --chunk 64K"),
        2,
        &["a plain array is read only without --writable"],
    );
    world
        .does(&format!("copy data {array} --chunk 64K --writable"))
        .warns("nothing records which member is missing");
    for array in [
        "raid5:left-asymmetric(a,b,c)",
        "raid5:left-asymmetric(a,missing,c)",
    ] {
        let before = world.contents();
        world
            .does(&format!("copy plain:{array} back --chunk 64K"))
            .warns_no("nothing records");
        assert!(world.read("back") == data(2 * MIB), "{array}");
        world.remove("back");
        assert!(world.contents() == before, "{array}: reading wrote");
    }
    // The array of the same members in another order holds something else.
    world.does("copy plain:raid5:left-asymmetric(b,a,c) back --chunk 64K");
    assert!(world.read("back") != data(2 * MIB));
}

#[test]
fn a_served_array_is_written_only_if_clients_may() {
    let world = World::new("a b c", MIB);
    world.put("data", data(MIB));
    let uri = format!("nbd+unix:///raid5?socket={}", world.full("socket"));
    let array = "plain:raid5(a,missing,c)";
    let mut server = world.served(&format!("{array} --chunk 16K --nbd unix:socket"));
    server.says("is served, read only");
    world
        .run(&format!("copy data {uri} --force"))
        .refused()
        .says("read");
    server.stop();
    let server = world.served(&format!("{array} --chunk 16K --writable --nbd unix:socket"));
    assert!(
        server.said().contains("nothing records"),
        "{}",
        server.said()
    );
    world.does(&format!("copy data {uri} --force"));
    server.stop();
    world.does(&format!("copy {array} back --chunk 16K --bytes 1M"));
    assert!(world.read("back") == data(MIB));
}

#[test]
fn an_array_ends_where_its_members_end() {
    // Lengths in sectors, the chunk, and the sectors that the array has.
    for (level, sectors, chunk, expected) in [
        ("raid1", [2064, 2064, 2064], "64K", 2064),
        ("concat", [2063, 2061, 1], "512", 4125),
        ("raid5", [2232, 2232, 2300], "279K", 2 * 2232),
        ("raid0", [801, 1601, 1185], "512", 801 + 1601 + 1185),
    ] {
        let world = World::new("", 0);
        for (name, sectors) in ["a", "b", "c"].into_iter().zip(sectors) {
            world.make(name, sectors * 512);
        }
        let array = format!("plain:{level}(a,b,c) --chunk {chunk}");
        let status = world.json(&format!("status {array}"));
        assert_eq!(status["bytes"], expected * 512, "{level}");
        world.put("data", data(expected * 512));
        world.does(&format!("copy data {array} --writable --verify"));
    }
    let world = World::new("a b c d", MIB);
    world.put("data", data(MIB));
    world.does("copy data plain:raid1(a,b) --writable");
    world.does("copy plain:concat(slice(raid1(a,b),3s,100s),slice(raid1(c,d),2046s)) back");
    assert!(world.read("back") == [&data(MIB)[3 * 512..103 * 512], &[0; 1024]].concat());
    world
        .run("status plain:concat(slice(raid1(a,b),3s,2046s))")
        .fails(
            2,
            "goes beyond the end of its array, which has 1048576 bytes",
        );
    world.make("c", MIB + 100);
    world
        .run("status plain:raid1(a,c)")
        .refused()
        .warns("make its length a multiple of 512 bytes");
}

#[test]
fn redundancy_that_may_not_match_gives_out_no_data() {
    let world = World::new("a b c", MIB);
    world.put("data", data(2 * MIB));
    world.does("copy data plain:raid5(a,b,c) --writable");
    // A crash: data of one member is newer than parity.
    world.write("a", 0, &[0xEE; 4096]);
    let changed = world.read("a");
    world
        .does("copy plain:raid5(a,b,c) back --unclean")
        .warns("nothing is computed from parity")
        .warns_no("may be wrong");
    assert!(world.read("back")[..4096] == changed[..4096]);
    world.remove("back");
    world
        .run("copy plain:raid5(missing,b,c) back --unclean")
        .fails(1, ["members are missing", "--force returns them"]);
    world
        .does("copy plain:raid5(missing,b,c) back --unclean --force")
        .warns("may be wrong");
    world.remove("back");
    // Copies: reads see the first present one only.
    world.put("a", data(MIB));
    world.make("b", MIB);
    world.does("copy plain:raid1(a,b) back --unclean");
    assert!(world.read("back") == data(MIB));
    world.does("copy plain:raid1(missing,b) back --unclean --force");
    assert!(world.read("back").iter().all(|byte| *byte == 0));
}

/// Writing an unclean array makes redundancy match while it is open, and then it closes in order.
#[test]
fn an_unclean_array_that_was_written_is_closed_in_order() {
    let members = "a b c d";
    for array in [
        "raid1(a,b)",
        "raid5(a,b,c)",
        "raid6(a,b,c,d)",
        "raid10(a,b,c,d)",
        "raid0(a,b)",
    ] {
        let world = World::new(members, MIB);
        world.put("data", data(MIB));
        world.does(&format!("copy data plain:{array} --writable --unclean"));
        world.does(&format!("copy plain:{array} back"));
        assert!(world.read("back")[..1 << 20] == data(MIB), "{array}");
        if array != "raid0(a,b)" {
            world.does(&format!("scrub plain:{array}"));
        }
        let server = world.served(&format!(
            "plain:{array} --writable --unclean --nbd unix:socket"
        ));
        server.stop();
    }
}

#[test]
fn members_of_lasting_arrays_are_not_written_as_a_plain_array() {
    let world = World::new("a b c d", 16 * MIB);
    world.put("data", data(MIB));
    world.does("create pool raid1(a,b)");
    let before = world.contents();
    for array in ["raid1(a,b)", "raid1(slice(a,64s),c)", "raid0(c,d,a)"] {
        world
            .run(&format!("copy data plain:{array} --writable"))
            .fails(
                1,
                [
                    "a holds a member of the Spindles array",
                    "--force does that",
                ],
            );
        assert!(world.contents() == before, "{array}");
        world
            .does(&format!("copy plain:{array} back --force"))
            .warns("a holds a member of the Spindles array")
            .warns("takes the superblock for data");
        world.remove("back");
    }
    world.does("copy data plain:raid1(a,b) --writable --force");
}

#[test]
fn an_unreadable_block_of_an_unclean_array_is_an_error() {
    let world = World::new("a b c", MIB);
    world.put("data", data(2 * MIB));
    world.does("copy data plain:raid5(a,b,c) --writable");
    // The array of an earlier moment knows a as longer than it is now: reads of its end fail.
    let mut server = world.served("plain:raid5(a,b,c) --unclean --nbd unix:socket");
    world.resize("a", MIB / 2);
    let uri = format!("nbd+unix:///raid5?socket={}", world.full("socket"));
    world
        .run(&format!("copy {uri} back"))
        .refused()
        .warns("can't read");
    assert!(!server.has_ended());
    server.stop();
    let server = world.served("plain:raid5(a,b,c) --nbd unix:socket");
    server.stop();
}

#[test]
fn scrub_compares_and_changes_nothing() {
    let world = World::new("a b c d", MIB);
    // The notes are on all arrays of a nest.
    world
        .does("scrub plain:raid5(raid0(a,d),b,c) --chunk 16K")
        .says(["single parity agrees", "raid0 and concat hold nothing"]);
    world.put("data", data(2 * MIB));
    world.does("copy data plain:raid5(a,b,c) --chunk 16K --writable");
    world
        .does("scrub plain:raid5(a,b,c) --chunk 16K")
        .prints("array 'raid5(a,b,c)': nothing is wrong")
        .says("single parity agrees in any order of the members");
    world.write("b", 8192, &[0xEE; 4096]);
    let before = world.contents();
    for (line, texts) in [
        ("raid5(a,b,c) --chunk 16K", "its members disagree"),
        (
            "raid5:left-asymmetric(b,a,c) --chunk 16K",
            "its members disagree",
        ),
        ("raid5(a,b,c) --chunk 16K --unclean", "its members disagree"),
        ("raid1(a,b)", "its members disagree"),
    ] {
        world
            .run(&format!("scrub plain:{line}"))
            .fails(1, texts)
            .warns_no("agrees in any order");
    }
    assert!(world.contents() == before, "a scrub wrote");
    world.refuses("scrub plain:raid5(a,b,c) --trust-data", 2, &["only read"]);
    let found = world.json("scrub plain:raid5(a,b,c) --chunk 16K");
    assert_eq!(found["disagreement_bytes"], 4096);
}

#[test]
fn status_shows_the_shape_and_what_is_missing() {
    let world = World::new("a b c d", MIB);
    world
        .ends("status plain:raid5:left-asymmetric(a,missing,c)", 3)
        .prints([
            "plain array 'raid5:left-asymmetric(a,missing,c)'",
            "raid5 left-asymmetric, 3 members, chunks of 64 KiB, blocks of 4 KiB",
            "holds 2 MiB (2097152 bytes)",
            "degraded",
            "member 0: a, active",
            "member 1: not there",
        ])
        .says_no("spindles rebuild");
    world.ends("status plain:raid0(raid1(a,b),raid1(c,d))", 0);
    world.ends("status plain:raid5(a,missing,missing)", 4);
    let status = world.json("status plain:raid1(a,missing)");
    assert_eq!(status["state"], "degraded");
}

#[test]
fn workloads_run_on_plain_arrays() {
    let world = World::new("a b c", 4 * MIB);
    let bench = |more: &str| {
        let size = "--size 1M --runs 1 --folder .";
        format!("plain:raid5(a,missing,c) --chunk 16K {size}{more}")
    };
    world.does(&format!("bench dd-read {}", bench("")));
    world
        .run(&format!("bench dd-write {}", bench("")))
        .refused()
        .says("--force");
    world.does(&format!("bench dd-write {}", bench(" --force")));
    world.put(
        "x.toml",
        "name = \"x\"\nsize = \"1M\"\nbaseline = \"one\"\nblocks = 1\nchunk = \"16K\"\n\
         [[system]]\nname = \"one\"\ntarget = \"plain:raid5(a,missing,c)\"\n\
         [[workload]]\nkind = \"dd-read\"\n",
    );
    world.does("lab run x.toml --out out --folder .");
}

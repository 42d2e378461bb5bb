//! `--degraded`: without it, no command writes to half of an array that may be the older one.

use crate::world::{MIB, World};
use std::fs;
use std::time::Duration;

const REFUSED: [&str; 4] = [
    "array 'data' lacks member 1 of 2, which could have gone on alone and may be newer",
    "last written 20",
    "--degraded",
    "--degraded-writes allow",
];

/// A mirror that holds ones on both members, with one member absent.
fn one_half() -> World {
    let folder = World::outside("a b new", 8 * MIB);
    folder.ok("create data raid1(@a,@b)");
    folder.put("ones", vec![1; 1 << 20]);
    folder.put("twos", vec![2; 1 << 20]);
    folder.ok("copy @ones array:@a,@b");
    folder
}

/// All commands that write to an array.
const WRITERS: [&str; 6] = [
    "copy @twos array:@a",
    "scrub @a",
    "resync @a",
    "rebuild @a --onto @new",
    "bench block-write array:@a --size 1M --runs 1 --force",
    "set @a --degraded-writes allow",
];

#[test]
fn half_a_mirror_is_not_written_without_degraded() {
    for writer in WRITERS {
        let folder = one_half();
        folder.refuses(writer, 1, &REFUSED);
        folder.does(&format!("{writer} --degraded"));
    }
}

/// A refused command writes nothing, not even to an array that lacks a member.
#[test]
fn a_refused_fail_writes_nothing() {
    let folder = World::outside("a b c small", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    folder.rename("c", "away");
    folder.refuses("fail @a @a @b", 1, &["stays a member"]);
}

/// The same holds for a rebuild whose only spare is too small for the missing members.
#[test]
fn a_rebuild_without_a_fitting_spare_writes_nothing() {
    for large in ["c", "c d"] {
        let folder = World::outside("a b spare", 8 * MIB);
        let mut members = vec!["@a".to_owned(), "@b".to_owned()];
        let mut mirror = vec!["raid0(@a,@b)".to_owned()];
        for name in large.split(' ') {
            folder.make(name, 24 * MIB);
            members.push(format!("@{name}"));
            mirror.push(format!("@{name}"));
        }
        let (members, mirror) = (members.join(","), mirror.join(","));
        folder.ok(&format!("create data raid1({mirror})"));
        folder.ok(&format!("spare add @spare --array {members}"));
        for name in large.split(' ') {
            folder.remove(name);
        }
        let rebuild = "rebuild @a @b @spare --degraded";
        folder.refuses(rebuild, 1, &["lacks member", "is too small"]);
    }
}

#[test]
fn an_array_that_allows_degraded_writes_needs_no_degraded_option() {
    for writer in WRITERS {
        let folder = one_half();
        folder.ok("set @a @b --degraded-writes allow");
        folder.does(writer);
    }
}

/// The rebuild that is named as the remedy needs it too.
#[test]
fn status_of_half_a_mirror_names_a_rebuild_that_works() {
    let folder = one_half();
    let remedy = "`spindles rebuild data --degraded --onto DEV`";
    folder.ok("status @a").warns(remedy);
    folder.ok("set @a @b --degraded-writes allow");
    let remedy = "`spindles rebuild data --onto DEV`";
    folder.ok("status @a").warns(remedy);
}

#[test]
fn a_copy_from_the_older_half_warns_of_newer_data() {
    let folder = one_half();
    folder.ok("copy @twos array:@b --degraded");
    folder.ok("copy array:@a @out --bytes 1M").warns([
        "what is here was last written 20",
        "what is away could have gone on alone, and may be newer",
    ]);
    assert!(folder.read("out") == folder.read("ones"));
    // The newer half records that it is newer.
    folder
        .ok("copy array:@b @out --bytes 1M --force")
        .warns_no("may be newer");
    assert!(folder.read("out") == folder.read("twos"));
}

/// A copy is killed in the middle, and a member is unplugged. Until the member returns, commands
/// read the array and write nothing. A resync then restores every block.
#[test]
fn a_member_returning_after_a_crash_restores_all_writes() {
    let folder = World::outside("a b c", 40 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    let bytes = usize::try_from(64 * MIB).expect("small");
    let [old, new] = [1, 2].map(|byte| vec![byte; bytes]);
    folder.put("old", &old);
    folder.put("new", &new);
    folder.ok("copy @old array:@a,@b,@c");
    let is_clean = || folder.run("status @a @b @c --json").json()["clean"] == true;
    let mut delay_ms = 5;
    while is_clean() {
        let delay = Duration::from_millis(delay_ms);
        folder.kill("copy @new array:@a,@b,@c", delay);
        delay_ms += 5;
    }
    let unplugged = folder.full("unplugged");
    fs::rename(folder.full("b"), &unplugged).expect("it is there");
    let before = ["a", "c"].map(|name| folder.read(name));
    let copy = "copy array:@a,@c @out --bytes 64M";
    let read = folder.run(copy).warns("is only read, not put in order");
    if read.status == 0 {
        is_old_or_new(&folder.read("out"), &[]);
    } else {
        // Blocks that can't be verified without the member are errors.
        folder.run(copy).fails(
            1,
            [
                "can't read at byte",
                "member 1 of array 'data' may hold them: bring that back first",
                "--rescue",
            ],
        );
        let rescued = folder.ends(&format!("{copy} --rescue --json"), 1);
        let json = rescued.json();
        let number = |value: &serde_json::Value| {
            usize::try_from(value.as_u64().expect("a number")).expect("small")
        };
        let left_out = json["left_out"].as_array().expect("a list").iter();
        let left_out: Vec<_> = left_out
            .map(|left_out| {
                (
                    number(&left_out["offset_bytes"]),
                    number(&left_out["bytes"]),
                )
            })
            .collect();
        is_old_or_new(&folder.read("out"), &left_out);
    }
    folder.refuses(
        "resync @a @c",
        1,
        &[
            "array 'data' was not closed in order, and lacks member 1 of 3",
            "bring member 1 back",
            "--degraded",
        ],
    );
    assert!(before == ["a", "c"].map(|name| folder.read(name)));
    fs::rename(unplugged, folder.full("b")).expect("it is there");
    folder.ok("resync @a @b @c");
    folder.ok("copy array:@a,@b,@c @all --bytes 64M");
    is_old_or_new(&folder.read("all"), &[]);
    folder.ok("scrub @a @b @c").prints("nothing is wrong");
}

/// Returns true if each block is entirely old or new, except for the skipped ranges.
fn is_old_or_new(bytes: &[u8], left_out: &[(usize, usize)]) {
    for (at, block) in bytes.chunks(4096).enumerate() {
        let at = at * 4096;
        let is_out = |(offset, bytes): &(usize, usize)| (*offset..offset + bytes).contains(&at);
        let same = block.iter().all(|byte| *byte == block[0]);
        let fine = left_out.iter().any(is_out) || same && [1, 2].contains(&block[0]);
        assert!(fine, "the block at {at} is neither old nor new");
    }
}

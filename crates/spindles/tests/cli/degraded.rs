//! `--degraded`: the half of an array that may be the older one is written only by who says so.

use crate::arrays::{Folder, MIB};
use std::fs;

const REFUSED: [&str; 4] = [
    "array 'data' lacks member 1 of 2, which could have gone on alone and may be newer",
    "last written 20",
    "--degraded",
    "spindles set --degraded-writes allow",
];

/// A mirror that holds ones on both members, of which one is given.
fn one_half() -> Folder {
    let folder = Folder::new("a b new", 8 * MIB);
    folder.run("create data raid1(@a,@b)").ok();
    fs::write(folder.path("ones"), vec![1; 1 << 20]).expect("room");
    fs::write(folder.path("twos"), vec![2; 1 << 20]).expect("room");
    folder.run("copy @ones array:@a,@b").ok();
    folder
}

/// Every command that writes to an array.
const WRITERS: [&str; 6] = [
    "copy @twos array:@a",
    "scrub @a",
    "resync @a",
    "rebuild @a --onto @new",
    "bench block-write array:@a --size 1M --runs 1 --force",
    "set @a --degraded-writes allow",
];

#[test]
fn the_half_of_a_mirror_is_not_written_without_degraded() {
    for writer in WRITERS {
        let folder = one_half();
        folder.refuses(writer, 1, &REFUSED);
        let run = folder.run(&format!("{writer} --degraded"));
        assert_eq!(run.status, 0, "{writer}: {}{}", run.out, run.error);
    }
}

#[test]
fn an_array_that_allows_it_is_written_without_degraded() {
    for writer in WRITERS {
        let folder = one_half();
        folder.run("set @a @b --degraded-writes allow").ok();
        let run = folder.run(writer);
        assert_eq!(run.status, 0, "{writer}: {}{}", run.out, run.error);
    }
}

/// The remedy that is named takes it too.
#[test]
fn the_half_of_a_mirror_names_a_rebuild_that_works() {
    let folder = one_half();
    let run = folder.run("status @a").ok();
    let remedy = "`spindles rebuild data --degraded --onto DEV`";
    assert!(run.error.contains(remedy), "{}", run.error);
    folder.run("set @a @b --degraded-writes allow").ok();
    let run = folder.run("status @a").ok();
    let remedy = "`spindles rebuild data --onto DEV`";
    assert!(run.error.contains(remedy), "{}", run.error);
}

#[test]
fn a_copy_out_of_the_older_half_says_so() {
    let folder = one_half();
    folder.run("copy @twos array:@b --degraded").ok();
    let run = folder.run("copy array:@a @out --bytes 1M").ok();
    for text in [
        "what is here was last written 20",
        "what is away could have gone on alone, and may be newer",
    ] {
        assert!(run.error.contains(text), "no {text:?} in {}", run.error);
    }
    assert!(folder.read("out") == folder.read("ones"));
    // The newer half knows that it is.
    let run = folder.run("copy array:@b @out --bytes 1M --force").ok();
    assert!(!run.error.contains("may be newer"), "{}", run.error);
    assert!(folder.read("out") == folder.read("twos"));
}

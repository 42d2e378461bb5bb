//! Configurations of other systems, from the command line.

use crate::world::{MIB, World, pattern};
use std::io::Write as _;
use std::process::{Command, Stdio};

const RAIDCTL: &str = "START array\n4 1\nSTART disks\na.img\nb.img\nc.img\nd.img\n\
    START spare\ne.img\nSTART layout\n32 1 1 5\nSTART queue\nfifo 100\n";

const VINUM: &str = "drive a device a.img\ndrive b device b.img\nvolume v1\n  plex org striped 9k\n\
    \x20   sd length 90k drive a\n    sd length 90k drive b\nvolume v2\n  plex org concat\n\
    \x20   sd length 1m drive a\n";

#[test]
fn a_configuration_is_shown_as_it_lies_and_as_a_new_array() {
    let world = World::new("", 0);
    world.put("raid.conf", RAIDCTL);
    let shown = world.does("translate raid.conf").prints([
        "raid5(slice(a.img,64s),slice(b.img,64s),slice(c.img,64s),slice(d.img,64s))",
        "--chunk 16K --spare e.img",
        "note, line 12: START queue has no effect here",
    ]);
    assert_eq!(shown.error, "");
    let json = world.json("translate raid.conf");
    assert_eq!(json["dialect"], "raidctl");
    assert_eq!(json["arrays"][0]["shape"], "raid5(a.img,b.img,c.img,d.img)");
    assert_eq!(json["arrays"][0]["chunk_bytes"], 16 << 10);
    // A shape without places is no plain array.
    world.put("tank", "zpool create tank mirror a.img b.img\n");
    world
        .does("translate tank")
        .prints("spindles create tank 'raid1(a.img,b.img)'")
        .prints_no("plain:");
    world.refuses("status plain:tank", 2, &["tank: words of zpool don't say"]);
}

#[test]
fn arrays_are_said_in_other_words() {
    let world = World::new("", 0);
    world.put("raid.conf", RAIDCTL);
    let run = world.run_words(&["translate", "raid5(a,b,c)", "--to", "raidctl"]);
    let text = "START array\n3 0\nSTART disks\na\nb\nc\nSTART layout\n128 1 1 5\n";
    run.ends(0).prints(text);
    world
        .does("translate raid.conf --to mdadm")
        .prints(["--level=raid5", "--chunk=16", "e.img"]);
    world.refuses("translate raid.conf --to storcli", 2, &["is only read"]);
    world.refuses("translate raid.conf --to vinvm", 2, &["no dialect 'vinvm'"]);
    let run = world.run_words(&["translate", "raid5(a,b,c)"]);
    run.fails(2, "an expression needs --to");
}

#[test]
fn a_new_array_has_the_shape_of_a_configuration() {
    let world = World::new("a.img b.img c.img d.img e.img", 16 * MIB);
    world.put("raid.conf", RAIDCTL);
    world.does("create pool --from raid.conf");
    let status = world.json("status pool");
    assert_eq!(status["level"], "raid5");
    assert_eq!(status["chunk_bytes"], 16 << 10);
    assert_eq!(status["members"].as_array().map(Vec::len), Some(4));
    assert_eq!(status["spares"].as_array().map(Vec::len), Some(1));
    world
        .does("layout raid.conf --stripes 1")
        .prints("0  D0    D1    D2    P");

    // A chunk of 9 KiB takes blocks of 512 bytes.
    let world = World::new("a.img b.img", 16 * MIB);
    world.put("vinum.conf", VINUM);
    // Two volumes share the drives: each takes its parts only.
    world
        .run("create pool --from vinum.conf#v1")
        .says("slice(a.img,265s,180s) is too small");
    world.put(
        "vinum.conf",
        VINUM.split("volume v2").next().expect("a part"),
    );
    world.does("create pool --from vinum.conf#v1");
    let status = world.json("status pool");
    assert_eq!(status["chunk_bytes"], 9 << 10);
    assert_eq!(status["block_bytes"], 512);
}

#[test]
fn words_for_a_file_come_alone_and_from_a_pipe() {
    let world = World::new("", 0);
    world.put("raid.conf", RAIDCTL);
    // Notes go to standard error: the output can be the file of the other system.
    let written = world.does("translate raid.conf --to raidctl");
    written.says("START queue has no effect here");
    let text = world.does("translate raid.conf --to raidctl").out;
    assert!(!text.contains("note"), "{text}");

    let mut command = crate::program_in(world.folder());
    command.args(["translate", "-", "--to", "mdadm"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(RAIDCTL.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let words = String::from_utf8(output.stdout).expect("text");
    assert!(words.starts_with("mdadm --create "), "{words}");

    // A dialect that the user names reads what it would not recognise.
    let mut command = crate::program_in(world.folder());
    command.args(["translate", "--from", "ccd", "ccd0 x none a b"]);
    let error = command.output().expect("it runs").stderr;
    let error = String::from_utf8(error).expect("text");
    assert!(error.contains("line 1, column 6: "), "{error}");
}

/// Parity of an array that md had open may not match the data.
#[test]
fn an_array_that_was_open_is_unclean() {
    let member = |role: u32| {
        format!(
            "d{role}:\n Magic : a92b4efc\n Version : 1.2\n Array UUID : 1\n Name : host:x\n \
             Raid Level : raid5\n Raid Devices : 3\n Avail Dev Size : 3072 sectors\n \
             Data Offset : 2048 sectors\n State : active\n Events : 7\n Layout : left-symmetric\n \
             Chunk Size : 16K\n Device Role : Active device {role}\n Array State : AAA\n"
        )
    };
    let world = World::new("d0 d1 d2", 4 * MIB);
    world.put("all", [0, 1, 2].map(member).concat());
    world
        .does("translate all")
        .prints(["'raid5(", "--chunk 16K --unclean --nbd"]);
    world
        .does("copy plain:all back")
        .says("nothing is computed from parity");
    world.remove("back");
    world.put("two", [0, 2].map(member).concat());
    world.run("copy plain:two back").refused().says("--force");
}

#[test]
fn a_new_array_lacks_no_member() {
    let world = World::new("a.img b.img", 16 * MIB);
    let text = "mdadm --create x -l5 -n3 a.img missing b.img";
    world.put("md.conf", text);
    world
        .does("translate md.conf")
        .prints("spindles create x 'raid5(a.img,DEV,b.img)'");
    let before = world.contents();
    world.refuses(
        "create pool --from md.conf",
        2,
        &["a member of md.conf is missing"],
    );
    world.refuses(
        "create pool raid1(a.img,/dev/not-there)",
        1,
        &["check the name; lsblk lists the disks"],
    );
    assert_eq!(world.contents(), before);
}

#[test]
fn a_new_array_is_one_that_create_takes() {
    let world = World::new("", 0);
    let text = "mdadm -C /dev/md/-x -l5 -n4 a missing missing b";
    world.put("md.conf", text);
    world.does("translate md.conf").prints([
        "spindles create NAME 'raid5(a,DEV1,DEV2,b)'",
        "note: '-x' can't be the name of an array",
        "too many members are missing",
    ]);
    // The chunk of a mirror decides only where it ends.
    let mirror = "drive a device /a\ndrive b device /b\nvolume v\nplex org concat\n\
                  sd len 637b drive a\nplex org concat\nsd len 637b drive b\n";
    world.put("vinum.conf", mirror);
    world
        .does("translate vinum.conf")
        .prints(["--chunk 512 --nbd", "spindles create v 'raid1(/a,/b)'\n"]);
}

#[test]
fn a_pipe_is_no_configuration() {
    let world = World::new("", 0);
    let pipe = world.folder().join("pipe");
    let made = Command::new("mkfifo").arg(pipe).status();
    assert!(made.expect("mkfifo is everywhere").success());
    for line in ["translate pipe", "translate pipe#x", "layout pipe"] {
        world
            .run(line)
            .fails(2, "pipe is a pipe, not a regular file");
    }
}

#[test]
fn netbsd_keeps_no_sectors_before_the_data() {
    let world = World::new("a.img b.img", MIB);
    world.put("ccd.conf", "ccd0 16 none a.img b.img\n");
    let data = pattern(1 << 20, 7);
    world.put("data", &data);
    world
        .does("copy data plain:ccd.conf --writable --flavour netbsd")
        .says_no("16 sectors");
    assert_eq!(world.read("a.img")[..8 << 10], data[..8 << 10]);
    // Without the option, the line of another system is read as FreeBSD's.
    world
        .does("copy plain:ccd.conf other --bytes 8K")
        .says("ccd.conf, line 1: FreeBSD keeps 16 sectors");
    assert_ne!(world.read("other")[..], data[..8 << 10]);
    world.refuses(
        "copy plain:ccd.conf back --flavour plan9",
        2,
        &["ccd is freebsd or netbsd"],
    );
}

#[test]
fn a_plain_array_of_a_configuration_has_its_places_and_its_chunk() {
    let world = World::new("a.img b.img", 4 * MIB);
    world.put("vinum.conf", VINUM);
    let data = pattern(180 << 10, 3);
    world.put("data", &data);
    world.does("copy data plain:vinum.conf#v1 --writable");
    let (a, b) = (world.read("a.img"), world.read("b.img"));
    // The first free extent of each drive: vinum's data begins at sector 265.
    assert_eq!(a[265 * 512..][..9 << 10], data[..9 << 10]);
    assert_eq!(b[265 * 512..][..9 << 10], data[9 << 10..18 << 10]);
    world.does("copy plain:vinum.conf#v1 back");
    assert_eq!(world.read("back"), data);
}

#[test]
fn wrong_configurations_are_refused_with_their_place_and_change_nothing() {
    let world = World::new("a.img b.img", 16 * MIB);
    world.put("few.conf", RAIDCTL.replace("4 1\n", "5 1\n"));
    world.put("twice.conf", RAIDCTL.replace("e.img", "a.img"));
    world.put(
        "huge.conf",
        RAIDCTL.replace("32 1", "100000000000000000000 1"),
    );
    world.put("vinum.conf", VINUM);
    world.put("binary", [0_u8, 159, 146, 150].repeat(1000));
    world.put("long.conf", "x".repeat(5 << 20));
    let before = world.contents();
    for (what, words) in [
        (
            "few.conf",
            "few.conf, line 3, column 1: 5 components announced, 4 named",
        ),
        ("twice.conf", "twice.conf, line 9, column 1: "),
        ("huge.conf", "huge.conf, line 11, column 1: "),
        (
            "vinum.conf",
            "describes several arrays: write vinum.conf#NAME with one of v1, v2",
        ),
        (
            "vinum.conf#v3",
            "vinum.conf describes no array 'v3': it has v1, v2",
        ),
        ("binary", "no dialect recognises binary"),
        ("long.conf", "long.conf has more than 4194304 bytes"),
        ("/dev/zero", "/dev/zero is a character device"),
        (
            "absent.conf",
            "absent.conf is neither a file nor words of a dialect",
        ),
    ] {
        world.refuses(&format!("create pool --from {what}"), 2, &[words]);
    }
    assert_eq!(world.contents(), before);
}

/// Words that would place data elsewhere are not passed over in silence.
#[test]
fn words_that_place_data_elsewhere_are_noted() {
    let world = World::new("a b", 16 * MIB);
    for (words, to, note) in [
        ("ccd0 128 none a b", "ccd", None),
        (
            "ccd0 128 none a b",
            "raidctl",
            Some("these words mean raid0(slice(a,64s)"),
        ),
        (
            "ccd0 128 CCDF_NO_OFFSET a b",
            "vinum",
            Some("these words mean raid0(slice(a,265s"),
        ),
        (
            "ccd0 128 none a b",
            "mdadm",
            Some("these words make a new array"),
        ),
        ("ccd0 128 none a b", "zpool", Some("ZFS has no chunk")),
        (
            "mdadm -B md0 -l0 -n2 -c64 a b",
            "mdadm",
            Some("these words make a new array"),
        ),
    ] {
        let run = world.run_words(&["translate", words, "--to", to]).ends(0);
        match note {
            Some(note) => drop(run.says(note)),
            None => drop(run.says_no("new array")),
        }
    }
    let run = world.run_words(&["translate", "raid5(a,b,c)", "--to", "zpool"]);
    run.ends(0).says("the stripes of raidz vary in width");
    let words = "zpool create tank mirror a b log c";
    let made = world
        .run_words(&["create", "tank", "--from", words])
        .ends(0);
    made.says("log c is ignored");
}

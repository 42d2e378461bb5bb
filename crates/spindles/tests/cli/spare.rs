//! Spares of arrays on files: they replace lost members automatically, whichever command opens the
//! array. A member that returns afterwards is left out, and a refused command changes nothing.

use crate::cli::rebuild::{filled, list, same};
use crate::world::{MIB, World};
use spindles_format::{SLOT_BYTES, SpareRecord};

/// An array with data, and a spare of it.
fn with_spare(expression: &str, devices: &str, bytes: u64, spare: &str) -> World {
    let folder = filled(expression, devices, bytes);
    folder.make(spare, bytes);
    let array = list(devices, ",");
    let run = folder.run(&format!("spare add @{spare} --array {array}"));
    assert!(run.ok().out.contains("is a spare of array 'data'"));
    folder
}

/// Decodes the spare label of a device.
fn spare_on(folder: &World, name: &str) -> Option<SpareRecord> {
    let at = usize::try_from(SLOT_BYTES[0]).expect("small");
    SpareRecord::decode(&folder.read(name)[at..]).ok()
}

#[test]
fn a_spare_replaces_a_missing_member() {
    for (expression, left, others) in [
        ("raid1(@a,@b)", "a", "s"),
        ("raid5(@a,@b,@c)", "a c", "s c"),
        ("raid6(@a,@b,@c,@d)", "a c d", "s a"),
        ("raid0(raid1(@a,@b),raid1(@c,@d))", "a c d", "s d"),
    ] {
        let devices = ["a", "b", "c", "d"];
        let count = expression.matches('@').count();
        let devices = devices[..count].join(" ");
        let folder = with_spare(expression, &devices, 8 * MIB, "s");
        let status = format!("status {} @s", list(&devices, " "));
        folder.ok(&status).prints("spare: ");
        let json = folder.ok(&format!("{status} --json")).json();
        assert_eq!(json["spares"][0]["shared"], false);
        assert_eq!(json["state"], "healthy");
        // While no member is missing, the spare stays unused.
        let before = folder.read("s");
        folder.ok(&format!("scrub {} @s", list(&devices, " ")));
        same(&folder, &format!("{devices} s"));
        assert!(folder.read("s") == before);
        folder.rename("b", "away");
        // `status` changes nothing.
        folder.ok(&format!("status {} @s", list(left, " ")));
        assert!(folder.read("s") == before);
        folder
            .ok(&format!("rebuild {} @s", list(left, " ")))
            .warns("takes the place of member 1")
            .prints("member 1 is active again");
        assert_eq!(spare_on(&folder, "s").map(|spare| spare.is_shared()), None);
        same(&folder, others);
        // The lost member no longer has a place.
        folder
            .ok(&format!("status {} @s @away", list(left, " ")))
            .warns("another device in its position")
            .warns("wipe it to make it a plain device");
        let json = folder.run(&format!("status {} @s --json", list(left, " ")));
        assert_eq!(json.ok().json()["state"], "healthy");
        folder.ok("spare add @away --shared --force");
        same(&folder, &format!("{left} s away"));
    }
}

/// The device comes first; a command line that begins with the array gets the right one as advice.
#[test]
fn an_error_shows_the_right_order_of_arguments() {
    let folder = World::outside("a b s", 8 * MIB);
    folder.ok("create data raid1(@a,@b)");
    let scan = format!("--scan {}", folder.full(""));
    let (a, s) = (folder.full("a"), folder.full("s"));
    for (line, message) in [
        (
            format!("spare add data @s {scan}"),
            format!("`spindles spare add {s} --array data`, or"),
        ),
        (
            format!("spare add @s {scan}"),
            format!("`spindles spare add {s} --array ARRAY`, or"),
        ),
        (
            format!("journal add data @s {scan}"),
            format!("`spindles journal add {s} --array data`"),
        ),
        (
            format!("journal add @a {scan}"),
            format!("`spindles journal add {a} --array ARRAY`"),
        ),
    ] {
        folder.refuses(
            &line,
            2,
            &[
                "the device comes first, then the array with --array",
                &message,
            ],
        );
    }
}

/// Any program that writes to the array fills the spare; the rest follows later.
#[test]
fn a_copy_makes_a_spare_replace_a_missing_member() {
    let folder = World::outside("a b c s", 8 * MIB);
    folder
        .ok("create data raid5(@a,@b,@c) --spare @s --chunk 16K")
        .prints("/c,");
    let shown = folder.ok("examine @s");
    let (array, _) = folder.newest("a");
    assert!(shown.out.contains(&array.uuid.to_string()), "{}", shown.out);
    folder.put("data", vec![7; 4 << 20]);
    folder.remove("b");
    folder
        .ok("copy @data array:@a,@s,@c")
        .warns("takes the place of member 1");
    // Whether no bytes needed filling or all are filled: a rebuild has nothing left to do.
    folder.ok("resync @a @c @s");
    let run = folder.run("rebuild @a @c @s");
    let json = folder.ok("status @a @c @s --json").json();
    assert_eq!(json["state"], "healthy", "{}{}", run.out, run.error);
    same(&folder, "c s");
}

/// A copy does not wait until the spare is filled, and says which command finishes that.
#[test]
fn a_copy_reports_a_spare_that_is_not_yet_filled() {
    let folder = with_spare("raid5(@a,@b,@c)", "a b c", 128 * MIB, "s");
    folder.remove("b");
    let copy = "copy @data array:@a,@c,@s --bytes 4K --force";
    folder.ok(copy).warns([
        "/s takes the place of member 1",
        ": a device that takes a place is filled to ",
        " %: spindles rebuild finishes that, or it goes on when the array is written again",
    ]);
    let status = folder.run("status @a @c @s --json").json();
    assert_eq!(status["members"][1]["state"], "rebuilding");
    folder
        .ok("rebuild @a @c @s")
        .prints("member 1 is active again");
    folder.ok(copy).warns_no("is filled to");
}

/// A spare takes only places that it has room for.
#[test]
fn a_warning_names_members_that_a_spare_is_too_small_for() {
    let folder = World::outside("a b s t", 8 * MIB);
    for device in ["c", "d", "e"] {
        folder.make(device, 16 * MIB);
    }
    let expression = "raid0(raid1(@a,@b),raid1(@c,@d))";
    let small = format!(
        "{} is too small for the place of {}, {}: it has 8 MiB",
        folder.full("s"),
        folder.full("c"),
        folder.full("d")
    );
    let run = folder.ok(&format!(
        "create data {expression} --spare @s --spare @e --json"
    ));
    for text in [
        run.error.as_str(),
        run.json()["warnings"][0].as_str().expect("a text"),
    ] {
        assert!(text.contains(&small), "no {small:?} in {text}");
        assert!(
            text.contains("take a larger device to have a spare for any member"),
            "{text}"
        );
    }
    assert_eq!(run.error.lines().count(), 1, "{}", run.error);
    let add = "--array @a,@b,@c,@d --json";
    let run = folder.ok(&format!("spare add @t {add}"));
    let small = "/t is too small for members 0 and 1 of array 'data.1': it has 8 MiB";
    for text in [
        run.error.as_str(),
        run.json()["warnings"][0].as_str().expect("a text"),
    ] {
        assert!(text.contains(small), "{text}");
    }
    let run = folder.ok(&format!("spare add @e {add}"));
    assert_eq!(run.error, "");
    // It is a spare for the other members.
    folder.remove("b");
    folder
        .ok("rebuild @a @c @d @t --degraded")
        .warns("takes the place of member 1");
}

/// The absent member could have continued alone.
#[test]
fn a_spare_of_a_two_way_mirror_waits_for_degraded() {
    let folder = World::outside("a b s", 8 * MIB);
    folder.ok("create data raid1(@a,@b) --spare @s");
    folder.remove("b");
    let before = folder.read("s");
    folder.refuses(
        "rebuild @a @s",
        1,
        &["could have gone on alone", "--degraded"],
    );
    assert!(folder.read("s") == before);
    folder.ok("rebuild @a @s --degraded");
    assert_eq!(spare_on(&folder, "s"), None);
}

#[test]
fn a_shared_spare_serves_the_first_array_that_needs_it() {
    let folder = filled("raid1(@a,@b)", "a b", 8 * MIB);
    for device in ["c", "d", "s", "small"] {
        folder.make(device, if device == "small" { MIB } else { 8 * MIB });
    }
    folder.ok("create other raid1(@c,@d) --degraded-writes allow");
    folder
        .ok("spare add @s @small --shared")
        .prints("is a shared spare");
    folder.remove("b");
    folder.remove("d");
    // It stays a shared spare.
    folder
        .ok("spare add @s --array @c")
        .prints("is a shared spare");
    // The spare that is too small is left out.
    folder
        .ok("rebuild @a @small @s")
        .prints("member 1 is active again");
    assert!(spare_on(&folder, "small").is_some());
    same(&folder, "s");
    folder.refuses("rebuild @c @s", 1, &["belong"]);
    // Dedicated spares go first, then the smallest shared one.
    for (device, bytes) in [("big", 16), ("less", 9), ("own", 32)] {
        folder.make(device, bytes * MIB);
    }
    folder.ok("spare add @big @less --shared");
    folder.ok("spare add @own --array @c");
    folder
        .ok("rebuild @c @big @less @own")
        .warns("/own takes the place");
    folder.remove("own");
    folder
        .ok("rebuild @c @big @less")
        .warns("/less takes the place");
    assert!(spare_on(&folder, "big").is_some_and(|spare| spare.is_shared()));
}

/// In every form of the command, without --force, as the spare would take its place automatically
/// too.
#[test]
fn a_rebuild_onto_a_spare_needs_no_force() {
    for whose in ["--shared", "--array @c,@d"] {
        let folder = filled("raid5(@a,@b,@gone)", "a b gone", 8 * MIB);
        for device in ["c", "d", "s"] {
            folder.make(device, 8 * MIB);
        }
        folder.ok("create other raid1(@c,@d)");
        folder.ok(&format!("spare add @s {whose}"));
        if whose != "--shared" {
            folder.refuses("rebuild @a @b --onto @s", 1, &["holds a spare"]);
            folder.ok("spare add @s --array @a,@b,@gone");
        }
        folder.remove("gone");
        folder
            .ok("rebuild @a @b --onto @s")
            .prints("member 2 is active again");
        assert_eq!(spare_on(&folder, "s"), None, "{whose}");
        same(&folder, "a s");
    }
}

/// A crash after an array claimed a spare leaves a dedicated spare of that array. A torn label is
/// neither spare nor member.
#[test]
fn a_claimed_spare_is_claimed_again_after_a_crash() {
    let folder = with_spare("raid1(@a,@b)", "a b", 8 * MIB, "s");
    folder.make("c", 8 * MIB);
    folder.make("d", 8 * MIB);
    folder.ok("create other raid1(@c,@d) --degraded-writes allow");
    folder.ok("spare add @s --array @c,@d");
    let spare = spare_on(&folder, "s").expect("it is one");
    assert_eq!(spare.arrays.len(), 2);
    let (array, device) = folder.newest("a");
    let claimed = spare.claimed_by(array.uuid);
    folder.write("s", SLOT_BYTES[0], &claimed.encode());
    // Its first superblock is torn as well.
    let mut torn = [0; spindles_format::SUPERBLOCK_BYTES];
    spindles_format::encode(&array, &device, &mut torn);
    torn[1024..].fill(0);
    folder.write("s", SLOT_BYTES[1], &torn);
    folder.remove("b");
    folder.remove("d");
    folder.ok("status @c @s").warns("a spare of another array");
    folder.refuses("rebuild @c @s", 1, &["--onto"]);
    folder.ok("rebuild @a @s");
    same(&folder, "s");
    // The label of the spare itself is torn.
    let half = claimed.encode();
    folder.make("e", 8 * MIB);
    folder.ok("spare add @e --shared");
    folder.write("e", SLOT_BYTES[0], &half[..512]);
    folder.ok("status @c @e").warns("left out: ");
    folder.refuses("rebuild @c @e", 1, &["--onto"]);
    folder.refuses("create x raid1(@e,@a)", 1, &["damaged", "--force"]);
}

/// If a spare is too small, the error names it and the required size.
#[test]
fn a_rebuild_names_a_spare_that_is_too_small() {
    let folder = filled("raid5(@a,@b,@c)", "a b c", 8 * MIB);
    folder.make("small", MIB);
    folder.ok("spare add @small --shared");
    folder.remove("b");
    let texts = [
        "lacks member 1, and no device is there to be filled; ",
        "/small: too small: it has 1 MiB, and a member needs 8 MiB",
        "--onto",
    ];
    folder.refuses("rebuild @a @c @small", 1, &texts);
    // The spare is as large as the member that is left, but too small for the lost member.
    let folder = World::outside("a s", 8 * MIB);
    folder.make("large", 16 * MIB);
    folder.ok("create data raid1(@a,@large) --degraded-writes allow");
    folder.ok("spare add @s --shared");
    folder.remove("large");
    folder.run("rebuild @a @s").fails(
        1,
        [
            "lacks member 1, and no device is there to be filled; ",
            "/s is too small: it has 8 MiB, and needs 16 MiB",
            "--onto",
        ],
    );
    assert!(spare_on(&folder, "s").is_some());
}

#[test]
fn unsuitable_spares_are_refused() {
    let folder = with_spare("raid5(@a,@b,@c)", "a b c", 8 * MIB, "s");
    folder.make("small", MIB);
    folder.make("new", 8 * MIB);
    folder.refuses("spare add @new", 2, &["--array", "--shared"]);
    folder.refuses("spare add @new --shared --array @a,@b,@c", 2, &["--shared"]);
    folder.refuses(
        "spare add @a --shared",
        1,
        &["member of the Spindles array 'data'"],
    );
    folder.refuses("spare add @a --array @a,@b,@c", 2, &["is given twice"]);
    folder.refuses("spare add @new @new --shared", 2, &["is given twice"]);
    folder.refuses("spare add @small --array @a,@b,@c", 1, &["too small"]);
    folder.refuses("spare add @none --shared", 1, &["there is no"]);
    folder.refuses("spare remove @new", 1, &["is not a spare"]);
    folder.refuses("spare remove @s @a", 1, &["is not a spare"]);
    folder.refuses(
        "create x raid1(@new,@s)",
        1,
        &["a spare of Spindles arrays", "--force"],
    );
    folder.refuses(
        "create x raid1(@new,@s) --spare @small --force",
        1,
        &["too small"],
    );
    folder.refuses("create x raid1(@new,@new2) --spare @s", 1, &["there is no"]);
    folder.make("shared", 8 * MIB);
    folder.ok("spare add @shared --shared");
    folder.refuses(
        "replace @a --onto @shared @b @c",
        1,
        &["a spare of Spindles arrays", "--force"],
    );
    let before = folder.read("s");
    folder.ok("rebuild @a @b @c @s");
    assert!(folder.read("s") == before, "no place waits for it");
    // It belongs to this array alone.
    folder.ok("rebuild @a @b --onto @s");
    same(&folder, "a s");
    folder.ok("spare add @new --array @a,@b,@s");
    folder.ok("spare remove @new").prints("no longer a spare");
    folder.make("two", 8 * MIB);
    folder.ok("create x raid1(@new,@two)");
}

/// `spare remove` takes one array like `spare add`, and other arrays keep their spare.
#[test]
fn a_spare_is_removed_from_one_array() {
    for [before, after] in [["spare remove", " --array"], ["remove", ""]] {
        is_removed_from_one_array(&|spare, array| format!("{before} {spare}{after} {array}"));
    }
}

/// `remove` formats the command in one of its forms.
fn is_removed_from_one_array(remove: &dyn Fn(&str, &str) -> String) {
    let folder = with_spare("raid1(@a,@b)", "a b", 8 * MIB, "s");
    for file in ["c", "d", "shared"] {
        folder.make(file, 8 * MIB);
    }
    folder.ok("create other raid1(@c,@d)");
    folder.ok("spare add @s --array @c,@d");
    folder.ok("spare add @shared --shared");
    let before = folder.read("shared");
    folder.refuses(
        &remove("@shared", "@a,@b"),
        1,
        &["a shared spare", "without --array"],
    );
    assert!(folder.read("shared") == before, "it was changed");
    folder
        .ok(&remove("@s", "@a,@b"))
        .prints("no longer a spare of array 'data'");
    folder.refuses(&remove("@s", "@a,@b"), 1, &["a spare of other arrays"]);
    let spare = spare_on(&folder, "s").expect("it is one of the other array");
    assert_eq!(spare.arrays.len(), 1);
    folder.ok(&remove("@s", "@c,@d"));
    assert!(spare_on(&folder, "s").is_none());
}

/// A member that returns and missed little is brought up to date; no spare is taken.
#[test]
fn a_returning_member_takes_precedence_over_a_spare() {
    let folder = with_spare("raid5(@a,@b,@c)", "a b c", 8 * MIB, "s");
    let before = folder.read("s");
    folder.rename("b", "away");
    folder.ok("copy @data array:@a,@c --force");
    folder.rename("away", "b");
    folder
        .run("rebuild @a @b @c @s")
        .warns_no("takes the place");
    let json = folder.ok("status @a @b @c @s --json").json();
    assert_eq!(json["state"], "healthy");
    assert!(folder.read("s") == before);
    same(&folder, "b c");
}

/// A growth needs its own devices: a spare stays a spare.
#[test]
fn a_growth_takes_no_spare() {
    let folder = with_spare("raid5(@a,@b,@c)", "a b c", 8 * MIB, "s");
    folder.make("d", 8 * MIB);
    let before = folder.read("s");
    folder.ok("grow @a @b @c @s --add @d");
    assert!(folder.read("s") == before);
    folder.remove("d");
    folder
        .ok("rebuild @a @b @c @s")
        .prints("member 3 is active again");
    same(&folder, "s b c");
}

/// Only the missing member may know the right data: --force does not give its place away.
#[test]
fn an_array_opened_by_force_takes_no_spare() {
    let folder = World::outside("a b c s", 8 * MIB);
    folder.ok("create data raid5(@a,@b,@c) --spare @s --consistency resync");
    folder.advance(&["a", "b", "c"], &[], false);
    folder.remove("b");
    folder.refuses("rebuild @a @c @s", 1, &["was not closed in order"]);
    folder
        .ok("resync @a @c @s --force")
        .warns_no("takes the place");
    assert!(spare_on(&folder, "s").is_some());
    folder
        .ok("rebuild @a @c @s")
        .prints("member 1 is active again");
}

//! `replace` on arrays of files: the new device holds the data of the old one, and a refused
//! command changes nothing.

use crate::cli::rebuild::{filled, list, same};
use crate::world::{MIB, World};

#[test]
fn replace_copies_all_data_to_the_new_device() {
    for (expression, others, left) in [
        ("raid0(@a,@b)", "a", "a new"),
        ("raid1(@a,@b)", "a", "new"),
        ("raid5(@a,@b,@c)", "a c", "c new"),
        ("raid6(@a,@b,@c,@d)", "a c d", "new a"),
        ("raid0(raid1(@a,@b),raid1(@c,@d))", "a c d", "new c"),
    ] {
        let devices = ["a", "b", "c", "d"];
        let count = expression.matches('@').count();
        let folder = filled(expression, &devices[..count].join(" "), 8 * MIB);
        folder.put("new", vec![0x5a; 8 << 20]);
        let before = folder.read("b");
        let run = folder.run(&format!(
            "replace @b --onto @new --force {}",
            list(others, " ")
        ));
        run.ok().prints("member 1 is").prints("no member any more");
        let all = list(&format!("{others} new"), " ");
        let status = folder.ok(&format!("status {all} --json")).json();
        assert_eq!(status["state"], "healthy", "{expression}");
        assert_eq!(status["clean"], true, "{expression}");
        // Without the other dispensable members, the data must come from the new device.
        same(&folder, left);
        // The old device is no longer taken for a member; only its superblock has changed.
        let after = folder.read("b");
        assert!(
            before[1 << 20..] == after[1 << 20..],
            "its data is as it was"
        );
        folder.refuses(&format!("status @b {all}"), 1, &["no Spindles superblock"]);
    }
}

#[test]
fn an_impossible_replacement_is_refused() {
    let folder = filled("raid5(@a,@b,@c)", "a b c", 4 * MIB);
    let other = World::outside("x y", 4 * MIB);
    other.ok("create other raid1(@x,@y)");
    std::fs::copy(other.full("x"), folder.full("x")).expect("room");
    folder.put("small", vec![0; 1 << 20]);
    folder.put("new", vec![0; 4 << 20]);
    folder.refuses("replace @b --onto @x @a @c", 1, &["--force", "'other'"]);
    folder.refuses("replace @b --onto @small @a @c", 1, &["too small"]);
    folder.refuses("replace @b --onto @none @a @c", 1, &["there is no"]);
    folder.refuses("replace @b --onto @a @a @c", 2, &["is given twice"]);
    folder.refuses("replace @b --onto @b @a @c", 2, &["is given twice"]);
    folder.refuses("replace @b @a @c", 2, &["--onto"]);
    folder.refuses("replace @b --onto @new", 2, &["the array is missing"]);
    // A single-device array needs no other device.
    let single = World::outside("old new", 4 * MIB);
    single.ok("create single concat(@old)");
    single.ok("replace @old --onto @new");
    let left = World::outside("a b c old new", 4 * MIB);
    left.ok("create left raid5(@a,@b,@c) --spare @old");
    let active = [left.full("a"), left.full("b"), left.full("c")].join(", ");
    let text = format!("; active: {active}");
    left.refuses("replace @old --onto @new @a @b @c", 1, &[&text]);
    let run = folder.ok("replace @b --onto @x @a @c --force --json");
    let json = run.json();
    assert_eq!(json["member"], 1);
    assert_eq!(json["rebuilt"], false);
    assert!(run.error.contains("; that is overwritten"), "{}", run.error);
    same(&folder, "x c");
    // It is no longer a member, so it can't be replaced again.
    folder.refuses(
        "replace @b --onto @new @a @x @c",
        1,
        &["no Spindles superblock"],
    );
}

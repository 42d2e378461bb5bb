//! `grow --size`: an array gets the room of larger devices that replaced its members.

use crate::cli::rebuild::{filled, list, same};
use crate::world::{MIB, World};
use serde_json::Value;
use std::time::Instant;

/// An array with data on `a b c`, whose members were replaced by larger devices `d e f`.
fn replaced(expression: &str) -> World {
    let folder = filled(expression, "a b c", 8 * MIB);
    for (at, (old, new)) in ["a", "b", "c"].iter().zip(["d", "e", "f"]).enumerate() {
        let left = ["d", "e"][..at]
            .iter()
            .chain(["a", "b", "c"][at + 1..].iter());
        let left: Vec<String> = left.map(|name| format!("@{name}")).collect();
        folder.make(new, (40 - 4 * u64::try_from(at).expect("few")) * MIB);
        let left = left.join(" ");
        folder.ok(&format!("replace @{old} --onto @{new} {left}"));
        folder.remove(old);
    }
    folder
}

fn status(folder: &World) -> Value {
    folder.ok("status @d @e @f --json").json()
}

#[test]
fn grow_uses_all_space_of_larger_members() {
    let folder = replaced("raid5(@a,@b,@c)");
    let before = status(&folder);
    let (bytes, room) = (&before["bytes"], &before["room_bytes"]);
    folder
        .ok("status @d @e @f")
        .prints("its members have room for 6")
        .prints(": spindles grow data --size max");
    let most = room.as_u64().expect("there is more") / 1024;
    let (most, least) = (
        format!("have room for {most} KiB at most: replace "),
        "/f by a larger device",
    );
    folder.refuses("grow @d @e @f --size 1T", 1, &[&most, least]);
    folder.refuses("grow @d @e @f --size 5M", 1, &["can't become smaller"]);
    folder.refuses("grow @d @e @f --size 20M --chunk 64K", 2, &["--chunk"]);
    folder.refuses("grow @d @e @f --size all", 2, &["or max"]);
    folder.refuses("grow @d @f --size max", 1, &["lacks member 1"]);

    let run = folder.ok("grow @d @e @f --size 20M --json").json();
    assert_eq!(run["bytes_before"], *bytes);
    assert_eq!(run["bytes"], 20 * MIB);
    folder
        .ok("grow @d @e @f --size max")
        .prints("MiB more than before");
    let after = status(&folder);
    assert_eq!(after["bytes"], *room);
    assert_eq!(after["room_bytes"], Value::Null);
    assert_eq!(after["state"], "healthy");
    assert_eq!(after["clean"], true);
    same(&folder, "d f");
    folder
        .ok("grow @d @e @f --size max")
        .prints("stays as it is: it holds")
        .prints(["no room for more: replace ", "/f by a larger device first"]);
    folder.ok("scrub @d @e @f").prints("nothing is wrong");
}

/// Explains why an array can't grow now, whatever else it has or does.
#[test]
fn grow_explains_why_an_array_can_not_grow() {
    let folder = replaced("raid5(@a,@b,@c)");
    // With a separate journal device, and after a crash.
    folder.make("log", 8 * MIB);
    folder.ok("journal add @log --array @d,@e,@f");
    folder.advance(&["d", "e", "f"], &[], false);
    folder.ok("grow @d @e @f @log --size max");
    let now = folder.ok("status @d @e @f @log --json").json();
    assert_eq!(
        (&now["clean"], &now["room_bytes"]),
        (&true.into(), &Value::Null)
    );
    same(&folder, "e f log");

    let folder = filled("raid0(raid1(@a,@b),raid1(@c,@d))", "a b c d", 4 * MIB);
    folder.refuses("grow @a @b @c @d --size max", 1, &["arrays for members"]);
    let folder = World::outside("a b", 4 * MIB);
    let bare = "--checksum none --consistency none";
    folder.ok(&format!("create bare raid0(@a,@b) {bare}"));
    folder.refuses("grow @a @b --size max", 1, &["no bitmaps"]);
}

/// Moments at which a command is killed: from its start until it has certainly ended.
const PARTS: u32 = 10;

#[test]
fn a_growth_killed_at_any_moment_leaves_the_old_or_the_new_size() {
    let mut kept = 0;
    for level in ["raid5", "raid1"] {
        let folder = replaced(&format!("{level}(@a,@b,@c)"));
        let before = status(&folder);
        let devices = ["d", "e", "f"];
        for device in devices {
            folder.copy(device, &format!("{device}.kept"));
        }
        let grow = format!("grow {} --size max", list("d e f", " "));
        let began = Instant::now();
        folder.ok(&grow);
        let whole = began.elapsed();
        for part in 0..PARTS {
            for device in devices {
                folder.copy(&format!("{device}.kept"), device);
            }
            folder.kill(&grow, whole * part * 3 / PARTS);
            let now = status(&folder);
            let is_one = [&before["bytes"], &before["room_bytes"]].contains(&&now["bytes"]);
            assert!(is_one, "{level}: {}", now["bytes"]);
            kept += u32::from(now["bytes"] == before["bytes"]);
            same(&folder, if part % 2 == 0 { "d e f" } else { "e f" });
            folder.ok(&grow);
            assert_eq!(status(&folder)["bytes"], before["room_bytes"]);
        }
    }
    assert!(
        (1..2 * PARTS).contains(&kept),
        "{kept} times it had the old size"
    );
}

/// A growth reports what the array is now.
#[test]
fn grow_reports_the_new_level_and_size() {
    let folder = World::outside("a b c d", 32 * MIB);
    folder.ok("create data raid5(@a,@b,@c)");
    folder.ok("grow @a @b @c --add @d --level raid6").prints([
        "array 'data' is raid6 on 4 members now, and holds ",
        " MiB, as much as before",
    ]);
}

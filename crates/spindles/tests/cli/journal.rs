//! A journal on a device of its own: where it can't be that is refused and changes nothing, and the
//! array goes on without the device.

use crate::arrays::{Folder, MIB};

#[test]
fn an_array_has_its_journal_on_a_device_of_its_own() {
    let folder = Folder::new("a b c j", 16 * MIB);
    folder.make("small", MIB);
    let before = folder.read("j");
    for (refused, why) in [
        ("raid5(@a,@b,@c) --journal @small", "too small"),
        (
            "raid1(@a,@b) --journal @j --checksum none",
            "without parity and without checksums",
        ),
        (
            "raid5(@a,@b,@c) --journal @j --consistency resync",
            "--consistency journal",
        ),
        ("raid5(@a,@b,@c) --journal @a", "the same device"),
    ] {
        let run = folder.run(&format!("create data {refused}"));
        assert!(run.error.contains(why), "{refused}: {}", run.error);
    }
    assert!(folder.read("j") == before, "nothing was changed");
    let made = folder
        .run("create data raid5(@a,@b,@c) --journal @j --json")
        .ok();
    assert!(
        made.out.contains("\"checksum\": \"crc32c\""),
        "{}",
        made.out
    );
    let shown = folder.run("status @a @b @c @j").ok();
    assert!(shown.out.contains("journal: "), "{}", shown.out);
    assert!(
        folder
            .run("examine @j")
            .ok()
            .out
            .contains("the journal of array")
    );
    let taken = folder.run("create other raid1(@j,@small)");
    assert!(
        taken.error.contains("the journal of a Spindles array"),
        "{}",
        taken.error
    );
    let without = folder.run("status @a @b @c").ok();
    assert!(
        without.error.contains("its members log"),
        "{}",
        without.error
    );
}

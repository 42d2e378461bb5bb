//! Another command that changes a device between the moment it is examined and the first write.

use crate::world::{MIB, Run, World};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

/// A command that waits for one device refuses another that was empty when it was examined, and has
/// become a member meanwhile.
#[test]
fn a_device_that_became_a_member_meanwhile_is_refused() {
    let world = World::new("a m n o p q", 40 * MIB);
    world.does("create base raid1(m,n)");
    world.does("create wide raid5(o,p,q)");
    // Each command, and the device that it waits for.
    for (command, busy) in [
        ("create one raid1(a,b)", "a"),
        ("replace m base --onto b", "n"),
        ("grow wide --add b", "p"),
    ] {
        world.make("b", 40 * MIB);
        world.make("c", 40 * MIB);
        let reader = File::open(world.path(busy)).expect("it is there");
        reader.lock_shared().expect("it is unlocked");
        let mut waits = world.begin(command);
        waits.says("waiting up to");
        world.does("create two raid0(b,c)");
        drop(reader);
        let refused = waits.end(None).ends(1);
        refused.warns("b was changed by another command");
        assert_eq!(world.json("status two")["state"], "healthy", "{command}");
    }
}

/// A member is refused as a spare, a journal or a replacement of its own array while another
/// command rewrites the superblocks.
#[test]
fn a_member_whose_superblocks_change_is_refused() {
    let world = World::new("a b c", 40 * MIB);
    world.does("create pool raid5(a,b,c)");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                world.run("set pool --degraded-writes ask");
            }
        });
        let commands = [
            "spare add c --array pool --force",
            "journal add c --array pool --force",
            "replace a pool --onto c --force",
        ];
        let runs: Vec<Run> = (0..100)
            .flat_map(|_| commands.map(|command| world.run(command)))
            .collect();
        ends.store(true, Ordering::Relaxed);
        for refused in runs {
            assert_eq!(refused.status, 1, "{refused:?}");
        }
    });
    assert_eq!(world.json("status pool")["state"], "healthy");
}

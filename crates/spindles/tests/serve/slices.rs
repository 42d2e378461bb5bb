//! Arrays of slices: parts of files that belong to nothing else.

use super::{MIB, serve_what};
use crate::world::{World, pattern};

const SECTOR: usize = 512;
const SLICE: &str = "16384s";
const SERVED: &str = "array 'pool' is served: nbd";

/// The member at this sector of a file.
fn slice(file: &str, start: usize) -> String {
    format!("slice({file},{start}s,{SLICE})")
}

/// Two files, each with two members of a RAID 5 and room for one more.
fn pool() -> (World, [String; 4]) {
    let world = World::new("", 0);
    for name in ["a", "b"] {
        world.put(name, vec![0x5a; 30 * MIB]);
    }
    let members = [
        slice("a", 265),
        slice("a", 20_001),
        slice("b", 7),
        slice("b", 16_391),
    ];
    world.does(&format!("create pool raid5({}) --force", members.join(",")));
    (world, members)
}

/// Checks that nothing was written to a file outside of its slices.
fn untouched(world: &World, file: &str, starts: &[usize]) {
    let bytes = world.read(file);
    let is_free = |at: &usize| {
        let sector = at / SECTOR;
        !starts
            .iter()
            .any(|start| (*start..start + 16_384).contains(&sector))
    };
    let mut free = (0..bytes.len()).filter(is_free);
    assert!(free.all(|at| bytes[at] == 0x5a), "{file}");
}

#[test]
fn an_array_of_slices_keeps_its_data() {
    let (world, members) = pool();
    let all = members.join(",");
    let data = pattern(20 * MIB, 4);
    world.put("data", &data);
    world.ok(&format!("copy data array:{all} --force"));
    let status = world.json(&format!("status {}", members.join(" ")));
    assert_eq!(status["state"], "healthy");
    world.ok(&format!("status {all}")).prints(&*members[1]);
    world.ok(&format!("examine {}", members[1])).prints("pool");
    let same = |members: &[&str]| {
        world.ok(&format!("copy array:{} back", members.join(",")));
        assert!(world.read("back").starts_with(&data), "{members:?}");
        world.remove("back");
    };
    let [a, b, c, d] = members.each_ref().map(String::as_str);
    same(&[a, b, c, d]);
    same(&[c, a, d]);

    // Another slice of the same file takes the place of one, whole or lost.
    let (new, third) = (slice("b", 32_775), slice("a", 40_001));
    world.ok(&format!("replace {b} {all} --onto {new} --force"));
    same(&[a, &new, c, d]);
    same(&[a, &new, d]);
    world.ok(&format!("rebuild {a} {new} {d} --onto {third} --force"));
    let status = world.json(&format!("status {a} {new} {third} {d}"));
    assert_eq!(status["state"], "healthy");
    same(&[&new, &third, d]);
    world.ok(&format!("scrub {a},{new},{third},{d}"));
    untouched(&world, "a", &[265, 20_001, 40_001]);
    untouched(&world, "b", &[7, 16_391, 32_775]);
    world.ok(&format!("wipe {c} --force"));
    world.ok(&format!("examine {c}")).says_no("pool");
    untouched(&world, "b", &[7, 16_391, 32_775]);
}

#[test]
fn a_killed_server_on_slices_loses_no_member() {
    let (world, members) = pool();
    let all = format!("array:{}", members.join(","));
    let data = pattern(20 * MIB, 9);
    world.put("data", &data);
    world.ok(&format!("copy data {all} --force"));
    let served = serve_what(&world, &[&all], SERVED);
    // Other programs keep out, of the whole file and of all its parts.
    let taken = slice("a", 265);
    for line in [
        format!("create other raid1({taken},c) --force"),
        "create other raid1(a,c) --force".to_owned(),
        format!("create other raid1({},c) --force", slice("a", 40_001)),
    ] {
        world.put("c", vec![0; 8 * MIB]);
        world.run(&line).refused().says("in use");
    }
    world.ok(&format!("status {all}")).prints("served");
    served.kill();
    let served = serve_what(&world, &[&all], SERVED);
    served.stop();
    let left = [&*members[0], &members[2], &members[3]].join(",");
    let served = serve_what(&world, &[&format!("array:{left}"), "--degraded"], SERVED);
    served.kill();
    world.ok(&format!("copy array:{left} back --degraded"));
    assert!(world.read("back").starts_with(&data));
    untouched(&world, "a", &[265, 20_001]);
}

#[test]
fn slices_that_can_be_no_members_are_refused() {
    let world = World::new("a b", 8 << 20);
    for (members, text) in [
        (
            "slice(a,0s,8192s),slice(a,8191s)",
            "parts of one that overlap",
        ),
        ("slice(a,0s,8192s),a", "parts of one that overlap"),
        ("slice(a,0s,8192s),slice(./a,0s,8192s)", "the same device"),
        ("slice(a,0s,8192s),slice(a,0s,8192s)", "twice"),
        ("slice(a,16384s),b", "does not fit"),
        ("slice(a,8192s,8193s),b", "does not fit"),
        ("slice(a,0s,0s),b", "length 0"),
        (
            "slice(a,0s,8192s),b",
            "where a superblock counts for all of a",
        ),
        ("slice(a,0s,100000000000000000000s),b", "too large"),
        ("slice(a,100),b", "not a whole number of sectors"),
        ("slice(slice(a,0s),64s),b", "a slice of a slice"),
        ("slice(raid0(a),64s),b", "whole arrays"),
        ("slice(mem:8M,64s),b", "exists only while this command runs"),
        ("slice(none,64s),b", "there is no none"),
    ] {
        let before = world.contents();
        world
            .run(&format!("create pool raid1({members})"))
            .refused()
            .says(text);
        assert!(world.contents() == before, "{members}");
    }
    // What lies on all of a device is lost with a slice of it.
    world.put("c", vec![0; 40 * MIB]);
    world.put("d", vec![0; 8 * MIB]);
    world.ok("create live raid0(c)");
    let before = world.contents();
    for line in [
        "create pool raid1(slice(c,50000s),d)",
        "spare add slice(c,50000s) --shared",
        "copy d slice(c,50000s)",
    ] {
        let run = world.run(line).refused();
        run.says("a member of the Spindles array 'live");
        assert!(world.contents() == before, "{line}");
    }
    world.remove("c");
    world.remove("d");
    // A file of such a name.
    world.copy("a", "slice(b,64s)");
    world.ok("create pool raid1(\"./slice(b,64s)\",b)");
    world.ok("status ./slice(b,64s) b").prints("./slice(b,64s)");
}

/// Each of two arrays has a part of the other's devices, in the other order.
#[test]
fn two_arrays_on_slices_of_the_same_devices_can_both_be_opened() {
    let world = World::new("a b", 60 << 20);
    world.put("in", pattern(1 << 20, 3));
    let one = "slice(a,1M,20M),slice(b,1M,20M)";
    let other = "slice(b,30M,20M),slice(a,30M,20M)";
    for (name, members) in [("pool", one), ("lake", other)] {
        world.does(&format!("create {name} raid1({members})"));
    }
    for _ in 0..8 {
        let copies = [one, other].map(|members| world.begin(&format!("copy in array:{members}")));
        for copy in copies {
            copy.end(None).ends(0);
        }
    }
}

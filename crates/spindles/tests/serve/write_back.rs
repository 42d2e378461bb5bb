//! The stage of an array: it is created, set and taken away; what it holds outlives a kill, the
//! loss of a member and a read-only opening.

use crate::torture::client::Link as _;
use crate::torture::ledger::Wish;
use crate::torture::nbd::{BLOCK_BYTES, Nbd};
use crate::world::{World, pattern};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// The size of members that have room for a stage.
const MEMBER_BYTES: u64 = 256 * MIB;
/// The feature bit of a stage.
const STAGE: u64 = 1 << 5;
/// Single blocks in different rows.
const STEP: u64 = 37;
const WRITES: u64 = 100;

fn world(create: &str) -> World {
    let world = World::new("a b c d", MEMBER_BYTES);
    world.does(&format!("create pool {create}"));
    world
}

fn connect(world: &World) -> Nbd {
    Nbd::connect(&world.path("socket"), &world.unique("pool")).expect("it serves")
}

fn block(number: u64) -> Vec<u8> {
    pattern(usize::try_from(BLOCK_BYTES).expect("4096"), number + 1)
}

/// Sends small writes, one after the other, and waits for each answer.
fn write(link: &mut Nbd) {
    for number in 0..WRITES {
        let at = number * STEP;
        let wish = Wish::Write { fua: false };
        link.send(number, wish, at..at + 1, &block(number))
            .expect("it serves");
        let (answered, result) = link.receive(true).expect("it serves").expect("an answer");
        assert_eq!((answered, result), (number, Ok(Vec::new())));
    }
}

/// Copies the array to a file, and checks all written blocks.
fn check(world: &World) {
    let bytes = WRITES * STEP * u64::from(BLOCK_BYTES);
    world.make("out", bytes);
    world.does(&format!("copy array:pool out --bytes {bytes} --force"));
    let out = world.read("out");
    let block_bytes = usize::try_from(BLOCK_BYTES).expect("4096");
    for number in 0..WRITES {
        let at = usize::try_from(number * STEP).expect("few") * block_bytes;
        assert!(
            out[at..at + block_bytes] == block(number),
            "block {}",
            number * STEP
        );
    }
    world.remove("out");
}

/// Returns the members' superblocks as `examine` shows them.
fn features(world: &World) -> u64 {
    let examined = world.json("examine pool");
    let refuse = examined["devices"][0]["features"]["refuse"].as_u64();
    refuse.expect("a member")
}

fn write_back(world: &World) -> Value {
    let mut shown = world.json("status pool")["write_back"].clone();
    let shown = shown.as_object_mut().expect("an object");
    let kept = ["mode", "size_bytes", "staged"];
    shown.retain(|name, _| kept.contains(&name.as_str()));
    Value::Object(shown.clone())
}

/// Kills the server of an array whose stage holds writes.
fn kill_staged(world: &World) {
    for _ in 0..20 {
        let mut server = world.served("pool --nbd unix:socket");
        write(&mut connect(world));
        server.kill();
        if write_back(world)["staged"] == json!(true) {
            return;
        }
    }
    panic!("nothing was staged");
}

#[test]
fn a_stage_is_created_set_and_taken_away() {
    let world = world("raid5(a,b,c,d) --write-back on");
    let on = json!({ "mode": "on", "size_bytes": 2 * MIB, "staged": false });
    assert_eq!(write_back(&world), on);
    world
        .does("status pool")
        .prints("write-back on, a stage of 2 MiB, empty");
    world
        .does("examine a b c d")
        .prints("a stage of 2 MiB, which is empty");
    assert_eq!(features(&world) & STAGE, STAGE);
    world
        .does("set pool --write-back off")
        .prints("array 'pool' places each write before it answers it");
    // Versions that know no stage open it again.
    assert_eq!(features(&world) & STAGE, 0);
    let off = json!({ "mode": "off", "size_bytes": 0, "staged": false });
    assert_eq!(write_back(&world), off);
    world.does("set pool --write-back auto");
    let auto = json!({ "mode": "auto", "size_bytes": 2 * MIB, "staged": false });
    assert_eq!(write_back(&world), auto);
    let set = world.json("set pool");
    assert_eq!(set["write_back"], json!("auto"));
    assert_eq!(set["write_back_size_bytes"], json!(2 * MIB));
}

#[test]
fn an_array_that_can_have_no_stage_says_why_and_stays_as_it_is() {
    let world = World::new("a b c d", MEMBER_BYTES);
    let before = world.contents();
    for (array, why) in [
        ("raid1(a,b)", "levels with parity"),
        ("raid5(a,b,c) --consistency resync", "--consistency journal"),
        ("raid1(raid5(a,b,c),d)", "levels with parity"),
        ("raid5(raid0(a,b),c,d)", "arrays of devices alone"),
        (
            "raid5(a,b,c) --write-back-size 3M",
            "room for a stage of 2 MiB, and 3 MiB are needed",
        ),
        ("raid5(a,b,c) --write-back-size 1M", "give from 2 MiB to"),
    ] {
        world.refuses(&format!("create pool {array} --write-back on"), 2, &[why]);
    }
    assert_eq!(world.contents(), before);
    world.does("create pool raid10(a,b,c,d)");
    let before = world.contents();
    // A refused command sets nothing, also if it has another setting.
    let both = "set pool --degraded-writes allow --write-back on";
    world.refuses(both, 1, &["levels with parity"]);
    assert_eq!(world.contents(), before);
    // Here the log takes all of the journal areas.
    world.does("create small raid5(a,b,c) --force");
    let small = world.contents();
    let why = [
        "room for a stage of 0 bytes, and 2 MiB are needed: create the array with --write-back",
        "members of at least 384 MiB",
    ];
    world.refuses("set small --write-back on", 1, &why);
    assert_eq!(world.contents(), small);
    assert_ne!(small, before);
}

#[test]
fn staged_writes_outlive_a_kill_and_a_lost_member() {
    for create in [
        "raid5(a,b,c,d) --write-back on",
        "raid6(a,b,c,d) --write-back on --block-size 512",
    ] {
        let world = world(create);
        kill_staged(&world);
        world
            .does("status pool")
            .prints("write-back on, a stage of 2 MiB, holds ");
        let staged = world.json("status pool")["write_back"]["in_use"]["staged_bytes"].as_u64();
        assert!(staged > Some(0), "{staged:?}");
        world
            .does("examine pool")
            .prints("which may hold writes that are not placed");
        let before = world.contents();
        check(&world);
        assert_eq!(world.contents(), before, "reading changes nothing");
        world.carry("b", false);
        check(&world);
        world.does("set pool --write-back off --degraded");
        check(&world);
        assert_eq!(features(&world) & STAGE, 0);
    }
}

#[test]
fn a_served_array_gets_and_loses_its_stage() {
    let world = World::new("a b c d", MEMBER_BYTES);
    world.does("create pool raid5(a,b,c,d) --write-back on");
    world.does("set pool --write-back off");
    world.serve("");
    let mut link = connect(&world);
    world.does("set pool --write-back on");
    write(&mut link);
    world
        .does("set pool --write-back off")
        .prints("places each write before it answers it");
    assert_eq!(features(&world) & STAGE, 0);
    write(&mut link);
    world.does("set pool --write-back on --write-back-size 2M");
    write(&mut link);
    drop(link);
    let used = &world.json("status pool")["write_back"]["in_use"];
    assert_eq!(
        (&used["state"], &used["stuck"]),
        (&json!("on"), &json!(false))
    );
    world.does("stop pool --place");
    assert_eq!(
        write_back(&world)["staged"],
        json!(false),
        "a stop places all"
    );
    check(&world);
}

//! Nested arrays: reports about them are true, and advice works, whether they are served or not.

use crate::world::{World, fetch};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;

/// Size of each file in bytes.
const BYTES: u64 = 16 << 20;

/// Array 'nest' of this expression, on files a to f.
fn nest(expression: &str) -> World {
    let nest = World::new("a b c d e f", BYTES);
    nest.does(&format!("create nest {expression}"));
    nest
}

fn serve(nest: &World, more: &str) {
    let line = format!("nest --nbd unix:socket --metrics 0 --degraded{more}");
    nest.keep(nest.served(&line));
}

fn stop(nest: &World) {
    nest.does("stop nest");
    nest.server().end(None).ends(0);
}

/// The state of an array in the metrics; `None` if they do not list it.
fn state_of(nest: &World, array: &str) -> Option<String> {
    let url = nest.with_server(|server| server.says("'nest' has metrics: http://"));
    let page = nest.plain(&fetch(&url));
    let sample = format!("spindles_array_state{{array=\"{array}\",state=\"");
    let mut states = page.lines().filter_map(|line| line.strip_prefix(&sample));
    let state = states.find_map(|rest| rest.strip_suffix("\"} 1"));
    state.map(str::to_owned)
}

/// Writes part of the array.
fn write(nest: &World) {
    let bytes = (0..6 << 20).map(|at: u32| at.to_le_bytes()[2] ^ 0x5a);
    nest.put("in", bytes.collect::<Vec<_>>());
    let uri = nest.uri_at("nest", "socket");
    nest.does(&format!("copy in {uri}"));
}

/// Damages the last block of a file that `write` filled.
fn rot(nest: &World, name: &str) {
    let bytes = nest.read(name);
    let is_data = |block: &[u8]| block[0] != 0 && block.iter().all(|byte| *byte == block[0]);
    let blocks = bytes.chunks(4096).collect::<Vec<_>>();
    let last = blocks.iter().rposition(|block| is_data(block));
    let offset = 4096 * u64::try_from(last.expect("data")).expect("64 bits");
    // Nothing else: the server may write to the file now.
    nest.write(name, offset + 100, &[0xee; 100]);
}

/// Damages both superblocks of a file.
fn lose_superblocks(nest: &World, name: &str) {
    for slot in [4096, 32768] {
        nest.write(name, slot, &[0xee; 512]);
    }
}

/// The corrupt and the repaired bytes that `status` shows for each member of the array.
fn errors(nest: &World) -> Vec<[u64; 2]> {
    let document = nest.json("status nest");
    let members = document["members"].as_array().expect("a list").iter();
    let of = |member: &Value, what| member["errors"][what].as_u64().expect(what);
    let errors = members.map(|member| [of(member, "corrupt_bytes"), of(member, "repaired_bytes")]);
    errors.collect()
}

/// Empties these files. Returns their contents.
fn empty(nest: &World, files: &[&str]) -> Vec<Vec<u8>> {
    let cut = files.iter().map(|name| {
        let bytes = nest.read(name);
        nest.resize(name, 0);
        bytes
    });
    cut.collect()
}

/// Metrics report the same state as `status`.
#[test]
fn a_degraded_inner_array_degrades_the_outer_array() {
    let nest = nest("raid1(raid5(a,b,c),raid5(d,e,f))");
    serve(&nest, "");
    assert_eq!(state_of(&nest, "nest").as_deref(), Some("healthy"));
    nest.does("fail b nest");
    nest.ends("status nest", 3);
    for (array, state) in [
        ("nest", "degraded"),
        ("nest.0", "degraded"),
        ("nest.1", "healthy"),
    ] {
        assert_eq!(state_of(&nest, array).as_deref(), Some(state), "{array}");
    }
    nest.does("add b nest");
    assert_eq!(state_of(&nest, "nest").as_deref(), Some("healthy"));
    stop(&nest);
}

/// What the outer array finds wrong on an inner one without checksums is shown at that member, in
/// the event with the device, and can be cleared by a device or for all members.
#[test]
fn corruption_below_an_inner_array_is_shown_and_cleared() {
    let nest = nest("raid1(raid0(a,b),raid0(c,d))");
    let script = "#!/bin/sh\necho \"$1 $2 $3\" >> \"$(dirname \"$0\")/events\"\n";
    nest.put("tell", script);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(nest.path("tell"), executable).expect("it is ours");
    serve(&nest, " --on-event ./tell");
    write(&nest);
    rot(&nest, "c");
    nest.does("scrub nest");
    assert_eq!(errors(&nest), [[0, 0], [4096, 4096]]);
    let shown = "  member 1: an array, healthy\n    errors: 4 KiB corrupt, 4 KiB repaired\n";
    nest.does("status nest").prints(shown);
    let cleared = "array 'nest': member 1, an array: cleared 4 KiB corrupt, 4 KiB repaired\n";
    nest.does("status --clear-errors c nest").prints(cleared);
    assert_eq!(errors(&nest), [[0, 0], [0, 0]]);
    stop(&nest);
    let events = nest.text("events");
    let event = format!("RotRepaired nest {}\n", nest.full("c"));
    assert!(events.contains(&event), "{events}");
    // Not the two copies of one block.
    rot(&nest, "a");
    rot(&nest, "d");
    nest.does("scrub nest");
    assert_eq!(errors(&nest), [[4096, 4096], [4096, 4096]]);
    let examined = "array 'nest': member 1, an array: 4 KiB corrupt, 4 KiB repaired\n";
    nest.does("examine nest").says(examined);
    let output = nest.does("status --clear-errors nest").out;
    assert_eq!(
        output.matches(": cleared 4 KiB corrupt").count(),
        2,
        "{output}"
    );
    assert_eq!(errors(&nest), [[0, 0], [0, 0]]);
    nest.does("status --clear-errors nest")
        .prints("nest: no member had errors");
}

/// An inner array without which the outer one continues no longer counts: neither its findings nor
/// its state affect the outer array, with redundancy of its own or without.
#[test]
fn an_abandoned_inner_array_is_not_scrubbed() {
    for (inside, cut) in [("raid1", &["a", "b"][..]), ("raid0", &["b"])] {
        let nest = nest(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        serve(&nest, "");
        write(&nest);
        empty(&nest, cut);
        nest.does("scrub nest")
            .prints("array 'nest': member 0 is out")
            .says_no("not repaired");
        nest.ends("status nest", 3);
        assert_eq!(state_of(&nest, "nest").as_deref(), Some("degraded"));
        assert_eq!(state_of(&nest, "nest.0"), None);
        stop(&nest);
    }
}

/// A failed inner array that the server still has open comes back by the command that `status`
/// names, or by any of its devices.
#[test]
fn a_failed_inner_array_returns_to_a_served_array() {
    for (inside, cut, back) in [
        ("raid1", &["a", "b"][..], "add b nest"),
        ("raid0", &["b"], "rebuild nest"),
    ] {
        let nest = nest(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        serve(&nest, "");
        write(&nest);
        let held = empty(&nest, cut);
        nest.does("scrub nest");
        for (name, mut bytes) in cut.iter().zip(held) {
            // Keeps the superblocks that the scrub wrote: with older ones the file is an old copy.
            let now = nest.read(name);
            let superblocks = &now[..now.len().min(36 << 10)];
            bytes[..superblocks.len()].copy_from_slice(superblocks);
            nest.put(name, bytes);
        }
        let advice = "`spindles rebuild nest` brings array 'nest.0' up to date";
        nest.ends("status nest", 3).warns(advice);
        let done = "array 'nest': member 0 is active again";
        nest.does(back).prints(done);
        // What the first scrub left in the inner array counts until another has found it good.
        nest.does("scrub nest");
        assert_eq!(state_of(&nest, "nest").as_deref(), Some("healthy"));
        let uri = nest.uri_at("nest", "socket");
        nest.does(&format!("copy --force {uri} out"));
        let read = |name| nest.read(name);
        assert!(read("out").starts_with(&read("in")));
        stop(&nest);
        nest.does("scrub nest")
            .prints("array 'nest': nothing is wrong");
    }
}

/// After the file of an inner member is moved, `status` and `scrub` report what the server knows.
#[test]
fn an_inner_member_with_a_moved_file_is_known() {
    let nest = nest("raid5(raid0(a,b),c,d)");
    serve(&nest, "");
    nest.rename("a", "away");
    nest.does("status nest")
        .prints("member 0: an array, healthy")
        .warns("/a was moved or deleted")
        .says_no("missing")
        .says_no("left out");
    nest.does("scrub nest")
        .prints("array 'nest': nothing is wrong");
    nest.rename("away", "a");
    stop(&nest);
}

/// A served array whose inner array is lost on the disks has no redundancy left: the next server
/// finds no such member.
#[test]
fn an_inner_array_lost_on_the_disks_is_not_relied_on() {
    let nest = nest("raid1(raid0(a,b),raid0(c,d))");
    serve(&nest, "");
    write(&nest);
    lose_superblocks(&nest, "a");
    nest.ends("status nest", 3)
        .prints("member 0: not there")
        .warns("it is not safe from further losses");
    nest.ends("status nest --json", 3)
        .prints("\"survives_more\": 0");
}

/// A scrub of a served array repairs that, and reports the array as it is then.
#[test]
fn a_scrub_shows_an_inner_array_on_the_disks_again() {
    let nest = nest("raid1(raid0(a,b),raid0(c,d))");
    serve(&nest, "");
    write(&nest);
    lose_superblocks(&nest, "a");
    let repaired = "8 KiB of metadata, or without good checksums, repaired";
    nest.does("scrub nest")
        .prints(repaired)
        .says_no("degraded")
        .says_no("without member");
    nest.does("status nest");
    stop(&nest);
}

/// An inner array whose place another device took is left over: it limits the outer array in
/// nothing.
#[test]
fn a_replaced_inner_array_does_not_limit_the_outer_array() {
    let nest = nest("raid5(concat(a,b),c,d) --chunk 16K");
    nest.resize("e", 3 * BYTES);
    let away = tempfile::tempdir_in(nest.folder()).expect("a folder");
    std::fs::rename(nest.path("a"), away.path().join("a")).expect("it is ours");
    serve(&nest, "");
    nest.does("rebuild nest --onto e");
    stop(&nest);
    nest.does("status nest")
        .says_no("not in the current folder");
    std::fs::rename(away.path().join("a"), nest.path("a")).expect("it is ours");
    nest.does("grow nest --add f").prints("on 4 members now");
}

/// If an inner array was absent when serving began, its devices are added one after the other:
/// incomplete ones are kept, and no data is reported as overwritten.
#[test]
fn devices_of_an_absent_inner_array_are_added() {
    for inside in ["raid0", "raid1"] {
        let nest = nest(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        let away = tempfile::tempdir_in(nest.folder()).expect("a folder");
        for name in ["a", "b"] {
            std::fs::rename(nest.path(name), away.path().join(name)).expect("it is ours");
        }
        serve(&nest, "");
        write(&nest);
        for (name, status) in [("b", 1), ("a", 0)] {
            std::fs::rename(away.path().join(name), nest.path(name)).expect("it is ours");
            nest.ends(&format!("add {name} nest"), status)
                .says_no("or take another");
        }
        nest.does("status nest");
        stop(&nest);
        nest.does("scrub nest")
            .prints("array 'nest': nothing is wrong");
    }
}

/// Commands accept the outermost array, and no text advises another one.
#[test]
fn commands_accept_only_the_outermost_array() {
    let nest = nest("raid1(raid5(a,b,c),raid5(d,e,f))");
    for is_served in [false, true] {
        if is_served {
            serve(&nest, "");
        }
        nest.does("fail b nest").warns("b nest` takes it back");
        nest.ends("fail c nest", 1).warns(" nest --onto DEV`");
        for line in ["status nest.0", "add b nest.0", "scrub nest.0"] {
            nest.ends(line, 1)
                .warns("'nest.0' is an array inside 'nest' ");
        }
        nest.does("add b nest");
    }
    stop(&nest);
}

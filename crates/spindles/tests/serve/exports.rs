//! Several arrays on one server: each is a separate export, and events of one do not affect the
//! others.

use super::{MIB, POOL_SERVED, SOCKET, Served, array, serve_by, serve_what};
use crate::loop_devices::Loop;
use crate::world::{Run, Running, Systemd, World, fetch, has, pattern};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::time::Duration;

/// For a block device: exclusive use. From `asm-generic/fcntl.h` of Linux.
const O_EXCL: i32 = 0o200;

/// Array 'pool', and another array, 'music'.
fn two() -> World {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    make(&pool, &["d", "e"]);
    pool.does("create music raid1(d,e)");
    pool
}

fn make(pool: &World, files: &[&str]) {
    for name in files {
        pool.make(name, 24 << 20);
    }
}

fn serve_both<'a>(pool: &'a World, more: &[&str]) -> Served<'a> {
    let what = [&["pool", "music"], more].concat();
    serve_what(pool, &what, POOL_SERVED)
}

fn listed(served: &Served<'_>) -> Run {
    served.run("nbdinfo --list nbd+unix:///?socket=%/socket")
}

fn fio(served: &Served<'_>, export: &str) -> Running {
    let uri = served.pool.uri_at(export, "socket");
    let line = format!(
        "60 fio --name={export} --ioengine=nbd --uri={uri} --rw=randwrite --bs=4k --iodepth=16 \
         --size=16M --loops=2 --verify=crc32c --verify_fatal=1"
    );
    let mut command = Command::new("timeout");
    command.args(line.split_whitespace());
    command.current_dir(served.pool.folder());
    Running::begin(command)
}

#[test]
fn each_array_is_an_export_with_its_own_description() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = two();
    let served = serve_both(&pool, &[]);
    listed(&served)
        .prints(["export=\"pool\"", "raid5 of 3"])
        .prints(["export=\"music\"", "raid1 of 2"]);
    let music = pool.uri_at("music", "socket");
    let sizes = ["@", &music].map(|uri| served.run(&format!("nbdinfo --size {uri}")).out);
    assert_ne!(sizes[0], sizes[1]);
    // Without a name, no export is selected.
    let nameless = "nbdinfo nbd+unix:///?socket=%/socket";
    served.try_run(nameless).refused();
    pool.put("in", pattern(8 * MIB, 1));
    served.run(&format!("nbdcopy --flush %/in {music}"));
    served.run("nbdcopy @ %/out");
    assert!(pool.read("out").iter().all(|byte| *byte == 0));
    // Stopping one leaves the other, which is not served to clients without a name either.
    pool.does("stop pool");
    listed(&served)
        .prints_no("export=\"pool\"")
        .prints("export=\"music\"");
    served.try_run(nameless).refused();
    served.run(&format!("nbdcopy {music} %/out"));
    assert!(pool.read("out").starts_with(&pattern(8 * MIB, 1)));
    pool.does("stop music");
    let closed = ["array 'pool' is closed", "array 'music' is closed"];
    served.stop_has_come().prints(closed);
    assert!(!pool.path("socket").exists(), "the socket is left");
}

/// Arrays named together are handled one after the other, even if one of them fails.
#[test]
fn one_command_shows_or_stops_several_arrays() {
    let pool = two();
    let served = serve_both(&pool, &[]);
    pool.does("fail d music");
    pool.ends("status pool music", 3)
        .prints(["array 'pool' (", "array 'music' ("]);
    let run = pool.run("status pool music --json");
    let json = run.json();
    let states = [&json["arrays"][0]["state"], &json["arrays"][1]["state"]];
    assert_eq!(states, ["healthy", "degraded"], "{json}");
    pool.ends("status pool music a", 2);
    pool.ends("stop pool absent music", 1).says([
        "'pool' is no longer served",
        "'absent' is neither",
        "'music' is no longer served",
    ]);
    served.stop_has_come();
}

#[test]
fn commands_on_one_array_do_not_disturb_another() {
    if !has("fio", "fio") {
        return;
    }
    let pool = two();
    let served = serve_both(&pool, &[]);
    let writers = ["pool", "music"].map(|export| fio(&served, export));
    std::thread::sleep(Duration::from_millis(300));
    for (line, wanted) in [
        ("fail a pool", 0),
        ("status pool", 3),
        ("status music", 0),
        ("scrub music", 0),
        ("remove a pool", 0),
        ("add a pool --force", 0),
        ("status pool", 0),
    ] {
        pool.ends(line, wanted);
    }
    for writer in writers {
        writer.end(None).ends(0);
    }
    // The same while another array stops being served.
    let writer = fio(&served, "pool");
    pool.does("stop music");
    writer.end(None).ends(0);
    served.stop();
    for line in ["status pool", "scrub pool", "status music", "scrub music"] {
        let run = pool.does(line);
        if line.starts_with("status") {
            run.prints(" clean,");
        }
    }
}

/// An export name that clients know is not given to another array, even after its own array was
/// renamed.
#[test]
fn a_served_export_name_is_not_given_to_another_array() {
    let pool = two();
    let served = serve_both(&pool, &[]);
    for (line, wanted) in [
        ("rename music jazz", 0),
        ("rename pool music", 1),
        ("status pool", 0),
        // Its own name is free for it.
        ("rename jazz music", 0),
        ("rename music jazz", 0),
        ("stop jazz", 0),
        ("rename pool music", 0),
    ] {
        let run = pool.ends(line, wanted);
        assert_eq!(run.status == 1, run.all().contains("find another array by"));
    }
    served
        .stop()
        .prints(["array 'jazz' is closed", "array 'music' is closed"]);
}

/// The status line of systemd and the metrics page name the arrays.
#[test]
fn systemd_and_metrics_name_each_array() {
    let pool = two();
    let systemd = Systemd::new(&pool);
    let mut command = crate::program_in(pool.folder());
    systemd.hears(&mut command);
    let what = ["pool", "music", "--metrics", "0"];
    let mut served = serve_by(&pool, command, SOCKET, &what, POOL_SERVED);
    let at = |name: &str| pool.plain(&pool.uri_at(name, "socket"));
    assert_eq!(
        systemd.heard(),
        format!(
            "READY=1\nSTATUS=array 'pool': healthy, at {}; array 'music': healthy, at {}",
            at("pool"),
            at("music")
        )
    );
    pool.does("fail d music");
    let wanted = format!(
        "STATUS=array 'pool': healthy, at {}; array 'music': degraded: without member 0, at {}",
        at("pool"),
        at("music")
    );
    assert_eq!(systemd.heard(), wanted);
    let page = pool.plain(&fetch(&served.server.says("has metrics: http://")));
    for line in [
        "spindles_array_state{array=\"pool\",state=\"healthy\"} 1\n",
        "spindles_array_state{array=\"music\",state=\"healthy\"} 0\n",
        "spindles_server_clients{array=\"music\"} 0\n",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert_eq!(page.matches("spindles_build_info{").count(), 1, "{page}");
    pool.does("stop pool");
    let closed = "STATUS=array 'pool': closed; array 'music': degraded";
    assert!(systemd.heard().starts_with(closed));
    served.stop();
    assert_eq!(systemd.heard(), "STOPPING=1");
}

#[test]
fn conflicting_arrays_are_refused_as_a_whole() {
    let pool = two();
    make(&pool, &["f", "g", "h"]);
    pool.does("create lacking raid5(f,g,h)");
    for name in ["g", "h"] {
        pool.remove(name);
    }
    // An array of the same name, distinguished only by its devices.
    std::fs::create_dir(pool.path("other")).expect("a folder");
    make(&pool, &["other/a", "other/b"]);
    let words = ["create", "pool", "raid1(a,b)"];
    let mut namesake = pool.command_in(&pool.path("other"), &words);
    pool.run_command(&mut namesake).ends(0);
    let cases: [(&[&str], i32, &str); 7] = [
        (
            &["a", "b", "c", "other/a", "other/b"],
            2,
            "two of these are called 'pool'",
        ),
        (&["pool", "lacking"], 1, "lacking"),
        (&["mem:8M", "mem:8M"], 2, "two of these are called 'mem:8M'"),
        (
            &["pool", "d", "e", "--control", "x"],
            2,
            "--control is a socket for commands on one array",
        ),
        (
            &["pool", "music", "--fuse", "x"],
            2,
            "give it once for each of the 2",
        ),
        (&["pool", "d", "raid1(a,b)"], 2, "use spindles create"),
        (
            &["pool", "mem:8M", "--checksum", "none"],
            2,
            "is for a fresh array",
        ),
    ];
    for (what, code, error) in cases {
        pool.run_words(&[&["serve", "--nbd", "unix:socket"], what].concat())
            .ends(code)
            .warns(error);
        assert!(
            !pool.path("socket").exists() && !pool.path("x").exists(),
            "{what:?}"
        );
        pool.does("status pool").prints(" clean,");
    }
    // A refused array has not changed, nor have the others: 'pool' would lack a member.
    for gone in ["c", "e"] {
        pool.remove(gone);
    }
    let names = ["a", "b", "d", "other/a", "other/b"];
    let before = names.map(|name| pool.read(name));
    for (what, error) in [
        (["a", "b", "d"].as_slice(), "array 'music' lacks member 1"),
        (&["a", "b", "other/a", "other/b"], "two of these are called"),
        (&["a", "b", "mem:1"], "mem:1"),
    ] {
        pool.run_words(&[&["serve", "--nbd", "unix:socket"], what].concat())
            .refused()
            .warns(error);
        let after = names.map(|name| pool.read(name));
        assert!(before == after, "{what:?} changed something");
    }
}

/// Refused because another process has the other array, or a device of it: no array has changed.
fn is_refused_as_busy(pool: &World, other: &str, busy: &str) {
    let names = ["a", "b", "c", "d", "e"];
    let contents = || names.map(|name| pool.read(name));
    let before = contents();
    pool.run_words(&["serve", "pool", other, "--nbd", "unix:other"])
        .ends(1)
        .warns(format!("{busy} is in use by"));
    assert!(before == contents(), "something changed");
    assert!(!pool.path("other").exists());
    // It was not even opened and closed.
    let status = pool.run("status pool");
    status.prints("clean, generation 1\n");
}

#[test]
fn serve_refuses_all_arrays_if_another_server_has_one() {
    let pool = two();
    let other = serve_what(&pool, &["music"], "array 'music' is served: nbd");
    is_refused_as_busy(&pool, "music", "d");
    other.stop();
    serve_both(&pool, &[]).stop();
}

/// Like a mounted device: opened exclusively.
#[test]
fn serve_refuses_all_arrays_if_a_device_is_busy() {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    make(&pool, &["d", "e"]);
    pool.does("create held raid1(d,e)");
    let test = "serve_refuses_all_arrays_if_a_device_is_busy";
    let device = match Loop::with(&pool.path("d"), &[]) {
        Ok(device) => device,
        Err(reason) => return println!("SKIPPED: {test}: {reason}"),
    };
    let holder = serve_what(&pool, &[&device.0, "--as-is"], "is served as it is");
    is_refused_as_busy(&pool, "held", "/d");
    holder.stop();
    drop(device);
    serve_what(&pool, &["pool", "held"], POOL_SERVED).stop();
}

/// After a growth new clients get the new size of the export.
#[test]
fn new_clients_see_a_growth() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = array("raid5", "a,b,c", 40 * MIB);
    pool.make("d", 40 << 20);
    let served = serve_what(&pool, &["pool"], POOL_SERVED);
    let size = || -> u64 {
        let output = served.run("nbdinfo --size @").out;
        output.trim().parse().expect("a number")
    };
    let before = size();
    pool.does("grow pool --add d");
    assert!(size() * 2 > before * 3 - (2 << 20), "{before}");
    served.stop();
}

/// `grow` rejects a device whose underlying device is in use: the array would lose the new member.
#[test]
fn grow_refuses_a_busy_device() {
    let pool = array("raid5", "a,b,c", 40 * MIB);
    pool.make("d", 40 << 20);
    let device = match Loop::with(&pool.path("d"), &[]) {
        Ok(device) => device,
        Err(reason) => return println!("SKIPPED: grow_refuses_a_busy_device: {reason}"),
    };
    // Like a mounted file system.
    let held = File::options()
        .read(true)
        .custom_flags(O_EXCL)
        .open(&device.0);
    let held = held.expect("it is unlocked");
    let refused = pool.run("grow pool --add d --force").refused();
    refused.warns("d is in use by");
    pool.does("status pool").prints("clean, generation 1\n");
    drop(held);
}

#[test]
fn a_device_given_twice_is_refused() {
    let pool = two();
    std::os::unix::fs::symlink("a", pool.path("link")).expect("a link");
    for (other, error) in [
        ("a", "a is given twice"),
        ("./link", "a and ./link are the same device"),
    ] {
        let line = format!("serve a {other} --as-is --read-only --nbd unix:socket");
        let refused = pool.ends(&line, 2).warns(error);
        refused.warns_no("waiting");
    }
}

#[test]
fn devices_are_grouped_by_their_arrays() {
    let pool = two();
    // In any order; an array named twice is one export.
    let what = ["d", "pool", "e", "a", "mem:8M"];
    let mut served = serve_what(&pool, &what, "array 'music' is served: nbd");
    for export in ["array 'pool'", "mem:8M is served"] {
        served.server.says(export);
    }
    served.stop();
}

/// One spare for several arrays of a server: the first array that needs it takes it, and the others
/// lose it.
#[test]
fn a_shared_spare_is_taken_once() {
    for shared in [
        &["spare add s --shared"][..],
        &["spare add s --array pool", "spare add s --array music"],
    ] {
        let pool = two();
        make(&pool, &["s", "t", "log"]);
        for line in shared {
            pool.does(line);
        }
        // A spare that is not shared is found automatically.
        let more = if shared.len() == 1 { &["s"][..] } else { &[] };
        let served = serve_both(&pool, more);
        for array in ["pool", "music"] {
            pool.does(&format!("status {array}")).prints("  spare: ");
        }
        pool.does("fail e music")
            .warns("s, a spare, takes its place");
        pool.until("the loss of the spare", |pool| {
            !pool.does("status pool").out.contains("  spare: ")
        });
        pool.does("fail a pool");
        pool.ends("status pool", 3).warns("when it is added again");
        // Commands that reopen an array do without it too.
        pool.does("journal add log --array pool");
        // An array that is still being filled survives no further loss.
        pool.until("the filled spare", |pool| {
            pool.run("status music").status == 0
        });
        pool.does("stop pool music");
        served.stop_has_come();
        // The array opened first takes it at once.
        pool.does("spare add t --shared");
        pool.does("fail d music");
        let served = serve_what(&pool, &["pool", "music", "t", "--degraded"], POOL_SERVED);
        pool.until("the spare", |pool| {
            pool.run("status pool").out.contains("/t, active")
        });
        pool.ends("status music", 3);
        pool.does("stop pool music");
        served.stop_has_come();
    }
}

/// A device that one array released becomes a member of the other: the first no longer counts on
/// it.
#[test]
fn a_device_moves_from_one_array_to_another() {
    let pool = two();
    pool.make("f", 32 << 20);
    let served = serve_both(&pool, &[]);
    for line in [
        "fail c pool",
        "remove c pool",
        "rebuild pool --onto f",
        "wipe c --force",
        "fail e music",
        "rebuild music --onto c",
    ] {
        pool.does(line);
    }
    pool.does("status music").prints("/c, active");
    pool.does("status pool").says_no("left out");
    pool.does("grow pool --size max");
    pool.does("rename pool ocean");
    pool.does("stop ocean music");
    served.stop_has_come();
}

/// All members are replaced, and the array is reopened so often that no record mentions the first
/// ones any longer: the server does not count on them.
#[test]
fn replaced_devices_are_forgotten() {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    for name in ["d", "e", "f"] {
        pool.make(name, 32 << 20);
    }
    let served = serve_what(&pool, &["pool"], POOL_SERVED);
    for (old, new) in [("a", "d"), ("b", "e"), ("c", "f")] {
        pool.does(&format!("fail {old} pool"));
        pool.does(&format!("rebuild pool --onto {new}"));
    }
    for _ in 0..4 {
        pool.does("set pool --degraded-writes allow");
        pool.does("set pool --degraded-writes ask");
    }
    pool.does("grow pool --size max");
    pool.does("rename pool ocean");
    pool.does("stop ocean");
    served.stop_has_come();
}

//! The sandbox of `spindles serve`: the remaining rights of the server, and what commands on its
//! array need from the helper.

use super::{MIB, Served, array, serve, serve_what, serve_with};
use crate::loop_devices::Loop;
use crate::world::{World, has, pattern, until};
use std::fs;
use std::path::PathBuf;

/// The kernel's status of each thread of a server.
fn threads(served: &Served<'_>) -> Vec<String> {
    let id = served.server.id();
    let folder = PathBuf::from(format!("/proc/{id}/task"));
    let threads = fs::read_dir(folder).expect("it runs").flatten();
    threads
        .map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default())
        .filter(|status| !status.is_empty())
        .collect()
}

fn is(status: &str, name: &str, value: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.is_some_and(|line| line.trim_start_matches(':').trim() == value)
}

/// Returns true if the helper of a server runs.
fn helped(pool: &World) -> bool {
    let folder = pool.folder().to_str().expect("UTF-8");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
        .any(|line| line.contains("\0outside\0") && line.contains(folder))
}

#[test]
fn all_threads_drop_unneeded_privileges() {
    let pool = array("raid1", "a,b", 8 * MIB);
    for io in ["io_uring", "threads"] {
        let served = serve_with(&pool, io, &[]);
        for status in threads(&served) {
            let confined = is(&status, "NoNewPrivs", "1")
                && is(&status, "Seccomp", "2")
                && is(&status, "CapEff", "0000000000000000")
                && is(&status, "CapPrm", "0000000000000000");
            assert!(confined, "{io}: {status}");
        }
        // The helper may still be starting.
        until("the helper", || helped(&pool));
        served.kill();
        until("the end of the helper", || !helped(&pool));
    }
    let served = serve(&pool, &["--no-sandbox"]);
    assert!(
        threads(&served)
            .iter()
            .all(|status| is(status, "Seccomp", "0"))
    );
    served.stop();
}

#[test]
fn commands_on_a_served_array_can_open_devices() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    for io in ["io_uring", "threads"] {
        let pool = array("raid5", "a,b,c", 8 * MIB);
        let elsewhere = World::new("new", 9 << 20);
        elsewhere.put("letters", "x".repeat(9 * MIB));
        let served = serve_with(&pool, io, &[]);
        pool.put("in", pattern(8 * MIB, 5));
        served.run("nbdcopy --flush %/in @");
        let (new, letters) = (elsewhere.full("new"), elsewhere.full("letters"));
        for line in [
            "fail a pool",
            "remove a pool",
            // A file next to a member, and a new file anywhere.
            "add a pool --force",
            &format!("spare add {new} --array pool"),
            "scrub pool",
            "status pool",
            "rename pool lake",
        ] {
            pool.does(line);
        }
        pool.ends(&format!("spare add {letters} --array lake --force"), 1);
        served.run("nbdcopy @ %/out");
        assert!(pool.read("out").starts_with(&pattern(8 * MIB, 5)));
        served.stop();
    }
}

/// The folder of a loop device is that of its file, and a wiped device works like a new one in any
/// folder.
#[test]
fn loop_devices_join_a_served_array() {
    let (pool, elsewhere) = (World::new("", 0), World::new("", 0));
    let mut devices = Vec::new();
    for path in [
        pool.path("a"),
        pool.path("b"),
        pool.path("c"),
        elsewhere.path("d"),
    ] {
        fs::write(&path, "x".repeat(9 * MIB)).expect("it is written");
        match Loop::new(&path, 512) {
            Ok(device) => devices.push(device),
            Err(reason) => {
                return println!("SKIPPED loop_devices_join_a_served_array: {reason}");
            }
        }
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| devices[at].0.as_str());
    pool.does(&format!("create lake raid1({a},{b})"));
    pool.does(&format!("create other concat({d})"));
    pool.does(&format!("wipe {d} --force"));
    let served = serve_what(&pool, &[a, b], "array 'lake' is served: nbd");
    for line in [
        format!("fail {a} lake"),
        format!("remove {a} lake"),
        format!("wipe {a} --force"),
        format!("rebuild lake --onto {a}"),
        format!("fail {b} lake"),
        format!("rebuild lake --onto {c} --force"),
        format!("spare add {d} --array lake"),
    ] {
        pool.does(&line);
    }
    served.stop();
}

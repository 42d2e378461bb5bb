//! The sandbox of `spindles serve`: the remaining rights of the server, and what commands on its
//! array need from the helper.

use super::{MIB, Pool, Served, has, pattern};
use crate::loop_devices::Loop;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The kernel's status of each thread of a server.
fn threads(served: &Served<'_>) -> Vec<String> {
    let id = served.server.as_ref().expect("it runs").id();
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
fn helped(pool: &Pool) -> bool {
    let folder = pool.0.path().canonicalize().expect("it is there");
    let folder = folder.to_str().expect("UTF-8");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
        .any(|line| line.contains("\0outside\0") && line.contains(folder))
}

fn until(condition: impl Fn() -> bool, otherwise: &str) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(10), "{otherwise}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn all_threads_drop_unneeded_privileges() {
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    for io in ["io_uring", "threads"] {
        let served = pool.serve_with(io, &[]);
        for status in threads(&served) {
            let confined = is(&status, "NoNewPrivs", "1")
                && is(&status, "Seccomp", "2")
                && is(&status, "CapEff", "0000000000000000")
                && is(&status, "CapPrm", "0000000000000000");
            assert!(confined, "{io}: {status}");
        }
        // The helper may still be starting.
        until(|| helped(&pool), "there is no helper");
        served.kill();
        until(|| !helped(&pool), "the helper stays");
    }
    let served = pool.serve(&["--no-sandbox"]);
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
        let pool = Pool::new("raid5", "a,b,c", 8 * MIB);
        let elsewhere = tempfile::tempdir().expect("a folder");
        let new = elsewhere.path().join("new");
        let file = fs::File::create(&new).expect("a file");
        file.set_len(u64::try_from(9 * MIB).expect("64 bits"))
            .expect("its length");
        let letters = elsewhere.path().join("letters");
        fs::write(&letters, "x".repeat(9 * MIB)).expect("it is written");
        let served = pool.serve_with(io, &[]);
        fs::write(pool.path("in"), pattern(8 * MIB, 5)).expect("it is written");
        served.run("nbdcopy --flush %/in @");
        let new = new.to_str().expect("UTF-8");
        let letters = letters.to_str().expect("UTF-8");
        for line in [
            "fail a pool",
            "remove a pool",
            // A file next to a member, and a new file anywhere.
            "add a pool --force",
            &format!("spare add {new} --array pool"),
            "scrub pool",
            "status pool",
            "rename pool other",
        ] {
            let run = pool.spindles(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(run.status.code(), Some(0), "{io}: {line}: {run:?}");
        }
        let run = pool.spindles(&["spare", "add", letters, "--array", "other", "--force"]);
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        served.run("nbdcopy @ %/out");
        assert!(super::read(&pool.path("out")).starts_with(&pattern(8 * MIB, 5)));
        served.stop();
    }
}

/// The folder of a loop device is that of its file, and a wiped device works like a new one in any
/// folder.
#[test]
fn loop_devices_join_a_served_array() {
    let (pool, elsewhere) = (
        Pool(tempfile::tempdir().expect("a folder")),
        tempfile::tempdir().expect("a folder"),
    );
    let mut devices = Vec::new();
    for path in [
        pool.path("a"),
        pool.path("b"),
        pool.path("c"),
        elsewhere.path().join("d"),
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
    let does = |line: &str| {
        let run = pool.spindles(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run.status.code(), Some(0), "{line}: {run:?}");
    };
    does(&format!("create looped raid1({a},{b})"));
    does(&format!("create other concat({d})"));
    does(&format!("wipe {d} --force"));
    let served = pool.serve_what(&[a, b], "array 'looped' is served: nbd");
    for line in [
        format!("fail {a} looped"),
        format!("remove {a} looped"),
        format!("wipe {a} --force"),
        format!("rebuild looped --onto {a}"),
        format!("fail {b} looped"),
        format!("rebuild looped --onto {c} --force"),
        format!("spare add {d} --array looped"),
    ] {
        does(&line);
    }
    served.stop();
}

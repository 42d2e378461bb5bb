//! The shape *disk*: disks that lie, below the real program.
//!
//! A FUSE file system whose files are disks. Each has its own volatile cache, answers out of order,
//! tears writes at power loss, and fails, stalls or hangs as drawn. A client, a separate process,
//! opens an array on them through the library. It writes and reads at random, and its ledger has a
//! log. At some request of a disk it is killed; if the power is lost, the caches are lost too. Then
//! other clients read the array back, with as many members missing as it survives.
//!
//! ```text
//!   session (server of the disks)          client (a process, killed)
//!   ─────────────────────────────          ──────────────────────────
//!   shape: which array                     assemble, submit, poll ─▶ log
//!   machine: disks, faults, power  ◀─FUSE─ io_uring or threads
//!   medium: cache, tearing
//!   session: lives, crashes, checks ─────▶ read back with members away ─▶ ledger judges
//! ```
//!
//! `SPINDLES_DISK_SESSIONS` sets the number of sessions, `SPINDLES_DISK_FIRST` the first seed;
//! `SPINDLES_DISK_SEED=7` runs one. Sessions that find a failure are kept in `target/tmp/disk`.

#![allow(clippy::exit, clippy::print_stderr, reason = "a client is a process")]

mod client;
mod image;
mod job;
mod machine;
mod medium;
mod mount;
mod session;
mod shape;

use crate::torture::{number, seeds};
use medium::Lie;
use session::{Counts, Failure, Harness, Sessions};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// For the test command; the fleet runs thousands.
const SESSIONS: u64 = 200;
/// A lie must be found in this many sessions.
const SESSIONS_OF_A_LIE: u64 = 100;
/// The test that is the client, and the variable that has its job.
const CLIENT: &str = "torture::disk::client_process";
const JOB: &str = "SPINDLES_DISK_JOB";

/// Runs the client if this program was started as one.
#[test]
fn client_process() {
    if let Ok(job) = std::env::var(JOB) {
        let job = serde_json::from_str(&job).expect("a job");
        std::process::exit(client::serve(&job).into());
    }
}

fn harness(test: &str) -> Option<Harness> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk");
    match Harness::new(&kept) {
        Ok(harness) => Some(harness),
        Err(why) => {
            println!("SKIPPED {test}: {}", why.0);
            None
        }
    }
}

fn run(harness: &Harness, sessions: &Sessions) -> (Counts, Vec<Failure>) {
    let failures = Mutex::new(Vec::new());
    let found = |failure: Failure| {
        let mut failures = failures.lock().expect("no thread panics with it");
        failures.push(failure);
        // A few failures are enough; of a lie, one.
        failures.len() < 5 && sessions.lie == Lie::None
    };
    let counts = harness.run(sessions, &found);
    (
        counts,
        failures.into_inner().expect("no thread panics with it"),
    )
}

#[test]
fn a_crash_leaves_the_promised_contents() {
    let Some(harness) = harness("a_crash_leaves_the_promised_contents") else {
        return;
    };
    let started = Instant::now();
    let count = number("SPINDLES_DISK_SESSIONS").unwrap_or(SESSIONS);
    let sessions = Sessions {
        seeds: seeds("SPINDLES_DISK_SEED", "SPINDLES_DISK_FIRST", count),
        at_once: 3,
        until: None,
        lie: Lie::None,
    };
    let (counts, failures) = run(&harness, &sessions);
    println!(
        "sessions {:?}, tearing at {:?}, in {:?}: {counts:?}",
        sessions.seeds,
        harness.tears(),
        started.elapsed()
    );
    let words: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", words.join("\n\n"));
    if sessions.seeds != (0..SESSIONS) {
        return;
    }
    // Check that the sessions did real work.
    assert!(counts["power"] > 100 && counts["process"] > 50 && counts["degraded"] > 300);
    assert!(counts["durable"] > 100 && counts["flushes"] > 100 && counts["faults"] > 50);
    assert!(counts["at_once"] > 4, "disks have several requests at once");
}

/// Each kind of lie is found, even if all else is right.
#[test]
fn a_flush_or_fua_without_effect_is_detected() {
    let Some(harness) = harness("a_flush_or_fua_without_effect_is_detected") else {
        return;
    };
    let first = number("SPINDLES_DISK_FIRST").unwrap_or(0);
    for lie in [Lie::Flush, Lie::Fua, Lie::Both] {
        let sessions = Sessions {
            seeds: first..first + SESSIONS_OF_A_LIE,
            at_once: 3,
            until: Some(Instant::now() + Duration::from_mins(2)),
            lie,
        };
        let (counts, failures) = run(&harness, &sessions);
        println!("{lie:?}: found in {} sessions", counts["sessions"]);
        assert!(!failures.is_empty(), "{lie:?} is not found");
    }
}

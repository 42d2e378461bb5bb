//! Sessions on disks with random faults find nothing; with disks whose flushes or FUA do nothing,
//! they must find a failure.

#![allow(clippy::print_stdout, reason = "the figures, and skipped tests")]

use spindles_disk::{Counts, Failure, Harness, Lie, Sessions};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// For the test command; the fleet runs thousands.
const SESSIONS: u64 = 200;
/// A lie must be found in this many sessions.
const SESSIONS_OF_A_LIE: u64 = 100;

fn harness(test: &str) -> Option<Harness> {
    let client = Path::new(env!("CARGO_BIN_EXE_spindles-disk"));
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk");
    match Harness::new(client, &kept) {
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
    let counts = sessions.run(harness, &found);
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
    let sessions = Sessions {
        seeds: 0..SESSIONS,
        at_once: 3,
        until: None,
        lie: Lie::None,
    };
    let (counts, failures) = run(&harness, &sessions);
    let seeds: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
    println!(
        "disks tearing at {:?}: {}",
        harness.tears(),
        counts.json(&seeds, started.elapsed())
    );
    let words: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", words.join("\n\n"));
    // Check that the sessions did real work.
    assert!(counts.power > 100 && counts.process > 50 && counts.degraded > 300);
    assert!(counts.durable > 100 && counts.flushes > 100 && counts.faults > 50);
    assert!(counts.at_once > 4, "disks have several requests at once");
}

/// Each kind of lie is found, even if all else is right.
#[test]
fn a_flush_or_fua_without_effect_is_detected() {
    let Some(harness) = harness("a_flush_or_fua_without_effect_is_detected") else {
        return;
    };
    for lie in [Lie::Flush, Lie::Fua, Lie::Both] {
        let sessions = Sessions {
            seeds: 0..SESSIONS_OF_A_LIE,
            at_once: 3,
            until: Some(Instant::now() + Duration::from_mins(2)),
            lie,
        };
        let (counts, failures) = run(&harness, &sessions);
        println!("{lie:?}: found in {} sessions", counts.sessions);
        assert!(!failures.is_empty(), "{lie:?} is not found");
    }
}

//! Arrays with a stage: all promises are kept in each run.

use super::runs::fixed;
use spindles_sim::{Options, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs seeds of arrays with a stage, as `words` say. `SPINDLES_STAGED_SEEDS` asks for others.
fn check(words: &str, seeds: u64) {
    let asked = std::env::var("SPINDLES_STAGED_SEEDS").ok();
    let seeds = asked.map_or(1..seeds, |asked| {
        let (first, end) = asked.split_once("..").expect("a range");
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    let fixed = fixed(&format!("staged {words}"));
    let mut found = Vec::new();
    for seed in seeds {
        let options = Options::swarm(seed, &fixed);
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&options, false)));
        match outcome.map(|outcome| outcome.failure) {
            Ok(None) => {}
            Ok(Some(failure)) => found.push(format!("seed {seed}: {}: {failure}", options.tree)),
            Err(_) => found.push(format!("seed {seed}: {} panicked", options.tree)),
        }
    }
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_stage_keeps_its_promises_without_faults() {
    check("calm raid5", 60);
    check("calm raid6", 60);
}

#[test]
fn a_stage_keeps_its_promises() {
    check("raid5", 60);
    check("raid6", 60);
}

//! The shape *administrator*: random lives, drawn from a seed. Each life creates an array of any
//! level on real files of any size. The array is written, loses members and gets them back, and is
//! rebuilt, grown and scrubbed. Members are replaced, blocks are corrupted, and commands are killed
//! in the middle. The array also gets spares and a separate journal device. After each step the
//! whole array is compared with the ledger, and the output of `status` with a model.
//!
//! `SPINDLES_STORIES=5000 cargo test -p spindles --test program torture::administrator` runs more
//! lives, `SPINDLES_STORY_SEED=7` prints the whole story of one.

mod life;
mod shape;
mod steps;

use crate::torture::{for_seeds, number, seeds};
use life::Life;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

const LIVES: u64 = 100;

/// Runs one life. Returns how often each step was taken, or the failure.
fn live(seed: u64) -> Result<BTreeMap<&'static str, u32>, String> {
    let mut life = Life::begin(seed);
    let ended = catch_unwind(AssertUnwindSafe(|| life.live()));
    match ended {
        Ok(()) => Ok(life.taken),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.unwrap_or_else(|| "a panic of the test itself".to_owned());
            Err(format!("seed {seed}: {text}\n{}", life.story.join("\n")))
        }
    }
}

#[test]
fn lives() {
    if let Some(seed) = number("SPINDLES_STORY_SEED") {
        let mut life = Life::begin(seed);
        let ended = catch_unwind(AssertUnwindSafe(|| life.live()));
        println!("{}", life.story.join("\n"));
        assert!(ended.is_ok(), "seed {seed}");
        return;
    }
    let lives = number("SPINDLES_STORIES").unwrap_or(LIVES);
    let seeds = seeds("SPINDLES_STORY_SEED", "SPINDLES_STORY_FIRST", lives);
    let failures = Mutex::new(Vec::new());
    let taken = Mutex::new(BTreeMap::<&str, u32>::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for_seeds(seeds.clone(), threads, |seed| {
        match live(seed) {
            Ok(steps) => {
                let mut taken = taken.lock().expect("no panic holds it");
                for (step, count) in steps {
                    *taken.entry(step).or_default() += count;
                }
            }
            Err(failure) => failures.lock().expect("no panic holds it").push(failure),
        }
        true
    });
    let taken = taken.into_inner().expect("no panic holds it");
    println!("lives of seeds {seeds:?}: {taken:?}");
    let failures = failures.into_inner().expect("no panic holds it");
    for failure in &failures {
        println!("\n{failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {lives} lives failed",
        failures.len()
    );
    if lives >= LIVES {
        for step in &steps::STEPS {
            assert!(
                taken.contains_key(step.name),
                "no life took the step '{}'",
                step.name
            );
        }
    }
}

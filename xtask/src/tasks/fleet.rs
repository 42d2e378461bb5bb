//! `cargo xtask fleet`: what takes longer than the test command may.

use super::Task;
use crate::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) static TASK: Task = Task {
    name: "fleet",
    arguments: "swarm [--hours N]",
    about: "simulates new random seeds for hours (1 by default), each printed when it fails",
    run,
};

/// Seeds of one call of the simulator: a few minutes of work.
const SEEDS_PER_CALL: u64 = 20_000;

fn run(arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let hours: f64 = match arguments[..] {
        ["swarm"] => 1.0,
        ["swarm", "--hours", hours] => hours
            .parse()
            .ok()
            .filter(|hours: &f64| hours.is_finite() && *hours > 0.0)
            .ok_or_else(|| format!("--hours {hours}: give a number above 0"))?,
        _ => return Err("usage: cargo xtask fleet swarm [--hours N]".to_owned()),
    };
    process::cargo(&["build", "--release", "--package", "spindles"])?;
    let ends = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = now.map_or(0, |since| since.as_secs()) << 20;
    let mut seeds = 0_u64;
    while Instant::now() < ends {
        let range = format!("{seed}..{}", seed + SEEDS_PER_CALL);
        process::run("target/release/spindles", &["sim", "--seeds", &range])?;
        seed += SEEDS_PER_CALL;
        seeds += SEEDS_PER_CALL;
    }
    println!("fleet: {seeds} seeds, none failed");
    Ok(())
}

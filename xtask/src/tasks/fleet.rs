//! `cargo xtask fleet`: jobs that take longer than the test command may. Each job appends its
//! results to a log, one line of JSON each.

use super::guests::{self, Guest};
use super::task::Task;
use crate::process::{self, Finished};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) static TASK: Task = Task {
    name: "fleet",
    arguments: "swarm|enumerate|disk|stories|kill9|soak|guest-uml|guest-tcg|systemd [--hours N]",
    about: "simulates new random seeds, enumerates three requests on small arrays, kills clients \
        on disks that lie, lives administrators' lives, kills servers, or keeps them short of \
        memory, for hours (1 by default; of kill9 200 rounds, of soak ten minutes); or serves \
        arrays to a kernel of its own, once: to one that is a process, or in an emulated machine; \
        or boots a systemd with our package and units; logs in target/fleet",
    run,
};

/// The seeds of one call of the simulator: a few minutes of work.
const SEEDS_PER_CALL: u64 = 20_000;

const LOGS: &str = "target/fleet";

fn run(arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (job, hours): (&str, f64) = match arguments[..] {
        // The jobs `kill9` and `soak` finish in one call.
        [job @ ("kill9" | "soak")] => (job, 0.0),
        ["guest-uml"] => return guest("guest-uml", guests::uml),
        ["guest-tcg"] => return guest("guest-tcg", guests::tcg),
        ["systemd"] => return guest("systemd", guests::systemd),
        [job] => (job, 1.0),
        [job, "--hours", hours] => {
            let number = hours.parse().ok();
            let number = number.filter(|hours: &f64| hours.is_finite() && *hours > 0.0);
            let explain = || format!("--hours {hours}: give a number above 0");
            (job, number.ok_or_else(explain)?)
        }
        _ => ("", 1.0),
    };
    match job {
        "swarm" => swarm(hours),
        "enumerate" => enumerate(hours),
        "disk" => DISK.run(hours),
        "stories" => STORIES.run(hours),
        "kill9" => KILL9.run(hours),
        "soak" => SOAK.run(hours),
        _ => Err(format!("usage: cargo xtask fleet {}", TASK.arguments)),
    }
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// A log of JSON lines. The commit is added to each line.
struct Log {
    job: &'static str,
    commit: String,
    path: String,
}

impl Log {
    fn of(job: &'static str) -> Result<Self, String> {
        let commit = process::capture("git", &["rev-parse", "HEAD"])?;
        std::fs::create_dir_all(LOGS).map_err(|error| format!("{LOGS}: {error}"))?;
        Ok(Self {
            job,
            commit: commit.output.trim().to_owned(),
            path: format!("{LOGS}/{job}.jsonl"),
        })
    }

    fn add(&self, mut entry: Value) -> Result<(), String> {
        entry["job"] = json!(self.job);
        entry["at_s"] = json!(now_s());
        entry["commit"] = json!(self.commit);
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).append(true).open(&self.path);
        file.and_then(|mut file| writeln!(file, "{entry}"))
            .map_err(|error| format!("{}: {error}", self.path))
    }
}

/// Returns the JSON objects among the lines that a program printed.
fn objects(finished: &Finished) -> Vec<Value> {
    let mut rest = finished.output.as_str();
    let mut objects = Vec::new();
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let end = match values.next() {
            Some(Ok(value)) if rest.starts_with('{') => {
                objects.push(value);
                values.byte_offset()
            }
            _ => 0,
        };
        let line_end = rest[end..].find('\n').map_or(rest.len(), |at| end + at + 1);
        rest = &rest[line_end..];
    }
    objects
}

/// Runs seeds that were never run before. A failing seed is printed and logged, and the others
/// continue.
fn swarm(hours: f64) -> Result<(), String> {
    process::cargo(&["build", "--release", "--package", "spindles"])?;
    let ends = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let log = Log::of("swarm")?;
    let mut seed = now_s() << 20;
    let (mut seeds, mut failures) = (0_u64, 0_u64);
    while Instant::now() < ends {
        let range = format!("{seed}..{}", seed + SEEDS_PER_CALL);
        let arguments = ["--json", "sim", "--seeds", &range];
        let finished = process::capture("target/release/spindles", &arguments)?;
        let entry = objects(&finished).into_iter().next();
        if !finished.good {
            failures += 1;
            println!("{}", finished.output);
        }
        // If there is no value, the program panicked, and the panic message names the seed.
        log.add(entry.unwrap_or_else(|| json!({"first": seed, "output": finished.output})))?;
        seed += SEEDS_PER_CALL;
        seeds += SEEDS_PER_CALL;
        println!("fleet: {seeds} seeds so far, {failures} calls with failures");
    }
    match failures {
        0 => Ok(()),
        _ => Err(format!(
            "failures among {seeds} seeds: see {LOGS}/swarm.jsonl"
        )),
    }
}

/// A shape of torture that runs more seeds here than in the test command.
struct LongTest {
    job: &'static str,
    /// The module in `crates/spindles/tests/torture`.
    shape: &'static str,
    /// The profile for cargo: a test that mostly waits for processes is as fast without
    /// optimisation.
    profile: &'static [&'static str],
    /// The environment variables for the first seed and the number of seeds.
    first: &'static str,
    count: &'static str,
    /// The unit of its work, for messages.
    what: &'static str,
    /// The seeds of one call: a few minutes of work.
    per_call: u64,
}

const DISK: LongTest = LongTest {
    job: "disk",
    shape: "disk",
    profile: &["--release"],
    first: "SPINDLES_DISK_FIRST",
    count: "SPINDLES_DISK_SESSIONS",
    what: "sessions",
    per_call: 500,
};

const STORIES: LongTest = LongTest {
    job: "stories",
    shape: "administrator",
    profile: &["--release"],
    first: "SPINDLES_STORY_FIRST",
    count: "SPINDLES_STORIES",
    what: "lives",
    per_call: 500,
};

const KILL9: LongTest = LongTest {
    job: "kill9",
    shape: "server",
    profile: &[],
    first: "SPINDLES_KILL_FIRST",
    count: "SPINDLES_KILL_ROUNDS",
    what: "rounds",
    per_call: 200,
};

const SOAK: LongTest = LongTest {
    job: "soak",
    shape: "memory",
    profile: &[],
    first: "SPINDLES_SOAK_FIRST",
    count: "SPINDLES_SOAK_SECONDS",
    what: "seconds",
    per_call: 600,
};

impl LongTest {
    /// Runs seeds that were never run before, in one call at least. The output of each call is
    /// logged, and printed if it fails.
    fn run(&self, hours: f64) -> Result<(), String> {
        let ends = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
        let log = Log::of(self.job)?;
        let what = self.what;
        let mut seed = now_s() << 20;
        let (mut done, mut failures) = (0_u64, 0_u64);
        loop {
            let (first, count) = (
                format!("{}={seed}", self.first),
                format!("{}={}", self.count, self.per_call),
            );
            let cargo = process::cargo_program();
            let module = format!("torture::{}::", self.shape);
            let arguments = [
                &[&first, &count, cargo.as_str(), "test", "--quiet"][..],
                self.profile,
                &["--package", "spindles", "--test", "program"],
                &["--", "--nocapture", &module],
            ];
            let finished = process::capture("env", &arguments.concat())?;
            let entry = json!({
                "first": seed,
                what: self.per_call,
                "good": finished.good,
                "output": finished.output,
            });
            if !finished.good {
                failures += 1;
                println!("{}", finished.output);
            }
            log.add(entry)?;
            seed += self.per_call;
            done += self.per_call;
            println!("fleet: {done} {what} so far, {failures} calls with failures");
            if Instant::now() >= ends {
                break;
            }
        }
        match failures {
            0 => Ok(()),
            _ => Err(format!(
                "failures among {done} {what}: see {LOGS}/{}.jsonl",
                self.job
            )),
        }
    }
}

/// Boots a guest, and prints and logs the output of its script.
fn guest(job: &'static str, boot: fn() -> Result<Guest, String>) -> Result<(), String> {
    let log = Log::of(job)?;
    let begun = Instant::now();
    let finished = match boot()? {
        Guest::Finished(finished) => finished,
        Guest::Skipped(reason) => {
            println!("SKIPPED {job}: {reason}");
            return Ok(());
        }
    };
    println!("{}", finished.output);
    log.add(json!({
        "good": finished.good,
        "seconds": begun.elapsed().as_secs(),
        "output": finished.output,
    }))?;
    if !finished.good {
        return Err(format!("something did not hold: see {LOGS}/{job}.jsonl"));
    }
    Ok(())
}

/// Enumerates two requests, then three, small scenarios first.
fn enumerate(hours: f64) -> Result<(), String> {
    let program = "target/release/examples/enumerate";
    let example = [
        "build",
        "--release",
        "--package",
        "spindles-sim",
        "--example",
        "enumerate",
    ];
    process::cargo(&example)?;
    let log = Log::of("enumerate")?;
    let started = Instant::now();
    let mut found = false;
    for requests in ["2", "3"] {
        let left = hours * 60.0 - started.elapsed().as_secs_f64() / 60.0;
        if left <= 0.0 {
            break;
        }
        // Use at most half of the time for two requests.
        let minutes = if requests == "2" { left / 2.0 } else { left };
        let minutes = minutes.to_string();
        let arguments = ["--requests", requests, "--minutes", &minutes];
        let finished = process::capture(program, &arguments)?;
        for mut entry in objects(&finished) {
            entry["requests"] = json!(requests);
            if entry["scenario"] == "all" {
                println!("fleet: {requests} requests: {entry}");
            }
            log.add(entry)?;
        }
        if !finished.good {
            found = true;
            println!("{}", finished.output);
        }
    }
    if found {
        return Err(format!("something was found: see {LOGS}/enumerate.jsonl"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_among_other_lines() {
        let finished = Finished {
            good: false,
            output: "seeds 0..9\n{\n  \"runs\": 9\n}\n[1]\n{\nspindles: seed 3 failed\n{}\n"
                .to_owned(),
        };
        assert_eq!(objects(&finished), [json!({"runs": 9}), json!({})]);
    }

    #[test]
    fn what_is_not_a_job_is_refused() {
        for wrong in [
            &["x"][..],
            &[],
            &["swarm", "--hours"],
            &["swarm", "--hours", "-1"],
        ] {
            let arguments: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            assert!(run(&arguments).is_err(), "{wrong:?}");
        }
    }
}

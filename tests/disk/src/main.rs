//! `spindles-disk`: runs sessions on disks that lie, as many as time allows, and serves as the
//! client that they kill.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command line"
)]

use spindles_disk::{Failure, Harness, Lie, Sessions, serve};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: spindles-disk sessions SEEDS [--minutes N] [--at-once N] [--lie flush|fua|both]
  SEEDS is FROM..TO or one seed; sessions that find something are kept in target/disk";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["client", job] => serve(job),
        ["sessions", seeds, ref options @ ..] => match sessions(seeds, options) {
            Ok(sessions) => run(&sessions),
            Err(why) => {
                eprintln!("{why}\n{USAGE}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn sessions(seeds: &str, options: &[&str]) -> Result<Sessions, String> {
    let number = |text: &str| {
        let number: Result<u64, _> = text.parse();
        number.map_err(|error| format!("{text}: {error}"))
    };
    let seeds = match seeds.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(seeds)?..number(seeds)? + 1,
    };
    let mut sessions = Sessions {
        seeds,
        at_once: std::thread::available_parallelism().map_or(2, usize::from) * 2,
        until: None,
        lie: Lie::None,
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().copied().unwrap_or_default();
        match *option {
            "--lie" => {
                sessions.lie = match value() {
                    "flush" => Lie::Flush,
                    "fua" => Lie::Fua,
                    "both" => Lie::Both,
                    other => return Err(format!("--lie {other}: flush, fua or both")),
                }
            }
            "--at-once" => sessions.at_once = usize::try_from(number(value())?).unwrap_or(1),
            "--minutes" => {
                let minutes: f64 = value().parse().map_err(|error| format!("{error}"))?;
                sessions.until = Some(Instant::now() + Duration::from_secs_f64(minutes * 60.0));
            }
            other => return Err(format!("there is no option {other}")),
        }
    }
    Ok(sessions)
}

fn run(sessions: &Sessions) -> ExitCode {
    let Ok(client) = std::env::current_exe() else {
        eprintln!("the program has no path");
        return ExitCode::FAILURE;
    };
    let harness = match Harness::new(&client, "target/disk".as_ref()) {
        Ok(harness) => harness,
        Err(why) => {
            eprintln!("{}", why.0);
            return ExitCode::FAILURE;
        }
    };
    let started = Instant::now();
    let failures: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let found = |failure: Failure| {
        println!("{failure}");
        if let Ok(mut failures) = failures.lock() {
            failures.push(failure.seed);
        }
        true
    };
    let counts = sessions.run(&harness, &found);
    let failures = failures.into_inner().unwrap_or_default();
    println!("{}", counts.json(&failures, started.elapsed()));
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

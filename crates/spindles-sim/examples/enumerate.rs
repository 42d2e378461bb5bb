//! Enumerates small arrays, the smallest first, within a time limit: see `docs/design/testing.md`.
//!
//! ```text
//! enumerate [--short] [--requests N] [--crashes N] [--share N] [--writes N] [--minutes N]
//!     [--only TEXT]
//! ```
//!
//! Prints a line of JSON for each scenario. The exit status is 1 if a scenario has findings.

#![allow(clippy::print_stdout, reason = "it is a command line")]

use spindles_sim::enumerate::{Bounds, Summary, explore, scenarios};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let (mut bounds, mut minutes, mut only) = (Bounds::LONG, f64::INFINITY, String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--short" {
            bounds = Bounds::SHORT;
            continue;
        }
        if name == "--list" {
            for scenario in scenarios(&bounds) {
                println!("{} {scenario}", scenario.member_writes());
            }
            return ExitCode::SUCCESS;
        }
        let value = arguments.next().expect("every option has a value");
        match name.as_str() {
            "--requests" => bounds.requests = value.parse().expect("a number"),
            "--minutes" => minutes = value.parse().expect("a number"),
            "--only" => only = value,
            "--crashes" => bounds.crashes = value.parse().expect("a number"),
            "--writes" => bounds.member_writes_max = value.parse().expect("a number"),
            "--share" => bounds.later_crash_share = value.parse().expect("a number"),
            _ => panic!("there is no option {name}"),
        }
    }
    let started = Instant::now();
    let mut total = Summary::default();
    for scenario in scenarios(&bounds) {
        if started.elapsed().as_secs_f64() >= minutes * 60.0 {
            break;
        }
        if scenario.to_string().contains(&only) {
            let before = Instant::now();
            let summary = explore(&scenario, &bounds);
            println!(
                "{}",
                to_json(&scenario.to_string(), &summary, before.elapsed())
            );
            total.add(summary);
        }
    }
    println!("{}", to_json("all", &total, started.elapsed()));
    ExitCode::from(u8::from(!total.findings.is_empty()))
}

fn to_json(scenario: &str, summary: &Summary, took: Duration) -> String {
    let findings: Vec<_> = summary
        .findings
        .iter()
        .map(|finding| format!("{:?}", finding.to_string()))
        .collect();
    format!(
        "{{\"scenario\":{scenario:?},\"seconds\":{:.3},\"scenarios\":{},\"moments\":{},\
         \"states\":{},\"openings\":{},\"old\":{},\"new\":{},\"errors\":{},\"refused\":{},\
         \"undecidable\":{},\"findings\":[{}]}}",
        took.as_secs_f64(),
        summary.scenarios,
        summary.moments,
        summary.states,
        summary.openings,
        summary.old,
        summary.new,
        summary.errors_unlogged + summary.errors_without_log + summary.errors_again,
        summary.refused,
        summary.undecidable,
        findings.join(",")
    )
}

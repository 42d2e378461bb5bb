//! The steps of `cargo xtask test`. Runs some or all steps.

use crate::outcome::Outcome;
use crate::process::{self, Finished};
use crate::repo::Repo;
use crate::rules;
use crate::tasks::{deb, instructions};
use crate::test_binaries;
use std::fmt::Write as _;
use std::time::Instant;

/// One step.
pub(crate) struct Step {
    /// The name, as an argument of `cargo xtask ci`.
    pub(crate) name: &'static str,
    /// A one-line description of the check.
    pub(crate) about: &'static str,
    run: fn() -> Outcome,
}

/// All steps in execution order. The steps after `tests` run at the same time as it.
pub(crate) static STEPS: &[&Step] = &[
    &Step {
        name: "fmt",
        about: "rustfmt has nothing to change",
        run: fmt,
    },
    &Step {
        name: "tests",
        about: "all tests of all crates",
        run: tests,
    },
    &Step {
        name: "tidy",
        about: "the rules that no compiler holds",
        run: tidy,
    },
    &Step {
        name: "clippy",
        about: "no lint fires, in any target",
        run: clippy,
    },
    &Step {
        name: "deb",
        about: "the Debian package builds, installs and runs, and lintian finds no error",
        run: deb,
    },
    &Step {
        name: "doc",
        about: "the documentation builds without a warning",
        run: doc,
    },
    &Step {
        name: "no_std",
        about: "pure crates build where there is no std",
        run: no_std,
    },
    &Step {
        name: "instructions",
        about: "instruction counts are as kept",
        run: instructions,
    },
    &Step {
        name: "deny",
        about: "cargo-deny finds nothing, where it is installed",
        run: deny,
    },
    &Step {
        name: "typos",
        about: "typos finds nothing, where it is installed",
        run: typos,
    },
];

/// The tests of `cargo xtask check`. For a part of the workspace cargo would choose other features
/// of the engine, and build it twice: once for this step, once for `tests`.
pub(crate) static PURE_TESTS: Step = Step {
    name: "pure tests",
    about: "the unit tests of crates without I/O",
    run: || {
        let features = "--features=spindles-engine/canary";
        let mut arguments = vec!["--quiet", "--lib", "--bins", features];
        for package in NO_STD.iter().chain(&["spindles-measure", "xtask"]) {
            arguments.extend(["--package", package]);
        }
        cargo_test(&arguments)
    },
};

/// Programs that tests need, each with the Debian package to install if the program is missing.
const TOOLS: &[(&str, &str)] = &[
    ("valgrind", "valgrind"),
    ("chromium", "chromium"),
    ("groff", "groff"),
    ("lintian", "lintian"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdsh", "python3-libnbd"),
    ("qemu-img", "qemu-utils"),
    ("openssl", "openssl"),
    ("nbdkit", "nbdkit"),
    ("fio", "fio"),
    ("tc", "iproute2"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("bon_csv2html", "bonnie++"),
    ("systemd-analyze", "systemd"),
    ("fusermount3", "fuse3"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
];

/// Crates that must build without std.
const NO_STD: &[&str] = &[
    "spindles-block",
    "spindles-parity",
    "spindles-layout",
    "spindles-dialects",
    "spindles-format",
    "spindles-engine",
    "spindles-nbd",
    "spindles-workload",
];
const NO_STD_TARGET: &str = "thumbv7em-none-eabihf";

/// Skips that are expected on CI, with the reasons.
const EXPECTED_SKIPS: &str = ".ci/expected-skips";

/// Runs the steps, prints the result of each and the skipped tests, and closes with the totals.
pub(crate) fn run(steps: &[&Step]) -> Result<(), String> {
    install_tools();
    let mut total = Outcome::default();
    for outcome in outcomes(steps) {
        total.add(&outcome);
    }
    if !total.skipped.is_empty() {
        println!("\nSkipped here, and why:");
        for skip in &total.skipped {
            println!("  {skip}");
        }
    }
    let expected = std::fs::read_to_string(EXPECTED_SKIPS).unwrap_or_default();
    let unexpected = total.unexpected(&expected).len();
    let on_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if on_ci && unexpected > 0 {
        println!("\n{unexpected} of these are not in {EXPECTED_SKIPS}: on CI that fails");
        total.failed += 1;
    }
    let (passed, failed) = (total.passed, total.failed);
    println!(
        "\n{passed} passed, {failed} failed, {} skipped",
        total.skipped.len()
    );
    if failed > 0 {
        return Err(format!("{failed} failed"));
    }
    Ok(())
}

/// Runs the steps and returns their outcomes in order. `tests` often waits for devices and
/// servers: the steps after it run meanwhile, with less claim to the processors.
fn outcomes(steps: &[&Step]) -> Vec<Outcome> {
    let tests = steps.iter().position(|step| step.name == "tests");
    let (before, rest) = steps.split_at(tests.unwrap_or(steps.len()));
    let mut outcomes: Vec<Outcome> = before.iter().map(|step| step.reported()).collect();
    let Some((tests, after)) = rest.split_first() else {
        return outcomes;
    };
    std::thread::scope(|scope| {
        let after = scope.spawn(|| {
            process::be_nice();
            let outcomes = after.iter().map(|step| step.reported());
            outcomes.collect::<Vec<_>>()
        });
        outcomes.push(tests.reported());
        outcomes.extend(after.join().expect("steps do not panic"));
    });
    outcomes
}

impl Step {
    /// Runs the step and prints its result.
    fn reported(&self) -> Outcome {
        let started = Instant::now();
        let outcome = (self.run)();
        let seconds = started.elapsed().as_secs_f64();
        print!("{}", report(self.name, &outcome, seconds));
        outcome
    }
}

/// The lines that a step prints at its end.
fn report(name: &str, outcome: &Outcome, seconds: f64) -> String {
    let verdict = match (outcome.failed, outcome.passed) {
        (0, 0) => "skipped",
        (0, _) => "ok",
        _ => "FAILED",
    };
    let counts = match outcome.passed + outcome.failed {
        0 | 1 => String::new(),
        count => format!(", {count} tests"),
    };
    let mut lines = format!("{verdict:<8} {name} ({seconds:.0} s{counts})\n");
    for figures in &outcome.figures {
        writeln!(lines, "{:<8} {figures}", "").expect("strings take everything");
    }
    if outcome.failed > 0 {
        let details = outcome.details.trim_end();
        writeln!(lines, "{details}\n").expect("strings take everything");
    }
    lines
}

/// Installs missing tools, if that works without a password: as root, with apt-get.
fn install_tools() {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| !process::exists(program))
        .map(|(_, package)| *package)
        .collect();
    let is_root = process::capture("id", &["-u"]).is_ok_and(|id| id.output.trim() == "0");
    if missing.is_empty() || !is_root || !process::exists("apt-get") {
        return; // Tests that need a missing tool report it.
    }
    println!("installing {}", missing.join(" "));
    let quiet = ["-y", "-q", "--no-install-recommends", "install"];
    let install = [&quiet[..], &missing].concat();
    let done = process::capture("apt-get", &["-q", "update"])
        .and_then(|_| process::capture("apt-get", &install));
    match done {
        Ok(Finished { good: true, .. }) => {}
        Ok(Finished { output, .. }) | Err(output) => println!("apt-get: {}", output.trim()),
    }
}

fn cargo(arguments: &[&str]) -> Outcome {
    program(&process::cargo_program(), arguments)
}

fn program(program: &str, arguments: &[&str]) -> Outcome {
    match process::capture(program, arguments) {
        Ok(Finished { good: true, .. }) => Outcome::passed(),
        Ok(Finished { output, .. }) | Err(output) => Outcome::failed(output),
    }
}

/// The time limit for the tests of one step. A test that hangs is stopped and named. Without the
/// limit, the caller of this program would kill a silent run after 90 minutes, and the cause would
/// stay unknown.
const TESTS_LIMIT: &str = "50m";

/// Tests per CPU that run at once: most wait for servers and disks.
const TEST_THREADS_PER_CPU: usize = 4;

/// Returns the number of tests that run at once.
fn test_threads() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus * TEST_THREADS_PER_CPU
}

fn cargo_test(arguments: &[&str]) -> Outcome {
    let threads = format!("--test-threads={}", test_threads());
    let show = ["--no-fail-fast", "--", "--show-output", &threads];
    let cargo = process::cargo_program();
    let limit = ["--verbose", "--kill-after=10", TESTS_LIMIT, cargo.as_str()];
    let arguments = [&limit[..], &["test"], arguments, &show].concat();
    match process::capture("timeout", &arguments) {
        Ok(Finished { good, output }) => Outcome::of_tests(good, &output),
        Err(error) => Outcome::failed(error),
    }
}

fn fmt() -> Outcome {
    cargo(&["fmt", "--all", "--check"])
}

fn tidy() -> Outcome {
    let problems = match Repo::load() {
        Ok(repo) => rules::check(&repo),
        Err(error) => return Outcome::failed(error),
    };
    if problems.is_empty() {
        return Outcome::passed();
    }
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Outcome::failed(lines.join("\n"))
}

fn clippy() -> Outcome {
    cargo(&[
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

fn tests() -> Outcome {
    test_binaries::run(TESTS_LIMIT, test_threads())
}

fn deb() -> Outcome {
    for program in ["dpkg", "dpkg-deb", "strip"] {
        if !process::exists(program) {
            return Outcome::skipped("deb", &format!("{program} is not installed"));
        }
    }
    match deb::check() {
        Ok(skipped) => Outcome {
            skipped: skipped
                .map(|why| format!("deb: {why}"))
                .into_iter()
                .collect(),
            ..Outcome::passed()
        },
        Err(error) => Outcome::failed(error),
    }
}

fn doc() -> Outcome {
    // Cargo hands these to rustdoc; no other step reads them.
    let flags = "RUSTDOCFLAGS=-D warnings";
    let cargo = process::cargo_program();
    let doc = [
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    program("env", &[&[flags, cargo.as_str()][..], &doc].concat())
}

fn no_std() -> Outcome {
    // A no-op if the target is installed. `timeout` is for a network that drops packets and never
    // answers.
    let add = ["60", "rustup", "target", "add", NO_STD_TARGET];
    if !process::capture("timeout", &add).is_ok_and(|finished| finished.good) {
        let reason = format!("`rustup target add {NO_STD_TARGET}` does not work here");
        return Outcome::skipped("no_std", &reason);
    }
    // crc-fast is also a C library, which takes a panic handler even to be checked. Programs bring
    // their own.
    let handler = ["--features", "crc-fast/panic-handler"];
    let mut arguments = vec!["check", "--quiet", "--target", NO_STD_TARGET];
    arguments.extend(handler);
    for package in NO_STD {
        arguments.extend(["--package", package]);
    }
    cargo(&arguments)
}

fn instructions() -> Outcome {
    if !process::exists("valgrind") {
        return Outcome::skipped("instructions", "valgrind is not installed");
    }
    match (instructions::TASK.run)(&["--check".to_owned()]) {
        Ok(()) => Outcome::passed(),
        Err(error) => Outcome::failed(error),
    }
}

fn deny() -> Outcome {
    if !process::exists("cargo-deny") {
        let reason = "cargo-deny is not installed (tidy checks the licences)";
        return Outcome::skipped("deny", reason);
    }
    cargo(&["deny", "check", "licenses", "bans", "sources"])
}

fn typos() -> Outcome {
    if !process::exists("typos") {
        return Outcome::skipped("typos", "typos is not installed");
    }
    program("typos", &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    fn step(name: &'static str, run: fn() -> Outcome) -> Step {
        let about = "";
        Step { name, about, run }
    }

    #[test]
    fn steps_after_the_tests_run_at_the_same_time() {
        static HAS_BEGUN: Mutex<bool> = Mutex::new(false);
        static BEGINNING: Condvar = Condvar::new();
        let first = step("fmt", || Outcome::failed("first"));
        let tests = step("tests", || {
            let begun = HAS_BEGUN.lock().expect("no test panics");
            let minute = Duration::from_mins(1);
            let begun = BEGINNING.wait_timeout_while(begun, minute, |begun| !*begun);
            let (begun, _) = begun.expect("no test panics");
            if *begun {
                Outcome::passed()
            } else {
                Outcome::failed("the next step did not begin")
            }
        });
        let after = step("doc", || {
            *HAS_BEGUN.lock().expect("no test panics") = true;
            BEGINNING.notify_all();
            Outcome::skipped("doc", "")
        });
        let failures = outcomes(&[&first, &tests, &after]);
        let failures: Vec<u64> = failures.iter().map(|outcome| outcome.failed).collect();
        assert_eq!(failures, [1, 0, 0]);
    }

    #[test]
    fn without_tests_steps_run_in_order() {
        let good = step("clippy", Outcome::passed);
        let bad = step("doc", || Outcome::failed("x"));
        let passed = outcomes(&[&good, &bad]);
        let passed: Vec<u64> = passed.iter().map(|outcome| outcome.passed).collect();
        assert_eq!(passed, [1, 0]);
    }

    #[test]
    fn a_report_has_counts_figures_and_failures() {
        let mut outcome = Outcome::failed("it broke\n");
        outcome.passed = 2;
        outcome.figures.push("enumeration: 3".to_owned());
        let lines = "FAILED   tests (7 s, 3 tests)\n         enumeration: 3\nit broke\n\n";
        assert_eq!(report("tests", &outcome, 7.2), lines);
    }
}

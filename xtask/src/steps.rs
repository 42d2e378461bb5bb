//! The steps of `cargo xtask test`, and the run of some or all of them.

use crate::outcome::Outcome;
use crate::process::{self, Finished};
use crate::repo::Repo;
use crate::{rules, tasks};
use std::time::Instant;

/// One step.
pub(crate) struct Step {
    /// As `cargo xtask ci` takes it.
    pub(crate) name: &'static str,
    /// What it checks, in a line.
    pub(crate) about: &'static str,
    run: fn() -> Outcome,
}

/// All steps, in the order in which they run: what fails fast comes first.
pub(crate) static STEPS: &[&Step] = &[
    &Step {
        name: "fmt",
        about: "rustfmt has nothing to change",
        run: fmt,
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
        name: "tests",
        about: "all tests of all crates",
        run: tests,
    },
    &Step {
        name: "deb",
        about: "the Debian package builds, installs and runs, and lintian finds no error",
        run: deb,
    },
    &Step {
        name: "canaries",
        about: "the simulator finds planted faults",
        run: canaries,
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

/// The tests of `cargo xtask check`. With other packages than the whole workspace cargo would choose other features,
/// and build most of it again.
pub(crate) static PURE_TESTS: Step = Step {
    name: "pure tests",
    about: "the tests of crates without I/O",
    run: || {
        cargo_test(&[
            "--quiet",
            "--workspace",
            "--test",
            "engine",
            "--test",
            "format",
            "--test",
            "layout",
            "--test",
            "codes",
            "--test",
            "nbd",
            "--test",
            "measure",
            "--bin",
            "xtask",
        ])
    },
};

/// Debian packages that tests use, by the program that shows that they are there.
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
    "spindles-format",
    "spindles-engine",
    "spindles-nbd",
    "spindles-workload",
];
const NO_STD_TARGET: &str = "thumbv7em-none-eabihf";

/// Skips that are expected on CI, with the reasons.
const EXPECTED_SKIPS: &str = ".ci/expected-skips";

/// Runs the steps, prints how each went and what was skipped, and closes with the sums.
pub(crate) fn run(steps: &[&Step]) -> Result<(), String> {
    install_tools();
    let mut total = Outcome::default();
    for step in steps {
        let started = Instant::now();
        let outcome = (step.run)();
        let verdict = match (outcome.failed, outcome.passed) {
            (0, 0) => "skipped",
            (0, _) => "ok",
            _ => "FAILED",
        };
        let seconds = started.elapsed().as_secs_f64();
        let counts = match outcome.passed + outcome.failed {
            0 | 1 => String::new(),
            count => format!(", {count} tests"),
        };
        println!("{verdict:<8} {} ({seconds:.0} s{counts})", step.name);
        for figures in &outcome.figures {
            println!("{:<8} {figures}", "");
        }
        if outcome.failed > 0 {
            println!("{}\n", outcome.details.trim_end());
        }
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

/// Installs the tools that are missing, where that is possible without asking.
fn install_tools() {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| !process::exists(program))
        .map(|(_, package)| *package)
        .collect();
    let is_root = process::capture("id", &["-u"]).is_ok_and(|id| id.output.trim() == "0");
    if missing.is_empty() || !is_root || !process::exists("apt-get") {
        return; // Whoever needs one says that it is missing.
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

/// How long the tests of one step may take. What hangs is stopped and named: whoever runs us ends
/// at 90 minutes what is silent till then, and nothing is known of the cause.
const TESTS_LIMIT: &str = "50m";

/// Threads of each test binary for each CPU: most tests wait, for servers and disks.
const TEST_THREADS_PER_CPU: usize = 4;

fn cargo_test(arguments: &[&str]) -> Outcome {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = format!("--test-threads={}", cpus * TEST_THREADS_PER_CPU);
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
    cargo_test(&["--quiet", "--workspace"])
}

fn deb() -> Outcome {
    for program in ["dpkg", "dpkg-deb", "strip"] {
        if !process::exists(program) {
            return Outcome::skipped("deb", &format!("{program} is not installed"));
        }
    }
    match tasks::deb::check() {
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

fn canaries() -> Outcome {
    cargo_test(&[
        "--quiet",
        // With the features of the step `tests`: only what the canaries change is built again.
        "--workspace",
        "--features",
        "spindles-sim/canary",
        "--test",
        "simulation",
        "planted_fault", // All others ran without it.
    ])
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
    // A no-op where it is installed. `timeout`, since a network that drops packets never answers.
    let add = ["60", "rustup", "target", "add", NO_STD_TARGET];
    if !process::capture("timeout", &add).is_ok_and(|finished| finished.good) {
        let reason = format!("`rustup target add {NO_STD_TARGET}` does not work here");
        return Outcome::skipped("no_std", &reason);
    }
    let mut arguments = vec!["check", "--quiet", "--target", NO_STD_TARGET];
    for package in NO_STD {
        arguments.extend(["--package", package]);
    }
    cargo(&arguments)
}

fn instructions() -> Outcome {
    let Some(task) = tasks::TASKS.iter().find(|task| task.name == "instructions") else {
        return Outcome::skipped("instructions", "the task is not written yet");
    };
    if !process::exists("valgrind") {
        return Outcome::skipped("instructions", "valgrind is not installed");
    }
    match (task.run)(&["--check".to_owned()]) {
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

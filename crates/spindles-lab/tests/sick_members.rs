//! Real members with faults, each behind an NBD server of its own. In every workload, the faulty
//! member is the first doubt, and the evidence for the bottleneck.

use crate::public::options;
use spindles_lab::{Experiment, Observer, Options, RecordsError, run};
use spindles_measure::verdicts::Bottleneck;
use spindles_measure::{Analysis, Record};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Other load may slow down a sound member in one run, but not in every run.
const RUNS_MAX: u32 = 10;

/// A server of memory, killed on drop.
struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Starts a server for each member of a case. `None` without nbdkit.
fn servers(folder: &Path, case: &Case) -> Option<Vec<Server>> {
    let all = 0..case.count;
    all.map(|number| {
        let socket: PathBuf = folder.join(format!("member{number}.sock"));
        let mut command = Command::new("nbdkit");
        command.arg("--foreground").arg("--unix").arg(&socket);
        let is_sick = number == case.sick;
        let filters = case.filters.iter().filter(|_| is_sick);
        command.args(filters.map(|filter| format!("--filter={filter}")));
        command.args(["memory", "48M"]);
        command.args(case.parameters.iter().filter(|_| is_sick));
        let process = command
            .current_dir(folder)
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let began = Instant::now();
        while UnixStream::connect(&socket).is_err() && began.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let address = format!("nbd+unix:///?socket={}", socket.display());
        Some(Server { process, address })
    })
    .collect()
}

#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    /// A file that is created when the first workload begins.
    trigger: Option<PathBuf>,
}

impl Observer for Kept {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.records.push(record.clone());
        Ok(())
    }

    fn progress(&mut self, _done: u64, _total: u64, what: &str) {
        if what.starts_with("block 1: array, ")
            && let Some(trigger) = self.trigger.take()
        {
            std::fs::write(trigger, "").expect("a file can be made");
        }
    }
}

fn analysis(text: &str, trigger: Option<PathBuf>) -> Analysis {
    let experiment = Experiment::parse("x.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let interrupt = AtomicBool::new(false);
    let options = Options {
        force: true,
        calibrate: true,
        ..options(&interrupt)
    };
    let mut kept = Kept {
        trigger,
        ..Kept::default()
    };
    run(&experiment, &options, &mut kept).unwrap_or_else(|error| panic!("{error}"));
    Analysis::of(&kept.records).expect("they are one experiment")
}

/// Returns the details of the first doubt, if it is a member out of line.
fn first_doubt(analysis: &Analysis) -> Option<String> {
    let first = analysis.findings.first().expect("there is a doubt");
    (first.kind == "outlier-member").then(|| first.details.join("\n"))
}

/// Runs an experiment until its first doubt is of this form.
fn doubted(text: &str, is_right: impl Fn(&str) -> bool) -> (Analysis, String) {
    for _ in 0..RUNS_MAX {
        let analysis = analysis(text, None);
        let doubt = first_doubt(&analysis);
        match doubt.filter(|doubt| is_right(doubt)) {
            Some(doubt) => return (analysis, doubt),
            None => println!("another run, because of {:?}", analysis.findings),
        }
    }
    panic!("{RUNS_MAX} runs have no such doubt");
}

/// Asserts that a bottleneck, if found, is that device, or the CPUs of a busy machine. A fast
/// machine may finish too soon for a verdict.
fn verdict_names(analysis: &Analysis, workload: &str, device: &str) {
    let mut cells = analysis.cells.iter();
    let cell = cells.find(|cell| cell.workload == workload);
    let verdicts = cell
        .and_then(|cell| cell.verdicts.as_ref())
        .expect("there is evidence");
    let words = verdicts.bottleneck.words();
    if let Bottleneck::Named { cause, .. } = &verdicts.bottleneck {
        let is_right = ["one-slow-member", "journal"].contains(cause) && words.contains(device);
        assert!(is_right || cause.starts_with("cpu"), "{workload}: {words}");
    }
    let cache: Vec<&str> = verdicts.cache.iter().map(|verdict| verdict.rule).collect();
    assert!(!cache.contains(&"two-latencies"), "{workload}: {cache:?}");
}

/// Returns short workloads of these kinds.
fn workloads(kinds: &[&str]) -> String {
    let one = |kind: &&str| match *kind {
        "dd-read" => "[[workload]]\nkind = \"dd-read\"\nsize = \"4M\"\n".to_owned(),
        "random-read" => "[[workload]]\nkind = \"random-read\"\noperations = 3000\n".to_owned(),
        kind => format!("[[workload]]\nkind = \"{kind}\"\noperations = 60\n"),
    };
    kinds.iter().map(one).collect()
}

fn experiment(head: &str, target: &str, kinds: &[&str]) -> String {
    let workloads = workloads(kinds);
    format!(
        "name = \"sick\"\nsize = \"8M\"\nblocks = 1\ncontrol = false\nwarmup = 4\n{head}\n\
         [[system]]\nname = \"array\"\ntarget = \"{target}\"\n{workloads}"
    )
}

/// Returns the list of members for the head of an experiment.
fn members(servers: &[Server]) -> String {
    let all: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{}\"", server.address))
        .collect();
    format!("members = [{}]", all.join(", "))
}

const DELAY: &[&str] = &["rdelay=20ms", "wdelay=20ms"];

/// Returns a target that names these servers itself.
fn target(level: &str, servers: &[Server]) -> String {
    let all: Vec<&str> = servers
        .iter()
        .map(|server| server.address.as_str())
        .collect();
    format!("{level}({})", all.join(","))
}

/// A case: the level, the number of members, the sick member with its fault, and workloads that
/// show the fault.
struct Case {
    level: &'static str,
    count: usize,
    sick: usize,
    filters: &'static [&'static str],
    parameters: &'static [&'static str],
    workloads: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        level: "raid5",
        count: 5,
        sick: 3,
        filters: &["delay"],
        parameters: DELAY,
        workloads: &["random-read", "random-write", "dd-read"],
    },
    // One slow path of many.
    Case {
        level: "raid10",
        count: 8,
        sick: 6,
        filters: &["delay"],
        parameters: &["rdelay=15ms", "wdelay=15ms"],
        workloads: &["random-write"],
    },
    // Throttled: 4 MB/s.
    Case {
        level: "raid0",
        count: 3,
        sick: 1,
        filters: &["rate"],
        parameters: &["rate=32M"],
        workloads: &["dd-read"],
    },
    // One of a hundred requests fails on the server, which retries it after a second.
    Case {
        level: "raid0",
        count: 3,
        sick: 2,
        filters: &["retry-request", "error"],
        parameters: &["retry-request-delay=1", "error-pread-rate=1%"],
        workloads: &["random-read"],
    },
];

#[test]
fn sick_members_are_named_if_targets_list_their_members() {
    for case in CASES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(servers) = servers(folder.path(), case) else {
            let test = "sick_members_are_named_if_targets_list_their_members";
            return println!("SKIPPED: {test}: nbdkit is not installed");
        };
        let sick = &servers[case.sick].address;
        let counted = format!("{}({})", case.level, case.count);
        let named = (String::new(), target(case.level, &servers));
        // The same result if the experiment lists the members.
        let listed = (members(&servers), counted);
        for (head, target) in [named, listed]
            .iter()
            .take(if case.count == 5 { 2 } else { 1 })
        {
            let text = experiment(head, target, case.workloads);
            let is_doubted = |doubt: &str, server: &Server| {
                doubt.contains(&format!("{} alone: ", server.address))
            };
            let is_sound = |doubt: &str| {
                let mut sound = (servers.iter().enumerate()).filter(|(at, _)| *at != case.sick);
                !sound.any(|(_, server)| is_doubted(doubt, server))
            };
            let is_named = |doubt: &str| is_doubted(doubt, &servers[case.sick]);
            let is_seen = |doubt: &str| {
                let mut workloads = case.workloads.iter();
                workloads
                    .any(|workload| doubt.contains(&format!("{sick} in {workload} of array (")))
            };
            let (analysis, _) = doubted(&text, |doubt| {
                is_named(doubt) && is_sound(doubt) && is_seen(doubt)
            });
            for workload in case.workloads {
                verdict_names(&analysis, workload, sick);
            }
        }
    }
}

/// An array continues without a failed member, and its figures look sound.
#[test]
fn a_failing_member_is_named() {
    let case = Case {
        level: "raid1",
        count: 3,
        sick: 1,
        filters: &["error"],
        // The file below, in the server's folder.
        parameters: &["error-pread-rate=100%", "error-pread-file=trigger"],
        workloads: &["random-read"],
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(servers) = servers(folder.path(), &case) else {
        return println!("SKIPPED: a_failing_member_is_named: nbdkit is not installed");
    };
    let trigger = folder.path().join("trigger");
    let text = experiment(&members(&servers), "raid1(3)", case.workloads);
    let analysis = analysis(&text, Some(trigger));
    let doubt = first_doubt(&analysis).expect("a member is out of line");
    let failed = format!("requests of {} failed", servers[1].address);
    assert!(doubt.contains(&failed), "{doubt}");
}

#[test]
fn a_throttled_journal_device_is_named() {
    let case = Case {
        level: "raid5",
        count: 4,
        sick: 3,
        filters: &["delay"],
        parameters: &["wdelay=60ms"],
        workloads: &["random-write"],
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(servers) = servers(folder.path(), &case) else {
        return println!("SKIPPED: a_throttled_journal_device_is_named: nbdkit is not installed");
    };
    let journal = &servers[3].address;
    let head = format!("journal = \"{journal}\"");
    let text = experiment(&head, &target("raid5", &servers[..3]), case.workloads);
    let named = format!("{journal}, a journal device, alone: ");
    let (analysis, _) = doubted(&text, |doubt| doubt.contains(&named));
    verdict_names(&analysis, "random-write", journal);
}

#[test]
fn healthy_members_are_not_doubted() {
    let case = Case {
        level: "raid5",
        count: 4,
        sick: 9,
        filters: &[],
        parameters: &[],
        workloads: &["random-read", "random-write"],
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(servers) = servers(folder.path(), &case) else {
        return println!("SKIPPED: healthy_members_are_not_doubted: nbdkit is not installed");
    };
    let experiment = experiment(&members(&servers), "raid5(4)", case.workloads);
    let mut doubted: Vec<&Server> = servers.iter().collect();
    let mut last = String::new();
    for _ in 0..RUNS_MAX {
        let analysis = analysis(&experiment, None);
        let findings = analysis.findings.iter();
        let doubts = findings.filter(|finding| finding.kind == "outlier-member");
        let details: Vec<String> = doubts.flat_map(|doubt| doubt.details.clone()).collect();
        last = details.join("\n");
        doubted.retain(|server| last.contains(&server.address));
        if doubted.is_empty() {
            return;
        }
    }
    panic!("doubted in each of {RUNS_MAX} runs: {last}");
}

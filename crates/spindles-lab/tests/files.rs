//! Workloads on files, on real file systems: their records, and their clean-up.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

use crate::public::{Kept, options};
use spindles_lab::{Experiment, Options, Outcome};
use spindles_measure::verdicts::Intervention;
use spindles_measure::{Analysis, Histogram, Rate, Record, Run, Traffic};
use spindles_workload::file::KINDS;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

fn run_until(text: &str, interrupt: &AtomicBool) -> (Outcome, Kept) {
    let experiment = Experiment::parse("x.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let mut kept = Kept::default();
    let outcome = spindles_lab::run(&experiment, &options(interrupt), &mut kept);
    (outcome.unwrap_or_else(|error| panic!("{error}")), kept)
}

fn run(text: &str) -> Kept {
    let (outcome, kept) = run_until(text, &AtomicBool::new(false));
    let failed: Vec<_> = kept
        .runs
        .iter()
        .filter_map(|run| run.failed.clone())
        .collect();
    assert_eq!((outcome.failed, failed), (0, vec![]));
    kept
}

/// Each kind with parameters for a test.
const SMALL: &[(&str, &str)] = &[
    ("bonnie", "size = \"2M\""),
    ("bonnie++", "size = \"2M\", files = 50"),
    ("iozone", "size = \"2M\", record = \"16K\""),
    ("cp", "size = \"1M\", processes = 3"),
    ("touch", "files = 100"),
    ("untar", "files = 50, archive = \"folder\""),
    ("mixed", "size = \"4M\", readers = 2"),
    ("multistreamread", "filesize = \"1M\", seconds = 1"),
    (
        "multistreamwrite",
        "filesize = \"1M\", grow = \"no\", seconds = 1",
    ),
    ("varmail", "nfiles = 200, nthreads = 8, seconds = 1"),
    (
        "oltp",
        "filesize = \"1M\", nshadows = 20, usermode = 1000, seconds = 1",
    ),
];

fn head(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "name = \"x\"\nblocks = 1\ncontrol = false\ncaches = \"keep\"\n[[system]]\n\
         target = \"folder:{folder}\"\n"
    )
}

fn workload(kind: &str, parameters: &str) -> String {
    format!("[[workload]]\nkind = \"{kind}\"\nparameters = {{ {parameters} }}\n")
}

#[test]
fn every_workload_runs_in_a_folder_and_leaves_no_files() {
    assert_eq!(SMALL.len(), KINDS.len());
    let folder = tempfile::tempdir().unwrap();
    let workloads: String = SMALL
        .iter()
        .map(|(kind, text)| workload(kind, text))
        .collect();
    let kept = run(&format!("{}{workloads}", head(folder.path())));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut phases: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &kept.runs {
        phases.entry(&run.workload.kind).or_default().push(run);
        check(run);
    }
    let of = |kind: &str, phase: &str| {
        let mut runs = phases[kind].iter();
        *runs
            .find(|run| run.workload.part.as_ref().map_or("", |part| &part.phase) == phase)
            .unwrap_or_else(|| panic!("{kind} {phase}"))
    };
    for (kind, phase, counted, rate) in [
        ("bonnie", "putc", 2 << 20, Rate::Bytes),
        ("bonnie", "rewrite", 2 << 20, Rate::Bytes),
        ("bonnie", "seeks", 4000, Rate::Operations),
        ("bonnie++", "seeks", 8192, Rate::Operations),
        ("bonnie++", "delete-at-random", 50, Rate::Operations),
        ("iozone", "read", 2 << 20, Rate::Bytes),
        ("cp", "write", 3 << 20, Rate::Bytes),
        ("touch", "retouch", 100, Rate::Operations),
        ("untar", "extract", 50, Rate::Operations),
        ("untar", "sync", 1, Rate::Operations),
        ("mixed", "beside", 8 << 20, Rate::Bytes),
    ] {
        let run = of(kind, phase);
        assert_eq!(
            (run.counted, run.workload.rate),
            (counted, rate),
            "{kind} {phase}"
        );
        assert_eq!(run.workload.name, format!("{kind} {phase}"));
    }
    // Each seeker writes a tenth of its blocks back.
    let writes = of("bonnie", "seeks").latency["write"].total();
    assert!((400..=402).contains(&writes), "{writes}");
    let varmail = of("varmail", "");
    let moved = varmail.latency["readwhole"].total() + varmail.latency["append"].total();
    let ratio = varmail.operations * 100 / moved;
    assert!((315..=330).contains(&ratio), "{ratio}");
    let oltp = of("oltp", "");
    let (reads, writes) = (
        oltp.latency["read"].total(),
        oltp.latency["aiowrite"].total(),
    );
    assert!(
        (85..=140).contains(&(writes * 100 / reads)),
        "{reads} {writes}"
    );
}

/// On arrays and devices without a file system, phases and work are the same.
#[test]
fn file_workloads_run_on_bare_arrays_too() {
    let on_blocks: Vec<_> = (SMALL.iter())
        .filter(|(kind, _)| !matches!(*kind, "bonnie++" | "touch" | "untar" | "varmail"))
        .collect();
    let mut workloads: String = on_blocks
        .iter()
        .map(|(kind, text)| workload(kind, text))
        .collect();
    // Not in whole blocks.
    workloads += "[[workload]]\nname = \"small\"\nkind = \"iozone\"\n\
                  parameters = { size = \"1M\", record = 1536, fsync = \"yes\" }\n";
    let text = format!(
        "name = \"x\"\nblocks = 1\ncontrol = false\nmembers = \"mem\"\n\
         [[system]]\ntarget = \"raid5(4)\"\n{workloads}"
    );
    let kept = run(&text);
    let of = |workload: &str| {
        let mut runs = kept.runs.iter();
        let run = runs.find(|run| run.workload.name == workload);
        run.unwrap_or_else(|| panic!("{workload}"))
    };
    for run in &kept.runs {
        let name = &run.workload.name;
        let counted: u64 = run.latency.values().map(Histogram::total).sum();
        assert_eq!(
            (counted, run.io.backend.as_str()),
            (run.operations, "mem"),
            "{name}"
        );
        assert!(run.operations > 0 && run.elapsed_ns > 0, "{name}");
        assert_eq!(
            (&*run.system.level, run.each_member.len()),
            ("raid5", 4),
            "{name}"
        );
        assert!(run.members.total() > 0, "{name}");
    }
    for (workload, counted) in [
        ("bonnie putc", 2 << 20),
        ("bonnie rewrite", 2 << 20),
        ("bonnie seeks", 4000),
        ("cp write", 3 << 20),
        ("mixed beside", 8 << 20),
        ("small write", (1 << 20) / 1536 * 1536),
    ] {
        assert_eq!(of(workload).counted, counted, "{workload}");
    }
    let writes = of("bonnie seeks").latency["write"].total();
    assert!((400..=402).contains(&writes), "{writes}");
    let oltp = &of("oltp").latency;
    let (reads, writes) = (oltp["read"].total(), oltp["aiowrite"].total());
    assert!(
        (85..=140).contains(&(writes * 100 / reads)),
        "{reads} {writes}"
    );
    // Each byte goes to a data member and the parity: records within a stripe cost more.
    let written = of("cp write").members.written;
    assert!(written >= (3 << 20) * 4 / 3, "{written}");
    // A partial block write reads the rest of the block first.
    assert!(of("small write").members.read > 0);
    assert_eq!(of("small write").latency["fsync"].total(), 1);
}

/// The archive is created and read in the folder named for it, and removed with the run.
#[test]
fn an_archive_can_be_read_from_another_folder() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let parameters = format!(
        "files = 50, archive_folder = \"{}\"",
        other.path().display()
    );
    let text = head(folder.path()) + &workload("untar", &parameters);
    let kept = run(&text);
    let extract = &kept.runs[0];
    assert_eq!(
        (extract.counted, &*extract.workload.name),
        (50, "untar extract")
    );
    // A header for each entry, and whole blocks.
    assert!(
        extract.application.read > extract.application.written,
        "{extract:?}"
    );
    assert_eq!(
        extract.workload.parameters["archive"],
        other.path().to_str().unwrap()
    );
    for folder in [&folder, &other] {
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let missing = text.replace(other.path().to_str().unwrap(), "/nowhere");
    let error = Experiment::parse("x.toml", &missing)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("archive_folder = \"/nowhere\": No such file"),
        "{error}"
    );
}

/// Workloads that need a file system are refused without one. Workloads that create a file system
/// are refused on an existing one. Both are refused before the lab creates anything.
#[test]
fn a_workload_reports_that_it_needs_a_file_system() {
    let newfs = "command = \"mkfs.ext4\"";
    for (more, kind, parameters, what) in [
        (
            "",
            "varmail",
            "",
            "varmail needs a file system: give a folder",
        ),
        ("", "multistreamwrite", "", "choose grow = \"no\""),
        (
            "fs = \"ext4\"\n",
            "newfs",
            newfs,
            "newfs makes a file system, and there is one",
        ),
    ] {
        let text = format!(
            "name = \"x\"\nmembers = \"mem\"\n[[system]]\ntarget = \"raid1(2)\"\n{more}{}",
            workload(kind, parameters)
        );
        let experiment = Experiment::parse("x.toml", &text).unwrap();
        let interrupt = AtomicBool::new(false);
        let error = spindles_lab::run(&experiment, &options(&interrupt), &mut Kept::default());
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("x.toml, line 3: system \"raid1(2)\": "),
            "{error}"
        );
        assert!(error.contains(what), "{error}");
    }
}

fn check(run: &Run) {
    let name = &run.workload.name;
    let counted: u64 = run.latency.values().map(Histogram::total).sum();
    assert_eq!(counted, run.operations, "{name}");
    assert!(run.operations > 0 && run.elapsed_ns > 0, "{name}");
    assert_eq!(run.io.backend, "files");
    let series = run.series.as_ref().unwrap();
    let after = series.warm_up_slots.try_into().unwrap();
    let in_slots: u64 = series.slots[after..]
        .iter()
        .map(|slot| slot.operations)
        .sum();
    assert_eq!(in_slots, run.operations, "{name}");
    for slot in &series.slots {
        let by_latency: u64 = slot.latency.iter().map(|(_, count)| count).sum();
        assert_eq!(by_latency, slot.operations, "{name}");
    }
    let evidence = run.evidence.as_ref().unwrap();
    assert_eq!(evidence.actors, run.workload.in_flight_max);
    // From getrusage, which may count in ticks of the scheduler.
    let usage = evidence.usage.expect("actors are threads of ours");
    let both = usage.user_ns + usage.system_ns;
    // It includes the warm-up, whose share `cpu_ns` leaves out.
    let all: u64 = series.slots.iter().map(|slot| slot.operations).sum();
    let kept = u128::from(both) * u128::from(in_slots) / u128::from(all);
    assert!(
        both > 0 && kept <= u128::from(run.cpu_ns.workload) * 2,
        "{usage:?}"
    );
    let spent: u64 = evidence.actor_ns.values().sum();
    let whole = series.slot_ns * u64::try_from(series.slots.len()).unwrap();
    assert!(
        spent <= u64::from(evidence.actors) * whole.max(run.elapsed_ns) * 2,
        "{name}"
    );
    assert!(
        run.cpu_ns.workload > 0 && run.cpu_ns.machine >= run.cpu_ns.workload,
        "{name}"
    );
    if run.workload.duration_ns > 0 {
        let tail = run.workload.duration_ns - run.elapsed_ns;
        // Files are opened before the window begins.
        let opened = tail - u64::from(series.warm_up_slots) * series.slot_ns;
        assert!(opened < run.workload.duration_ns / 5, "{name}: {opened}");
    }
}

/// Reads from the cache are identified as such. The same without caches is tried in pairs, which
/// count in no result.
#[test]
fn confirming_trials_of_a_verdict_are_run() {
    if !is_root() {
        return println!(
            "SKIPPED: confirming_trials_of_a_verdict_are_run: emptying caches takes root"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nblocks = 2\nconfirm = true\ncontrol = false\ncaches = \"keep\"\n[[system]]\n\
         target = \"folder:{}\"\n{}",
        folder.path().display(),
        workload("iozone", "size = \"8M\"")
    );
    let kept = run(&text);
    let records: Vec<Record> = (kept.runs.iter())
        .map(|run| Record::Run(Box::new(run.clone())))
        .collect();
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(analysis.runs.len(), 4);
    let trials: Vec<&String> = (kept.progress.iter())
        .filter(|what| what.starts_with("trial "))
        .collect();
    let first = format!("trial 1 of {}, 6 runs: ", trials.len());
    assert!(trials[0].starts_with(&first), "{trials:?}");
    let cell = &analysis.cells[1];
    assert_eq!(
        (&*cell.workload, cell.repetitions.len()),
        ("iozone read", 2)
    );
    let verdicts = cell.verdicts.as_ref().unwrap();
    let tried = |change| verdicts.tried.iter().find(|trial| trial.change == change);
    let cold = tried(Intervention::WithoutCache).unwrap_or_else(|| panic!("{verdicts:?}"));
    assert_eq!(cold.log_ratio.blocks, 3);
    // Memory answers faster than any disk.
    assert!(cold.log_ratio.value < 0.0, "{cold:?}");
    let of_cold = analysis.trials.iter().filter(|run| {
        let trial = run.trial.as_ref().unwrap();
        trial.change == Intervention::WithoutCache && trial.of == "iozone read"
    });
    let mut kept_whole = Vec::new();
    for run in of_cold {
        let cache = run.evidence.as_ref().unwrap().cache;
        assert_eq!(cache.emptied, run.trial.as_ref().unwrap().changed);
        // If the kernel reports it.
        let Some(resident) = cache.resident_permille else {
            continue;
        };
        if cache.emptied {
            assert_eq!(resident, 0);
        } else {
            kept_whole.push(resident == 1000);
        }
    }
    // Emptying caches affects the whole machine. Another test may do so meanwhile, but not during
    // every run.
    assert!(kept_whole.is_empty() || kept_whole.contains(&true));
}

/// The error names the file that can't be created, and earlier phases keep their figures.
#[test]
fn a_full_file_system_fails_its_phase_and_all_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m", "none"])
        .arg(path)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return println!("SKIPPED: a_full_file_system_fails…: mounting takes root");
    }
    let text = workload("cp", "size = \"1M\"") + &workload("iozone", "size = \"8M\"");
    let (outcome, kept) = run_until(&(head(path) + &text), &AtomicBool::new(false));
    let left = fs::read_dir(path).unwrap().count();
    let unmounted = std::process::Command::new("umount").arg(path).status();
    assert!(unmounted.unwrap().success());
    assert_eq!((outcome.runs, outcome.failed, left), (4, 2, 0));
    assert!(kept.runs[1].failed.is_none());
    let why = kept.runs[2].failed.as_ref().unwrap();
    assert!(
        why.contains("write failed: No space left on device"),
        "{why}"
    );
    assert_eq!(kept.runs[2].failed, kept.runs[3].failed);
}

#[test]
fn an_interrupt_ends_a_long_workload_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = AtomicBool::new(false);
    let began = Instant::now();
    let (outcome, kept) = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1200));
            interrupt.store(true, Ordering::Relaxed);
        });
        let text = workload("varmail", "nfiles = 200, nthreads = 8, seconds = 100");
        run_until(&(head(folder.path()) + &text), &interrupt)
    });
    assert!(outcome.interrupted && kept.runs.is_empty());
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Held by each test that mounts, because another test looks for leftover mounts.
static MOUNTING: Mutex<()> = Mutex::new(());

/// A single disk, and a file system made by commands: made, mounted, unmounted, checked.
#[test]
fn file_systems_are_created_mounted_and_checked() {
    if !is_root() {
        return println!(
            "SKIPPED: file_systems_are_created_mounted_and_checked: mounting takes root"
        );
    }
    let _alone = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nblocks = 1\nbaseline = \"single\"\ncontrol = false\nfolder = \"{}\"\n\
         [[system]]\nname = \"single\"\ntarget = \"single\"\nthrough = \"direct\"\nfs = \"ext4\"\n\
         mount = \"noatime\"\n\
         [[system]]\nname = \"made\"\ntarget = \"$DIR/mnt\"\ntakes = 2\n\
         up = \"mkfs.btrfs -q -f -d raid1 $MEMBERS; mkdir $DIR/mnt; \
         mount -t btrfs $MEMBER0 $DIR/mnt\"\n\
         down = \"umount $DIR/mnt\"\n\
         [[workload]]\nkind = \"dd-write\"\nsize = \"4M\"\n{}{}",
        folder.path().display(),
        workload("touch", "files = 50"),
        workload("cp", "size = \"32M\", processes = 1")
    );
    // Other writes to the same disk meanwhile.
    let elsewhere = tempfile::tempdir().unwrap();
    let (run_is_under_way, ended) = std::sync::mpsc::channel::<()>();
    let kept = std::thread::scope(|scope| {
        let _dropped_at_the_end = run_is_under_way;
        let noise = elsewhere.path().join("noise");
        scope.spawn(move || {
            while ended.try_recv() == Err(TryRecvError::Empty) {
                let file = File::create(&noise).unwrap();
                (&file).write_all(&vec![7; 16 << 20]).unwrap();
                file.sync_all().unwrap();
            }
        });
        run(&text)
    });
    assert_eq!(kept.troubles, [""; 0]);
    assert_eq!(kept.runs.len(), 12);
    for run in &kept.runs {
        let members = if run.system.name == "made" { 2 } else { 1 };
        let mebibytes = |member: &Traffic| member.written >> 20;
        let written: Vec<_> = run.each_member.iter().map(mebibytes).collect();
        let wrote = run.application.written >> 20;
        assert_eq!(written.len(), members);
        // The file system writes tables of its own meanwhile.
        let is_its_own = |mib: &u64| (0..wrote + 16).contains(mib);
        assert!(written.iter().all(is_its_own), "{wrote}: {written:?}");
        if run.workload.name == "dd-write" {
            assert!(written.iter().all(|mib| *mib >= wrote), "{written:?}");
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = format!("spindles-lab-{}-", std::process::id());
    assert!(!mounts.contains(&ours), "{mounts}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let single = kept.runs.iter().find(|run| run.system.name == "single");
    let options = &single.unwrap().system.options;
    assert_eq!(options["file system"], "ext4");
    assert_eq!(options["mount"], "noinit_itable,noatime");
    // A system made of two members is no single disk, whichever workload ran on it.
    let made = kept.runs.iter().filter(|run| run.system.name == "made");
    for run in made {
        let system = &run.system;
        assert_eq!((&*system.level, system.members), ("made by commands", 2));
        let found = &system.options["mounted"];
        assert!(found.starts_with("btrfs rw"), "{found}");
    }
}

/// The error contains the output of a failed command, and `down` still runs.
#[test]
fn a_failed_command_is_reported_with_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("down");
    let text = format!(
        "name = \"x\"\n[[system]]\ntarget = \"$DIR\"\nup = \"echo no disk here >&2; exit 3\"\n\
         down = \"touch {}\"\n{}",
        mark.display(),
        workload("touch", "files = 5")
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let interrupt = AtomicBool::new(false);
    let error = spindles_lab::run(&experiment, &options(&interrupt), &mut Kept::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("x.toml, line 2: system \"$DIR\""), "{error}");
    assert!(error.contains("exit status: 3): no disk here"), "{error}");
    assert!(mark.exists());
}

/// fio on a device and on a file, and the time of a mkfs: the records contain their versions and
/// figures.
#[test]
fn external_tools_are_run() {
    if !is_root() {
        return println!("SKIPPED: external_tools_are_run: loop devices take root");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nsize = \"16M\"\nblocks = 1\nbaseline = \"single\"\ncontrol = false\n\
         folder = \"{0}\"\n\
         [[system]]\nname = \"single\"\ntarget = \"single\"\nthrough = \"direct\"\n\
         [[system]]\nname = \"folder\"\ntarget = \"folder:{0}\"\n\
         [[workload]]\nkind = \"fio\"\n\
         parameters = {{ rw = \"randrw\", iodepth = [1, 4], runtime = 1, size = \"8m\" }}\n\
         [[workload]]\nkind = \"newfs\"\nsystems = [\"single\"]\n\
         parameters = {{ command = \"mkfs.ext4 -q -F\" }}\n\
         [[workload]]\nkind = \"dd-read\"\nsystems = [\"single\"]\n",
        folder.path().display()
    );
    let kept = run(&text);
    assert_eq!(kept.runs.len(), 6);
    for run in &kept.runs {
        let (name, parameters) = (&run.workload.name, &run.workload.parameters);
        assert!(
            run.operations > 0 && run.counted > 0 && run.elapsed_ns > 0,
            "{name}"
        );
        match run.workload.kind.as_str() {
            "fio" => {
                assert!(parameters["version"].starts_with("fio-"), "{parameters:?}");
                let counted = run.latency["read"].total() + run.latency["write"].total();
                assert_eq!(counted, run.operations, "{name}");
                assert!(run.elapsed_ns > 900_000_000, "{name}");
                assert_eq!(run.application.total(), run.operations * 4096);
            }
            "newfs" => {
                assert!(parameters["version"].contains("mke2fs"), "{parameters:?}");
                assert_eq!(run.counted, 1);
            }
            _ => {}
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The kernel can't use memory of this process as a device.
#[test]
fn memory_targets_are_refused_as_kernel_devices() {
    let of = |system: &str, workload: &str| {
        let text = format!("name = \"x\"\nmembers = \"mem\"\n[[system]]\n{system}\n{workload}");
        let experiment = Experiment::parse("x.toml", &text).unwrap();
        let interrupt = AtomicBool::new(false);
        let error = spindles_lab::run(&experiment, &options(&interrupt), &mut Kept::default());
        error.unwrap_err().to_string()
    };
    let files = workload("touch", "files = 5");
    let fio = "[[workload]]\nkind = \"fio\"\nparameters = { rw = \"read\" }\n";
    for (system, workload, what) in [
        (
            "target = \"raid1(2)\"\nfs = \"ext4\"",
            &*files,
            "a file system (ext4)",
        ),
        (
            "target = \"mem:64M\"\nfs = \"ext4\"",
            &*files,
            "a file system (ext4)",
        ),
        ("target = \"single\"", fio, "fio"),
        (
            "target = \"$DIR\"\nup = \"true\"\ntakes = 1",
            &*files,
            "`up`",
        ),
    ] {
        let error = of(system, workload);
        for words in [what, "needs a kernel device", "members = \"files\""] {
            assert!(error.contains(words), "{error}");
        }
    }
}

/// A target may be a member by its variable, as a loop device and as a file.
#[test]
fn a_target_may_be_a_member_prepared_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    let run_on = |loops: bool| {
        // Only a written member is not empty.
        let written = folder.path().join(format!("written {loops}"));
        let text = format!(
            "name = \"x\"\nblocks = 1\ncontrol = false\nfolder = \"{}\"\n\
             [[system]]\nname = \"second\"\n\
             target = \"${{MEMBER1}}\"\ntakes = 2\nloops = {loops}\nup = \"test -e $MEMBER1\"\n\
             down = \"cmp -s -n 4096 $MEMBER1 /dev/zero || touch '{}'\"\n\
             [[workload]]\nkind = \"dd-write\"\nsize = \"1M\"\n",
            folder.path().display(),
            written.display()
        );
        let kept = run(&text);
        assert_eq!(kept.troubles, [""; 0]);
        assert_eq!((kept.runs.len(), &kept.runs[0].failed), (1, &None));
        assert!(written.exists());
    };
    run_on(false);
    if is_root() {
        run_on(true);
    } else {
        println!("SKIPPED a_target_may_be_a_member_prepared_by_commands: loop devices take root");
    }
}

/// As mdadm creates `/dev/md0`, the target does not exist before `up`. Overwriting it then takes
/// `force`. ext4 on it uses the block size of large devices.
#[test]
fn targets_created_by_commands_need_not_exist_before() {
    let _alone = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made").display().to_string();
    let found = folder.path().join("found");
    let (head, mounted) = if is_root() {
        (" -h", "fs = \"ext4\"\n")
    } else {
        println!("SKIPPED targets_created_by_commands_need_not_exist_before: mounting takes root");
        ("", "")
    };
    let text = format!(
        "name = \"x\"\nblocks = 1\ncontrol = false\n\
         [[system]]\nname = \"made\"\ntarget = \"{made}\"\n\
         takes = 1\nup = \"ln -s $MEMBER0 {made}\"\n\
         down = \"dumpe2fs{head} {made} > {} 2>&1 || true; rm {made}\"\n{mounted}\
         [[workload]]\nkind = \"dd-write\"\nsize = \"1M\"\n",
        found.display()
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let interrupt = AtomicBool::new(false);
    let run = |force| {
        let mut kept = Kept::default();
        let options = Options {
            force,
            ..options(&interrupt)
        };
        let ended = spindles_lab::run(&experiment, &options, &mut kept);
        assert!(!Path::new(&made).exists());
        ended.map(|outcome| (outcome.failed, kept.runs.len(), kept.troubles))
    };
    let error = run(false).unwrap_err().to_string();
    assert!(error.contains("use --force"), "{error}");
    assert_eq!(run(true).unwrap(), (0, 1, Vec::new()));
    let found = fs::read_to_string(found).unwrap();
    let block = found
        .lines()
        .find_map(|line| line.strip_prefix("Block size:"));
    assert!(
        !is_root() || block.map(str::trim) == Some("4096"),
        "{found}"
    );
}

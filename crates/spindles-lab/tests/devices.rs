//! Experiments on named devices: loop devices, if available.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

use crate::public::{Kept, loop_devices, options};

use loop_devices::Loops;
use spindles_lab::{Experiment, Members, Options, RunError, Work, builtin};
use spindles_layout::LEVELS;
use spindles_measure::Run;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

fn run(experiment: &Experiment) -> Vec<Run> {
    try_run(experiment).unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(experiment: &Experiment) -> Result<Vec<Run>, RunError> {
    let (failed, runs) = outcome_of(experiment)?;
    let failures: Vec<_> = runs.iter().filter_map(|run| run.failed.clone()).collect();
    assert_eq!((failed, failures), (0, vec![]));
    Ok(runs)
}

/// Returns how many runs failed, and all runs.
fn outcome_of(experiment: &Experiment) -> Result<(u32, Vec<Run>), RunError> {
    let interrupt = AtomicBool::new(false);
    let options = Options {
        force: true,
        ..options(&interrupt)
    };
    let mut kept = Kept::default();
    let outcome = spindles_lab::run(experiment, &options, &mut kept)?;
    Ok((outcome.failed, kept.runs))
}

/// Reads reach the members in every workload, even if nothing wrote there before.
fn check_reads(runs: &[Run]) {
    for run in runs {
        let (asked, read) = (run.application.read, run.members.read);
        let what = format!("{} × {}", run.system.name, run.workload.name);
        assert!(read >= asked, "{what}: {read} of {asked} bytes");
    }
}

/// Returns loop devices with contents.
fn used_devices(count: usize, bytes: u64) -> Result<Loops, String> {
    let devices = Loops::new(count, bytes)?;
    for (number, name) in (1..).zip(devices.names()) {
        let mut file = File::options().write(true).open(name).unwrap();
        for _ in 0..bytes >> 20 {
            file.write_all(&vec![number; 1 << 20]).unwrap();
        }
        file.sync_all().unwrap();
    }
    Ok(devices)
}

/// An experiment of random reads on each level, and on an array of arrays.
fn random_reads(members: &str, policy: &str) -> Experiment {
    let levels = LEVELS
        .iter()
        .map(|level| format!("{}({})", level.name, level.members_min.max(2)));
    let more = ["raid0(raid1(2),raid1(2))".to_owned(), "single".to_owned()];
    let systems: Vec<String> = levels
        .chain(more)
        .map(|target| format!("[[system]]\ntarget = \"{target}\"\n"))
        .collect();
    let text = format!(
        "name = \"x\"\nsize = \"4100K\"\nblocks = 1\ncontrol = false\nmembers = {members}\n\
         {policy}\n\
         {}[[workload]]\nkind = \"random-read\"\noperations = 300\n",
        systems.concat()
    );
    Experiment::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// A run refuses a loop device while another run of the lab claims the backing file.
#[test]
fn a_run_locks_the_devices_beneath_its_target() {
    let devices = match used_devices(1, 16 << 20) {
        Ok(devices) => devices,
        Err(reason) => {
            return println!("SKIPPED a_run_locks_the_devices_beneath_its_target: {reason}");
        }
    };
    let names = devices.names();
    let name = Path::new(&names[0]).file_name().unwrap();
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    let facts = fs::metadata(fs::read_to_string(file).unwrap().trim_end()).unwrap();
    let claim = format!("spindles-lab file {} {}", facts.dev(), facts.ino());
    let other = UnixListener::bind_addr(&SocketAddr::from_abstract_name(claim).unwrap()).unwrap();
    let experiment = of_one(&listed(&devices));
    let ended = try_run(&experiment).map(|runs| runs.len());
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("or the device below it, is in use by another run"),
        "{error}"
    );
    drop(other);
    assert_eq!(try_run(&experiment).unwrap().len(), 1);
}

fn of_one(members: &str) -> Experiment {
    let text = format!(
        "name = \"x\"\nsize = \"1M\"\nblocks = 1\ncontrol = false\nmembers = {members}\n\
         [[system]]\ntarget = \"single\"\n\
         [[workload]]\nkind = \"dd-read\"\n"
    );
    Experiment::parse("x.toml", &text).unwrap()
}

/// I/O errors that fio skips leave no result, and options unknown to fio leave the members
/// unchanged.
#[test]
fn failed_fio_work_gives_no_result() {
    const MIB: u64 = 1 << 20;
    let devices = match used_devices(1, 8 * MIB) {
        Ok(devices) if Command::new("fio").arg("--version").output().is_ok() => devices,
        Ok(_) => return println!("SKIPPED failed_fio_work_gives_no_result: fio is not installed"),
        Err(reason) => return println!("SKIPPED failed_fio_work_gives_no_result: {reason}"),
    };
    let device = devices.names()[0].clone();
    let with = |target: &str, parameters: &str| {
        let text = format!(
            "name = \"x\"\nblocks = 1\ncontrol = false\nmembers = {}\n\
             [[system]]\ntarget = \"{target}\"\n\
             [[workload]]\nkind = \"fio\"\n\
             parameters = {{ size = \"8m\", loops = 1, {parameters} }}\n",
            listed(&devices)
        );
        outcome_of(&Experiment::parse("x.toml", &text).unwrap())
    };
    let refused = with("single", "rw = \"write\", blocksiz = \"4k\"");
    let error = refused.unwrap_err().to_string();
    for words in ["x.toml, line 8: workload \"fio\"", "blocksiz"] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(fs::read(&device).unwrap(), vec![1; 8 << 20]);
    let (failed, runs) = with(&device, "rw = \"read\"").unwrap();
    assert_eq!(
        (failed, runs[0].operations),
        (0, 2048),
        "{:?}",
        runs[0].failed
    );
    assert_eq!(runs[0].latency["read"].total(), 2048);
    // Truncate the device to half its size.
    let name = Path::new(&device).file_name().unwrap();
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    let file = fs::read_to_string(file).unwrap();
    let file = File::options().write(true).open(file.trim_end()).unwrap();
    file.set_len(4 * MIB).unwrap();
    let (failed, runs) = with(&device, "rw = \"read\", continue_on_error = \"all\"").unwrap();
    let why = runs[0].failed.clone().unwrap_or_default();
    assert!(
        why.contains("1024 I/O errors, first: Input/output error"),
        "{why}"
    );
    assert_eq!((failed, runs[0].elapsed_ns), (1, 0));
}

fn listed(devices: &Loops) -> String {
    format!("{:?}", devices.names())
}

#[test]
fn every_level_is_measured_on_devices() {
    let devices = match used_devices(6, 16 << 20) {
        Ok(devices) => devices,
        Err(reason) => return println!("SKIPPED: every_level_is_measured_on_devices: {reason}"),
    };
    for policy in ["", "consistency = \"resync\"\nchecksum = \"none\""] {
        check_reads(&run(&random_reads(&listed(&devices), policy)));
    }
}

#[test]
fn every_level_is_measured_on_files() {
    check_reads(&run(&random_reads("\"files\"", "")));
}

/// The built-in template, on devices with sizes for a test.
#[test]
fn your_devices_experiment_runs_completely() {
    let devices = match used_devices(4, 24 << 20) {
        Ok(devices) => devices,
        Err(reason) => {
            return println!("SKIPPED: your_devices_experiment_runs_completely: {reason}");
        }
    };
    let text = builtin::by_name("your-devices").unwrap().text;
    let mut experiment = Experiment::parse("your-devices", text).unwrap();
    experiment.members = Members::Devices(devices.names());
    experiment.blocks = 1;
    experiment.blocks_max = 1;
    for workload in &mut experiment.workloads {
        let Work::Blocks(work) = &mut workload.work else {
            continue;
        };
        work.size_bytes = 4 << 20;
        work.operations = work.operations.or(work.kind.operations.map(|_| 100));
    }
    let runs = run(&experiment);
    assert_eq!(runs.len(), 5 * experiment.workloads.len());
    check_reads(&runs);
}

/// Holes read at the speed of memory: a member with holes would be calibrated as faster than any
/// disk.
#[test]
fn calibration_allocates_sparse_user_files() {
    let folder = tempfile::tempdir().unwrap();
    // 64 MiB are calibrated; creating an array on a member punches new holes into some of them.
    let (bytes, most) = (80 << 20, 48 << 20);
    let names = [1, 2, 3, 4, 5].map(|number| folder.path().join(format!("a {number}.img")));
    for name in &names {
        File::create(name).unwrap().set_len(bytes).unwrap();
    }
    run(&random_reads(&format!("{names:?}"), ""));
    for name in &names {
        let placed = name.metadata().unwrap().blocks() * 512;
        assert!((most..bytes).contains(&placed), "{placed}");
    }
}

/// Without space for all holes nothing is filled, and the member is named.
#[test]
fn sparse_files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        let done = command.args(&words[1..]).arg(folder.path()).output();
        done.is_ok_and(|output| output.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=40M", "none"]) {
        return println!("SKIPPED sparse_files_that_do_not_fit_are_refused: mounting takes root");
    }
    let name = folder.path().join("a.img");
    File::create(&name).unwrap().set_len(64 << 20).unwrap();
    let ended = try_run(&of_one(&format!("[{name:?}]")));
    let placed = name.metadata().unwrap().blocks();
    assert!(mount(&["umount"]));
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("a.img has holes") && error.contains("of 64 MiB"),
        "{error}"
    );
    assert_eq!(placed, 0);
}

//! Whole experiments on memory and small files: their records, and their clean-up.

use crate::public::options;
use spindles_admin::create::{self, CreateOptions};
use spindles_lab::{Experiment, Observer, Options, Outcome, RecordsError, RunError, Tuning, Work};
use spindles_layout::Expression;
use spindles_measure::{Analysis, Histogram, Rate, Record, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    progress: Vec<(u64, u64, String)>,
    /// Interrupts after this many runs.
    end_after: Option<usize>,
    interrupt: AtomicBool,
}

/// Keeps all events; the run borrows `Kept::interrupt` meanwhile.
struct Keeper<'a> {
    records: &'a mut Vec<Record>,
    progress: &'a mut Vec<(u64, u64, String)>,
    end_after: Option<usize>,
    interrupt: &'a AtomicBool,
}

impl Observer for Keeper<'_> {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.records.push(record.clone());
        if Some(self.records.len()) == self.end_after.map(|runs| runs + 2) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64, what: &str) {
        self.progress.push((done, total, what.to_owned()));
    }
}

impl Kept {
    fn run(&mut self, text: &str, force: bool) -> Result<Outcome, RunError> {
        let experiment = Experiment::parse("x.toml", text).unwrap_or_else(|e| panic!("{e}"));
        self.run_this(&experiment, force)
    }

    fn run_this(&mut self, experiment: &Experiment, force: bool) -> Result<Outcome, RunError> {
        let options = Options {
            force,
            open: spindles_device::OpenOptions {
                busy_timeout: std::time::Duration::from_millis(200),
                ..spindles_device::OpenOptions::default()
            },
            ..options(&self.interrupt)
        };
        let mut keeper = Keeper {
            records: &mut self.records,
            progress: &mut self.progress,
            end_after: self.end_after,
            interrupt: &self.interrupt,
        };
        spindles_lab::run(experiment, &options, &mut keeper)
    }

    fn runs(&self) -> Vec<&Run> {
        self.records.iter().filter_map(Record::run).collect()
    }
}

fn all_workloads() -> String {
    let one = |kind: &&spindles_workload::Kind| {
        let operations = kind.operations.map_or("", |_| "operations = 200\n");
        format!("[[workload]]\nkind = \"{}\"\n{operations}", kind.name)
    };
    let all: Vec<String> = spindles_workload::KINDS.iter().map(one).collect();
    all.concat()
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

/// Every workload on single members of memory and of files: each record agrees with the definition
/// of the workload.
#[test]
fn every_workload_leaves_an_honest_record() {
    let folder = tempfile::tempdir().unwrap();
    for members in ["mem", "files"] {
        let text = format!(
            "name = \"x\"\nsize = \"2M\"\nblocks = 2\nmembers = \"{members}\"\nfolder = \"{}\"\n\
             [[system]]\ntarget = \"single\"\n{}",
            folder.path().display(),
            all_workloads()
        );
        let mut kept = Kept::default();
        let outcome = kept.run(&text, false).unwrap();
        let kinds = u32::try_from(spindles_workload::KINDS.len()).unwrap();
        // The single disk and its control, twice.
        assert_eq!(
            (outcome.blocks, outcome.runs, outcome.failed),
            (2, 4 * kinds, 0)
        );
        assert_eq!(entries(folder.path()), 0, "temporary files are gone");
        assert!(matches!(&kept.records[0], Record::Experiment(e) if e.definition == text));
        assert!(matches!(&kept.records[1], Record::Environment(e) if e.cpus > 0));
        for run in kept.runs() {
            check_run(run, members);
        }
        let (done, total, _) = kept.progress.last().unwrap();
        assert_eq!(
            (*total, *done + 1),
            (4 * u64::from(kinds), 4 * u64::from(kinds))
        );
        let analysis = Analysis::of(&kept.records).unwrap();
        assert_eq!(analysis.blocks(), 2);
    }
}

fn check_run(run: &Run, members: &str) {
    let name = &run.workload.name;
    assert_eq!(run.failed, None, "{name}");
    assert!(run.elapsed_ns > 0 && run.per_second() > 0.0, "{name}");
    assert_eq!(
        run.application, run.members,
        "{name}: a single disk amplifies nothing"
    );
    let kind = spindles_workload::by_name(name).expect("a workload");
    let total: u64 = run
        .latency
        .iter()
        .filter(|(n, _)| *n != "flush")
        .map(|(_, h)| h.total())
        .sum();
    assert_eq!(total, run.operations, "{name}");
    assert_eq!(
        run.latency.get("flush").map(Histogram::total),
        kind.writes.then_some(1),
        "{name}"
    );
    let phases: u64 = run.phases.iter().map(|phase| phase.elapsed_ns).sum();
    assert_eq!(phases, run.elapsed_ns, "{name}");
    let size = 2 << 20;
    match name.as_str() {
        "rewrite" => {
            assert_eq!(
                (run.application.read, run.application.written),
                (size, size)
            );
            assert_eq!(run.counted, size, "a rewrite counts its size once");
        }
        "seeks" => {
            assert_eq!((run.counted, run.workload.rate), (200, Rate::Operations));
            let reads = run.application.read / 8192;
            let writes = run.application.written / 8192;
            assert_eq!(reads, 200);
            assert!((20..=22).contains(&writes), "{writes}");
        }
        _ if kind.operations.is_some() => {
            assert_eq!((run.counted, run.operations), (200, 200), "{name}");
        }
        _ => assert_eq!(
            (run.counted, run.application.total()),
            (size, size),
            "{name}"
        ),
    }
    assert!(run.cpu_ns.workload > 0, "{name}");
    assert!(
        run.cpu_ns.machine >= run.cpu_ns.workload + run.cpu_ns.engine,
        "{name}"
    );
    match members {
        "mem" => assert_eq!(run.io.backend, "mem"),
        _ => assert!(["io_uring", "threads"].contains(&run.io.backend.as_str())),
    }
}

/// Within a block every system runs once, all with the same seed for the same workload; the order
/// of systems differs between blocks.
#[test]
fn blocks_are_complete_paired_and_shuffled() {
    let systems: String = ["a", "b", "c", "d"]
        .map(|name| format!("[[system]]\nname = \"{name}\"\ntarget = \"single\"\n"))
        .concat();
    let text = format!(
        "name = \"x\"\nsize = \"64K\"\nblocks = 6\nmembers = \"mem\"\n{systems}\
         [[workload]]\nkind = \"block-read\"\n\
         [[workload]]\nkind = \"random-read\"\noperations = 9\n\
         systems = [\"a\", \"b\"]\n"
    );
    let mut kept = Kept::default();
    kept.run(&text, false).unwrap();
    let runs = kept.runs();
    let mut orders = BTreeSet::new();
    for block in 0..6 {
        let of_block: Vec<_> = runs
            .iter()
            .filter(|r| r.repetition_block == block)
            .collect();
        for (workload, sides) in [("block-read", 5), ("random-read", 3)] {
            let same: Vec<_> = of_block
                .iter()
                .filter(|r| r.workload.name == workload)
                .collect();
            let names: BTreeSet<_> = same.iter().map(|r| r.system.name.as_str()).collect();
            assert_eq!((names.len(), same.len()), (sides, sides));
            let seeds: BTreeSet<_> = same.iter().map(|r| r.seed).collect();
            assert_eq!(seeds.len(), 1);
        }
        let order: Vec<_> = of_block
            .iter()
            .filter(|r| r.workload.name == "block-read")
            .map(|r| r.system.name.clone())
            .collect();
        orders.insert(order);
    }
    assert!(orders.len() > 2, "{orders:?}");
    let numbers: Vec<_> = runs.iter().map(|run| run.order).collect();
    assert_eq!(
        numbers,
        (0..u32::try_from(runs.len()).unwrap()).collect::<Vec<_>>()
    );
    let seeds: BTreeSet<_> = runs.iter().map(|run| run.seed).collect();
    assert_eq!(seeds.len(), 12, "each block and workload has its own seed");
    let Record::Experiment(experiment) = &kept.records[0] else {
        panic!("the first record is the experiment");
    };
    assert_eq!(experiment.control.as_deref(), Some("a again"));
    assert_eq!(experiment.runs_per_block(), 5 + 3);
}

#[test]
fn an_interrupted_run_keeps_its_records_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nsize = \"1M\"\nblocks = 50\nfolder = \"{}\"\n\
         [[system]]\ntarget = \"single\"\n[[workload]]\nkind = \"block-write\"\n",
        folder.path().display(),
    );
    let mut kept = Kept {
        end_after: Some(3),
        ..Kept::default()
    };
    let outcome = kept.run(&text, false).unwrap();
    assert!(outcome.interrupted && outcome.runs == 3 && outcome.blocks == 1);
    assert_eq!(kept.runs().len(), 3);
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn the_time_limit_ends_after_a_complete_block() {
    let text = "name = \"x\"\nsize = \"8M\"\nblocks = 1000\nmembers = \"mem\"\ntime_limit_s = 1\n\
                [[system]]\ntarget = \"single\"\n[[workload]]\nkind = \"block-write\"\n";
    let mut kept = Kept::default();
    let outcome = kept.run(text, false).unwrap();
    // On a busy machine the first block alone may take as long.
    assert!(outcome.out_of_time && (1..1000).contains(&outcome.blocks));
    assert_eq!(outcome.runs, outcome.blocks * 2);
}

/// Experiments that don't fit are refused before anything is written; named devices are not
/// overwritten without --force.
#[test]
fn impossible_experiments_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let image = image.display();
    let odd = folder.path().join("a b.img");
    fs::write(&odd, vec![7; 1 << 20]).unwrap();
    let odd = odd.display();
    let experiment = |head: &str, target: &str, kind: &str| {
        format!(
            "name = \"x\"\nsize = \"2M\"\n{head}\n[[system]]\ntarget = \"{target}\"\n\
             [[workload]]\nkind = \"{kind}\"\n"
        )
    };
    for (text, force, expected) in [
        (
            experiment("", &image.to_string(), "dd-write"),
            false,
            format!(
                "x.toml, line 4: system \"{image}\": dd-write writes, and the contents of {image} \
                 would be lost: use --force to overwrite it"
            ),
        ),
        (
            experiment("", &image.to_string(), "dd-read"),
            false,
            format!(
                "x.toml, line 4: system \"{image}\": it holds 1 MiB, and dd-read works on 2 MiB: \
                 choose a smaller size or larger members"
            ),
        ),
        // Making the system destroys the contents of the devices, even if the workload only reads.
        (
            experiment("", &format!("{image}\"\nfs = \"ext4"), "dd-read"),
            false,
            format!(
                "x.toml, line 4: system \"{image}\": the file system ext4 is made on it, and the \
                 contents of {image} would be lost"
            ),
        ),
        (
            experiment("", &format!("raid1(mem:8M,{image})"), "dd-read"),
            false,
            format!(
                "x.toml, line 4: system \"raid1(mem:8M,{image})\": the lab creates it, and the \
                 contents of {image} would be lost"
            ),
        ),
        (
            experiment("", &format!("raid5(3)\"\njournal = \"{image}"), "dd-read"),
            false,
            format!(
                "x.toml, line 4: system \"raid5(3)\": the lab creates it, and the contents of \
                 {image} would be lost"
            ),
        ),
        (
            experiment(&format!("members = [\"{image}\"]"), "single", "dd-read"),
            false,
            format!("x.toml: the contents of {image} would be lost: use --force to overwrite them"),
        ),
        (
            experiment(&format!("members = [\"{image}\"]"), "raid1(2)", "dd-read"),
            true,
            "x.toml: `members` has 1 device and a system needs 2: list more devices in `members`, \
             or ask for smaller arrays"
                .to_owned(),
        ),
        (
            experiment("", "mem:1T9", "dd-read"),
            false,
            "x.toml, line 4: system \"mem:1T9\": mem:1T9: ".to_owned(),
        ),
        (
            experiment("folder = \"/no/such/folder\"", "single", "dd-read"),
            false,
            "/no/such/folder: the members can't be made there: ".to_owned(),
        ),
        (
            experiment("", "folder:/no/such/folder", "dd-read"),
            false,
            "x.toml, line 4: system \"folder:/no/such/folder\": /no/such/folder is not a folder: \
             make it, or name another"
                .to_owned(),
        ),
        (
            experiment(
                &format!("members = [\"{image}\", \"{odd}\"]"),
                "$MEMBER0\"\nup = \"echo > ${MEMBERS}\"\ntakes = 2\nloops = false\nname = \"x",
                "dd-read",
            ),
            true,
            format!(
                "x.toml, line 4: system \"x\": the shell would split or expand {odd} in $MEMBERS"
            ),
        ),
        (
            experiment("", "single\"\nname = \"s again", "dd-read"),
            false,
            "x.toml, line 4: system \"s again\" has the name of the second measurement of the \
             baseline"
                .to_owned(),
        ),
        (
            experiment(
                "",
                "single",
                "dd-read\"\nbeside = \"rebuild\"\n\
                 [[workload]]\nkind = \"dd-read\"\nname = \"dd-read during rebuild",
            ),
            false,
            "x.toml: workloads \"dd-read\" and \"dd-read during rebuild\" would both have figures \
             called \"dd-read during rebuild\""
                .to_owned(),
        ),
        (
            experiment(
                "",
                "single",
                "bonnie\"\nname = \"b\"\n[[workload]]\nkind = \"dd-read\"\nname = \"b rewrite",
            ),
            false,
            "x.toml: workloads \"b\" and \"b rewrite\" would both have figures called \"b \
             rewrite\""
                .to_owned(),
        ),
        (
            experiment(
                "",
                "single\"\nfs = \"ext4",
                "untar\"\n[[workload]]\nkind = \"dd-read\"\nname = \"untar extract and sync",
            ),
            false,
            "x.toml: workloads \"untar\" and \"untar extract and sync\" would both have figures \
             called"
                .to_owned(),
        ),
    ] {
        let mut kept = Kept::default();
        let error = kept.run(&text, force).unwrap_err().to_string();
        assert!(
            error.starts_with(&expected),
            "{error}\ninstead of\n{expected}"
        );
        assert!(kept.records.is_empty());
    }
    // All mistakes are reported at once.
    let text = experiment("members = [\"a\"]", &image.to_string(), "dd-write");
    let text = format!(
        "{text}[[system]]\ntarget = \"raid1(2)\"\n[[system]]\ntarget = \"raid1({odd},nowhere)\"\n"
    );
    let error = Kept::default().run(&text, false).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let expected = [
        "would be lost",
        "nowhere: No such file",
        "`members` has 1 device and a system needs 2",
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, words) in lines.iter().zip(expected) {
        assert!(line.contains(words), "{error}");
    }
    for image in [image, odd] {
        assert!(fs::read(image.to_string()).unwrap() == vec![7; 1 << 20]);
    }
    assert_eq!(entries(folder.path()), 2);
}

/// `--force` gives up the contents of devices, but not devices in use. All are checked before the
/// first is written.
#[test]
fn targets_in_use_are_refused_before_any_write() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (free, held) = (at("free"), at("held"));
    for name in ["free", "free2", "free3", "held"] {
        fs::write(at(name), vec![7; 1 << 20]).unwrap();
    }
    let lock = fs::File::open(&held).unwrap();
    lock.lock().unwrap();
    let members = format!("members = [\"{free}\", \"{held}\"]\n");
    let of = |target: &str, more: &str| format!("[[system]]\ntarget = \"{target}\"\n{more}");
    let (fs_on, up) = ("fs = \"ext4\"\n", "up = \"echo > $MEMBER1\"\ntakes = 2\n");
    for systems in [
        of("single", fs_on) + &of("single:2", fs_on),
        of("single", "") + &of("single:2", ""),
        of("raid1(2)", fs_on),
        of("raid1(2)", ""),
        of("$MEMBER0", up),
        of("single", "") + &of(&held, fs_on),
        of("single", "") + &of(&format!("raid1(mem:8M,{held})"), ""),
        of("single", "")
            + &of(
                &format!("raid5({free},{free}2,{free}3)"),
                &format!("journal = \"{held}\"\n"),
            ),
    ] {
        let text = format!(
            "name = \"x\"\nsize = \"1M\"\ncontrol = false\n{members}{systems}[[workload]]\nkind = \
             \"dd-write\"\n"
        );
        let error = Kept::default().run(&text, true).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{held} is in use by")),
            "{error}\nof\n{text}"
        );
        for name in [&free, &held] {
            assert!(
                fs::read(name).unwrap() == vec![7; 1 << 20],
                "{name} after\n{text}"
            );
        }
    }
    drop(lock);
    // Another run of the lab claims it from its beginning to its end, not only while it is open.
    let facts = fs::metadata(&held).unwrap();
    let name = format!("spindles-lab file {} {}", facts.dev(), facts.ino());
    let name = SocketAddr::from_abstract_name(name).unwrap();
    let other = UnixListener::bind_addr(&name).unwrap();
    let text = format!(
        "name = \"x\"\nsize = \"1M\"\ncontrol = false\n{members}[[system]]\ntarget = \"single:2\"\n\
         [[workload]]\nkind = \"dd-read\"\n"
    );
    let error = Kept::default().run(&text, true).unwrap_err().to_string();
    let expected = format!("{held}, or the device below it, is in use by another run of the lab");
    assert!(error.contains(&expected), "{error}");
    drop(other);
    Kept::default().run(&text, true).unwrap();
}

#[test]
fn a_folder_is_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nsize = \"1M\"\nblocks = 1\n[[system]]\ntarget = \"folder:{}\"\n\
         [[workload]]\nkind = \"dd-write\"\n",
        folder.path().display()
    );
    let mut kept = Kept::default();
    assert_eq!(kept.run(&text, false).unwrap().failed, 0);
    assert_eq!(kept.runs()[0].members.written, 1 << 20);
    assert_eq!(entries(folder.path()), 0);
}

/// The old comparisons in the words of their time: their texts become arrays of the experiment's
/// members, which run at the smallest scale; without a file system, so that it takes no root.
#[test]
fn classic_experiments_run_in_their_own_words() {
    const K64: u64 = 64 << 10;
    for (name, expected) in [
        ("classic-1996", &["raid0(3)", "raid0(5)"][..]),
        ("classic-2000", &["raid0(8)", "raid5(8)"]),
        ("classic-2002", &["raid0(2)", "raid1(2)"]),
        ("classic-2005", &["raid1(2)"]),
        (
            "classic-2008",
            &[
                "raid0(raid5(3),raid5(3),raid5(3),raid5(3))",
                "raid0(raid5(6),raid5(6))",
                "raid1(2)",
                "raid5(12)",
                "raid5(3)",
                "raid5(6)",
            ],
        ),
    ] {
        let text = spindles_lab::builtin::by_name(name).unwrap().text;
        let scale_min = Experiment::parse(name, text).unwrap().scale_min;
        let tuning = Tuning {
            scale: scale_min.unwrap(),
            seconds: Some(1),
            ..Tuning::default()
        };
        let mut experiment = Experiment::parse_tuned(name, text, &tuning).unwrap();
        let arrays = experiment.systems.iter().filter(|system| {
            assert!(!system.target.starts_with("from:"));
            system.target.contains('(')
        });
        let arrays: BTreeMap<_, _> = arrays
            .map(|system| (system.target.as_str(), system.chunk_bytes))
            .collect();
        let chunks = expected.iter().map(|array| (*array, Some(K64)));
        assert_eq!(arrays, chunks.collect(), "{name}");

        let folder = tempfile::tempdir().unwrap();
        experiment.folder = Some(folder.path().to_owned());
        (experiment.blocks, experiment.blocks_max) = (1, 1);
        experiment.control = false;
        for system in &mut experiment.systems {
            system.mounting = None;
        }
        experiment.workloads.truncate(1);
        let mut kept = Kept::default();
        let outcome = kept.run_this(&experiment, false).unwrap();
        assert_eq!(outcome.failed, 0, "{name}");
        let ran: BTreeSet<_> = (kept.runs().iter())
            .map(|run| run.system.name.clone())
            .collect();
        let workload = &experiment.workloads[0];
        let systems = experiment.systems.iter().map(|system| system.name.clone());
        let systems = systems.filter(|system| workload.runs_on(system));
        assert_eq!(ran, systems.collect(), "{name}");
    }
}

/// The quickstart with sizes for a test: every system has results, none fails, and the members'
/// bytes match the level.
#[test]
fn the_quickstart_runs_completely() {
    let folder = tempfile::tempdir().unwrap();
    let text = spindles_lab::builtin::by_name("quickstart").unwrap().text;
    // The quickstart lacks the parallel workload: it measures disks, not files on one disk.
    let text = format!("{text}\n[[workload]]\nkind = \"dd-parallel\"\n");
    let mut experiment = Experiment::parse("quickstart", &text).unwrap();
    experiment.blocks = 1;
    experiment.blocks_max = 1;
    experiment.folder = Some(folder.path().to_owned());
    for workload in &mut experiment.workloads {
        let Work::Blocks(work) = &mut workload.work else {
            continue;
        };
        work.size_bytes = 2 << 20;
        work.operations = work.operations.or(work.kind.operations.map(|_| 100));
    }
    let mut kept = Kept::default();
    let outcome = kept.run_this(&experiment, false).unwrap();
    let failures: Vec<_> = kept
        .runs()
        .iter()
        .filter_map(|run| run.failed.clone())
        .collect();
    assert_eq!(failures, [""; 0]);
    let sides = experiment.systems.len() + 1;
    let runs = u32::try_from(sides * experiment.workloads.len()).unwrap();
    assert_eq!((outcome.runs, outcome.blocks), (runs, 1));
    assert_eq!(entries(folder.path()), 0);
    let Record::Experiment(record) = &kept.records[0] else {
        panic!("the first record is the experiment");
    };
    assert!(record.scaled && record.shared_device);

    // Members, survivable losses, and member bytes for 100 bytes of whole stripes written. With
    // parity, checksums go to the journal first.
    for (system, members, survives, amplification) in [
        ("single", 1, 0, 100),
        ("concat", 4, 0, 100),
        ("raid0", 4, 0, 100),
        ("raid1", 2, 1, 200),
        ("raid10", 4, 1, 200),
        ("raid4", 5, 1, 125),
        ("raid5", 5, 1, 125),
        ("raid6", 6, 2, 150),
    ] {
        let of = |workload: &str| {
            let runs = kept.runs();
            let mut of = runs.into_iter();
            of.find(|r| r.system.name == system && r.workload.name == workload)
                .unwrap()
                .clone()
        };
        let write = of("dd-write");
        assert_eq!(write.system.members, members, "{system}");
        assert_eq!(write.system.survives, survives, "{system}");
        assert!(write.system.capacity_bytes >= 2 << 20, "{system}");
        let share = |run: &Run| run.members.written * 100 / run.application.written;
        let found = share(&write);
        // A superblock or two may fall into the window, and headers of the journal.
        let more = if system >= "raid4" { 15 } else { 5 };
        assert!(
            (amplification..amplification + more).contains(&found),
            "{system}: {found}"
        );
        assert!(share(&of("block-write")) >= amplification, "{system}");
        assert_eq!(of("dd-read").members.read, 2 << 20, "{system}");
        let parallel = of("dd-parallel");
        assert_eq!(
            parallel.application.read,
            u64::from(members) * (2 << 20),
            "{system}"
        );
        assert_eq!(
            parallel.phases.len(),
            usize::try_from(members).unwrap(),
            "{system}"
        );
    }
}

/// Creates an array of the user's.
fn make(expression: &str) {
    let expression = Expression::parse(expression).unwrap();
    let options = CreateOptions {
        force: true,
        ..CreateOptions::new("own")
    };
    create::create(&expression, &options, &mut |_, _| true).unwrap();
}

/// Arrays on memory, on named devices, nested, and an existing one.
#[test]
fn arrays_of_every_kind_are_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = folder.path().join(name);
        fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [a, b, c] = ["a", "b", "c"].map(path);
    let text = |head: &str, target: &str, kind: &str| {
        format!(
            "name = \"x\"\nsize = \"1M\"\nblocks = 1\ncontrol = false\n{head}\n\
             [[system]]\ntarget = \"{target}\"\n[[workload]]\nkind = \"{kind}\"\n"
        )
    };
    let named = format!("raid5({a},{b},{c})");
    let assembled = format!("array:{c},{a},{b}");
    let members = format!("members = [\"{a}\", \"{b}\", \"{c}\"]");
    for (head, target, kind, force, members) in [
        ("members = \"mem\"", "raid6(5)", "rewrite", false, 5),
        ("members = \"null\"", "raid10(4)", "random-read", false, 4),
        (
            "members = \"mem\"",
            "raid0(raid1(2),raid1(2))",
            "seeks",
            false,
            4,
        ),
        ("", "raid1(mem:4M,mem:4M)", "block-write", false, 2),
        ("", named.as_str(), "dd-write", true, 3),
        ("", assembled.as_str(), "dd-write", true, 3),
        ("", assembled.as_str(), "dd-read", false, 3),
        (members.as_str(), "raid1(3)", "dd-write", true, 3),
        (members.as_str(), "single", "dd-write", true, 1),
    ] {
        if target == assembled && !spindles_device::holds_superblock(&a) {
            make(&named);
        }
        let mut kept = Kept::default();
        let outcome = kept.run(&text(head, target, kind), force);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        // Arrays of the lab are wiped, others stay.
        assert_eq!(
            spindles_device::holds_superblock(&a),
            target == assembled,
            "{target}"
        );
        let runs = kept.runs();
        assert_eq!(
            (outcome.runs, runs[0].failed.as_deref()),
            (1, None),
            "{target}"
        );
        assert_eq!(runs[0].each_member.len(), members, "{target}");
        assert!(
            runs[0].members.total() >= runs[0].application.total(),
            "{target}"
        );
    }
    let mut kept = Kept::default();
    let refused = kept.run(&text("", &named, "dd-write"), false).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("would be lost: use --force to overwrite them"),
        "{refused}"
    );
}

/// An interrupted run leaves no array on users' devices either.
#[test]
fn an_interrupted_run_leaves_no_array_on_devices() {
    let folder = tempfile::tempdir().unwrap();
    let members = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let text = format!(
        "name = \"x\"\nsize = \"1M\"\nblocks = 9\ncontrol = false\nmembers = {members:?}\n\
         [[system]]\ntarget = \"raid1(2)\"\n[[workload]]\nkind = \"dd-write\"\n"
    );
    let mut kept = Kept {
        end_after: Some(1),
        ..Kept::default()
    };
    assert!(kept.run(&text, true).unwrap().interrupted);
    for member in members {
        assert!(!spindles_device::holds_superblock(&member));
    }
}

/// The journal lies on a device of its own, whose bytes count. Its contents are destroyed only with
/// `force`.
#[test]
fn arrays_can_have_their_own_journals() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.img");
    fs::write(&journal, vec![0x42; 16 << 20]).unwrap();
    let text = |members: &str| {
        format!(
            "name = \"x\"\nsize = \"8M\"\nblocks = 1\nwarmup = 0\nmembers = \"{members}\"\n\
             control = false\n\
             folder = \"{}\"\n\
             [[system]]\nname = \"members\"\ntarget = \"raid5(3)\"\n\
             [[system]]\nname = \"own\"\ntarget = \"raid5(3)\"\njournal = \"{}\"\n\
             [[workload]]\nkind = \"random-write\"\noperations = 300\n\
             [[workload]]\nname = \"reads\"\nkind = \"random-read\"\nbeside = \"replace\"\n\
             operations = 100\n",
            folder.path().display(),
            journal.display()
        )
    };
    let error = Kept::default().run(&text("files"), false).unwrap_err();
    assert!(
        error.to_string().contains("journal.img would be lost"),
        "{error}"
    );
    assert!(fs::read(&journal).unwrap().iter().all(|&byte| byte == 0x42));

    let mut kept = Kept::default();
    assert_eq!(kept.run(&text("files"), true).unwrap().failed, 0);
    let written = |system: &str| {
        let mut of = kept
            .runs()
            .into_iter()
            .filter(|run| run.system.name == system);
        let run = of.find(|run| run.workload.name == "random-write").unwrap();
        run.members.written / run.application.written
    };
    // Data and parity, each twice, wherever the journal lies.
    assert_eq!((written("members"), written("own")), (4, 4));

    let error = Experiment::parse("x.toml", &text("mem")).unwrap_err();
    assert!(error.to_string().contains("on files or devices"), "{error}");
}

/// Records of one trial are placed before the next begins, unless that is to begin with a full
/// stage.
#[test]
fn trials_begin_with_an_empty_or_a_full_stage() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"x\"\nsize = \"8M\"\nblocks = 1\nwarmup = 0\nmembers = \"files\"\n\
         control = false\nfolder = \"{}\"\n\
         [[system]]\ntarget = \"raid5(3)\"\nwrite_back = \"on\"\n\
         [[workload]]\nkind = \"random-write\"\noperations = 300\n\
         [[workload]]\nname = \"again\"\nkind = \"random-write\"\noperations = 300\n\
         [[workload]]\nname = \"steady\"\nkind = \"random-write\"\noperations = 300\n\
         steady = true\n",
        folder.path().display()
    );
    let mut kept = Kept::default();
    assert_eq!(kept.run(&text, false).unwrap().failed, 0);
    let runs = kept.runs();
    let (steady, others): (Vec<&Run>, Vec<&Run>) =
        (runs.into_iter()).partition(|run| run.workload.name == "steady");
    assert_eq!((steady.len(), others.len()), (1, 2));
    for run in steady {
        assert_eq!(run.workload.parameters["steady"], "true");
        // Answers wait from 60 % of the fill on.
        assert!(
            run.staging.unwrap().begin_bytes > 1 << 20,
            "{:?}",
            run.staging
        );
    }
    let stages: Vec<_> = others.iter().map(|run| run.staging.unwrap()).collect();
    assert!(stages.iter().all(|stage| stage.begin_bytes == 0));
    assert!(
        stages[0].end_bytes > 0 && stages[1].drained_ns > 0,
        "{stages:?}"
    );
}

/// A workload alongside a job runs before, during and after it, and the job's figures are recorded.
#[test]
fn jobs_run_alongside_workloads() {
    let folder = tempfile::tempdir().unwrap();
    let text = |members: &str, more: &str| {
        format!(
            "name = \"x\"\nsize = \"8M\"\nblocks = 2\nwarmup = 0\nmembers = \"{members}\"\n\
             control = false\n\
             chunk = \"16K\"\nfolder = \"{}\"\n\
{more}\
             [[workload]]\nkind = \"dd-write\"\n\
             [[workload]]\nkind = \"random-read\"\nbeside = \"rebuild\"\noperations = 300\n\
             [[workload]]\nname = \"more\"\nkind = \"random-read\"\nbeside = \"replace\"\n\
             operations = 300\n\
             [[workload]]\nname = \"growing\"\nkind = \"random-read\"\nbeside = \"grow\"\n\
             operations = 300\n\
             [[workload]]\nname = \"again\"\nkind = \"random-read\"\nbeside = \"scrub\"\n\
             operations = 300\n",
            folder.path().display()
        )
    };
    let mut kept = Kept::default();
    let more = "rebuild_rate = \"1M\"\n\
         [[system]]\nname = \"journal\"\ntarget = \"raid5(3)\"\n\
         [[system]]\nname = \"no sums\"\ntarget = \"raid5(3)\"\nchecksum = \"none\"\n\
         [[system]]\nname = \"no journal\"\ntarget = \"raid5(3)\"\nconsistency = \"resync\"\n";
    kept.run(&text("files", more), false).unwrap();
    let runs = kept.runs();
    let failed: Vec<_> = runs.iter().filter_map(|run| run.failed.as_ref()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let names: BTreeSet<&str> = (kept.runs().iter())
        .map(|run| run.workload.name.as_str())
        .collect();
    let expected = [
        "again after scrub",
        "again before scrub",
        "again during scrub",
        "dd-write",
        "growing after grow",
        "growing before grow",
        "growing during grow",
        "more after replace",
        "more before replace",
        "more during replace",
        "random-read after rebuild",
        "random-read before rebuild",
        "random-read during rebuild",
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    for run in kept.runs() {
        let during = run.workload.name.contains(" during ");
        assert_eq!(run.job.is_some(), during, "{}", run.workload.name);
    }
    // After the workload, the job continued alone.
    let went_on = |run: &&&Run| run.job.is_some_and(|job| job.alone_bytes > 0);
    assert!(kept.runs().iter().filter(went_on).count() > 0);
    let lines = spindles_measure::job_lines(&Analysis::of(&kept.records).unwrap());
    assert_eq!(lines.len(), 12);
    for line in lines {
        assert_eq!((line.operation.as_str(), line.stages.len()), ("read", 3));
        assert!(line.stages.iter().all(|stage| stage.p99_ns.value > 0.0));
    }
}

/// A job that a system does not support is refused before anything runs.
#[test]
fn jobs_that_a_system_cannot_have_are_refused() {
    let text = |members: &str, target: &str, job: &str| {
        format!(
            "name = \"x\"\nsize = \"8M\"\nblocks = 1\nmembers = \"{members}\"\ncontrol = false\n\
             chunk = \"16K\"\n\
             [[system]]\nname = \"a\"\ntarget = \"raid5(3)\"\n\
             [[system]]\nname = \"b\"\ntarget = \"{target}\"\n\
             [[workload]]\nkind = \"random-read\"\nbeside = \"{job}\"\nSYSTEMS"
        )
    };
    for (members, target, job, words) in [
        ("files", "single", "scrub", "arrays with redundancy"),
        ("files", "raid0(2)", "scrub", "arrays with redundancy"),
        ("files", "raid0(2)", "rebuild", "with redundancy"),
        ("files", "raid10(4)", "grow", "of a level that grows"),
        (
            "files",
            "raid0(raid5(3),raid5(3))",
            "grow",
            "of a level that grows",
        ),
        ("mem", "raid5(3)", "rebuild", "on files or devices"),
        ("mem", "raid5(3)", "replace", "on files or devices"),
        ("files", "single", "replace", "on files or devices"),
    ] {
        let text = text(members, target, job);
        let mut kept = Kept::default();
        let error = kept.run(&text.replace("SYSTEMS", ""), false).unwrap_err();
        let error = error.to_string();
        let message = format!("it runs alongside {job}, which is for ");
        for message in [
            "system \"",
            "random-read: ",
            &message,
            words,
            "list in its `systems`",
        ] {
            assert!(error.contains(message), "{target}: no {message} in {error}");
        }
        assert!(kept.records.is_empty());
        if members == "files" {
            let listed = text.replace("SYSTEMS", "systems = [\"a\"]\noperations = 300\n");
            kept.run(&listed, false).unwrap();
            let failed: Vec<_> = (kept.runs().iter())
                .filter_map(|run| run.failed.clone())
                .collect();
            assert!(failed.is_empty(), "{target}: {failed:?}");
        }
    }
}

/// A timed workload counts the operations of its time. With a rate, that many operations arrive,
/// and waiting for earlier ones counts too.
#[test]
fn times_rates_and_mixes() {
    let text = "name = \"x\"\nsize = \"4M\"\nblocks = 1\nmembers = \"mem\"\ncontrol = false\n\
                [[system]]\ntarget = \"single\"\n\
                [[workload]]\nkind = \"random-mixed\"\nreads = 25\nseconds = 1\n\
                [[workload]]\nkind = \"random-read\"\nseconds = 1\narrivals = 2000\n\
                [[workload]]\nname = \"counted\"\nkind = \"random-read\"\noperations = 500\n\
                arrivals = 5000\n\
                [[workload]]\nkind = \"dd-read\"\nseconds = 1\n";
    let mut kept = Kept::default();
    assert_eq!(kept.run(text, false).unwrap().failed, 0);
    let runs = kept.runs();
    for run in [runs[0], runs[1], runs[3]] {
        assert_eq!(run.workload.duration_ns, 1_000_000_000);
        let series = run.series.as_ref().unwrap();
        let warm_up_ns = u64::from(series.warm_up_slots) * series.slot_ns;
        assert!(run.elapsed_ns.abs_diff(1_000_000_000 - warm_up_ns) < 50_000_000);
        let counted: u64 = (run.latency.iter())
            .filter(|(name, _)| *name != "flush")
            .map(|(_, histogram)| histogram.total())
            .sum();
        assert_eq!(counted, run.operations);
        // Without an array the member moves the workload's bytes, the warm-up excluded from both.
        // Operations in flight at the end are in one of them only.
        for (below, above) in [
            (run.members.read, run.application.read),
            (run.members.written, run.application.written),
        ] {
            let in_flight = u64::from(run.workload.in_flight_max) * run.workload.operation_bytes;
            assert!(
                below.abs_diff(above) <= above / 50 + 2 * in_flight,
                "{below}, {above}"
            );
        }
    }
    let [reads, writes] = ["read", "write"].map(|name| runs[0].latency[name].total());
    let percent = reads * 100 / (reads + writes);
    assert!((22..=28).contains(&percent), "{percent}");
    assert_eq!(runs[0].counted, reads + writes);
    // A Poisson process of 2000 per second: within six deviations, unless the machine is asleep.
    let open = runs[1];
    assert_eq!(open.workload.arrivals_per_s, 2000);
    assert!(open.operations < 2270, "{}", open.operations);
    let rate = open.operations * 1_000_000_000 / open.elapsed_ns;
    assert!(rate > 1000, "{rate}");
    assert_eq!(open.response["read"].total(), open.operations);
    assert!(open.response["read"].max() >= open.latency["read"].max());
    assert!(runs[0].response.is_empty());
    assert_eq!(runs[2].operations, 500);
    assert!(runs[2].elapsed_ns > 60_000_000, "{}", runs[2].elapsed_ns);
    // More than the target holds: it wrapped around.
    assert!(runs[3].application.read > 4 << 20);
}

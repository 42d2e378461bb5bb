//! Experiments on modelled members: repeatable to the byte, right where a closed form is known, and
//! refused where nothing is modelled.

#![expect(clippy::cast_precision_loss, reason = "three digits matter")]

use super::{Kept, options};
use spindles_lab::{Draws, Experiment, Members, Observer, RecordsError};
use spindles_measure::{Record, Run, to_line};
use std::fs;
use std::sync::atomic::AtomicBool;

/// A disk with 10 ms for each request in turn, and no other time to speak of.
const TURN: &str = r#"
    name = "turn"
    kind = "fixed"
    sectors = { value = 1048576, how = "stated", source = "test" }
    read_request_ms = { value = 10, how = "stated", source = "test" }
    write_request_ms = { value = 10, how = "stated", source = "test" }
    read_rate_mb_s = { value = 1000000, how = "stated", source = "test" }
    write_rate_mb_s = { value = 1000000, how = "stated", source = "test" }
"#;

/// The same with a rate that is not known exactly.
const VAGUE: &str = r#"
    name = "vague"
    kind = "fixed"
    sectors = { value = 1048576, how = "stated", source = "test" }
    read_request_ms = { value = 10, low = 8, high = 13, how = "assumed", source = "test" }
    read_rate_mb_s = { value = 100, low = 80, high = 110, how = "sheet", source = "test" }
"#;

fn members(text: &str) -> Members {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.toml");
    fs::write(&file, text).unwrap();
    let word = format!("model:{}", file.display());
    Members::of_word(&word).unwrap().unwrap()
}

fn experiment(text: &str, members: &Members) -> Experiment {
    let text = format!("name = \"test\"\nblocks = 3\nwarmup = 4\ncontrol = false\n{text}");
    let mut experiment = Experiment::parse("test.toml", &text).unwrap();
    experiment.members = members.clone();
    experiment
}

fn run(experiment: &Experiment) -> Vec<Run> {
    let interrupt = AtomicBool::new(false);
    let mut kept = Kept::default();
    let outcome = spindles_lab::run(experiment, &options(&interrupt), &mut kept);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let failures: Vec<_> = kept
        .runs
        .iter()
        .filter_map(|run| run.failed.clone())
        .collect();
    assert_eq!((outcome.failed, failures), (0, vec![]));
    kept.runs
}

fn lines(runs: &[Run]) -> Vec<String> {
    let line = |run: &Run| to_line(&spindles_measure::Record::Run(Box::new(run.clone())));
    runs.iter().map(line).collect()
}

const MANY: &str = r#"
    size = "8M"
    [[system]]
    name = "single"
    target = "single"
    [[system]]
    name = "raid5"
    target = "raid5(4)"
    [[system]]
    name = "nested"
    target = "raid0(raid1(2),raid1(2))"
    [[workload]]
    kind = "dd-write"
    [[workload]]
    kind = "seeks"
    operations = 50
    [[workload]]
    kind = "random-write"
    operations = 100
    in_flight = 8
    [[workload]]
    name = "arriving"
    kind = "random-read"
    arrivals = 60
    seconds = 3
    [[workload]]
    kind = "cp"
    parameters = { size = "2M" }
"#;

#[test]
fn one_seed_gives_the_same_records() {
    let vague = members(VAGUE);
    let first = run(&experiment(MANY, &vague));
    assert_eq!(lines(&first), lines(&run(&experiment(MANY, &vague))));
    let numbers: Vec<f64> = (0..3)
        .map(|block| {
            let of_block = first.iter().filter(|run| run.repetition_block == block);
            let mut drawn = of_block.map(|run| run.predicted.clone().unwrap().numbers);
            let numbers = drawn.next().unwrap();
            assert!(
                drawn.all(|other| other == numbers),
                "one draw for each block"
            );
            numbers["read_request_ms"]
        })
        .collect();
    assert!(
        numbers.iter().all(|ms| (8.0..=13.0).contains(ms)),
        "{numbers:?}"
    );
    assert!(numbers[0].to_bits() != numbers[1].to_bits());
    // The disks of a block have the numbers that its records name: reads keep the disk busy.
    for run in first
        .iter()
        .filter(|run| (run.system.name.as_str(), run.workload.name.as_str()) == ("single", "seeks"))
    {
        let drawn_ms = run.predicted.as_ref().unwrap().numbers["read_request_ms"];
        let reads = run.evidence.as_ref().unwrap().members[0].requests.read;
        let read_ms = run.elapsed_ns as f64 / 1e6 / reads as f64;
        assert!(
            (drawn_ms * 0.97..drawn_ms * 1.1).contains(&read_ms),
            "{read_ms}, {drawn_ms}"
        );
    }
    let assumed = &first[0].predicted.as_ref().unwrap().assumed;
    assert_eq!(assumed, &["read_request_ms"]);
    let Members::Modelled(model) = &vague else {
        panic!("it is modelled");
    };
    let mut nominal = model.clone();
    nominal.draws = Draws::Nominal;
    for run in run(&experiment(MANY, &Members::Modelled(nominal))) {
        let numbers = run.predicted.unwrap().numbers;
        assert_eq!(numbers["read_request_ms"].to_bits(), 10.0_f64.to_bits());
    }
}

#[test]
fn one_seed_gives_the_same_records_on_flash() {
    let flash = Members::of_word("model:samsung-870-evo").unwrap().unwrap();
    let first = run(&experiment(MANY, &flash));
    assert_eq!(lines(&first), lines(&run(&experiment(MANY, &flash))));
}

/// A host with costs that are easy to add up.
const HOST: &str = r#"
    name = "plain"
    kind = "host"
    cpus = { value = 1, how = "stated", source = "test" }
    putc_us_per_kib = { value = 10, how = "stated", source = "test" }
    getc_us_per_kib = { value = 10, how = "stated", source = "test" }
    write_us_per_kib = { value = 5, low = 4, high = 6, how = "assumed", source = "test" }
    overwrite_us_per_kib = { value = 5, how = "stated", source = "test" }
    read_us_per_kib = { value = 5, how = "stated", source = "test" }
    array_write_us_per_kib = { value = 1, how = "stated", source = "test" }
    array_read_us_per_kib = { value = 1, how = "stated", source = "test" }
    syscall_us = { value = 1, how = "stated", source = "test" }
    create_us = { value = 100, how = "stated", source = "test" }
    remove_us = { value = 100, how = "stated", source = "test" }
    set_times_us = { value = 100, how = "stated", source = "test" }
    entry_scan_us = { value = 0, how = "stated", source = "test" }
    loop_ns = { value = 1, how = "stated", source = "test" }
    cache_mib = { value = 4, low = 3, high = 5, how = "assumed", source = "test" }
    dirty_percent = { value = 50, how = "stated", source = "test" }
    cluster_kib = { value = 64, how = "stated", source = "test" }
    read_ahead_clusters = { value = 2, how = "stated", source = "test" }
    write_behind_mib = { value = 1, how = "stated", source = "test" }
    write_back_age_s = { value = 0, how = "stated", source = "test" }
    write_back_period_s = { value = 30, how = "stated", source = "test" }
    openings = { value = 2, how = "stated", source = "test" }
"#;

/// Returns modelled members with the host of the tests.
fn hosted(text: &str) -> Members {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.toml");
    fs::write(&file, HOST).unwrap();
    let mut members = members(text);
    let Members::Modelled(model) = &mut members else {
        panic!("it is modelled");
    };
    model.host = Some(spindles_lab::load_host(&file.to_string_lossy()).unwrap());
    members
}

/// Files on a modelled host: the same records each time, with the numbers of the host.
#[test]
fn one_seed_gives_the_same_records_on_a_host() {
    let text = r#"
        checksum = "none"
        consistency = "none"
        [[system]]
        name = "single"
        target = "single"
        fs = "ffs"
        [[system]]
        name = "stripe"
        target = "raid0(3)"
        fs = "ffs"
        mount = "softdep"
        [[system]]
        name = "bare"
        target = "raid0(3)"
        [[system]]
        name = "raidz"
        target = "concat(3)"
        controller = "cmd-crd-5500"
        fs = "zfs"
        mkfs = ["raidz1", "3"]
        [[workload]]
        kind = "bonnie"
        parameters = { size = "8M", seeks = 50 }
        [[workload]]
        kind = "untar"
        parameters = { files = 300 }
        systems = ["single", "stripe"]
        [[workload]]
        kind = "varmail"
        parameters = { nfiles = 100, nthreads = 4, seconds = 5 }
        systems = ["single", "stripe", "raidz"]
        [[workload]]
        kind = "dd-read"
        size = "4M"
    "#;
    let vague = hosted(VAGUE);
    let first = run(&experiment(text, &vague));
    assert_eq!(lines(&first), lines(&run(&experiment(text, &vague))));
    for run in &first {
        let predicted = run.predicted.as_ref().unwrap();
        let cache_mib = predicted.numbers["host cache_mib"];
        assert!((3.0..=5.0).contains(&cache_mib), "{cache_mib}");
        let names = ["host cache_mib", "host write_us_per_kib"];
        assert!(
            names
                .iter()
                .all(|name| predicted.assumed.iter().any(|one| one == name))
        );
        let (fs, cpu_ns) = (predicted.file_system.as_str(), run.cpu_ns.workload);
        match run.workload.kind.as_str() {
            "dd-read" => assert_eq!((fs, cpu_ns), ("", 0)),
            _ if run.system.name == "bare" => assert!(fs == "bare" && cpu_ns > 0),
            _ if run.system.name == "raidz" => assert!(fs == "zfs" && cpu_ns > 0),
            _ => assert!(fs == "ffs" && !predicted.not_modelled.is_empty() && cpu_ns > 0),
        }
    }
}

/// Creation is two writes in turn, new times are one, and so is removal; asynchronously there is
/// only the processor. Making the file system writes each block of inodes in turn.
#[test]
fn times_on_a_host_follow_from_synchronous_writes() {
    let text = r#"
        [[system]]
        name = "sync"
        target = "single"
        fs = "ffs"
        [[system]]
        name = "async"
        target = "single"
        fs = "ffs"
        mount = "async"
        [[workload]]
        kind = "touch"
        parameters = { files = 400 }
        [[workload]]
        kind = "newfs"
        parameters = { command = "newfs -i 65536" }
        systems = ["sync"]
    "#;
    let runs = run(&experiment(text, &hosted(TURN)));
    let ms = |system: &str, workload: &str| {
        let of_cell = runs
            .iter()
            .filter(|run| run.system.name == system && run.workload.name == workload);
        let each = of_cell.map(|run| run.elapsed_ns as f64 / 1e6 / run.operations as f64);
        each.sum::<f64>() / 3.0
    };
    let near = |found: f64, expected: f64| {
        assert!(
            (found / expected - 1.0).abs() < 0.1,
            "{found}, not {expected}"
        );
    };
    // An operation of touch is a creation, or the closing of its file. A new chunk of the folder
    // is one more write, of its inode, and 64 inodes are one more read.
    near(
        ms("sync", "touch touch"),
        (20.1 + 10.0 / 25.0 + 10.0 / 64.0) / 2.0,
    );
    near(ms("sync", "touch retouch"), 10.1);
    near(ms("sync", "touch unlink"), 10.1);
    // Each phase begins with an empty memory: 7 blocks of inodes are read.
    near(ms("async", "touch retouch"), 0.1 + 7.0 * 10.0 / 400.0);
    // 9 groups with 15 blocks of inodes and two others, then the root and the superblock.
    near(ms("sync", "newfs"), 10.0 * (9.0 * 17.0 + 2.0));
}

/// A controller of 1 ms for a request.
const CONTROLLER: &str = r#"
    name = "ms"
    kind = "controller"
    cache_mib = { value = 2, how = "stated", source = "test" }
    high_percent = { value = 100, how = "stated", source = "test" }
    low_percent = { value = 99, how = "stated", source = "test" }
    destage_age_s = { value = 1000, how = "stated", source = "test" }
    request_ms = { value = 1, how = "stated", source = "test" }
    rate_mb_s = { value = 1000000, how = "stated", source = "test" }
    read_ahead_kib = { value = 0, low = 0, high = 0, how = "assumed", source = "test" }
"#;

/// Writes that the cache has room for take the controller's time, others that of the disks; reads
/// of written data come from the cache.
#[test]
fn a_controller_answers_from_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.toml");
    fs::write(&file, CONTROLLER).unwrap();
    let text = format!(
        r#"
        blocks = 2
        [[system]]
        name = "bare"
        target = "single"
        [[system]]
        name = "cached"
        target = "single"
        controller = "{}"
        [[workload]]
        name = "small"
        kind = "random-write"
        size = "1M"
        operations = 100
        in_flight = 1
        [[workload]]
        name = "again"
        kind = "random-read"
        size = "8M"
        operations = 100
        in_flight = 1
        [[workload]]
        name = "large"
        kind = "dd-write"
        size = "16M"
        chunk = "64K"
    "#,
        file.display()
    );
    let text = text.replace("blocks = 2", "");
    let runs = run(&experiment(&text, &members(TURN)));
    let ms = |system: &str, workload: &str| {
        let mut of = runs.iter();
        let run = of.find(|run| run.system.name == system && run.workload.name == workload);
        run.unwrap().elapsed_ns as f64 / 1e6
    };
    let is_near = |ms: f64, expected: f64| (ms / expected - 1.0).abs() < 0.01;
    assert!(is_near(ms("bare", "small"), 1000.0));
    // 1 ms for each write, and for the flush at the end.
    assert!(is_near(ms("cached", "small"), 101.0));
    let again = ms("cached", "again");
    assert!(
        is_near(ms("bare", "again"), 1000.0) && again < 1090.0,
        "{again}"
    );
    // Each write of 64 KiB takes 10 ms; those of the controller are larger.
    let (bare, cached) = (ms("bare", "large"), ms("cached", "large"));
    assert!(cached < bare * 0.6, "{cached} {bare}");
    let cached = runs.iter().find(|run| run.system.name == "cached").unwrap();
    let predicted = cached.predicted.as_ref().unwrap();
    assert!(predicted.numbers.contains_key("controller cache_mib"));
    assert!(
        predicted
            .assumed
            .contains(&"controller read_ahead_kib".to_owned())
    );
    assert_eq!(cached.system.options["controller"], "ms");
}

/// A raidz reads a record from all its disks at once, and a stripe from one of them.
#[test]
fn zfs_uses_the_disks_itself() {
    let text = r#"
        [[system]]
        name = "stripe"
        target = "concat(3)"
        fs = "zfs"
        mkfs = ["stripe", "3"]
        [[system]]
        name = "raidz"
        target = "concat(3)"
        fs = "zfs"
        mkfs = ["raidz1", "3"]
        [[workload]]
        kind = "oltp"
        [workload.parameters]
        filesize = "8M"
        nfiles = 2
        logfilesize = "1M"
        nshadows = 8
        ndbwriters = 1
        aio = 1
        usermode = 0
        seconds = 10
    "#;
    let runs = run(&experiment(text, &hosted(TURN)));
    let of = |system: &str| {
        let of = runs.iter().filter(|run| run.system.name == system);
        let each: Vec<f64> = of.map(|run| run.counted as f64).collect();
        each.iter().sum::<f64>() / each.len() as f64
    };
    // Each record takes two disks of a raidz of three for 10 ms, and one of a stripe.
    let ratio = of("stripe") / of("raidz");
    assert!((1.5..=3.5).contains(&ratio), "{ratio}");
}

/// Keeps runs, and panics when a system is filled.
#[derive(Default)]
struct Unfilled(Vec<Run>);

impl Observer for Unfilled {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.0.extend(record.run().cloned());
        Ok(())
    }

    fn progress(&mut self, _done: u64, _total: u64, what: &str) {
        assert!(!what.starts_with("filling"), "{what}");
    }
}

/// An array that a file system can't number fails at once. To fill its 54 TB would take hours.
#[test]
fn an_array_too_large_for_a_file_system_is_not_filled() {
    let text = r#"
        [[system]]
        name = "it"
        target = "raid0(3)"
        fs = "ffs"
        [[workload]]
        kind = "iozone"
        parameters = { size = "1M", record = "64K" }
    "#;
    let large = TURN.replace("1048576", "35156250000");
    let experiment = experiment(text, &hosted(&large));
    let interrupt = AtomicBool::new(false);
    let mut unfilled = Unfilled::default();
    spindles_lab::run(&experiment, &options(&interrupt), &mut unfilled).unwrap();
    assert!(!unfilled.0.is_empty());
    for run in &unfilled.0 {
        let why = run.failed.as_deref().unwrap_or_default();
        assert!(why.contains("too large for the file system"), "{why}");
    }
}

/// The software of an array multiplies what the host says of arrays.
#[test]
fn software_costs_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("software.toml");
    let number = "value = 3, how = \"stated\", source = \"test\"";
    let software = format!("name = \"s\"\nkind = \"software\"\ncost_factor = {{ {number} }}\n");
    fs::write(&file, software).unwrap();
    let system = |name: &str, more: &str| {
        format!("[[system]]\nname = \"{name}\"\ntarget = \"raid0(2)\"\n{more}\n")
    };
    let text = format!(
        "{}{}[[workload]]\nkind = \"iozone\"\nparameters = {{ size = \"1M\", record = \"64K\" }}\n",
        system("plain", ""),
        system("dear", &format!("software = \"{}\"", file.display()))
    );
    let runs = run(&experiment(&text, &hosted(TURN)));
    let of = |system: &'static str| runs.iter().filter(move |run| run.system.name == system);
    let mut pairs = 0;
    for dear in of("dear") {
        let is_pair = |run: &&Run| {
            run.repetition_block == dear.repetition_block && run.workload == dear.workload
        };
        let plain = of("plain").find(is_pair).unwrap();
        // 2 us more for each of 1024 KiB.
        assert_eq!(
            dear.cpu_ns.workload - plain.cpu_ns.workload,
            2 * 1024 * 1000
        );
        pairs += 1;
    }
    assert!(pairs > 3, "{pairs}");
}

#[test]
fn hosts_and_file_systems_are_refused_where_they_mean_nothing() {
    let system = |fs: &str, work: &str| {
        format!(
            "[[system]]\nname = \"it\"\ntarget = \"raid0(2)\"\n{fs}\n[[workload]]\nkind = \
             \"{work}\"\n"
        )
    };
    let newfs = "newfs\"\nparameters = { command = \"newfs -q 1\" } #\"";
    let cases = [
        (members(TURN), "fs = \"ffs\"", "touch", "ffs needs a host"),
        (
            Members::Files,
            "fs = \"ffs\"",
            "touch",
            "ffs is a modelled file system",
        ),
        (
            Members::Files,
            "controller = \"cmd-crd-5500\"",
            "touch",
            "controllers are modelled",
        ),
        (
            members(TURN),
            "software = \"ccd\"",
            "seeks\"\nsize = \"4M\" #\"",
            "`software` needs a host",
        ),
        (
            hosted(TURN),
            "fs = \"xfs\"",
            "touch",
            "choose `fs` among bare, ffs, ext2, ext4, zfs",
        ),
        (
            hosted(TURN),
            "",
            newfs,
            "the modelled newfs needs a file system",
        ),
        (
            hosted(TURN),
            "fs = \"ffs\"",
            newfs,
            "ffs takes -b, -f, -i and -g",
        ),
    ];
    for (members, fs, work, words) in cases {
        let experiment = experiment(&system(fs, work), &members);
        let interrupt = AtomicBool::new(false);
        let refused = spindles_lab::run(&experiment, &options(&interrupt), &mut Kept::default());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("line "), "{error}");
    }
    for (head, words) in [
        (
            "host = \"ppro-200-freebsd-2.2\"",
            "`host` is for modelled members",
        ),
        (
            "members = \"model:exos-x18-18tb\"\nhost = \"sata-600\"",
            "sata-600 is no host",
        ),
        (
            "members = { model = \"exos-x18-18tb\", start = \"1K\" }",
            "`start` is a size",
        ),
        (
            "members = { model = \"exos-x18-18tb\", length = \"much\" }",
            "`length` is a size",
        ),
        (
            "members = \"model:exos-x18-18tb\"",
            "sata-600 is no controller",
        ),
    ] {
        let text = format!(
            "name = \"test\"\n{head}\n{}",
            system(
                if words.contains("controller") {
                    "controller = \"sata-600\""
                } else {
                    "fs = \"ffs\""
                },
                "touch"
            )
        );
        let error = Experiment::parse("test.toml", &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
    for fs in [
        "fs = \"ffs\"\nmount = \"noatime\"",
        "fs = \"bare\"\nmount = \"sync\"",
    ] {
        let text = format!("name = \"test\"\n{}", system(fs, "touch"));
        assert!(Experiment::parse("test.toml", &text).is_err(), "{fs}");
    }
}

/// A host sends one request at a time to a disk without tags, so that a stream misses turns.
#[test]
fn hosts_without_tags_send_one_request_at_a_time() {
    let rate = |tags: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.toml");
        let tags =
            format!("tags = {{ value = \"{tags}\", how = \"stated\", source = \"test\" }}\n");
        fs::write(&file, format!("{HOST}{tags}")).unwrap();
        let text = format!(
            "name = \"test\"\nblocks = 1\ncontrol = false\nmembers = {{ model = \
             \"quantum-xp32150w\", links = [\"scsi-fast-wide shared\"] }}\nhost = \"{}\"\n\
             [[system]]\nname = \"it\"\ntarget = \"single\"\nfs = \"ffs\"\n[[workload]]\nkind = \
             \"bonnie\"\nparameters = {{ size = \"16M\", seeks = 10 }}\n",
            file.display()
        );
        let runs = run(&Experiment::parse("test.toml", &text).unwrap());
        let written = runs
            .iter()
            .find(|run| run.workload.name == "bonnie block-write");
        let written = written.unwrap();
        written.counted as f64 / written.elapsed_ns as f64 * 1e3
    };
    let [off, on] = ["off", "on"].map(rate);
    // One turn and the transfer for each 64 KiB.
    assert!(
        (3.3..4.2).contains(&off) && on > off * 1.4,
        "{off} and {on} MB/s"
    );
}

/// The evidence of modelled disks is exact: each read keeps the disk for 10 ms, and waits for
/// those before it.
#[test]
fn the_time_of_requests_is_known_exactly() {
    let text = r#"
        size = "8M"
        [[system]]
        target = "single"
        [[workload]]
        kind = "random-read"
        operations = 100
        in_flight = 4
    "#;
    for run in run(&experiment(text, &members(TURN))) {
        let evidence = run.evidence.unwrap();
        let time = evidence.members[0].time.unwrap();
        let requests = time.requests as f64;
        let busy = time.busy_ns as f64 / run.elapsed_ns as f64;
        assert!((0.99..1.001).contains(&busy), "{busy}");
        let each_ms = time.busy_ns as f64 / requests / 1e6;
        assert!((9.9..10.2).contains(&each_ms), "{each_ms}");
        // With four in flight, a read waits for three others.
        let response_ms = time.response_ns as f64 / requests / 1e6;
        assert!((38.0..40.1).contains(&response_ms), "{response_ms}");
    }
}

/// With a part a tenth faster and the same draws, a system that waits for this part alone is a
/// tenth faster, and one that does not is as fast as before.
#[test]
fn faster_parts_show_what_would_help() {
    let text = r#"
        size = "8M"
        [[system]]
        name = "single"
        target = "single"
        [[system]]
        name = "raid1"
        target = "raid1(2)"
        [[workload]]
        kind = "random-read"
        operations = 100
    "#;
    let mut experiment = experiment(text, &members(TURN));
    let Members::Modelled(model) = &mut experiment.members else {
        panic!("it is modelled");
    };
    model.what_would_help = true;
    let mut kept = Kept::default();
    let interrupt = AtomicBool::new(false);
    spindles_lab::run(&experiment, &options(&interrupt), &mut kept).unwrap();
    let is_base = |run: &&Run| run.faster_part().is_none();
    assert_eq!(kept.runs.iter().filter(is_base).count(), 2 * 3);
    // Two parts have numbers: requests and the transfer.
    assert_eq!(kept.runs.len(), 3 * 2 * 3);
    let head = spindles_measure::Experiment {
        baseline: "single".to_owned(),
        ..Default::default()
    };
    let runs = kept.runs.iter().cloned();
    let runs = runs.map(|run| spindles_measure::Record::Run(Box::new(run)));
    let head = spindles_measure::Record::Experiment(head);
    let records: Vec<_> = std::iter::once(head).chain(runs).collect();
    let analysis = spindles_measure::Analysis::of(&records).unwrap();
    assert_eq!(analysis.help.len(), 4);
    for help in &analysis.help {
        let gain = help.log_ratio.value.exp();
        let expected = if help.part == "requests" { 1.1 } else { 1.0 };
        assert!(
            (gain - expected).abs() < 0.002,
            "{} {}: {gain}",
            help.part,
            help.system
        );
    }
}

/// The rates of disks that take 10 ms for each request follow from the number of requests. Little's
/// law holds in every run.
#[test]
fn rates_follow_from_the_requests_of_members() {
    let text = r#"
        size = "8M"
        [[system]]
        name = "single"
        target = "single"
        [[system]]
        name = "stripe"
        target = "raid0(4)"
        [[system]]
        name = "parity"
        target = "raid5(4)"
        consistency = "none"
        checksum = "none"
        [[workload]]
        name = "reads"
        kind = "random-read"
        operations = 2000
        in_flight = 32
        [[workload]]
        name = "writes"
        kind = "random-write"
        operations = 2000
        in_flight = 32
    "#;
    let runs = run(&experiment(text, &members(TURN)));
    let rate = |system: &str, workload: &str| {
        let of_cell = runs
            .iter()
            .filter(|run| run.system.name == system && run.workload.name == workload);
        let rates = of_cell.map(|run| run.operations as f64 / (run.elapsed_ns as f64 / 1e9));
        rates.sum::<f64>() / 3.0
    };
    let near = |found: f64, expected: f64| {
        assert!(
            (found / expected - 1.0).abs() < 0.08,
            "{found}, not {expected}"
        );
    };
    near(rate("single", "reads"), 100.0);
    near(rate("single", "writes"), 100.0);
    // Four disks with 8 requests each on average are almost never idle.
    near(rate("stripe", "reads"), 400.0);
    near(rate("parity", "reads"), 400.0);
    // A write reads two chunks and writes two.
    near(rate("parity", "writes"), 100.0);
    for run in &runs {
        let latencies = run.latency.values();
        let sum_ns: f64 = latencies.map(|one| one.mean() * one.total() as f64).sum();
        let in_flight = sum_ns / run.elapsed_ns as f64;
        assert!((29.0..32.5).contains(&in_flight), "{in_flight}");
    }
}

/// Four disks that read faster together than the link they share: the link is full.
#[test]
fn a_shared_link_limits_all_disks() {
    let read = |links: &str| {
        let text = format!(
            "members = {{ model = \"exos-x18-18tb\", links = [{links}] }}\nsize = \"64M\"\n\
             [[system]]\nname = \"stripe\"\ntarget = \"raid0(4)\"\n[[workload]]\nkind = \
             \"dd-read\"\n"
        );
        let text = format!("name = \"test\"\nblocks = 1\ncontrol = false\n{text}");
        let experiment = Experiment::parse("test.toml", &text).unwrap();
        let runs = run(&experiment);
        runs[0].application.read as f64 / (runs[0].elapsed_ns as f64 / 1e3)
    };
    let (alone, shared) = (
        read("\"sata-600 each\""),
        read("\"sata-600 each\", \"pci-32-33 shared\""),
    );
    assert!(alone > 250.0, "{alone} MB/s");
    assert!((60.0..=133.0).contains(&shared), "{shared} MB/s");
    for (links, words) in [
        ("[\"sata-600\"]", "`each` or `shared`"),
        ("[\"sata-60 each\"]", "sata-600"),
        ("[\"exos-x18-18tb each\"]", "is no link"),
        ("\"sata-600 each\"", "`links` is a list"),
    ] {
        let text = format!(
            "name = \"test\"\nmembers = {{ model = \"exos-x18-18tb\", links = {links} }}\n\
             [[system]]\nname = \"it\"\ntarget = \"raid0(2)\"\n[[workload]]\nkind = \"seeks\"\n"
        );
        let error = Experiment::parse("test.toml", &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words) && error.contains("line 2"), "{error}");
    }
}

#[test]
fn what_is_not_modelled_is_refused() {
    let system = |target: &str, more: &str| {
        format!(
            "[[system]]\nname = \"it\"\ntarget = \"{target}\"\n{more}\n[[workload]]\nkind = \
             \"seeks\"\nsize = \"4M\"\n"
        )
    };
    let work = |kind: &str| {
        format!(
            "[[system]]\nname = \"it\"\ntarget = \"raid0(2)\"\n[[workload]]\n{kind}\nsize = \
             \"4M\"\n"
        )
    };
    for (text, words) in [
        (system("folder:/tmp", ""), "names real devices"),
        (system("raid1(/dev/sdx,/dev/sdy)", ""), "names real devices"),
        (system("/dev/sdx", ""), "names real devices"),
        (system("raid5(3)", "fs = \"xfs\""), "xfs is not modelled"),
        (
            system("raid1(2)", "controller = \"cmd-crd-5500\"") + "beside = \"scrub\"\n",
            "jobs behind a controller are not modelled",
        ),
        (
            work("kind = \"dd-parallel\""),
            "all members at once is not modelled",
        ),
    ] {
        let experiment = experiment(&text, &members(TURN));
        let interrupt = AtomicBool::new(false);
        let refused = spindles_lab::run(&experiment, &options(&interrupt), &mut Kept::default());
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains("line "),
            "{text}: {error}"
        );
    }
    for (word, words) in [
        ("model:/nowhere/disk.toml", "no such preset"),
        ("model:", "name of a model"),
    ] {
        let error = Members::of_word(word).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

/// The experiments in the repository are possible, and each has its predicted figures.
#[test]
fn the_predicted_experiments_are_possible() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/predicted");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.display().to_string();
            let experiment = Experiment::parse(&name, &text);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
            assert!(experiment.members.modelled().is_some(), "{name}");
            let figures = fs::read_to_string(path.with_extension("csv")).unwrap();
            // Some figures are ratios to the baseline.
            let systems = experiment.systems.iter();
            for system in systems.filter(|system| system.name != experiment.baseline) {
                let begin = format!("{},", system.name);
                let mut lines = figures.lines();
                assert!(
                    lines.any(|line| line.starts_with(&begin)),
                    "{name}: {begin}"
                );
            }
            names.push(experiment.name);
        }
    }
    assert_eq!(names.len(), 6, "{names:?}");
}

/// Systems run at the same time, and the records come in the order of one after the other.
#[test]
fn records_are_in_order() {
    let runs = run(&experiment(MANY, &members(VAGUE)));
    let orders: Vec<u32> = runs.iter().map(|run| run.order).collect();
    let all: Vec<u32> = (0..).take(orders.len()).collect();
    assert_eq!(orders, all);
    assert!(runs.is_sorted_by_key(|run| run.repetition_block));
}

/// Files that a workload makes first are there without time, and the disks read them.
#[test]
fn files_made_ready_are_read_from_the_disks() {
    let text = r#"
        [[system]]
        name = "sets"
        target = "concat(raid5(3),raid5(3))"
        fs = "zfs"
        mkfs = ["stripe", "2"]
        [[workload]]
        kind = "multistreamread"
        parameters = { filesize = "16M", seconds = 10 }
    "#;
    for run in run(&experiment(text, &hosted(TURN))) {
        let members = run.evidence.unwrap().members;
        assert_eq!(members.len(), 6);
        for member in members {
            // A read takes 10 ms, and there are no writes.
            let (read, write) = (member.requests.read, member.requests.written);
            assert!((200..=1001).contains(&read) && write == 0, "{read} {write}");
        }
    }
}

//! `lab` and `bench`: the output, results and leftovers, however they end.

use crate::loop_devices::Loops;
use crate::world::{MIB, Run, World, spindles, spindles_in};
use spindles_measure::Record;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An experiment on small files in `folder`.
fn experiment(folder: &Path, blocks: u32) -> String {
    format!(
        "name = \"small\"\nsize = \"1M\"\nblocks = {blocks}\nfolder = \"{}\"\n\
         [[system]]\ntarget = \"single\"\n\
         [[workload]]\nkind = \"block-write\"\n[[workload]]\nkind = \"block-read\"\n",
        folder.display()
    )
}

/// A folder with `small.toml`, and an empty folder `files` for the files of the run.
fn prepared(blocks: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = folder.path().join("files");
    fs::create_dir(&files).expect("a new folder");
    fs::write(folder.path().join("small.toml"), experiment(&files, blocks)).expect("a new file");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our names are UTF-8")
}

fn runs(results: &Path) -> usize {
    let records = spindles_lab::load(results).expect("records");
    records
        .iter()
        .filter(|record| matches!(record, Record::Run(_)))
        .count()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

/// A prediction stands next to a measurement in either order, as text, JSON and a page.
#[test]
fn a_prediction_is_compared_with_a_measurement() {
    let folder = prepared(2);
    let file = folder.path().join("small.toml");
    let [predicted, measured] = ["predicted", "measured"].map(|name| folder.path().join(name));
    let (predicted, measured) = (text(&predicted), text(&measured));
    let model = ["--members", "model:exos-x18-18tb", "--blocks", "3"];
    let run = ["lab", "run", text(&file), "--out"];
    spindles(&[&run[..], &[predicted], &model].concat()).ok();
    spindles(&[&run[..], &[measured]].concat()).ok();
    for sides in [[predicted, measured], [measured, predicted]] {
        let words = [&["lab", "compare"], &sides[..]].concat();
        let compared = spindles(&words).ok().out;
        for part in [
            "predicted: small, disks exos-x18-18tb",
            "Median error of 2 figures: ",
            " of 2 in the band.",
        ] {
            assert!(compared.contains(part), "{part}: {compared}");
        }
        let json = spindles(&[&words[..], &["--json"]].concat()).ok().json();
        let check = &json["prediction"];
        assert_eq!(check["models"][0], "exos-x18-18tb");
        assert_eq!(check["figures"].as_array().map(Vec::len), Some(2));
        assert!(
            check["figures"][0]["band"][1].as_f64() > check["figures"][0]["predicted"].as_f64()
        );
        let page = spindles(&[&words[..], &["--format", "html"]].concat())
            .ok()
            .out;
        assert!(page.contains("Circles are measurements"), "{page}");
    }
}

/// On request each part of modelled disks is made faster, and the report says what it would bring.
#[test]
fn a_prediction_says_what_would_help() {
    let folder = prepared(2);
    let file = folder.path().join("small.toml");
    let results = folder.path().join("results");
    let model = ["--members", "model:exos-x18-18tb", "--blocks", "2"];
    let run = ["lab", "run", text(&file), "--out", text(&results)];
    let options = ["--what-would-help", "--tables"];
    let out = spindles(&[&run[..], &model, &options].concat()).ok().out;
    let words: Vec<&str> = out.split_whitespace().collect();
    let out = words.join(" ");
    for part in ["spindle", "medium", "electronics", "interface", "arm"] {
        assert!(
            out.contains(&format!("block-read, single {part}")),
            "{part}: {out}"
        );
    }
    assert!(
        out.contains("Mean times of a request of a modelled disk"),
        "{out}"
    );
}

/// A file that happens to have the name of the report is kept.
#[test]
fn a_report_never_replaces_a_foreign_file() {
    let folder = prepared(1);
    let file = folder.path().join("small.toml");
    let results = folder.path().join("my results");
    let page = results.join("report.html");
    let of_another = |remedy: &str, words: &[&str]| {
        fs::write(&page, "my own notes").unwrap();
        spindles(words).fails(1, ["report.html: it is not a report of spindles", remedy]);
        assert_eq!(fs::read(&page).unwrap(), b"my own notes");
        fs::remove_file(&page).unwrap();
    };
    fs::create_dir(&results).unwrap();
    let run = ["lab", "run", text(&file), "--out", text(&results)];
    of_another("choose another folder with --out", &run);
    // Nothing ran, so the folder is still free.
    let command = format!("spindles lab report '{}' --", text(&results));
    spindles(&run).ok().prints(&command);
    // Our own report is rewritten.
    let report = ["lab", "report", text(&results)];
    spindles(&report).ok();
    of_another("--format html", &report);
    spindles(&report).ok();
}

#[test]
fn an_experiment_runs_and_reports() {
    let folder = prepared(3);
    let file = folder.path().join("small.toml");
    let results = folder.path().join("results");
    spindles(&["lab", "run", text(&file), "--out", text(&results)])
        .ok()
        .prints(["block-write", "single", "single again", "records.jsonl"]);
    assert_eq!(runs(&results), 12);
    assert!(is_empty(&folder.path().join("files")));

    spindles(&["lab", "run", text(&file), "--out", text(&results)])
        .fails(1, ["holds the records of another run", "--out"]);
    assert_eq!(runs(&results), 12);

    spindles(&["lab", "report", text(&results)])
        .ok()
        .prints("block-read");
    let csv = spindles(&["lab", "report", text(&results), "--format", "csv"]).ok();
    assert!(csv.out.lines().count() > 12, "{}", csv.out);
    let json = spindles(&["lab", "report", text(&results), "--json"])
        .ok()
        .json();
    assert_eq!(json["reports"].as_array().map(Vec::len), Some(1));
    spindles(&["lab", "compare", text(&results), text(&results)])
        .ok()
        .prints("none shown")
        .warns("is compared with itself");
    let json = spindles(&["lab", "compare", text(&results), text(&results), "--json"]);
    assert!(json.ok().json().is_object());
    several_reports_are_one_text(&results);
}

/// Checks several reports in each format: one text, or an error with the remedy.
fn several_reports_are_one_text(results: &Path) {
    let report = |arguments: &[&str]| spindles(&[&["lab", "report"], arguments].concat());
    let results = text(results);
    let one = report(&[results, "--format", "csv"]).ok().out;
    let two = report(&[results, results, "--format", "csv"]).ok().out;
    assert_eq!(two.lines().count(), 2 * one.lines().count() - 1);
    let two = report(&[results, results, "--format", "json"]).ok().json();
    assert_eq!(two["schema"], "spindles.lab.report");
    assert_eq!(two["reports"].as_array().map(Vec::len), Some(2));
    assert_eq!(two["reports"][0]["experiment"]["name"], "small");
    let html = report(&[results, results, "--format", "html"]);
    html.fails(2, ["--format html holds one report", "give one folder"]);

    let bonnie = report(&[results, "--format", "bonnie++"]);
    bonnie.fails(
        1,
        ["of runs of the workload bonnie++", "run such a workload"],
    );
    let sections = ["--sections", "headline"];
    let markdown = report(&[&[results, "--format", "markdown"][..], &sections].concat());
    markdown.fails(2, ["--format markdown has none", "--format html"]);
    let json = report(&[&[results, "--json"][..], &sections].concat());
    json.fails(2, ["--json writes no page", "leave them out"]);
    let records = format!("{results}/records.jsonl");
    let file = report(&[&[&*records][..], &sections].concat());
    file.fails(2, ["no page is written for a file", "--format html"]);
    report(&[&[results, "--format", "html"][..], &sections].concat()).ok();
}

/// Runs of the same experiment that begin at once without `--out` get separate folders.
#[test]
fn runs_started_in_one_second_get_separate_folders() {
    let folder = prepared(1);
    let begin = || {
        Command::new(env!("CARGO_BIN_EXE_spindles"))
            .args(["lab", "run", "small.toml"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built")
    };
    for mut run in [begin(), begin(), begin()] {
        assert!(run.wait().expect("it ends").success());
    }
    let results = fs::read_dir(folder.path().join("lab-results")).expect("a folder");
    let results: Vec<_> = results.flatten().map(|entry| entry.path()).collect();
    assert_eq!(results.len(), 3, "{results:?}");
    for results in results {
        assert_eq!(runs(&results), 4);
        assert!(results.join("report.html").exists());
    }
}

/// Control sequences in an experiment are shown, and have no effect.
#[test]
fn control_characters_of_experiments_are_escaped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let odd = folder.path().join("a\u{1b}[2Jb\u{9b}31m");
    fs::create_dir(&odd).expect("a new folder");
    let file = folder.path().join("odd.toml");
    let experiment = |target: &str| {
        let text = format!(
            "name = \"odd\"\nsummary = \"\\u001B[2J\"\nsize = \"1M\"\nblocks = 1\n[[system]]\n\
             target = \"{target}\"\n[[workload]]\nkind = \"dd-write\"\n"
        );
        fs::write(&file, text).expect("a new file");
    };
    let results = folder.path().join("results");
    let target = format!("folder:{}/a\\u001B[2Jb\\u009B31m", folder.path().display());
    experiment(&target);
    let run = spindles(&["lab", "run", text(&file), "--out", text(&results)]).ok();
    let again = spindles(&["lab", "report", text(&results), "--format", "markdown"]).ok();
    experiment("raid5(\\u001B[2J)");
    let wrong = spindles(&["lab", "run", text(&file)]).fails(2, "\\u{1b}[2J");
    assert!(run.out.contains("a\\u{1b}[2Jb\\u{9b}31m"), "{}", run.out);
    for output in [&run.out, &run.error, &again.out, &wrong.error] {
        let obeyed = output.contains(|c: char| c.is_control() && c != '\n');
        assert!(!obeyed, "{output:?}");
    }
}

/// An option without effect is refused, as in an experiment.
#[test]
fn bench_accepts_a_chunk_size_for_arrays_only() {
    let bench = |target: &str| spindles(&["bench", "dd-read", target, "--chunk", "64K"]);
    let words = [
        "--chunk means nothing for null:1M",
        "arrays that the lab makes",
    ];
    bench("null:1M").fails(2, words);
}

#[test]
fn compare_reports_different_work_before_its_results() {
    let folder = prepared(2);
    let at = |name: &str| folder.path().join(name);
    let (file, before, after) = (at("small.toml"), at("before"), at("after"));
    let run = |out: &Path| spindles(&["lab", "run", text(&file), "--out", text(out)]).ok();
    run(&before);
    let deeper = fs::read_to_string(&file).expect("a file") + "in_flight = 7\n";
    fs::write(&file, deeper).expect("a file");
    run(&after).prints("reads 8 KiB after 8 KiB, 7 in flight");
    let compare = ["lab", "compare", text(&before), text(&after)];
    let compared = spindles(&compare).ok().out;
    let message = compared.find("block-read: in flight 1 before, 7 after");
    assert!(message.expect("a warning") < compared.find("block-write").expect("a table"));
    assert!(
        compared.contains("1 not compared: different work"),
        "{compared}"
    );
    let heading = format!(", {}\n", text(&before));
    spindles(&[&compare[..], &["--different-work"]].concat())
        .ok()
        .prints_no("not compared")
        .prints(&heading);

    // Records of different experiments in one file are refused.
    let mixed = at("mixed.jsonl");
    let both = [&before, &after].map(|it| fs::read_to_string(it.join("records.jsonl")));
    fs::write(&mixed, both.map(|it| it.expect("records")).concat()).expect("a file");
    let message = [
        "mixed.jsonl, lines 1 and 1",
        "(block-read: in flight 1 and 7)",
    ];
    spindles(&["lab", "report", text(&mixed)]).fails(1, message);
    spindles(&["lab", "compare", text(&before), text(&mixed)]).fails(1, message);

    let other = at("other.jsonl");
    let records = fs::read_to_string(before.join("records.jsonl")).expect("records");
    fs::write(&other, records.replace("block-", "sector-")).expect("a file");
    let message = [
        "no system ran the same workload",
        "block-write",
        "sector-write",
    ];
    spindles(&["lab", "compare", text(&before), text(&other)]).fails(1, message);
}

#[test]
fn lab_results_are_one_json_document() {
    let folder = prepared(1);
    let file = folder.path().join("small.toml");
    let results = folder.path().join("results");
    let run = spindles(&["lab", "run", text(&file), "--out", text(&results), "--json"]).ok();
    assert_eq!(run.json()["folder"], text(&results));
    let bench = ["bench", "dd-read", "mem:4M", "--runs", "2", "--json"];
    assert!(spindles(&bench).ok().json().is_object());
    let list = spindles(&["lab", "list", "--json"]).ok().json();
    let count = list["workloads"].as_array().map(Vec::len);
    assert_eq!(count, Some(spindles_workload::KINDS.len()));
    let scale_min = |name: &str| {
        let mut all = list["experiments"].as_array().expect("a list").iter();
        let found = all.find(|it| it["name"] == name).expect("a built-in one");
        found["scale_min"].clone()
    };
    assert_eq!(scale_min("kernel-peers"), 0.02);
    assert!(scale_min("mirrors-vs-parity").is_null());
}

/// Random reads from devices that the user names, which nothing has written before.
#[test]
fn bench_reads_from_named_devices() {
    let devices = match Loops::new(3, 16 << 20) {
        Ok(devices) => devices,
        Err(reason) => return println!("SKIPPED: bench_reads_from_named_devices: {reason}"),
    };
    let target = format!("raid5({})", devices.names().join(","));
    let few = ["--size", "8M", "--operations", "300", "--runs", "2"];
    let arguments = [
        &["bench", "random-read", &target, "--force", "--json"][..],
        &few,
    ]
    .concat();
    let report = spindles(&arguments).ok().json();
    let cell = &report["report"]["cells"][0];
    let read = |of: &str| cell[of]["read"].as_u64().expect("bytes");
    assert!(
        read("application") > 0 && read("members") >= read("application"),
        "{cell}"
    );
}

#[test]
fn lab_list_shows_the_text_of_built_in_experiments() {
    for builtin in spindles_lab::builtin::BUILTINS {
        let shown = spindles(&["lab", "list", "--show", builtin.name]).ok();
        assert_eq!(shown.out, builtin.text);
    }
}

/// Sends this signal to a long run that has made records.
fn signalled(folder: &Path, results: &Path, signal: &str) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["lab", "run", text(&folder.join("small.toml"))])
        .args(["--out", text(results)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let began = Instant::now();
    let records = results.join("records.jsonl");
    let lines = || fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    while lines() < 7 {
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "no records are made"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, signal);
    child
}

fn send(child: &Child, signal: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("there is a kill").success());
}

/// Nothing is removed at a SIGKILL: the next run does that, except for files of a run that is still
/// going.
#[test]
fn the_next_run_removes_files_of_a_killed_one() {
    let folder = prepared(1000);
    let files = folder.path().join("files");
    let stopped = signalled(folder.path(), &folder.path().join("stopped"), "-STOP");
    let mut killed = signalled(folder.path(), &folder.path().join("killed"), "-KILL");
    killed.wait().expect("it ends");
    let count = || fs::read_dir(&files).expect("a folder").count();
    assert_eq!(count(), 2);

    let short = prepared(1);
    let small = short.path().join("small.toml");
    fs::write(&small, experiment(&files, 1)).expect("a file");
    let results = short.path().join("results");
    spindles(&["lab", "run", text(&small), "--out", text(&results)]).ok();
    assert_eq!(count(), 1);

    for signal in ["-CONT", "-INT"] {
        send(&stopped, signal);
    }
    let output = stopped.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("what ran is kept"), "{error}");
    assert_eq!(count(), 0);
}

/// After Ctrl-C or SIGTERM, even sent twice as by timeout(1), the records made so far are kept and
/// reported, and temporary files are removed.
/// temporary files go.
#[test]
fn an_interrupted_run_keeps_its_records_and_leaves_no_files() {
    for signal in ["-INT", "-TERM"] {
        let folder = prepared(1000);
        let results = folder.path().join("results");
        let child = signalled(folder.path(), &results, signal);
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{signal}: {error}");
        assert!(error.contains("interrupted: "), "{signal}: {error}");
        assert!(error.contains("what ran is kept"), "{signal}: {error}");
        assert!(runs(&results) >= 4);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("block-write"), "{signal}: {printed}");
        assert!(is_empty(&folder.path().join("files")), "{signal}");
    }
}

/// Losses of the array during the run are reported with its figures.
#[test]
fn bench_reports_device_incidents_during_the_run() {
    let folder = World::outside("a b data", 32 * MIB);
    folder.ok("create pool raid1(@a,@b)");
    folder.put("data", vec![7; 16 << 20]);
    folder.ok("copy @data array:@a,@b");
    let bench = "bench dd-read array:@a,@b --size 16M --runs 1";
    folder.ok(bench).warns_no("rotten");
    // Corrupt one half of each member, so that the run reads corrupt blocks from either member.
    for (member, half) in [("a", 0), ("b", 1)] {
        let (_, device) = folder.newest(member);
        let start = device.data_start().0 * 4096 + half * 8 * MIB;
        for at in 0..8 {
            folder.write(member, start + at * MIB, &vec![9; 64 << 10]);
        }
    }
    let run = folder.ok(&format!("{bench} --json")).warns("found rotten");
    let json = run.json();
    assert_ne!(json["incidents"][0]["rotten_bytes"], 0, "{json}");
}

/// Mounting requires root; without it the test reports that it was skipped.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}

/// Our array, served to the kernel, with ext4 on it: the workload runs, the file system is intact
/// afterwards, and nothing is left behind.
#[test]
fn bench_serves_mounts_and_checks_an_array() {
    if !is_root() {
        return println!("SKIPPED: bench_serves_mounts_and_checks_an_array: mounting takes root");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let variables = [("TMPDIR", text(folder.path()))];
    let done = spindles_in(
        ".",
        &variables,
        &[
            "bench",
            "varmail",
            "raid5(3)",
            "--fs",
            "ext4",
            "--mount",
            "noatime",
            "--set",
            "nfiles=200",
            "--set",
            "nthreads=4",
            "--set",
            "seconds=1",
            "--runs",
            "1",
            "--folder",
            text(folder.path()),
            "--json",
        ],
    )
    .ok();
    let report: serde_json::Value = serde_json::from_str(&done.out).expect("one document");
    let cell = &report["report"]["cells"][0];
    assert!(cell["operations"].as_u64() > Some(0), "{cell}");
    // Because of parity, the members get more bytes than the workload wrote.
    assert!(cell["members"]["written"].as_u64() > Some(0), "{cell}");
    let options = &report["report"]["experiment"]["systems"][0]["options"];
    assert_eq!(options["mount"], "noinit_itable,noatime", "{options}");
    assert!(options["through"].as_str().is_some_and(|it| !it.is_empty()));
    assert!(!done.error.contains("damaged"), "{}", done.error);
    assert!(is_empty(folder.path()));
    assert!(!used(folder.path()));
}

/// A fake ext4 check that reports damage from this call on.
fn check_that_fails(folder: &Path, call: u32) -> String {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let (program, calls) = (programs.join("e2fsck"), programs.join("calls"));
    fs::write(&calls, "").expect("a file");
    let script = format!(
        "#!/bin/sh\necho >> '{0}'\n\
         [ $(wc -l < '{0}') -lt {call} ] || {{ echo bad bitmap; exit 4; }}\n",
        calls.display()
    );
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", programs.display())
}

/// Runs on a file system that turns out to be damaged do not count, and every form of the report
/// says why.
#[test]
fn runs_on_a_damaged_file_system_count_as_failed() {
    if !is_root() {
        return println!(
            "SKIPPED: runs_on_a_damaged_file_system_count_as_failed: mounting takes root"
        );
    }
    let folder = prepared(2);
    let at = |name: &str| folder.path().join(name);
    let (file, results, good) = (at("small.toml"), at("results"), at("good"));
    let on_ext4 = fs::read_to_string(&file).expect("a file");
    let on_ext4 = on_ext4.replace("target = \"single\"", "target = \"single\"\nfs = \"ext4\"");
    fs::write(
        &file,
        on_ext4.replace("[[system]]", "control = false\n[[system]]"),
    )
    .expect("a file");
    let run = |out: &Path, variables: &[(&str, &str)]| {
        let words = ["lab", "run", text(&file), "--out", text(out)];
        spindles_in(".", variables, &words)
    };
    // The first check is at the preparation of the system, the others are in the blocks.
    let path = check_that_fails(folder.path(), 3);
    let damaged = "single: the ext4 on it is damaged, so its figures mean nothing";
    let of_report = "block-read: single (the ext4 on it is damaged";
    run(&results, &[("PATH", &path)])
        .fails(
            1,
            [
                damaged,
                "bad bitmap",
                "2 of 4 runs failed: the report says why",
            ],
        )
        .prints("Runs failed");
    let records = spindles_lab::load(&results).expect("records");
    let discards = records.iter().filter_map(|record| match record {
        Record::Discard(discard) => Some((&*discard.system, discard.repetition_block)),
        _ => None,
    });
    assert_eq!(discards.collect::<Vec<_>>(), [("single", 1)]);
    assert_eq!(runs(&results), 4, "they were recorded as they ended");

    let in_words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for form in ["terminal", "markdown", "json", "html"] {
        let report = spindles(&["lab", "report", text(&results), "--format", form]).ok();
        assert!(
            in_words(&report.out).contains(of_report),
            "{form}: {}",
            report.out
        );
    }
    let csv = spindles(&["lab", "report", text(&results), "--format", "csv"])
        .ok()
        .out;
    let message = csv
        .lines()
        .filter(|line| line.contains("the ext4 on it is damaged"));
    assert_eq!(message.count(), 2, "{csv}");
    let json = spindles(&["lab", "report", text(&results), "--json"])
        .ok()
        .json();
    let cells = json["reports"][0]["cells"].as_array().expect("cells");
    for cell in cells {
        let good = cell["repetitions"].as_array().map(Vec::len);
        assert_eq!(
            (cell["failed"].as_u64(), good),
            (Some(1), Some(1)),
            "{cell}"
        );
    }

    run(&good, &[]).ok();
    let compare = ["lab", "compare", text(&good), text(&results)];
    for form in [
        &[][..],
        &["--json"],
        &["--format", "markdown"],
        &["--format", "html"],
    ] {
        let compared = spindles(&[&compare[..], form].concat()).ok().out;
        let message = format!("after: {of_report}");
        assert!(
            in_words(&compared).contains(&message),
            "{form:?}: {compared}"
        );
    }

    let path = check_that_fails(folder.path(), 2);
    let words = [
        "bench", "touch", "single", "--fs", "ext4", "--set", "files=9", "--runs", "1",
    ];
    let here = ["--folder", text(folder.path())];
    let variables = [("PATH", &*path), ("TMPDIR", text(folder.path()))];
    spindles_in(".", &variables, &[&words[..], &here].concat())
        .fails(1, [damaged, "3 of 3 runs failed"]);
}

/// The same for trials: their results give no verdict.
#[test]
fn trials_on_a_damaged_file_system_count_as_failed() {
    if !is_root() {
        return println!(
            "SKIPPED: trials_on_a_damaged_file_system_count_as_failed: mounting takes root"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, results) = (folder.path().join("x.toml"), folder.path().join("results"));
    // Data in memory would be reread with emptied caches. Small records, since a verdict takes 50
    // ms.
    let experiment = format!(
        "name = \"x\"\nblocks = 1\nconfirm = true\ncontrol = false\ncaches = \"keep\"\n\
         folder = \"{}\"\n\
         [[system]]\ntarget = \"single\"\nfs = \"ext4\"\n[[workload]]\nkind = \"iozone\"\n\
         parameters = {{ size = \"48M\", record = \"1K\" }}\n",
        folder.path().display()
    );
    fs::write(&file, experiment).expect("a file");
    let words = ["lab", "run", text(&file), "--out", text(&results)];
    // The verdicts, and the trials that can confirm them, depend on the machine.
    let mut runs = (0..4).map(|_| {
        drop(fs::remove_dir_all(&results));
        let path = check_that_fails(folder.path(), 3);
        spindles_in(".", &[("PATH", &path)], &words)
    });
    let is_tried = |ran: &Run| !ran.error.contains("could be tried here");
    let Some(ran) = runs.find(is_tried) else {
        return println!("nothing that was said of this machine could be tried");
    };
    let ran = ran.fails(1, ["runs failed: the report says why"]);
    let records = spindles_lab::load(&results).expect("records");
    let mut trials = 0;
    for record in &records {
        match record {
            Record::Run(run) if run.trial.is_some() => {
                trials += 1;
                let why = run.failed.as_deref().unwrap_or_default();
                assert!(why.starts_with("the ext4 on it is damaged"), "{why}");
            }
            Record::Run(run) => assert_eq!(run.failed, None),
            Record::Discard(discard) => panic!("{discard:?}"),
            Record::Experiment(_) | Record::Environment(_) | Record::Calibration(_) => {}
        }
    }
    assert!(trials >= 6, "{trials}");
    assert!(ran.out.contains("Runs failed"), "{ran:?}");
}

/// Returns true if something is mounted in a folder, attached to a file in it, or serves there.
fn used(folder: &Path) -> bool {
    let name = text(folder);
    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let has = |path: &Path| {
        let bytes = read(path);
        bytes
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    };
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let attached = |entry: fs::DirEntry| has(&entry.path().join("loop/backing_file"));
    let serves = |entry: fs::DirEntry| has(&entry.path().join("cmdline"));
    has(Path::new("/proc/self/mountinfo"))
        || entries("/sys/class/block").any(attached)
        || entries("/proc").any(serves)
}

/// A killed lab leaves mounts, a loop device and a server; the next one in the same place removes
/// them.
#[test]
fn the_next_lab_removes_mounts_and_servers_of_a_killed_one() {
    if !is_root() {
        return println!(
            "SKIPPED: the_next_lab_removes_mounts_and_servers_of_a_killed_one: mounting takes root"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let variables = [("TMPDIR", text(folder.path()))];
    let small = ["--set", "nfiles=200", "--set", "nthreads=4", "--runs", "1"];
    let long = [
        "bench",
        "varmail",
        "raid1(2)",
        "--fs",
        "ext4",
        "--seconds",
        "60",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(long.iter().chain(&small))
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built");
    let began = Instant::now();
    let mounted = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
        let is_ours = |line: &&str| line.contains(text(folder.path())) && line.contains(" - ext4 ");
        let place = mounts.lines().find(is_ours)?.split(' ').nth(4)?.to_owned();
        Some(PathBuf::from(place))
    };
    let is_mounted = || mounted().is_some();
    // The file system is mounted several times: files exist once the workload runs.
    let has_files = || {
        let entries = mounted().and_then(|place| fs::read_dir(place).ok());
        let mut names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names.any(|name| name != "lost+found")
    };
    while !has_files() {
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "nothing runs on it"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it ended");
    assert!(used(folder.path()) && is_mounted());
    let short = [
        "bench", "dd-write", "raid1(2)", "--fs", "ext4", "--size", "1M", "--runs", "1", "--json",
    ];
    let report = spindles_in(".", &variables, &short).ok().json();
    // The described system is the array, not the file on it.
    let system = &report["report"]["experiment"]["systems"][0];
    assert_eq!(
        (&system["level"], &system["members"]),
        (&"raid1".into(), &2.into())
    );
    assert!(
        system["capacity_bytes"].as_u64() > Some(16 << 20),
        "{system}"
    );
    assert!(is_empty(folder.path()));
    // The kernel releases a loop device a little later.
    while used(folder.path()) {
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "something is left"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel's own RAID compared with our arrays, with the smallest experiment.
#[test]
fn kernel_peers_experiment_runs_completely() {
    if !is_root() {
        return println!("SKIPPED: kernel_peers_experiment_runs_completely: mounting takes root");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = folder.path().join("results");
    spindles(&[
        "lab",
        "run",
        "kernel-peers",
        "--scale",
        "0.02",
        "--repeat",
        "1",
        "--max-blocks",
        "1",
        "--folder",
        text(folder.path()),
        "--out",
        text(&results),
    ])
    .ok()
    .prints("btrfs raid5");
    // Six systems and the control of the baseline, eight phases each.
    assert_eq!(runs(&results), 48);
    // Members count the bytes of their own system only: a mirror writes the same to both.
    let mut mirrored = 0;
    for record in spindles_lab::load(&results).expect("records") {
        let Record::Run(run) = record else { continue };
        let members = run.each_member.len();
        assert_eq!(u32::try_from(members), Ok(run.system.members));
        if run.system.name == "raid1" {
            let [one, other] = [0, 1].map(|member| run.each_member[member].written);
            assert!(one.abs_diff(other) <= 1 << 20, "{one}, {other}");
            mirrored += one;
        }
    }
    assert!(mirrored > 10 << 20, "{mirrored}");
    let page = fs::read_to_string(results.join("report.html")).expect("a page");
    assert!(page.contains("at a scale of 0.02"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// Waiting for a slow device and for the next operation at once uses no CPU time.
#[test]
fn an_open_loop_sleeps_while_it_waits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("slow.sock");
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--filter=delay", "--unix", text(&socket)]);
    nbdkit.args(["memory", "64M", "rdelay=20ms"]);
    let Ok(mut nbdkit) = nbdkit.spawn() else {
        return println!("SKIPPED: an_open_loop_sleeps_while_it_waits: nbdkit is not installed");
    };
    let began = Instant::now();
    while UnixStream::connect(&socket).is_err() && began.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let address = format!("nbd+unix:///?socket={}", text(&socket));
    let asked = [
        "--seconds",
        "1",
        "--arrivals",
        "100",
        "--runs",
        "1",
        "--json",
    ];
    let done = spindles(&[&["bench", "random-read", address.as_str()][..], &asked].concat());
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
    let report: serde_json::Value = serde_json::from_str(&done.ok().out).expect("one document");
    let cell = &report["report"]["cells"][0];
    assert!(cell["operations"].as_u64() > Some(20), "{cell}");
    // About two are in flight at each moment. Busy waiting would use a whole CPU.
    let engine_ns = cell["cpu_ns"]["engine"].as_u64().expect("a number");
    assert!(engine_ns < 300_000_000, "{engine_ns}");
}

/// A dry run reports the time and losses of a run, and writes nothing.
#[test]
fn a_dry_run_reports_data_loss_and_writes_nothing() {
    let folder = World::outside("a b c", 8 * MIB);
    for device in ["a", "b", "c"] {
        folder.write(device, 0, &[0x5a; 9000]);
    }
    let members = ["a", "b", "c"].map(|name| format!("\"{}{name}\"", folder.full("")));
    let experiment = format!(
        "name = \"x\"\nblocks = 2\ncontrol = false\nmembers = [{}]\n[[system]]\n\
         target = \"raid5(3)\"\n[[workload]]\nkind = \"dd-write\"\nsize = \"2M\"\n",
        members.join(", ")
    );
    folder.put("x.toml", experiment);
    let before = folder.contents();
    let ran = folder.ok("lab run @x.toml --dry-run --out @results");
    assert!(folder.contents() == before);
    assert!(!Path::new(&folder.full("results")).exists());
    for message in ["2 runs in 2 blocks", "takes about ", "writes about "] {
        assert!(ran.out.contains(message), "{}", ran.out);
    }
    for device in ["a", "b", "c"] {
        let lost = format!("LOST: all on {}", folder.full(device));
        assert!(ran.out.contains(&lost), "{}", ran.out);
    }
}

/// Members of the lab replace the devices that another system's words name.
#[test]
fn files_with_the_names_of_described_devices_do_not_matter() {
    let folder = World::outside("a b c d", MIB);
    folder.here("lab run classic-2002 --dry-run").ends(0);
}

#[test]
fn described_chunks_of_whole_sectors_have_blocks_of_a_sector() {
    let folder = World::new("", 0);
    let words = "bench,dd-write,from:ccd0 558 none a b,--size,4M,--runs,1";
    let words: Vec<&str> = words.split(',').collect();
    folder.run_words(&words).ends(0);
}

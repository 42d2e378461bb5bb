//! Wrong calls of every command, as a table: each ends with the status in `bad_input/calls.txt`,
//! prints the text in `bad_input/messages.txt`, and changes nothing on any device.
//! `SPINDLES_UPDATE=1` rewrites the messages, to be reviewed in the diff.

use crate::world::{MIB, World, spindles};
use spindles_measure::{Experiment, Predicted, Record, Run, System, Workload, to_line};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls run at the same time.
const WORKERS: usize = 4;
/// A call that takes longer waits for something that never comes.
const HANGS_AFTER: Duration = Duration::from_mins(1);

struct Call {
    status: i32,
    words: Vec<String>,
}

/// Splits a line into words like a shell with only single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn calls() -> Vec<Call> {
    let lines = include_str!("bad_input/calls.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let calls = lines.map(|line| {
        let mut words = words(line);
        let status = words.remove(0).parse().expect("an exit status");
        Call { status, words }
    });
    calls.collect()
}

/// The records of an experiment with one run.
fn records(workload: &str, is_predicted: bool) -> String {
    let workload = Workload {
        name: workload.to_owned(),
        ..Workload::default()
    };
    let system = System {
        name: "single".to_owned(),
        ..System::default()
    };
    let experiment = Experiment {
        name: "x".to_owned(),
        systems: vec![system.clone()],
        workloads: vec![workload.clone()],
        ..Experiment::default()
    };
    let run = Run {
        system,
        workload,
        elapsed_ns: 1_000_000_000,
        counted: 100,
        predicted: is_predicted.then(Predicted::default),
        ..Run::default()
    };
    let head = to_line(&Record::Experiment(experiment));
    head + &to_line(&Record::Run(Box::new(run)))
}

/// Makes the files that the calls name.
fn world() -> World {
    let folder = World::outside("a b c free free2 free3 free4 spare", 2 * MIB).with_plain_names();
    let make = |names: &str, bytes| {
        for name in names.split(' ') {
            folder.make(name, bytes);
        }
    };
    make("k1 k2 k3 m1 m2 f1 f2 r1 r2 r3", 2 * MIB);
    make("l1 l2 l3 u1 u2 u3 p1 p2 p3 p4", 2 * MIB);
    make("tar tail ext damaged", 2 * MIB);
    make("big big2 bigtar log", 8 * MIB);
    make("w1 w2 w3", 64 * MIB);
    make("small", 256 << 10);
    make("empty", 0);
    for create in [
        "create pool raid5(@a,@b,@c)",
        "create logged raid5(@k1,@k2,@k3) --journal @log",
        "create mirror raid1(@m1,@m2)",
        "create wide raid1(@w1,@w2)",
        "create fast raid0(@f1,@f2) --checksum none --consistency none",
        "create plain raid5(@r1,@r2,@r3) --consistency resync",
        "create lame raid5(@l1,@l2,@l3)",
        "create unclean raid5(@u1,@u2,@u3)",
        "create nest raid1(raid0(@p1,@p2),raid0(@p3,@p4)) --chunk 64K",
        "spare add @spare --shared",
    ] {
        folder.ok(create);
    }
    folder.advance(&["l1", "l2"], &[2], true);
    folder.advance(&["u1", "u2"], &[2], false);
    for gone in ["l3", "u3"] {
        folder.remove(gone);
    }
    folder.copy("a", "twin");
    for (name, at, bytes) in [
        ("tar", 0, &b"notes/\0"[..]),
        ("bigtar", 0, b"notes/\0"),
        ("tail", 2 * MIB - 1, b"x"),
        ("ext", 1080, b"\x53\xef"),
        ("damaged", 4096, b"SPINDLES\x01\0\0\0garbage"),
    ] {
        folder.write(name, at, bytes);
    }
    let file = |name: &str, text: &str| folder.put(name, text);
    file("notes.txt", "what I must not forget\n");
    file("data", &"data ".repeat(50_000));
    for made in ["dir", "kept", "broken"] {
        fs::create_dir(folder.full(made)).expect("room");
    }
    file("kept/records.jsonl", "{}\n");
    let times = "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n";
    let gaps = times.replace("time_ns", "gap_ns");
    file(
        "good.trace",
        &format!("{times}0,read,0,4096,0,\n5,write,524288,4096,0,\n"),
    );
    file(
        "back.trace",
        &format!("{times}5,read,0,4096,0,\n4,read,0,4096,0,\n"),
    );
    file("cut.trace", &format!("{times}5,read,0,40"));
    file("gaps.trace", &format!("{gaps}0,read,0,4096,0,\n"));
    file("broken/records.jsonl", "these are no records\n");
    for (name, workload, predicted) in [
        ("predicted", "seeks", true),
        ("measured", "seeks 4K", false),
    ] {
        fs::create_dir(folder.full(name)).expect("room");
        file(
            &format!("{name}/records.jsonl"),
            &records(workload, predicted),
        );
    }
    let experiment = "name = \"x\"\nsize = \"16M\"\nbaseline = \"one\"\n";
    let system = "[[system]]\nname = \"one\"\ntarget = ";
    let workload = "[[workload]]\nkind = ";
    file("bad-syntax.toml", "name = \"x\nsize = 5");
    file("bad-field.toml", &format!("{experiment}colour = \"red\"\n"));
    file(
        "bad-level.toml",
        &format!("{experiment}{system}\"raid9(4)\"\n{workload}\"dd-read\"\n"),
    );
    file(
        "bad-workload.toml",
        &format!("{experiment}{system}\"single\"\n{workload}\"bonny\"\n"),
    );
    file(
        "no-systems.toml",
        &format!("{experiment}{workload}\"dd-read\"\n"),
    );
    file(
        "needs-force.toml",
        &format!("{experiment}{system}\"array:a,b,c\"\n{workload}\"dd-write\"\n"),
    );
    for (to, name) in [
        ("free", "link"),
        ("a", "link-to-a"),
        ("data", "link-to-data"),
        ("nowhere", "dangling"),
    ] {
        symlink(to, folder.full(name)).expect("room");
    }
    let pipe = Command::new("mkfifo").arg(folder.full("pipe")).status();
    assert!(pipe.expect("mkfifo is everywhere").success());
    // The path of a socket is limited in length, but that of the folder is not.
    let socket = std::os::unix::net::UnixListener::bind(folder.full("socket"));
    drop(socket.expect("a short path"));
    folder
}

/// Lists everything in a folder, with its time of change and its length.
fn look(folder: &Path, into: &mut BTreeMap<PathBuf, (i64, i64, u64)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        if metadata.is_dir() {
            look(&path, into);
        }
        let facts = (metadata.ctime(), metadata.ctime_nsec(), metadata.len());
        into.insert(path, facts);
    }
}

/// Runs the program in the folder. Returns the exit status and the output, or why there is no
/// status.
fn run(folder: &str, words: &[&str]) -> Result<(i32, String, String), String> {
    let texts = tempfile::tempdir().expect("a folder");
    let [out, error] = ["out", "error"].map(|name| texts.path().join(name));
    let into = |path: &Path| File::create(path).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(words)
        .current_dir(folder)
        .env("SPINDLES_SCAN", ".")
        .stdin(Stdio::null())
        .stdout(into(&out))
        .stderr(into(&error))
        .spawn()
        .expect("the binary was built");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if started.elapsed() > HANGS_AFTER {
            child.kill().expect("it is ours");
            child.wait().expect("it was killed");
            return Err("hangs".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |path: &Path| fs::read_to_string(path).expect("commands print UTF-8");
    let status = status.code().ok_or("was ended by a signal")?;
    Ok((status, text(&out), text(&error)))
}

/// Checks one call. Returns its output, or what is wrong with it.
fn check(call: &Call, folder: &str) -> Result<String, String> {
    let words: Vec<&str> = call.words.iter().map(String::as_str).collect();
    let (status, out, error) = run(folder, &words)?;
    if status != call.status {
        return Err(format!("exit status {status}: {out}{error}"));
    }
    let has_message = error.lines().any(|line| line.starts_with("spindles: "));
    if !has_message
        && !error.starts_with(env!("CARGO_PKG_DESCRIPTION"))
        && !error.contains("Usage:")
    {
        return Err(format!("no error: {out}{error}"));
    }
    let with_json = [&words[..], &["--json"]].concat();
    // After `--` it would be an argument.
    if !words.contains(&"--") {
        let (status, out, error) = run(folder, &with_json)?;
        let json: Result<serde_json::Value, _> = serde_json::from_str(&out);
        if status != call.status || (json.is_err() && !error.contains("Usage:")) {
            return Err(format!("with --json: status {status}: {out}{error}"));
        }
    }
    if !has_message {
        return Ok("(its help)".to_owned()); // No subcommand was named.
    }
    let output = without_others(&format!("{out}{error}"));
    Ok(without_identities(&output.replace(folder, "@/")))
}

/// Removes the `Served:` list of the arrays in other servers on this machine.
fn without_others(text: &str) -> String {
    let mut of_others = false;
    let lines = text.split_inclusive('\n').filter(|line| {
        of_others = line.starts_with("Served:") || (of_others && line.starts_with("  "));
        !of_others
    });
    lines.collect()
}

/// Replaces the UUIDs of arrays, which differ each time.
fn without_identities(text: &str) -> String {
    let is_identity = |word: &str| {
        let lengths = word.split('-').map(str::len);
        lengths.eq([8, 4, 4, 4, 12]) && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
    };
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let words = words.map(|word| {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_identity(end) {
            word.replace(end, "IDENTITY")
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

/// Formats a call as in `messages.txt`: command line, exit status and output.
fn shown(call: &Call, output: &str) -> String {
    let mut line = String::new();
    for word in &call.words {
        let quote = if word.is_empty() || word.contains(' ') {
            "'"
        } else {
            ""
        };
        write!(line, " {quote}{word}{quote}").expect("a string takes all");
    }
    format!("$ spindles{line}\n{}\n{}", call.status, output.trim_end())
}

#[test]
fn invalid_calls_report_the_error_and_change_nothing() {
    let calls = calls();
    assert!(calls.len() >= 300);
    let next = AtomicUsize::new(0);
    let work = || {
        let world = world();
        let folder = world.full("");
        let at = Path::new(&folder);
        let (mut before, mut results) = (BTreeMap::new(), Vec::new());
        look(at, &mut before);
        let bytes = |name: &PathBuf| name.is_file().then(|| fs::read(name).expect("it is there"));
        let contents: Vec<_> = before.keys().map(bytes).collect();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(call) = calls.get(index) else { break };
            let mut result = check(call, &folder);
            let mut after = BTreeMap::new();
            look(at, &mut after);
            if let Some(changed) = before.keys().chain(after.keys()).find(|path| {
                // Making and removing a file changes the time of its folder.
                let same = before.get(*path) == after.get(*path);
                !same && !path.is_dir()
            }) {
                result = Err(format!("{} was changed", changed.display()));
                before = after;
            }
            results.push((index, result));
        }
        let unchanged = before.keys().map(bytes).collect::<Vec<_>>() == contents;
        (results, unchanged)
    };
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (part, unchanged) = worker.join().expect("it checks, and does not panic");
            assert!(unchanged || part.iter().any(|(_, result)| result.is_err()));
            results.extend(part);
        }
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    let mut wrong = String::new();
    let mut blocks = Vec::new();
    for ((_, result), call) in results.iter().zip(&calls) {
        match result {
            Ok(output) => blocks.push(shown(call, output)),
            Err(why) => write!(wrong, "{}: {why}\n\n", shown(call, "")).expect("a string"),
        }
    }
    let page = blocks.join("\n\n") + "\n";
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/cli/bad_input/messages.txt"
    );
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        fs::write(path, &page).expect("room");
    }
    assert!(wrong.is_empty(), "{wrong}");
    let kept = fs::read_to_string(path).unwrap_or_default();
    let mut kept_blocks = kept.trim_end().split("\n\n$ ");
    let differs = blocks.iter().find(|block| {
        let kept = kept_blocks.next().unwrap_or_default();
        block.trim_start_matches("$ ") != kept.trim_start_matches("$ ")
    });
    assert!(
        kept == page,
        "another message than messages.txt has; SPINDLES_UPDATE=1 rewrites it, for you to \
         review:\n{}",
        differs.map_or("", String::as_str)
    );
}

/// After a complete document, a later failure prints no second one.
#[test]
fn a_failure_after_the_result_prints_no_second_document() {
    let run = spindles(&["examine", "/nonexistent/a.img", "--json"]).ends(1);
    let error = &run.json()["devices"][0]["error"];
    assert!(
        error
            .as_str()
            .is_some_and(|error| error.contains("/nonexistent/a.img")),
        "{error}"
    );
}

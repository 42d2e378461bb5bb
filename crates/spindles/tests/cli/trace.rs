//! Traces on the command line: shown, converted and replayed.

use crate::world::{MIB, World, spindles};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const OWN: &str = "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n\
    0,read,0,4096,1,120000\n1000000,write,8192,4096,1,95000\n1000000,read,4096,8192,1,80000\n\
    2000000,flush,0,0,1,2000000\n3000000,trim,4096,512,0,\n3000000,zero,65536,65536,0,\n";
const MSR: &str = "128166372003061629,hm,1,Read,4096,8192,113736\n\
    128166372016382155,hm,1,Write,0,4096,1286\n";
const CLOSED: &str = "operation,first_sector,sectors,response_us,gap_us\n\
    R,0,8,250,1000\nW,64,16,1500.25,2000\nR,8,8,300,500\n";

fn world() -> World {
    let world = World::new("", 0);
    world.put("day.trace", OWN);
    world.put("msr.csv", MSR);
    world.put("requests.csv", CLOSED);
    world
}

#[test]
fn a_trace_is_shown_with_a_profile_that_has_no_addresses() {
    let world = world();
    world.does("trace show day.trace").prints([
        "day.trace: spindles, 6 requests in 3.00 ms",
        "gap between requests",
        "response, flush",
        "hot spot at",
        "# spindles profile 1",
    ]);
    let shown = world.json("trace show day.trace");
    assert_eq!(
        (&shown["requests"], &shown["span_ns"]),
        (&6.into(), &3_000_000.into())
    );
    assert_eq!(shown["operations"][0]["operation"], "read");
    assert_eq!(shown["operations"][0]["sequential"], 1);
    assert_eq!(shown["operations"].as_array().map(Vec::len), Some(5));
    assert_eq!(shown["tenths"].as_array().map(Vec::len), Some(10));
    let profile = shown["profile"].to_string();
    assert!(
        !profile.contains("offset") && !profile.contains("client"),
        "{profile}"
    );
    // The same requests elsewhere have the same profile.
    let far = OWN
        .replace(",0,4096,1,120000", ",0,4096,7,120000")
        .replace(",8192,4096", ",16384,4096");
    world.put("far.trace", &far);
    assert_eq!(
        world.json("trace show far.trace")["profile"],
        shown["profile"]
    );
    // A closed loop has gaps after answers.
    let closed = world.json("trace show requests.csv");
    assert_eq!(
        (&closed["closed_loop"], &closed["depth_max"]),
        (&true.into(), &1.into())
    );
}

#[test]
fn traces_are_converted_and_files_kept() {
    let world = world();
    world
        .does("trace convert msr.csv new.trace")
        .prints("new.trace: 2 requests, from msr to spindles");
    let text = fs::read_to_string(world.full("new.trace")).expect("it was written");
    let expected = "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n\
        0,read,4096,8192,1,11373600\n1332052600,write,0,4096,1,128600\n";
    assert_eq!(text, expected);
    // Our own format is copied as it is, and a closed loop goes there and back.
    assert_eq!(world.does("trace convert day.trace -").out, OWN);
    world.does("trace convert requests.csv closed.trace");
    let back = world.does("trace convert closed.trace - --to requests").out;
    assert_eq!(back, CLOSED.replace(",500\n", ",0\n"));
    // An existing file stays, whatever happens.
    world.refuses(
        "trace convert day.trace new.trace",
        2,
        &["exists", "--force"],
    );
    assert_eq!(
        fs::read_to_string(world.full("new.trace")).expect("it is there"),
        expected
    );
    world.does("trace convert day.trace new.trace --force");
    assert_eq!(
        fs::read_to_string(world.full("new.trace")).expect("it is there"),
        OWN
    );
    world.put("cut.trace", OWN.trim_end());
    world.refuses(
        "trace convert cut.trace new.trace --force",
        2,
        &["line 8", "cut off"],
    );
    world.refuses(
        "trace convert cut.trace other.trace",
        2,
        &["line 8", "cut off"],
    );
    assert_eq!(
        fs::read_to_string(world.full("new.trace")).expect("it is there"),
        OWN
    );
    assert!(!fs::exists(world.full("other.trace")).expect("the folder is there"));
    world.refuses(
        "trace convert day.trace x.csv --to requests",
        2,
        &["request 1 has a time", "write the format spindles"],
    );
    world.refuses(
        "trace convert day.trace x --to msr",
        2,
        &["'msr'", "requests"],
    );
    let left = fs::read_dir(world.full("")).expect("the folder").count();
    assert_eq!(left, 6, "no other file is left");
}

#[test]
fn standard_input_is_read() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["trace", "show", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(MSR.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&json["format"], &json["requests"]),
        (&"msr".into(), &2.into())
    );
}

#[test]
fn a_replay_reports_answers_lateness_and_demerit() {
    let world = world();
    let run = world.json("trace replay day.trace --on mem:64M --responses out.csv --force");
    assert_eq!(
        (&run["requests"], &run["timing"]),
        (&6.into(), &"recorded".into())
    );
    let names: Vec<_> = (run["operations"].as_array().expect("a list").iter())
        .map(|row| row["operation"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["read", "write", "flush", "trim", "zero"]);
    // The last request is due after 3 ms.
    let ns = |value: &serde_json::Value| value.as_u64().expect("a time");
    assert!(ns(&run["elapsed_ns"]) >= 3_000_000);
    assert!(ns(&run["late"]["max_ns"]) > 0);
    assert_eq!(run["compared"]["requests"], 4);
    // The figure is that of the two lists of times.
    let out = fs::read_to_string(world.full("out.csv")).expect("it was written");
    let mut lines = out.lines();
    assert_eq!(
        lines.next(),
        Some("request,operation,offset,bytes,late_us,response_us")
    );
    let fields = lines.map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let fields: Vec<_> = fields.collect();
    assert_eq!(fields.len(), 6);
    let measured = ["1", "2", "3", "4"];
    let answers = fields
        .iter()
        .filter(|row| measured.contains(&row[0].as_str()));
    let mut replayed: Vec<f64> = answers.map(|row| row[5].parse().expect("a time")).collect();
    replayed.sort_by(f64::total_cmp);
    let pairs = replayed.iter().zip([80.0, 95.0, 120.0, 2000.0]);
    let sum: f64 = pairs
        .map(|(one, other)| (one - other) * (one - other))
        .sum();
    let demerit_us = (sum / 4.0).sqrt();
    let shown_us = run["compared"]["demerit_ns"].as_f64().expect("a time") / 1000.0;
    assert!(
        (demerit_us - shown_us).abs() < 0.1,
        "{demerit_us} {shown_us}"
    );
}

#[test]
fn timings_and_speeds_are_kept() {
    let world = world();
    let elapsed = |words: &str| {
        let run = world.json(&format!(
            "trace replay requests.csv --on mem:64M --force {words}"
        ));
        assert_eq!(run["requests"], 3);
        run["elapsed_ns"].as_u64().expect("a time")
    };
    // Gaps of 1 and 2 ms and recorded answers of 0.25 and 1.5 ms.
    assert!(elapsed("--timing recorded") >= 4_750_250);
    assert!(elapsed("--timing answered") >= 3_000_000);
    assert!(elapsed("--timing recorded --speed 0.05") >= 95_000_000);
    let flat = world.json("trace replay requests.csv --on mem:64M --force --timing flat-out");
    assert_eq!(flat["late"], serde_json::Value::Null);
}

#[test]
fn addresses_beyond_the_target_are_refused_wrapped_or_scaled() {
    let world = world();
    let far = "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n\
        0,read,0,4096,1,\n0,read,1048576,4096,1,\n0,read,3145728,4096,1,\n0,read,4190208,4096,1,\n";
    world.put("far.trace", far);
    world.make("disk.img", MIB);
    world.refuses(
        "trace replay far.trace --on disk.img",
        2,
        &["reaches to byte 4194304", "holds 1048576", "wrap or scale"],
    );
    for (how, places) in [
        ("wrap", ["0", "0", "0", "1044480"]),
        ("scale", ["0", "262144", "786432", "1044480"]),
    ] {
        let words = format!(
            "trace replay far.trace --on disk.img --beyond {how} --in-flight 1 --responses out.csv \
             --force"
        );
        world.does(&words);
        let out = fs::read_to_string(world.full("out.csv")).expect("it was written");
        let offsets = out
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(2).expect("a field"));
        assert_eq!(offsets.collect::<Vec<_>>(), places, "{how}");
    }
}

/// A trace with writes destroys: it takes --force. A trace of reads changes nothing.
#[test]
fn writes_on_what_exists_take_force() {
    let world = world();
    world.make("disk.img", MIB);
    let pattern = vec![0x5a; 1 << 20];
    world.write("disk.img", 0, &pattern);
    let contents = || fs::read(world.full("disk.img")).expect("it is there");
    world.refuses(
        "trace replay day.trace --on disk.img",
        1,
        &["would be lost", "--force"],
    );
    let reads = OWN
        .lines()
        .filter(|line| !["write", "trim", "zero"].iter().any(|w| line.contains(w)));
    let reads = reads.collect::<Vec<_>>().join("\n") + "\n";
    world.put("reads.trace", &reads);
    world.does("trace replay reads.trace --on disk.img");
    assert_eq!(contents(), pattern);
    world.does("trace replay day.trace --on disk.img --force");
    let after = contents();
    assert_ne!(after, pattern);
    // The write, the zeros, and nothing else: the trim covers the begin of the write.
    assert_eq!(after[131_072..], pattern[131_072..]);
    assert!(after[65_536..131_072].iter().all(|byte| *byte == 0));
    assert_eq!(after[12_288..65_536], pattern[12_288..65_536]);
}

/// The workload of experiments and bench, on arrays.
#[test]
fn bench_and_the_lab_replay_too() {
    let world = world();
    let file = world.full("day.trace");
    let trace = format!("trace={file}");
    let words = [
        "bench",
        "replay",
        "raid1(mem:64M,mem:64M)",
        "--runs",
        "1",
        "--set",
        &trace,
    ];
    let run = spindles(&[&words[..], &["--json"]].concat()).ok().json();
    assert!(
        run["report"]
            .to_string()
            .contains("replays 6 requests of a trace, recorded")
    );
    let listed = spindles(&["lab", "list", "--json"]).ok().json();
    assert_eq!(listed["trace_workloads"][0]["name"], "replay");
    let experiment = format!(
        "name = \"x\"\nblocks = 1\n[[system]]\ntarget = \"raid5(3)\"\n\
         [[workload]]\nkind = \"replay\"\nparameters = {{ trace = \"{file}\", speed = 2, timing = \
         \"answered\" }}\n"
    );
    world.put("x.toml", &experiment);
    world.does("lab run x.toml --out results");
    let records = fs::read_to_string(world.full("results/records.jsonl")).expect("records");
    let run = records
        .lines()
        .find(|line| line.contains("\"fsync\""))
        .expect("a run with a flush");
    assert!(run.contains("\"operations\":6"), "{run}");
    world.put("x.toml", experiment.replace("answered", "soon"));
    world.refuses(
        "lab run x.toml --out other",
        2,
        &[
            "line 7",
            "timing = soon: choose one of recorded, answered, flat-out",
        ],
    );
}

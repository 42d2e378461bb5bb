//! Commands that open no array: `layout`, `sim`, `bench engine` and `bench parity`.

use crate::world::{Run, spindles};
use serde_json::{Value, json};

fn run(line: &str) -> Run {
    spindles(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn layout_prints_the_map() {
    let map = run("layout raid6(5) --stripes 3").ends(0);
    assert_eq!(map.error, "");
    assert_eq!(
        map.out,
        "raid6 left-symmetric: 5 members, chunks of 64 KiB; holds all members but two; \
         survives any two missing members\n\
         \n\
         stripe  0  1  2  3  4\n     \
              0  Q  D0 D1 D2 P\n     \
              1  D0 D1 D2 P  Q\n     \
              2  D1 D2 P  Q  D0\n"
    );
    for (line, begin, end) in [
        (
            "layout raid5(a,b,c) --layout left-asymmetric --chunk 12K",
            "raid5 left-asymmetric: 3 members, chunks of 12 KiB",
            "a  b  c\n     0  D0 D1 P\n     1  D0 P  D1\n     2  P  D0 D1\n",
        ),
        (
            "layout raid5(3) --numbers array --stripes 2",
            "raid5",
            "0  D0 D1 P\n     1  D3 P  D2\n",
        ),
        ("layout raid5(2)", "raid5", "0  D0 P\n     1  P  D0\n"),
    ] {
        let out = run(line).ends(0).out;
        assert!(out.starts_with(begin) && out.ends_with(end), "{out}");
    }
    run("layout raid5(2)").fails(0, "raid5 on two members is a mirror in effect");
    let map = run("layout raid10:far2(3) --stripes 1 --json")
        .ends(0)
        .json();
    assert_eq!(map["layout"], "far 2");
    assert_eq!(map["chunk_bytes"], 65536);
    assert_eq!(map["columns"], json!(["0", "1", "2"]));
    assert_eq!(map["sections"], json!([1]));
    assert_eq!(map["rows"], json!([["D0", "D1", "D2"], ["C2", "C0", "C1"]]));
}

#[test]
fn layout_help_lists_every_level() {
    let levels = spindles_layout::LEVELS.iter();
    let summaries = levels.map(|level| level.summary.split(',').next().expect("words"));
    let summaries: Vec<&str> = summaries.collect();
    run("layout --help").ends(0).prints(summaries.as_slice());
}

#[test]
fn sim_summarizes_many_seeds() {
    let run_seeds = run("sim --seeds 0..8 --twice").ends(0);
    assert_eq!(run_seeds.error, "");
    let out = run_seeds.out;
    assert!(out.starts_with("seeds 0..8: 8 runs in "), "{out}");
    assert!(out.ends_with("all promises were kept\n"), "{out}");
    let summary = run("sim --seeds 0..4 --level raid6 --members 5 --json").ends(0);
    let summary = summary.json();
    assert_eq!(
        (&summary["runs"], &summary["failures"]),
        (&json!(4), &json!([]))
    );
}

#[test]
fn sim_traces_and_replays_one_seed() {
    let line = "sim --seed 5 --no-faults --ending power-loss";
    let end = run(line).ends(0).out;
    let trace = || run(&format!("{line} --trace")).ends(0).out;
    let out = trace();
    assert!(out.contains("-- power loss\n"), "{out}");
    assert!(out.contains("request 1: ") && out.ends_with("all promises were kept\n"));
    assert_eq!(trace(), out);
    let (first, last) = end.split_once('\n').expect("many lines");
    let more = " lines before these: --trace shows all)";
    assert!(first.ends_with(more), "{first}");
    assert!(out.ends_with(last) && last.lines().count() < 50, "{last}");
}

#[test]
fn bench_engine_reports_measurements() {
    let bench = |words: &str| run(&format!("bench engine --size 2M --slice 1 {words}")).ends(0);
    let out = bench("raid5(3) device").out;
    let lines = out.lines().skip(2);
    let rows = lines.map(|line| {
        line.split_whitespace()
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let rows: Vec<String> = rows.collect();
    for row in [
        "raid5(3) null healthy none",
        "raid5(3) null degraded none",
        "raid5(3) mem healthy none",
        "raid5(3) mem healthy default",
        "raid5(3) mem healthy ratio",
        "raid5(3) mem degraded default",
        "device null healthy none",
        "device mem healthy none",
    ] {
        assert!(rows.iter().any(|found| found == row), "{row} in {out}");
    }
    let report = bench("raid1(2) --members null --json").json();
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12);
    assert_eq!(rows[0]["work"], "read 4 KiB");
    assert_eq!(rows[0]["promises"], "none");
    assert_eq!(rows[0]["ratio"], Value::Null);
    assert_eq!(rows[0]["request_bytes"], 4096);
    let is_fast = |row: &Value| row["requests_per_s"].as_u64() > Some(0);
    assert!(rows.iter().all(is_fast), "{report}");
    // Default promises are compared with none.
    let report = bench("raid1(2) --members mem --json").json();
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 24);
    for row in rows {
        let is_default = row["promises"] == "default";
        assert_eq!(row["ratio"].as_f64() > Some(0.0), is_default, "{row}");
    }
}

#[test]
fn bench_parity_reports_measurements() {
    let bench = |words: &str| run(&format!("bench parity --rounds 1 --chunk 4K {words}")).ends(0);
    let table = bench("--data 3");
    assert_eq!(table.error, "");
    let out = table.prints("\narrays use: ").out;
    let begin = "parity of 3 data chunks of 4 KiB, GB/s on one core";
    assert!(out.starts_with(begin), "{out}");
    let scalar = out.lines().filter(|line| line.starts_with("scalar"));
    assert_eq!(scalar.count(), 3, "{out}");
    let report = bench("--json").json();
    assert_eq!(report["chunk_bytes"], 4096);
    assert!(report["memcpy_bytes_per_s"].as_f64() > Some(0.0));
    assert_eq!(report["rows"][0]["kernel"], "scalar");
    assert_eq!(report["rows"][0]["code"], "xor");
}

#[test]
fn errors_name_the_bad_input_and_the_remedy() {
    for (line, message) in [
        ("layout raid5", "lacks a level with its members here"),
        (
            "layout raid5(4",
            "lacks a ',' or a ')' here\n  raid5(4\n         ^",
        ),
        ("layout raid5(0)", "has a count that is not in 1..=64"),
        (
            "layout raid11(4)",
            "there is no level 'raid11'; there are concat, raid0, raid1,",
        ),
        (
            "layout raid6(3)",
            "raid6 needs at least 4 members, and there are 3: add members",
        ),
        ("layout raid0(99)", "has a count that is not in 1..=64"),
        (
            "layout raid10:far9(4)",
            "9 copies on 4 members: take at least 2",
        ),
        (
            "layout raid0(4) --layout near",
            "raid0 has no layout 'near'",
        ),
        (
            "layout raid5(4) --layout far",
            "it has left-symmetric, left-asymmetric",
        ),
        (
            "layout raid5(4) --chunk 0",
            "--chunk 0: a chunk of 0 bytes: take at least one block",
        ),
        (
            "layout raid5(4) --chunk 1000",
            "is not a multiple of the block of 512 bytes",
        ),
        (
            "layout raid5(4) --chunk 65M",
            "a chunk above 64M: take 64M or less",
        ),
        (
            "layout raid5(4) --chunk much",
            "invalid value 'much' for '--chunk <SIZE>'",
        ),
        ("layout raid5(4) --stripes 0", "0 is not in 1..=10000"),
        ("layout", "<EXPR|FILE>"),
        ("sim --seeds 9..3", "write 0..1000"),
        ("sim --level raid9", "only concat, raid0"),
        ("sim --level raid6 --members 3", "raid6 needs at least 4"),
        ("sim --fault flood", "only dropout"),
        ("sim --disk tape", "only memory"),
        ("sim --members 3", "--level"),
        ("bench engine raid6(2)", "raid6"),
        ("bench engine raid9(4)", "raid9"),
        (
            "bench parity --chunk 65M",
            "--chunk 65M: give a size from 1 to 64M",
        ),
        ("bench parity --data 62", "62 is not in 1..=61"),
    ] {
        assert_eq!(run(line).ends(2).warns(message).out, "", "{line}");
    }
}

//! Tests the formats of the original tools to the letter, and that their own tools can read them.
//! Incomplete runs must not be printed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::example;
use spindles_measure::{
    Analysis, Cpu, Experiment, Histogram, Part, Rate, Record, Run, System, Workload,
};
use spindles_report::{Options, outputs};

fn printed(name: &str, analysis: &Analysis) -> String {
    let output = outputs::by_name(name).expect("there is such an output");
    (output.report)(analysis, &Options::default())
}

/// A phase of a workload on 100 MiB with this duration and CPU time.
fn phase(kind: &str, phase: &str, seconds: f64, cpu_percent: f64) -> Run {
    let ns = |seconds: f64| {
        let whole = std::time::Duration::from_secs_f64(seconds).as_nanos();
        u64::try_from(whole).expect("some seconds")
    };
    let is_seeks = phase == "seeks";
    let parameters = [("chunk", "8192"), ("seeks", "4000"), ("size", "104857600")];
    Run {
        system: System {
            name: "wd0-a-long-name".to_owned(),
            level: "single".to_owned(),
            ..System::default()
        },
        workload: Workload {
            name: format!("{kind} {phase}"),
            kind: kind.to_owned(),
            rate: if is_seeks {
                Rate::Operations
            } else {
                Rate::Bytes
            },
            in_flight_max: if is_seeks { 3 } else { 1 },
            part: Some(Part {
                workload: kind.to_owned(),
                phase: phase.to_owned(),
            }),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Workload::default()
        },
        seed: 77,
        elapsed_ns: ns(seconds),
        counted: if is_seeks { 4000 } else { 100 << 20 },
        cpu_ns: Cpu {
            workload: ns(seconds * cpu_percent / 100.0),
            ..Cpu::default()
        },
        ..Run::default()
    }
}

fn six(kind: &str) -> Vec<Run> {
    let phases = [
        ("putc", 100.0, 95.0),
        ("rewrite", 50.0, 12.5),
        ("block-write", 20.0, 30.0),
        ("getc", 80.0, 99.0),
        ("block-read", 10.24, 25.04),
        ("seeks", 32.0, 14.0),
    ];
    let phases = phases.map(|(name, seconds, cpu)| phase(kind, name, seconds, cpu));
    phases.into()
}

fn analysis(runs: Vec<Run>) -> Analysis {
    let runs = (0..).zip(runs).map(|(order, run)| Run { order, ..run });
    let records: Vec<Record> = runs.map(|run| Record::Run(Box::new(run))).collect();
    Analysis::of(&records).expect("there are runs")
}

#[test]
fn the_bonnie_table_equals_bonnies_output() {
    let text = printed("legacy", &analysis(six("bonnie")));
    let table = "              -------Sequential Output-------- ---Sequential Input-- --Random--
              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---
Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU
wd0-a-lo  100  1024 95.0  5120 30.0  2048 12.5  1280 99.0 10000 25.0 125.0 14.0
";
    assert!(text.contains(table), "{text}");
    assert!(
        text.contains("# wd0-a-long-name, bonnie, repetition 1 of 1\n"),
        "{text}"
    );
    // An incomplete table is not printed.
    let mut runs = six("bonnie");
    runs[3].failed = Some("no space".to_owned());
    assert!(printed("legacy", &analysis(runs)).starts_with("# No run is"));
}

/// The tool of bonnie++ reads the line, and finds the chunk size that bonnie++ leaves out.
#[test]
fn bonnie_plus_plus_csv_has_fifty_fields_and_its_tool_reads_it() {
    let mut runs = six("bonnie++");
    let mut slow = Histogram::new();
    slow.record(123_456_789);
    runs[0].latency = BTreeMap::from([("write".to_owned(), slow)]);
    // Phases below half a second are not printed.
    runs[4].elapsed_ns = 499_999_999;
    let csv = printed("bonnie++", &analysis(runs));
    let fields: Vec<&str> = csv.trim_end().split(',').collect();
    assert_eq!(fields.len(), 50, "{csv}");
    assert_eq!(fields[0], "1.98");
    assert_eq!(
        fields[2..21].join(","),
        "wd0-a-long-name repetition 1 of \
         1,1,77,100M,8k,4000,3,1024,95,5120,30,2048,12,1280,99,+++++,+++,125.0,14"
    );
    assert_eq!(fields[38..44], ["123ms", "", "", "", "", ""]);

    let example = Analysis::of(&example::file_records(2)).unwrap();
    let all = csv.clone() + &printed("bonnie++", &example);
    let mut names: Vec<&str> = (example.experiment.systems.iter())
        .map(|system| &*system.name)
        .collect();
    names.retain(|name| Some(*name) != example.experiment.control.as_deref());
    assert_eq!(all.lines().count(), 1 + 2 * names.len());
    assert!(all.lines().all(|line| line.split(',').count() == 50));
    let child = Command::new("bon_csv2html")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!(
            "SKIPPED: bonnie_plus_plus_csv_has_fifty_fields_and_its_tool_reads_it: bon_csv2html is \
             not installed"
        );
        return;
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(all.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for cell in [
        "wd0-a-long-name repetition 1 of 1",
        ">100M<",
        ">8k<",
        ">125.0<",
        ">123ms<",
    ] {
        assert!(page.contains(cell), "{cell} is not in {page}");
    }
    for name in names {
        assert!(page.contains(&format!("{name} repetition 2 of 2")));
    }
}

#[test]
fn iozone_prints_bytes_per_second_and_marks_too_short_runs() {
    let run = |name: &str, seconds: f64| {
        let mut run = phase("iozone", name, seconds, 10.0);
        run.workload
            .parameters
            .insert("record".to_owned(), "65536".to_owned());
        run
    };
    let text = printed(
        "legacy",
        &analysis(vec![run("write", 16.0), run("read", 7.0)]),
    );
    let lines = "\tIOZONE writes a 100 Megabyte sequential file consisting of
\t1600 records which are each 65536 bytes in length.
\tIt then reads the file.  It prints the bytes-per-second
\trate at which the computer can read and write files.


Writing the 100 Megabyte file, 'iozone.tmp'...16.000000 seconds
Reading the file...7.000000 seconds

IOZONE performance measurements:
\t6553600 bytes/second for writing the file
\t14979657 bytes/second for reading the file
";
    assert!(text.contains(lines), "{text}");
    assert!(!text.contains("too quickly"));
    let quick = printed(
        "legacy",
        &analysis(vec![run("write", 3.0), run("read", 1.0)]),
    );
    assert!(
        quick.contains("\n\tiozone 500 \t(i.e., file size = 500 megabytes)\n"),
        "{quick}"
    );
}

/// From three sizes on, the output is a table.
#[test]
fn several_sizes_of_iozone_are_the_table_of_its_auto_mode() {
    let runs = [(1_u64, 512_u64), (2, 512), (4, 8192)].map(|(megabytes, record)| {
        ["write", "read"].map(|name| {
            let mut run = phase("iozone", name, 2.0, 10.0);
            run.counted = megabytes << 20;
            let whole = format!("iozone {megabytes} {record}");
            run.workload.name = format!("{whole} {name}");
            run.workload.part = Some(Part {
                workload: whole,
                phase: name.to_owned(),
            });
            let size = (megabytes << 20).to_string();
            run.workload.parameters.insert("size".to_owned(), size);
            run.workload
                .parameters
                .insert("record".to_owned(), record.to_string());
            run
        })
    });
    let text = printed("legacy", &analysis(runs.into_iter().flatten().collect()));
    let table = "MB      reclen  bytes/sec written   bytes/sec read      
1       512     524288              524288              
2       512     1048576             1048576             
4       8192    2097152             2097152             
Completed series of tests
";
    assert!(text.contains(table), "{text}");
}

/// A workload that runs all sizes and records itself has a phase for each.
#[test]
fn iozone_auto_mode_phases_form_its_table() {
    let runs = [
        "write 1M 512",
        "read 1M 512",
        "write 16M 8192",
        "read 16M 8192",
    ];
    let runs = runs.map(|name| phase("iozone", name, 2.0, 10.0));
    let text = printed("legacy", &analysis(runs.into()));
    let table = "MB      reclen  bytes/sec written   bytes/sec read      \n\
                 1       512     52428800            52428800            \n\
                 16      8192    52428800            52428800            \n\
                 Completed series of tests\n";
    assert!(text.contains(table), "{text}");
}

/// Small files have their own columns, if the workload has such phases.
#[test]
fn bonnie_plus_plus_has_small_file_columns() {
    let mut runs = six("bonnie++");
    for (name, seconds) in [("create-in-order", 10.0), ("delete-at-random", 0.1)] {
        let mut run = phase("bonnie++", name, seconds, 40.0);
        run.workload.rate = Rate::Operations;
        run.counted = 16_384;
        let files = run.counted.to_string();
        run.workload.parameters.insert("files".to_owned(), files);
        runs.push(run);
    }
    let csv = printed("bonnie++", &analysis(runs));
    let fields: Vec<&str> = csv.trim_end().split(',').collect();
    assert_eq!(fields.len(), 50, "{csv}");
    assert_eq!(fields[21..38].join(","), "16,,,,,1638,40,,,,,,,,,+++++,+++");
}

/// Thirteen operations, four of which move bytes: the identity of the mail server with which any
/// old figure can be checked.
#[test]
fn the_summary_of_filebench_keeps_its_identities() {
    let analysis = Analysis::of(&example::file_records(3)).unwrap();
    let text = printed("legacy", &analysis);
    let number = |text: &str| -> f64 {
        let digits = text.trim_matches(|c: char| !c.is_ascii_digit());
        digits
            .parse()
            .unwrap_or_else(|_| panic!("{text} is no number"))
    };
    let old = text
        .lines()
        .find(|line| line.ends_with("ms latency"))
        .unwrap();
    let words: Vec<&str> = old.split_whitespace().collect();
    let (reads, writes) = words[6].split_once('/').unwrap();
    let ratio = number(words[4]) / (number(reads) + number(writes));
    assert!((ratio - 3.25).abs() < 0.02, "{ratio}: {old}");
    let new = text.lines().find(|line| line.ends_with("ms/op")).unwrap();
    assert!(
        new.starts_with("IO Summary: ") && new.contains(" rd/wr "),
        "{new}"
    );
    // The old latency is the sum over thirteen operations divided by four.
    let latency = |line: &str, unit: &str| {
        let before = line.split(unit).next().unwrap();
        number(before.split_whitespace().last().unwrap())
    };
    let (of_old, of_new) = (latency(old, "ms latency"), latency(new, "ms/op"));
    assert!((of_old / of_new - 3.25).abs() < 0.02, "{of_old} {of_new}");
}

#[test]
fn time_separates_user_and_system_if_the_record_does() {
    let mut run = phase("touch", "touch", 62.5, 40.0);
    let text = |run: &Run| printed("legacy", &analysis(vec![run.clone()]));
    assert!(text(&run).contains("\nreal\t1m2.500s\nuser+sys\t0m25.000s\n"));
    let mut by_another = run.clone();
    by_another.cpu_ns.workload = 0;
    let found = text(&by_another);
    assert!(
        found.contains("real\t1m2.500s\n")
            && !found.contains("user+sys")
            && !found.contains("user\t"),
        "{found}"
    );
    run.evidence = Some(spindles_measure::Evidence {
        usage: Some(spindles_measure::Usage {
            user_ns: 1_000_000_000,
            system_ns: 24_000_000_000,
            ..spindles_measure::Usage::default()
        }),
        ..spindles_measure::Evidence::default()
    });
    let found = text(&run);
    assert!(
        found.contains("\nreal\t1m2.500s\nuser\t0m1.000s\nsys\t0m24.000s\n"),
        "{found}"
    );
}

/// The median repetition is printed, so the choice is not arbitrary.
#[test]
fn the_median_repetition_is_printed() {
    let mut runs = Vec::new();
    for (block, factor) in [(0, 3.0), (1, 1.0), (2, 2.0)] {
        for mut run in six("bonnie") {
            run.repetition_block = block;
            run.elapsed_ns = (std::time::Duration::from_nanos(run.elapsed_ns).mul_f64(factor))
                .as_nanos()
                .try_into()
                .unwrap();
            runs.push(run);
        }
    }
    let mut all = analysis(runs);
    all.experiment = Experiment {
        name: "mine".to_owned(),
        ..all.experiment
    };
    let text = printed("legacy", &all);
    assert!(text.contains(", repetition 3 of 3, the median\n"), "{text}");
    assert!(text.contains("wd0-a-lo  100   512 "), "{text}");
}

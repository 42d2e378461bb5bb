//! Records of interrupted, failed or careless experiments: every output still formats them, without
//! invalid figures.

use super::example;
use spindles_measure::verdicts::Intervention;
use spindles_measure::{
    Analysis, Beside, Calibration, DeviceUse, Evidence, JobShare, LinkUse, MemberRate, NodeRun,
    Record, Requests, Run, Stage, ThreadUse, Traffic, Trial, Verdicts, change,
};
use spindles_report::{OUTPUTS, Options, headline, outputs};

type Plant = fn(&mut Vec<Record>);

fn runs(records: &mut [Record]) -> impl Iterator<Item = &mut Run> {
    records.iter_mut().filter_map(Record::run_mut)
}

fn keep_runs(records: &mut Vec<Record>, keep: impl Fn(&Run) -> bool) {
    records.retain(|record| record.run().is_none_or(&keep));
}

const ODD: &[(&str, Plant)] = &[
    ("one block", |records| {
        keep_runs(records, |run| run.repetition_block == 0);
    }),
    ("two blocks", |records| {
        keep_runs(records, |run| run.repetition_block < 2);
    }),
    ("one run", |records| {
        keep_runs(records, |run| run.order == 0);
    }),
    ("only the baseline", |records| {
        keep_runs(records, |run| run.system.name == "single");
    }),
    ("no baseline", |records| {
        keep_runs(records, |run| run.system.level != "single");
    }),
    ("records without their head", |records| {
        records.drain(..2);
    }),
    ("cut off in the middle", |records| {
        records.truncate(100);
    }),
    ("a system that always fails", |records| {
        runs(records)
            .filter(|run| run.system.name == "raid5")
            .for_each(|run| run.failed = Some("device gone <b>".to_owned()));
    }),
    ("everything failed", |records| {
        runs(records).for_each(|run| run.failed = Some("no".to_owned()));
    }),
    ("runs of no time", |records| {
        runs(records).for_each(|run| run.elapsed_ns = 0);
    }),
    ("nothing but the rate is known", |records| {
        runs(records).for_each(|run| {
            run.latency.clear();
            run.cpu_ns = spindles_measure::Cpu::default();
            run.application = spindles_measure::Traffic::default();
            run.members = spindles_measure::Traffic::default();
        });
    }),
    ("slots of nothing", |records| {
        runs(records).for_each(|run| {
            if let Some(series) = &mut run.series {
                series
                    .slots
                    .iter_mut()
                    .for_each(|slot| *slot = spindles_measure::Slot::default());
                series.warm_up_slots = u32::MAX;
            }
        });
    }),
    ("slots without end", |records| {
        runs(records).for_each(|run| {
            if let Some(series) = &mut run.series {
                series.slot_ns = u64::MAX;
                for slot in &mut series.slots {
                    slot.operations = u64::MAX;
                    slot.latency = vec![(0, u64::MAX), (63, u64::MAX)];
                }
            }
        });
    }),
    ("prices that are none", |records| {
        let experiment = records[0].experiment_mut().expect("it comes first");
        let prices = [f64::NAN, f64::INFINITY, -1.0, 0.0];
        for (system, price) in experiment.systems.iter_mut().zip(prices) {
            system.price = Some(price);
        }
    }),
    ("parameters that are no numbers", |records| {
        runs(records).for_each(|run| {
            let values = run.workload.parameters.values_mut();
            values.for_each(|value| *value = "0".repeat(40) + "x");
            run.workload.operation_bytes = 0;
            run.workload.size_bytes = 0;
        });
    }),
    ("enormous figures", |records| {
        runs(records).for_each(|run| {
            run.counted = u64::MAX;
            run.elapsed_ns = 1;
        });
    }),
    ("evidence of nothing", |records| {
        runs(records).for_each(|run| run.evidence = Some(Evidence::default()));
        records.push(Record::Calibration(Box::default()));
    }),
    ("enormous evidence", |records| {
        let alone = MemberRate {
            read_bytes_per_s: u64::MAX,
            random_reads_per_s: u64::MAX,
            ..MemberRate::default()
        };
        records.push(Record::Calibration(Box::new(Calibration {
            members: vec![alone; 2],
            together_bytes_per_s: 1,
            ceilings: [("dd-read".to_owned(), 1.0)].into(),
            ..Calibration::default()
        })));
        let all = Traffic {
            read: u64::MAX,
            written: u64::MAX,
        };
        let device = |name: &str, bytes| DeviceUse {
            name: name.to_owned(),
            busy_ns: u64::MAX,
            queue_ns: u64::MAX,
            flush_ns: Some(u64::MAX),
            requests: Requests {
                read: u64::MAX,
                written: u64::MAX,
                flushed: u64::MAX,
            },
            bytes,
            ..DeviceUse::default()
        };
        runs(records).for_each(|run| {
            run.application = all;
            run.evidence = Some(Evidence {
                actors: u32::MAX,
                actor_ns: [
                    ("fsync".to_owned(), u64::MAX),
                    ("wait".to_owned(), u64::MAX),
                ]
                .into(),
                devices: vec![device("a", all), device("b", Traffic::default())],
                links: vec![LinkUse {
                    bits_per_s: Some(1),
                    received: u64::MAX,
                    overlimits: u64::MAX,
                    drops: u64::MAX,
                    ..LinkUse::default()
                }],
                threads: vec![ThreadUse {
                    cpu_ns: u64::MAX,
                    run_delay_ns: Some(u64::MAX),
                    ..ThreadUse::default()
                }],
                ..Evidence::default()
            });
        });
    }),
    ("trials of everything, some of them only half", |records| {
        let mut trials = Vec::new();
        for run in runs(records) {
            let changed = run.order.is_multiple_of(2);
            let trial = Trial {
                of: run.workload.name.clone(),
                change: Intervention::DoubleActors,
                pair: run.order,
                changed,
            };
            let trial = Run {
                trial: Some(trial),
                ..run.clone()
            };
            trials.push(Record::Run(Box::new(trial)));
        }
        records.extend(trials);
    }),
    ("names that are no names", |records| {
        runs(records).for_each(|run| {
            run.system.name = format!("<i>|\"a,b\"</i>\n{}", run.system.name.repeat(20));
        });
    }),
];

/// Trials are shown next to the verdict and change no figure.
#[test]
fn trials_are_shown_but_count_in_no_result() {
    let mut records = few_files(3);
    let plain = Analysis::of(&records).unwrap();
    let cell = plain.cells.iter().find(|cell| cell.verdicts.is_some());
    let cell = cell.expect("the example has evidence");
    let run = plain.runs_of(cell).next().unwrap();
    for pair in 0..3 {
        for changed in [false, true] {
            let trial = Trial {
                of: cell.workload.clone(),
                change: Intervention::DoubleActors,
                pair,
                changed,
            };
            records.push(Record::Run(Box::new(Run {
                counted: run.counted * if changed { 2 } else { 1 },
                trial: Some(trial),
                ..run.clone()
            })));
        }
    }
    let tried = Analysis::of(&records).unwrap();
    assert_eq!(tried.runs.len(), plain.runs.len());
    for (before, after) in plain.cells.iter().zip(&tried.cells) {
        assert_eq!(before.log_rate, after.log_rate);
    }
    let html = OUTPUTS.iter().find(|output| output.name == "html").unwrap();
    let page = (html.report)(&tried, &with_tables());
    let badge = "<b class=\"badge\">confirmed</b> use twice as many actors: the rate should grow \
        by at least 50 %, and it grew by 100 % (100 … 100 %)";
    assert!(page.contains(badge));
    let terminal = OUTPUTS.iter().find(|output| output.name == "terminal");
    let shown = (terminal.unwrap().report)(&tried, &with_tables());
    let tail = shown.split("more in the page (--format html)").last();
    assert!(tail.unwrap().contains("confirmed by trial, "), "{shown}");
    // The page contains everything for formatting it again.
    assert_eq!(page.matches("\"trial\":{").count(), 6);
}

/// Evidence that ends with the number of further items, in a doubt with more evidence.
#[test]
fn a_short_doubt_counts_further_items_once() {
    let mut records = example::records(3);
    runs(&mut records).for_each(|run| run.members.written /= 4);
    let analysis = Analysis::of(&records).unwrap();
    let caveats = headline(&analysis).caveats;
    let is_short = |line: &String| line.contains(" more (the first of 4).");
    assert!(caveats.iter().any(is_short), "{caveats:?}");
    assert!(!caveats.iter().any(|line| line.matches(" more").count() > 1));
}

/// Every output of a scaled experiment says so, as far as its format allows.
#[test]
fn every_output_states_that_it_is_scaled() {
    let line = "Scaled: all sizes and times at a scale of 0.02; sizes in names of workloads are \
        unscaled.";
    let without_size = "Scaled: all sizes and times at a scale of 0.02.";
    for (name, message) in [
        ("terminal", line),
        ("markdown", line),
        ("html", line),
        ("json", "\"scaled\": true"),
        ("csv", ",true,read,application,bytes,"),
        ("series", ",true,0,0,"),
        ("legacy", line),
        ("bonnie++", " (scaled),"),
    ] {
        let output = outputs::by_name(name).unwrap();
        for is_scaled in [true, false] {
            let mut records = example::file_records(2);
            let experiment = records[0].experiment_mut().expect("it comes first");
            experiment.scaled = is_scaled;
            "all sizes and times at a scale of 0.02".clone_into(&mut experiment.scaled_how);
            runs(&mut records).for_each(|run| run.scaled = is_scaled);
            let options = Options {
                width: 200,
                ..with_tables()
            };
            let mut analysis = Analysis::of(&records).unwrap();
            let text = (output.report)(&analysis, &options);
            let without = if message == line {
                without_size
            } else {
                message
            };
            assert_eq!(text.contains(without), is_scaled, "{name}");
            "writes size 5M".clone_into(&mut analysis.experiment.workloads[0].name);
            let text = (output.report)(&analysis, &options);
            let names_size = text.contains(message);
            assert!(names_size == is_scaled || message != line, "{name}");
        }
    }
    assert_eq!(OUTPUTS.len(), 8, "each form has a row here");
}

/// Failed cells are named and counted nowhere else; one block gets no verdict.
#[test]
fn failed_cells_and_single_blocks_are_reported() {
    let of = |blocks, failed: &[&str]| {
        let mut records = example::records(blocks);
        for run in runs(&mut records).filter(|run| failed.contains(&&*run.system.name)) {
            run.failed = Some("no space".to_owned());
        }
        Analysis::of(&records).unwrap()
    };
    let lead = |analysis: &Analysis| spindles_report::headline(analysis).lead;
    assert_eq!(
        lead(&of(1, &["raid0", "raid5"])),
        "Against single: no verdict in 35 comparisons, which have one block each; 14 failed."
    );
    let failed = of(3, &["raid0", "raid5"]);
    assert!(
        lead(&failed).ends_with(" of 35 comparisons; 14 failed."),
        "{}",
        lead(&failed)
    );
    assert_eq!(
        lead(&of(3, &["single"])),
        "Against single: nothing can be compared; 49 failed."
    );
    for name in ["terminal", "markdown", "html"] {
        let output = outputs::by_name(name).unwrap();
        let text = (output.report)(&failed, &with_tables());
        assert!(text.contains("✗ failed"), "{name}: {text}");
        for none in [" 0 op/s", ">0 op/s", " 0 B/s", ">0 B/s"] {
            let (before, _) = text.split_once(none).unwrap_or_default();
            assert_eq!(before, "", "{name}: {none}");
        }
        let text = (output.report)(&of(1, &[]), &with_tables());
        assert!(text.contains("one block: no verdict"), "{name}: {text}");
        assert!(!text.contains("no difference shown"), "{name}: {text}");
    }
}

/// Options for everything that the terminal can show.
fn with_tables() -> Options {
    Options {
        tables: true,
        ..Options::default()
    }
}

#[test]
fn every_output_draws_odd_records() {
    for (name, plant) in ODD {
        for mut records in [example::records(5), few_files(3)] {
            plant(&mut records);
            // Some concern systems that the second example lacks.
            if runs(&mut records).next().is_none() {
                continue;
            }
            let analysis = Analysis::of(&records).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!headline(&analysis).lead.is_empty(), "{name}");
            let same = change(&analysis, &analysis, Verdicts::SameWork);
            for output in OUTPUTS {
                let report = (output.report)(&analysis, &with_tables());
                let change = output.change.map(|change| change(&same, &with_tables()));
                for text in change.iter().chain([&report]) {
                    for bad in ["NaN", "inf ", "inf%", "−inf", ">inf<", "\"inf"] {
                        assert!(!text.contains(bad), "{name}, {}: {bad}", output.name);
                    }
                    let markup = match output.name {
                        "html" => text.contains("<i>|"),
                        "markdown" => text.contains("<i>"),
                        _ => false,
                    };
                    assert!(!markup, "{name}: a name became markup");
                }
            }
        }
    }
}

/// The second example without most of its phases and systems.
fn few_files(blocks: u32) -> Vec<Record> {
    let mut records = example::file_records(blocks);
    let kinds = [
        "bonnie++",
        "iozone",
        "touch",
        "random-read",
        "varmail",
        "random-read-paced",
    ];
    keep_runs(&mut records, |run| {
        kinds.contains(&&*run.workload.kind) && run.system.level != "raid1"
    });
    records
}

/// The second example on two nodes, one of which transferred three times as much as the other.
fn on_two_nodes(blocks: u32) -> Vec<Record> {
    let mut records = few_files(blocks);
    for run in runs(&mut records) {
        let node = |begin_ns: u64, counted: u64| NodeRun {
            name: format!("10.0.0.{begin_ns}"),
            begin_ns,
            elapsed_ns: 1_000_000_000,
            counted,
            ..NodeRun::default()
        };
        run.nodes = vec![node(0, 3 << 20), node(2_000_000, 1 << 20)];
        run.fairness = Some(0.8);
    }
    records
}

#[test]
fn the_share_of_each_node_is_reported() {
    let analysis = Analysis::of(&on_two_nodes(2)).expect("the example has runs");
    for name in ["terminal", "markdown"] {
        let output = outputs::by_name(name).expect("there is one");
        let text = (output.report)(&analysis, &with_tables());
        for words in ["fairness", "0.800", "1.00 MiB/s", "3.00 MiB/s"] {
            assert!(text.contains(words), "no {words} in {name}: {text}");
        }
    }
    let alone = Analysis::of(&few_files(2)).expect("the example has runs");
    let output = outputs::by_name("terminal").expect("there is one");
    assert!(!(output.report)(&alone, &with_tables()).contains("fairness"));
}

#[test]
fn sections_can_be_chosen() {
    // Together they fill every section.
    let [one, other] = [during_a_rebuild(3), on_two_nodes(2)]
        .map(|records| Analysis::of(&records).expect("the examples have runs"));
    let all = [one, other, super::golden::predicted()];
    let html = outputs::by_name("html").expect("there is an HTML output");
    let names = outputs::section_names();
    assert!(
        names.contains(&"doubts") && names.contains(&"latency"),
        "{names:?}"
    );
    for chosen in &names {
        let options = Options {
            sections: vec![(*chosen).to_owned()],
            ..Options::default()
        };
        let pages = all
            .each_ref()
            .map(|records| (html.report)(records, &options));
        for name in &names {
            let section = format!("<section id=\"{name}\"");
            let there = pages.iter().any(|page| page.contains(&section));
            assert_eq!(there, name == chosen, "{name} when {chosen} was asked for");
        }
    }
}

/// The example with its first three workloads turned into one that runs next to a rebuild.
fn during_a_rebuild(blocks: u32) -> Vec<Record> {
    let mut records = example::records(blocks);
    let experiment = records[0].experiment_mut().expect("it comes first");
    let names = experiment.workloads.iter().take(3);
    let names: Vec<String> = names.map(|workload| workload.name.clone()).collect();
    let place = |name: &str| {
        let at = names.iter().position(|one| one == name)?;
        Some(Beside {
            job: "rebuild".to_owned(),
            stage: Stage::ALL[at],
            workload: "mine".to_owned(),
        })
    };
    for workload in &mut experiment.workloads {
        workload.beside = place(&workload.name);
    }
    let share = JobShare {
        beside_bytes: 10 << 20,
        beside_ns: 1_000_000_000,
        alone_bytes: 40 << 20,
        alone_ns: 1_000_000_000,
    };
    runs(&mut records).for_each(|run| {
        run.workload.beside = place(&run.workload.name);
        let during = (run.workload.beside.as_ref()).is_some_and(|own| own.stage == Stage::During);
        run.job = during.then_some(share);
    });
    records
}

/// Every format shows the stages before, during and after a job next to each other.
#[test]
fn latency_during_a_job_is_shown() {
    let analysis = Analysis::of(&during_a_rebuild(8)).unwrap();
    for name in ["terminal", "markdown", "html"] {
        let output = outputs::by_name(name).unwrap();
        let text = (output.report)(&analysis, &with_tables());
        for words in ["mine", "10.0 MiB/s", "40.0 MiB/s", "25 %"] {
            assert!(text.contains(words), "{name} lacks {words}");
        }
    }
}

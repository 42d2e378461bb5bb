//! From records to verdicts and doubts: planted differences are found, planted faults are doubted,
//! and equal systems show no difference.

use super::example;
use spindles_measure::{
    Analysis, AnalysisError, CacheUse, Calibration, Change, Comparison, DeviceUse, Difference,
    Discard, Doubt, Environment, Evidence, Experiment, Finding, HALF_WIDTH_TARGET, Histogram, Io,
    LateMember, MemberRate, MemberUse, Predicted, Quantity, Reason, Record, Requests, Run, Series,
    Slot, Staging, System, ThreadUse, Traffic, Trial, Verdict, Verdicts, Workload, change, doubts,
    from_lines,
    statistics::Random,
    to_line,
    verdicts::{CellVerdicts, Grade, Intervention},
};

const SYSTEMS: &[&str] = &[
    "single",
    "single-again",
    "raid0",
    "raid1",
    "raid4",
    "raid5",
    "raid6",
];
const WORKLOADS: &[&str] = &["dd-read", "dd-write", "seeks"];

/// Six blocks of the example, reduced to a few systems and workloads, without any cause for doubt.
fn spotless() -> Vec<Record> {
    let mut records = example::records(6);
    records.retain(|record| {
        record.run().is_none_or(|run| {
            SYSTEMS.contains(&&*run.system.name) && WORKLOADS.contains(&&*run.workload.name)
        })
    });
    for record in &mut records {
        match record {
            Record::Experiment(experiment) => {
                experiment.scaled = false;
                experiment.shared_device = false;
                let (systems, workloads) = (&mut experiment.systems, &mut experiment.workloads);
                systems.retain(|system| SYSTEMS.contains(&&*system.name));
                workloads.retain(|workload| WORKLOADS.contains(&&*workload.name));
            }
            Record::Environment(environment) => environment.virtualization.clear(),
            Record::Calibration(_) | Record::Discard(_) => {}
            Record::Run(run) => {
                run.scaled = false;
                run.shared_device = false;
                // The same rate in every block, whatever the system: 100 plus one tiny step.
                run.elapsed_ns = 1_000_000_000 + u64::from(run.repetition_block * 7 % 5);
                run.counted = 1_000_000;
                run.cpu_ns = spindles_measure::Cpu {
                    workload: 1,
                    engine: 1,
                    machine: 9,
                };
            }
        }
    }
    records
}

fn runs(records: &mut [Record]) -> impl Iterator<Item = &mut Run> {
    records.iter_mut().filter_map(Record::run_mut)
}

fn of_system<'a>(records: &'a mut [Record], name: &'a str) -> impl Iterator<Item = &'a mut Run> {
    runs(records).filter(move |run| run.system.name == name)
}

fn environment(records: &mut [Record]) -> &mut Environment {
    records
        .iter_mut()
        .find_map(|record| match record {
            Record::Environment(environment) => Some(environment),
            _ => None,
        })
        .unwrap()
}

fn experiment(records: &mut [Record]) -> &mut Experiment {
    records[0].experiment_mut().expect("it comes first")
}

fn begin_later(record: &mut Record) {
    match record {
        Record::Experiment(experiment) => experiment.started_unix_ms += 1_000_000,
        Record::Run(run) => run.started_unix_ms += 1_000_000,
        _ => {}
    }
}

fn kinds_found(records: &[Record]) -> Vec<String> {
    let analysis = Analysis::of(records).unwrap();
    analysis
        .findings
        .iter()
        .map(|finding| finding.kind.clone())
        .collect()
}

type Plant = fn(&mut Vec<Record>);

/// For each kind of doubt, a function that plants a cause.
const CAUSES: &[(&str, Plant)] = &[
    ("missing-runs", |records| {
        records.pop();
    }),
    ("failed-runs", |records| {
        runs(records).next().unwrap().failed = Some("device gone".to_owned());
    }),
    ("debug-build", |records| {
        environment(records).profile = String::from("debug");
    }),
    ("member-bytes-disagree", |records| {
        of_system(records, "raid5").for_each(|run| run.members.written /= 2);
    }),
    ("cache-effect", |records| {
        runs(records).for_each(|run| run.io.direct = false);
    }),
    ("page-cache", |records| {
        runs(records).for_each(|run| {
            run.io = Io {
                backend: "files".to_owned(),
                direct: false,
            };
        });
    }),
    ("overload", |records| {
        of_system(records, "raid5").for_each(|run| {
            run.workload.arrivals_per_s = 1_000_000;
            run.operations = 900_000;
        });
        experiment(records).workloads[0].arrivals_per_s = 1_000_000;
    }),
    ("recorded-again", |records| {
        let again = records.last().unwrap().clone();
        records.push(again);
    }),
    ("no-disk", |records| {
        of_system(records, "raid1").for_each(|run| {
            run.io = Io {
                backend: "mem".to_owned(),
                direct: false,
            };
        });
    }),
    ("modelled", |records| {
        of_system(records, "raid5").for_each(|run| {
            run.predicted = Some(Predicted {
                model: "disk".to_owned(),
                assumed: vec!["rpm".to_owned()],
                ..Predicted::default()
            });
        });
    }),
    ("different-promises", |records| {
        let options = &mut system(experiment(records), "raid5").options;
        options.insert("consistency".to_owned(), "resync".to_owned());
    }),
    ("shared-device", |records| {
        experiment(records).shared_device = true;
    }),
    ("scaled", |records| experiment(records).scaled = true),
    ("load-generator", |records| {
        // Every run reaches 1,000,000 per second.
        let ceilings = [("dd-read".to_owned(), 1.25e6)].into();
        records.push(Record::Calibration(Box::new(Calibration {
            ceilings,
            ..Calibration::default()
        })));
    }),
    ("absorbed", |records| {
        of_system(records, "raid5").for_each(|run| {
            run.application.written = 100 << 20;
            run.staging = Some(Staging {
                end_bytes: 2 << 20,
                ..Staging::default()
            });
        });
    }),
    ("late-members", |records| {
        of_system(records, "raid5").for_each(|run| {
            run.late_members = vec![LateMember {
                member: 2,
                stalled: true,
                ..LateMember::default()
            }];
        });
    }),
    ("few-blocks", |records| {
        records.retain(|record| !matches!(record, Record::Run(run) if run.repetition_block > 3));
    }),
    ("noise-floor-high", |records| {
        of_system(records, "single-again").for_each(|run| run.elapsed_ns *= 2);
    }),
    ("no-control", |records| experiment(records).control = None),
    ("drifting", |records| {
        runs(records).for_each(|run| run.elapsed_ns += u64::from(run.order) * 1_000_000);
    }),
    ("not-steady", |records| {
        of_system(records, "raid6")
            .filter(|run| run.repetition_block == 5)
            .for_each(|run| run.elapsed_ns = run.elapsed_ns * 5 / 4);
    }),
    ("fluctuating", |records| {
        of_system(records, "raid6")
            .filter(|run| run.repetition_block % 2 == 1)
            .for_each(|run| run.elapsed_ns *= 3);
    }),
    ("outliers", |records| {
        of_system(records, "raid4")
            .filter(|run| run.repetition_block == 2)
            .for_each(|run| run.elapsed_ns = run.elapsed_ns * 11 / 10);
    }),
    ("undecided", |records| {
        of_system(records, "raid0").for_each(|run| {
            run.elapsed_ns += u64::from(run.repetition_block % 2) * 200_000_000;
            run.elapsed_ns -= u64::from(run.repetition_block / 3) * 150_000_000;
        });
    }),
    ("cpu-bound", |records| {
        of_system(records, "raid6").for_each(|run| run.cpu_ns.machine = run.elapsed_ns * 2);
    }),
    ("short-runs", |records| {
        runs(records).for_each(|run| run.elapsed_ns /= 20);
    }),
    ("clock-coarse", |records| {
        environment(records).clock_resolution_ns = 4_000_000;
    }),
    ("stopped-early", |records| {
        experiment(records).repetition_blocks = 9;
    }),
    ("busy-machine", |records| {
        let doubt = Doubt {
            kind: "busy-machine".to_owned(),
            detail: "60 % busy".to_owned(),
        };
        runs(records).for_each(|run| run.doubts.push(doubt.clone()));
    }),
    ("stolen-time", |records| {
        let doubt = Doubt {
            kind: "stolen-time".to_owned(),
            detail: String::new(),
        };
        runs(records).next().unwrap().doubts.push(doubt);
    }),
    ("no-io-uring", |records| {
        let doubt = Doubt {
            kind: "no-io-uring".to_owned(),
            detail: "the kernel forbids it".to_owned(),
        };
        runs(records).for_each(|run| run.doubts.push(doubt.clone()));
    }),
    ("outlier-member", |records| {
        let member = |name: &str, random_reads_per_s| MemberRate {
            name: name.to_owned(),
            random_reads_per_s,
            ..MemberRate::default()
        };
        let members = vec![
            member("sda", 2400),
            member("sdb", 39),
            member("sdc", 14_500),
        ];
        records.push(Record::Calibration(Box::new(Calibration {
            members,
            ..Calibration::default()
        })));
    }),
    ("outlier-on-shared-disk", |records| {
        let member = |name: &str, random_reads_per_s| MemberRate {
            name: name.to_owned(),
            random_reads_per_s,
            device: "vda".to_owned(),
            ..MemberRate::default()
        };
        let members = vec![member("a.img", 2400), member("b.img", 39)];
        records.push(Record::Calibration(Box::new(Calibration {
            members,
            ..Calibration::default()
        })));
    }),
    ("different-paths", |records| {
        let through = |system: &mut System| {
            let how = "FUSE and a loop device".to_owned();
            system.options.insert(System::THROUGH.to_owned(), how);
        };
        through(&mut experiment(records).systems[3]);
    }),
    ("behind-pace", |records| {
        one_member(records, "paced:slow:a", 1000, 11);
    }),
    ("paced", |records| {
        one_member(records, "paced:slow:a", 1000, 0);
    }),
    ("virtual-machine", |records| {
        environment(records).virtualization = String::from("kvm");
    }),
];

/// Gives the runs of a system the evidence of one member.
fn one_member(records: &mut [Record], name: &str, reads: u64, late: u64) {
    of_system(records, "raid5").for_each(|run| {
        let mut member = MemberUse {
            name: name.to_owned(),
            late,
            ..MemberUse::default()
        };
        member.requests.read = reads;
        let evidence = run.evidence.get_or_insert_default();
        evidence.members = vec![member];
    });
}

/// Members that are late once in a hundred operations keep their pace, and others have none.
#[test]
fn only_paced_members_can_fall_behind() {
    for (name, late, expected) in [
        ("paced:slow:a", 10, vec!["paced"]),
        ("paced:slow:a", 11, vec!["behind-pace", "paced"]),
        ("a", 11, Vec::new()),
    ] {
        let mut records = spotless();
        one_member(&mut records, name, 1000, late);
        let mut found = kinds_found(&records);
        found.retain(|kind| kind.contains("pace"));
        assert_eq!(found, expected, "{name} {late}");
    }
}

#[test]
fn clean_records_raise_no_doubts() {
    assert_eq!(kinds_found(&spotless()), Vec::<String>::new());
}

#[test]
fn every_kind_of_doubt_finds_its_cause_and_names_a_remedy() {
    for kind in doubts::KINDS {
        let (_, plant) = CAUSES
            .iter()
            .find(|(name, _)| *name == kind.name)
            .unwrap_or_else(|| panic!("no cause for {} in this table", kind.name));
        let mut records = spotless();
        plant(&mut records);
        let found = kinds_found(&records);
        assert!(
            found.iter().any(|name| name == kind.name),
            "{}: found {found:?}",
            kind.name
        );
        assert!(
            kind.remedy.ends_with('.') && kind.remedy.len() > 40,
            "{}",
            kind.name
        );
        assert!(
            !kind.title.is_empty() && !kind.title.ends_with('.'),
            "{}",
            kind.name
        );
    }
    assert_eq!(CAUSES.len(), doubts::KINDS.len());
}

/// Doubts that make figures wrong come before those that make them vary, wherever their row is.
#[test]
fn doubts_are_sorted_by_rank() {
    let ranks: Vec<_> = doubts::KINDS.iter().map(|kind| kind.rank).collect();
    assert!(ranks.is_sorted(), "the table is out of order: {ranks:?}");
    let mut planted = vec![
        "virtual-machine",
        "scaled",
        "few-blocks",
        "shared-device",
        "debug-build",
    ];
    let mut records = spotless();
    for (name, plant) in CAUSES {
        if planted.contains(name) {
            plant(&mut records);
        }
    }
    let mut found = kinds_found(&records);
    found.retain(|name| planted.contains(&&**name));
    planted.reverse();
    assert_eq!(found, planted);
    let of = |name: &str| doubts::by_name(name).expect("a kind").rank;
    assert!(of("debug-build") < of("shared-device"));
    assert!(of("shared-device") < of("few-blocks"));
    assert!(of("few-blocks") < of("scaled"));
    assert!(of("scaled") < of("virtual-machine"));
}

/// Members are compared within their own array, and a journal device with the members' writes.
#[test]
fn a_deviating_member_is_reported_with_its_figures() {
    let mut records = spotless();
    let member = |name: &str, reads: u64| MemberRate {
        name: name.to_owned(),
        random_reads_per_s: reads,
        write_bytes_per_s: reads * 10_000,
        ..MemberRate::default()
    };
    let mut members = ["a", "b", "c", "d"].map(|name| member(name, 9000)).to_vec();
    members[1] = member("b", 39);
    // Another array, of slower disks.
    members.extend(["x", "y", "z"].map(|name| member(name, 100)));
    members[6].failed = Some("dd-read: no such export".to_owned());
    members.push(member("log", 10));
    records.push(Record::Calibration(Box::new(Calibration {
        members,
        ..Calibration::default()
    })));
    let uses = |names: &[&str], failing: &str| -> Vec<MemberUse> {
        let one = |name: &&str| MemberUse {
            name: (*name).to_owned(),
            busy_ns: 500_000_000,
            in_flight_ns: if *name == "b" {
                20_000_000_000
            } else {
                100_000_000
            },
            requests: Requests {
                read: 1000,
                ..Requests::default()
            },
            errors: u64::from(*name == failing) * 12,
            ..MemberUse::default()
        };
        names.iter().map(one).collect()
    };
    for record in &mut records {
        let Record::Run(run) = record else { continue };
        let members = match &*run.system.name {
            "raid5" => uses(&["a", "b", "c", "d", "log"], ""),
            "raid1" => uses(&["x", "y", "z"], "y"),
            _ => continue,
        };
        if run.system.name == "raid5" {
            let log = "log".to_owned();
            run.system.options.insert(System::JOURNAL.to_owned(), log);
        }
        run.evidence = Some(Evidence {
            actors: 25,
            members,
            ..Evidence::default()
        });
    }
    for system in &mut experiment(&mut records).systems {
        if system.name == "raid5" {
            let log = "log".to_owned();
            system.options.insert(System::JOURNAL.to_owned(), log);
        }
    }
    let analysis = Analysis::of(&records).unwrap();
    let first = &analysis.findings[0];
    assert_eq!(first.kind, "outlier-member");
    for expected in [
        "b alone: 39 random reads a second (the others 9000); 0.4 MB/s written in order (the \
         others 90)",
        "log, a journal device, alone: 0.1 MB/s written in order (the others 0.4 to 90)",
        "z alone: dd-read: no such export",
        "b in dd-read of raid5 (b took 20.0 ms to answer, the others 0.10 ms; actors waited for it \
         20 % of their time)",
        "dd-read: raid1 (72 of 6000 requests of y failed)",
    ] {
        assert!(
            first.details.iter().any(|detail| detail == expected),
            "{expected}: {:#?}",
            first.details
        );
    }
    // Two for each array, not counting those of the runs.
    assert_eq!(
        first.details.len(),
        3 + 2 * WORKLOADS.len(),
        "{:#?}",
        first.details
    );
}

/// Writes of each member and the milliseconds that each takes, by repetition block and member.
type Work = fn(u32, u32) -> (u64, u64);

/// Analyses six blocks in which the members of raid5 did this work with one actor.
fn with_members(work: Work, change: Plant) -> Analysis {
    let mut records = spotless();
    for run in of_system(&mut records, "raid5") {
        let one = |member: u32| {
            let (written, ms) = work(run.repetition_block, member);
            // A flush goes to every member.
            let flushed = 5;
            MemberUse {
                name: format!("member{member}.img"),
                busy_ns: written * ms * 1_000_000,
                in_flight_ns: written * ms * 1_000_000 + flushed,
                requests: Requests {
                    written,
                    flushed,
                    ..Requests::default()
                },
                ..MemberUse::default()
            }
        };
        let members: Vec<MemberUse> = (0..4).map(one).collect();
        let busy = members.iter().map(|member| member.busy_ns);
        let window_ns = busy.sum();
        run.evidence = Some(Evidence {
            actors: 1,
            window_ns,
            members,
            ..Evidence::default()
        });
    }
    change(&mut records);
    Analysis::of(&records).unwrap()
}

/// The finding about a member out of line, if any.
fn outlier(analysis: &Analysis) -> Option<&Finding> {
    let mut findings = analysis.findings.iter();
    findings.find(|finding| finding.kind.starts_with("outlier-"))
}

/// Only one member of concat has writes in a run, and a different one in each block.
#[test]
fn a_slow_run_is_not_blamed_on_the_member_that_was_written() {
    let slow: [Work; 2] = [
        |block, member| match (block % 4 == member, block) {
            (true, 2) => (257, 61),
            (true, _) => (257, 14),
            (false, _) => (0, 0),
        },
        |block, member| match (block % 4 == member, block) {
            (true, 2) => (257, 3000),
            (true, _) => (257, 14),
            (false, _) => (0, 0),
        },
    ];
    for work in slow {
        let analysis = with_members(work, |_| {});
        assert_eq!(outlier(&analysis), None);
        let verdicts = analysis
            .cells
            .iter()
            .filter_map(|cell| cell.verdicts.as_ref());
        let causes: Vec<_> = verdicts.map(|verdict| verdict.bottleneck.cause()).collect();
        assert!(
            !causes.is_empty() && !causes.contains(&Some("one-slow-member")),
            "{causes:?}"
        );
    }
}

#[test]
fn a_member_is_out_of_line_only_if_it_is_in_most_runs() {
    let half: Work = |block, member| (100, if member == 2 && block < 3 { 60 } else { 10 });
    assert_eq!(outlier(&with_members(half, |_| {})), None);
    let most: Work = |block, member| (100, if member == 2 && block < 4 { 60 } else { 10 });
    let analysis = with_members(most, |_| {});
    let found = outlier(&analysis).expect("it is slow in four of six runs");
    assert_eq!(found.kind, "outlier-member");
    let expected = "member2.img in dd-read of raid5 (member2.img took 57.1 ms to answer, the \
        others 9.52 ms; actors waited for it ";
    assert!(
        found.details[0].starts_with(expected) && found.remedy.contains("replace it"),
        "{found:#?}"
    );
    // Files on one disk are not to be replaced.
    let analysis = with_members(most, |records| experiment(records).shared_device = true);
    let found = outlier(&analysis).expect("it is just as slow");
    assert_eq!(found.kind, "outlier-on-shared-disk");
    assert!(
        found.details[0].starts_with(expected) && !found.remedy.contains("eplace"),
        "{found:#?}"
    );
}

/// A workload that runs on some systems is not missing on others. The control runs the baseline's
/// workloads.
#[test]
fn only_planned_runs_are_reported_missing() {
    let mut records = spotless();
    let on = ["single", "raid5"].map(str::to_owned);
    for workload in &mut experiment(&mut records).workloads {
        if workload.name == "seeks" {
            workload.systems = on.to_vec();
        }
    }
    let is_elsewhere = |run: &Run| {
        run.workload.name == "seeks"
            && !["single", "single-again", "raid5"].contains(&&*run.system.name)
    };
    records.retain(|record| !matches!(record, Record::Run(run) if is_elsewhere(run)));
    assert_eq!(kinds_found(&records), Vec::<String>::new());

    records.pop();
    let analysis = Analysis::of(&records).unwrap();
    let expected = "1 of 102 runs is missing";
    assert_eq!(analysis.findings[0].details, [expected]);
}

/// A guarantee concerns only systems that can give it, and is doubted only if it differs.
#[test]
fn promises_are_compared_only_among_systems_that_give_them() {
    let found = |option: &str, value: &str, systems: &[&str]| {
        let mut records = spotless();
        for name in systems {
            let options = &mut system(experiment(&mut records), name).options;
            options.insert(option.to_owned(), value.to_owned());
        }
        let analysis = Analysis::of(&records).unwrap();
        let mut findings = analysis.findings.into_iter();
        let found = findings.find(|finding| finding.kind == "different-promises");
        found.map_or(String::new(), |found| found.details.join("; "))
    };
    let redundant = ["raid1", "raid4", "raid5", "raid6"];
    assert_eq!(found("consistency", "resync", &redundant), "");
    assert_eq!(
        found("consistency", "resync", &redundant[2..]),
        "consistency: resync (raid5, raid6), the default (raid1, raid4)"
    );
    assert_eq!(found("flushes", "ignored", SYSTEMS), "");
    assert_eq!(
        found("flushes", "ignored", &SYSTEMS[3..]),
        "flushes: honoured (single, single-again, raid0), ignored (raid1, raid4, raid5, raid6)"
    );
    assert_eq!(found("checksum", "crc32c", &["raid5"]), "");
}

#[test]
fn recorded_doubts_are_shown_once_with_their_locations() {
    let mut records = spotless();
    of_system(&mut records, "raid5")
        .filter(|run| run.workload.name == "seeks")
        .for_each(|run| {
            run.doubts.push(Doubt {
                kind: "throttled".to_owned(),
                detail: "95 °C".to_owned(),
            });
            // A doubt about the machine, whichever runs recorded it.
            run.doubts.push(Doubt {
                kind: "busy-machine".to_owned(),
                detail: "60 % busy".to_owned(),
            });
        });
    runs(&mut records).for_each(|run| {
        run.doubts.push(Doubt {
            kind: "scaled".to_owned(),
            detail: "a tenth".to_owned(),
        });
    });
    let analysis = Analysis::of(&records).unwrap();
    let details = |kind: &str| {
        let finding = analysis
            .findings
            .iter()
            .find(|finding| finding.kind == kind)
            .unwrap();
        (finding.title.clone(), finding.details.clone())
    };
    assert_eq!(details("throttled").1, ["95 °C (seeks: raid5)"]);
    assert_eq!(details("busy-machine").1, ["60 % busy"]);
    assert_eq!(
        details("scaled"),
        ("Scaled sizes".to_owned(), vec!["a tenth".to_owned()])
    );
}

#[test]
fn planted_differences_are_found_and_only_those() {
    let analysis = Analysis::of(&example::records(8)).unwrap();
    let verdict =
        |system: &str, workload: &str| analysis.comparison(system, workload).unwrap().verdict;
    // The example writes at 0.52 and 0.55 of the single disk here, and reads at 0.98.
    assert_eq!(verdict("raid1", "dd-write"), Verdict::Slower);
    assert_eq!(verdict("raid6", "dd-write"), Verdict::Slower);
    assert_eq!(verdict("raid1", "dd-read"), Verdict::NoDifferenceShown);
    for comparison in analysis
        .comparisons
        .iter()
        .filter(|comparison| comparison.control)
    {
        assert_eq!(
            comparison.verdict,
            Verdict::AaPair,
            "{}",
            comparison.workload
        );
        assert_eq!(comparison.system, "single-again");
    }
    let (percent, low, high) = analysis.comparison("raid1", "dd-write").unwrap().percent();
    assert!(
        low < -48.0 && -48.0 < high && low < percent && percent < high,
        "{low} {high}"
    );
}

#[test]
fn equal_systems_show_no_difference() {
    // 40 experiments with identical systems: 5 × 3 comparisons each.
    let (mut told_apart, mut comparisons) = (0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut records = spotless();
        runs(&mut records).for_each(|run| {
            let factor = (0.05 * random.normal()).exp();
            run.elapsed_ns = nanoseconds(1e9 * factor);
        });
        let analysis = Analysis::of(&records).unwrap();
        for comparison in analysis
            .comparisons
            .iter()
            .filter(|comparison| !comparison.control)
        {
            comparisons += 1;
            told_apart += usize::from(comparison.verdict != Verdict::NoDifferenceShown);
        }
    }
    println!("{told_apart} of {comparisons} equal pairs show a difference");
    assert_eq!(comparisons, 40 * 15);
    // Holm's correction limits the error of all 15 comparisons of an experiment together to 1 in
    // 20.
    assert!(told_apart <= 6, "{told_apart} of {comparisons}");
}

#[test]
fn the_a_a_pair_raises_the_bar() {
    let plant = |control: u64| {
        let mut records = spotless();
        of_system(&mut records, "raid0").for_each(|run| run.elapsed_ns = run.elapsed_ns * 97 / 100);
        of_system(&mut records, "single-again").for_each(|run| {
            run.elapsed_ns = run.elapsed_ns * control / 100;
        });
        Analysis::of(&records)
            .unwrap()
            .comparison("raid0", "dd-read")
            .unwrap()
            .verdict
    };
    assert_eq!(plant(99), Verdict::Faster);
    assert_eq!(plant(95), Verdict::NoDifferenceShown);
}

/// A difference needs its whole interval beyond the noise floor, not only the figure.
#[test]
fn an_interval_within_the_noise_shows_no_difference() {
    let verdict = |scatter: u64| {
        let mut records = spotless();
        of_system(&mut records, "single-again")
            .for_each(|run| run.elapsed_ns = run.elapsed_ns * 102 / 100);
        of_system(&mut records, "raid0").for_each(|run| {
            let apart = scatter * u64::from(run.repetition_block % 2);
            run.elapsed_ns = run.elapsed_ns * (96 - apart + scatter / 2) / 100;
        });
        let analysis = Analysis::of(&records).unwrap();
        let found = analysis.comparison("raid0", "dd-read").unwrap();
        let floor = found.noise_floor.unwrap();
        assert!(found.log_ratio.value > floor && found.log_ratio.low > 0.0);
        found.verdict
    };
    assert_eq!(verdict(0), Verdict::Faster);
    assert_eq!(verdict(6), Verdict::NoDifferenceShown);
}

/// One block shows no scatter, and failed cells are not compared.
#[test]
fn one_block_and_failed_cells_get_no_verdict() {
    let mut records = spotless();
    of_system(&mut records, "raid0").for_each(|run| run.failed = Some("gone".to_owned()));
    of_system(&mut records, "raid5")
        .filter(|run| run.repetition_block > 0)
        .for_each(|run| run.failed = Some("gone".to_owned()));
    let analysis = Analysis::of(&records).unwrap();
    let verdict = |system| analysis.comparison(system, "seeks").unwrap().verdict;
    assert_eq!(verdict("raid0"), Verdict::Failed);
    assert_eq!(verdict("raid5"), Verdict::OneBlock);
    assert_eq!(verdict("raid6"), Verdict::NoDifferenceShown);
    // The number of blocks is judged per comparison.
    let few = analysis
        .findings
        .iter()
        .find(|finding| finding.kind == "few-blocks");
    let expected = "some comparisons have only 1 repetition block";
    assert_eq!(few.unwrap().details, [expected]);
    let again = change(&analysis, &analysis, Verdicts::SameWork);
    let row = again.rows.iter().find(|row| row.system == "raid0").unwrap();
    assert_eq!(row.verdict, Some(Verdict::Failed));
}

#[test]
fn amplification_and_cpu_are_computed_from_totals() {
    let mut records = spotless();
    of_system(&mut records, "raid5").for_each(|run| {
        run.application = Traffic::of_writes(1000);
        run.members = Traffic {
            read: 500,
            written: 1500,
        };
    });
    let analysis = Analysis::of(&records).unwrap();
    let cell = analysis.cell("raid5", "dd-write").unwrap();
    assert_eq!(cell.write_amplification(), Some(1.5));
    assert_eq!(cell.read_amplification(), None);
    assert_eq!(cell.traffic_amplification(), Some(2.0));
    let (workload, engine, rest) = cell.cpu_per_counted().unwrap();
    assert!((workload - 1e-6).abs() < 1e-15 && (engine - 1e-6).abs() < 1e-15);
    assert!((rest - 7e-6).abs() < 1e-15);
}

#[test]
fn latencies_of_all_repetitions_are_merged() {
    let mut records = spotless();
    of_system(&mut records, "raid5").for_each(|run| {
        let mut histogram = Histogram::new();
        histogram.record_many(1000, 10);
        run.latency = [("read".to_owned(), histogram)].into();
    });
    let analysis = Analysis::of(&records).unwrap();
    let latency = &analysis.cell("raid5", "dd-read").unwrap().latency["read"];
    assert_eq!(
        (latency.count, latency.max_ns, latency.p50_ns),
        (60, 1000, 1000)
    );
}

#[test]
fn a_failed_run_leaves_its_block_out() {
    let mut records = spotless();
    of_system(&mut records, "single")
        .filter(|run| run.repetition_block == 0)
        .for_each(|run| run.failed = Some("x".to_owned()));
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(
        analysis
            .comparison("raid0", "dd-read")
            .unwrap()
            .log_ratio
            .blocks,
        5
    );
    assert_eq!(analysis.cell("single", "dd-read").unwrap().failed, 1);
}

#[test]
fn records_without_their_experiment_still_make_a_report() {
    let mut records = example::records(5);
    records.drain(..2);
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(analysis.experiment.name, "example");
    assert_eq!(analysis.experiment.baseline, {
        let first = analysis
            .experiment
            .systems
            .iter()
            .find(|s| s.level == "single")
            .unwrap();
        first.name.clone()
    });
    assert!(analysis.experiment.scaled && analysis.experiment.shared_device);
    assert_eq!(analysis.cells.len(), 9 * 7);
    assert_eq!(
        Analysis::of(&records[..0]).unwrap_err(),
        AnalysisError::NoRuns
    );
}

#[test]
fn the_same_experiment_twice_is_one_with_twice_the_blocks() {
    let mut records = example::records(3);
    let mut later = example::records(3);
    later.iter_mut().for_each(begin_later);
    records.extend(later);
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(analysis.blocks(), 6);
    assert_eq!(
        analysis
            .comparison("raid5", "seeks")
            .unwrap()
            .log_ratio
            .blocks,
        6
    );
}

/// The check at the end of a block discards runs recorded before, separately in each joined
/// experiment.
#[test]
fn discarded_runs_count_as_failed() {
    let mut records = example::records(3);
    let mut later = records.clone();
    later.iter_mut().for_each(begin_later);
    let experiment = later.iter().find_map(Record::run);
    let experiment = experiment.map(|run| run.experiment.clone());
    let discard = |experiment: String, system: &str| {
        Record::Discard(Discard {
            experiment,
            system: system.to_owned(),
            repetition_block: 1,
            why: "the ext4 on it is damaged".to_owned(),
        })
    };
    later.push(discard(experiment.unwrap(), "raid5"));
    later.push(discard("another".to_owned(), "raid0"));
    records.extend(later);
    let good = Analysis::of(&example::records(3)).unwrap();
    let text: String = records.iter().map(to_line).collect();
    let found = Analysis::of(&from_lines(&text).unwrap()).unwrap();
    for cell in &found.cells {
        let blocks: Vec<u32> = cell
            .repetitions
            .iter()
            .map(|repetition| repetition.block)
            .collect();
        if cell.system == "raid5" {
            assert_eq!((cell.failed, blocks), (1, vec![0, 1, 2, 3, 5]));
        } else {
            assert_eq!((cell.failed, blocks), (0, vec![0, 1, 2, 3, 4, 5]));
        }
    }
    let failed = |findings: &[Finding]| {
        let mut findings = findings.iter();
        findings
            .find(|finding| finding.kind == "failed-runs")
            .cloned()
    };
    let finding = failed(&found.findings).unwrap();
    let seeks = "seeks: raid5 (the ext4 on it is damaged)".to_owned();
    assert!(finding.details.contains(&seeks), "{finding:?}");
    // A change attributes the failure to the side concerned.
    let change = change(&good, &found, Verdicts::SameWork);
    let finding = failed(&change.findings[..1]).unwrap();
    assert!(
        finding.details.contains(&format!("after: {seeks}")),
        "{finding:?}"
    );
    assert!(
        finding
            .details
            .iter()
            .all(|detail| detail.starts_with("after: "))
    );
}

/// Records that use one name for different things are refused, wherever they show it.
#[test]
fn records_of_different_experiments_are_refused() {
    type Plant = fn(&mut Record);
    fn work(record: &mut Record, plant: fn(&mut Workload)) {
        match record {
            Record::Experiment(it) => it.workloads.iter_mut().for_each(plant),
            Record::Run(it) => plant(&mut it.workload),
            _ => {}
        }
    }
    fn head(record: &mut Record, plant: fn(&mut Experiment)) {
        if let Record::Experiment(it) = record {
            plant(it);
        }
    }
    let first = example::records(2);
    let joined = |plant: Plant, from: usize| {
        let mut second = first[from..].to_vec();
        for record in &mut second {
            plant(record);
            begin_later(record);
        }
        let records = first.iter().chain(&second);
        let read = from_lines(&records.map(to_line).collect::<String>());
        read.map(|records| records.len())
    };
    let deeper: Plant = |record| work(record, |workload| workload.in_flight_max += 70);
    let other: Plant = |record| {
        if let Some(run) = record.run_mut().filter(|run| run.system.name == "raid5") {
            run.system.expression = "raid6(9)".to_owned();
        }
    };
    let is_run = |record: &Record| matches!(record, Record::Run(_));
    let runs = first.iter().position(is_run).unwrap();
    let again = first.len() + 1;
    for (plant, from, lines, words) in [
        (
            deeper,
            0,
            format!("lines 1 and {again} "),
            "dd-read: in flight 1 and 71",
        ),
        // Without a head of its own, the first run with the other work shows it.
        (deeper, runs, format!("lines 1 and {again} "), "in flight "),
        (other, 0, "lines 1 and ".to_owned(), "raid5: target "),
        (
            |record| head(record, |experiment| experiment.name = "b".to_owned()),
            0,
            format!("lines 1 and {again} "),
            "name example and b",
        ),
        (
            |record| head(record, |experiment| experiment.control = None),
            0,
            format!("lines 1 and {again} "),
            "once more single-again and none",
        ),
    ] {
        let message = joined(plant, from).unwrap_err().to_string();
        assert!(message.starts_with(&lines), "{lines}: {message}");
        assert!(message.contains(words), "{words}: {message}");
        assert!(message.ends_with("compare these files"), "{message}");
    }
    // A run may contain more than the definition, such as the version of a tool, and a trial
    // changes its work on purpose. Neither makes it a different experiment.
    let more: Plant = |record| {
        if let Record::Run(run) = record {
            let version = ("version".to_owned(), "2".to_owned());
            run.workload.parameters.extend([version]);
        }
    };
    let trial: Plant = |record| {
        if let Record::Run(run) = record {
            run.workload.in_flight_max += 9;
            run.trial = Some(Trial {
                of: run.workload.name.clone(),
                change: Intervention::DoubleActors,
                pair: 0,
                changed: true,
            });
        }
    };
    for plant in [more, trial] {
        assert_eq!(joined(plant, 0).unwrap(), 2 * first.len());
    }
}

/// Concatenated files, the first of which is cut short in its last block.
#[test]
fn runs_recorded_twice_count_once() {
    let whole = example::records(3);
    let cut = &whole[..whole.len() - 2];
    let expected = Analysis::of(&whole).unwrap();
    let found = Analysis::of(&[cut, &whole].concat()).unwrap();
    let runs = |records: &[Record]| {
        let runs = records
            .iter()
            .filter(|record| matches!(record, Record::Run(_)));
        runs.count()
    };
    assert_eq!(found.recorded_again, runs(cut));
    assert_eq!(found.runs, expected.runs);
    let findings = found.findings.iter();
    let findings: Vec<&Finding> = findings
        .filter(|finding| finding.kind == "recorded-again")
        .collect();
    assert_eq!(
        findings[0].details,
        [format!("{} records are copies", runs(cut))]
    );
    // Without start times, two equal runs count as two.
    let mut records = whole.clone();
    self::runs(&mut records).for_each(|run| run.started_unix_ms = 0);
    experiment(&mut records).started_unix_ms = 0;
    records.extend_from_within(..);
    assert_eq!(Analysis::of(&records).unwrap().blocks(), 6);
}

/// Without the baseline, the first system that ran a workload takes its place in that workload
/// only.
#[test]
fn a_workload_without_the_baseline_is_compared_with_the_first_that_ran_it() {
    let mut records = spotless();
    let is_without =
        |run: &Run| run.workload.name == "seeks" && run.system.name.starts_with("single");
    records.retain(|record| !matches!(record, Record::Run(run) if is_without(run)));
    let workloads = &mut experiment(&mut records).workloads;
    let seeks = workloads
        .iter_mut()
        .find(|workload| workload.name == "seeks")
        .unwrap();
    seeks.systems = ["raid0", "raid5"].map(str::to_owned).into();
    of_system(&mut records, "raid5").for_each(|run| run.elapsed_ns *= 2);
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(analysis.baseline_of("seeks"), "raid0");
    assert_eq!(analysis.baseline_of("dd-read"), "single");
    assert!(analysis.comparison("raid0", "seeks").is_none());
    for (workload, baseline) in [("seeks", "raid0"), ("dd-read", "single")] {
        let found = analysis.comparison("raid5", workload).unwrap();
        assert_eq!(found.baseline, baseline);
        assert_eq!(found.verdict, Verdict::Slower);
        assert!((found.percent().0 + 50.0).abs() < 0.1);
    }
    // Ratios to different systems have no common mean.
    let left_out = &analysis.overall_scope.left_out;
    assert_eq!(left_out.len(), 1);
    assert_eq!(
        (&*left_out[0].workload, left_out[0].reason),
        ("seeks", Reason::NoBaseline)
    );
    let of = analysis
        .overall
        .iter()
        .map(|comparison| &*comparison.workload);
    assert!(of.clone().count() > 0 && of.clone().all(|workload| workload == "2 workloads"));
}

/// Until the baseline has run, nothing is compared, not even the control.
#[test]
fn a_pending_baseline_is_not_substituted() {
    let mut records = spotless();
    let is_without = |run: &Run| run.workload.name == "seeks" && run.system.name == "single";
    records.retain(|record| !matches!(record, Record::Run(run) if is_without(run)));
    let analysis = Analysis::of(&records).unwrap();
    assert_eq!(analysis.baseline_of("seeks"), "single");
    let compared = |workload: &str| {
        analysis
            .comparisons
            .iter()
            .any(|comparison| comparison.workload == workload)
    };
    assert!(!compared("seeks") && compared("dd-read"));
}

/// A pair counts once if the system's own baseline is also the experiment's.
#[test]
fn one_pair_gets_one_verdict() {
    for blocks in [2, 3, 7] {
        let mut records = example::records(blocks);
        let asked = |records: &[Record]| Analysis::of(records).unwrap();
        system(experiment(&mut records), "raid5").baseline = None;
        let without = asked(&records);
        system(experiment(&mut records), "raid5").baseline = Some("single".to_owned());
        let found = asked(&records);
        assert!(!found.own_comparisons.is_empty());
        for own in &found.own_comparisons {
            let of = |analysis: &Analysis| {
                let it = analysis.comparison("raid5", &own.workload).unwrap();
                (it.p_corrected.to_bits(), it.verdict, it.not_shown_among)
            };
            let own = (own.p_corrected.to_bits(), own.verdict, own.not_shown_among);
            assert_eq!(of(&found), own);
            assert_eq!(of(&found), of(&without), "no more is asked than without it");
        }
    }
}

/// With a set arrival rate, response times are compared, and the ratio matches the figures shown.
#[test]
fn open_loops_are_compared_by_their_response_times() {
    let histogram = |ns: u64, tail_ns: u64| {
        let mut histogram = Histogram::new();
        histogram.record_many(ns, 980);
        histogram.record_many(tail_ns, 20);
        [("read".to_owned(), histogram)].into()
    };
    let mut records = spotless();
    for record in &mut records {
        match record {
            Record::Experiment(experiment) => {
                let mut workloads = experiment.workloads.iter_mut();
                workloads
                    .find(|workload| workload.name == "seeks")
                    .unwrap()
                    .arrivals_per_s = 1000;
            }
            Record::Run(run) if run.workload.name == "seeks" => {
                run.workload.arrivals_per_s = 1000;
                run.operations = 1000;
                let slower = if run.system.name == "raid5" { 2 } else { 1 };
                let jitter = u64::from(run.repetition_block) * 40_000;
                run.response = histogram(1_000_000 + jitter, (8_000_000 + jitter) * slower);
                if run.system.name == "raid6" {
                    // The neighbouring bucket, which is no difference.
                    run.response = histogram(1_016_000 + jitter, 8_000_000 + jitter);
                    run.operations = 800;
                }
                // Judged by the rate, the system would be twice as fast.
                if run.system.name == "raid5" {
                    run.elapsed_ns /= 2;
                    run.operations /= 2;
                }
            }
            _ => {}
        }
    }
    let analysis = Analysis::of(&records).unwrap();
    let of = |system: &str, quantity: Quantity| {
        let mut all = analysis.comparisons.iter();
        all.find(|comparison| {
            comparison.system == system
                && comparison.workload == "seeks"
                && comparison.quantity == quantity
        })
        .unwrap()
    };
    assert_eq!(
        analysis.comparison("raid5", "seeks").unwrap().quantity,
        Quantity::ResponseP99
    );
    let p99 = of("raid5", Quantity::ResponseP99);
    assert_eq!(p99.verdict, Verdict::Slower);
    assert!((p99.percent().0 - 100.0).abs() < 3.0, "{:?}", p99.percent());
    let time = |system: &str| {
        let cell = analysis.cell(system, "seeks").unwrap();
        cell.time_ns(Quantity::ResponseP99).unwrap()
    };
    assert!((time("raid5") / time("single") - (-p99.log_ratio.value).exp()).abs() < 1e-9);
    assert_eq!(
        of("raid5", Quantity::ResponseP50).verdict,
        Verdict::NoDifferenceShown
    );
    assert_eq!(
        of("raid6", Quantity::ResponseP50).verdict,
        Verdict::NoDifferenceShown
    );
    let rate = |comparison: &&Comparison| comparison.quantity == Quantity::Rate;
    assert!(
        analysis
            .comparisons
            .iter()
            .filter(rate)
            .all(|comparison| comparison.workload != "seeks")
    );
    let overload = |analysis: &Analysis, system: &str| {
        let cell = analysis.cell(system, "seeks").unwrap();
        analysis.overload(cell)
    };
    assert_eq!(overload(&analysis, "raid5"), None);
    let of_all = overload(&analysis, "raid6").unwrap();
    assert!(of_all.is_usual() && of_all.runs == of_all.of);
    assert_eq!(of_all.words(), "answered 80 % of arrivals");
    // A stall in one run is reported as one; the system kept up.
    let mut stalled = records;
    of_system(&mut stalled, "raid6")
        .filter(|run| run.workload.name == "seeks" && run.repetition_block != 1)
        .for_each(|run| run.operations = 1000);
    let stalled = Analysis::of(&stalled).unwrap();
    let of_one = overload(&stalled, "raid6").unwrap();
    assert!(!of_one.is_usual());
    let runs = of_one.of;
    assert_eq!(
        of_one.words(),
        format!("answered 80 % of arrivals in 1 of {runs} runs")
    );
    let doubt = stalled
        .findings
        .iter()
        .find(|finding| finding.kind == "overload");
    assert!(doubt.unwrap().details[0].contains("in 1 of"), "{doubt:?}");
    // The same holds for a change.
    let change = change(&analysis, &analysis, Verdicts::SameWork);
    let rows = change.rows.iter().filter(|row| row.workload == "seeks");
    let mut rows: Vec<Quantity> = rows.map(|row| row.quantity).collect();
    rows.dedup();
    assert_eq!(rows[..2], [Quantity::ResponseP99, Quantity::ResponseP50]);
}

/// A single operation is compared by its time: less is faster.
#[test]
fn one_operation_is_compared_by_its_time() {
    let mut records = spotless();
    for run in runs(&mut records).filter(|run| run.workload.name == "seeks") {
        run.counted = 1;
        if run.system.name == "raid0" {
            run.elapsed_ns /= 2;
        }
    }
    let analysis = Analysis::of(&records).unwrap();
    let found = analysis.comparison("raid0", "seeks").unwrap();
    assert_eq!(
        (found.quantity, found.verdict),
        (Quantity::Time, Verdict::Faster)
    );
    assert!(
        (found.percent().0 + 50.0).abs() < 0.1,
        "{:?}",
        found.percent()
    );
    assert!(found.percent().1 <= found.percent().2);
}

/// At a set rate, the scatter comes from the random arrivals.
#[test]
fn a_rate_that_was_set_is_no_outlier() {
    let mut records = spotless();
    let far = |run: &&mut Run| run.system.name == "raid5" && run.repetition_block == 3;
    runs(&mut records)
        .filter(far)
        .for_each(|run| run.elapsed_ns *= 2);
    let has = |records: &[Record]| kinds_found(records).contains(&"outliers".to_owned());
    assert!(has(&records));
    // An open loop whose arrivals were all answered: the workload set the rate.
    let workloads = experiment(&mut records).workloads.iter_mut();
    workloads.for_each(|workload| workload.arrivals_per_s = 1);
    assert!(!has(&records));
}

/// A workload that is too short or refused on one system counts for none.
#[test]
fn overall_results_exclude_refused_workloads_for_all_systems() {
    let mut records = spotless();
    of_system(&mut records, "raid5")
        .filter(|run| run.workload.name == "dd-read")
        .for_each(|run| {
            run.elapsed_ns /= 20;
            run.counted /= 20;
        });
    let left_out = |records: &[Record]| {
        let scope = Analysis::of(records).unwrap().overall_scope;
        let left_out = scope.left_out.iter();
        let left_out: Vec<(String, Reason)> = left_out
            .map(|left_out| (left_out.workload.clone(), left_out.reason))
            .collect();
        (scope.workloads.len(), left_out)
    };
    assert_eq!(
        left_out(&records),
        (2, vec![("dd-read".to_owned(), Reason::TooShort)])
    );
    let calibration = Calibration {
        ceilings: [("dd-read".to_owned(), 1_000_000.0)].into(),
        ..Calibration::default()
    };
    let mut refused = records.clone();
    refused.push(Record::Calibration(Box::new(calibration)));
    assert_eq!(
        left_out(&refused),
        (2, vec![("dd-read".to_owned(), Reason::Refused)])
    );
    // Its files were in memory before.
    let mut cached = spotless();
    let reads = runs(&mut cached).filter(|run| run.workload.name == "dd-read");
    for run in reads.filter(|run| run.system.name == "raid5") {
        run.io.direct = false;
        run.application.read = 1 << 20;
        run.evidence = Some(Evidence {
            cache: CacheUse {
                resident_permille: Some(900),
                ..CacheUse::default()
            },
            ..Evidence::default()
        });
    }
    assert_eq!(
        left_out(&cached),
        (2, vec![("dd-read".to_owned(), Reason::Cached)])
    );
    // If only the baseline ran a workload, nothing is compared.
    let mut alone = spotless();
    let is_kept =
        |run: &Run| run.workload.name != "dd-read" || run.system.name.starts_with("single");
    alone.retain(|record| record.run().is_none_or(is_kept));
    assert_eq!(left_out(&alone), (2, Vec::new()));
}

#[test]
fn an_analysis_is_the_same_from_stored_records() {
    let records = example::records(5);
    let text: String = records.iter().map(to_line).collect();
    let stored = from_lines(&text).unwrap();
    assert_eq!(stored, records);
    let json = |records: &[Record]| serde_json::to_string(&Analysis::of(records).unwrap()).unwrap();
    assert_eq!(json(&stored), json(&records));
}

#[test]
fn a_change_is_found_and_a_changed_baseline_is_doubted() {
    let before = Analysis::of(&spotless()).unwrap();
    let mut records = spotless();
    of_system(&mut records, "raid5").for_each(|run| run.elapsed_ns = run.elapsed_ns * 8 / 10);
    environment(&mut records).commit = String::from("fedcba");
    let after = Analysis::of(&records).unwrap();
    let found = change(&before, &after, Verdicts::SameWork);
    assert_eq!(found.rows.len(), 7 * 3);
    for row in &found.rows {
        let expected = match &*row.system {
            "raid5" => Some(Verdict::Faster),
            // The A/A pair is the yardstick of the others.
            "single-again" => None,
            _ => Some(Verdict::NoDifferenceShown),
        };
        assert_eq!(row.verdict, expected, "{} × {}", row.system, row.workload);
    }
    assert_eq!(found.environment.len(), 1);
    assert!(found.findings.is_empty(), "{:?}", found.findings);

    of_system(&mut records, "single").for_each(|run| run.elapsed_ns = run.elapsed_ns * 9 / 10);
    environment(&mut records).kernel = String::from("7.0");
    records.retain(|record| !matches!(record, Record::Run(run) if run.system.name == "raid6"));
    let found = change(
        &before,
        &Analysis::of(&records).unwrap(),
        Verdicts::SameWork,
    );
    let kinds: Vec<&str> = found
        .findings
        .iter()
        .map(|finding| &*finding.kind)
        .collect();
    // Doubts about the later experiment are included.
    assert_eq!(
        kinds,
        [
            "yardstick-moved",
            "environment-changed",
            "noise-floor-high",
            "missing-runs",
        ]
    );
    assert!(found.findings[3].details[0].starts_with("after: "));
    assert!(found.findings[0].details[0].starts_with("single changed by +11.1 %"));
    assert_eq!(found.unmatched, ["only before: raid6, in all workloads"]);
    // Large differences are given as a factor.
    of_system(&mut records, "single").for_each(|run| run.elapsed_ns *= 5);
    let later = Analysis::of(&records).unwrap();
    let found = change(&before, &later, Verdicts::SameWork);
    assert!(found.findings[0].details[0].starts_with("single became 4.5 times slower in "));
}

/// Runs on one side only are listed once, however many systems and workloads lack them.
#[test]
fn runs_without_a_counterpart_are_listed_once() {
    let of = |keeps: &dyn Fn(&Run) -> bool| {
        let mut records = example::records(2);
        records.retain(|record| !matches!(record, Record::Run(run) if !keeps(run)));
        Analysis::of(&records).unwrap()
    };
    let is_in = |name: &str, names: &[&str]| names.contains(&name);
    let before = of(&|run| run.system.name != "raid0");
    let after = of(&|run| {
        let (system, workload) = (&*run.system.name, &*run.workload.name);
        let is_part = is_in(system, &["raid4", "raid5"]) && is_in(workload, &["seeks", "dd-write"]);
        system != "raid6" && workload != "dd-read" && !is_part
    });
    assert_eq!(
        change(&before, &after, Verdicts::SameWork).unmatched,
        [
            "only before: raid6, in all workloads",
            "only before: dd-read, on all systems",
            "only before: raid4, raid5 in dd-write, seeks",
            "only after: raid0, in all workloads",
        ]
    );
}

/// A difference that may be due to chance among this many questions is marked, and the A/A pair is
/// no question.
#[test]
fn a_change_marks_differences_removed_by_the_correction() {
    let mut records = example::records(3);
    let before = Analysis::of(&records).unwrap();
    runs(&mut records).for_each(|run| run.elapsed_ns = run.elapsed_ns / 10 * 8);
    let after = Analysis::of(&records).unwrap();
    let rows = change(&before, &after, Verdicts::SameWork).rows;
    let asked = rows.iter().filter(|row| !row.control).count();
    for row in &rows {
        let shows = row.log_ratio.excludes_zero();
        let taken = shows && !row.control && row.verdict == Some(Verdict::NoDifferenceShown);
        assert_eq!(row.not_shown_among, taken.then_some(asked), "{row:?}");
    }
    assert!(rows.iter().any(|row| row.not_shown_among.is_some()));
}

/// If the disks differ, the baseline was changed on purpose.
#[test]
fn a_changed_baseline_on_other_disks_is_not_doubted() {
    let with_disks = |names: &[&str], elapsed: u64| {
        let mut records = spotless();
        runs(&mut records).for_each(|run| run.elapsed_ns = run.elapsed_ns * elapsed / 10);
        let members = names.iter().map(|name| MemberRate {
            name: (*name).to_owned(),
            ..MemberRate::default()
        });
        let members = members.collect();
        records.push(Record::Calibration(Box::new(Calibration {
            members,
            ..Calibration::default()
        })));
        records
    };
    let before = Analysis::of(&with_disks(&["/dev/sda", "/dev/sdb"], 10)).unwrap();
    let mut records = with_disks(&["/dev/sdc", "/dev/sdd"], 5);
    let compared = |records: &[Record]| {
        let after = Analysis::of(records).unwrap();
        change(&before, &after, Verdicts::SameWork)
    };
    let found = compared(&records);
    assert_eq!(found.findings, []);
    let members = ["members", "/dev/sda, /dev/sdb", "/dev/sdc, /dev/sdd"];
    assert_eq!(found.environment, [members.map(str::to_owned).into()]);
    // A different version of Spindles too: two possible causes.
    environment(&mut records).commit = String::from("fedcba");
    let kinds = |change: Change| change.findings.into_iter().map(|finding| finding.kind);
    let found: Vec<String> = kinds(compared(&records)).collect();
    assert_eq!(found, ["environment-changed"]);
    // The same holds for named files.
    let files = compared(&with_disks(&["new/a.img"], 5));
    let members = ["members", "/dev/sda, /dev/sdb", "new/a.img"];
    assert_eq!(files.environment, [members.map(str::to_owned).into()]);
    assert_eq!(files.findings, []);
    // Temporary files have a different name each time.
    let files = compared(&with_disks(&["/tmp/spindles-lab-17-0-ab/member0.img"], 5));
    assert_eq!(files.environment, []);
    assert_eq!(files.findings[0].kind, "yardstick-moved");
}

/// The difference is exactly the ratio of the rates shown next to it.
#[test]
fn a_difference_equals_the_ratio_of_the_shown_rates() {
    let analysis = Analysis::of(&example::records(7)).unwrap();
    let own = &analysis.own_comparisons;
    let is_own = |comparison: &Comparison| {
        (&*comparison.system, &*comparison.baseline) == ("raid5", "raid0")
    };
    assert!(own.iter().all(is_own));
    assert_eq!(own.len(), analysis.experiment.workloads.len());
    for comparison in analysis.comparisons.iter().chain(own) {
        let rate = |system: &str| {
            let cell = analysis.cell(system, &comparison.workload);
            cell.unwrap().geometric_mean
        };
        let shown = (rate(&comparison.system) / rate(&comparison.baseline) - 1.0) * 100.0;
        assert!((comparison.percent().0 - shown).abs() < 1e-9);
    }
    let after = Analysis::of(&example::records(6)).unwrap();
    for row in change(&analysis, &after, Verdicts::SameWork).rows {
        let shown = (row.after / row.before).ln();
        assert!((row.log_ratio.value - shown).abs() < 1e-12);
    }
}

/// A percentile needs some slower operations.
#[test]
fn the_last_percentile_needs_ten_thousand_operations() {
    for (count, expected) in [(9_999, None), (10_000, Some(5))] {
        let mut records = spotless();
        records.retain(|record| !matches!(record, Record::Run(run) if run.repetition_block > 0));
        runs(&mut records).for_each(|run| {
            let mut histogram = Histogram::new();
            histogram.record_many(5, count);
            run.latency = [("read".to_owned(), histogram)].into();
        });
        let analysis = Analysis::of(&records).unwrap();
        for cell in &analysis.cells {
            assert_eq!(cell.latency["read"].p99_9_ns, expected);
        }
    }
}

/// Workloads on files use the page cache on purpose: `O_DIRECT` is no advice for them.
#[test]
fn file_workloads_get_their_own_advice() {
    let mut records = spotless();
    for run in runs(&mut records) {
        run.io.direct = false;
        "files".clone_into(&mut run.io.backend);
    }
    let analysis = Analysis::of(&records).unwrap();
    let found = analysis.findings.iter();
    let found: Vec<&Finding> = found.filter(|found| found.kind.contains("cache")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].remedy.contains("empties the caches") && !found[0].remedy.contains("O_DIRECT")
    );
}

/// A phase that only flushes moves no data itself.
#[test]
fn workloads_without_data_are_not_cached() {
    let mut records = spotless();
    for run in runs(&mut records) {
        run.io.direct = false;
        "files".clone_into(&mut run.io.backend);
        run.application.written = 1 << 20;
        run.evidence = Some(Evidence {
            cache: CacheUse {
                file_bytes: 5 << 20,
                memory_bytes: 1 << 30,
                ..CacheUse::default()
            },
            ..Evidence::default()
        });
    }
    let has = |records: &[Record]| kinds_found(records).contains(&"page-cache".to_owned());
    assert!(has(&records));
    runs(&mut records).for_each(|run| run.application = Traffic::default());
    assert!(!has(&records));
}

/// Without reads, nothing can come from a cache.
#[test]
fn caches_are_doubted_only_for_reads() {
    let mut records = spotless();
    runs(&mut records).for_each(|run| run.io.direct = false);
    assert!(kinds_found(&records).contains(&"cache-effect".to_owned()));
    for run in runs(&mut records) {
        if run.workload.name == "dd-write" {
            continue;
        }
        run.failed = Some("gone".to_owned());
    }
    let found = kinds_found(&records);
    assert!(!found.contains(&"cache-effect".to_owned()), "{found:?}");
}

/// Any difference in the work is reported, and prevents a verdict unless one is requested.
#[test]
fn different_work_gets_no_verdict() {
    type Plant = fn(&mut Experiment, &mut Vec<Record>);
    let plants: &[(Plant, &str, usize)] = &[
        (
            |experiment, _| experiment.workloads[0].in_flight_max = 32,
            "dd-read: in flight 1 before, 32 after",
            6,
        ),
        (
            |experiment, _| experiment.workloads[0].size_bytes = 1 << 20,
            "dd-read: size 2 MiB before, 1 MiB after",
            6,
        ),
        (
            |experiment, _| experiment.workloads[0].operation_bytes = 512,
            "dd-read: size of an operation 4 KiB before, 512 bytes after",
            6,
        ),
        (
            |experiment, _| system(experiment, "raid4").chunk_bytes = 4096,
            "raid4: chunk 64 KiB before, 4 KiB after",
            3,
        ),
        (
            |experiment, _| {
                let raid4 = system(experiment, "raid4");
                "raid5".clone_into(&mut raid4.level);
                "raid5(4)".clone_into(&mut raid4.expression);
            },
            "raid4: target raid4(a,b,c,d) before, raid5(4) after",
            3,
        ),
        (
            |experiment, _| {
                let options = &mut system(experiment, "raid4").options;
                options.insert("checksum".to_owned(), "none".to_owned());
            },
            "raid4: checksum the default before, none after",
            3,
        ),
        (
            |_, records| of_system(records, "raid4").for_each(|run| run.io.direct = false),
            "raid4: members through io_uring before, io_uring and the page cache after",
            3,
        ),
    ];
    let mut known = spotless();
    let first = &mut experiment(&mut known).workloads[0];
    (first.size_bytes, first.operation_bytes) = (2 << 20, 4096);
    let before = Analysis::of(&known).unwrap();
    for (plant, message, concerned) in plants {
        let mut records = known.clone();
        of_system(&mut records, "raid4").for_each(|run| run.elapsed_ns /= 2);
        let mut planted = experiment(&mut records).clone();
        plant(&mut planted, &mut records);
        *experiment(&mut records) = planted;
        let after = Analysis::of(&records).unwrap();
        let found = change(&before, &after, Verdicts::SameWork);
        let words: Vec<String> = found.different_work.iter().map(Difference::words).collect();
        assert_eq!(words, [*message]);
        let asked = || found.rows.iter().filter(|row| !row.control);
        let without = asked().filter(|row| row.verdict.is_none());
        assert_eq!(without.count(), *concerned, "{message}");
        let found = change(&before, &after, Verdicts::All);
        assert_eq!(found.different_work.len(), 1, "{message}");
        let mut asked = found.rows.iter().filter(|row| !row.control);
        assert!(asked.all(|row| row.verdict.is_some()), "{message}");
    }
    // Facts missing from older records are not differences.
    let found = change(
        &Analysis::of(&spotless()).unwrap(),
        &before,
        Verdicts::SameWork,
    );
    assert_eq!(found.different_work, []);
}

/// The mount of a folder as found is part of the environment, not of the chosen work.
#[test]
fn another_mount_is_another_environment() {
    let analysis = |mount: &str| {
        let mut records = spotless();
        let options = &mut system(experiment(&mut records), "raid5").options;
        options.insert(
            spindles_measure::System::MOUNTED.to_owned(),
            mount.to_owned(),
        );
        Analysis::of(&records).unwrap()
    };
    let (before, after) = (analysis("ext4 rw; rw"), analysis("ext4 rw,sync; rw"));
    let found = change(&before, &after, Verdicts::SameWork);
    assert_eq!(found.different_work, []);
    let expected = ["mount of raid5", "ext4 rw; rw", "ext4 rw,sync; rw"].map(str::to_owned);
    assert_eq!(found.environment, [expected.into()]);
    // Older records don't contain it.
    let silent = Analysis::of(&spotless()).unwrap();
    let found = change(&silent, &after, Verdicts::SameWork);
    assert_eq!((found.different_work, found.environment), (vec![], vec![]));
}

fn system<'a>(experiment: &'a mut Experiment, name: &str) -> &'a mut spindles_measure::System {
    let mut systems = experiment.systems.iter_mut();
    systems.find(|system| system.name == name).unwrap()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "about 1e9"
)]
fn nanoseconds(value: f64) -> u64 {
    value as u64
}

#[test]
fn every_field_of_a_record_is_documented() {
    fn names(value: &serde_json::Value, found: &mut Vec<String>) {
        if let Some(object) = value.as_object() {
            found.extend(object.keys().cloned());
            object.values().for_each(|value| names(value, found));
        }
        for value in value.as_array().into_iter().flatten() {
            names(value, found);
        }
    }
    fn described(schema: &serde_json::Value, found: &mut Vec<String>) {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let is_described = |rule: &serde_json::Value| {
            let text = rule["description"].as_str().unwrap_or_default();
            !text.is_empty() || rule.get("$ref").is_some() || rule.get("const").is_some()
        };
        found.extend(
            properties
                .filter(|(_, rule)| is_described(rule))
                .map(|(name, _)| name.clone()),
        );
        for value in schema.as_object().into_iter().flat_map(|o| o.values()) {
            described(value, found);
        }
        for value in schema.as_array().into_iter().flatten() {
            described(value, found);
        }
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/records.schema.json"
    );
    let schema = std::fs::read_to_string(path).unwrap();
    let mut documented = Vec::new();
    described(&serde_json::from_str(&schema).unwrap(), &mut documented);
    let mut found = Vec::new();
    for record in example::records(1) {
        names(
            &serde_json::from_str(&to_line(&record)).unwrap(),
            &mut found,
        );
    }
    found.sort();
    found.dedup();
    // `write` is a key, but names an operation, not a field.
    found.retain(|name| name != "write" && !documented.contains(name));
    assert!(
        found.is_empty(),
        "records.schema.json does not explain {found:?}"
    );
}

#[test]
fn slow_members_are_reported_once_for_all_repetitions() {
    let mut records = spotless();
    let late = |array: &str, member, slow, hedged_reads| LateMember {
        array: array.to_owned(),
        member,
        slow,
        stalled: hedged_reads > 0,
        hedged_reads,
    };
    let mut of_raid5 = of_system(&mut records, "raid5").filter(|run| run.workload.name == "seeks");
    of_raid5.next().unwrap().late_members = vec![late("", 2, false, 3), late("inner", 0, true, 0)];
    of_raid5.next().unwrap().late_members = vec![late("", 1, true, 1), late("", 2, false, 4)];
    drop(of_raid5);
    let analysis = Analysis::of(&records).unwrap();
    let found = analysis
        .findings
        .iter()
        .find(|finding| finding.kind == "late-members");
    let expected = "seeks: raid5 (member 1 slow, stalled, 1 read hedged; member 2 stalled, 7 reads \
        hedged; member 0 of inner slow)";
    assert_eq!(found.unwrap().details, [expected]);
    let text: String = records.iter().map(to_line).collect();
    assert_eq!(from_lines(&text).unwrap(), records);
    // Most runs have none, and omit the field.
    assert_eq!(text.matches("late_members").count(), 2);
}

/// A runner learns whether every headline ratio is precise enough, and how many blocks the others
/// need.
#[test]
fn headline_ratios_are_precise_or_report_the_blocks_needed() {
    let scattered = |scatter: f64| {
        let mut random = Random::new(3);
        let mut records = spotless();
        of_system(&mut records, "raid5").for_each(|run| {
            run.elapsed_ns = nanoseconds(1e9 * (scatter * random.normal()).exp());
        });
        Analysis::of(&records)
            .unwrap()
            .unresolved(HALF_WIDTH_TARGET)
    };
    assert_eq!(scattered(0.001), []);
    let open = scattered(0.3);
    assert_eq!(open.len(), 3);
    for one in open {
        assert_eq!(one.system, "raid5");
        assert!(one.half_width > 0.05, "{one:?}");
        assert!(one.blocks_needed.is_none_or(|needed| needed > 6), "{one:?}");
    }
}

/// The steady state test also applies within a timed run, without its warm-up.
#[test]
fn a_timed_run_that_never_settles_is_doubted() {
    let found = |warm_up_slots, rate: fn(u64) -> u64| {
        let mut records = spotless();
        for run in of_system(&mut records, "raid4") {
            run.workload.duration_ns = run.elapsed_ns;
            let slot = |at| Slot {
                operations: rate(at),
                bytes: Traffic::of_reads(rate(at) * 4096),
                latency: Vec::new(),
            };
            run.series = Some(Series {
                slot_ns: 1_000_000,
                warm_up_slots,
                slots: (0..40).map(slot).collect(),
            });
        }
        kinds_found(&records)
    };
    let warm = |at: u64| if at < 10 { 10 } else { 100 };
    assert_eq!(found(10, warm), Vec::<String>::new());
    assert_eq!(found(0, warm), ["not-steady"]);
    assert_eq!(found(10, |at| 100 + 4 * at), ["not-steady"]);
}

/// A result that measures the harness rather than the system is not compared, and causes no further
/// blocks.
#[test]
fn a_result_near_the_ceiling_of_the_harness_is_refused() {
    let with_ceiling = |ceiling: f64| {
        let mut records = spotless();
        of_system(&mut records, "raid5").for_each(|run| {
            run.elapsed_ns += u64::from(run.repetition_block) * 200_000_000;
        });
        let ceilings = [("dd-read".to_owned(), ceiling)].into();
        records.push(Record::Calibration(Box::new(Calibration {
            ceilings,
            ..Calibration::default()
        })));
        Analysis::of(&records).unwrap()
    };
    let analysis = with_ceiling(1.5e6);
    let refused = |comparison: &Comparison| comparison.verdict == Verdict::Refused;
    assert!(!analysis.comparisons.iter().any(refused));
    let analysis = with_ceiling(1.25e6);
    for comparison in &analysis.comparisons {
        let is_near = comparison.workload == "dd-read" && !comparison.control;
        assert_eq!(refused(comparison), is_near, "{comparison:?}");
    }
    let rows = change(&analysis, &with_ceiling(1.25e6), Verdicts::SameWork).rows;
    assert_eq!(rows.len(), 7 * 3);
    for row in rows.iter().filter(|row| !row.control) {
        // raid5 itself stays below the ceiling.
        let expected = row.workload == "dd-read" && row.system != "raid5";
        assert_eq!(row.verdict == Some(Verdict::Refused), expected, "{row:?}");
    }
    let open = analysis.unresolved(HALF_WIDTH_TARGET);
    assert!(!open.is_empty() && open.iter().all(|open| open.workload != "dd-read"));
}

/// Verdicts need evidence; older records have none and get no verdict.
#[test]
fn records_without_evidence_get_no_verdict() {
    let records = spotless();
    let analysis = Analysis::of(&records).unwrap();
    assert!(analysis.cells.iter().all(|cell| cell.verdicts.is_none()));
    assert!(
        !serde_json::to_string(&analysis)
            .unwrap()
            .contains("verdicts")
    );
    let mut records = records;
    of_system(&mut records, "raid5").for_each(|run| run.evidence = Some(Evidence::default()));
    let analysis = Analysis::of(&records).unwrap();
    let with: Vec<&str> = analysis
        .cells
        .iter()
        .filter(|cell| cell.verdicts.is_some())
        .map(|cell| &*cell.system)
        .collect();
    assert_eq!(with, ["raid5"; 3]);
}

/// Other cells of an experiment are evidence too: other sizes, more actors, the same without
/// caches.
#[test]
fn neighbouring_cells_are_evidence() {
    let rule = |plant: fn(&mut Vec<Record>)| {
        let mut records = spotless();
        records.retain(|record| !matches!(record, Record::Run(run) if run.system.name != "single"));
        for run in runs(&mut records) {
            run.io.direct = false;
            run.workload.kind = "cp".to_owned();
            run.evidence = Some(Evidence::default());
        }
        plant(&mut records);
        // A run's record contains its whole workload, so the experiment must match.
        let of_runs: Vec<_> = runs(&mut records).map(|run| run.workload.clone()).collect();
        for workload in &mut experiment(&mut records).workloads {
            let mine = of_runs.iter().find(|of_run| of_run.name == workload.name);
            workload.clone_from(mine.unwrap());
        }
        let analysis = Analysis::of(&records).unwrap();
        let cell = analysis.cell("single", "dd-read").unwrap();
        let verdicts = cell.verdicts.as_ref().unwrap();
        verdicts
            .cache
            .iter()
            .map(|verdict| (verdict.rule, verdict.grade))
            .collect::<Vec<_>>()
    };
    assert_eq!(rule(|_| {}), []);
    let cold = |records: &mut Vec<Record>| {
        for run in runs(records).filter(|run| run.workload.name == "dd-write") {
            run.elapsed_ns *= 2;
            run.evidence = Some(Evidence {
                cache: CacheUse {
                    emptied: true,
                    ..CacheUse::default()
                },
                ..Evidence::default()
            });
        }
    };
    assert_eq!(rule(cold), [("control-run", Grade::CacheFigure)]);
    let other_work = |records: &mut Vec<Record>| {
        for run in runs(records).filter(|run| run.workload.name == "dd-write") {
            run.elapsed_ns *= 2;
            run.io.direct = true;
            run.workload.size_bytes = 1 << 30;
        }
    };
    assert_eq!(rule(other_work), []);
}

/// Threads of one name that ran on a CPU in these percentages of the time.
fn busy(run: &Run, evidence: &mut Evidence, percentages: &[u64]) {
    let thread = |percent: &u64| ThreadUse {
        name: "server".to_owned(),
        cpu_ns: run.elapsed_ns / 100 * percent,
        ..ThreadUse::default()
    };
    evidence.threads = percentages.iter().map(thread).collect();
}

/// A device that is not a member and read this many bytes.
fn carrier(read: u64) -> Vec<DeviceUse> {
    vec![DeviceUse {
        name: "sda".to_owned(),
        bytes: Traffic { read, written: 0 },
        ..DeviceUse::default()
    }]
}

/// Counters may include a warm-up that the run does not. Threads may share a name, and devices that
/// are not members may carry everything.
#[test]
fn counters_are_interpreted_correctly() {
    let verdicts = |plant: fn(&mut Run, &mut Evidence)| {
        let mut records = spotless();
        for run in of_system(&mut records, "raid5").filter(|run| run.workload.name == "dd-read") {
            run.io.direct = true;
            let mut evidence = Evidence {
                actors: 1,
                ..Evidence::default()
            };
            plant(run, &mut evidence);
            run.evidence = Some(evidence);
        }
        let analysis = Analysis::of(&records).unwrap();
        let verdicts = analysis.cell("raid5", "dd-read").unwrap().verdicts.clone();
        let CellVerdicts {
            cache, bottleneck, ..
        } = verdicts.unwrap();
        let cache: Vec<&str> = cache.iter().map(|verdict| verdict.rule).collect();
        (bottleneck.cause(), cache)
    };
    let one = Some("cpu-of-one-thread");
    let one_busy = |run: &mut Run, evidence: &mut Evidence| busy(run, evidence, &[95]);
    assert_eq!(verdicts(one_busy), (one, vec![]));
    let half = |run: &mut Run, evidence: &mut Evidence| {
        busy(run, evidence, &[95]);
        evidence.window_ns = run.elapsed_ns * 2;
    };
    assert_ne!(verdicts(half).0, one);
    let two_busy = |run: &mut Run, evidence: &mut Evidence| busy(run, evidence, &[50, 45]);
    assert_ne!(verdicts(two_busy).0, one);

    let carried =
        |run: &mut Run, evidence: &mut Evidence| evidence.devices = carrier(run.application.read);
    assert_eq!(verdicts(carried).1, Vec::<&str>::new());
    assert_eq!(
        verdicts(|_, evidence| evidence.devices = carrier(0)).1,
        ["read-hits"]
    );
    // Half of it was read during the warm-up.
    let longer = |run: &mut Run, evidence: &mut Evidence| {
        evidence.devices = carrier(run.application.read);
        run.series = Some(Series {
            slot_ns: run.elapsed_ns,
            warm_up_slots: 1,
            ..Series::default()
        });
    };
    assert_eq!(verdicts(longer).1, ["read-hits"]);
    // One actor that spends half of its time on a CPU. A resource that is idle after the run may
    // have been busy during the run.
    let idle = |run: &mut Run, evidence: &mut Evidence| {
        busy(run, evidence, &[50]);
        run.cpu_ns.machine = run.elapsed_ns / 2;
    };
    assert_eq!(verdicts(idle).0, Some("too-few-actors"));
    let watched_longer = |run: &mut Run, evidence: &mut Evidence| {
        busy(run, evidence, &[50]);
        run.cpu_ns.machine = run.elapsed_ns / 2;
        evidence.window_ns = run.elapsed_ns * 2;
    };
    assert_eq!(verdicts(watched_longer).0, None);
    // Missing counters show nothing.
    let uncounted = |run: &mut Run, _: &mut Evidence| {
        run.members = Traffic::default();
        run.each_member.clear();
    };
    assert_eq!(verdicts(uncounted).1, Vec::<&str>::new());
}

/// A device shared by every member gets the fastest rate measured on it.
#[test]
fn a_shared_device_has_its_fastest_measured_rate() {
    let verdicts = |alone: u64| {
        let mut records = spotless();
        let member = |name: &str, read_bytes_per_s| MemberRate {
            name: name.to_owned(),
            read_bytes_per_s,
            // An arm handles one request at a time.
            random_reads_per_s: 100,
            ..MemberRate::default()
        };
        records.push(Record::Calibration(Box::new(Calibration {
            members: vec![member("a", alone), member("b", 400_000)],
            together_bytes_per_s: 500_000,
            ..Calibration::default()
        })));
        for run in of_system(&mut records, "raid5") {
            // A megabyte per second.
            run.application = Traffic::of_reads(1_000_000);
            run.io.direct = true;
            run.evidence = Some(Evidence {
                devices: carrier(run.application.read),
                ..Evidence::default()
            });
        }
        let analysis = Analysis::of(&records).unwrap();
        let cell = analysis.cell("raid5", "dd-read").unwrap();
        cell.verdicts.clone().unwrap().cache.len()
    };
    assert_eq!(verdicts(700_000), 1);
    assert_eq!(verdicts(900_000), 0);
}

//! Tests results over several workloads and over several single devices, and differences in
//! parameters.

use std::collections::BTreeMap;

use super::example;
use spindles_measure::{
    Analysis, Calibration, Choice, Cpu, Difference, Experiment, Place, Reason, Record, Run,
    Standing, System, Traffic, Verdict, Verdicts, Workload, change,
};

/// A run of this many MB in a second, with this many milliseconds of CPU time.
fn run(system: &str, workload: &str, block: u32, rate: u64, cpu_ms: u64) -> Run {
    let is_single = system.starts_with("wd");
    Run {
        system: System {
            name: system.to_owned(),
            level: if is_single { "single" } else { "raid0" }.to_owned(),
            ..System::default()
        },
        workload: Workload {
            name: workload.to_owned(),
            ..Workload::default()
        },
        repetition_block: block,
        elapsed_ns: 1_000_000_000,
        counted: rate * 1_000_000,
        application: Traffic::of_reads(rate * 1_000_000),
        cpu_ns: Cpu {
            machine: cpu_ms * rate * 1_000_000,
            ..Cpu::default()
        },
        ..Run::default()
    }
}

fn analysis(control: Option<&str>, runs: Vec<Run>) -> Analysis {
    let experiment = Experiment {
        baseline: "wd0".to_owned(),
        control: control.map(str::to_owned),
        ..Experiment::default()
    };
    let runs = runs.into_iter().map(|run| Record::Run(Box::new(run)));
    let records: Vec<Record> = std::iter::once(Record::Experiment(experiment))
        .chain(runs)
        .collect();
    Analysis::of(&records).expect("there are runs")
}

/// Twice as fast in one workload and half as fast in another is equal. An arithmetic mean would
/// deny it.
#[test]
fn the_overall_ratio_balances_twice_and_half() {
    let mut runs = Vec::new();
    for block in 0..3 {
        for (workload, rate) in [("read", 200), ("write", 50)] {
            runs.push(run("wd0", workload, block, 100, 1));
            runs.push(run("stripe", workload, block, rate, 1));
        }
    }
    let found = analysis(None, runs.clone()).overall;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].system, &*found[0].workload),
        ("stripe", "2 workloads")
    );
    assert!(found[0].log_ratio.value.abs() < 1e-12, "{found:?}");
    assert_eq!(found[0].log_ratio.blocks, 3);
    // A block without one of the workloads does not count.
    let without = |run: &Run| {
        let is_last_write = run.workload.name == "write" && run.repetition_block == 2;
        !(is_last_write && run.system.name == "stripe")
    };
    let cut = runs.iter().filter(|run| without(run)).cloned().collect();
    assert_eq!(analysis(None, cut).overall[0].log_ratio.blocks, 2);
    // A set arrival rate shows no speed, and a single workload makes no mean.
    for run in &mut runs {
        if run.workload.name == "write" {
            run.workload.arrivals_per_s = 100;
        }
    }
    assert!(analysis(None, runs).overall.is_empty());
}

#[test]
fn the_overall_ratio_is_the_mean_of_the_log_ratios() {
    for records in [example::records(3), example::file_records(2)] {
        let analysis = Analysis::of(&records).expect("the example has runs");
        assert!(!analysis.overall.is_empty());
        for overall in &analysis.overall {
            let mine = analysis.comparisons.iter().filter(|comparison| {
                let counted = &analysis.overall_scope.workloads;
                comparison.system == overall.system && counted.contains(&comparison.workload)
            });
            let ratios: Vec<f64> = mine.map(|mine| mine.log_ratio.value).collect();
            let mean = spindles_measure::statistics::mean(&ratios);
            assert!((overall.log_ratio.value - mean).abs() < 1e-9);
        }
        for cell in &analysis.cells {
            let rate = cell.log_rate.value.exp();
            assert!((rate / cell.geometric_mean - 1.0).abs() < 1e-9);
        }
    }
}

/// As in the comparisons of 2002, the yardstick is the arithmetic mean of both disks.
#[test]
fn the_mean_of_single_disks_is_arithmetic_within_each_block() {
    let mut runs = Vec::new();
    for block in 0..4 {
        // The second disk is faster in later blocks, so only ratios within a block are the same.
        let step = u64::from(block) + 1;
        for (system, rate, cpu_ms) in [
            ("wd0", 60 * step, 4),
            ("wd0-again", 999, 9),
            ("wd1", 40 * step, 2),
            ("stripe", 75 * step, 6),
        ] {
            runs.push(run(system, "read", block, rate, cpu_ms));
        }
    }
    let found = analysis(Some("wd0-again"), runs.clone());
    let singles = found.singles.expect("there are two");
    // Two mounts of the same disk are not two disks.
    let mut on_one = runs.clone();
    on_one
        .iter_mut()
        .filter(|run| run.system.level == "single")
        .for_each(|run| {
            "/dev/sda".clone_into(&mut run.system.expression);
        });
    assert!(analysis(Some("wd0-again"), on_one).singles.is_none());
    // A folder does not count either: it could be on the other disk.
    let in_folder = |change: fn(&mut System)| {
        let mut runs = runs.clone();
        (runs.iter_mut())
            .filter(|run| run.system.name == "wd1")
            .for_each(|run| change(&mut run.system));
        analysis(Some("wd0-again"), runs).singles
    };
    assert!(in_folder(|system| "/mnt/wd1".clone_into(&mut system.expression)).is_some());
    assert!(in_folder(|system| "folder:/mnt/wd1".clone_into(&mut system.expression)).is_none());
    let found = |system: &mut System| {
        system
            .options
            .insert(System::MOUNTED.to_owned(), "ext4 rw".to_owned());
    };
    assert!(in_folder(found).is_none());
    assert_eq!(singles.names(), "wd0 and wd1");
    let of = |system: &str| {
        let row = singles.rows.iter().find(|row| row.system == system);
        let row = row.expect("it ran");
        let cpu = row.cpu.expect("it was measured");
        (row.log_ratio.value.exp(), cpu.value.exp(), row.is_single)
    };
    for (system, ratio, cpu, is_single) in [
        ("stripe", 1.5, 2.0, false),
        ("wd0", 1.2, 4.0 / 3.0, true),
        ("wd1", 0.8, 2.0 / 3.0, true),
    ] {
        let (found, found_cpu, found_single) = of(system);
        assert!((found - ratio).abs() < 1e-9, "{system}: {found}");
        assert!((found_cpu - cpu).abs() < 1e-9, "{system}: {found_cpu}");
        assert_eq!(found_single, is_single);
    }
    assert_eq!(singles.rows.len(), 3, "the control is none of them");
    // A block without one of the disks has no mean.
    let mut cut = runs.clone();
    cut.retain(|run| run.system.name != "wd1" || run.repetition_block > 0);
    let cut = analysis(Some("wd0-again"), cut)
        .singles
        .expect("there are two");
    assert!(cut.rows.iter().all(|row| row.log_ratio.blocks == 3));
    runs.retain(|run| run.system.name != "wd1");
    assert!(analysis(Some("wd0-again"), runs).singles.is_none());
}

/// A different number of files is different work, which may explain any change.
#[test]
fn different_parameters_are_different_work() {
    let of = |nfiles: &str, duration_ns, arrivals_per_s| {
        let runs = (0..2).map(|block| {
            let mut run = run("wd0", "varmail", block, 100, 1);
            run.workload.parameters = BTreeMap::from([("nfiles".to_owned(), nfiles.to_owned())]);
            run.workload.duration_ns = duration_ns;
            run.workload.arrivals_per_s = arrivals_per_s;
            run
        });
        analysis(None, runs.collect())
    };
    let before = of("1000", 7, 0);
    let what = |after: &Analysis| -> Vec<String> {
        let change = change(&before, after, Verdicts::SameWork);
        assert_eq!(
            change.rows[0].verdict.is_some(),
            change.different_work.is_empty()
        );
        (change.different_work.iter())
            .map(Difference::words)
            .collect()
    };
    assert!(what(&before).is_empty());
    assert_eq!(
        what(&of("2000", 7, 0)),
        ["varmail: nfiles 1000 before, 2000 after"]
    );
    assert_eq!(
        what(&of("1000", 8, 0)),
        ["varmail: duration 7 ns before, 8 ns after"]
    );
    assert_eq!(
        what(&of("1000", 7, 50)),
        ["varmail: arrivals a second none: a closed loop before, 50 after"]
    );
}

/// A system's rates in three workloads, which scatter between blocks.
const ENTRANTS: &[(&str, [u64; 3])] = &[
    ("wd0", [1000, 1000, 1000]),
    ("stripe", [2000, 1990, 500]),
    ("wide", [2010, 2000, 490]),
    ("mirror", [1500, 600, 2000]),
];

fn entrants(blocks: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    for block in 0..blocks {
        for (at, (system, rates)) in (0_u64..).zip(ENTRANTS) {
            for (workload, rate) in ["read", "write", "mail"].iter().zip(rates) {
                // At most 2 % to each side, and different for each system.
                let scatter = 980 + (u64::from(block) * 17 + at * 13) % 41;
                runs.push(run(system, workload, block, rate * scatter / 1000, 1));
            }
        }
    }
    runs
}

fn choice_of(weights: &[(&str, f64)], runs: Vec<Run>, more: Vec<Record>) -> Choice {
    let weights = weights.iter();
    let experiment = Experiment {
        baseline: "wd0".to_owned(),
        control: Some("wd0-again".to_owned()),
        weights: weights
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect(),
        ..Experiment::default()
    };
    let runs = runs.into_iter().map(|run| Record::Run(Box::new(run)));
    let head = std::iter::once(Record::Experiment(experiment)).chain(more);
    let records: Vec<Record> = head.chain(runs).collect();
    Analysis::of(&records).expect("there are runs").choice
}

fn places(standings: &[Standing]) -> Vec<(&str, Place)> {
    let places = standings.iter();
    places.map(|place| (&*place.system, place.place)).collect()
}

/// Holm's correction covers all pairs: every system against every other in each workload, without
/// the control.
#[test]
fn the_best_systems_show_no_difference_from_the_fastest() {
    let mut runs = entrants(6);
    let again = runs.iter().filter(|run| run.system.name == "wd0").cloned();
    let again: Vec<Run> = again
        .map(|mut run| {
            "wd0-again".clone_into(&mut run.system.name);
            run
        })
        .collect();
    runs.extend(again);
    let choice = choice_of(&[], runs, Vec::new());
    assert_eq!((choice.pairs, choice.workloads.len()), (18, 3));
    assert!(choice.weighted.is_none());
    let read = &choice.workloads[0];
    assert_eq!(
        places(&read.standings),
        [
            ("wide", Place::Best),
            ("stripe", Place::Best),
            ("mirror", Place::Behind),
            ("wd0", Place::Behind),
        ]
    );
    let behind = read.standings[2].behind.expect("it is not the fastest");
    assert!((behind.value - (0.75_f64).ln()).abs() < 0.03 && behind.high < -0.2);
    assert!(read.standings[0].behind.is_none());
    let pair = |system: &str, other: &str| {
        let mut pairs = read.pairs.iter();
        pairs.find(|pair| pair.system == system && pair.other == other)
    };
    let verdict = |system, other| pair(system, other).map(|pair| pair.verdict);
    assert_eq!(verdict("wide", "stripe"), Some(Verdict::NoDifferenceShown));
    // This pair does not include the baseline.
    assert_eq!(verdict("mirror", "wide"), Some(Verdict::Slower));
    assert!(pair("mirror", "wide").unwrap().p_corrected < 0.05);
    assert_eq!(choice.best_in("stripe"), 2);
    assert_eq!(choice.best_in("mirror"), 1);
    assert_eq!(choice.counting().count(), 3);
    // With many more pairs, a small difference is not shown.
    let small = |pairs: usize| {
        let mut runs = entrants(4);
        runs.retain(|run| ["wide", "mirror"].contains(&&*run.system.name));
        runs.retain(|run| run.workload.name == "read");
        for run in &mut runs {
            let scatter = [0, 40, 20, 50][usize::try_from(run.repetition_block).unwrap()];
            let rate = if run.system.name == "wide" {
                1100
            } else {
                1000 + scatter
            };
            run.counted = rate * 1_000_000;
        }
        let one = runs.clone();
        for copy in 1..pairs {
            let named = one.iter().cloned().map(|mut run| {
                run.workload.name = format!("read {copy}");
                run.counted = 1_000_000 * (1000 + u64::from(run.repetition_block));
                run
            });
            runs.extend(named);
        }
        choice_of(&[], runs, Vec::new()).workloads[0].pairs[0].clone()
    };
    let (alone, among) = (small(1), small(30));
    assert!(alone.p_corrected < 0.05 && among.p_corrected > 0.05);
    assert_eq!(among.verdict, Verdict::NoDifferenceShown);
}

/// A wide interval separates a system from nothing. It is not among the best if a faster system is
/// separated from the fastest.
#[test]
fn a_noisy_system_is_not_best_ahead_of_a_faster_one() {
    let mut runs = Vec::new();
    for block in 0..5 {
        let noisy = if block == 2 { 20 } else { 2100 };
        let steady = 1200 + 10 * u64::from(block);
        for (system, rate) in [("wd0", 2000), ("steady", steady), ("noisy", noisy)] {
            runs.push(run(system, "read", block, rate, 1));
        }
    }
    let choice = choice_of(&[("read", 1.0)], runs, Vec::new());
    let expected = [
        ("wd0", Place::Best),
        ("steady", Place::Unresolved),
        ("noisy", Place::Unresolved),
    ];
    assert_eq!(places(&choice.workloads[0].standings), expected);
    let weighted = choice.weighted.as_ref().expect("there are weights");
    assert_eq!(places(&weighted.standings), expected);
    let noisy = choice.workloads[0].standings[2].behind.expect("it ran");
    assert!(noisy.value < -0.5 && !noisy.excludes_zero(), "{noisy:?}");
    assert_eq!((choice.best_in("wd0"), choice.best_in("noisy")), (1, 0));
}

/// Systems with one block, a failure, or a figure of the load generator are not among the best.
#[test]
fn systems_without_a_result_are_not_among_the_best() {
    let of_one = choice_of(&[("read", 1.0)], entrants(1), Vec::new());
    for ranking in &of_one.workloads {
        assert!(
            ranking
                .standings
                .iter()
                .all(|standing| standing.place == Place::OneBlock)
        );
    }
    assert_eq!(of_one.counting().count(), 0);
    assert_eq!(of_one.weighted.unwrap().best().count(), 0);
    let mut runs = entrants(5);
    for run in runs.iter_mut().filter(|run| run.system.name == "mirror") {
        run.failed = Some("gone".to_owned());
    }
    let ceilings = [("write".to_owned(), 2.5e9)].into();
    let calibration = Calibration {
        ceilings,
        ..Calibration::default()
    };
    let more = vec![Record::Calibration(Box::new(calibration))];
    let choice = choice_of(&[("read", 1.0), ("write", 1.0)], runs, more);
    let place = |at: usize, system: &str| choice.workloads[at].standing(system).unwrap().place;
    assert_eq!(place(0, "mirror"), Place::Failed);
    assert_eq!(place(1, "wide"), Place::Refused);
    assert_eq!(place(1, "wd0"), Place::Best);
    assert_eq!(choice.workloads[1].not_counted, Some(Reason::Refused));
    // The fastest may be one of the refused systems.
    assert_eq!(choice.counting().count(), 2);
    let weighted = choice.weighted.expect("there are weights");
    let place = |system: &str| {
        let mut standings = weighted.standings.iter();
        standings
            .find(|standing| standing.system == system)
            .unwrap()
            .place
    };
    assert_eq!(place("mirror"), Place::Failed);
    assert_eq!(place("wide"), Place::Refused);
    assert_eq!(weighted.shares[1].not_counted, Some(Reason::Refused));
}

/// The weights decide the order, and the interval is that of the weighted log-ratios over blocks.
#[test]
fn weights_rank_the_systems() {
    let weighted = |weights: &[(&str, f64)]| {
        let choice = choice_of(weights, entrants(6), Vec::new());
        choice.weighted.expect("there are weights")
    };
    let of_mail = weighted(&[("mail", 0.7), ("read", 0.3)]);
    assert_eq!(of_mail.best().collect::<Vec<_>>(), ["mirror"]);
    let expected = 0.7 * (1000.0_f64 / 2000.0).ln() + 0.3 * (1000.0_f64 / 1500.0).ln();
    let last = of_mail
        .standings
        .iter()
        .find(|standing| standing.system == "wd0");
    let behind = last.unwrap().behind.expect("it is behind");
    assert!((behind.value - expected).abs() < 0.03, "{behind:?}");
    assert!(behind.low < behind.value && behind.value < behind.high && behind.high < 0.0);
    assert_eq!(behind.blocks, 6);
    let of_reads = weighted(&[("mail", 1.0), ("read", 19.0), ("tape", 5.0)]);
    let best: Vec<&str> = of_reads.best().collect();
    assert!(
        best.contains(&"wide") && !best.contains(&"mirror"),
        "{best:?}"
    );
    assert_eq!(of_reads.not_run, ["tape"]);
    let shares: Vec<f64> = of_reads.shares.iter().map(|share| share.share).collect();
    assert_eq!(shares, [0.05, 0.95]);
    assert!(of_reads.shares.iter().all(|share| !share.is_short));
    // One system that finishes too soon is enough.
    let mut runs = entrants(6);
    let is_short = |run: &&mut Run| run.system.name == "wide" && run.workload.name == "mail";
    runs.iter_mut()
        .filter(is_short)
        .for_each(|run| run.elapsed_ns = 50_000_000);
    let hasty = choice_of(&[("mail", 1.0), ("read", 1.0)], runs, Vec::new());
    let hasty = hasty
        .weighted
        .expect("there are weights")
        .shares
        .into_iter();
    assert_eq!(
        hasty.map(|hasty| hasty.is_short).collect::<Vec<_>>(),
        [true, false]
    );
    // The phases of a workload have equal shares.
    let of_files = Analysis::of(&example::file_records(3)).unwrap();
    let weighted = of_files.choice.weighted.expect("the example has weights");
    assert!(weighted.shares.len() > 2 && weighted.not_run.is_empty());
    let sum: f64 = weighted.shares.iter().map(|share| share.share).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}

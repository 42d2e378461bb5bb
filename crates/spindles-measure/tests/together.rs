//! What is said of several workloads together, of several single devices together, and of parameters.

use std::collections::BTreeMap;

use spindles_measure::{
    Analysis, Cpu, Difference, Experiment, Record, Run, System, Traffic, Verdicts, Workload,
    change, example,
};

/// A run of so many MB in a second, with so many milliseconds of CPU time.
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
        application: Traffic {
            read: rate * 1_000_000,
            written: 0,
        },
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

/// Twice as fast in one and half as fast in another is equal, which an arithmetic mean denies.
#[test]
fn over_all_workloads_twice_and_half_are_equal() {
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
    // A block in which one of them is missing is a mean of something else.
    let without = |run: &Run| {
        let is_it = run.workload.name == "write" && run.repetition_block == 2;
        !(is_it && run.system.name == "stripe")
    };
    let cut = runs.iter().filter(|run| without(run)).cloned().collect();
    assert_eq!(analysis(None, cut).overall[0].log_ratio.blocks, 2);
    // What comes at a set rate says nothing of speed, and one workload is no mean.
    for run in &mut runs {
        if run.workload.name == "write" {
            run.workload.arrivals_per_s = 100;
        }
    }
    assert!(analysis(None, runs).overall.is_empty());
}

#[test]
fn over_all_workloads_it_is_the_mean_of_the_log_ratios() {
    for records in [example::records(3), example::file_records(2)] {
        let analysis = Analysis::of(&records).expect("the example has runs");
        assert!(!analysis.overall.is_empty());
        for overall in &analysis.overall {
            let mine = analysis.comparisons.iter().filter(|it| {
                let counted = &analysis.overall_scope.workloads;
                it.system == overall.system && counted.contains(&it.workload)
            });
            let ratios: Vec<f64> = mine.map(|it| it.log_ratio.value).collect();
            let mean = spindles_measure::statistics::mean(&ratios);
            assert!((overall.log_ratio.value - mean).abs() < 1e-9);
        }
        for cell in &analysis.cells {
            let rate = cell.log_rate.value.exp();
            assert!((rate / cell.geometric_mean - 1.0).abs() < 1e-9);
        }
    }
}

/// As the comparison of 2002 drew it: by the arithmetic mean of both disks.
#[test]
fn the_mean_of_the_singles_is_arithmetic_and_of_the_same_block() {
    let mut runs = Vec::new();
    for block in 0..4 {
        // The second disk is faster in later blocks: only ratios within a block are the same.
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
    // Under two mounts it is one disk.
    let mut on_one = runs.clone();
    on_one
        .iter_mut()
        .filter(|run| run.system.level == "single")
        .for_each(|run| {
            "/dev/sda".clone_into(&mut run.system.expression);
        });
    assert!(analysis(Some("wd0-again"), on_one).singles.is_none());
    // Nor is a folder one, which may lie on the other.
    let in_folder = |change: fn(&mut System)| {
        let mut runs = runs.clone();
        (runs.iter_mut())
            .filter(|run| run.system.name == "wd1")
            .for_each(|run| change(&mut run.system));
        analysis(Some("wd0-again"), runs).singles
    };
    assert!(in_folder(|it| "/mnt/wd1".clone_into(&mut it.expression)).is_some());
    assert!(in_folder(|it| "folder:/mnt/wd1".clone_into(&mut it.expression)).is_none());
    let found = |it: &mut System| {
        it.options
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
    // Without one of the disks there is no mean of both.
    let mut cut = runs.clone();
    cut.retain(|run| run.system.name != "wd1" || run.repetition_block > 0);
    let cut = analysis(Some("wd0-again"), cut)
        .singles
        .expect("there are two");
    assert!(cut.rows.iter().all(|row| row.log_ratio.blocks == 3));
    runs.retain(|run| run.system.name != "wd1");
    assert!(analysis(Some("wd0-again"), runs).singles.is_none());
}

/// Another size of the files is other work, which may explain any change.
#[test]
fn other_parameters_are_other_work() {
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

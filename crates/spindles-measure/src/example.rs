//! Deterministic records of invented experiments, for tests of reports and trials of new charts.
//! The figures are made up, but have the shape of real ones.

mod files;
mod parts;

pub use files::file_records;

use std::collections::BTreeMap;

use parts::{environment, whole};

use crate::histogram::to_f64;
use crate::statistics::Random;
use crate::{Cpu, Experiment, Histogram, Io, Rate, Record, Run, System, Traffic, Workload};

/// Name, level, members, survives; speeds of reads, large writes and small requests relative to the
/// single disk; bytes written and read at members per byte written; engine CPU per byte.
type SystemRow = (
    &'static str,
    &'static str,
    u32,
    u32,
    [f64; 3],
    [f64; 2],
    f64,
);

const SYSTEMS: &[SystemRow] = &[
    ("single", "single", 1, 0, [1.0, 1.0, 1.0], [1.0, 0.0], 0.02),
    (
        "single-again",
        "single",
        1,
        0,
        [1.0, 1.0, 1.0],
        [1.0, 0.0],
        0.02,
    ),
    (
        "concat",
        "concat",
        4,
        0,
        [0.99, 0.98, 0.98],
        [1.0, 0.0],
        0.05,
    ),
    ("raid0", "raid0", 4, 0, [1.06, 1.04, 0.99], [1.0, 0.0], 0.06),
    ("raid1", "raid1", 2, 1, [0.98, 0.52, 0.93], [2.0, 0.0], 0.07),
    (
        "raid10",
        "raid10",
        4,
        1,
        [1.02, 0.51, 0.94],
        [2.0, 0.0],
        0.07,
    ),
    (
        "raid4",
        "raid4",
        4,
        1,
        [0.97, 0.61, 0.62],
        [1.36, 0.04],
        0.16,
    ),
    (
        "raid5",
        "raid5",
        4,
        1,
        [1.0, 0.66, 0.68],
        [1.36, 0.04],
        0.16,
    ),
    (
        "raid6",
        "raid6",
        6,
        2,
        [0.96, 0.55, 0.51],
        [1.55, 0.06],
        0.24,
    ),
];

/// Name, summary, unit of the rate, share of reads, rate of the single disk, bytes per operation,
/// operations, deviation, index of the speed, requests in flight.
type WorkloadRow = (
    &'static str,
    &'static str,
    Rate,
    f64,
    f64,
    u64,
    u64,
    f64,
    usize,
    u32,
);

const WORKLOADS: &[WorkloadRow] = &[
    (
        "dd-read",
        "1 MiB sequential reads, one in flight",
        Rate::Bytes,
        1.0,
        1.9e9,
        1 << 20,
        256,
        0.03,
        0,
        1,
    ),
    (
        "dd-write",
        "1 MiB sequential writes, one in flight, flushed at the end",
        Rate::Bytes,
        0.0,
        1.1e9,
        1 << 20,
        256,
        0.05,
        1,
        1,
    ),
    (
        "dd-parallel",
        "two 1 MiB sequential readers at once",
        Rate::Bytes,
        1.0,
        2.4e9,
        1 << 20,
        512,
        0.04,
        0,
        2,
    ),
    (
        "block-write",
        "sequential writes of 8 KiB",
        Rate::Bytes,
        0.0,
        2.1e8,
        8192,
        8192,
        0.06,
        2,
        1,
    ),
    (
        "block-read",
        "sequential reads of 8 KiB",
        Rate::Bytes,
        1.0,
        3.6e8,
        8192,
        8192,
        0.03,
        0,
        1,
    ),
    (
        "rewrite",
        "8 KiB read, changed and written back",
        Rate::Bytes,
        0.5,
        1.2e8,
        8192,
        8192,
        0.07,
        2,
        1,
    ),
    (
        "seeks",
        "4000 random reads of 8 KiB by 3 seekers, every 10th written back",
        Rate::Operations,
        0.91,
        2.6e4,
        8192,
        4000,
        0.09,
        2,
        3,
    ),
];

/// Returns the records of an experiment with this many repetition blocks: requests on block
/// targets.
pub fn records(blocks: u32) -> Vec<Record> {
    let systems: Vec<System> = SYSTEMS.iter().map(system).collect();
    let workloads: Vec<Workload> = WORKLOADS.iter().map(workload).collect();
    let mut records = vec![
        Record::Experiment(Experiment {
            name: "example".to_owned(),
            summary: "Every level against a single disk, with invented figures".to_owned(),
            seed: 1,
            started_unix_ms: 1_784_203_260_000,
            repetition_blocks: blocks,
            baseline: "single".to_owned(),
            control: Some("single-again".to_owned()),
            systems,
            workloads,
            scaled: true,
            scaled_how: "64 to 512 MiB a run instead of the sizes the workloads define".to_owned(),
            shared_device: true,
            definition: "name = \"example\"\n".to_owned(),
            weights: BTreeMap::new(),
        }),
        Record::Environment(environment()),
    ];
    let mut random = Random::new(42);
    let mut order = 0;
    for block in 0..blocks {
        let mut pairs: Vec<(usize, usize)> = (0..SYSTEMS.len())
            .flat_map(|system| (0..WORKLOADS.len()).map(move |workload| (system, workload)))
            .collect();
        for place in (1..pairs.len()).rev() {
            pairs.swap(place, random.below(place + 1));
        }
        for (system, workload) in pairs {
            let run = run(
                &SYSTEMS[system],
                &WORKLOADS[workload],
                block,
                order,
                &mut random,
            );
            records.push(Record::Run(Box::new(run)));
            order += 1;
        }
    }
    records
}

fn system(&(name, level, members, survives, ..): &SystemRow) -> System {
    let letters: Vec<&str> = ["a", "b", "c", "d", "e", "f"][..index(members)].to_vec();
    let expression = match level {
        "single" => "single".to_owned(),
        level => format!("{level}({})", letters.join(",")),
    };
    System {
        name: name.to_owned(),
        expression,
        level: level.to_owned(),
        members,
        chunk_bytes: if members > 2 { 65_536 } else { 0 },
        capacity_bytes: 512 << 20,
        survives,
        baseline: (level == "raid5").then(|| "raid0".to_owned()),
        ..System::default()
    }
}

fn workload(&(name, summary, rate, _, _, _, _, _, _, in_flight): &WorkloadRow) -> Workload {
    Workload {
        name: name.to_owned(),
        summary: summary.to_owned(),
        rate,
        in_flight_max: in_flight,
        ..Workload::default()
    }
}

fn run(
    system_row: &SystemRow,
    workload_row: &WorkloadRow,
    block: u32,
    order: u32,
    random: &mut Random,
) -> Run {
    let &(_, _, _, _, speeds, [write_factor, read_factor], engine_cpu) = system_row;
    let &(_, _, rate, reads, single_rate, bytes, operations, deviation, kind, _) = workload_row;
    // Writes are slowed by the additional writes at the members, in proportion to their share.
    let speed = speeds[kind].powf(if kind == 2 { 1.0 - reads * 0.8 } else { 1.0 });
    let per_second = single_rate * speed * (deviation * random.normal()).exp();
    let moved = bytes * operations;
    let counted = if rate == Rate::Bytes {
        moved
    } else {
        operations
    };
    let elapsed = to_f64(counted) / per_second * 1e9;
    let application = application(moved, reads, rate);
    let Traffic { read, written } = application;
    let members = Traffic {
        read: read + whole(to_f64(written) * read_factor),
        written: whole(to_f64(written) * write_factor),
    };
    let each = elapsed / to_f64(operations);
    let latency = latency(application, bytes, each, random);
    let workload_cpu = to_f64(moved) * 0.03 + to_f64(operations) * 900.0;
    let engine = to_f64(members.total()) * engine_cpu + to_f64(operations) * 2500.0;
    let rest = elapsed * 0.12 + to_f64(members.total()) * 0.08;
    Run {
        experiment: "example".to_owned(),
        system: system(system_row),
        workload: workload(workload_row),
        repetition_block: block,
        order,
        seed: random.next_u64() >> 11,
        started_unix_ms: 1_784_203_260_000 + u64::from(order) * 250,
        elapsed_ns: whole(elapsed),
        operations,
        counted,
        application,
        members,
        latency,
        cpu_ns: Cpu {
            workload: whole(workload_cpu),
            engine: whole(engine),
            machine: whole(workload_cpu + engine + rest),
        },
        io: Io {
            backend: "io_uring".to_owned(),
            direct: true,
        },
        scaled: true,
        shared_device: true,
        ..Run::default()
    }
}

/// Returns the bytes read and written by operations that move this many, a share of them reads.
fn application(moved: u64, reads: f64, rate: Rate) -> Traffic {
    // A rewrite and a seek that is written back move their bytes in both directions.
    let both = reads > 0.0 && reads < 1.0;
    let read = if both {
        moved
    } else {
        whole(to_f64(moved) * reads)
    };
    let written = if both && rate == Rate::Operations {
        moved / 10
    } else if both {
        moved
    } else {
        moved - read
    };
    Traffic { read, written }
}

/// Draws the latencies of reads and writes of `bytes` each, which typically take `each` ns.
fn latency(
    application: Traffic,
    bytes: u64,
    each: f64,
    random: &mut Random,
) -> BTreeMap<String, Histogram> {
    let mut latency = BTreeMap::new();
    for (operation, share) in [("read", application.read), ("write", application.written)] {
        let mut histogram = Histogram::new();
        // A few hundred draws represent all operations.
        let alike = (share / bytes).div_ceil(300).max(1);
        for _ in 0..share / bytes / alike {
            let tail = if random.below(150) == 0 { 6.0 } else { 1.0 };
            let value = whole(each * tail * (0.35 * random.normal()).exp());
            histogram.record_many(value, alike);
        }
        if !histogram.is_empty() {
            latency.insert(operation.to_owned(), histogram);
        }
    }
    latency
}

fn index(members: u32) -> usize {
    usize::try_from(members).expect("a handful of members")
}

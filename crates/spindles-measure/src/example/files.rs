//! The second invented experiment: files on two single disks and on arrays of both. It has phases
//! of whole workloads, sweeps, timed runs with slots, an open loop, prices and evidence.

use std::collections::BTreeMap;

use super::parts::{environment, whole};
use crate::histogram::to_f64;
use crate::statistics::Random;
use crate::{
    CacheUse, Calibration, Cpu, DeviceUse, Evidence, Experiment, Histogram, Io, LinkUse,
    MemberRate, Part, Phase, Rate, Record, Requests, Run, Series, Slot, System, ThreadUse, Traffic,
    Usage, Workload,
};

const NAME: &str = "files-example";
const STARTED_UNIX_MS: u64 = 1_784_289_660_000;
const SLOT_NS: u64 = 1_000_000_000;
const WARM_UP_SLOTS: u32 = 6;
const TIMED_SLOTS: u32 = 40;

/// A system: speeds of reads, writes and small requests relative to the first disk, and its price.
struct Side {
    name: &'static str,
    expression: &'static str,
    level: &'static str,
    members: u32,
    speeds: [f64; 3],
    price: f64,
}

impl Side {
    /// Returns the speed that limits a workload, relative to the first disk.
    fn speed(&self, bound: Bound) -> f64 {
        self.speeds[match bound {
            Bound::Reads => 0,
            Bound::Writes => 1,
            Bound::Small => 2,
        }]
    }
}

const SIDES: &[Side] = &[
    Side {
        name: "wd0",
        expression: "/dev/sdb",
        level: "single",
        members: 1,
        speeds: [1.0, 1.0, 1.0],
        price: 120.0,
    },
    Side {
        name: "wd0-again",
        expression: "/dev/sdb",
        level: "single",
        members: 1,
        speeds: [1.0, 1.0, 1.0],
        price: 120.0,
    },
    Side {
        name: "wd1",
        expression: "/dev/sdc",
        level: "single",
        members: 1,
        speeds: [0.86, 0.84, 0.93],
        price: 110.0,
    },
    Side {
        name: "stripe",
        expression: "raid0(/dev/sdb,/dev/sdc)",
        level: "raid0",
        members: 2,
        speeds: [1.74, 1.66, 1.42],
        price: 230.0,
    },
    Side {
        name: "mirror",
        expression: "raid1(/dev/sdb,/dev/sdc)",
        level: "raid1",
        members: 2,
        speeds: [1.05, 0.81, 1.24],
        price: 230.0,
    },
];

/// Selects the speed that limits a workload.
#[derive(Clone, Copy)]
enum Bound {
    Reads,
    Writes,
    Small,
}

/// A workload with its rate on the first disk.
struct Row {
    kind: &'static str,
    /// Name of the whole workload. Without a phase it is the workload's own name.
    whole: String,
    phase: &'static str,
    summary: &'static str,
    rate: Rate,
    per_second: f64,
    operation_bytes: u64,
    operations: u64,
    bound: Bound,
    /// Operations, with their number in a hundred.
    mix: &'static [(&'static str, u64)],
    in_flight: u32,
    /// CPU time of an operation on the client's side.
    cpu_ns: f64,
    parameters: &'static [(&'static str, u64)],
    is_timed: bool,
    arrivals_per_s: u64,
}

impl Row {
    fn new(kind: &'static str, phase: &'static str, summary: &'static str) -> Self {
        Self {
            kind,
            whole: kind.to_owned(),
            phase,
            summary,
            rate: Rate::Bytes,
            per_second: 1.0,
            operation_bytes: 8192,
            operations: 32_768,
            bound: Bound::Reads,
            mix: &[("read", 100)],
            in_flight: 1,
            cpu_ns: 4000.0,
            parameters: &[],
            is_timed: false,
            arrivals_per_s: 0,
        }
    }

    fn name(&self) -> String {
        match self.phase {
            "" => self.whole.clone(),
            phase => format!("{} {phase}", self.whole),
        }
    }
}

const READ: &[(&str, u64)] = &[("read", 100)];
const WRITE: &[(&str, u64)] = &[("write", 100)];
const BOTH: &[(&str, u64)] = &[("read", 50), ("write", 50)];
/// One loop of the mail server: thirteen operations.
const MAIL: &[(&str, u64)] = &[
    ("delete", 1),
    ("create", 1),
    ("append", 2),
    ("fsync", 2),
    ("close", 3),
    ("open", 2),
    ("readwhole", 2),
];
const BONNIE: &[(&str, u64)] = &[
    ("chunk", 8192),
    ("seeks", 4000),
    ("seekers", 3),
    ("size", 256 << 20),
];
const BONNIE_PLUS: &[(&str, u64)] = &[
    ("chunk", 8192),
    ("seeks", 8192),
    ("seekers", 5),
    ("size", 256 << 20),
];

/// Phase, summary, rate of the first disk, mix of operations, limiting speed, CPU time.
type BonnieRow = (
    &'static str,
    &'static str,
    f64,
    &'static [(&'static str, u64)],
    Bound,
    f64,
);

const BONNIE_ROWS: [BonnieRow; 6] = [
    (
        "putc",
        "byte by byte through a buffer",
        9.1e7,
        WRITE,
        Bound::Writes,
        82_000.0,
    ),
    (
        "rewrite",
        "8 KiB read, changed and written back",
        5.2e7,
        BOTH,
        Bound::Small,
        9_000.0,
    ),
    (
        "block-write",
        "8 KiB after 8 KiB",
        1.2e8,
        WRITE,
        Bound::Writes,
        7_000.0,
    ),
    (
        "getc",
        "byte by byte through a buffer",
        9.6e7,
        READ,
        Bound::Reads,
        78_000.0,
    ),
    (
        "block-read",
        "8 KiB after 8 KiB",
        1.5e8,
        READ,
        Bound::Reads,
        5_000.0,
    ),
    (
        "seeks",
        "8 KiB at random places, every 10th written back",
        310.0,
        READ,
        Bound::Small,
        30_000.0,
    ),
];

fn bonnie(kind: &'static str, order: [usize; 6]) -> Vec<Row> {
    let parameters = if kind == "bonnie" {
        BONNIE
    } else {
        BONNIE_PLUS
    };
    let number = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, value)| *value)
    };
    let rows = order.map(|at| {
        let (phase, summary, per_second, mix, bound, cpu_ns) = BONNIE_ROWS[at];
        let is_seeks = phase == "seeks";
        Row {
            rate: if is_seeks {
                Rate::Operations
            } else {
                Rate::Bytes
            },
            per_second,
            operations: if is_seeks { number("seeks") } else { 32_768 },
            bound,
            mix,
            in_flight: if is_seeks {
                u32::try_from(number("seekers")).unwrap_or(1)
            } else {
                1
            },
            cpu_ns,
            parameters,
            ..Row::new(kind, phase, summary)
        }
    });
    rows.into()
}

fn rows() -> Vec<Row> {
    let mut rows = bonnie("bonnie", [0, 1, 2, 3, 4, 5]);
    rows.extend(bonnie("bonnie++", [0, 2, 1, 3, 4, 5]));
    rows.extend(iozone());
    rows.extend(touch());
    rows.extend([1, 2, 4, 8].map(cp));
    rows.extend(random_reads());
    rows.push(varmail());
    rows.push(paced_reads());
    rows
}

/// Returns the phases of iozone: large writes, then large reads.
fn iozone() -> Vec<Row> {
    let phases = [
        ("write", 1.3e8, WRITE, Bound::Writes),
        ("read", 1.6e8, READ, Bound::Reads),
    ];
    let rows = phases.map(|(phase, per_second, mix, bound)| Row {
        per_second,
        operation_bytes: 65_536,
        operations: 4096,
        bound,
        mix,
        cpu_ns: 30_000.0,
        parameters: &[("record", 65_536), ("size", 256 << 20)],
        ..Row::new("iozone", phase, "64 KiB records, one after the other")
    });
    rows.into()
}

/// Returns the phases of touch: operations on names alone.
fn touch() -> Vec<Row> {
    let phases = [
        ("touch", 32_000.0, &[("create", 50), ("close", 50)]),
        ("retouch", 210_000.0, &[("utime", 100), ("close", 0)]),
        ("unlink", 90_000.0, &[("delete", 100), ("close", 0)]),
    ];
    let rows = phases.map(|(phase, per_second, mix)| Row {
        rate: Rate::Operations,
        per_second,
        operation_bytes: 0,
        operations: 10_000,
        bound: Bound::Small,
        mix,
        cpu_ns: 3_000.0,
        parameters: &[("nfiles", 10_000)],
        ..Row::new("touch", phase, "10,000 empty files in one folder")
    });
    rows.into()
}

/// Returns cp with this many processes.
fn cp(processes: u32) -> Row {
    Row {
        whole: format!("cp {processes}"),
        per_second: 1.25e8 * f64::from(processes).powf(0.3),
        operation_bytes: 65_536,
        operations: 1024 * u64::from(processes),
        bound: Bound::Writes,
        mix: WRITE,
        in_flight: processes,
        cpu_ns: 25_000.0,
        parameters: match processes {
            1 => &[("processes", 1), ("size", 64 << 20)],
            2 => &[("processes", 2), ("size", 64 << 20)],
            4 => &[("processes", 4), ("size", 64 << 20)],
            _ => &[("processes", 8), ("size", 64 << 20)],
        },
        ..Row::new(
            "cp",
            "write",
            "files of 64 MiB from memory, one for each process",
        )
    }
}

/// Returns random reads of each size with each number in flight.
fn random_reads() -> Vec<Row> {
    let mut rows = Vec::new();
    for operation_bytes in [4096_u32, 16_384, 65_536] {
        for in_flight in [1, 8, 64_u32] {
            rows.push(Row {
                whole: format!("random {} KiB × {in_flight}", operation_bytes / 1024),
                per_second: 900.0
                    * f64::from(in_flight).powf(0.35)
                    * (f64::from(operation_bytes) / 4096.0).powf(0.8)
                    * 4096.0,
                operation_bytes: operation_bytes.into(),
                operations: 4000,
                bound: Bound::Small,
                in_flight,
                ..Row::new("random-read", "", "reads at random places of 1 GiB")
            });
        }
    }
    rows
}

/// Returns the mail server, for a limited time.
fn varmail() -> Row {
    Row {
        rate: Rate::Operations,
        per_second: 2600.0,
        operation_bytes: 10_000,
        bound: Bound::Small,
        mix: MAIL,
        in_flight: 60,
        cpu_ns: 21_000.0,
        parameters: &[("nfiles", 100_000), ("nthreads", 60)],
        is_timed: true,
        ..Row::new(
            "varmail",
            "",
            "60 threads of a mail server that flush what they append",
        )
    }
}

/// Returns random reads that arrive at a rate, for a limited time.
fn paced_reads() -> Row {
    Row {
        rate: Rate::Operations,
        per_second: 400.0,
        bound: Bound::Small,
        in_flight: 256,
        is_timed: true,
        arrivals_per_s: 400,
        ..Row::new(
            "random-read-paced",
            "",
            "400 reads a second of 8 KiB at random places, answered or not",
        )
    }
}

/// Returns the records of the second experiment with this many repetition blocks: files.
pub fn file_records(blocks: u32) -> Vec<Record> {
    let rows = rows();
    let mut records = vec![
        Record::Experiment(Experiment {
            name: NAME.to_owned(),
            summary: "Files on two disks, a stripe and a mirror of both, with invented figures"
                .to_owned(),
            seed: 2,
            started_unix_ms: STARTED_UNIX_MS,
            repetition_blocks: blocks,
            baseline: "wd0".to_owned(),
            control: Some("wd0-again".to_owned()),
            systems: SIDES.iter().map(system).collect(),
            workloads: rows.iter().map(workload).collect(),
            definition: format!("name = \"{NAME}\"\n"),
            weights: [("varmail", 0.7), ("touch", 0.3)]
                .map(|(name, weight)| (name.to_owned(), weight))
                .into(),
            ..Experiment::default()
        }),
        Record::Environment(environment()),
        Record::Calibration(Box::new(calibration())),
    ];
    let mut random = Random::new(7);
    let mut order = 0;
    for block in 0..blocks {
        let mut sides: Vec<&Side> = SIDES.iter().collect();
        for place in (1..sides.len()).rev() {
            sides.swap(place, random.below(place + 1));
        }
        for side in sides {
            for row in &rows {
                let run = run(side, row, block, order, &mut random);
                records.push(Record::Run(Box::new(run)));
                order += 1;
            }
        }
    }
    records
}

fn system(side: &Side) -> System {
    System {
        name: side.name.to_owned(),
        expression: side.expression.to_owned(),
        level: side.level.to_owned(),
        members: side.members,
        chunk_bytes: if side.level == "raid0" { 65_536 } else { 0 },
        capacity_bytes: if side.level == "raid0" { 2 } else { 1 } * 2_000_000_000_000,
        survives: u32::from(side.level == "raid1"),
        price: Some(side.price),
        ..System::default()
    }
}

fn workload(row: &Row) -> Workload {
    let parameters = row.parameters.iter();
    Workload {
        name: row.name(),
        summary: row.summary.to_owned(),
        kind: row.kind.to_owned(),
        size_bytes: match row.parameters.iter().find(|(name, _)| *name == "size") {
            Some((_, size)) => *size,
            None => 1 << 30,
        },
        operation_bytes: row.operation_bytes,
        operations: if row.is_timed { 0 } else { row.operations },
        rate: row.rate,
        in_flight_max: row.in_flight,
        part: (!row.phase.is_empty()).then(|| Part {
            workload: row.whole.clone(),
            phase: row.phase.to_owned(),
        }),
        duration_ns: if row.is_timed {
            SLOT_NS * u64::from(TIMED_SLOTS)
        } else {
            0
        },
        arrivals_per_s: row.arrivals_per_s,
        parameters: parameters
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect(),
        ..Workload::default()
    }
}

fn calibration() -> Calibration {
    let member = |name: &str, share: u64| MemberRate {
        name: name.to_owned(),
        read_bytes_per_s: 1_700_000 * share,
        write_bytes_per_s: 1_400_000 * share,
        random_reads_per_s: 9 * share,
        ..MemberRate::default()
    };
    Calibration {
        members: vec![member("sdb", 100), member("sdc", 86)],
        together_bytes_per_s: 310_000_000,
        copy_bytes_per_s: 9_000_000_000,
        ceilings: [("varmail", 61_000.0), ("touch unlink", 150_000.0)]
            .map(|(workload, per_second)| (workload.to_owned(), per_second))
            .into(),
    }
}

fn run(side: &Side, row: &Row, block: u32, order: u32, random: &mut Random) -> Run {
    let speed = side.speed(row.bound);
    let deviation = if row.rate == Rate::Bytes { 0.03 } else { 0.05 };
    let noise = (deviation * random.normal()).exp();
    // An open loop answers at the rate of its arrivals.
    let per_second = match row.arrivals_per_s {
        0 => row.per_second * speed * noise,
        rate => to_f64(rate),
    };
    let operations = operations(row, per_second);
    let counted = if row.rate == Rate::Bytes {
        operations * row.operation_bytes
    } else {
        operations
    };
    let elapsed = to_f64(counted) / per_second * 1e9;
    let each = elapsed / to_f64(operations) * f64::from(row.in_flight);
    let latency = latency(row, operations, each / speed.sqrt(), random);
    let response = if row.arrivals_per_s > 0 {
        response(&latency, speed)
    } else {
        BTreeMap::new()
    };
    let application = application(row, &latency, counted);
    let copies = if side.level == "raid1" { 2 } else { 1 };
    let members = Traffic {
        read: application.read,
        written: application.written * copies,
    };
    let workload_cpu = (to_f64(operations) * row.cpu_ns).min(elapsed * 0.97);
    let engine = to_f64(operations) * 900.0 * f64::from(side.members - 1);
    let mut run = Run {
        experiment: NAME.to_owned(),
        system: system(side),
        workload: workload(row),
        repetition_block: block,
        order,
        seed: random.next_u64() >> 11,
        started_unix_ms: STARTED_UNIX_MS + u64::from(order) * 3000,
        elapsed_ns: whole(elapsed),
        phases: vec![Phase {
            name: "flush".to_owned(),
            begin_ns: whole(elapsed * 0.97),
            elapsed_ns: whole(elapsed * 0.03),
            ..Phase::default()
        }],
        operations,
        counted,
        application,
        members,
        latency,
        response,
        cpu_ns: Cpu {
            workload: whole(workload_cpu),
            engine: whole(engine),
            machine: whole(workload_cpu + engine + elapsed * 0.04 * f64::from(side.members)),
        },
        io: Io {
            backend: "files".to_owned(),
            direct: false,
        },
        ..Run::default()
    };
    if row.is_timed {
        run.series = Some(series(side, row, &run, random));
    }
    run.evidence = Some(evidence(side, row, &run));
    run
}

/// Returns the number of operations of a run: in its time, or as many as the workload has.
fn operations(row: &Row, per_second: f64) -> u64 {
    if !row.is_timed {
        return row.operations;
    }
    let per_operation = if row.rate == Rate::Bytes {
        to_f64(row.operation_bytes)
    } else {
        1.0
    };
    let window_ns = to_f64(SLOT_NS) * f64::from(TIMED_SLOTS);
    whole(per_second * window_ns / 1e9 / per_operation)
}

fn latency(
    row: &Row,
    operations: u64,
    each: f64,
    random: &mut Random,
) -> BTreeMap<String, Histogram> {
    let parts: u64 = row.mix.iter().map(|(_, part)| part).sum();
    let mut latency = BTreeMap::new();
    for (operation, part) in row.mix.iter().filter(|(_, part)| *part > 0) {
        let count = operations * part / parts;
        // Flushes take most of the time of the clients, operations on names almost none.
        let share = match *operation {
            "fsync" => 4.2,
            "close" | "open" | "utime" => 0.05,
            _ => 1.0,
        };
        let mut histogram = Histogram::new();
        let alike = count.div_ceil(250).max(1);
        for _ in 0..count / alike {
            let tail = if random.below(120) == 0 { 7.0 } else { 1.0 };
            let value = whole(each * share * tail * (0.45 * random.normal()).exp());
            histogram.record_many(value, alike);
        }
        latency.insert((*operation).to_owned(), histogram);
    }
    latency
}

/// Returns the latencies from when the operations were due, at a relative speed of the disk.
fn response(latency: &BTreeMap<String, Histogram>, speed: f64) -> BTreeMap<String, Histogram> {
    // Each operation waits for those before it; a slower disk makes it wait longer.
    let wait = 1.0 + 3.0 / speed.powi(3);
    latency
        .iter()
        .map(|(operation, histogram)| (operation.clone(), stretched(histogram, wait)))
        .collect()
}

/// Returns the bytes that a run reads and writes; `counted` is the amount that its rate counts.
fn application(row: &Row, latency: &BTreeMap<String, Histogram>, counted: u64) -> Traffic {
    let of = |names: &[&str]| {
        let mine = latency
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()));
        mine.map(|(_, it)| it.total()).sum::<u64>() * row.operation_bytes
    };
    let read = of(&["read", "readwhole"]);
    match row.phase {
        "rewrite" => Traffic {
            read: counted,
            written: counted,
        },
        "seeks" => Traffic {
            read,
            written: read / 10,
        },
        _ => Traffic {
            read,
            written: of(&["write", "append"]),
        },
    }
}

fn stretched(histogram: &Histogram, factor: f64) -> Histogram {
    let mut longer = Histogram::new();
    for (least, count) in histogram.buckets() {
        longer.record_many(whole(to_f64(least) * factor), count);
    }
    longer
}

/// A cache fills during the warm-up. The second disk keeps getting slower, and the mirror has a
/// hiccup.
fn series(side: &Side, row: &Row, run: &Run, random: &mut Random) -> Series {
    let per_slot = run.per_second() * to_f64(SLOT_NS) / 1e9;
    let bytes = to_f64(run.application.total()) / to_f64(run.operations.max(1));
    let slots = (0..WARM_UP_SLOTS + TIMED_SLOTS).map(|at| {
        let warm = 1.0 + 1.6 * (-f64::from(at) / 2.0).exp();
        let past = f64::from(at) / f64::from(TIMED_SLOTS);
        let shape = match side.name {
            "wd1" => 1.25 - 0.55 * past,
            "mirror" if (27..30).contains(&at) => 0.45,
            _ => 1.0,
        };
        let paced = row.arrivals_per_s > 0;
        let shape = if paced { 1.0 } else { shape * warm };
        let operations = per_slot * shape * (0.04 * random.normal()).exp();
        let slower = if paced { 1.0 } else { 1.0 / shape };
        let mut powers: BTreeMap<u8, u64> = BTreeMap::new();
        let typical = to_f64(run.elapsed_ns) / to_f64(run.operations.max(1))
            * f64::from(row.in_flight.min(60))
            * slower;
        for _ in 0..60 {
            let tail = if random.below(40) == 0 { 6.0 } else { 1.0 };
            let value = whole(typical * tail * (0.7 * random.normal()).exp()).max(1);
            let power = u8::try_from(value.ilog2()).unwrap_or(u8::MAX);
            *powers.entry(power).or_default() += whole(operations / 60.0);
        }
        let moved = whole(operations * bytes);
        let read = match run.application.total() {
            0 => 0,
            total => whole(to_f64(moved) * to_f64(run.application.read) / to_f64(total)),
        };
        Slot {
            operations: whole(operations),
            bytes: Traffic {
                read,
                written: moved - read,
            },
            latency: powers.into_iter().collect(),
        }
    });
    Series {
        slot_ns: SLOT_NS,
        warm_up_slots: WARM_UP_SLOTS,
        slots: slots.collect(),
    }
}

fn evidence(side: &Side, row: &Row, run: &Run) -> Evidence {
    let elapsed = run.elapsed_ns;
    let devices = ["sdb", "sdc"]
        .iter()
        .take(usize::try_from(side.members).unwrap_or(1));
    Evidence {
        actors: row.in_flight,
        window_ns: elapsed,
        actor_ns: (run.latency.iter())
            .map(|(name, it)| (name.clone(), whole(it.mean() * to_f64(it.total()))))
            .collect(),
        threads: vec![ThreadUse {
            name: "actor 0".to_owned(),
            cpu_ns: run.cpu_ns.workload,
            run_delay_ns: Some(elapsed / 200),
        }],
        devices: devices
            .map(|name| DeviceUse {
                name: (*name).to_owned(),
                member: true,
                busy_ns: elapsed / 10 * 9,
                queue_ns: elapsed * u64::from(row.in_flight.min(32)),
                flush_ns: Some(elapsed / 100),
                requests: Requests {
                    read: run.members.read / 65_536,
                    written: run.members.written / 65_536,
                    flushed: 1,
                },
                bytes: run.members,
            })
            .collect(),
        members: Vec::new(),
        links: vec![LinkUse {
            name: "eth0".to_owned(),
            bits_per_s: Some(1_000_000_000),
            received: 4096,
            sent: 1024,
            ..LinkUse::default()
        }],
        cache: CacheUse {
            dirty_before: 0,
            dirty_after: run.application.written / 20,
            resident_permille: Some(0),
            file_bytes: run.workload.size_bytes,
            memory_bytes: 128 << 20,
            settle_ns: elapsed / 30,
            emptied: true,
        },
        usage: Some(Usage {
            user_ns: run.cpu_ns.workload / 4,
            system_ns: run.cpu_ns.workload / 4 * 3,
            blocks_in: run.application.read / 512,
            blocks_out: run.application.written / 512,
            voluntary_switches: run.operations / 3,
            involuntary_switches: run.operations / 900,
            major_faults: 0,
        }),
    }
}

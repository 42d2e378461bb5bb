//! The figures of one piece of work, with the clocks around it, and how they become the record of a
//! run with its doubts.

use crate::machine::clock::{Clocks, MachineTicks, TICK_NS};
use crate::machine::evidence::{Counters, MEMORY};
use spindles_block::Instant;
use spindles_device::TargetFacts;
use spindles_measure::{
    CacheUse, Cpu, Doubt, Evidence, Io, MemberUse, Phase, Run, Series, Slot, Traffic,
};

/// The timed window by the clock of the target, and the CPU times at its begin and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub began: Instant,
    pub ended: Instant,
    pub before: Clocks,
    pub after: Clocks,
}

impl Window {
    /// Returns the CPU time of the process.
    pub(crate) fn process_ns(&self) -> u64 {
        self.after.process_ns.saturating_sub(self.before.process_ns)
    }

    /// Returns the CPU time of the machine.
    fn ticks(&self) -> MachineTicks {
        self.after.machine.since(self.before.machine)
    }
}

/// The figures of one piece of work: a record without its experiment, system and workload. Before
/// `complete`, its CPU time covers only the workload.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) run: Run,
    pub(crate) window: Window,
}

impl Measurement {
    /// Combines counts with their window. The warm-up does not count as time.
    pub(crate) fn new(run: Run, window: Window) -> Self {
        let warm_up_ns = run.series.as_ref().map_or(0, Series::warm_up_ns);
        let elapsed_ns = window.ended.ns_since(window.began);
        let elapsed_ns = elapsed_ns.saturating_sub(warm_up_ns);
        let run = Run { elapsed_ns, ..run };
        Self { run, window }
    }

    /// Combines streams, from the first begin to the last end.
    pub(crate) fn of_streams(streams: Vec<Self>) -> Self {
        let began = streams.iter().map(|one| one.window.began).min();
        let began = began.expect("at least one");
        let phases = streams.iter().enumerate().map(|(number, one)| Phase {
            name: format!("stream {number}"),
            begin_ns: one.window.began.ns_since(began),
            elapsed_ns: one.window.ended.ns_since(one.window.began),
            operations: one.run.operations,
            bytes: one.run.application.total(),
        });
        let phases = phases.collect();
        let mut streams = streams.into_iter();
        let Self { mut run, window } = streams.next().expect("at least one");
        let mut window = Window { began, ..window };
        run.phases = phases;
        for one in streams {
            window.ended = window.ended.max(one.window.ended);
            run.elapsed_ns = window.ended.ns_since(window.began);
            run.operations += one.run.operations;
            run.counted += one.run.counted;
            run.application += one.run.application;
            let Self {
                run: theirs,
                window: other,
            } = one;
            join(
                run.evidence.get_or_insert_default(),
                theirs.evidence.unwrap_or_default(),
            );
            for (name, histogram) in theirs.latency {
                run.latency.entry(name).or_default().merge(&histogram);
            }
            run.cpu_ns += theirs.cpu_ns;
            if other.before.process_ns < window.before.process_ns {
                window.before = other.before;
            }
            if other.after.process_ns > window.after.process_ns {
                window.after = other.after;
            }
        }
        Self { run, window }
    }

    /// Adds the counters of the machine around a phase of a workload on files.
    pub(crate) fn with_counters(
        mut self,
        (before, after): (&Counters, &Counters),
        cache: CacheUse,
        actors: u32,
    ) -> Self {
        let own = self.run.evidence.take().unwrap_or_default();
        let around = after.since(before, own.threads);
        self.run.evidence = Some(Evidence {
            actors,
            actor_ns: own.actor_ns,
            usage: own.usage,
            members: if own.members.is_empty() {
                around.members
            } else {
                own.members
            },
            cache: CacheUse {
                resident_permille: own.cache.resident_permille,
                file_bytes: cache.file_bytes,
                settle_ns: cache.settle_ns,
                emptied: cache.emptied,
                ..around.cache
            },
            ..around
        });
        self
    }

    /// Fills in the record of a workload on blocks. The engine takes the rest of the process's
    /// time.
    pub(crate) fn into_run(mut self, run: &mut Run, idle_permille: u64) {
        let process_ns = self.window.process_ns();
        let workload_ns = self.run.cpu_ns.workload.min(process_ns);
        self.run.cpu_ns.workload = workload_ns;
        let evidence = self.run.evidence.take().unwrap_or_default();
        of_members(&evidence.members, &mut self.run);
        self.run.devices = devices(&evidence);
        self.run.evidence = Some(evidence);
        self.complete(process_ns - workload_ns, idle_permille, run);
        without_warm_up(run);
    }

    /// Fills in the record, with the CPU time of the engine.
    pub(crate) fn complete(self, engine_ns: u64, idle_permille: u64, run: &mut Run) {
        let workload = self.run.cpu_ns.workload;
        let used_ns = self.window.process_ns().max(workload + engine_ns);
        let mut doubts = doubts(self.window.ticks(), idle_permille);
        doubts.extend(self.run.doubts);
        *run = Run {
            experiment: std::mem::take(&mut run.experiment),
            system: std::mem::take(&mut run.system),
            workload: std::mem::take(&mut run.workload),
            repetition_block: run.repetition_block,
            order: run.order,
            seed: run.seed,
            started_unix_ms: run.started_unix_ms,
            scaled: run.scaled,
            shared_device: run.shared_device,
            cpu_ns: Cpu {
                workload,
                engine: engine_ns,
                machine: machine_ns(self.window.ticks(), idle_permille).max(used_ns),
            },
            doubts,
            ..self.run
        };
    }
}

/// Returns all operations of a run as a part of its window.
pub(crate) fn operations(run: &Run, elapsed_ns: u64) -> Phase {
    Phase {
        name: "operations".to_owned(),
        begin_ns: 0,
        elapsed_ns,
        operations: run.operations,
        bytes: run.application.total(),
    }
}

/// Returns the CPU time of the machine without the load seen before the run. Callers raise it to at
/// least the lab's own CPU time, which is measured more exactly.
pub(crate) fn machine_ns(ticks: MachineTicks, idle_permille: u64) -> u64 {
    let idle_ticks = ticks.total() * idle_permille / 1000;
    ticks.busy.saturating_sub(idle_ticks) * TICK_NS
}

/// Removes the warm-up's share from figures that are only known for the whole window: bytes below
/// by the workload's bytes, CPU time by its operations.
pub(crate) fn without_warm_up(run: &mut Run) {
    let Some(series) = run
        .series
        .as_ref()
        .filter(|series| series.warm_up_slots > 0)
    else {
        return;
    };
    let kept_of = |amount: fn(&Slot) -> u64| {
        let warm_up = usize::try_from(series.warm_up_slots).expect("32 bits fit");
        let sum = |slots: &[Slot]| slots.iter().map(amount).sum::<u64>();
        let kept = series.slots.get(warm_up..).unwrap_or_default();
        (sum(kept), sum(&series.slots))
    };
    let operations = kept_of(|slot| slot.operations);
    let read = kept_of(|slot| slot.bytes.read);
    let written = kept_of(|slot| slot.bytes.written);
    // If the workload only reads, bytes written below are attributed to its reads, and vice versa.
    let or = |one: (u64, u64), other| if one.1 > 0 { one } else { other };
    let (read, written) = (or(read, written), or(written, read));
    for ns in [
        &mut run.cpu_ns.workload,
        &mut run.cpu_ns.engine,
        &mut run.cpu_ns.machine,
    ] {
        shrink(ns, operations);
    }
    let mut members = std::mem::take(&mut run.each_member);
    for traffic in members.iter_mut().chain(&mut run.devices) {
        shrink(&mut traffic.read, or(read, operations));
        shrink(&mut traffic.written, or(written, operations));
    }
    moved(members, run);
}

/// Reduces an amount to the share `kept` of `whole`.
fn shrink(amount: &mut u64, (kept, whole): (u64, u64)) {
    let shrunk = u128::from(*amount) * u128::from(kept.min(whole)) / u128::from(whole.max(1));
    *amount = u64::try_from(shrunk).expect("no more than it was");
}

/// Returns the bytes that the physical devices moved, if known.
fn devices(evidence: &Evidence) -> Option<Traffic> {
    let mut sum = Traffic::default();
    for device in &evidence.devices {
        sum += device.bytes;
    }
    (!evidence.devices.is_empty()).then_some(sum)
}

/// Fills in the bytes that the members moved.
pub(crate) fn of_members(each: &[MemberUse], run: &mut Run) {
    moved(each.iter().map(|member| member.bytes).collect(), run);
}

fn moved(each: Vec<Traffic>, run: &mut Run) {
    run.members = Traffic::default();
    for member in &each {
        run.members += *member;
    }
    run.each_member = each;
}

/// Joins the evidence of several streams. Streams on one device each counted it, so the largest
/// count is kept.
fn join(all: &mut Evidence, one: Evidence) {
    all.actors += one.actors;
    all.members.extend(one.members);
    for (operation, ns) in one.actor_ns {
        *all.actor_ns.entry(operation).or_default() += ns;
    }
    for device in one.devices {
        match all
            .devices
            .iter_mut()
            .find(|known| known.name == device.name)
        {
            Some(known) if known.bytes.total() < device.bytes.total() => *known = device,
            Some(_) => {}
            None => all.devices.push(device),
        }
    }
}

/// Stolen share of the CPU time that raises a doubt, in permille.
const STEAL_PERMILLE: u64 = 20;
/// Busy share of the idle machine that raises a doubt, in permille.
const IDLE_PERMILLE: u64 = 100;

/// Returns doubts that only arise during a run.
pub(crate) fn doubts(ticks: MachineTicks, idle_permille: u64) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    // One or two ticks may be rounding.
    if ticks.steal > 2 && ticks.steal * 1000 > ticks.total() * STEAL_PERMILLE {
        doubts.push(doubt("stolen-time", String::new()));
    }
    if idle_permille > IDLE_PERMILLE {
        let busy = idle_permille / 10;
        doubts.push(doubt(
            "busy-machine",
            format!("{busy} % of the CPU time was busy before the first run"),
        ));
    }
    doubts
}

/// Describes how another program, or a workload on files, accesses the members.
pub(crate) fn io_of_files() -> Io {
    Io {
        backend: "files".to_owned(),
        direct: false,
    }
}

/// Describes how an open target is accessed.
pub(crate) fn io(facts: &TargetFacts) -> Io {
    let only = facts.devices.first();
    let backend = match only.map(|device| device.backend) {
        Some(memory) if !memory.outlives_opening => memory.name,
        _ => facts.io,
    };
    Io {
        backend: backend.to_owned(),
        direct: facts.all_direct(),
    }
}

/// Returns doubts about any run on an open target.
pub(crate) fn target_doubts(facts: &TargetFacts) -> Vec<Doubt> {
    let slow = facts.io_reason.clone();
    let slow = slow.map(|reason| doubt("no-io-uring", reason));
    let in_memory = facts.devices.iter().any(|device| {
        device.backend.outlives_opening && device.physical_device.as_deref() == Some(MEMORY)
    });
    let what = "the members are files on a file system in memory";
    let no_disk = in_memory.then(|| doubt("no-disk", what.to_owned()));
    slow.into_iter().chain(no_disk).collect()
}

fn doubt(kind: &str, detail: String) -> Doubt {
    Doubt {
        kind: kind.to_owned(),
        detail,
    }
}

//! Combines the results of one target, or of several at once, into the record of the run, with its
//! doubts.

use crate::clock::{self, MachineTicks, TICK_NS};
use crate::evidence::MEMORY;
use crate::execute::Measured;
use crate::files;
use spindles_device::TargetFacts;
use spindles_measure::{
    Cpu, Doubt, Evidence, Histogram, Io, LateMember, MemberUse, Phase, Run, Series, Slot, Traffic,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// A run on one target, or on several at once.
pub(crate) struct Whole {
    began: Instant,
    ended: Instant,
    phases: Vec<Phase>,
    operations: u64,
    counted: u64,
    application: Traffic,
    late_members: Vec<LateMember>,
    evidence: Evidence,
    latency: BTreeMap<String, Histogram>,
    response: BTreeMap<String, Histogram>,
    series: Series,
    elapsed_ns: u64,
    workload_cpu_ns: u64,
    process_cpu_ns: (u64, u64),
    machine: (MachineTicks, MachineTicks),
    io: Io,
    /// Doubts about the target itself.
    doubts: Vec<Doubt>,
}

impl Whole {
    pub(crate) fn one(measured: Measured, facts: &TargetFacts) -> Self {
        let phases = measured.phases();
        let window = measured.window.expect("it ran");
        Self {
            began: window.began,
            ended: window.ended,
            phases,
            operations: measured.operations,
            counted: measured.counted,
            application: measured.application,
            late_members: measured.late_members,
            evidence: measured.evidence,
            latency: measured.latency,
            response: measured.response,
            series: measured.series,
            elapsed_ns: measured.elapsed_ns,
            workload_cpu_ns: measured.workload_cpu_ns,
            process_cpu_ns: window.process_cpu_ns,
            machine: window.machine,
            io: io(facts),
            doubts: target_doubts(facts),
        }
    }

    /// Combines streams, from the first begin to the last end.
    pub(crate) fn of_streams(streams: Vec<Self>) -> Self {
        let began = streams
            .iter()
            .map(|one| one.began)
            .min()
            .expect("at least one");
        let mut phases = Vec::new();
        for (number, one) in streams.iter().enumerate() {
            phases.push(Phase {
                name: format!("stream {number}"),
                begin_ns: clock::duration_ns(one.began - began),
                elapsed_ns: clock::duration_ns(one.ended - one.began),
                operations: one.operations,
                bytes: one.application.total(),
            });
        }
        let mut streams = streams.into_iter();
        let mut whole = streams.next().expect("at least one");
        whole.began = began;
        whole.phases = phases;
        for one in streams {
            whole.ended = whole.ended.max(one.ended);
            whole.elapsed_ns = clock::duration_ns(whole.ended - whole.began);
            whole.operations += one.operations;
            whole.counted += one.counted;
            add(&mut whole.application, one.application);
            join(&mut whole.evidence, one.evidence);
            for (name, histogram) in one.latency {
                whole
                    .latency
                    .entry(name)
                    .and_modify(|all| all.merge(&histogram))
                    .or_insert(histogram);
            }
            whole.workload_cpu_ns += one.workload_cpu_ns;
            let (first, last) = whole.process_cpu_ns;
            let cpu = one.process_cpu_ns;
            whole.process_cpu_ns = (first.min(cpu.0), last.max(cpu.1));
            let (first, last) = whole.machine;
            whole.machine = (first.earlier(one.machine.0), last.later(one.machine.1));
        }
        whole
    }

    pub(crate) fn into_run(self, run: &mut Run, idle_permille: u64) {
        let (begin, end) = self.process_cpu_ns;
        let process_ns = end.saturating_sub(begin);
        let workload_ns = self.workload_cpu_ns.min(process_ns);
        let ticks = self.machine.1.since(self.machine.0);
        run.elapsed_ns = self.elapsed_ns;
        run.phases = self.phases;
        run.operations = self.operations;
        run.counted = self.counted;
        run.application = self.application;
        of_members(&self.evidence.members, run);
        run.late_members = self.late_members;
        run.devices = devices(&self.evidence);
        run.evidence = Some(self.evidence);
        run.latency = self.latency;
        run.response = self.response;
        run.series = Some(self.series);
        run.cpu_ns = Cpu {
            workload: workload_ns,
            engine: process_ns - workload_ns,
            machine: machine_ns(ticks, idle_permille).max(process_ns),
        };
        run.io = self.io;
        without_warm_up(run);
        run.doubts = doubts(ticks, idle_permille);
        run.doubts.extend(self.doubts);
    }
}

/// Fills the figures of a phase of a workload on files into its record.
pub(crate) fn of_files(
    measured: &files::Measured,
    engine_ns: u64,
    idle_permille: u64,
    run: &mut Run,
) {
    let ticks = measured.machine.1.since(measured.machine.0);
    let process_ns = measured.process_cpu_ns.1 - measured.process_cpu_ns.0;
    run.elapsed_ns = measured.elapsed_ns;
    run.operations = measured.operations;
    run.counted = measured.counted;
    run.application = measured.application;
    run.latency.clone_from(&measured.latency);
    run.series = Some(measured.series.clone());
    run.phases = vec![Phase {
        name: "operations".to_owned(),
        begin_ns: 0,
        elapsed_ns: measured.elapsed_ns,
        operations: measured.operations,
        bytes: measured.application.total(),
    }];
    run.cpu_ns = Cpu {
        workload: measured.workload_cpu_ns,
        engine: engine_ns,
        machine: machine_ns(ticks, idle_permille)
            .max(process_ns.max(measured.workload_cpu_ns + engine_ns)),
    };
    run.doubts = doubts(ticks, idle_permille);
}

/// Returns the CPU time of the machine without the load seen before the run. Callers raise it to at
/// least the lab's own CPU time, which is measured more exactly.
pub(crate) fn machine_ns(ticks: MachineTicks, idle_permille: u64) -> u64 {
    let idle_ticks = ticks.total() * idle_permille / 1000;
    ticks.busy.saturating_sub(idle_ticks) * TICK_NS
}

fn add(sum: &mut Traffic, more: Traffic) {
    sum.read += more.read;
    sum.written += more.written;
}

/// Removes the warm-up's share from figures that are only known for the whole window: bytes below
/// by the workload's bytes, CPU time by its operations.
pub(crate) fn without_warm_up(run: &mut Run) {
    let Some(series) = run.series.as_ref().filter(|it| it.warm_up_slots > 0) else {
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
        add(&mut sum, device.bytes);
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
        add(&mut run.members, *member);
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
        match all.devices.iter_mut().find(|it| it.name == device.name) {
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

/// Describes how an open target is accessed.
pub(crate) fn io(facts: &TargetFacts) -> Io {
    let only = facts.devices.first();
    let backend = match only.map(|device| device.backend) {
        Some(memory) if !memory.outlives_process => memory.name,
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
        device.backend.outlives_process && device.physical_device.as_deref() == Some(MEMORY)
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

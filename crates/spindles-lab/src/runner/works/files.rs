//! A workload on files, phase by phase, in a folder of a system: from cold caches, with what was seen
//! meanwhile, into the records of its phases.

use super::UnderTest;
use crate::clock;
use crate::evidence::Watched;
use crate::execute::Failure;
use crate::files::{self, Measured};
use crate::scratch::Scratch;
use crate::whole;
use spindles_measure::{Cpu, Io, Phase, Run};
use spindles_workload::file::FilePlan;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

impl UnderTest<'_> {
    /// A workload on files, each phase with a result into one of `runs`.
    pub(super) fn files(&mut self, plan: &FilePlan, runs: &mut [Run]) -> Result<(), Failure> {
        self.close()?;
        let place = self.system.folder().map_err(Failure::Failed)?;
        let seed = runs.first().map_or(0, |run| run.seed);
        let place = Place {
            folder: &place.folder,
            watched: place.watched,
            empty_caches: self.experiment.empty_caches,
            idle_permille: self.idle_permille,
            interrupt: self.options.interrupt,
        };
        run(&plan.clone().with_seed(seed), &place, runs)
    }
}

/// Where the phases run, and how.
struct Place<'a> {
    /// A folder of the file system that is measured.
    folder: &'a Path,
    /// What is looked at meanwhile.
    watched: Watched,
    /// Whether caches are emptied before each phase.
    empty_caches: bool,
    /// How busy the machine is without us.
    idle_permille: u64,
    /// Set when the user wants to end.
    interrupt: &'a AtomicBool,
}

/// Runs all phases; those with a result fill in `runs` in their order. What was measured before a failure
/// stays.
fn run(plan: &FilePlan, place: &Place<'_>, runs: &mut [Run]) -> Result<(), Failure> {
    let scratch = Scratch::new(place.folder).map_err(|error| {
        let folder = place.folder.display();
        Failure::Failed(format!("{folder}: can't make a folder there: {error}"))
    })?;
    let files = scratch
        .folder()
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let mut runs = runs.iter_mut();
    let phases = plan.phases();
    for (number, phase) in phases.iter().enumerate() {
        let emptied = !phase.follows && place.make_ready();
        let is_followed = phases.get(number + 1).is_some_and(|next| next.follows);
        let before = place.watched.now();
        let measured = files::run(plan, number, &files, place.interrupt)?;
        let after = place.watched.now();
        let settling = Instant::now();
        if !is_followed {
            place.sync();
        }
        let settle_ns = clock::duration_ns(settling.elapsed());
        let settled = place.watched.now();
        let Some(run) = phase.counted.and_then(|_| runs.next()) else {
            continue;
        };
        let engine_ns = after.cpu_ns_since(&before);
        let mut evidence = after.since(&before, measured.threads.clone());
        evidence.actors = phase.actors;
        evidence.actor_ns.clone_from(&measured.actor_ns);
        evidence.usage = Some(measured.usage);
        evidence.cache.file_bytes = plan.bytes();
        evidence.cache.settle_ns = settle_ns;
        evidence.cache.emptied = emptied;
        record(&measured, engine_ns, place.idle_permille, run);
        run.evidence = Some(evidence);
        // What the workload wrote reaches the members later than its end.
        let moved = settled.since(&before, Vec::new()).devices;
        for member in moved.iter().filter(|device| device.member) {
            run.each_member.push(member.bytes);
            run.members.read += member.bytes.read;
            run.members.written += member.bytes.written;
        }
        whole::without_warm_up(run);
    }
    Ok(())
}

fn record(measured: &Measured, engine_ns: u64, idle_permille: u64, run: &mut Run) {
    let ticks = measured.machine.1.since(measured.machine.0);
    let process_ns = measured.process_cpu_ns.1 - measured.process_cpu_ns.0;
    let workload_ns = measured
        .threads
        .iter()
        .map(|thread| thread.cpu_ns)
        .sum::<u64>();
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
        workload: workload_ns,
        engine: engine_ns,
        machine: whole::machine_ns(ticks, idle_permille).max(process_ns + engine_ns),
    };
    run.io = Io {
        backend: "files".to_owned(),
        direct: false,
    };
    run.doubts = whole::doubts(ticks, idle_permille, None);
}

impl Place<'_> {
    /// Everything on the devices, and nothing in the caches where that is wanted and may be done: whether
    /// they were emptied.
    fn make_ready(&self) -> bool {
        self.sync();
        self.empty_caches && fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
    }

    fn sync(&self) {
        // A file system that refuses says so to the workload as well.
        if let Ok(folder) = File::open(self.folder) {
            let _refused = rustix::fs::syncfs(folder);
        }
    }
}

//! Workloads on blocks: on the system in this process, alongside a job, or on all members at once.

use super::super::options::go_on;
use super::super::under_test::UnderTest;
use super::jobs::run_of;
use crate::experiment::jobs::Job;
use crate::experiment::{BlockWork, WorkloadSpec};
use crate::measure::execute::{self, Orders};
use crate::measure::failure::Failure;
use crate::measure::measurement::Measurement;
use spindles_array::Target;
use spindles_device::OpenOptions;
use spindles_measure::{JobShare, Run, Stage};
use spindles_workload::{Plan, Streams};
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

impl UnderTest<'_> {
    /// Runs a workload on blocks.
    pub(super) fn blocks(
        &mut self,
        workload: &WorkloadSpec,
        work: &BlockWork,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let plan = |streams| {
            let plan = work.kind.plan(&work.params(run.seed, streams));
            plan.map_err(|error| Failure::Failed(format!("{}: {error}", workload.name)))
        };
        let measured = match work.kind.streams {
            Streams::One => {
                self.opened()?;
                if let Some((job, Stage::During)) = workload.beside {
                    let target = self.open.take().expect("just opened");
                    let target = (run_of(job).begin)(self.system.as_mut(), target);
                    self.open = Some(target?);
                    let measured = self.run_alongside(job, &plan(1)?)?;
                    measured.into_run(run, self.idle_permille);
                    return Ok(());
                }
                let warmup = self.experiment.warmup_operations;
                // On a file system of the lab, the counters of the system's members belong to the
                // file. In a user's folder, the file is all that belongs to the system.
                let watched = if self.has_file_system {
                    let place = self.system.folder()?;
                    Some(place.watched).filter(|watched| watched.own.is_some())
                } else {
                    None
                };
                let mut orders = orders(warmup, self.options.interrupt, work, &|| {});
                orders.watched = watched.as_ref();
                let target = self.opened()?;
                execute::run(target.as_mut(), &plan(1)?, &orders)?
            }
            Streams::Members => {
                self.close()?;
                self.members_at_once(&self.system.devices(), &plan(1)?, work)?
            }
        };
        measured.into_run(run, self.idle_permille);
        Ok(())
    }

    /// Runs a workload alongside a job that has begun. Then lets the job finish by itself.
    fn run_alongside(&mut self, job: &Job, plan: &Plan) -> Result<Measurement, Failure> {
        // The job skips never-written blocks in no time: only progress within the written size
        // counts.
        let counts = |bytes: u64| bytes > 0 && bytes < plan.size_bytes;
        let progress = run_of(job).progress;
        let done = |target: &dyn Target| progress(target);
        let clock = self.opened()?.clock();
        let first = Cell::new((clock.now(), 0));
        let last = Cell::new((clock.now(), 0));
        // The warm-up runs during the job as well.
        let orders = Orders {
            warmup_operations: self.experiment.warmup_operations,
            ready: &|| first.set((clock.now(), 0)),
            goes_on: &|target| {
                let bytes = done(target);
                if let Some(bytes) = bytes.filter(|bytes| *bytes < plan.size_bytes) {
                    if first.get().1 == 0 {
                        first.set((clock.now(), bytes));
                    }
                    last.set((clock.now(), bytes));
                }
                bytes.is_some()
            },
            ..Orders::new(self.options.interrupt)
        };
        let interrupt = self.options.interrupt;
        let target = self.opened()?.as_mut();
        let mut measured = execute::run(target, plan, &orders)?;
        let (first, last) = (first.get(), last.get());
        let mut share = JobShare {
            beside_bytes: last.1.saturating_sub(first.1),
            beside_ns: last.0.ns_since(first.0),
            ..JobShare::default()
        };
        let alone = clock.now();
        let before = done(target).unwrap_or(0);
        while let Some(bytes) = done(target) {
            if counts(bytes) {
                share.alone_bytes = bytes.saturating_sub(before);
                share.alone_ns = clock.now().ns_since(alone);
            }
            go_on(interrupt).map_err(|_| Failure::Interrupted)?;
            if !target.work() {
                let why = format!("the {} does not end", job.name);
                return Err(Failure::Failed(why));
            }
        }
        measured.run.job = Some(share);
        Ok(measured)
    }

    /// Runs the workload on every device, each on a thread of its own, started together.
    fn members_at_once(
        &self,
        devices: &[String],
        plan: &Plan,
        work: &BlockWork,
    ) -> Result<Measurement, Failure> {
        let barrier = Barrier::new(devices.len());
        let open = OpenOptions {
            read_only: !plan.kind.writes,
            ..self.options.open.clone()
        };
        let (warmup, interrupt) = (self.experiment.warmup_operations, self.options.interrupt);
        let one = |name: &String| {
            let waited = std::cell::Cell::new(false);
            let ready = || {
                waited.set(true);
                barrier.wait();
            };
            let orders = orders(warmup, interrupt, work, &ready);
            let result = spindles_array::open_device(name, &open)
                .map_err(|error| Failure::Failed(error.to_string()))
                .and_then(|mut target| execute::run(target.as_mut(), plan, &orders));
            if !waited.get() {
                barrier.wait(); // Failed before the barrier: release the others.
            }
            result
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = devices
                .iter()
                .map(|name| scope.spawn(|| one(name)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a stream does not panic"))
                .collect()
        });
        let streams = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Measurement::of_streams(streams))
    }
}

/// Returns the orders of a workload on blocks while no job is running.
fn orders<'b>(
    warmup_operations: u32,
    interrupt: &'b AtomicBool,
    work: &BlockWork,
    ready: &'b dyn Fn(),
) -> Orders<'b> {
    Orders {
        warmup_operations,
        ready,
        duration: work.seconds.map(Duration::from_secs),
        arrivals_per_s: work.arrivals_per_s,
        steady: work.steady,
        ..Orders::new(interrupt)
    }
}

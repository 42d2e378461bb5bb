//! Measures the parts before the first run: each member alone, all members at once, memory, and the
//! harness on a null device. Reports compare their figures with these.

use crate::experiment::{Experiment, WorkloadSpec};
use crate::machine::clock::{self, per_second};
use crate::measure::execute::{self, Orders};
use crate::measure::failure::Failure;
use crate::measure::files;
use crate::run::described::workload_records;
use crate::systems::pool::CALIBRATED_BYTES_MAX;
use spindles_device::{OpenOptions, physical_device_of};
use spindles_measure::{Calibration, MemberRate};
use spindles_workload::{Params, by_name};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Duration of a single measurement.
const EACH: Duration = Duration::from_millis(100);
/// A member that took longer is not measured again.
const AGAIN: Duration = Duration::from_secs(3);
/// How often a member that is far below the others is measured again.
const AGAIN_MAX: usize = 3;
/// The parts to calibrate.
pub(crate) struct Parts<'a> {
    /// Name of each member, and true if the calibration may write to it.
    pub(crate) members: &'a [(String, bool)],
    pub(crate) open: &'a OpenOptions,
    pub(crate) experiment: &'a Experiment,
    pub(crate) interrupt: &'a AtomicBool,
}

impl Parts<'_> {
    /// Measures all parts. A part that can't be measured is 0, or missing.
    pub(crate) fn measure(&self) -> Calibration {
        let mut took = Vec::new();
        let mut members = Vec::new();
        for (name, writes) in self.members {
            let began = Instant::now();
            members.push(self.member(name, *writes));
            took.push(began.elapsed());
        }
        // Other load may have slowed a member down: measure it again.
        for (place, (name, writes)) in self.members.iter().enumerate() {
            for _ in 0..AGAIN_MAX {
                let looks_again = took[place] < AGAIN && is_far_below(&members, place);
                if !looks_again || self.interrupt.load(Ordering::Relaxed) {
                    break;
                }
                let again = self.member(name, *writes);
                members[place] = better(&members[place], again);
            }
        }
        Calibration {
            members,
            together_bytes_per_s: self.together(),
            copy_bytes_per_s: copy_rate(),
            ceilings: (self.experiment.workloads.iter())
                .flat_map(|spec| self.ceilings(spec))
                .collect(),
        }
    }

    pub(crate) fn member(&self, name: &str, writes: bool) -> MemberRate {
        let mut failed = None;
        let mut rate = |workload: &str| match self.counted(name, workload, &|| {}) {
            Ok((counted, ns)) => per_second(counted, ns),
            Err(why) => {
                failed.get_or_insert_with(|| format!("{workload}: {why}"));
                0
            }
        };
        let read_bytes_per_s = rate("dd-read");
        let write_bytes_per_s = if writes { rate("dd-write") } else { 0 };
        let random_reads_per_s = rate("random-read");
        MemberRate {
            name: name.to_owned(),
            read_bytes_per_s,
            write_bytes_per_s,
            random_reads_per_s,
            device: physical_device_of(Path::new(name)).unwrap_or_default(),
            failed,
        }
    }

    /// Runs a workload on one member, one operation at a time. Returns the counted amount and the
    /// nanoseconds it took.
    fn counted(&self, name: &str, workload: &str, ready: &dyn Fn()) -> Result<(u64, u64), Failure> {
        let failed = |why: String| Failure::Failed(why);
        let opened = spindles_array::open_device(name, self.open);
        let mut target = opened.map_err(|error| failed(error.to_string()))?;
        let kind = by_name(workload).expect("a row of the table");
        let params = Params {
            in_flight: Some(1),
            endless: true,
            ..Params::new(target.facts().bytes().min(CALIBRATED_BYTES_MAX), 1)
        };
        let plan = kind
            .plan(&params)
            .map_err(|error| failed(error.to_string()))?;
        let orders = Orders {
            warmup_operations: 1,
            ready,
            duration: Some(EACH),
            ..Orders::new(self.interrupt)
        };
        let measured = execute::run(target.as_mut(), &plan, &orders)?;
        drop(target.close());
        // The time includes the flush, so that written data is durable.
        let parts_ns = measured.run.phases.iter().map(|phase| phase.elapsed_ns);
        Ok((measured.run.counted, parts_ns.sum()))
    }

    /// Reads all members sequentially at once. Returns the sum of their rates.
    fn together(&self) -> u64 {
        let barrier = Barrier::new(self.members.len());
        let one = |(name, _): &(String, bool)| {
            let waited = std::cell::Cell::new(false);
            let ready = || {
                waited.set(true);
                barrier.wait();
            };
            let counted = self.counted(name, "dd-read", &ready);
            if !waited.get() {
                barrier.wait(); // Failed before the barrier: release the others.
            }
            counted.map_or(0, |(counted, ns)| per_second(counted, ns))
        };
        let rates: Vec<u64> = std::thread::scope(|scope| {
            let members = self.members.iter();
            let threads: Vec<_> = members.map(|name| scope.spawn(|| one(name))).collect();
            let threads = threads.into_iter();
            threads
                .map(|thread| thread.join().expect("a stream does not panic"))
                .collect()
        });
        rates.iter().sum()
    }

    /// Returns the harness's rate with a workload on a null device, for each phase.
    fn ceilings(&self, spec: &WorkloadSpec) -> Vec<(String, f64)> {
        if let Some(work) = spec.blocks() {
            let null = format!("null:{}", work.size_bytes);
            let plan = work.kind.plan(&Params {
                endless: true,
                operations: None,
                ..work.params(1, 1)
            });
            let (Ok(plan), Ok(mut target)) = (plan, spindles_array::open_device(&null, self.open))
            else {
                return Vec::new();
            };
            let orders = Orders {
                duration: Some(EACH),
                ..Orders::new(self.interrupt)
            };
            let measured = execute::run(target.as_mut(), &plan, &orders);
            let rate = measured
                .map(|measured| float(per_second(measured.run.counted, measured.run.elapsed_ns)));
            return rate.map_or_else(|_| Vec::new(), |rate| vec![(spec.full_name(), rate)]);
        }
        let Some(plan) = spec.files() else {
            return Vec::new();
        };
        let records = workload_records(spec);
        let phases = plan.phases();
        let recorded = (0..)
            .zip(&phases)
            .filter(|(_, phase)| phase.counted.is_some());
        records
            .iter()
            .zip(recorded)
            .map(|(record, (number, _))| {
                let rate = files::ceiling(plan, number, EACH);
                (record.name.clone(), float(rate))
            })
            .collect()
    }
}

/// Returns true if a member has less than half of the median rate of the others at anything.
fn is_far_below(members: &[MemberRate], place: usize) -> bool {
    let rates: [fn(&MemberRate) -> u64; 3] = [
        |member| member.read_bytes_per_s,
        |member| member.write_bytes_per_s,
        |member| member.random_reads_per_s,
    ];
    rates.iter().any(|rate| {
        let others = members.iter().enumerate().filter(|(at, _)| *at != place);
        let mut others: Vec<u64> = others.map(|(_, member)| rate(member)).collect();
        others.sort_unstable();
        let median = others.get(others.len() / 2).copied().unwrap_or(0);
        rate(&members[place]).saturating_mul(2) < median
    })
}

/// Combines two measurements of one member: the better rates, and the first failure.
fn better(first: &MemberRate, again: MemberRate) -> MemberRate {
    MemberRate {
        read_bytes_per_s: first.read_bytes_per_s.max(again.read_bytes_per_s),
        write_bytes_per_s: first.write_bytes_per_s.max(again.write_bytes_per_s),
        random_reads_per_s: first.random_reads_per_s.max(again.random_reads_per_s),
        failed: first.failed.clone().or(again.failed),
        ..again
    }
}

/// Returns the rate of copying memory, in bytes per second, with one thread.
fn copy_rate() -> u64 {
    const BYTES: usize = 8 << 20;
    let (from, mut to) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
    let began = Instant::now();
    let mut copied = 0;
    while began.elapsed() < EACH {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        copied += u64::try_from(BYTES).expect("fits");
    }
    per_second(copied, clock::duration_ns(began.elapsed()))
}

#[expect(clippy::cast_precision_loss, reason = "three digits of it matter")]
fn float(rate: u64) -> f64 {
    rate as f64
}

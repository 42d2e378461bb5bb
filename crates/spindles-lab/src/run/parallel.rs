//! Runs on modelled disks at the same time, on all processors. Each thread has disks of its own;
//! the records come in the order in which one thread would make them.

use super::options::Options;
use super::run_error::RunError;
use super::state::{Observer, Outcome, Runner, Stop};
use crate::experiment::Experiment;
use crate::experiment::systems::modelled::Modelled;
use crate::run::described::workload_records;
use crate::run::preflight::{Side, workloads_of};
use crate::run::records::RecordsError;
use crate::systems::pool::Pool;
use spindles_array::Incident;
use spindles_measure::Record;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// All runs of a system in a block.
#[derive(Clone, Copy, Debug)]
struct Turn {
    block: u32,
    side: usize,
    /// Runs before it.
    runs_before: u32,
}

/// What a turn has for the observer.
enum Seen {
    Record(Box<Record>),
    Trouble(String, String),
    Incidents(String, Vec<Incident>),
}

/// A turn that has ended.
struct Ended {
    number: usize,
    seen: Vec<Seen>,
    failed: u32,
    result: Result<(), Stop>,
}

/// Keeps what a turn has for the observer.
#[derive(Default)]
struct Kept(Vec<Seen>);

impl Observer for Kept {
    fn record(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.0.push(Seen::Record(Box::new(record.clone())));
        Ok(())
    }

    fn progress(&mut self, _done: u64, _total: u64, _what: &str) {}

    fn trouble(&mut self, system: &str, what: &str) {
        let seen = Seen::Trouble(system.to_owned(), what.to_owned());
        self.0.push(seen);
    }

    fn incidents(&mut self, system: &str, incidents: &[Incident]) {
        let seen = Seen::Incidents(system.to_owned(), incidents.to_vec());
        self.0.push(seen);
    }
}

/// The turns, which comes next, and what all threads need.
struct Turns<'a> {
    all: Vec<Turn>,
    next: AtomicUsize,
    /// Set after an error: no thread begins another turn.
    is_over: AtomicBool,
    shared_device: bool,
    experiment: &'a Experiment,
    options: &'a Options<'a>,
    sides: Vec<Side>,
    control: Option<String>,
    size_bytes: u64,
    members: usize,
    idle_permille: u64,
    total: u64,
    faster: Option<(String, Modelled)>,
}

impl Turns<'_> {
    /// Carries out turns until none is left.
    fn work(&self, to: &Sender<Ended>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(turn) = self.all.get(number) else {
                return;
            };
            let mut kept = Kept::default();
            let (failed, result) = self.turn(*turn, &mut kept);
            let ended = Ended {
                number,
                seen: kept.0,
                failed,
                result,
            };
            if to.send(ended).is_err() {
                return;
            }
        }
    }

    /// Carries out a turn. Returns the number of runs that failed.
    fn turn(&self, turn: Turn, kept: &mut Kept) -> (u32, Result<(), Stop>) {
        let folder = Path::new("");
        let pool = match Pool::new(&self.experiment.members, self.members, 0, folder) {
            Ok(pool) => pool,
            Err(source) => {
                let folder = folder.to_owned();
                return (0, Err(Stop::Error(RunError::Members { folder, source })));
            }
        };
        let mut runner = Runner {
            experiment: self.experiment,
            options: self.options,
            observer: kept,
            sides: self.sides.clone(),
            control: self.control.clone(),
            size_bytes: self.size_bytes,
            pool,
            idle_permille: self.idle_permille,
            total: self.total,
            outcome: Outcome {
                runs: turn.runs_before,
                ..Outcome::default()
            },
            faster: self.faster.clone(),
            records: Vec::new(),
            labelled: RefCell::default(),
        };
        let result = runner.one_system(turn.block, turn.side, self.shared_device);
        (runner.outcome.failed, result)
    }
}

impl Runner<'_> {
    /// Returns true if turns may run at the same time: nothing that this machine does takes part in
    /// their results, and no result decides whether another turn follows.
    pub(super) fn is_parallel(&self) -> bool {
        let experiment = self.experiment;
        experiment.members.modelled().is_some()
            && experiment.time_limit.is_none()
            && experiment.blocks_max <= experiment.blocks
    }

    /// Carries out blocks of systems, each in its order, on all processors.
    pub(super) fn turns(&mut self, blocks: &[Vec<usize>], shared: bool) -> Result<(), Stop> {
        let mut runs_before = self.outcome.runs;
        let mut all = Vec::new();
        for (block, order) in (0..).zip(blocks) {
            for &side in order {
                all.push(Turn {
                    block,
                    side,
                    runs_before,
                });
                let workloads = workloads_of(self.experiment, &self.sides[side].spec);
                let runs: usize = workloads.map(|spec| workload_records(spec).len()).sum();
                runs_before += u32::try_from(runs).expect("few");
            }
        }
        let turns = Turns {
            all,
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            shared_device: shared,
            experiment: self.experiment,
            options: self.options,
            sides: self.sides.clone(),
            control: self.control.clone(),
            size_bytes: self.size_bytes,
            members: self.pool.names.len(),
            idle_permille: self.idle_permille,
            total: self.total,
            faster: self.faster.clone(),
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads.min(turns.all.len()) {
                let (sender, turns) = (sender.clone(), &turns);
                scope.spawn(move || turns.work(&sender));
            }
            drop(sender);
            let taken = self.take(&receiver, &turns.all);
            turns.is_over.store(true, Ordering::Relaxed);
            taken
        })
    }

    /// Takes the ended turns, and hands what they saw to the observer, in their order.
    fn take(&mut self, ended: &Receiver<Ended>, turns: &[Turn]) -> Result<(), Stop> {
        let mut waiting: BTreeMap<usize, Ended> = BTreeMap::new();
        for (number, turn) in turns.iter().enumerate() {
            let name = &self.sides[turn.side].spec.name;
            let what = format!("block {}: {name}", turn.block + 1);
            let done = self.outcome.runs.into();
            self.observer.progress(done, self.total, &what);
            let one = loop {
                if let Some(one) = waiting.remove(&number) {
                    break one;
                }
                let Ok(one) = ended.recv() else {
                    // A thread panicked.
                    return Err(Stop::Interrupted);
                };
                waiting.insert(one.number, one);
            };
            for seen in one.seen {
                match seen {
                    Seen::Record(record) => {
                        self.outcome.runs += u32::from(matches!(*record, Record::Run(_)));
                        self.record(*record)?;
                    }
                    Seen::Trouble(system, what) => self.observer.trouble(&system, &what),
                    Seen::Incidents(system, all) => self.observer.incidents(&system, &all),
                }
            }
            self.outcome.failed += one.failed;
            one.result?;
            let is_last = turns
                .get(number + 1)
                .is_none_or(|next| next.block != turn.block);
            self.outcome.blocks += u32::from(is_last);
        }
        Ok(())
    }
}

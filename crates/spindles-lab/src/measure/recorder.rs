//! Counts the operations of a phase over time. Each actor counts by itself and regularly hands its
//! counts over.

use spindles_block::Instant;
use spindles_measure::statistics::warm_up;
use spindles_measure::{Histogram, Run, Series, Slot, Traffic};
use spindles_workload::file::Class;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of classes.
const CLASSES: usize = Class::ALL.len();
/// Most slots of a finished series.
const SLOTS_MAX: usize = 120;
/// Most slots during a phase; beyond that, pairs of slots are joined.
const SLOTS_KEPT_MAX: usize = 1024;
/// Initial length of slots if the duration of the phase is unknown.
const SLOT_NS: u64 = 20_000_000;

/// The clock of a phase, and how latencies are divided by time: by slot if the warm-up is to be cut
/// off afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// When the phase began.
    pub(crate) began: Instant,
    /// Operations that end later don't count.
    pub(crate) until: Option<Instant>,
    /// Initial length of slots.
    slot_ns: u64,
    /// True if latencies are recorded per slot.
    by_slot: bool,
}

impl Clock {
    /// Begins a phase. `duration_ns` limits an endless one.
    pub(crate) fn start(began: Instant, duration_ns: Option<u64>) -> Self {
        match duration_ns {
            Some(duration_ns) => Self {
                began,
                until: Some(began.plus_ns(duration_ns)),
                slot_ns: (duration_ns / 60).max(1_000_000),
                by_slot: true,
            },
            None => Self {
                began,
                until: None,
                slot_ns: SLOT_NS,
                by_slot: false,
            },
        }
    }

    /// Keeps the warm-up in the results, because results of several machines are added up uncut.
    pub(crate) fn with_warm_up(self) -> Self {
        Self {
            by_slot: false,
            ..self
        }
    }
}

/// Operation counts, by the power of two of the latency.
#[derive(Clone, Copy)]
struct Powers([u64; 64]);

impl Default for Powers {
    fn default() -> Self {
        Self([0; 64])
    }
}

/// Histograms by class, allocated when needed.
type ByClass = [Option<Box<Histogram>>; CLASSES];

fn merge(mine: &mut ByClass, theirs: &mut ByClass) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        match (mine.as_mut(), theirs.take()) {
            (Some(mine), Some(theirs)) => mine.merge(&theirs),
            (None, Some(theirs)) => *mine = Some(theirs),
            (_, None) => {}
        }
    }
}

fn named(histograms: ByClass) -> BTreeMap<String, Histogram> {
    let named = Class::ALL.iter().zip(histograms);
    named
        .filter_map(|(class, histogram)| Some((class.name().to_owned(), *histogram?)))
        .collect()
}

/// Counts of one slot, or of the whole phase.
#[derive(Clone, Default)]
struct Counts {
    operations: u64,
    bytes: Traffic,
    /// Latencies by class.
    latency: ByClass,
    /// Latencies since the intended begin.
    response: ByClass,
    /// Operation counts, by the power of two of the latency.
    powers: Powers,
}

impl Counts {
    fn add(&mut self, other: &mut Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        merge(&mut self.latency, &mut other.latency);
        merge(&mut self.response, &mut other.response);
        for (mine, theirs) in self.powers.0.iter_mut().zip(other.powers.0) {
            *mine += theirs;
        }
    }
}

/// Collects the counts of all actors.
#[derive(Default)]
pub(crate) struct Collector {
    slots: Mutex<Slots>,
}

/// Slots of equal length, which grows with their number.
#[derive(Default)]
struct Slots {
    slot_ns: u64,
    all: Vec<Counts>,
}

impl Slots {
    /// Doubles the length of slots by joining pairs.
    fn join_pairs(&mut self) {
        self.slot_ns *= 2;
        let mut pairs = Vec::with_capacity(self.all.len().div_ceil(2));
        let mut all = std::mem::take(&mut self.all).into_iter();
        while let Some(mut first) = all.next() {
            if let Some(mut second) = all.next() {
                first.add(&mut second);
            }
            pairs.push(first);
        }
        self.all = pairs;
    }

    /// Returns the slot of a time.
    fn at(&self, ns: u64) -> usize {
        usize::try_from(ns / self.slot_ns).expect("times of a process fit")
    }
}

impl Collector {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts handed over so far: operations, bytes, and latencies by operation.
    pub(crate) fn so_far(&self) -> (u64, Traffic, BTreeMap<String, Histogram>) {
        let mut all = Counts::default();
        for slot in &self.slots().all {
            all.add(&mut slot.clone());
        }
        (all.operations, all.bytes, named(all.latency))
    }
}

/// Time by class; the last entry is waiting for other actors.
pub(crate) type ClassNs = [u64; CLASSES + 1];

/// Returns the nonzero times by name.
pub(crate) fn named_ns(class_ns: &ClassNs) -> BTreeMap<String, u64> {
    let names = Class::ALL.iter().map(|class| class.name());
    let pairs = names.chain(["wait"]).zip(class_ns);
    pairs
        .filter(|(_, ns)| **ns > 0)
        .map(|(name, ns)| (name.to_owned(), *ns))
        .collect()
}

/// One actor's counts.
pub(crate) struct Recorder<'a> {
    clock: Clock,
    collector: &'a Collector,
    /// Begin and end of the current slot, in nanoseconds since the begin.
    slot: (u64, u64),
    counts: Counts,
    /// Time by class; the last entry is waiting for other actors.
    pub(crate) class_ns: ClassNs,
    /// The begin of its first timed operation and the end of its last.
    pub(crate) window: Option<(Instant, Instant)>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(clock: Clock, collector: &'a Collector) -> Self {
        Self {
            clock,
            collector,
            slot: (0, clock.slot_ns),
            counts: Counts::default(),
            class_ns: [0; CLASSES + 1],
            window: None,
        }
    }

    /// Operations that end later don't count.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.clock.until
    }

    /// Counts a timed operation that moved `bytes`.
    pub(crate) fn count(&mut self, class: Class, began: Instant, ended: Instant, bytes: Traffic) {
        if self.clock.until.is_some_and(|until| ended > until) {
            return;
        }
        let window = self.window.get_or_insert((began, ended));
        window.1 = ended;
        let took_ns = ended.ns_since(began);
        self.class_ns[class.index()] += took_ns;
        if !class.is_operation() {
            return;
        }
        let at_ns = ended.ns_since(self.clock.began);
        if !(self.slot.0..self.slot.1).contains(&at_ns) {
            let slot_ns = self.hand_over();
            let begin_ns = at_ns / slot_ns * slot_ns;
            self.slot = (begin_ns, begin_ns + slot_ns);
        }
        self.counts.operations += 1;
        self.counts.bytes += bytes;
        let power = usize::try_from(took_ns.max(1).ilog2()).expect("at most 63");
        self.counts.powers.0[power] += 1;
        let histogram = &mut self.counts.latency[class.index()];
        histogram.get_or_insert_default().record(took_ns);
    }

    /// Records that the operation just counted was due at `due`, and had to wait.
    pub(crate) fn was_due(&mut self, class: Class, due: Instant, ended: Instant) {
        if self.clock.until.is_none_or(|until| ended <= until) {
            let histogram = &mut self.counts.response[class.index()];
            let took_ns = ended.ns_since(due);
            histogram.get_or_insert_default().record(took_ns);
        }
    }

    /// Records time spent waiting for another actor.
    pub(crate) fn waited(&mut self, began: Instant, ended: Instant) {
        self.class_ns[CLASSES] += ended.ns_since(began);
    }

    /// Returns its time by class.
    pub(crate) fn actor_ns(&self) -> BTreeMap<String, u64> {
        named_ns(&self.class_ns)
    }

    /// Hands over the counts of the current slot. Returns the length of slots, which may have
    /// grown.
    pub(crate) fn hand_over(&mut self) -> u64 {
        let mut slots = self.collector.slots();
        slots.slot_ns = slots.slot_ns.max(self.clock.slot_ns);
        while slots.at(self.slot.0) >= SLOTS_KEPT_MAX {
            slots.join_pairs();
        }
        let at = slots.at(self.slot.0);
        if slots.all.len() <= at {
            slots.all.resize_with(at + 1, Counts::default);
        }
        let mut counts = std::mem::take(&mut self.counts);
        if !self.clock.by_slot {
            // The first slot holds the histograms of the whole phase.
            let mut all = Counts {
                latency: std::mem::take(&mut counts.latency),
                response: std::mem::take(&mut counts.response),
                ..Counts::default()
            };
            slots.all[0].add(&mut all);
        }
        slots.all[at].add(&mut counts);
        slots.slot_ns
    }
}

impl Collector {
    /// Takes all counts, except the warm-up of a timed phase.
    pub(crate) fn take_counted(&self, clock: &Clock) -> Run {
        let mut slots = std::mem::take(&mut *self.slots());
        slots.slot_ns = slots.slot_ns.max(clock.slot_ns);
        if clock.by_slot {
            // A slot begun after the end is empty.
            slots.all.truncate(60);
        }
        while slots.all.len() > SLOTS_MAX {
            slots.join_pairs();
        }
        let Slots {
            slot_ns,
            all: mut slots,
        } = slots;
        let warm_up_slots = if clock.by_slot {
            let rates: Vec<f64> = slots.iter().map(|slot| float(slot.operations)).collect();
            warm_up(&rates).unwrap_or(0)
        } else {
            0
        };
        let series = Series {
            slot_ns,
            warm_up_slots: u32::try_from(warm_up_slots).expect("few"),
            slots: slots.iter().map(slot_of).collect(),
        };
        let mut all = Counts::default();
        for slot in slots.iter_mut().skip(warm_up_slots) {
            all.add(slot);
        }
        Run {
            operations: all.operations,
            application: all.bytes,
            latency: named(all.latency),
            response: named(all.response),
            series: Some(series),
            ..Run::default()
        }
    }
}

fn slot_of(counts: &Counts) -> Slot {
    Slot {
        operations: counts.operations,
        bytes: counts.bytes,
        latency: (0..)
            .zip(counts.powers.0)
            .filter(|(_, count)| *count > 0)
            .collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a slot are small")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phase of ten hours with an operation that takes eight of them: its slots stay few, and no
    /// operation is lost.
    #[test]
    fn time_slots_grow_with_the_run() {
        let clock = Clock::start(Instant(7), None);
        let collector = Collector::default();
        let mut recorder = Recorder::new(clock, &collector);
        let at = |ms: u64| clock.began.plus_ns(ms * 1_000_000);
        for second in 0..3600 {
            recorder.count(
                Class::Read,
                at(second * 1000),
                at(second * 1000 + 5),
                Traffic::default(),
            );
        }
        recorder.count(
            Class::Fsync,
            at(3_600_000),
            at(32_400_000),
            Traffic::default(),
        );
        recorder.count(
            Class::Read,
            at(32_400_000),
            at(36_000_000),
            Traffic::default(),
        );
        recorder.hand_over();
        assert!(collector.slots().all.len() <= SLOTS_KEPT_MAX);
        let counted = collector.take_counted(&clock);
        assert_eq!(counted.operations, 3602);
        assert_eq!(counted.latency["read"].total(), 3601);
        let series = counted.series.unwrap();
        assert!(series.slots.len() <= SLOTS_MAX);
        let in_slots: Vec<u64> = series.slots.iter().map(|slot| slot.operations).collect();
        assert_eq!(in_slots.iter().sum::<u64>(), 3602);
        // The hour is a tenth of all slots.
        let hour = usize::try_from(3_600_000_000_000 / series.slot_ns).unwrap();
        assert_eq!(in_slots[..=hour].iter().sum::<u64>(), 3600);
    }
}

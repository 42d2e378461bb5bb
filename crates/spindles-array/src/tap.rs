//! Records the accesses to an export, for traces: when, operation, place and response, no data.
//!
//! The array's thread puts each answered access into a bounded ring and never waits: an access that
//! finds the ring full is dropped and counted. A reader on another thread polls the ring. Answers
//! come in another order than submissions, so the ring also has lower bounds of the times that may
//! still come.

use crate::access::Access;
use spindles_block::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Accesses that the ring holds.
const RING: usize = 1 << 15;
/// Answered accesses between two lower bounds.
const BOUND_EVERY: u32 = 256;
/// Accesses that a reader keeps until their order is known; more are dropped.
const KEPT_MAX: usize = 1 << 20;

/// An access with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Time of submission.
    pub since: Instant,
    /// Nanoseconds until the answer.
    pub took_ns: u64,
    /// The user of the export.
    pub user: usize,
    /// The access.
    pub access: Access,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Answered(Recorded),
    /// No later entry was submitted before this moment.
    Bound(Instant),
}

/// The place of an export at which a recording attaches.
#[derive(Clone, Debug, Default)]
pub struct Tap {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Changes when a recording begins or ends.
    generation: AtomicU64,
    ring: Mutex<Option<SyncSender<Entry>>>,
    dropped: AtomicU64,
}

/// Another recording of the same export is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its requests are being recorded already")]
pub struct AlreadyRecorded;

impl Shared {
    fn set(&self, ring: Option<SyncSender<Entry>>) {
        *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = ring;
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn ring(&self) -> Option<SyncSender<Entry>> {
        let ring = self.ring.lock();
        ring.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Tap {
    /// Begins to record the accesses that are submitted from now on.
    ///
    /// # Errors
    ///
    /// Another recording is under way.
    pub fn record(&self) -> Result<Recording, AlreadyRecorded> {
        self.record_in(RING)
    }

    pub(crate) fn record_in(&self, ring: usize) -> Result<Recording, AlreadyRecorded> {
        if self.shared.ring().is_some() {
            return Err(AlreadyRecorded);
        }
        let (sender, entries) = sync_channel(ring);
        self.shared.dropped.store(0, Ordering::Relaxed);
        self.shared.set(Some(sender));
        Ok(Recording {
            shared: Arc::clone(&self.shared),
            entries,
            kept: BinaryHeap::new(),
            not_kept: 0,
        })
    }
}

/// The export's end of a tap.
#[derive(Debug, Default)]
pub(crate) struct TapEnd {
    tap: Tap,
    generation: u64,
    ring: Option<SyncSender<Entry>>,
    until_bound: u32,
}

impl TapEnd {
    pub(crate) fn tap(&self) -> Tap {
        self.tap.clone()
    }

    /// Returns true if accesses are recorded now.
    pub(crate) fn is_on(&mut self) -> bool {
        let generation = self.tap.shared.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.ring = self.tap.shared.ring();
            self.until_bound = BOUND_EVERY;
        }
        self.ring.is_some()
    }

    /// Records an answered access. `oldest` returns the earliest submission of an unanswered one.
    pub(crate) fn note(&mut self, recorded: Recorded, oldest: impl FnOnce() -> Instant) {
        self.put(Entry::Answered(recorded));
        self.until_bound -= 1;
        if self.until_bound == 0 {
            self.until_bound = BOUND_EVERY;
            self.put(Entry::Bound(oldest()));
        }
    }

    fn put(&self, entry: Entry) {
        let taken = self.ring.as_ref().map(|ring| ring.try_send(entry));
        if matches!((taken, entry), (Some(Err(_)), Entry::Answered(_))) {
            self.tap.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A recording under way. It ends when dropped.
#[derive(Debug)]
pub struct Recording {
    shared: Arc<Shared>,
    entries: Receiver<Entry>,
    /// Answered accesses, whose order is not known yet.
    kept: BinaryHeap<Reverse<Kept>>,
    not_kept: u64,
}

/// An access, ordered by its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept(Recorded);

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |kept: &Self| (kept.0.since, kept.0.took_ns, kept.0.access.offset_bytes);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Recording {
    /// Passes on the accesses whose order is known, in order of submission. Does not wait.
    pub fn poll(&mut self, mut sink: impl FnMut(Recorded)) {
        let mut bound = None;
        while let Ok(entry) = self.entries.try_recv() {
            match entry {
                Entry::Answered(_) if self.kept.len() >= KEPT_MAX => self.not_kept += 1,
                Entry::Answered(recorded) => self.kept.push(Reverse(Kept(recorded))),
                Entry::Bound(moment) => bound = Some(moment),
            }
        }
        let Some(bound) = bound else { return };
        while let Some(Reverse(Kept(first))) = self.kept.peek().copied() {
            if first.since >= bound {
                break;
            }
            self.kept.pop();
            sink(first);
        }
    }

    /// Ends the recording and passes on the rest. Accesses in flight are left out. Returns the
    /// number of dropped accesses.
    pub fn end(mut self, mut sink: impl FnMut(Recorded)) -> u64 {
        self.shared.set(None);
        self.poll(&mut sink);
        while let Some(Reverse(Kept(next))) = self.kept.pop() {
            sink(next);
        }
        self.dropped()
    }

    /// Returns the number of accesses that were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed) + self.not_kept
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.shared.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::Operation;

    fn recorded(since: u64, took_ns: u64) -> Recorded {
        Recorded {
            since: Instant(since),
            took_ns,
            user: 0,
            access: Access {
                operation: Operation::Read,
                offset_bytes: since * 4096,
                bytes: 4096,
            },
        }
    }

    /// Each access comes once, in order of submission, however the answers come.
    #[test]
    fn accesses_come_in_order_of_submission() {
        let mut end = TapEnd::default();
        assert!(!end.is_on());
        let mut recording = end.tap().record().unwrap();
        assert_eq!(end.tap().record().unwrap_err(), AlreadyRecorded);
        assert!(end.is_on());
        let mut found = Vec::new();
        let count = 10 * u64::from(BOUND_EVERY);
        for number in 0..count {
            // Neighbours answer in the opposite order, so the next but one may still come.
            let since = number ^ 1;
            end.note(recorded(since, 5), || Instant(number & !1));
            if number % 100 == 0 {
                recording.poll(|recorded| found.push(recorded.since.0));
            }
        }
        assert!(found.len() > 2000, "{}", found.len());
        assert_eq!(recording.end(|recorded| found.push(recorded.since.0)), 0);
        assert!(found.into_iter().eq(0..count));
        assert!(!end.is_on());
    }

    /// A full ring drops and counts, and the recording goes on afterwards.
    #[test]
    fn a_full_ring_drops_and_counts() {
        let mut end = TapEnd::default();
        let mut recording = end.tap().record_in(8).unwrap();
        assert!(end.is_on());
        for number in 0..20 {
            end.note(recorded(number, 1), || Instant(0));
        }
        assert_eq!(recording.dropped(), 12);
        recording.poll(|_| panic!("no bound is known"));
        end.note(recorded(30, 1), || Instant(0));
        let mut found = Vec::new();
        let dropped = recording.end(|recorded| found.push(recorded.since.0));
        assert_eq!((dropped, found), (12, vec![0, 1, 2, 3, 4, 5, 6, 7, 30]));
    }
}

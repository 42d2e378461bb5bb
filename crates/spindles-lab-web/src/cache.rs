//! A cache of findings and reports drawn from records, valid until the records change. Each entry
//! is drawn by one thread at a time; requests for other entries don't wait for it.

use crate::listing::Stamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A drawing of a running run is reused for this many times the time that drawing it took. Readers
/// thus cost the measuring machine at most a twentieth of one CPU.
const REST: u32 = 20;

/// Things drawn from records, by the names of their runs.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    entries: Mutex<HashMap<String, Arc<Entry<T>>>>,
    entries_max: usize,
    clock: AtomicU64,
}

#[derive(Debug)]
struct Entry<T> {
    /// Time of the last request, in ticks of the cache's clock.
    used: AtomicU64,
    drawn: Mutex<Option<Drawn<T>>>,
}

#[derive(Debug)]
struct Drawn<T> {
    stamp: Stamp,
    /// True if the run was going when this was drawn.
    live: bool,
    at: Instant,
    took: Duration,
    thing: Arc<T>,
}

impl<T> Drawn<T> {
    fn is_good(&self, stamp: Stamp, live: bool) -> bool {
        let rests = live && self.at.elapsed() < self.took * REST;
        self.live == live && (self.stamp == stamp || rests)
    }
}

impl<T> Cache<T> {
    /// Creates a cache for at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: Mutex::default(),
            entries_max,
            clock: AtomicU64::new(0),
        }
    }

    /// Returns the entry of this name and the stamp of the records it was drawn from. Draws it
    /// again if the records changed.
    pub(crate) fn get(
        &self,
        name: &str,
        stamp: Stamp,
        live: bool,
        draw: impl FnOnce() -> T,
    ) -> (Stamp, Arc<T>) {
        let entry = self.entry(name);
        let mut drawn = locked(&entry.drawn);
        if let Some(drawn) = drawn.as_ref().filter(|drawn| drawn.is_good(stamp, live)) {
            return (drawn.stamp, Arc::clone(&drawn.thing));
        }
        let at = Instant::now();
        let thing = Arc::new(draw());
        *drawn = Some(Drawn {
            stamp,
            live,
            at: Instant::now(),
            took: at.elapsed(),
            thing: Arc::clone(&thing),
        });
        (stamp, thing)
    }

    /// Returns the stamp that `get` would return, without drawing or waiting.
    pub(crate) fn stamp(&self, name: &str, stamp: Stamp, live: bool) -> Stamp {
        self.good(name, stamp, live).unwrap_or(stamp)
    }

    /// Returns true if `get` would draw nothing.
    pub(crate) fn has(&self, name: &str, stamp: Stamp, live: bool) -> bool {
        self.good(name, stamp, live).is_some()
    }

    /// Returns the stamp of a valid entry; `None` if there is none or it is being drawn.
    fn good(&self, name: &str, stamp: Stamp, live: bool) -> Option<Stamp> {
        let entry = locked(&self.entries).get(name).cloned()?;
        // The thread that holds the lock is drawing.
        let drawn = entry.drawn.try_lock().ok()?;
        let good = drawn.as_ref().filter(|drawn| drawn.is_good(stamp, live));
        good.map(|drawn| drawn.stamp)
    }

    fn entry(&self, name: &str) -> Arc<Entry<T>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut entries = locked(&self.entries);
        if entries.len() >= self.entries_max && !entries.contains_key(name) {
            let last = |(_, entry): &(&String, &Arc<Entry<T>>)| entry.used.load(Ordering::Relaxed);
            let oldest = entries
                .iter()
                .min_by_key(last)
                .map(|(name, _)| name.clone());
            oldest.map(|name| entries.remove(&name));
        }
        let entry = entries.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Entry {
                used: AtomicU64::new(now),
                drawn: Mutex::new(None),
            })
        });
        entry.used.store(now, Ordering::Relaxed);
        Arc::clone(entry)
    }
}

/// Locks the mutex, even if a holder panicked while drawing: the value is then complete or absent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;
    use std::fs;

    fn stamps() -> [Stamp; 2] {
        let folder = tempfile::tempdir().unwrap();
        ["one", "three"].map(|text| {
            fs::write(folder.path().join("records.jsonl"), text).unwrap();
            Listing::of(folder.path()).runs[0].stamp.clone().unwrap()
        })
    }

    #[test]
    fn the_cache_redraws_changed_runs() {
        let [old, new] = stamps();
        let cache = Cache::new(9);
        assert_eq!(cache.stamp("a", old, false), old);
        assert!(!cache.has("a", old, false));
        assert_eq!(*cache.get("a", old, false, || 1).1, 1);
        assert!(cache.has("a", old, false) && !cache.has("a", new, false));
        assert_eq!(*cache.get("a", old, false, || 2).1, 1);
        assert_eq!(*cache.get("b", old, false, || 3).1, 3);
        assert_eq!(cache.stamp("a", new, false), new);
        assert_eq!(*cache.get("a", new, false, || 4).1, 4);
    }

    #[test]
    fn live_pages_pause_in_proportion_and_end_immediately() {
        let [old, new] = stamps();
        let cache = Cache::new(9);
        let slow = || {
            std::thread::sleep(Duration::from_millis(30));
            1
        };
        assert_eq!(*cache.get("a", old, true, slow).1, 1);
        assert_eq!(cache.stamp("a", new, true), old);
        assert_eq!(*cache.get("a", new, true, || 2).1, 1);
        assert_eq!(cache.stamp("a", new, false), new);
        assert_eq!(*cache.get("a", new, false, || 3).1, 3);
        // A drawing that took no time is never reused for changed records.
        assert_eq!(*cache.get("b", old, true, || 4).1, 4);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(*cache.get("b", new, true, || 5).1, 5);
    }

    #[test]
    fn the_cache_evicts_the_least_recently_used_page() {
        let [stamp, _] = stamps();
        let cache = Cache::new(2);
        for (name, drawn) in [("a", 1), ("b", 2), ("a", 1), ("c", 3), ("a", 1), ("b", 4)] {
            assert_eq!(*cache.get(name, stamp, false, || drawn).1, drawn, "{name}");
        }
        assert_eq!(locked(&cache.entries).len(), 2);
    }

    #[test]
    fn drawing_one_page_does_not_block_another() {
        let [stamp, _] = stamps();
        let cache = Cache::new(9);
        let drawn = cache.get("a", stamp, false, || {
            assert_eq!(cache.stamp("a", stamp, false), stamp);
            *cache.get("b", stamp, false, || 1).1 + 1
        });
        assert_eq!(*drawn.1, 2);
    }
}

//! The processors of the host: each serves one actor at a time, in order of arrival. They may share
//! a memory that copies for one of them at a time.

use alloc::vec;
use alloc::vec::Vec;
use spindles_block::Instant;

/// The moments at which processors are free, and the time that they worked.
#[derive(Debug)]
pub(crate) struct Cpus {
    free_at_ns: Vec<u64>,
    /// The moment at which the memory is free, if it copies for one at a time.
    memory_free_at: Option<Instant>,
    used_ns: u64,
}

impl Cpus {
    pub(crate) fn new(count: usize, shares_memory: bool) -> Self {
        Self {
            free_at_ns: vec![0; count],
            memory_free_at: shares_memory.then_some(Instant(0)),
            used_ns: 0,
        }
    }

    /// Takes the processor that is free first for a time. Returns the moment at which it ends.
    pub(crate) fn take(&mut self, now_ns: u64, time_ns: u64) -> u64 {
        let free = self.free_at_ns.iter_mut().min();
        let free = free.expect("a host has a processor");
        *free = now_ns.max(*free) + time_ns;
        self.used_ns += time_ns;
        *free
    }

    /// Takes a processor to copy data for a time, in which it may wait for the memory. Returns the
    /// moment at which it ends.
    pub(crate) fn copy(&mut self, now_ns: u64, time_ns: u64) -> u64 {
        let Some(Instant(memory_free_at_ns)) = self.memory_free_at else {
            return self.take(now_ns, time_ns);
        };
        let free_at_ns = self.free_at_ns.iter().min().copied().unwrap_or(0);
        let waits_ns = memory_free_at_ns.saturating_sub(now_ns.max(free_at_ns));
        let ends_ns = self.take(now_ns, waits_ns + time_ns);
        self.memory_free_at = Some(Instant(ends_ns));
        ends_ns
    }

    /// Returns the time that all processors worked.
    pub(crate) fn used_ns(&self) -> u64 {
        self.used_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processors_serve_two_at_once_and_the_third_waits() {
        let mut cpus = Cpus::new(2, false);
        let ends = [10, 30, 5].map(|time| cpus.take(100, time));
        assert_eq!(ends, [110, 130, 115]);
        assert_eq!(cpus.used_ns(), 45);
    }

    #[test]
    fn one_memory_copies_for_one_processor_at_a_time() {
        for (shares, ends) in [(false, [110, 110, 115]), (true, [110, 120, 125])] {
            let mut cpus = Cpus::new(2, shares);
            let copied = [10, 10].map(|time| cpus.copy(100, time));
            assert_eq!([copied[0], copied[1], cpus.copy(100, 5)], ends);
        }
    }
}

//! The processors of the host: each serves one actor at a time, in order of arrival.

use alloc::vec;
use alloc::vec::Vec;

/// The moments at which processors are free, and the time that they worked.
#[derive(Debug)]
pub(crate) struct Cpus {
    free_at_ns: Vec<u64>,
    used_ns: u64,
}

impl Cpus {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free_at_ns: vec![0; count],
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
        let mut cpus = Cpus::new(2);
        let ends = [10, 30, 5].map(|time| cpus.take(100, time));
        assert_eq!(ends, [110, 130, 115]);
        assert_eq!(cpus.used_ns(), 45);
    }
}

//! Resources of a server: memory, descriptors, threads.

use std::fmt;
use std::fs;

/// Growth of memory after the warm-up that is tolerated: allocators fragment under a steady load.
const MORE_KIB_MAX: u64 = 8 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Resident memory, including the program.
    resident_kib: u64,
    /// Private memory: memory pressure can't reclaim it, and a leak makes it grow.
    own_kib: u64,
    descriptors: usize,
    threads: u64,
}

impl Sizes {
    pub(crate) fn of(process: u32) -> Self {
        let table = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let number = |name: &str| -> u64 {
            let line = table.lines().find_map(|line| line.strip_prefix(name));
            let value = line.expect("there is that line").trim();
            let value = value.split(' ').next().expect("a value");
            value.parse().expect("a number")
        };
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
        Self {
            resident_kib: number("VmRSS:"),
            own_kib: number("RssAnon:") + number("RssShmem:"),
            descriptors: descriptors.count(),
            threads: number("Threads:"),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resident_kib,
            own_kib,
            descriptors,
            threads,
        } = self;
        write!(
            f,
            "{resident_kib} KiB resident, {own_kib} KiB its own, {descriptors} descriptors, \
             {threads} threads"
        )
    }
}

/// Commands until a server has reached its full size. Earlier sizes are not compared.
const COMMANDS_MIN: usize = 50;

/// Resources of a server over time, each taken while no command was running.
#[derive(Debug)]
pub(crate) struct Series(Vec<Sizes>);

impl Series {
    pub(crate) fn new(sizes: Vec<Sizes>) -> Self {
        assert!(!sizes.is_empty(), "nothing was measured");
        Self(sizes)
    }

    /// The resources after the warm-up, which takes a fifth of the time.
    fn warm(&self) -> Sizes {
        self.0[self.0.len() / 5]
    }

    fn last(&self) -> Sizes {
        self.0[self.0.len() - 1]
    }

    /// Asserts that the server has not grown, as far as this can be determined. Threads of the
    /// kernel and our own come and go with the work: it is a leak if the minimum at the end exceeds
    /// the maximum at the beginning.
    pub(crate) fn assert_steady(&self, name: &str) {
        if self.0.len() < COMMANDS_MIN {
            return;
        }
        let (warm, last) = (self.warm(), self.last());
        let (begin, end) = (&self.0[..self.0.len() / 5], &self.0[self.0.len() * 4 / 5..]);
        let most_threads = begin.iter().map(|sizes| sizes.threads).max();
        let fewest_threads = end.iter().map(|sizes| sizes.threads).min();
        let grows = last.own_kib > warm.own_kib + MORE_KIB_MAX
            || last.descriptors > warm.descriptors
            || fewest_threads > most_threads;
        assert!(!grows, "{name} grows: {warm}; then {last}: {self:?}");
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.0.iter().map(|sizes| sizes.own_kib);
        let most = own.max().expect("some were measured");
        write!(
            f,
            "after {} commands: {}; in the end, after {}: {}; at most {most} KiB its own",
            self.0.len() / 5 + 1,
            self.warm(),
            self.0.len(),
            self.last(),
        )
    }
}

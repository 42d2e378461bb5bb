//! What a server has of the machine: memory, descriptors, threads.

use std::fmt;
use std::fs;

/// How much more memory it may have in the end than after it warmed up: what an allocator makes of the same work.
const MORE_KIB_MAX: u64 = 8 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// In memory, its program included.
    resident_kib: u64,
    /// Its own: what pressure can't take away, and what a leak makes more of.
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
            "{resident_kib} KiB resident, {own_kib} KiB its own, {descriptors} descriptors, {threads} threads"
        )
    }
}

/// So many commands make a server take all that it may: before, there is nothing to compare with.
const COMMANDS_MIN: usize = 50;

/// Sizes of a server over time, each when no command was under way.
#[derive(Debug)]
pub(crate) struct Series(Vec<Sizes>);

impl Series {
    pub(crate) fn new(sizes: Vec<Sizes>) -> Self {
        assert!(!sizes.is_empty(), "nothing was measured");
        Self(sizes)
    }

    /// After it warmed up: where a fifth of the time is over.
    fn warm(&self) -> Sizes {
        self.0[self.0.len() / 5]
    }

    fn last(&self) -> Sizes {
        self.0[self.0.len() - 1]
    }

    /// It has no more in the end, as far as that can be told. The kernel's and our own threads come and go with the
    /// work: a leak is there where the fewest of the end are more than the most of the beginning.
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

//! One harness that hurts arrays and judges what is left.
//!
//! ```text
//!   shape             hurts                                       client
//!   process           a command is killed, members are lost      copy, the library
//!   server            a server is killed, members are lost       NBD
//!   pairs             two commands at once, members are lost     NBD
//!   disk              disks lie, stall, fail and lose power      the library, killed
//!   administrator     lives of commands, kills and lost devices  copy
//!   memory            memory is short                            fio, which verifies by itself
//! ```
//!
//! All but the last write what one [`ledger`] draws up, and it judges what they read: it knows
//! the legal contents of each block, and the blocks whose reads may fail. A [`place`] has the
//! devices, and kills commands and servers. `number` and `seeds` read the variables of long runs.

#![allow(clippy::print_stdout, reason = "the figures, and skipped tests")]

mod administrator;
pub(crate) mod client;
mod disk;
pub(crate) mod ledger;
mod library;
mod memory;
pub(crate) mod nbd;
mod pairs;
mod place;
mod process;
pub(crate) mod random;
mod server;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

/// The seeds to run: the only one that `only` names, or this many from `first` on.
fn seeds(only: &str, first: &str, count: u64) -> Range<u64> {
    let from = number(first).unwrap_or(0);
    number(only).map_or(from..from + count, |seed| seed..seed + 1)
}

/// Runs the seeds on this many threads, until all have run or one returns false.
fn for_seeds(seeds: Range<u64>, threads: usize, run: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            if !run(seed) {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

//! Checkers: each watches every run for one promise. One file each, one row in the table.

mod availability;
mod buffers;
mod checksums;
mod clean_mark;
mod dirty_bits;
mod durability;
pub(crate) mod failure_record;
mod hedges;
mod history;
mod liveness;
mod order;
mod redundancy;
mod scrub;
mod staged;

use crate::options::Options;
use crate::stack::Stack;
use crate::stack::rot::Scrubbed;
use spindles_block::{BlockIndex, Instant, MemberSet};
use spindles_engine::Event;
use spindles_workload::history::{History, ReadToken};

/// The state of a run that checkers inspect.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The current time.
    pub now: Instant,
    /// The options of the run.
    pub options: &'a Options,
    /// The disks and the maps.
    pub stack: &'a Stack,
    /// The legal contents of every sector of the array.
    pub history: &'a mut History,
    /// When each disk was lost; `None` for disks that are present.
    pub lost_at: &'a [Option<Instant>],
    /// Set while requests may fail: beyond the budget, or after a crash with unreadable sectors.
    pub errors_excused: bool,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// An array was assembled from its superblocks and is about to be opened.
    Assembled {
        /// The array.
        array: usize,
        /// True if the superblocks call it clean.
        clean: bool,
        /// True if a region is marked before each write to it.
        marks: bool,
        /// The missing members.
        missing: MemberSet,
    },
    /// An array could not be assembled or opened.
    Refused {
        /// The array.
        array: usize,
        /// The reason.
        why: &'a str,
        /// True if the reason given is that it is unclean and degraded.
        unclean_degraded: bool,
        /// True if it is unclean and degraded.
        is_unclean_degraded: bool,
    },
    /// A read was answered.
    Read {
        /// Its token in the history.
        token: ReadToken,
        /// The bytes it returned.
        bytes: &'a [u8],
    },
    /// A write, discard or write-zeroes was answered as done.
    Written {
        /// The first block.
        block: BlockIndex,
        /// Number of blocks.
        blocks: u32,
        /// Time of submission.
        submitted: Instant,
        /// Sectors that are durable from now on.
        durable: &'a [u64],
    },
    /// A flush succeeded.
    Flushed {
        /// Sectors that are durable from now on.
        durable: &'a [u64],
    },
    /// A request failed.
    Failed {
        /// The request in words.
        what: &'a str,
    },
    /// A disk was asked to write bytes that it does not hold durably, or a journal device to write
    /// anything.
    DiskAsked {
        /// The disk; the journal device comes after all disks.
        disk: usize,
        /// The first sector.
        sector: u64,
        /// The bytes to write.
        bytes: &'a [u8],
    },
    /// A disk wrote data from a buffer, which must not have changed meanwhile.
    DiskWrote {
        /// The disk.
        disk: usize,
        /// True if the buffer changed.
        buffer_changed: bool,
    },
    /// A disk filled a buffer with data read.
    DiskRead {
        /// The disk.
        disk: usize,
        /// True if a client owns the buffer and no read into it is in flight.
        clients: bool,
    },
    /// Reads were hedged.
    Hedged {
        /// Hedged reads since the outermost array was opened.
        hedged: u64,
        /// Reads of its members since then.
        reads: u64,
    },
    /// An array was scrubbed without client requests.
    Scrubbed {
        /// The corrupt blocks, and the reported ones.
        scrubbed: &'a Scrubbed,
    },
    /// Metadata of a member was corrupt, and its array was scrubbed.
    MetadataScrubbed {
        /// The flaws that are left.
        left: &'a [String],
    },
    /// A scrub during client requests, or a repair, reported something.
    Reported {
        /// The event.
        event: &'a Event,
    },
    /// Nothing is in flight, and nothing is left to resynchronise.
    Settled,
    /// The array was closed and reported itself clean.
    ClosedClean,
    /// No more events will come, though the run is not complete.
    Stalled {
        /// What is missing.
        what: &'a str,
    },
}

/// A checker at work in one run.
pub trait Check {
    /// Inspects an event.
    ///
    /// # Errors
    ///
    /// Why the event breaks the promise.
    fn see(&mut self, scene: &mut Scene<'_>, seen: &Seen<'_>) -> Result<(), String>;
}

/// A checker.
#[derive(Debug)]
pub struct Checker {
    /// Its name in failures.
    pub name: &'static str,
    /// The promise, in one line.
    pub about: &'static str,
    /// Begins to watch a run.
    pub start: fn() -> Box<dyn Check>,
}

/// Every checker.
pub static CHECKERS: &[&Checker] = &[
    &history::CHECKER,
    &durability::CHECKER,
    &redundancy::CHECKER,
    &failure_record::CHECKER,
    &clean_mark::CHECKER,
    &dirty_bits::CHECKER,
    &order::CHECKER,
    &availability::CHECKER,
    &scrub::CHECKER,
    &checksums::CHECKER,
    &liveness::CHECKER,
    &buffers::CHECKER,
    &hedges::CHECKER,
    &staged::CHECKER,
];

/// A checker without state.
struct Stateless(fn(&mut Scene<'_>, &Seen<'_>) -> Result<(), String>);

impl Check for Stateless {
    fn see(&mut self, scene: &mut Scene<'_>, seen: &Seen<'_>) -> Result<(), String> {
        (self.0)(scene, seen)
    }
}

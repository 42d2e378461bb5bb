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

use crate::options::Options;
use crate::scrub::Scrubbed;
use crate::stack::Stack;
use spindles_block::{BlockIndex, Instant, MemberSet};
use spindles_engine::Event;
use spindles_workload::history::{History, ReadToken};

/// What there is to look at.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The moment.
    pub now: Instant,
    /// What the run was meant to be.
    pub options: &'a Options,
    /// The disks and the maps.
    pub stack: &'a Stack,
    /// What every sector of the array may hold.
    pub history: &'a mut History,
    /// When each disk was lost, if it is.
    pub lost_at: &'a [Option<Instant>],
    /// Whether errors may be answered: beyond the budget, or where a crash and an unreadable
    /// sector met.
    pub errors_excused: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// An array was assembled from its superblocks and is about to be opened.
    Assembled {
        /// Which.
        array: usize,
        /// Whether the superblocks call it clean.
        clean: bool,
        /// Whether a region is marked before each write to it.
        marks: bool,
        /// Members that are missing.
        missing: MemberSet,
    },
    /// An array could not be assembled or opened.
    Refused {
        /// Which.
        array: usize,
        /// Why.
        why: &'a str,
        /// Whether the reason is that it is unclean and degraded.
        unclean_degraded: bool,
        /// Whether that is true.
        is_unclean_degraded: bool,
    },
    /// A read was answered.
    Read {
        /// Of the history.
        token: ReadToken,
        /// What it returned.
        bytes: &'a [u8],
    },
    /// A write, discard or write-zeroes was answered as done.
    Written {
        /// The first block.
        block: BlockIndex,
        /// How many.
        blocks: u32,
        /// When it was submitted.
        submitted: Instant,
        /// Sectors that are durable from now on.
        durable: &'a [u64],
    },
    /// A flush was answered as done.
    Flushed {
        /// Sectors that are durable from now on.
        durable: &'a [u64],
    },
    /// A request failed.
    Failed {
        /// In words.
        what: &'a str,
    },
    /// A disk is asked to write what it does not hold durably; or the device of a journal to write anything.
    DiskAsked {
        /// Which disk; that device comes after all disks.
        disk: usize,
        /// The first sector.
        sector: u64,
        /// What it shall hold.
        bytes: &'a [u8],
    },
    /// A disk wrote what lay in a buffer, which must not have changed meanwhile.
    DiskWrote {
        /// Which disk.
        disk: usize,
        /// Whether the buffer changed.
        buffer_changed: bool,
    },
    /// A disk fills memory with what was asked of it.
    DiskRead {
        /// Which disk.
        disk: usize,
        /// Whether the memory is a client's that asks nothing with it.
        clients: bool,
    },
    /// Reads were hedged.
    Hedged {
        /// So many since the top array was opened.
        hedged: u64,
        /// And so many reads it asked of its members.
        reads: u64,
    },
    /// An array was scrubbed while nobody used it.
    Scrubbed {
        /// What was rotten, and what was told.
        scrubbed: &'a Scrubbed,
    },
    /// Metadata of a member was corrupt, and its array was scrubbed.
    MetadataScrubbed {
        /// What is still wrong.
        left: &'a [String],
    },
    /// A scrub beside clients, or a repair, told something.
    Told {
        /// What.
        event: &'a Event,
    },
    /// Nothing is in flight, and nothing is left to resynchronise.
    Settled,
    /// The array was closed and says that it is clean.
    ClosedClean,
    /// Nothing will happen any more, though something should.
    Stalled {
        /// What.
        what: &'a str,
    },
}

/// A checker at work in one run.
pub trait Check {
    /// Sees what happened.
    ///
    /// # Errors
    ///
    /// Why it must not have.
    fn see(&mut self, scene: &mut Scene<'_>, seen: &Seen<'_>) -> Result<(), String>;
}

/// A checker.
#[derive(Debug)]
pub struct Checker {
    /// How failures name it.
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
];

/// A checker that needs to remember nothing.
struct Stateless(fn(&mut Scene<'_>, &Seen<'_>) -> Result<(), String>);

impl Check for Stateless {
    fn see(&mut self, scene: &mut Scene<'_>, seen: &Seen<'_>) -> Result<(), String> {
        (self.0)(scene, seen)
    }
}

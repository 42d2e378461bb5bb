//! Progress of a replay of the journals, and its findings.

use crate::{
    RangeId,
    log::relog::{Proving, RELOGGED},
    recovery::log_index::{LogIndex, Run},
    system_io::Place,
};
use alloc::{collections::BTreeMap, vec::Vec};

/// Progress of reading one journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    /// The next block to look at, from the start of the journal.
    pub(crate) next: u32,
    /// Below this block headers are read one by one, because a longer read failed.
    pub(crate) careful_below: u32,
    /// The length of the current read, in blocks.
    pub(crate) reading: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waiting until the state found at opening is durable.
    Due,
    Scanning {
        pending: u32,
    },
    /// Recording in the superblocks which members are missing.
    Recording,
    /// Reading the records of the last batch, to see whether they are whole.
    Checking,
    /// Writing the records that count to their places.
    Placing,
    /// Recording in the superblocks that the log continues after the last batch.
    Resuming,
    /// Completing the records that are not whole, if they can be proved, and logging them again.
    Proving,
    /// Removing blocks that are no longer lost from the list of bad blocks.
    Listing {
        resumes: bool,
    },
    Flushing {
        resumes: bool,
    },
    /// The replay ended, or was given up.
    Ended,
}

/// A replay under way. It may allocate, because the array does not serve requests yet.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) stage: Stage,
    pub(crate) window: Place,
    pub(crate) scans: Vec<Scan>,
    /// The batches found in the log, with their places. `begun` is the last batch that begins a
    /// log.
    pub(crate) seen: BTreeMap<u64, u32>,
    pub(crate) begun: u64,
    pub(crate) log: LogIndex,
    /// The rows being checked, placed or proved, and the index of the next of them.
    pub(crate) runs: Vec<Run>,
    pub(crate) next: usize,
    /// Finished rows of the next run.
    pub(crate) done_rows: u32,
    /// Incomplete records of batches that may not be durable.
    pub(crate) broken: Vec<Run>,
    pub(crate) proving: Proving,
    pub(crate) range: RangeId,
    pub(crate) replayed: u64,
    /// True while writes wait until it is durable which members are out.
    pub(crate) waits: bool,
}

impl Replay {
    /// Returns true if the whole log from `tail` on was found on a device of its own. A crash may
    /// have taken only the last batch.
    pub(crate) fn is_whole(&self, tail: u64) -> bool {
        let from = tail.max(self.begun);
        let seen = |batch| self.seen.contains_key(&batch);
        match self.seen.keys().next_back() {
            None => false,
            Some(last) if *last < from => last + 1 == from,
            // Batches logged again after a crash have numbers that are `RELOGGED` higher.
            Some(_) => {
                let mut later = self.seen.range(from + 1..).map(|(batch, _)| *batch);
                seen(from) && later.all(|batch| seen(batch - 1) || seen(batch - RELOGGED))
            }
        }
    }
}

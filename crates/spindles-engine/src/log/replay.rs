//! Progress of a replay of the journals, and its findings.

use crate::{
    RangeId,
    log::{relog::Proving, scan::Scanner},
    recovery::log_index::{LogIndex, Run},
};
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waiting until the state found at opening is durable.
    Due,
    Scanning,
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
    pub(crate) scanner: Scanner,
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

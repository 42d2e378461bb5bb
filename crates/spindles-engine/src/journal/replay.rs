//! How far the replay of the journals has come, and what was found in them.

use crate::{
    RangeId,
    journal::relog::{Proving, RELOGGED},
    recovery::log_index::{LogIndex, Run},
    system_io::Place,
};
use alloc::{collections::BTreeMap, vec::Vec};

/// How far the reading of one journal has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    /// The block that is looked at next, from the start of the journal.
    pub(crate) next: u32,
    /// Below, headers are read one by one: something there could not be read.
    pub(crate) careful_below: u32,
    /// The length of the read under way.
    pub(crate) reading: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It begins when what was found at opening is durable.
    Due,
    Scanning {
        pending: u32,
    },
    /// Who is missing is made durable.
    Recording,
    /// What the last batch logged is read, to see whether it is whole.
    Checking,
    /// What counts goes to its place.
    Placing,
    /// The log goes on behind the last batch, when the superblocks say so.
    Resuming,
    /// Records that are not whole are made whole, where that can be proved, and logged anew.
    Proving,
    /// What is not lost any more leaves the list of bad blocks.
    Listing {
        resumes: bool,
    },
    Flushing {
        pending: u32,
        resumes: bool,
    },
    /// It came to its end, or was given up.
    Ended,
}

/// A replay under way. It allocates: nothing is served yet.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) stage: Stage,
    pub(crate) window: Place,
    pub(crate) scans: Vec<Scan>,
    /// The batches of the log that were found, where they lie, and the last one of those with which a log begins.
    pub(crate) seen: BTreeMap<u64, u32>,
    pub(crate) begun: u64,
    pub(crate) log: LogIndex,
    /// What is under way: rows of the last batch that are checked, or rows that are placed, and which
    /// of them is next.
    pub(crate) runs: Vec<Run>,
    pub(crate) next: usize,
    /// So many rows of it are done.
    pub(crate) done_rows: u32,
    /// Records of batches that may not be durable which are not whole.
    pub(crate) broken: Vec<Run>,
    pub(crate) proving: Proving,
    pub(crate) range: RangeId,
    pub(crate) replayed: u64,
    /// What is to be written waits until it is durable who is out.
    pub(crate) waits: bool,
}

impl Replay {
    /// Whether all of the log from `tail` on was found, on a device of its own. A crash may have taken the
    /// last batch alone.
    pub(crate) fn is_whole(&self, tail: u64) -> bool {
        let from = tail.max(self.begun);
        let seen = |batch| self.seen.contains_key(&batch);
        match self.seen.keys().next_back() {
            None => false,
            Some(last) if *last < from => last + 1 == from,
            // What was logged anew after a crash is some numbers on.
            Some(_) => {
                let mut later = self.seen.range(from + 1..).map(|(batch, _)| *batch);
                seen(from) && later.all(|batch| seen(batch - 1) || seen(batch - RELOGGED))
            }
        }
    }
}

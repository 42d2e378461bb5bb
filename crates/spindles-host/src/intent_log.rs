//! The log of a file system: actors that wait until their changes are durable. One write at a time
//! takes all changes that wait.

use crate::block::RequestId;
use crate::file_systems::Piece;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// What happens next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The log waits for answers.
    Wait,
    /// These requests are sent, and answered together.
    Send(Vec<Piece>),
    /// These actors go on.
    Done(Vec<u32>),
}

#[derive(Debug, Default)]
pub(crate) struct IntentLog {
    is_busy: bool,
    /// True if a write is due, even if no actor waits.
    is_due: bool,
    bytes: u64,
    waiting: Vec<u32>,
    served: Vec<u32>,
    /// Requests that must be answered before the first group is sent.
    before: BTreeSet<RequestId>,
    /// Groups of requests; each waits for the one before.
    groups: VecDeque<Vec<Piece>>,
}

/// Bytes of a record of the log, apart from its data.
const RECORD_BYTES: u64 = 256;

impl IntentLog {
    /// Adds an actor and the bytes of its data.
    pub(crate) fn add(&mut self, actor: u32, bytes: u64) {
        self.waiting.push(actor);
        self.bytes += bytes + RECORD_BYTES;
    }

    /// Asks for a write that no actor waits for.
    pub(crate) fn ask(&mut self) {
        self.is_due = true;
    }

    /// Begins a write, if one is due. Returns its bytes.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if self.is_busy || self.waiting.is_empty() && !self.is_due {
            return None;
        }
        (self.is_busy, self.is_due) = (true, false);
        self.served = core::mem::take(&mut self.waiting);
        Some(core::mem::take(&mut self.bytes))
    }

    /// Takes the requests of the write, and the writes to be answered before them.
    pub(crate) fn start(&mut self, groups: Vec<Vec<Piece>>, before: BTreeSet<RequestId>) -> Next {
        self.groups = groups.into();
        self.before = before;
        self.next()
    }

    /// Takes the answer to a request that is none of the log. Returns true if the log goes on.
    pub(crate) fn answered(&mut self, id: RequestId) -> bool {
        self.before.remove(&id) && self.before.is_empty()
    }

    /// Returns what follows the last answer.
    pub(crate) fn next(&mut self) -> Next {
        if !self.before.is_empty() {
            return Next::Wait;
        }
        if let Some(pieces) = self.groups.pop_front() {
            return Next::Send(pieces);
        }
        self.is_busy = false;
        Next::Done(core::mem::take(&mut self.served))
    }

    /// Drops all actors. What is under way ends as usual.
    pub(crate) fn end_actors(&mut self) {
        self.waiting.clear();
        self.served.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn one_write_serves_all_that_wait() {
        let groups = || vec![vec![Piece::FLUSH], vec![]];
        let mut log = IntentLog::default();
        assert_eq!(log.begin(), None);
        log.add(1, 100);
        assert_eq!(log.begin(), Some(356));
        let send = Next::Send(vec![Piece::FLUSH]);
        assert_eq!(log.start(groups(), BTreeSet::new()), send);
        log.add(2, 0);
        log.add(3, 0);
        assert_eq!(log.begin(), None);
        assert_eq!(log.next(), Next::Send(vec![]));
        assert_eq!(log.begin(), None);
        assert_eq!(log.next(), Next::Done(vec![1]));
        assert_eq!(log.begin(), Some(512));
        log.ask();
        assert_eq!(
            log.start(Vec::new(), BTreeSet::new()),
            Next::Done(vec![2, 3])
        );
        assert_eq!(log.begin(), Some(0));
    }

    #[test]
    fn data_under_way_comes_first() {
        let mut log = IntentLog::default();
        log.add(1, 0);
        log.begin();
        let before = [RequestId(4), RequestId(5)].into();
        assert_eq!(log.start(vec![vec![Piece::FLUSH]], before), Next::Wait);
        let answered = [5, 3, 4].map(|id| log.answered(RequestId(id)));
        assert_eq!(answered, [false, false, true]);
        assert_eq!(log.next(), Next::Send(vec![Piece::FLUSH]));
    }
}

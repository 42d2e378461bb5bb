//! The intent log: actors that wait until their changes are durable. One write at a time takes all
//! changes that wait; a flush follows it.

use alloc::vec::Vec;

/// What the log waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Writing,
    Flushing,
}

/// What happens next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Flush,
    /// These actors go on.
    Done(Vec<u32>),
}

#[derive(Debug, Default)]
pub(crate) struct IntentLog {
    stage: Stage,
    bytes: u64,
    waiting: Vec<u32>,
    served: Vec<u32>,
}

/// Bytes of a record of the log, apart from its data.
const RECORD_BYTES: u64 = 256;

impl IntentLog {
    /// Adds an actor and the bytes of its data.
    pub(crate) fn add(&mut self, actor: u32, bytes: u64) {
        self.waiting.push(actor);
        self.bytes += bytes + RECORD_BYTES;
    }

    /// Begins a write, if one is due. Returns its bytes.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if self.stage != Stage::Idle || self.waiting.is_empty() {
            return None;
        }
        self.stage = Stage::Writing;
        self.served = core::mem::take(&mut self.waiting);
        Some(core::mem::take(&mut self.bytes))
    }

    /// Takes the answer to the write or the flush.
    pub(crate) fn answered(&mut self) -> Next {
        if self.stage == Stage::Writing {
            self.stage = Stage::Flushing;
            return Next::Flush;
        }
        self.stage = Stage::Idle;
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
        let mut log = IntentLog::default();
        assert_eq!(log.begin(), None);
        log.add(1, 100);
        assert_eq!(log.begin(), Some(356));
        log.add(2, 0);
        log.add(3, 0);
        assert_eq!(log.begin(), None);
        assert_eq!(log.answered(), Next::Flush);
        assert_eq!(log.begin(), None);
        assert_eq!(log.answered(), Next::Done(vec![1]));
        assert_eq!(log.begin(), Some(512));
        assert_eq!(log.answered(), Next::Flush);
        assert_eq!(log.answered(), Next::Done(vec![2, 3]));
    }
}

//! The log of a run, as a hash of all events and, if requested, as text.

use spindles_block::{Instant, Operation};
use spindles_engine::IoPurpose;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A logged event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A session began: the array is opened.
    Open {
        /// The session, from 0.
        session: u32,
    },
    /// A request was submitted.
    Request {
        /// Its token.
        token: u64,
        /// The operation.
        operation: Operation,
        /// The first block of the array.
        block: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// A request was answered.
    Reply {
        /// Its token.
        token: u64,
        /// True if it succeeded.
        done: bool,
    },
    /// An operation was sent to a disk.
    Disk {
        /// The disk.
        disk: usize,
        /// The operation.
        operation: Operation,
        /// Its purpose.
        purpose: IoPurpose,
        /// The first block.
        block: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// A disk answered.
    DiskDone {
        /// The disk.
        disk: usize,
        /// The operation.
        operation: Operation,
        /// The first block.
        block: u64,
        /// True if it succeeded.
        done: bool,
    },
    /// A computation ended.
    Computed {
        /// The array.
        array: usize,
    },
}

/// A checker's finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The checker that reports it.
    pub checker: &'static str,
    /// The finding in words.
    pub what: String,
    /// The session.
    pub session: u32,
    /// The moment.
    pub at: Instant,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (checker, what, session) = (self.checker, &self.what, self.session);
        write!(f, "{checker}: {what} (session {session}, {} ns)", self.at.0)
    }
}

/// The log of a run, with its first finding and its counts.
#[derive(Clone, Debug)]
pub struct Log {
    hash: DefaultHasher,
    entries: u64,
    story: Option<Vec<String>>,
    failure: Option<Failure>,
    /// How often each fault struck and each ending occurred.
    struck: BTreeMap<&'static str, u64>,
}

impl Log {
    /// Creates an empty log; with `story`, events are kept as text too.
    pub fn new(story: bool) -> Self {
        Self {
            hash: DefaultHasher::new(), // Not seeded: hashes of two runs can be compared.
            entries: 0,
            story: story.then(Vec::new),
            failure: None,
            struck: BTreeMap::new(),
        }
    }

    /// Logs a finding. Only the first one counts.
    pub fn fail(&mut self, failure: Failure) {
        self.note(failure.at, &format!("FOUND by {failure}"));
        self.failure.get_or_insert(failure);
    }

    /// Returns the first finding.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns true once there is a finding.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Counts that a fault struck, or that something else occurred.
    pub fn count(&mut self, what: &'static str, times: u64) {
        *self.struck.entry(what).or_default() += times;
    }

    /// Returns the counts.
    pub fn struck(&self) -> &BTreeMap<&'static str, u64> {
        &self.struck
    }

    /// Logs an event.
    pub fn entry(&mut self, now: Instant, entry: Entry) {
        self.entries += 1;
        now.hash(&mut self.hash);
        entry.hash(&mut self.hash);
        self.tell(now, || entry.to_string());
    }

    /// Logs a rare event as text.
    pub fn note(&mut self, now: Instant, text: &str) {
        self.entries += 1;
        now.hash(&mut self.hash);
        text.hash(&mut self.hash);
        self.tell(now, || format!("-- {text}"));
    }

    fn tell(&mut self, now: Instant, text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let (ms, ns) = (now.0 / 1_000_000, now.0 % 1_000_000);
            story.push(format!("{ms:>6}.{ns:06} ms  {}", text()));
        }
    }

    /// Returns a hash of all events.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the number of events.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the text, one line for each event.
    pub fn into_story(self) -> Vec<String> {
        self.story.unwrap_or_default()
    }
}

/// Returns the name of an operation.
fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write { fua: false } => "write",
        Operation::Write { fua: true } => "write durably",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
        Operation::WriteZeroes { fua: false } => "write zeros",
        Operation::WriteZeroes { fua: true } => "write zeros durably",
    }
}

struct Blocks(u64, u32);

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(_, 0) => Ok(()),
            Self(block, 1) => write!(f, " block {block}"),
            Self(block, blocks) => {
                write!(f, " blocks {block}..{}", block + u64::from(blocks))
            }
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open { session } => write!(f, "== session {session}: the array is opened"),
            Self::Request {
                token,
                operation,
                block,
                blocks,
            } => {
                let (word, blocks) = (word(operation), Blocks(block, blocks));
                write!(f, "request {token}: {word}{blocks}")
            }
            Self::Reply { token, done } => {
                write!(
                    f,
                    "request {token}: {}",
                    if done { "done" } else { "failed" }
                )
            }
            Self::Disk {
                disk,
                operation,
                purpose,
                block,
                blocks,
            } => {
                let (word, blocks) = (word(operation), Blocks(block, blocks));
                write!(f, "      disk {disk}: {word}{blocks} ({purpose:?})")
            }
            Self::DiskDone {
                disk,
                operation,
                block,
                done,
            } => {
                let result = if done { "done" } else { "FAILED" };
                write!(
                    f,
                    "      disk {disk}: {} at {block} {result}",
                    word(operation)
                )
            }
            Self::Computed { array } => write!(f, "      array {array}: computed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_distinguish_runs() {
        let log = |token, now| {
            let mut log = Log::new(true);
            log.entry(Instant(now), Entry::Reply { token, done: true });
            log
        };
        assert_eq!(log(1, 1).hash(), log(1, 1).hash());
        assert_ne!(log(1, 1).hash(), log(2, 1).hash());
        assert_ne!(log(1, 1).hash(), log(1, 2).hash());
        assert_eq!(
            log(7, 1_000_002).into_story(),
            ["     1.000002 ms  request 7: done"]
        );
    }
}

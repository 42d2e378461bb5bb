//! Requests and replies over `io_uring`, where the kernel has that switched on.
//!
//! The kernel has a queue for each processor that there may be, and begins to use them when each has an entry. An entry
//! is away until a request is there, and goes away again with the reply; so many requests and replies cost one
//! system call, where `/dev/fuse` takes two for each. What is not for a queue, as interrupts are, still comes from there.

use super::message::{Message, Reply, Violation};
use super::ring_message::{self, COMMIT_AND_FETCH, REGISTER, RING_HEAD_BYTES};
use crate::wake::Waker;
use spindles_io::command_ring::{Arrived, CommandRing, CommandRingLimits};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::{fs, io};

/// Which processors there may be, as `0-3,8-11`.
const PROCESSORS: &str = "/sys/devices/system/cpu/possible";
/// Entries of a queue: as many as programs mostly have under way on one processor, and fewer where there are many, but
/// so many at least. More requests wait in the kernel.
const DEPTH_MAX: u16 = 32;
const DEPTH_MIN: u16 = 4;
const ENTRIES: u16 = 128;
/// The kernel begins no ring with less room for payload.
const PAYLOAD_BYTES_MIN: u32 = 8192;
const PAGE_BYTES: u32 = 4096;

/// An entry that a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId(u16);

#[derive(Debug)]
pub(super) struct Ring {
    commands: CommandRing,
    /// Wakes when something has come, until it is heard.
    waker: Waker,
    was_woken: bool,
    queues: u16,
    /// For each entry how its reply is committed.
    commits: Vec<u64>,
    /// Entries that have requests which nobody took.
    arrived: VecDeque<(EntryId, Message)>,
    /// The kernel has said of so many entries that it does not take them.
    refused: u16,
    /// Whether `/dev/fuse` is looked out for.
    watches: bool,
}

impl Ring {
    /// A ring of that device that wakes, for requests of at most so many bytes. The kernel does not know of it yet.
    pub(super) fn new(
        device: BorrowedFd<'_>,
        waker: &Waker,
        request_bytes_max: u32,
    ) -> io::Result<Self> {
        let queues = processors(&fs::read_to_string(PROCESSORS)?);
        let queues = queues.ok_or_else(|| io::Error::other("no number of processors"))?;
        let depth = (ENTRIES / queues).clamp(DEPTH_MIN, DEPTH_MAX);
        let entries = queues.checked_mul(depth);
        let entries = entries.ok_or(io::ErrorKind::OutOfMemory)?;
        let payload_bytes = request_bytes_max.next_multiple_of(PAGE_BYTES);
        let payload_bytes = payload_bytes.max(PAYLOAD_BYTES_MIN);
        let limits = CommandRingLimits {
            entries,
            head_bytes: RING_HEAD_BYTES,
            payload_bytes: usize::try_from(payload_bytes).expect("64 bits"),
        };
        let commands = CommandRing::new(device, limits)?;
        commands.signal(waker)?;
        Ok(Self {
            commands,
            waker: waker.clone(),
            was_woken: true,
            queues,
            commits: vec![0; entries.into()],
            arrived: VecDeque::with_capacity(entries.into()),
            refused: 0,
            watches: false,
        })
    }

    /// The kernel gets to know all entries, after it was told that there is a ring.
    pub(super) fn register(&mut self) {
        for entry in 0..self.commands.limits().entries {
            let command = ring_message::command(0, entry % self.queues);
            self.commands.introduce(entry, REGISTER, &command);
        }
        self.look_out();
    }

    /// `/dev/fuse` is looked out for, if it is not.
    pub(super) fn look_out(&mut self) {
        if !std::mem::replace(&mut self.watches, true) {
            self.commands.watch_device();
        }
    }

    /// Hands over what is to be, and takes what has come. Whether `/dev/fuse` is to be looked at.
    pub(super) fn turn(&mut self) -> io::Result<bool> {
        let mut comes = self.commands.has_commands() || self.commands.has_news();
        while comes || self.was_woken {
            if comes {
                self.commands.enter()?;
                self.was_woken = true;
                self.take_arrived()?;
                if !self.arrived.is_empty() {
                    break;
                }
            } else {
                // What comes from now on wakes anew.
                self.waker.heard();
                self.was_woken = false;
            }
            comes = self.commands.has_news();
        }
        Ok(!self.watches)
    }

    fn take_arrived(&mut self) -> io::Result<()> {
        while let Some(arrived) = self.commands.next_arrived() {
            match arrived {
                Arrived::Device => self.watches = false,
                Arrived::Entry(entry, 0) => {
                    let decoded = ring_message::decode(self.commands.head(entry));
                    let (message, commit) = decoded.map_err(|Violation| wrong_request())?;
                    self.commits[usize::from(entry)] = commit;
                    self.arrived.push_back((EntryId(entry), message));
                }
                // Not taken, or not any more: it stays here.
                Arrived::Entry(..) => self.refused += 1,
            }
        }
        Ok(())
    }

    /// Whether the kernel takes no entry.
    pub(super) fn is_refused(&self) -> bool {
        self.refused == self.commands.limits().entries
    }

    /// The first request that nobody took.
    pub(super) fn first(&self) -> Option<(EntryId, Message)> {
        self.arrived.front().copied()
    }

    /// Takes that one.
    pub(super) fn take_first(&mut self) {
        self.arrived.pop_front();
    }

    /// What a request wants to be written.
    pub(super) fn payload(&self, entry: EntryId) -> &[u8] {
        self.commands.payload(entry.0)
    }

    /// Answers a request. It goes with the next turn.
    pub(super) fn reply(&mut self, EntryId(entry): EntryId, reply: &Reply, read: &[u8]) {
        let (_, body) = reply.parts();
        let payload = self.commands.payload_mut(entry);
        let (bodys, reads) = payload.split_at_mut(body.len());
        bodys.copy_from_slice(body);
        reads[..read.len()].copy_from_slice(read);
        let payload_bytes = body.len() + read.len();
        ring_message::put_reply(self.commands.head_mut(entry), reply, payload_bytes);
        let commit = self.commits[usize::from(entry)];
        let command = ring_message::command(commit, entry % self.queues);
        self.commands.push(entry, COMMIT_AND_FETCH, &command);
    }

    /// Whether replies wait to go.
    pub(super) fn has_replies(&self) -> bool {
        self.commands.has_commands()
    }

    /// Replies go.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.commands.enter()
    }
}

fn wrong_request() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what came is no request")
}

/// How many there may be.
fn processors(ranges: &str) -> Option<u16> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    let mut ranges = ranges.trim_end().split(',');
    ranges.try_fold(0_u16, |sum, range| sum.checked_add(count(range)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        for (list, count) in [
            ("0\n", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,8-11,16\n", Some(9)),
            ("\n", None),
            ("3-1\n", None),
            ("0-65535\n", None),
        ] {
            assert_eq!(processors(list), count, "{list:?}");
        }
    }
}

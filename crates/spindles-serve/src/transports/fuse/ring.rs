//! Requests and replies over `io_uring`, if the kernel has enabled that.
//!
//! The kernel has one queue for each possible CPU, and uses them once each has an entry. The kernel
//! holds an entry until it has a request for it, and gets the entry back with the reply. So one
//! system call moves many requests and replies, whereas `/dev/fuse` takes two for each request.
//! Requests outside the queues, such as interrupts, still come from `/dev/fuse`.

use super::message::{Message, Reply, Violation};
use super::ring_message::{self, COMMIT_AND_FETCH, REGISTER, RING_HEAD_BYTES};
use crate::wake::Waker;
use spindles_ublk::command_ring::{Arrived, CommandRing, CommandRingLimits};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::{fs, io};

/// The list of possible CPUs, such as `0-3,8-11`.
const PROCESSORS: &str = "/sys/devices/system/cpu/possible";
/// Entries of a queue: as many as programs usually have in flight on one CPU. Fewer if there are
/// many CPUs, but at least `DEPTH_MIN`. Further requests wait in the kernel.
const DEPTH_MAX: u16 = 32;
const DEPTH_MIN: u16 = 4;
const ENTRIES: u16 = 128;
/// Smallest payload buffer for which the kernel starts a ring.
const PAYLOAD_BYTES_MIN: u32 = 8192;
const PAGE_BYTES: u32 = 4096;

/// An entry that holds a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId(u16);

#[derive(Debug)]
pub(super) struct Ring {
    commands: CommandRing,
    /// Wakes the server when an event has arrived, until it is cleared.
    waker: Waker,
    was_woken: bool,
    queues: u16,
    /// The commit ID of each entry, for its reply.
    commits: Vec<u64>,
    /// Entries with requests not taken yet.
    arrived: VecDeque<(EntryId, Message)>,
    /// Number of entries that the kernel refused.
    refused: u16,
    /// True while `/dev/fuse` is polled.
    watches: bool,
}

impl Ring {
    /// Creates a ring for a device, for requests of at most `request_bytes_max` bytes. `waker` is
    /// signalled on events. The kernel does not use the ring yet.
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

    /// Registers all entries with the kernel, after it was informed of the ring.
    pub(super) fn register(&mut self) {
        for entry in 0..self.commands.limits().entries {
            let command = ring_message::command(0, entry % self.queues);
            self.commands.introduce(entry, REGISTER, &command);
        }
        self.look_out();
    }

    /// Polls `/dev/fuse`, unless it is polled already.
    pub(super) fn look_out(&mut self) {
        if !std::mem::replace(&mut self.watches, true) {
            self.commands.watch_device();
        }
    }

    /// Submits commands, and takes arrived requests. Returns true if `/dev/fuse` must be read.
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
                // Later events wake again.
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
                // Refused now or later: the entry stays here.
                Arrived::Entry(..) => self.refused += 1,
            }
        }
        Ok(())
    }

    /// Returns true if the kernel refused all entries.
    pub(super) fn is_refused(&self) -> bool {
        self.refused == self.commands.limits().entries
    }

    /// Returns the first pending request.
    pub(super) fn first(&self) -> Option<(EntryId, Message)> {
        self.arrived.front().copied()
    }

    /// Removes the first pending request.
    pub(super) fn take_first(&mut self) {
        self.arrived.pop_front();
    }

    /// Returns the payload of a write.
    pub(super) fn payload(&self, entry: EntryId) -> &[u8] {
        self.commands.payload(entry.0)
    }

    /// Queues a reply, which the next turn submits.
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

    /// Returns true if replies are queued.
    pub(super) fn has_replies(&self) -> bool {
        self.commands.has_commands()
    }

    /// Submits the queued replies.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.commands.enter()
    }
}

fn wrong_request() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what came is no request")
}

/// Counts the CPUs in a list.
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

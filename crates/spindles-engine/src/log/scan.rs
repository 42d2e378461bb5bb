//! Reads the journals of all members after a crash, window by window, and finds the headers of the
//! log in them.
//!
//! ```text
//! input                               the member's next read
//! a window is read                    behind the last header that may begin in it
//! a window can't be read              the same blocks, header by header
//! a single header can't be read       one block later
//! the member is gone                  none
//! the journal ends                    none
//! ```

use super::relog::RELOGGED;
use crate::{
    index,
    system_io::{MetadataBuffer, Place},
};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use spindles_block::{BufferSlice, MemberIndex};
use spindles_format::{
    JOURNAL_HEADER_BYTES, JournalBatch, JournalEntry, JournalHeader, JournalSums, Uuid,
};

/// The log to find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought {
    pub(super) array: Uuid,
    pub(super) nonce: u64,
    /// The first batch that counts.
    pub(super) tail: u64,
    /// The length of a journal, and of a header, in blocks.
    pub(super) ring_blocks: u32,
    pub(super) header_blocks: u32,
}

impl Sought {
    /// Returns true if a header found at a block of a member's journal is of this log.
    pub(super) fn has(&self, batch: &JournalBatch, member: MemberIndex, place: u32) -> bool {
        batch.array == self.array
            && batch.nonce == self.nonce
            && batch.member == member
            && batch.place == place
    }
}

/// Progress of reading one journal.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// The next block to look at, from the start of the journal.
    next: u32,
    /// Below this block headers are read one by one, because a longer read failed.
    careful_below: u32,
    /// The length of the current read, in blocks.
    reading: u32,
}

/// Progress with all journals, and the batches found.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    window: Place,
    scans: Vec<Scan>,
    /// Journals that are not read to their end.
    pending: u32,
    /// The batches found, with their places.
    seen: BTreeMap<u64, u32>,
    /// The last batch that begins a log.
    begun: u64,
}

/// A read of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanRead {
    /// Read these blocks, from `block` of the journal.
    Window {
        block: u32,
        blocks: u32,
        buffer: BufferSlice,
    },
    /// The journal ended, but another one did not.
    Ended,
    /// This was the last journal.
    AllEnded,
}

impl Scanner {
    /// Creates the state of reading `members` journals, with a window for each.
    pub(super) fn new(members: u8, window: Place) -> Self {
        Self {
            window,
            scans: vec![Scan::default(); usize::from(members)],
            pending: u32::from(members),
            seen: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Returns the next read of a journal; none if the journal `is_absent`.
    pub(crate) fn next_read(
        &mut self,
        member: MemberIndex,
        is_absent: bool,
        sought: &Sought,
        buffer: &MetadataBuffer,
    ) -> ScanRead {
        let (ring, header_blocks) = (sought.ring_blocks, sought.header_blocks);
        let scan = &mut self.scans[usize::from(member.0)];
        let left = ring - scan.next.min(ring);
        if is_absent || left < header_blocks {
            self.pending = self.pending.checked_sub(1).expect("scanned twice");
            return match self.pending {
                0 => ScanRead::AllEnded,
                _ => ScanRead::Ended,
            };
        }
        scan.reading = if scan.next < scan.careful_below {
            header_blocks
        } else {
            self.window.blocks.min(left)
        };
        ScanRead::Window {
            block: scan.next,
            blocks: scan.reading,
            buffer: buffer.slice(self.window, member.0),
        }
    }

    /// Handles a failed read: headers are read one by one, or the block is skipped.
    pub(crate) fn read_failed(&mut self, member: MemberIndex, sought: &Sought) {
        let scan = &mut self.scans[usize::from(member.0)];
        if scan.reading > sought.header_blocks {
            scan.careful_below = scan.next + scan.reading;
        } else {
            scan.next += 1;
        }
    }

    /// Skips the rest of a journal.
    pub(crate) fn skip(&mut self, member: MemberIndex) {
        self.scans[usize::from(member.0)].next = u32::MAX;
    }

    /// Finds the headers of the log in a window that was read. Calls `found` with each entry of the
    /// batches from the tail on.
    pub(crate) fn window_read(
        &mut self,
        member: MemberIndex,
        sought: &Sought,
        buffer: &MetadataBuffer,
        mut found: impl FnMut(u64, JournalEntry, JournalSums<'_>),
    ) {
        let bytes = buffer.bytes(self.window, member.0);
        let block_bytes = bytes.len() / index(self.window.blocks);
        let scan = &mut self.scans[usize::from(member.0)];
        let headers = scan.reading + 1 - sought.header_blocks;
        for at in 0..headers {
            let first = index(at) * block_bytes;
            let Some(header) = JournalHeader::decode(&bytes[first..first + JOURNAL_HEADER_BYTES])
            else {
                continue;
            };
            let batch = header.batch;
            if !sought.has(&batch, member, scan.next + at) {
                continue;
            }
            self.seen.insert(batch.sequence, batch.place);
            if header.entries().next().is_none() {
                self.begun = self.begun.max(batch.sequence);
            }
            if batch.sequence >= sought.tail {
                for (entry, sums) in header.entries() {
                    found(batch.sequence, entry, sums);
                }
            }
        }
        scan.next += headers;
    }

    /// Returns the last batch that begins a log; 0 without one.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns true if the next batch was found too: the batch is durable.
    pub(crate) fn is_durable(&self, batch: u64) -> bool {
        self.seen.contains_key(&(batch + 1))
    }

    /// Returns the last batch.
    pub(crate) fn last(&self) -> u64 {
        let last = self.seen.keys().next_back();
        *last.expect("a batch was found")
    }

    /// Returns the first batch from `tail` on that may not be durable, and its place.
    pub(crate) fn undecided(&self, tail: u64) -> (u64, u32) {
        let mut batches = self.seen.range(tail..);
        let undecided = batches.find(|(batch, _)| !self.is_durable(**batch));
        let (&batch, &place) = undecided.expect("the last at least");
        (batch, place)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::{BlockSize, BufferId};

    fn scanner() -> (Scanner, MetadataBuffer) {
        let mut buffer = MetadataBuffer::new(BufferId(9), BlockSize::B512, 2);
        let window = buffer.reserve(2, 16);
        (Scanner::new(2, window), buffer)
    }

    #[test]
    fn a_log_is_whole_if_only_its_last_batch_may_be_absent() {
        let again = RELOGGED;
        let table: [(&[u64], u64, u64, bool); 9] = [
            (&[], 0, 5, false),
            (&[5], 0, 5, true),
            (&[4], 0, 5, true),
            (&[3], 0, 5, false),
            (&[5, 6, 7], 0, 5, true),
            (&[5, 7], 0, 5, false),
            (&[3, 6, 7], 6, 3, true),
            (&[5, 5 + again, 6 + again], 0, 5, true),
            (&[5, 6 + again], 0, 5, false),
        ];
        for (seen, begun, tail, is_whole) in table {
            let (mut scanner, _) = scanner();
            let first = 1 << 32;
            scanner.seen = seen.iter().map(|&batch| (first + batch, 0)).collect();
            scanner.begun = first + begun;
            let found = scanner.is_whole(first + tail);
            assert_eq!(found, is_whole, "{seen:?} {begun} {tail}");
        }
    }

    #[test]
    fn a_window_that_cant_be_read_is_read_header_by_header() {
        let (mut scanner, mut buffer) = scanner();
        let sought = Sought {
            array: Uuid([1; 16]),
            nonce: 7,
            tail: 0,
            ring_blocks: 24,
            header_blocks: 8,
        };
        buffer.provide();
        let member = MemberIndex(1);
        let read = |scanner: &mut Scanner| match scanner.next_read(member, false, &sought, &buffer)
        {
            ScanRead::Window { block, blocks, .. } => Some((block, blocks)),
            ScanRead::Ended | ScanRead::AllEnded => None,
        };
        assert_eq!(read(&mut scanner), Some((0, 16)));
        scanner.read_failed(member, &sought);
        for block in 0..16 {
            assert_eq!(read(&mut scanner), Some((block, 8)));
            if block % 2 == 0 {
                scanner.read_failed(member, &sought);
            } else {
                scanner.window_read(member, &sought, &buffer, |_, _, _| panic!("zeros"));
            }
        }
        assert_eq!(read(&mut scanner), Some((16, 8)));
        scanner.skip(member);
        assert_eq!(read(&mut scanner), None);
        let other = scanner.next_read(MemberIndex(0), true, &sought, &buffer);
        assert_eq!(other, ScanRead::AllEnded);
    }
}

//! What the host knows of a file in use: how far it reads ahead, and the cluster being written.

use core::ops::Range;

/// The state of a file in use, in numbers of blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// The block after the last one read.
    pub(crate) read_next: u64,
    /// True if that one continued the read before it.
    continues: bool,
    /// The block up to which reads were sent.
    pub(crate) ahead: u64,
    /// Blocks of the last window of read-ahead, which ends there.
    window: u64,
    /// The begin of the cluster being written, and the block after it.
    pub(crate) cluster: Option<(u64, u64)>,
    /// The tick of the clock in which the file was last written.
    tick: u64,
}

/// Nanoseconds of a tick of the clock that dates files: 250 a second, as Linux is configured.
const TICK_NS: u64 = 4_000_000;

impl Stream {
    /// Notes a write. Returns true if the date of the file changes.
    pub(crate) fn dates(&mut self, now_ns: u64) -> bool {
        let tick = now_ns / TICK_NS + 1;
        core::mem::replace(&mut self.tick, tick) != tick
    }

    /// Notes a read of a block. Returns true if it continues the last one.
    pub(crate) fn reads(&mut self, block: u64) -> bool {
        if block + 1 == self.read_next {
            // The read stays in its block.
            return self.continues;
        }
        self.continues = block == self.read_next;
        self.read_next = block + 1;
        if !self.continues {
            self.ahead = block + 1;
            self.window = 0;
        }
        self.ahead = self.ahead.max(block);
        self.continues
    }

    /// Returns the blocks to read ahead once a block of the last window is read: twice as many, up
    /// to `most`.
    pub(crate) fn next_window(&self, block: u64, most: u64) -> Option<Range<u64>> {
        let begin = self.ahead.max(block + 1);
        let is_in_last = block + self.window >= begin;
        is_in_last.then(|| begin..begin + (self.window * 2).min(most))
    }

    /// Notes that reads of a window were sent.
    pub(crate) fn sent(&mut self, window: Range<u64>) {
        if !window.is_empty() {
            self.ahead = self.ahead.max(window.end);
            self.window = window.end - window.start;
        }
    }

    /// Notes that a block was written to its end. Returns the complete clusters: the one before, if
    /// the block does not continue it, and the one that the block fills.
    pub(crate) fn writes(&mut self, block: u64, cluster_blocks: u64) -> [Option<(u64, u64)>; 2] {
        let broken = match self.cluster {
            Some((begin, end)) if end == block => {
                self.cluster = Some((begin, block + 1));
                None
            }
            other => {
                self.cluster = Some((block, block + 1));
                other
            }
        };
        let is_full = |(begin, end): &mut (u64, u64)| *end - *begin >= cluster_blocks;
        [broken, self.cluster.take_if(|cluster| is_full(cluster))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn dates_change_once_a_tick() {
        let mut stream = Stream::default();
        let dated = [0, 3_999_999, 4_000_000, 5_000_000].map(|ns| stream.dates(ns));
        assert_eq!(dated, [true, false, true, false]);
    }

    #[test]
    fn clusters_end_when_full_or_broken() {
        let mut stream = Stream::default();
        assert_eq!(stream.writes(0, 2), [None, None]);
        assert_eq!(stream.writes(1, 2), [None, Some((0, 2))]);
        assert_eq!(stream.writes(2, 2), [None, None]);
        assert_eq!(stream.writes(9, 2), [Some((2, 3)), None]);
        assert_eq!(stream.writes(4, 1), [Some((9, 10)), Some((4, 5))]);
    }

    #[test]
    fn windows_double_once_the_last_one_is_read() {
        let mut stream = Stream::default();
        stream.reads(0);
        stream.sent(0..4);
        let mut sent = Vec::new();
        for block in 0..30 {
            if let Some(window) = stream.next_window(block, 10) {
                stream.sent(window.clone());
                sent.push((block, window));
            }
        }
        assert_eq!(sent, [(0, 4..12), (4, 12..22), (12, 22..32), (22, 32..42)]);
    }

    #[test]
    fn reads_that_continue_are_seen() {
        let mut stream = Stream::default();
        let found = [0, 0, 1, 2, 7, 7, 8].map(|block| stream.reads(block));
        assert_eq!(found, [true, true, true, true, false, false, true]);
        assert_eq!(stream.ahead, 8);
    }
}

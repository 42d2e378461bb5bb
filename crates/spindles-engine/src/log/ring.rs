//! The ring of the log: two segments, filled in turn. A batch takes the same blocks of the ring on
//! all members.

use super::live::Live;
use spindles_layout::GroupIndex;

/// A segment of the ring.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The sequence number of its first batch.
    first: u64,
    /// Records that are logged in it but not yet in place.
    unplaced: u32,
    state: SegmentState,
}

impl Segment {
    const FREE: Self = Self {
        first: 0,
        unplaced: 0,
        state: SegmentState::Free,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    Free,
    InUse,
    Flushing,
    Recording,
}

/// The two segments, and the position of the next batch.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    segments: [Segment; 2],
    /// The segment being filled.
    current: usize,
    /// Blocks of that segment taken by batches.
    used: u32,
    /// The sequence number of the next batch.
    sequence: u64,
    live: Live,
}

impl Ring {
    /// Creates a ring that holds nothing.
    pub(super) fn new() -> Self {
        Self {
            live: Live::new(),
            ..Self::absent()
        }
    }

    /// Creates the ring of an array without a log.
    pub(super) fn absent() -> Self {
        Self {
            segments: [Segment::FREE; 2],
            current: 0,
            used: 0,
            sequence: 0,
            live: Live::absent(),
        }
    }

    /// Begins a new log with this sequence number. Everything in the ring is void.
    pub(super) fn begin(&mut self, sequence: u64) {
        let segment = |state| Segment {
            first: sequence,
            unplaced: 0,
            state,
        };
        self.segments = [segment(SegmentState::InUse), segment(SegmentState::Free)];
        self.current = 0;
        self.used = 0;
        self.sequence = sequence;
        self.live.clear(0);
        self.live.clear(1);
    }

    /// Ends the log: everything in the ring is void.
    pub(super) fn end(&mut self) {
        self.segments = [Segment::FREE; 2];
    }

    /// Continues an earlier log, needed from the batch `first` in segment `at` on. Batches numbered
    /// from `sequence` go to the other segment. Both are needed until a new log begins.
    pub(super) fn resume(&mut self, first: u64, at: usize, sequence: u64) {
        self.segments = [Segment {
            first,
            unplaced: 1,
            state: SegmentState::InUse,
        }; 2];
        self.current = 1 - at;
        self.used = 0;
        self.sequence = sequence;
    }

    /// Returns the segment being filled.
    pub(super) fn current(&self) -> u8 {
        u8::try_from(self.current).expect("0 or 1")
    }

    /// Returns the sequence number of the next batch.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the blocks of the current segment that batches took.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Returns the next batch's position, in blocks from the start of the ring.
    pub(super) fn position(&self, segment_blocks: u32) -> u32 {
        u32::from(self.current()) * segment_blocks + self.used
    }

    /// Goes on with the other segment. Returns false if that is not free yet.
    pub(super) fn switch(&mut self) -> bool {
        let other = 1 - self.current;
        if self.segments[other].state != SegmentState::Free {
            return false;
        }
        self.current = other;
        self.used = 0;
        self.segments[other] = Segment {
            first: self.sequence,
            unplaced: 0,
            state: SegmentState::InUse,
        };
        true
    }

    /// Takes blocks of the current segment for a batch.
    pub(super) fn append(&mut self, blocks: u32) {
        self.used += blocks;
        self.sequence += 1;
    }

    /// Notes a record of the batch being formed, in rows of this group.
    pub(super) fn logs(&mut self, group: GroupIndex) {
        self.live.logged(self.current, group);
        self.segments[self.current].unplaced += 1;
    }

    /// Takes back the note of a record whose batch is lost.
    pub(super) fn unlogs(&mut self) {
        self.segments[self.current].unplaced -= 1;
    }

    /// Notes that a record of a segment is in place.
    pub(super) fn placed(&mut self, segment: u8) {
        self.segments[usize::from(segment)].unplaced -= 1;
    }

    /// Returns true if all records are in place, and no segment is being released.
    pub(super) fn is_at_rest(&self) -> bool {
        self.segments.iter().all(|segment| {
            let rests = matches!(segment.state, SegmentState::Free | SegmentState::InUse);
            segment.unplaced == 0 && rests
        })
    }

    /// Returns true if the segment that is not being filled has all its records in place.
    pub(super) fn may_release(&self) -> bool {
        let segment = &self.segments[1 - self.current];
        segment.state == SegmentState::InUse && segment.unplaced == 0
    }

    /// Begins to release this segment. The caller flushes the places, and reports that as
    /// `flushed`.
    pub(super) fn release(&mut self) {
        assert!(self.may_release(), "records are to be placed");
        self.segments[1 - self.current].state = SegmentState::Flushing;
    }

    /// Handles the end of that flush. Returns the new tail, to be recorded in the superblocks.
    pub(super) fn flushed(&mut self) -> u64 {
        let segment = &mut self.segments[1 - self.current];
        assert_eq!(
            segment.state,
            SegmentState::Flushing,
            "a flush came back late"
        );
        segment.state = SegmentState::Recording;
        self.segments[self.current].first
    }

    /// Frees the segment that the recorded tail excludes.
    pub(super) fn recorded(&mut self) {
        let other = 1 - self.current;
        if self.segments[other].state == SegmentState::Recording {
            self.segments[other].state = SegmentState::Free;
            self.live.clear(other);
        }
    }

    /// Returns true while a flush before a release is under way.
    pub(super) fn is_flushing(&self) -> bool {
        let flushing = |segment: &Segment| segment.state == SegmentState::Flushing;
        self.segments.iter().any(flushing)
    }

    /// Returns true if the log may hold rows of a group.
    pub(super) fn may_hold(&self, group: GroupIndex) -> bool {
        self.live.may_hold(group)
    }

    /// Notes a finished write to a group that was not logged, by its number in `Flushes`.
    pub(super) fn unlogged(&mut self, group: GroupIndex, write: u64) {
        self.live.unlogged(group, write);
    }

    /// Returns the number of the last write to a group that was not logged.
    pub(super) fn last_unlogged(&self, group: GroupIndex) -> u64 {
        self.live.last_unlogged(group)
    }
}

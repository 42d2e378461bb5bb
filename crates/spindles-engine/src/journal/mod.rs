//! The redo log of an array: a ring of two segments in the journal of each member, or on a device of
//! its own.
//!
//! Stripe ranges queue records. The records that wait together form one *batch*: one header for each
//! member, and the blocks of the records. One batch is under way at a time.
//!
//! ```text
//! batch     input                           batch     effect
//! none      records wait, others don't join writing   blocks, then headers; FUA for a header alone
//! none      the segment is full             none      waits until the other segment is free
//! writing   a write returns, more to come   writing   -
//! writing   the last write returns          flushing  a flush of the members with blocks
//! writing   the last of headers alone       none      committed
//! flushing  the last flush returns          none      committed
//! any       its last I/O, device lost       none      records wait again, in their order
//! ```
//!
//! An error puts the member out; its part of the batch no longer counts. An error of the log's own
//! device ends the log: a new one begins on the members. A committed batch sends its stripe ranges to
//! their places, and the next batch begins.
//!
//! ```text
//! log        waits for                                  then
//! Off        the first write, or the end of a resync    Recording, or Draining
//! Draining   unlogged writes, placed records, releases  flushes all members: Flushing
//! Flushing   this flush                                 begins a new log, wants superblocks: Recording
//! Recording  the stamp of the device, superblocks       On; wakes writers and zeroing
//! On         -                                          logs; goes to Draining to void its records
//!
//! segment    waits for                                  then
//! Free       the end of the other segment               InUse
//! InUse      the other segment to be filled, and its    flushes all members: Flushing
//!            records to be placed
//! Flushing   this flush                                 a new tail, wants superblocks: Recording
//! Recording  superblocks                                Free; wakes records that wait
//! ```
//!
//! If more members are missing than the level survives, nothing is released: the log may be needed
//! when they are back. If nothing can be written from now on, all records that wait continue.

pub(crate) mod live;
pub(crate) mod placement;
pub(crate) mod relog;
pub(crate) mod replay;
pub(crate) mod stamp;

use crate::{
    RangeId,
    config::Persistence,
    consistency::WriteHole,
    index,
    metadata::superblock_blocks,
    system_io::{MetadataBuffer, Place},
};
use alloc::{collections::VecDeque, vec::Vec};
use live::Live;
pub use placement::JOURNAL_DEVICE;
use placement::Placement;
use spindles_block::{BlockSize, MemberSet};
use spindles_format::{
    JOURNAL_HEADER_BYTES, JournalDevice, JournalDraft, JournalRecord, JournalWriter, RowSum, Uuid,
};
use stamp::Stamp;

/// Whether writes are logged.
///
/// ```text
///                              ┌──────────a device takes a position─────────────┐
///                              ▼                                                │
///  Off ──writes may be logged──▶ Draining ──no other write──▶ Flushing ──▶ Recording ──▶ On
///   └─────────────────── first write to a clean array ───────────────▶ Recording
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Writes are not logged: the array is clean, or logging is not possible.
    Off,
    /// Waiting for writes under way to end.
    Draining,
    /// Flushing those writes, and the writes of a resync.
    Flushing,
    /// Writing the log's tail to the superblocks.
    Recording,
    /// Every write is logged.
    On,
}

/// A segment of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The sequence number of its first batch.
    pub(crate) first: u64,
    /// Stripe ranges that are logged in it but not yet in place.
    pub(crate) unfinished: u32,
    pub(crate) state: SegmentState,
}

impl Segment {
    const FREE: Self = Self {
        first: 0,
        unfinished: 0,
        state: SegmentState::Free,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    Free,
    InUse,
    Flushing,
    Recording,
}

/// The batch being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Members that got blocks besides the header; they are flushed.
    pub(crate) flushed: MemberSet,
    /// Writes, then flushes, that have not come back.
    pub(crate) pending: u32,
    pub(crate) flushing: bool,
}

/// What the batch being formed takes on one member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) header_bytes: usize,
    pub(crate) blocks: u32,
}

/// The engine's state of the members' journals.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) array: Uuid,
    pub(crate) placement: Placement,
    pub(crate) headers: Place,
    /// Buffer in which a header is built.
    pub(crate) draft: JournalDraft,
    pub(crate) state: State,
    /// What the superblocks say, or shall say after the next update.
    pub(crate) record: JournalRecord,
    /// The nonce of batches of this opening.
    pub(crate) nonce: u64,
    /// The stamp of the journal's own device, if any; `page` is where it is encoded.
    pub(crate) device: Option<JournalDevice>,
    pub(crate) page: Place,
    pub(crate) stamp: Stamp,
    /// The sequence number of the next batch.
    pub(crate) sequence: u64,
    pub(crate) segments: [Segment; 2],
    /// The segment being filled.
    pub(crate) current: usize,
    /// Blocks of that segment taken by batches.
    pub(crate) used: u32,
    pub(crate) live: Live,
    /// Stripe ranges that wait to be logged.
    pub(crate) waiting: VecDeque<RangeId>,
    pub(crate) batch: Option<Batch>,
    pub(crate) batch_ranges: Vec<RangeId>,
    pub(crate) loads: Vec<Load>,
    /// Row sums of the entry being built.
    pub(crate) row_sums: Vec<RowSum>,
    /// Stripe ranges that write without being logged.
    pub(crate) unlogged: u32,
}

impl Journal {
    /// Creates the journal of an array and reserves space for headers. `None` if the policy wants
    /// no journal, there is nothing to log, or the members lack room for one.
    pub(crate) fn new(
        persistence: &Persistence,
        policy_wants: WriteHole,
        logs: bool,
        block_size: BlockSize,
        ranges: u32,
        buffer: &mut MetadataBuffer,
    ) -> Option<Self> {
        if policy_wants != WriteHole::Closed || !logs {
            return None;
        }
        let placement = Placement::new(persistence, block_size);
        let header_blocks = header_blocks(block_size);
        if placement.segment_blocks_min() <= header_blocks {
            return None;
        }
        let members = u8::try_from(persistence.devices.len()).expect("at most 64");
        let mut record = persistence.array.journal;
        if record.on_device && !placement.is_device() {
            // The log on the device is lost.
            record.tail = 0;
        }
        Some(Self {
            array: persistence.array.uuid,
            placement,
            headers: buffer.reserve(members, header_blocks),
            draft: JournalDraft::new(),
            state: State::Off,
            record,
            nonce: persistence.nonce,
            page: match persistence.journal_device {
                Some(_) => buffer.reserve(1, superblock_blocks(block_size)),
                None => buffer.reserve(0, 0),
            },
            device: persistence.journal_device,
            stamp: Stamp::Done,
            sequence: 0,
            segments: [Segment::FREE; 2],
            current: 0,
            used: 0,
            live: Live::new(),
            waiting: VecDeque::with_capacity(index(ranges)),
            batch: None,
            batch_ranges: Vec::with_capacity(index(ranges)),
            loads: alloc::vec![Load::default(); usize::from(members)],
            row_sums: Vec::with_capacity(JournalWriter::blocks_max()),
            unlogged: 0,
        })
    }

    /// The longest stripe range that fits into a batch, in blocks.
    pub(crate) fn range_blocks_max(&self) -> u32 {
        let header_room = u32::try_from(JournalWriter::blocks_max()).expect("small");
        (self.placement.segment_blocks_min() - self.headers.blocks).min(header_room)
    }

    /// Begins a new log: superblocks of `generation` will name it. Earlier batches no longer count.
    pub(crate) fn begin(&mut self, generation: u64) {
        assert!(self.batch.is_none(), "nothing is logged yet");
        self.sequence = generation << 32;
        self.placement.choose();
        self.record = JournalRecord {
            tail: self.sequence,
            nonce: self.nonce,
            device: self.record.device,
            on_device: self.placement.is_device(),
        };
        let segment = |state| Segment {
            first: self.sequence,
            unfinished: 0,
            state,
        };
        self.segments = [segment(SegmentState::InUse), segment(SegmentState::Free)];
        self.current = 0;
        self.used = 0;
        self.live.clear(0);
        self.live.clear(1);
        if self.placement.is_device() {
            // The header that begins the log.
            self.used = self.headers.blocks;
            self.sequence += 1;
            self.stamp = Stamp::Wanted;
        }
        self.state = State::Recording;
    }

    /// Ends the log: nothing more is logged, and logged batches no longer count.
    pub(crate) fn end(&mut self) {
        self.record.tail = 0;
        // A log from an earlier opening may have continued in these segments.
        self.segments = [Segment::FREE; 2];
        self.state = State::Off;
    }

    /// Continues the log of an earlier opening. `first` is the first batch still needed, at block
    /// `place` of the ring. Batches numbered from `sequence` go to the other segment.
    pub(crate) fn resume(&mut self, first: u64, place: u32, sequence: u64) {
        let at = usize::from(place >= self.placement.segment_blocks());
        self.record.tail = first;
        self.sequence = sequence;
        // Everything logged from now on is needed until a new log begins.
        self.segments = [Segment {
            first,
            unfinished: 1,
            state: SegmentState::InUse,
        }; 2];
        self.current = 1 - at;
        self.used = 0;
        self.state = State::On;
    }
}

fn header_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(JOURNAL_HEADER_BYTES).expect("4096") / block_size.bytes()
}

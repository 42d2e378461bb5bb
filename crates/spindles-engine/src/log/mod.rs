//! The redo log of an array: a ring of two segments in the journal of each member, or on a device
//! of its own.
//!
//! Stripe ranges queue records. The records that wait together form one *batch*: on each member a
//! header, and the blocks of the records after it. One batch is under way at a time.
//!
//! ```text
//! batch     input                           batch     effect
//! none      records wait, others don't join writing   one write a member, with FUA if it is short
//! none      the segment is full             none      waits until the other segment is free
//! writing   a write returns, more to come   writing   -
//! writing   the last write, all with FUA    none      committed
//! writing   the last write, some without    flushing  a flush of the members with long writes
//! flushing  the last flush returns          none      committed
//! any       its last I/O, device lost       none      records wait again, in their order
//! ```
//!
//! An error puts the member out; its part of the batch no longer counts. An error of the log's own
//! device ends the log: a new one begins on the members. A committed batch sends its stripe ranges
//! to their places, and the next batch begins.
//!
//! ```text
//! log        waits for                                  then
//! Off        the first write, or the end of a resync    Recording, or Draining
//! Draining   unlogged writes, placed records, releases  flushes all members: Flushing
//! Flushing   this flush                                 begins a new log: Recording
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

mod batch;
mod live;
mod placement;
pub(crate) mod relog;
pub(crate) mod replay;
mod ring;
mod scan;
mod stamp;
#[cfg(test)]
mod tests;

use crate::index;
use crate::metadata::Metadata;
use crate::plan::Ask;
use crate::status::JournalStatus;
use crate::stripe::Ranges;
use crate::stripe::Stage;
use crate::stripe::StripeRange;
use crate::{
    RangeId,
    config::{Limits, Persistence},
    members::Members,
    metadata::superblock_blocks,
    system_io::{MetadataBuffer, Place, Purpose},
};
pub use batch::PIECES_MAX;
pub(crate) use batch::{BatchEvent, Context, LogPiece, Record};
use batch::{Batches, Position};
pub use placement::JOURNAL_DEVICE;
use placement::Placement;
use ring::Ring;
pub(crate) use scan::ScanRead;
use scan::{Scanner, Sought};
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberIo, MemberSet, Operation};
use spindles_format::{
    DeviceRecord, JOURNAL_HEADER_BYTES, JournalBatch, JournalDevice, JournalRecord, JournalWriter,
    Uuid,
};
use spindles_layout::{Group, GroupIndex};
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
enum State {
    /// The array has no log.
    Absent,
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

/// What the caller does for the log now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// Flush all members before a new log, then call `start_flushed`.
    FlushToStart,
    /// Flush all members to release a segment, then call `release_flushed`.
    FlushToRelease,
    /// Continue the stripe ranges that wait: logging ended.
    Abandon,
}

/// The next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// The records wait until a segment is free.
    Waits,
    /// `next_write` returns the writes. If `switched`, the filled segment may be released first.
    Begins { switched: bool },
}

/// The meaning of an error of a device that holds a part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A member failed, which holds its own part.
    Member,
    /// The log's own device failed.
    Device,
    /// The log's own device failed before.
    Known,
}

/// The redo log of an array.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    array: Uuid,
    block_size: BlockSize,
    /// The nonce of batches of this opening.
    nonce: u64,
    state: State,
    /// What the superblocks say, or shall say after the next update.
    record: JournalRecord,
    placement: Placement,
    headers: Place,
    ring: Ring,
    batches: Batches,
    stamp: Stamp,
    /// Stripe ranges that write without being logged.
    unlogged: u32,
    /// True if records may wait while no batch is under way.
    wants_batch: bool,
}

impl Log {
    /// Creates the log of an array and reserves space for headers. The array has none if the policy
    /// wants none, there is nothing to log, or the members lack room for it.
    pub(crate) fn new(
        persistence: Option<&Persistence>,
        wants: bool,
        block_size: BlockSize,
        limits: &Limits,
        ranges: u32,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let placement = Placement::new(persistence, block_size);
        let header_blocks = header_blocks(block_size);
        let exists = wants && placement.segment_blocks_min() > header_blocks;
        let Some(persistence) = persistence.filter(|_| exists) else {
            return Self::absent(placement, block_size, buffer);
        };
        let members = u8::try_from(persistence.devices.len()).expect("at most 64");
        let mut record = persistence.array.journal;
        if record.on_device && !placement.is_device() {
            // The log on the device is lost.
            record.tail = 0;
        }
        let headers = buffer.reserve(members, header_blocks);
        let fua_blocks_max = limits.fua_bytes_max / block_size.bytes();
        let page = match persistence.journal_device {
            Some(_) => buffer.reserve(1, superblock_blocks(block_size)),
            None => buffer.reserve(0, 0),
        };
        Self {
            array: persistence.array.uuid,
            nonce: persistence.nonce,
            state: State::Off,
            record,
            headers,
            ring: Ring::new(),
            batches: Batches::new(members, ranges, headers, fua_blocks_max),
            stamp: Stamp::new(persistence.journal_device, page),
            ..Self::absent(placement, block_size, buffer)
        }
    }

    /// Creates the log of an array without one.
    fn absent(placement: Placement, block_size: BlockSize, buffer: &mut MetadataBuffer) -> Self {
        let nowhere = buffer.reserve(0, 0);
        Self {
            array: Uuid::NIL,
            block_size,
            nonce: 0,
            state: State::Absent,
            record: JournalRecord::default(),
            placement,
            headers: nowhere,
            ring: Ring::absent(),
            batches: Batches::new(0, 0, nowhere, 0),
            stamp: Stamp::new(None, nowhere),
            unlogged: 0,
            wants_batch: false,
        }
    }

    // ---- questions ----------------------------------------------------------------------------

    /// Returns true if the array has a log, even if it is off.
    pub(crate) fn exists(&self) -> bool {
        self.state != State::Absent
    }

    /// Returns true if writes are logged.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.state == State::On
    }

    /// Returns true if writes are logged, or will be.
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.state, State::Absent | State::Off)
    }

    /// Returns true if a write must wait before it goes to its place, because it is not known yet
    /// whether writes are logged.
    #[inline]
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(
            self.state,
            State::Draining | State::Flushing | State::Recording
        )
    }

    /// Returns true if the log has no I/O of its own under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.batches.is_under_way()
            && !self.stamp.is_under_way()
            && !self.ring.is_flushing()
            && self.state != State::Flushing
    }

    /// Returns true if a batch may have become possible.
    #[inline]
    pub(crate) fn wants_batch(&self) -> bool {
        self.wants_batch
    }

    /// Returns true if the log lies on a device of its own. If the device is lost, only dirty
    /// regions show the writes in flight.
    #[inline]
    pub(crate) fn is_on_device(&self) -> bool {
        self.placement.is_device()
    }

    /// Returns true if the log lies on a device of its own that failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.placement.is_lost()
    }

    /// Returns true if the log has a device of its own, and it works.
    pub(crate) fn device_works(&self) -> bool {
        self.placement.device_works()
    }

    /// Returns what the superblocks shall say; `None` without a log.
    pub(crate) fn record(&self) -> Option<&JournalRecord> {
        self.exists().then_some(&self.record)
    }

    /// Returns the first batch that counts. 0 if none does.
    pub(crate) fn tail(&self) -> u64 {
        self.record.tail
    }

    /// Returns the longest stripe range that fits into a batch, in blocks; `None` without a log.
    pub(crate) fn range_blocks_max(&self) -> Option<u32> {
        let header_room = u32::try_from(JournalWriter::blocks_max()).expect("small");
        self.exists()
            .then(|| (self.placement.segment_blocks_min() - self.headers.blocks).min(header_room))
    }

    /// Returns true if the rest of the segment being filled has room for this many blocks.
    pub(crate) fn has_room(&self, blocks: u32) -> bool {
        let takes = self.ring.used() + self.headers.blocks + blocks;
        takes <= self.placement.segment_blocks()
    }

    /// Returns true if the log may hold something of a group that a replay would carry out.
    pub(crate) fn may_hold(&self, group: GroupIndex) -> bool {
        self.exists() && self.ring.may_hold(group)
    }

    /// Returns the last write to a group that was not logged, as `Flushes` counts writes.
    pub(crate) fn last_unlogged(&self, group: GroupIndex) -> u64 {
        self.ring.last_unlogged(group)
    }

    /// Returns true if writes are under way that are not logged.
    pub(crate) fn is_bypassed(&self) -> bool {
        self.unlogged > 0
    }

    /// Returns the stripe ranges whose records wait, in their order.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = RangeId> {
        self.batches.waiting()
    }

    // ---- writes that are not logged -----------------------------------------------------------

    /// Notes that a stripe range begins to write to its places without being logged.
    pub(crate) fn bypass_begins(&mut self) {
        self.unlogged += 1;
    }

    /// Notes that such a write ended. `write` is its number in `Flushes`, if rows with parity were
    /// written. Returns true if no other is under way.
    pub(crate) fn bypass_ended(&mut self, group: GroupIndex, write: Option<u64>) -> bool {
        if let Some(write) = write {
            self.ring.unlogged(group, write);
        }
        self.unlogged -= 1;
        self.unlogged == 0
    }

    // ---- beginning and ending -----------------------------------------------------------------

    /// Begins to log writes, if the log is off: first the unlogged writes end.
    pub(crate) fn start(&mut self) {
        if self.state == State::Off {
            self.state = State::Draining;
        }
    }

    /// Begins to void all records. Returns true if that takes time: `recorded` ends it.
    pub(crate) fn restart(&mut self) -> bool {
        if self.state == State::On {
            self.state = State::Draining;
        }
        self.is_begun()
    }

    /// Voids all records. Nothing is under way, and all logged blocks are durable in place.
    pub(crate) fn void(&mut self, generation: u64) {
        if self.state == State::On {
            self.begin(generation);
        }
    }

    /// Begins a new log: superblocks of `generation` will name it. Earlier batches no longer count.
    pub(crate) fn begin(&mut self, generation: u64) {
        assert!(!self.batches.is_under_way(), "nothing is logged yet");
        let sequence = generation << 32;
        self.placement.choose();
        self.record = JournalRecord {
            tail: sequence,
            nonce: self.nonce,
            device: self.record.device,
            on_device: self.placement.is_device(),
        };
        self.ring.begin(sequence);
        if self.placement.is_device() {
            // The header that begins the log.
            self.ring.append(self.headers.blocks);
            self.stamp.want();
        }
        self.state = State::Recording;
    }

    /// Ends the log: nothing more is logged, and logged batches no longer count.
    pub(crate) fn end(&mut self) {
        self.record.tail = 0;
        // A log from an earlier opening may have continued in these segments.
        self.ring.end();
        self.state = State::Off;
    }

    /// Lets no batch count from the next superblocks on. The log is off.
    pub(crate) fn forget(&mut self) {
        self.record.tail = 0;
    }

    /// Counts on this log, whatever it holds: a planted fault.
    pub(crate) fn count_on(&mut self, record: &JournalRecord) {
        (self.record.tail, self.record.nonce) = (record.tail, record.nonce);
    }

    /// Continues the log of an earlier opening. `first` is the first batch still needed, at block
    /// `place` of the ring. Batches numbered from `sequence` go to the other segment.
    pub(crate) fn resume(&mut self, first: u64, place: u32, sequence: u64) {
        let at = usize::from(place >= self.placement.segment_blocks());
        self.record.tail = first;
        self.ring.resume(first, at, sequence);
        self.state = State::On;
    }

    /// Takes the start of a member's journal from `device`, which takes the position `member`.
    pub(crate) fn moves(&mut self, member: MemberIndex, device: &DeviceRecord) {
        if self.exists() {
            self.placement.moves(member, device, self.block_size);
        }
    }

    /// Handles an error of a device that holds a part of the log.
    pub(crate) fn failed(&mut self) -> Failure {
        if !self.placement.is_device() {
            return Failure::Member;
        }
        if !self.placement.device_fails() {
            return Failure::Known;
        }
        if self.state == State::On {
            self.state = State::Draining;
        }
        Failure::Device
    }

    /// Begins the flush that is due: before a new log, if no earlier write is under way, or to
    /// release a segment. An array that does not survive the loss of its members keeps its log,
    /// which may be needed when they are back.
    pub(crate) fn next(&mut self, survives: impl Fn() -> bool) -> Next {
        match self.state {
            State::Draining if self.unlogged > 0 || !self.ring.is_at_rest() => Next::Nothing,
            State::Draining if !survives() => Next::Abandon,
            State::Draining => {
                self.state = State::Flushing;
                Next::FlushToStart
            }
            State::On if self.ring.may_release() && survives() => {
                self.ring.release();
                Next::FlushToRelease
            }
            _ => Next::Nothing,
        }
    }

    /// Handles the end of the flush before a new log, which superblocks of `generation` will name.
    pub(crate) fn start_flushed(&mut self, generation: u64) {
        assert_eq!(self.state, State::Flushing, "a flush came back late");
        self.begin(generation);
    }

    /// Handles the end of the flush of a segment's places: superblocks shall have the new tail.
    pub(crate) fn release_flushed(&mut self) {
        self.record.tail = self.ring.flushed();
    }

    /// Continues when the superblocks say what they shall. Returns true if a new log begins.
    pub(crate) fn recorded(&mut self) -> bool {
        let restarted = self.state == State::Recording;
        if restarted {
            self.state = State::On;
        }
        self.ring.recorded();
        self.wants_batch = true;
        restarted
    }

    // ---- batches ------------------------------------------------------------------------------

    /// Adds a record to those that wait to be logged.
    pub(crate) fn queue(&mut self, record: Record) {
        self.batches.queue(record);
        self.wants_batch = true;
    }

    /// Removes the first record that waits, because nothing is logged from now on.
    pub(crate) fn abandon_next(&mut self) -> Option<RangeId> {
        self.batches.abandon_next()
    }

    /// Returns true if the next batch may begin. Clears `wants_batch`.
    pub(crate) fn is_due(&mut self) -> bool {
        self.wants_batch = false;
        self.state == State::On && self.batches.is_due()
    }

    /// Looks again after the next input, because another record is about to wait.
    pub(crate) fn postpone(&mut self) {
        self.wants_batch = true;
    }

    /// Forms a batch of the records that wait, as many as fit.
    pub(crate) fn append(&mut self, context: &Context, buffer: &mut MetadataBuffer) -> Append {
        let mut switched = false;
        if !self.choose(context) {
            // Nothing fits in the rest of this segment.
            if !self.ring.switch() {
                return Append::Waits;
            }
            switched = true;
            let chosen = self.choose(context);
            assert!(chosen, "a range fits in a segment");
        }
        let position = Position {
            header: self.ring.position(self.placement.segment_blocks()),
            headers: self.headers,
        };
        let batch = JournalBatch {
            array: self.array,
            nonce: self.record.nonce,
            sequence: self.ring.sequence(),
            member: MemberIndex(0),
            place: position.header,
        };
        let blocks = self.headers.blocks + self.batches.blocks();
        let on_device = self.placement.is_device();
        self.batches
            .begin(batch, position, on_device, context, buffer);
        for record in self.batches.records() {
            self.ring.logs(record.group());
        }
        self.ring.append(blocks);
        Append::Begins { switched }
    }

    fn choose(&mut self, context: &Context) -> bool {
        let room = self.placement.segment_blocks() - self.ring.used();
        let room = room.checked_sub(self.headers.blocks);
        room.is_some_and(|room| self.batches.choose(room, context))
    }

    /// Returns the records of the batch, and their segment.
    pub(crate) fn batch(&self) -> (u8, &[Record]) {
        (self.ring.current(), self.batches.records())
    }

    /// Returns the next write of the batch; `None` after the last.
    pub(crate) fn next_write(&mut self, buffer: &MetadataBuffer) -> Option<MemberIo> {
        self.batches.next_write(&self.placement, buffer)
    }

    /// Returns the memory of the batch's write to the journal of a member, in the order of the
    /// ring.
    pub(crate) fn pieces(
        &self,
        member: MemberIndex,
        groups: &[Group],
        buffer: &MetadataBuffer,
    ) -> impl Iterator<Item = LogPiece> {
        self.batches.pieces(member, groups, buffer)
    }

    /// Returns the longest write of a batch, in blocks. 0 without a log.
    pub(crate) fn write_blocks_max(&self) -> u32 {
        let listed = u32::try_from(JournalWriter::listed_blocks_max()).expect("few");
        if self.exists() {
            self.headers.blocks + listed
        } else {
            0
        }
    }

    /// Handles the end of a write or a flush of the batch. An error was handled before: it put the
    /// member out, or ended the log's own device. `trusts` is a planted fault.
    pub(crate) fn io_done(&mut self, missing: MemberSet, trusts: bool) -> BatchEvent {
        self.batches.io_done(missing, &self.placement, trusts)
    }

    /// Returns the next stripe range of a committed batch.
    pub(crate) fn next_committed(&mut self) -> Option<RangeId> {
        self.batches.next_committed()
    }

    /// Returns the next stripe range of a lost batch. Its record waits again.
    pub(crate) fn next_lost(&mut self) -> Option<RangeId> {
        let range = self.batches.next_lost()?;
        self.ring.unlogs();
        Some(range)
    }

    /// Notes that a record in a segment is in place.
    pub(crate) fn placed(&mut self, segment: u8) {
        self.ring.placed(segment);
    }

    // ---- the device of its own ----------------------------------------------------------------

    /// Returns true if superblocks may count on the log that was begun.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamp.is_done()
    }

    /// Begins to stamp the device, if that is wanted. `counted_on` is the nonce of the log on the
    /// device that superblocks count on. Returns true if it begins: call `next_stamp`.
    pub(crate) fn begin_stamp(&mut self, counted_on: u64, positions: MemberSet) -> bool {
        self.stamp.begin(self.nonce, counted_on, positions)
    }

    /// Encodes the next block of the stamp. `None` if the superblocks may continue.
    pub(crate) fn next_stamp(&mut self, buffer: &mut MetadataBuffer) -> Option<MemberIo> {
        match self.stamp.next(self.placement.is_lost()) {
            stamp::Next::Stamp => {
                let device = self.stamp.device().expect("it is stamped");
                let (block, blocks) = self.stamp.place(self.block_size)?;
                let page = self.stamp.page();
                buffer.bytes_mut(page, 0).copy_from_slice(&device.encode());
                Some(MemberIo {
                    id: Purpose::JournalStamp.id(JOURNAL_DEVICE),
                    member: JOURNAL_DEVICE,
                    operation: Operation::Write { fua: true },
                    block,
                    blocks,
                    buffer: buffer.slice(page, 0),
                })
            }
            stamp::Next::Header(member) => {
                let batch = JournalBatch {
                    array: self.array,
                    nonce: self.record.nonce,
                    sequence: self.record.tail,
                    member,
                    place: 0,
                };
                self.batches.encode_empty(&batch, self.headers, buffer);
                let (device, block) = self.placement.place(member);
                Some(MemberIo {
                    id: Purpose::JournalStamp.id(member),
                    member: device,
                    operation: Operation::Write { fua: true },
                    block,
                    blocks: self.headers.blocks,
                    buffer: buffer.slice(self.headers, member.0),
                })
            }
            stamp::Next::Nothing => {
                if self.placement.is_lost() {
                    self.placement.choose();
                    self.record.on_device = false;
                }
                None
            }
        }
    }

    /// Returns the device as it is stamped; `None` without a device.
    pub(crate) fn stamped_device(&self) -> Option<JournalDevice> {
        self.stamp.device().copied()
    }

    /// Returns the place of the stamp that counts. `None` while it is being written, or if the log
    /// does not lie on a device of its own.
    pub(crate) fn stamp_place(&self) -> Option<(BlockIndex, u32)> {
        let counts = self.stamp.is_done() && self.placement.device_works() && self.is_on_device();
        counts.then(|| self.stamp.place(self.block_size)).flatten()
    }

    // ---- reading it ---------------------------------------------------------------------------

    /// Returns the device that holds the journal of a member, and the block at which it begins.
    pub(crate) fn place(&self, member: MemberIndex) -> (MemberIndex, BlockIndex) {
        self.placement.place(member)
    }

    /// Returns the log that a replay looks for in the journals.
    pub(crate) fn sought(&self) -> Sought {
        Sought {
            array: self.array,
            nonce: self.record.nonce,
            tail: self.record.tail,
            ring_blocks: self.ring_blocks(),
            header_blocks: self.headers.blocks,
        }
    }

    /// Returns the length of a journal, in blocks.
    pub(crate) fn ring_blocks(&self) -> u32 {
        2 * self.placement.segment_blocks()
    }

    /// Creates the state of reading the journals, each with a window.
    pub(crate) fn scanner(&self, members: u8, window: Place) -> Scanner {
        assert!(self.exists(), "there are journals to read");
        Scanner::new(members, window)
    }

    /// Returns true if the device was stamped since, and superblocks do not count on that yet.
    pub(crate) fn is_stamped_since(&self) -> bool {
        let nonce = self.stamp.device().map(|device| device.nonce);
        nonce.is_some_and(|nonce| nonce != self.record.nonce)
    }

    /// Returns true if a member's journal is missing with it. On a device of its own the ring of a
    /// missing member is still there, and may have the only header of a batch.
    pub(crate) fn is_missing(&self, members: &Members, member: MemberIndex) -> bool {
        members.missing().contains(member) && !self.is_on_device()
    }

    /// Returns true if another stripe range is about to wait for the log too, so that the batch
    /// should wait for it:
    ///
    /// - a write is being computed, or
    /// - all that wait belong to requests that still read for another part. Such a request is not
    ///   answered before that part is logged.
    pub(crate) fn others_join(&self, ranges: &Ranges) -> bool {
        let mut waiting = self.waiting();
        let in_use = ranges.used_count();
        if in_use == waiting.len() + index(ranges.answered_count()) {
            return false; // All others wait too, or were logged before.
        }
        let of_write = |range: &&StripeRange| range.ask == Ask::Write && !range.shape.copies;
        let computes = |range: &StripeRange| {
            let stage = range.stage();
            matches!(stage, Stage::Computing(_) | Stage::Checksumming { .. })
        };
        if ranges.iter().filter(of_write).any(computes) {
            return true;
        }
        let reads_more = |id: RangeId| {
            let owner = ranges[id].owner;
            let reads = |range: &StripeRange| {
                matches!(range.stage(), Stage::Reading { .. }) && range.owner == owner
            };
            ranges.iter().filter(of_write).any(reads)
        };
        waiting.all(reads_more)
    }

    /// Notes that a stripe range begins to write to its places.
    pub(crate) fn writing_begins(&mut self, ranges: &Ranges, id: RangeId) {
        if self.exists() && !ranges[id].is_logged() {
            self.bypass_begins();
        }
    }

    /// Returns true if the superblocks count on an absent log. They must be updated before the
    /// first write, because the device of the log may come back.
    pub(crate) fn was_lost(&self, metadata: &Metadata) -> bool {
        let persistence = metadata.persistence();
        let tail = persistence.map_or(0, |persistence| persistence.array.journal.tail);
        tail > 0 && self.exists() && self.tail() == 0
    }

    /// Returns where the log lies, for display.
    pub(crate) fn status(&self, metadata: &Metadata) -> JournalStatus {
        let record = match metadata.persistence() {
            Some(persistence) if self.exists() => persistence.array.journal,
            _ => return JournalStatus::None,
        };
        match (record.device == Uuid::NIL, self.device_works()) {
            (true, _) => JournalStatus::Members,
            (false, true) => JournalStatus::Device,
            (false, false) => JournalStatus::DeviceOut,
        }
    }
}

fn header_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(JOURNAL_HEADER_BYTES).expect("4096") / block_size.bytes()
}

//! Batches: which records form one, its header on each member, its I/O, and the results.

use super::placement::Placement;
use crate::{
    RangeId,
    checksums::RowSums,
    index,
    slots::SlotSet,
    stripe::StripeRange,
    system_io::{MetadataBuffer, Place, Purpose},
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BufferSlice, MemberIndex, MemberIo, MemberSet, Operation, Piece};
use spindles_format::{JournalBatch, JournalEntry, JournalKind, JournalWriter, RowSum};
use spindles_layout::{Group, GroupIndex};

/// A write to be logged: the new blocks of some slots, in rows of a group.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    range: RangeId,
    group: GroupIndex,
    low: u32,
    blocks: u32,
    slots: SlotSet,
    /// The slots with blocks. The others become zeros.
    data: SlotSet,
    /// The slots whose checksums are at hand, one after another from `checksums` on.
    summed: SlotSet,
    checksums: usize,
    row_sums: RowSums,
}

impl Record {
    /// Describes the write of a stripe range. Its checksums begin at index `checksums`.
    pub(crate) fn new(
        range: RangeId,
        stripe: &StripeRange,
        checksums: usize,
        row_sums: RowSums,
    ) -> Self {
        Self {
            range,
            group: stripe.group,
            low: stripe.low,
            blocks: stripe.blocks,
            slots: stripe.written.slots,
            data: stripe.written.data,
            summed: stripe.rows.new_checksums,
            checksums,
            row_sums,
        }
    }

    /// Returns the stripe range.
    pub(crate) fn range(&self) -> RangeId {
        self.range
    }

    pub(super) fn group(&self) -> GroupIndex {
        self.group
    }

    /// Returns the header's entry for a slot, whose blocks are at `place` of the ring.
    fn entry(&self, slot: u8, place: u32, row_sums: bool) -> JournalEntry {
        let is_data = self.data.contains(slot);
        JournalEntry {
            group: self.group.0,
            low: self.low,
            blocks: self.blocks,
            slots: self.slots.bits(),
            slot,
            kind: if is_data {
                JournalKind::Data
            } else {
                JournalKind::Zeros
            },
            row_sums,
            place: if is_data { place } else { 0 },
        }
    }

    /// Returns the number of blocks that a slot takes in the ring.
    fn blocks_of(&self, slot: u8) -> u32 {
        if self.data.contains(slot) {
            self.blocks
        } else {
            0
        }
    }

    /// Returns the indices of a slot's checksums.
    fn checksums_of(&self, slot: u8) -> Range<usize> {
        let before = self.summed.and(SlotSet::range(0, slot)).count();
        let start = self.checksums + index(before * self.blocks);
        start..start + index(self.blocks_of(slot))
    }
}

/// The contents of stripe ranges, which a batch reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    groups: &'a [Group],
    checksums: &'a [u32],
    row_sums: Option<&'a [Option<RowSum>]>,
}

impl<'a> Context<'a> {
    /// Takes the group of each stripe range, and the checksums and row sums at hand, to which
    /// records point. `row_sums` is `None` if blocks have no checksums.
    pub(crate) fn new(
        groups: &'a [Group],
        checksums: &'a [u32],
        row_sums: Option<&'a [Option<RowSum>]>,
    ) -> Self {
        Self {
            groups,
            checksums,
            row_sums,
        }
    }
}

/// A piece of the memory that a batch writes to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPiece {
    Header(Piece),
    /// The new blocks of a slot of a stripe range.
    Blocks {
        range: RangeId,
        slot: u8,
        blocks: u32,
    },
}

/// The most pieces of one write: the header, and a piece for each entry.
pub const PIECES_MAX: usize = 1 + JournalWriter::entries_max();

/// What the result of an I/O of a batch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEvent {
    /// More I/O is under way.
    Waits,
    /// The writes ended: flush these members, to which long ones went.
    Flush(MemberSet),
    /// The writes ended: flush the log's own device.
    FlushDevice,
    /// The records are durable. `next_committed` returns them.
    Committed,
    /// The device of the log failed under the batch. `next_lost` returns the records, which wait
    /// again.
    Lost,
}

/// What a batch takes on one member.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    header_bytes: usize,
    blocks: u32,
}

/// The state of the batch being written.
///
/// ```text
///  writing ──last write──▶ flushing ──last flush──▶ committed, or lost
///     └──────all with FUA, or the device is lost────────▶
/// ```
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// Members whose write is still to be issued.
    unissued: MemberSet,
    /// Members whose write is too long for FUA; they are flushed.
    flushed: MemberSet,
    /// Writes, then flushes, that are not back.
    pending: u32,
    flushing: bool,
}

/// The position of a batch: the header's in the ring, and the header's buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) header: u32,
    pub(super) headers: Place,
}

/// The records that wait, and the batch under way.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    waiting: VecDeque<Record>,
    records: Vec<Record>,
    /// The part of the chosen batch on each member.
    loads: Vec<Load>,
    /// Members with a part of the chosen batch.
    members: MemberSet,
    position: Position,
    /// The longest write with FUA, in blocks.
    fua_blocks_max: u32,
    under_way: Option<UnderWay>,
    /// The filled bytes of each member's header, in its buffer.
    filled: Vec<usize>,
    /// The row sums of the header's next entry.
    row_sums: Vec<RowSum>,
}

impl Batches {
    /// Creates the queue, with room for `ranges` records, of an array of `members` members. Writes
    /// of up to `fua_blocks_max` blocks get FUA.
    pub(super) fn new(members: u8, ranges: u32, headers: Place, fua_blocks_max: u32) -> Self {
        Self {
            waiting: VecDeque::with_capacity(index(ranges)),
            records: Vec::with_capacity(index(ranges)),
            loads: vec![Load::default(); usize::from(members)],
            members: MemberSet::EMPTY,
            position: Position { header: 0, headers },
            fua_blocks_max,
            under_way: None,
            filled: vec![0; usize::from(members)],
            row_sums: Vec::with_capacity(JournalWriter::blocks_max()),
        }
    }

    /// Adds a record that waits to be logged.
    pub(super) fn queue(&mut self, record: Record) {
        self.waiting.push_back(record);
    }

    /// Returns the records that wait.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = RangeId> {
        self.waiting.iter().map(Record::range)
    }

    /// Removes the first record that waits.
    pub(super) fn abandon_next(&mut self) -> Option<RangeId> {
        let record = self.waiting.pop_front();
        record.map(|record| record.range)
    }

    /// Returns true while a batch is written or flushed.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns true if records wait, and no batch is under way.
    pub(super) fn is_due(&self) -> bool {
        !self.is_under_way() && !self.waiting.is_empty()
    }

    /// Returns the records of the batch.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Takes the records of the next batch: the first that wait, as many as fit into their headers
    /// and into `room` blocks on each member. Returns true if any fit.
    pub(super) fn choose(&mut self, room: u32, context: &Context) -> bool {
        self.records.clear();
        self.loads.fill(Load::default());
        self.members = MemberSet::EMPTY;
        while let Some(record) = self.waiting.front() {
            let slots = context.groups[record.range.index()].slots();
            let member = |slot| slots[usize::from(slot)].member;
            let has_sums = context.row_sums.is_some();
            let takes = |slot| {
                (
                    record.entry(slot, 0, has_sums).bytes(),
                    record.blocks_of(slot),
                )
            };
            let fits = record.slots.iter().all(|slot| {
                let load = &self.loads[usize::from(member(slot).0)];
                let (header_bytes, blocks) = takes(slot);
                load.header_bytes + header_bytes <= JournalWriter::room_bytes()
                    && load.blocks + blocks <= room
            });
            if !fits {
                break;
            }
            for slot in record.slots.iter() {
                let (header_bytes, blocks) = takes(slot);
                let load = &mut self.loads[usize::from(member(slot).0)];
                load.header_bytes += header_bytes;
                load.blocks += blocks;
                self.members = self.members.with(member(slot));
            }
            self.records.extend(self.waiting.pop_front());
        }
        !self.records.is_empty()
    }

    /// Returns the most blocks that the chosen batch takes on a member, besides the header.
    pub(super) fn blocks(&self) -> u32 {
        let blocks = self.loads.iter().map(|load| load.blocks);
        blocks.max().unwrap_or(0)
    }

    /// Encodes the headers of the chosen batch, and begins to issue its writes. `batch` is the part
    /// that all headers share. `on_device` says that they go to a device of the log's own.
    pub(super) fn begin(
        &mut self,
        batch: JournalBatch,
        position: Position,
        on_device: bool,
        context: &Context,
        buffer: &mut MetadataBuffer,
    ) {
        for member in self.members.iter() {
            let batch = JournalBatch { member, ..batch };
            self.encode_header(&batch, position, context, buffer);
        }
        self.position = position;
        self.under_way = Some(UnderWay {
            unissued: self.members,
            flushed: self.too_long_for_fua(on_device),
            pending: 0,
            flushing: false,
        });
    }

    /// Returns the members whose write is too long for FUA. All writes to a device of the log's own
    /// count together: one flush makes them durable.
    fn too_long_for_fua(&self, on_device: bool) -> MemberSet {
        let blocks = |member: MemberIndex| self.blocks_on(member);
        if on_device {
            let all: u32 = self.members.iter().map(blocks).sum();
            return if all > self.fua_blocks_max {
                self.members
            } else {
                MemberSet::EMPTY
            };
        }
        let is_long = |member: &MemberIndex| blocks(*member) > self.fua_blocks_max;
        self.members.iter().filter(is_long).collect()
    }

    /// Returns the length of a member's part of the batch, in blocks.
    fn blocks_on(&self, member: MemberIndex) -> u32 {
        self.position.headers.blocks + self.loads[usize::from(member.0)].blocks
    }

    fn encode_header(
        &mut self,
        batch: &JournalBatch,
        position: Position,
        context: &Context,
        buffer: &mut MetadataBuffer,
    ) {
        let filled = &mut self.filled[usize::from(batch.member.0)];
        let bytes = buffer.bytes_mut(position.headers, batch.member.0);
        let mut writer = JournalWriter::new(batch, bytes, *filled);
        let mut place = position.header + position.headers.blocks;
        for record in &self.records {
            let slots = context.groups[record.range.index()].slots();
            let is_here = |&slot: &u8| slots[usize::from(slot)].member == batch.member;
            let Some(slot) = record.slots.iter().find(is_here) else {
                continue;
            };
            let entry = record.entry(slot, place, context.row_sums.is_some());
            self.row_sums.clear();
            if let Some(computed) = context.row_sums {
                let rows = 0..index(record.blocks);
                let row_sums = rows.map(|row| record.row_sums.of(computed, row));
                self.row_sums.extend(row_sums);
            }
            let checksums = &context.checksums[record.checksums_of(slot)];
            writer.entry(&entry, checksums, &self.row_sums);
            place += record.blocks_of(slot);
        }
        *filled = writer.finish();
    }

    /// Encodes a header without entries.
    pub(super) fn encode_empty(
        &mut self,
        batch: &JournalBatch,
        headers: Place,
        buffer: &mut MetadataBuffer,
    ) {
        let filled = &mut self.filled[usize::from(batch.member.0)];
        let bytes = buffer.bytes_mut(headers, batch.member.0);
        *filled = JournalWriter::new(batch, bytes, *filled).finish();
    }

    /// Returns the next write of the batch; `None` after the last.
    pub(super) fn next_write(
        &mut self,
        placement: &Placement,
        buffer: &MetadataBuffer,
    ) -> Option<MemberIo> {
        let Position { header, headers } = self.position;
        let batch = self.under_way.as_mut()?;
        let member = batch.unissued.first()?;
        batch.unissued = batch.unissued.without(member);
        batch.pending += 1;
        let fua = !batch.flushed.contains(member);
        let (device, start) = placement.place(member);
        let blocks = self.blocks_on(member);
        Some(MemberIo {
            id: Purpose::JournalBatch.id(member),
            member: device,
            operation: Operation::Write { fua },
            block: start.plus(u64::from(header)),
            blocks,
            buffer: if blocks > headers.blocks {
                BufferSlice::PIECES
            } else {
                buffer.slice(headers, member.0)
            },
        })
    }

    /// Returns the memory of a member's write, in the order of the ring: the header, then the
    /// blocks of each record.
    pub(super) fn pieces(
        &self,
        member: MemberIndex,
        groups: &[Group],
        buffer: &MetadataBuffer,
    ) -> impl Iterator<Item = LogPiece> {
        let headers = self.position.headers;
        let header = LogPiece::Header(Piece {
            buffer: buffer.slice(headers, member.0),
            blocks: headers.blocks,
        });
        let of_record = move |record: &Record| {
            let slots = groups[record.range.index()].slots();
            let is_here = |slot: &u8| slots[usize::from(*slot)].member == member;
            let slot = record.slots.and(record.data).iter().find(is_here)?;
            Some(LogPiece::Blocks {
                range: record.range,
                slot,
                blocks: record.blocks,
            })
        };
        core::iter::once(header).chain(self.records.iter().filter_map(of_record))
    }

    /// Handles the end of a write or a flush of the batch. Missing members are not flushed.
    /// `trusts` is a planted fault: a batch counts although its device failed.
    pub(super) fn io_done(
        &mut self,
        missing: MemberSet,
        placement: &Placement,
        trusts: bool,
    ) -> BatchEvent {
        let batch = self.under_way.as_mut().expect("a batch is under way");
        batch.pending -= 1;
        if batch.pending > 0 {
            return BatchEvent::Waits;
        }
        let members = batch.flushed.difference(missing);
        let lost = placement.is_lost();
        if !batch.flushing && !lost && !members.is_empty() {
            let on_device = placement.is_device();
            batch.flushing = true;
            batch.pending = if on_device { 1 } else { members.count() };
            return if on_device {
                BatchEvent::FlushDevice
            } else {
                BatchEvent::Flush(members)
            };
        }
        self.under_way = None;
        if lost && !trusts {
            BatchEvent::Lost
        } else {
            BatchEvent::Committed
        }
    }

    /// Returns the next record of a batch that was committed, from the last to the first.
    pub(super) fn next_committed(&mut self) -> Option<RangeId> {
        self.records.pop().map(|record| record.range)
    }

    /// Puts the last record of a batch that was lost in front of the records that wait.
    pub(super) fn next_lost(&mut self) -> Option<RangeId> {
        let record = self.records.pop()?;
        let range = record.range;
        self.waiting.push_front(record);
        Some(range)
    }
}

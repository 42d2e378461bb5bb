//! Batches: which records form one, its header on each member, its I/O, and the results.

use super::placement::Placement;
use crate::{
    RangeId,
    checksums::RowSums,
    index,
    slots::SlotSet,
    stripe::StripeRange,
    system_io::{MetadataBuffer, Place},
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BlockIndex, BufferSlice, MemberIndex, MemberSet};
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

    /// Returns the number of writes of its blocks.
    pub(crate) fn writes(&self) -> u32 {
        self.slots.and(self.data).count()
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

/// One write of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogWrite {
    /// Writes the new blocks of a slot.
    Blocks {
        range: RangeId,
        slot: u8,
        device: MemberIndex,
        block: BlockIndex,
        blocks: u32,
    },
    /// Writes the header of a member.
    Header {
        member: MemberIndex,
        device: MemberIndex,
        block: BlockIndex,
        blocks: u32,
        fua: bool,
        buffer: BufferSlice,
    },
}

/// What the result of an I/O of a batch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEvent {
    /// More I/O is under way.
    Waits,
    /// The writes ended: flush these members, which hold blocks.
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

/// The writes of a batch that are still to be issued: blocks, record by record, then headers.
#[derive(Clone, Copy, Debug)]
struct Unissued {
    record: usize,
    slots: SlotSet,
    headers: MemberSet,
}

/// The state of the batch being written.
///
/// ```text
///  writing ──last write──▶ flushing ──last flush──▶ committed, or lost
///     └──────only headers, or the device is lost────────▶
/// ```
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// Members that get blocks besides the header; they are flushed.
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
    loads: Vec<Load>,
    /// Members that get a header.
    members: MemberSet,
    position: Position,
    under_way: Option<UnderWay>,
    unissued: Unissued,
    /// The filled bytes of each member's header, in its buffer.
    filled: Vec<usize>,
    /// The row sums of the header's next entry.
    row_sums: Vec<RowSum>,
}

impl Batches {
    /// Creates the queue, with room for `ranges` records, of an array of `members` members.
    pub(super) fn new(members: u8, ranges: u32, headers: Place) -> Self {
        Self {
            waiting: VecDeque::with_capacity(index(ranges)),
            records: Vec::with_capacity(index(ranges)),
            loads: vec![Load::default(); usize::from(members)],
            members: MemberSet::EMPTY,
            position: Position { header: 0, headers },
            under_way: None,
            unissued: Unissued {
                record: 0,
                slots: SlotSet::EMPTY,
                headers: MemberSet::EMPTY,
            },
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
    /// that all headers share.
    pub(super) fn begin(
        &mut self,
        batch: JournalBatch,
        position: Position,
        context: &Context,
        buffer: &mut MetadataBuffer,
    ) {
        for member in self.members.iter() {
            let batch = JournalBatch { member, ..batch };
            self.encode_header(&batch, position, context, buffer);
        }
        self.loads.fill(Load::default());
        self.position = position;
        self.unissued = Unissued {
            record: 0,
            slots: SlotSet::EMPTY,
            headers: self.members,
        };
        if let Some(first) = self.records.first() {
            self.unissued.slots = first.slots.and(first.data);
        }
        self.under_way = Some(UnderWay {
            flushed: MemberSet::EMPTY,
            pending: 0,
            flushing: false,
        });
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
        groups: &[Group],
        buffer: &MetadataBuffer,
    ) -> Option<LogWrite> {
        let batch = self.under_way.as_mut()?;
        let Position { header, headers } = self.position;
        while let Some(record) = self.records.get(self.unissued.record) {
            if let Some(slot) = self.unissued.slots.first() {
                self.unissued.slots = self.unissued.slots.minus(SlotSet::one(slot));
                let member = groups[record.range.index()].slots()[usize::from(slot)].member;
                let load = &mut self.loads[usize::from(member.0)];
                let place = header + headers.blocks + load.blocks;
                load.blocks += record.blocks;
                batch.pending += 1;
                batch.flushed = batch.flushed.with(member);
                let (device, start) = placement.place(member);
                return Some(LogWrite::Blocks {
                    range: record.range,
                    slot,
                    device,
                    block: start.plus(u64::from(place)),
                    blocks: record.blocks,
                });
            }
            self.unissued.record += 1;
            let next = self.records.get(self.unissued.record);
            self.unissued.slots = next.map_or(SlotSet::EMPTY, |next| next.slots.and(next.data));
        }
        let member = self.unissued.headers.first()?;
        self.unissued.headers = self.unissued.headers.without(member);
        batch.pending += 1;
        let (device, start) = placement.place(member);
        Some(LogWrite::Header {
            member,
            device,
            block: start.plus(u64::from(header)),
            blocks: headers.blocks,
            // A header without blocks is written with FUA: that does not flush the rest of the
            // member's cache.
            fua: !batch.flushed.contains(member),
            buffer: buffer.slice(headers, member.0),
        })
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

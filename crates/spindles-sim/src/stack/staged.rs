//! The stage of an array of disks, read without the engine.

use super::superblocks::newest_records;
use super::{Below, Stack};
use crate::disk::View;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_format::{
    ArrayRecord, DeviceRecord, STAGE_HEADER_BYTES, STAGE_SEGMENTS, StageColumn, StageDescriptor,
    StageHeader, StageKind, StageLayout, StageRun, StageShape, block_checksum,
};
use std::collections::BTreeMap;

/// A batch that is not released.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) shape: StageShape,
    /// All batches up to this number are durable.
    pub(crate) durable: u64,
    pub(crate) runs: Vec<StageRun>,
    /// The columns that are on their holders as a whole, with their headers.
    pub(crate) whole: u32,
}

impl Batch {
    /// Returns true if it has contents or zeros of this block.
    pub(crate) fn has(&self, block: BlockIndex) -> bool {
        let has =
            |run: &StageRun| (run.block.0..run.block.0 + u64::from(run.blocks)).contains(&block.0);
        self.runs.iter().any(has)
    }

    /// Yields the blocks of the batch.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockIndex> {
        let blocks = |run: &StageRun| run.block.0..run.block.0 + u64::from(run.blocks);
        self.runs.iter().flat_map(blocks).map(BlockIndex)
    }

    /// Yields the blocks with contents.
    pub(crate) fn contents(&self) -> impl Iterator<Item = u64> {
        let contents = |run: &&StageRun| run.kind == StageKind::Contents;
        let runs = self.runs.iter().filter(contents);
        runs.flat_map(|run| run.block.0..run.block.0 + u64::from(run.blocks))
    }
}

/// A member's disk, with the start of its stage.
struct Holder<'a> {
    member: MemberIndex,
    disk: usize,
    start: BlockIndex,
    stack: &'a Stack,
    view: View,
}

impl Holder<'_> {
    /// Returns the blocks at a place of the stage.
    fn read(&self, place: u32, blocks: u32) -> Vec<u8> {
        let first = self.start.plus(place.into());
        let start = self.stack.sectors(self.disk, first).start;
        let end = self
            .stack
            .sectors(self.disk, first.plus(blocks.into()))
            .start;
        self.stack.disks[self.disk].bytes_of(start..end, self.view)
    }

    /// Returns true if a header may begin at this place.
    fn may_begin(&self, place: u32) -> bool {
        let block = self.start.plus(place.into());
        let sector = self.stack.sectors(self.disk, block).start;
        self.stack.disks[self.disk].sector(sector, self.view)[0] == b'S'
    }

    /// Returns true if a column is there as a whole.
    fn has(&self, header: &StageHeader<'_>, column: u8, place: u32, header_blocks: u32) -> bool {
        let blocks = header.batch.shape.blocks_of(column);
        let bytes = self.read(place + header_blocks, blocks);
        let found = bytes.chunks(self.stack.block_bytes).map(block_checksum);
        found.eq(header.checksums(column))
    }
}

/// A disk of an array: the member, the number of the disk, and its superblock's record.
type Place = (MemberIndex, usize, DeviceRecord);

impl Stack {
    /// Returns the newest record of an array of disks, and the disks that have one.
    fn records(&self, array: usize, view: View) -> (Option<ArrayRecord>, Vec<Place>) {
        let this = &self.arrays[array];
        let mut newest: Option<ArrayRecord> = None;
        let mut holders = Vec::new();
        for (member, below) in (0..).map(MemberIndex).zip(&this.members) {
            let (Below::Disk(disk), false) = (*below, this.lost.contains(member)) else {
                continue;
            };
            let Some((record, device)) = newest_records(&self.disks[disk], view) else {
                continue;
            };
            holders.push((member, disk, device));
            let before = newest.as_ref().map_or(0, |newest| newest.generation);
            if newest.is_none() || before < record.generation {
                newest = Some(record);
            }
        }
        (newest, holders)
    }

    /// Returns the batches of an array of disks that are above the tail, by their numbers. Empty if
    /// superblocks say that the stage is.
    pub(crate) fn batches(&self, array: usize, view: View) -> BTreeMap<u64, Batch> {
        let mut batches = BTreeMap::new();
        let (newest, holders) = self.records(array, view);
        let Some(record) = newest.filter(|record| record.staged) else {
            return batches;
        };
        let (shared, size) = (&record.shared, record.block_size);
        let layout = StageLayout::new(shared.stage_bytes, size).expect("the array has a stage");
        let holder = |(member, disk, device): &Place| Holder {
            member: *member,
            disk: *disk,
            start: StageLayout::start(device, shared, size).expect("it has a journal"),
            stack: self,
            view,
        };
        let holders: Vec<Holder<'_>> = holders.iter().map(holder).collect();
        let header_blocks = layout.header_blocks();
        let descriptors = holders.iter().filter_map(|holder| {
            let bytes = holder.read(0, header_blocks);
            StageDescriptor::decode(&bytes).ok()
        });
        let Some(descriptor) = descriptors.max_by_key(|descriptor| descriptor.generation) else {
            return batches;
        };
        let end = layout.segment_place(0) + layout.segment_blocks() * STAGE_SEGMENTS;
        let mut tail = 0;
        for holder in &holders {
            for place in layout.tail_place(0)..=end - header_blocks {
                if !holder.may_begin(place) {
                    continue;
                }
                let bytes = holder.read(place, header_blocks);
                let here = StageColumn {
                    holder: holder.member,
                    place,
                };
                let header = StageHeader::decode(&bytes[..STAGE_HEADER_BYTES]);
                let is_ours = |header: &StageHeader<'_>| header.batch.nonce == descriptor.nonce;
                let Some(header) = header.filter(is_ours) else {
                    continue;
                };
                let mut columns = (0..).zip(header.columns());
                let Some((column, _)) = columns.find(|(_, column)| *column == here) else {
                    continue;
                };
                tail = tail.max(header.batch.tail);
                if header.batch.shape.data == 0 {
                    continue;
                }
                let batch = batches.entry(header.batch.number).or_insert_with(|| Batch {
                    shape: header.batch.shape,
                    durable: header.batch.durable,
                    runs: header.runs().collect(),
                    whole: 0,
                });
                batch.whole += u32::from(holder.has(&header, column, place, header_blocks));
            }
        }
        batches.split_off(&tail)
    }
}

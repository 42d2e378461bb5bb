//! The engine's own member I/O: superblocks, flushes, and everything else that belongs to no
//! request. Its bytes lie in the engine's metadata buffer, in places reserved at open.

use crate::{SYSTEM_IO, index};
use alloc::{vec, vec::Vec};
use spindles_block::{BlockSize, BufferId, BufferSlice, MemberIndex, MemberIoId};

/// The purpose of an I/O of the engine itself. It selects the code that handles the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Writes a superblock.
    Superblock,
    /// Makes the contents of the members at opening durable.
    OpeningFlush,
    /// The last flush of a close.
    ClosingFlush,
    /// Reads a bitmap at opening.
    BitmapRead,
    /// Writes the dirty bitmap.
    DirtyBitmap,
    /// Writes the written bitmap.
    WrittenBitmap,
    /// Reads the list of bad blocks at opening.
    BadBlocksRead,
    /// Writes the list of bad blocks.
    BadBlocks,
    /// Zeroes a region before its first write.
    Zeroing,
    /// Makes the zeroes durable.
    ZeroingFlush,
    /// Makes writes durable, so that dirty bits can be cleared.
    SweepFlush,
    /// Makes blocks copied to a device durable.
    RebuildFlush,
    /// Makes unlogged writes durable before logging begins.
    JournalStart,
    /// Stamps the device of the journal.
    JournalStamp,
    /// Writes a batch to a journal: its header, and the blocks after it.
    JournalBatch,
    /// Makes a batch durable that was too long for FUA.
    JournalCommit,
    /// Makes the writes logged in a journal segment durable in place.
    JournalRelease,
    /// Reads a journal.
    JournalScan,
    /// Makes replayed writes durable.
    ReplayFlush,
    /// Makes writes durable before a device replaces a member.
    ReplaceFlush,
    /// Makes blocks staged by a growth durable.
    StagedFlush,
    /// Makes blocks moved by a growth durable.
    MovedFlush,
    /// Writes or reads the checksums of blocks staged by a growth.
    GrowChecksums,
    /// Makes writes durable before the superblocks record that a member is out.
    OutFlush,
    /// Reads metadata for a scrub.
    Inspection,
    /// Rewrites metadata on the device of the journal that a scrub found wrong.
    InspectionRepair,
    /// Makes the repairs of a scrub durable.
    ScrubFlush,
    /// Writes the descriptor of a stage.
    StageDescriptor,
    /// Writes a column of a batch to the stage of its holder.
    StageBatch,
    /// Makes staged writes durable.
    StageFlush,
    /// Makes the places of staged blocks durable.
    StageRelease,
    /// Writes the tail of a stage.
    StageTail,
    /// Reads the stage of a holder at opening.
    StageRead,
    /// Writes a column of a stage again, or makes a header void, at opening.
    StageRepair,
}

impl Purpose {
    /// The number of purposes.
    pub(crate) const COUNT: usize = 34;

    const ALL: [Self; Self::COUNT] = [
        Self::Superblock,
        Self::OpeningFlush,
        Self::ClosingFlush,
        Self::BitmapRead,
        Self::DirtyBitmap,
        Self::WrittenBitmap,
        Self::BadBlocksRead,
        Self::BadBlocks,
        Self::Zeroing,
        Self::ZeroingFlush,
        Self::SweepFlush,
        Self::RebuildFlush,
        Self::JournalStart,
        Self::JournalStamp,
        Self::JournalBatch,
        Self::JournalCommit,
        Self::JournalRelease,
        Self::JournalScan,
        Self::ReplayFlush,
        Self::ReplaceFlush,
        Self::StagedFlush,
        Self::MovedFlush,
        Self::GrowChecksums,
        Self::OutFlush,
        Self::Inspection,
        Self::InspectionRepair,
        Self::ScrubFlush,
        Self::StageDescriptor,
        Self::StageBatch,
        Self::StageFlush,
        Self::StageRelease,
        Self::StageTail,
        Self::StageRead,
        Self::StageRepair,
    ];

    /// Returns the number of the purpose, from 0.
    pub(crate) fn number(self) -> usize {
        let number = Self::ALL.iter().position(|&purpose| purpose == self);
        number.expect("listed")
    }

    /// Returns true if a flush with this purpose makes writes durable that others build on. The
    /// pages with their checksums are written before it.
    pub(crate) fn needs_pages(self) -> bool {
        matches!(
            self,
            Self::ClosingFlush
                | Self::ZeroingFlush
                | Self::SweepFlush
                | Self::RebuildFlush
                | Self::JournalStart
                | Self::JournalRelease
                | Self::ReplayFlush
                | Self::ReplaceFlush
                | Self::StagedFlush
                | Self::MovedFlush
                | Self::OutFlush
                | Self::ScrubFlush
                | Self::StageRelease
        )
    }

    /// The id of an I/O with this purpose on `member`.
    ///
    /// ```text
    ///  31  30      8 7      0
    /// +---+---------+--------+
    /// | 1 | purpose | member |
    /// +---+---------+--------+
    /// ```
    pub(crate) fn id(self, member: MemberIndex) -> MemberIoId {
        let purpose = u32::try_from(self.number()).expect("few");
        MemberIoId(SYSTEM_IO | purpose << 8 | u32::from(member.0))
    }

    pub(crate) fn of(id: MemberIoId) -> (Self, MemberIndex) {
        let purpose = (id.0 & !SYSTEM_IO) >> 8;
        let member = u8::try_from(id.0 & 0xff).expect("eight bits");
        (Self::ALL[index(purpose)], MemberIndex(member))
    }
}

/// The engine's own bytes, which are written to members and read from them.
#[derive(Clone, Debug)]
pub(crate) struct MetadataBuffer {
    buffer: BufferId,
    block_size: BlockSize,
    /// Blocks that are set aside for places.
    reserved_blocks: u32,
    pub(crate) bytes: Vec<u8>,
    members: u8,
    /// The read under way on each member, and its destination: at most one, plus one of an
    /// inspection.
    reads: Vec<Option<Read>>,
}

/// Bytes of the engine that a read of metadata fills.
#[derive(Debug, PartialEq, Eq)]
pub struct MetadataRead<'engine> {
    /// The destination in the buffer `Config::metadata`.
    pub buffer: BufferSlice,
    /// The number of blocks.
    pub blocks: u32,
    /// The bytes of the engine to fill.
    pub bytes: &'engine mut [u8],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) id: MemberIoId,
    pub(crate) buffer: BufferSlice,
    pub(crate) blocks: u32,
}

/// A place in the metadata buffer, with a part of the same length for each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    first_block: u32,
    /// Length of one member's part.
    pub(crate) blocks: u32,
}

impl MetadataBuffer {
    pub(crate) fn new(buffer: BufferId, block_size: BlockSize, members: u8) -> Self {
        Self {
            buffer,
            block_size,
            reserved_blocks: 0,
            bytes: Vec::new(),
            members,
            // One more for a device beyond the members, or the journal's.
            reads: vec![None; 2 * (usize::from(members) + 1)],
        }
    }

    /// Returns the read with this purpose on `member`. `None` if the purpose reads nothing there.
    pub(crate) fn read_of(
        &mut self,
        purpose: Purpose,
        member: MemberIndex,
    ) -> Option<&mut Option<Read>> {
        let at = match purpose {
            Purpose::Inspection => self.members + 1 + member.0.min(self.members),
            _ => member.0,
        };
        self.reads.get_mut(usize::from(at))
    }

    /// Sets aside `blocks` blocks for each of `parts` members, before the memory is allocated.
    pub(crate) fn reserve(&mut self, parts: u8, blocks: u32) -> Place {
        assert!(self.bytes.is_empty(), "places are set aside at opening");
        let first_block = self.reserved_blocks;
        self.reserved_blocks += u32::from(parts) * blocks;
        Place {
            first_block,
            blocks,
        }
    }

    /// Allocates zeroed memory for all places. Untouched memory is not taken from the machine.
    pub(crate) fn provide(&mut self) {
        self.bytes = alloc::vec![0; index(self.reserved_blocks) * index(self.block_size.bytes())];
    }

    /// Returns the slice of one part.
    pub(crate) fn slice(&self, place: Place, part: u8) -> BufferSlice {
        BufferSlice {
            buffer: self.buffer,
            first_block: place.first_block + u32::from(part) * place.blocks,
        }
    }

    fn range(&self, place: Place, part: u8) -> core::ops::Range<usize> {
        let block_bytes = index(self.block_size.bytes());
        let start = index(place.first_block + u32::from(part) * place.blocks) * block_bytes;
        start..start + index(place.blocks) * block_bytes
    }

    /// Like `slice`, for a place with one part, from `block` on.
    pub(crate) fn slice_at(&self, place: Place, block: u32) -> BufferSlice {
        self.slice(place, 0).plus(block)
    }

    fn range_at(&self, place: Place, block: u32, blocks: u32) -> core::ops::Range<usize> {
        let block_bytes = index(self.block_size.bytes());
        let start = index(place.first_block + block) * block_bytes;
        start..start + index(blocks) * block_bytes
    }

    /// Returns bytes of a place with one part.
    pub(crate) fn bytes_at(&self, place: Place, block: u32, blocks: u32) -> &[u8] {
        &self.bytes[self.range_at(place, block, blocks)]
    }

    /// Returns bytes of a place with one part, mutable.
    pub(crate) fn bytes_at_mut(&mut self, place: Place, block: u32, blocks: u32) -> &mut [u8] {
        let range = self.range_at(place, block, blocks);
        &mut self.bytes[range]
    }

    /// Returns the bytes of one part.
    pub(crate) fn bytes(&self, place: Place, part: u8) -> &[u8] {
        &self.bytes[self.range(place, part)]
    }

    /// Returns the bytes of one part, mutable.
    pub(crate) fn bytes_mut(&mut self, place: Place, part: u8) -> &mut [u8] {
        let range = self.range(place, part);
        &mut self.bytes[range]
    }
}

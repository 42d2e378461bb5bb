//! The engine's own member I/O: superblocks, flushes, and what else belongs to no request. Its
//! bytes lie in the engine's metadata buffer, in places reserved at open.

use crate::{SYSTEM_IO, index};
use alloc::{vec, vec::Vec};
use spindles_block::{BlockSize, BufferId, BufferSlice, MemberIndex, MemberIoId};

/// What an I/O of the engine itself is for; whoever asked gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A superblock is written.
    Superblock,
    /// What was found at opening is made durable.
    OpeningFlush,
    /// The last flush of a close.
    ClosingFlush,
    /// A bitmap is read at opening.
    BitmapRead,
    /// The dirty bitmap is written.
    DirtyBitmap,
    /// The written bitmap is written.
    WrittenBitmap,
    /// The list of bad blocks is read at opening.
    BadBlocksRead,
    /// The list of bad blocks is written.
    BadBlocks,
    /// A region is made zeros before its first write.
    Zeroing,
    /// That is made durable.
    ZeroingFlush,
    /// What was written is made durable, so that dirty bits can be cleared.
    SweepFlush,
    /// What was copied to a device is made durable.
    RebuildFlush,
    /// What was written without being logged is made durable, before writes are.
    JournalStart,
    /// The device of the journal is stamped.
    JournalStamp,
    /// The header of a batch is written.
    JournalHeader,
    /// A batch is made durable.
    JournalCommit,
    /// What a part of the journal covers is made durable in place.
    JournalRelease,
    /// A journal is read.
    JournalScan,
    /// What was replayed is made durable.
    ReplayFlush,
    /// What was written is made durable, before a device replaces a member.
    ReplaceFlush,
    /// What a growth staged or moved is made durable.
    GrowFlush,
    /// The checksums of what a growth staged are written, or read.
    GrowChecksums,
    /// What was written is made durable, before it is recorded that a member is out.
    OutFlush,
    /// Metadata is read for a scrub.
    Inspection,
    /// What a scrub found wrong on the device of the journal is written again.
    InspectionRepair,
    /// What a scrub repaired is made durable.
    ScrubFlush,
}

impl Purpose {
    const ALL: [Self; 26] = [
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
        Self::JournalHeader,
        Self::JournalCommit,
        Self::JournalRelease,
        Self::JournalScan,
        Self::ReplayFlush,
        Self::ReplaceFlush,
        Self::GrowFlush,
        Self::GrowChecksums,
        Self::OutFlush,
        Self::Inspection,
        Self::InspectionRepair,
        Self::ScrubFlush,
    ];

    /// Whether a flush with this purpose makes what was written durable so that others can build on
    /// it: the checksums of that then go before it.
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
                | Self::GrowFlush
                | Self::OutFlush
                | Self::ScrubFlush
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
        let purpose = Self::ALL.iter().position(|&purpose| purpose == self);
        let purpose = u32::try_from(purpose.expect("listed")).expect("few");
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
    /// Blocks that places were set aside of.
    reserved_blocks: u32,
    pub(crate) bytes: Vec<u8>,
    members: u8,
    /// The read that is under way on each member, and where it goes; at most one, and one of an inspection.
    reads: Vec<Option<Read>>,
}

/// Bytes of the engine that a read of metadata fills.
#[derive(Debug, PartialEq, Eq)]
pub struct MetadataRead<'engine> {
    /// Where they are in the buffer `Config::metadata`.
    pub buffer: BufferSlice,
    /// How many blocks.
    pub blocks: u32,
    /// The engine's own.
    pub bytes: &'engine mut [u8],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) id: MemberIoId,
    pub(crate) buffer: BufferSlice,
    pub(crate) blocks: u32,
}

/// A place in the metadata buffer, for each member the same length.
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
            // One more for a device beside the members, and for that of the journal.
            reads: vec![None; 2 * (usize::from(members) + 1)],
        }
    }

    /// The read with this purpose on `member`. `None` for a purpose that reads nothing there.
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

    /// Sets aside `blocks` blocks for each of `parts` members, before there is memory for them.
    pub(crate) fn reserve(&mut self, parts: u8, blocks: u32) -> Place {
        assert!(self.bytes.is_empty(), "places are set aside at opening");
        let first_block = self.reserved_blocks;
        self.reserved_blocks += u32::from(parts) * blocks;
        Place {
            first_block,
            blocks,
        }
    }

    /// All places are set aside: they get zeros. Memory that nobody touches is not taken from the machine.
    pub(crate) fn provide(&mut self) {
        self.bytes = alloc::vec![0; index(self.reserved_blocks) * index(self.block_size.bytes())];
    }

    /// Where the part of `part` begins.
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

    /// As `slice`, of a place with one part only, so many blocks on.
    pub(crate) fn slice_at(&self, place: Place, block: u32) -> BufferSlice {
        self.slice(place, 0).plus(block)
    }

    fn range_at(&self, place: Place, block: u32, blocks: u32) -> core::ops::Range<usize> {
        let block_bytes = index(self.block_size.bytes());
        let start = index(place.first_block + block) * block_bytes;
        start..start + index(blocks) * block_bytes
    }

    /// Bytes of a place with one part only.
    pub(crate) fn bytes_at(&self, place: Place, block: u32, blocks: u32) -> &[u8] {
        &self.bytes[self.range_at(place, block, blocks)]
    }

    /// Bytes of a place with one part only, to be changed.
    pub(crate) fn bytes_at_mut(&mut self, place: Place, block: u32, blocks: u32) -> &mut [u8] {
        let range = self.range_at(place, block, blocks);
        &mut self.bytes[range]
    }

    /// The bytes of one part.
    pub(crate) fn bytes(&self, place: Place, part: u8) -> &[u8] {
        &self.bytes[self.range(place, part)]
    }

    /// The bytes of one part, to be changed.
    pub(crate) fn bytes_mut(&mut self, place: Place, part: u8) -> &mut [u8] {
        let range = self.range(place, part);
        &mut self.bytes[range]
    }
}

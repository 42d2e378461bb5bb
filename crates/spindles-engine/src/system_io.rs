//! The engine's own member I/O: superblocks, flushes, and what else belongs to no request. Its
//! bytes lie in the engine's metadata buffer, in places reserved at open.

use crate::{Engine, NEWCOMER, PAGE_IO, SYSTEM_IO, index, output::Output};
use alloc::{vec, vec::Vec};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult,
    MemberSet, Operation,
};
use spindles_format::AreaKind;

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
    GrowSums,
    /// What was written is made durable, before it is recorded that a member is out.
    OutFlush,
}

impl Purpose {
    const ALL: [Self; 23] = [
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
        Self::GrowSums,
        Self::OutFlush,
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
    fn id(self, member: MemberIndex) -> MemberIoId {
        let purpose = Self::ALL.iter().position(|&purpose| purpose == self);
        let purpose = u32::try_from(purpose.expect("listed")).expect("few");
        MemberIoId(SYSTEM_IO | purpose << 8 | u32::from(member.0))
    }

    fn of(id: MemberIoId) -> (Self, MemberIndex) {
        let purpose = (id.0 & !SYSTEM_IO) >> 8;
        let member = u8::try_from(id.0 & 0xff).expect("eight bits");
        (Self::ALL[index(purpose)], MemberIndex(member))
    }
}

/// The frame of a page of checksums, if the I/O is one's.
fn page_io(id: MemberIoId) -> Option<u32> {
    (id.0 & PAGE_IO != 0).then_some(id.0 & (NEWCOMER - 1))
}

/// The engine's own bytes, which are written to members and read from them.
#[derive(Clone, Debug)]
pub(crate) struct MetadataBuffer {
    buffer: BufferId,
    block_size: BlockSize,
    bytes: Vec<u8>,
    /// The read that is under way on each member, and where it goes; at most one.
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
struct Read {
    id: MemberIoId,
    buffer: BufferSlice,
    blocks: u32,
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
            bytes: Vec::new(),
            // One more for a device beside the members.
            reads: vec![None; usize::from(members) + 1],
        }
    }

    /// Sets aside `blocks` blocks for each of `parts` members. Only while opening.
    pub(crate) fn reserve(&mut self, parts: u8, blocks: u32) -> Place {
        let block_bytes = index(self.block_size.bytes());
        let first_block = u32::try_from(self.bytes.len() / block_bytes).expect("small");
        let more = usize::from(parts) * index(blocks) * block_bytes;
        self.bytes.resize(self.bytes.len() + more, 0);
        Place {
            first_block,
            blocks,
        }
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

impl Engine {
    /// Starts an I/O of the engine itself, at `block` of the device of `member`.
    pub(crate) fn system_io(
        &mut self,
        purpose: Purpose,
        member: MemberIndex,
        operation: Operation,
        block: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        self.system_io_on(member, purpose, member, operation, block, blocks, buffer);
    }

    /// As `system_io`, on the device `target`, which holds something of `member`.
    #[expect(clippy::too_many_arguments, reason = "the parts of one member I/O")]
    pub(crate) fn system_io_on(
        &mut self,
        target: MemberIndex,
        purpose: Purpose,
        member: MemberIndex,
        operation: Operation,
        block: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        let id = purpose.id(member);
        if operation == Operation::Read {
            let read = &mut self.metadata_buffer.reads[usize::from(member.0)];
            assert!(read.is_none(), "one read of metadata at a time on {member}");
            *read = Some(Read { id, buffer, blocks });
        }
        self.output(Output::Member(MemberIo {
            id,
            member: target,
            operation,
            block,
            blocks,
            buffer,
        }));
    }

    /// Flushes all members that are there for the engine itself. How many there are.
    pub(crate) fn flush_active(&mut self, purpose: Purpose) -> u32 {
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        self.flush(active, purpose);
        active.count()
    }

    /// Flushes these members for the engine itself; before that, checksums that changed are
    /// written where others build on that.
    pub(crate) fn flush(&mut self, members: MemberSet, purpose: Purpose) {
        if !self.defers_flush(members, purpose) {
            self.send_flush(members, purpose);
        }
    }

    pub(crate) fn send_flush(&mut self, members: MemberSet, purpose: Purpose) {
        for member in members.iter() {
            self.system_io(
                purpose,
                member,
                Operation::Flush,
                BlockIndex(0),
                0,
                BufferSlice::NONE,
            );
        }
    }

    /// An I/O of the engine itself came back.
    #[cold]
    pub(crate) fn system_io_done(&mut self, id: MemberIoId, result: MemberResult) {
        if let Some(frame) = page_io(id) {
            if id.0 & NEWCOMER != 0 {
                self.newcomer_failed(result);
                return self.page_io_done(frame, Ok(()));
            }
            return self.page_io_done(frame, result);
        }
        let (purpose, member) = Purpose::of(id);
        if let Some(read) = self.metadata_buffer.reads.get_mut(usize::from(member.0)) {
            read.take_if(|read| read.id == id);
        }
        let result = if member == self.newcomer() {
            self.newcomer_failed(result);
            Ok(())
        } else {
            result
        };
        match purpose {
            Purpose::Superblock => self.superblock_written(member, result),
            Purpose::OpeningFlush => self.opening_flushed(member, result),
            Purpose::ClosingFlush => self.close_flushed(member, result),
            Purpose::BitmapRead => self.bitmap_read(member, result),
            Purpose::DirtyBitmap => {
                self.bitmap_written(AreaKind::DIRTY_BITMAP, member, result);
            }
            Purpose::WrittenBitmap => {
                self.bitmap_written(AreaKind::WRITTEN_BITMAP, member, result);
            }
            Purpose::BadBlocksRead => self.bad_blocks_read(member, result),
            Purpose::BadBlocks => self.bad_blocks_written(member, result),
            Purpose::Zeroing => self.zeroed(member, result),
            Purpose::ZeroingFlush => self.zeroing_flushed(member, result),
            Purpose::SweepFlush => self.sweep_flushed(member, result),
            Purpose::RebuildFlush => self.rebuild_flushed(member, result),
            Purpose::JournalStart => self.journal_start_flushed(member, result),
            Purpose::JournalStamp => self.journal_stamped(result),
            Purpose::JournalHeader => self.journal_written(member, result),
            Purpose::JournalCommit => self.journal_flushed(member, result),
            Purpose::JournalRelease => self.journal_release_flushed(member, result),
            Purpose::JournalScan => self.journal_read(member, result),
            Purpose::ReplayFlush => self.replay_flushed(member, result),
            Purpose::ReplaceFlush => self.replace_flushed(member, result),
            Purpose::GrowFlush => self.grow_flushed(member, result),
            Purpose::GrowSums => self.staged_sums_done(member, result),
            Purpose::OutFlush => self.out_flushed(member, result),
        }
    }

    /// The bytes of `MemberIo`s whose buffer is `Config::metadata`: block `first_block` of that
    /// buffer is here. A driver copies what is written before it gives the engine anything more: pages
    /// of checksums go on changing.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata_buffer.bytes
    }

    /// Where the bytes of one metadata write are in `metadata`.
    pub fn metadata_of(&self, io: &MemberIo) -> &[u8] {
        &self.metadata()[self.metadata_range(io.buffer, io.blocks)]
    }

    /// Where the bytes go that the metadata read `id` brings: the driver fills them in before
    /// `complete_member` of a read that was done. `None` for anything else.
    #[inline]
    pub fn metadata_read(&mut self, id: MemberIoId) -> Option<MetadataRead<'_>> {
        if id.0 & SYSTEM_IO == 0 {
            return None;
        }
        if let Some(frame) = page_io(id) {
            let (place, block, blocks) = self.page_read(frame)?;
            return Some(MetadataRead {
                buffer: self.metadata_buffer.slice_at(place, block),
                blocks,
                bytes: self.metadata_buffer.bytes_at_mut(place, block, blocks),
            });
        }
        let (_, member) = Purpose::of(id);
        let reads = self.metadata_buffer.reads.get(usize::from(member.0));
        let read = reads?.filter(|read| read.id == id)?;
        let range = self.metadata_range(read.buffer, read.blocks);
        Some(MetadataRead {
            buffer: read.buffer,
            blocks: read.blocks,
            bytes: &mut self.metadata_buffer.bytes[range],
        })
    }

    fn metadata_range(&self, slice: BufferSlice, blocks: u32) -> core::ops::Range<usize> {
        let block_bytes = index(self.block_size.bytes());
        let start = index(slice.first_block) * block_bytes;
        start..start + index(blocks) * block_bytes
    }
}

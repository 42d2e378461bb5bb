//! Issues the engine's own member I/O, and dispatches the results.

use crate::{
    Engine, PAGE_IO, REPLACEMENT, RangeId, SLOT_BITS, SYSTEM_IO, index,
    log::LogPiece,
    output::{IoPurpose, Output},
    plan::{Ask, Strategy},
    stripe::{Past, Stage, Way},
    system_io::{MetadataRead, Purpose, Read},
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberSet, Operation, Piece,
};

/// Returns the frame of a page of checksums; `None` if the I/O is not of a page.
pub(super) fn page_io(id: MemberIoId) -> Option<u32> {
    (id.0 & PAGE_IO != 0).then_some(id.0 & (REPLACEMENT - 1))
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

    /// Like `system_io`, on the device `target`, which holds something of `member`.
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
            let read = self.metadata_buffer.read_of(purpose, member);
            let read = read.expect("a place for each member");
            assert!(read.is_none(), "one read of metadata at a time on {member}");
            *read = Some(Read { id, buffer, blocks });
        }
        self.outbox.put(Output::Member(MemberIo {
            id,
            member: target,
            operation,
            block,
            blocks,
            buffer,
        }));
    }

    pub(crate) fn send_flush(&mut self, members: MemberSet, purpose: Purpose) {
        for member in members.iter() {
            self.flush_device(member, purpose);
        }
    }

    /// Flushes the device of a member, a replacement device, or the journal's device.
    pub(crate) fn flush_device(&mut self, device: MemberIndex, purpose: Purpose) {
        let (flush, none) = (Operation::Flush, BufferSlice::NONE);
        self.system_io(purpose, device, flush, BlockIndex(0), 0, none);
    }

    /// Returns the purpose of a member I/O that is under way.
    pub fn purpose(&self, io: &MemberIo) -> IoPurpose {
        if io.id.0 & SYSTEM_IO != 0 {
            return match page_io(io.id) {
                Some(_) => IoPurpose::ChecksumPage,
                None => IoPurpose::Own(Purpose::of(io.id).0),
            };
        }
        let id = RangeId((io.id.0 & !REPLACEMENT) >> SLOT_BITS);
        let range = &self.ranges[id];
        let way = range.stage().way();
        match (range.stage(), range.ask) {
            (Stage::Direct, _) => return IoPurpose::Data,
            (Stage::Flushing(Past::NOTHING), _) => return IoPurpose::Flush,
            _ if range.rows.settling.is_under_way() || range.plan.strategy == Strategy::Settle => {
                return IoPurpose::Settle;
            }
            (_, Ask::Scrub) => return IoPurpose::Repair,
            (_, Ask::Rebuild | Ask::Replace) => return IoPurpose::Fill,
            (Stage::Flushing(_), _) if matches!(way, Way::Logged { .. }) => {
                return IoPurpose::RestFlush;
            }
            (_, Ask::Read | Ask::Write | Ask::Settle) => {}
        }
        let mut parity = range
            .shape
            .redundant()
            .iter()
            .filter(|_| !range.shape.copies);
        let slots = self.ranges.group(id).slots();
        if parity.any(|slot| slots[usize::from(slot)].member == io.member) {
            IoPurpose::Parity
        } else if io.operation == Operation::Flush {
            IoPurpose::WriteFlush
        } else {
            IoPurpose::Data
        }
    }

    /// Returns the bytes of the buffer `Config::metadata`, which `MemberIo`s address by
    /// `first_block`. A driver copies the bytes of a write before it gives the engine further
    /// input: pages of checksums keep changing.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata_buffer.bytes
    }

    /// Returns the bytes of one metadata write, or of one piece of a write.
    pub fn metadata_of(&self, buffer: BufferSlice, blocks: u32) -> &[u8] {
        &self.metadata()[self.metadata_range(buffer, blocks)]
    }

    /// Returns where to put the bytes of the metadata read `id`; `None` for any other I/O. The
    /// driver fills them in before it calls `complete_member` for a successful read.
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
        let (purpose, member) = Purpose::of(id);
        let read = *self.metadata_buffer.read_of(purpose, member)?;
        let read = read.filter(|read| read.id == id)?;
        let range = self.metadata_range(read.buffer, read.blocks);
        Some(MetadataRead {
            buffer: read.buffer,
            blocks: read.blocks,
            bytes: &mut self.metadata_buffer.bytes[range],
        })
    }

    fn metadata_range(&self, slice: BufferSlice, blocks: u32) -> core::ops::Range<usize> {
        let block_bytes = index(self.settings.block_size.bytes());
        let start = index(slice.first_block) * block_bytes;
        start..start + index(blocks) * block_bytes
    }

    /// Returns the pieces of memory of a member I/O, in order: one, or up to `PIECES_MAX` for a
    /// write to the log. They belong to the driver until the result.
    pub fn pieces(&self, io: &MemberIo) -> impl Iterator<Item = Piece> {
        let (buffer, blocks) = (io.buffer, io.blocks);
        let is_one = buffer != BufferSlice::PIECES;
        let staged = self.staging.as_ref().filter(|_| !is_one);
        let staged = staged.and_then(|_| self.staged_pieces(io));
        let (first, second) = match (is_one, staged) {
            (true, _) => (Some(Piece { buffer, blocks }), None),
            (false, Some([header, contents])) => (Some(header), Some(contents)),
            (false, None) => (None, None),
        };
        let several = first.is_none().then(|| {
            let (_, member) = Purpose::of(io.id);
            let pieces = self
                .log
                .pieces(member, self.ranges.groups(), &self.metadata_buffer);
            pieces.map(|piece| match piece {
                LogPiece::Header(header) => header,
                LogPiece::Blocks {
                    range,
                    slot,
                    blocks,
                } => Piece {
                    buffer: self.write_source(range, slot),
                    blocks,
                },
            })
        });
        let few = first.into_iter().chain(second);
        few.chain(several.into_iter().flatten())
    }

    /// Returns the longest write with several pieces, in blocks. 0 without a log.
    pub fn pieces_blocks_max(&self) -> u32 {
        let staging = self.staging.as_ref();
        let column_max = staging.map_or(0, |staging| {
            staging.header_blocks() + staging.layout.column_blocks_max()
        });
        self.log.write_blocks_max().max(column_max)
    }

    /// Returns the pieces of a write to the stage; `None` for another write.
    pub(crate) fn staged_pieces(&self, io: &MemberIo) -> Option<[Piece; 2]> {
        let (staging, buffer) = (self.staging.as_ref()?, &self.metadata_buffer);
        match Purpose::of(io.id).0 {
            Purpose::StageBatch => Some(staging.column_pieces(buffer, io.member)),
            Purpose::StageRepair => Some(staging.repair_pieces(buffer, io.member)),
            _ => None,
        }
    }
}

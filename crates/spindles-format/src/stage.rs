//! The bytes of the stage: small writes that wait, with their contents, to be placed. The stage
//! lies behind the log in the journal area of each member.
//!
//! ```text
//! page 0          the descriptor
//! pages 1 and 2   the newest tails, as headers without columns of contents
//! page 3          reserved
//! then            eight segments of whole pages, with batches
//! ```
//!
//! A batch has contents in *data columns* and redundancy in *parity columns*, each on a holder of
//! its own. Each holder has the same header, and the blocks of its column after it. The header
//! describes all columns, so any holder leads to all others.

use crate::crc32c::{ZEROS_UNIT, crc32c, crc32c_then_zeros};
use crate::journal::{u32_at, u64_at};
use crate::page::Page;
use crate::{AreaKind, DecodeError, DeviceRecord, SUPERBLOCK_BYTES, SharedAreas, Uuid};
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex};

/// The length of a batch header.
pub const STAGE_HEADER_BYTES: usize = 4096;
/// The number of segments.
pub const STAGE_SEGMENTS: u32 = 8;
/// The longest column of a batch, without its header.
pub const STAGE_COLUMN_BYTES_MAX: u32 = 128 << 10;

const PAGE_BYTES: u32 = 4096;
/// The pages before the first segment.
const FIRST_PAGES: u32 = 4;
/// The shortest stage: a segment has room for a header and a page.
const BYTES_MIN: u32 = (FIRST_PAGES + 2 * STAGE_SEGMENTS) * PAGE_BYTES;
/// The shortest stage that an array is given: a segment has room for the longest column.
const ROOM_MIN: u32 =
    FIRST_PAGES * PAGE_BYTES + STAGE_SEGMENTS * (PAGE_BYTES + STAGE_COLUMN_BYTES_MAX);

// ---- layout -----------------------------------------------------------------------------------

/// The places of the stage on a holder. A *place* is in blocks from the start of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageLayout {
    page_blocks: u32,
    segment_blocks: u32,
}

impl StageLayout {
    /// The most bytes for a stage that all of these devices have room for, behind a log of
    /// `shared.journal_bytes`; 0 if that is too short for a stage.
    #[must_use]
    pub fn room_bytes(devices: &[DeviceRecord], shared: &SharedAreas) -> u32 {
        let room = |device: &DeviceRecord| {
            let area = device.area(AreaKind::JOURNAL);
            let bytes = area.map_or(0, |area| area.length_bytes);
            bytes.saturating_sub(shared.journal_bytes.into())
        };
        let bytes = devices.iter().map(room).min().unwrap_or(0);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let bytes = bytes.min(SharedAreas::BYTES_MAX) / PAGE_BYTES * PAGE_BYTES;
        if bytes < ROOM_MIN { 0 } else { bytes }
    }

    /// The layout of a stage of this length. `None` if it is too short.
    #[must_use]
    pub fn new(stage_bytes: u32, block_size: BlockSize) -> Option<Self> {
        let pages = (stage_bytes / PAGE_BYTES).checked_sub(FIRST_PAGES)? / STAGE_SEGMENTS;
        let page_blocks = PAGE_BYTES / block_size.bytes();
        (stage_bytes >= BYTES_MIN).then_some(Self {
            page_blocks,
            segment_blocks: pages * page_blocks,
        })
    }

    /// The first block of the stage on a member: behind the log. `None` if the member lacks a
    /// journal area.
    #[must_use]
    pub fn start(
        device: &DeviceRecord,
        shared: &SharedAreas,
        block_size: BlockSize,
    ) -> Option<BlockIndex> {
        let area = device.area(AreaKind::JOURNAL)?;
        let bytes = area.offset_bytes + u64::from(shared.journal_bytes);
        Some(BlockIndex(bytes / u64::from(block_size.bytes())))
    }

    /// The length of a header, in blocks.
    #[must_use]
    pub const fn header_blocks(self) -> u32 {
        self.page_blocks
    }

    /// The length of the longest column, in blocks.
    #[must_use]
    pub fn column_blocks_max(self) -> u32 {
        let longest = STAGE_COLUMN_BYTES_MAX / PAGE_BYTES * self.page_blocks;
        longest.min(self.segment_blocks - self.page_blocks)
    }

    /// The length of a segment, in blocks.
    #[must_use]
    pub const fn segment_blocks(self) -> u32 {
        self.segment_blocks
    }

    /// The place of a tail header, in slot 0 or 1.
    #[must_use]
    pub fn tail_place(self, slot: u8) -> u32 {
        assert!(slot < 2, "there are two slots");
        (1 + u32::from(slot)) * self.page_blocks
    }

    /// The first place of a segment.
    #[must_use]
    pub fn segment_place(self, segment: u32) -> u32 {
        assert!(segment < STAGE_SEGMENTS, "there are eight segments");
        FIRST_PAGES * self.page_blocks + segment * self.segment_blocks
    }

    /// The segment that a column of this many blocks, header included, lies in. `None` if it lies
    /// in none as a whole.
    #[must_use]
    pub fn segment_of(self, place: u32, blocks: u32) -> Option<u32> {
        let inside = place.checked_sub(FIRST_PAGES * self.page_blocks)?;
        let segment = inside / self.segment_blocks;
        let end = u64::from(inside % self.segment_blocks) + u64::from(blocks);
        let is_inside = segment < STAGE_SEGMENTS && end <= u64::from(self.segment_blocks);
        is_inside.then_some(segment)
    }
}

// ---- the descriptor ---------------------------------------------------------------------------

const DESCRIPTOR_MAGIC: [u8; 8] = *b"SPINDSTG";

/// Every field of the descriptor, in order: offset, length, name. The table of
/// `docs/reference/format.md`.
pub const STAGE_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 4, "version"),
    (12, 4, "stage bytes"),
    (16, 16, "array UUID"),
    (32, 8, "nonce"),
    (40, 8, "generation"),
    (48, 1, "holder"),
    (49, 4043, "reserved"),
    (4092, 4, "checksum"),
];

/// The page at the start of the stage of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageDescriptor {
    /// The array's identity.
    pub array: Uuid,
    /// The nonce in all headers of this stage. A client of the array can't know it, so a block
    /// that looks like a header is not taken for one.
    pub nonce: u64,
    /// The generation of the array that made the stage. Of two descriptors the later one counts.
    pub generation: u64,
    /// The holder.
    pub holder: MemberIndex,
    /// The length of the stage, as in the superblocks.
    pub stage_bytes: u32,
}

impl StageDescriptor {
    /// Encodes the page.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut page = Page::new(DESCRIPTOR_MAGIC);
        page.set(12, &self.stage_bytes.to_le_bytes());
        page.set(16, &self.array.0);
        page.set(32, &self.nonce.to_le_bytes());
        page.set(40, &self.generation.to_le_bytes());
        page.set(48, &[self.holder.0]);
        let bytes = page.seal();
        assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    /// Decodes the first `SUPERBLOCK_BYTES` of `bytes`; `NotOurs` if they hold no descriptor.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let page = Page::open(bytes, DESCRIPTOR_MAGIC)?;
        let descriptor = Self {
            stage_bytes: page.u32(12),
            array: page.uuid(16),
            nonce: page.u64(32),
            generation: page.u64(40),
            holder: MemberIndex(page.0[48]),
        };
        let what = "the descriptor of a stage has no array, no generation, no holder or no room";
        let makes_sense = descriptor.array != Uuid::NIL
            && descriptor.generation > 0
            && descriptor.holder.0 < MEMBERS_MAX
            && (BYTES_MIN..=SharedAreas::BYTES_MAX).contains(&descriptor.stage_bytes)
            && descriptor.stage_bytes.is_multiple_of(PAGE_BYTES);
        let invalid = DecodeError::Invalid { what };
        makes_sense.then_some(descriptor).ok_or(invalid)
    }
}

// ---- batches ----------------------------------------------------------------------------------

const MAGIC: [u8; 8] = *b"SPNDSTGE";
const VERSION: u32 = 1;
const CHECKSUM: core::ops::Range<usize> = 12..16;
const FIXED_BYTES: usize = 88;
const COLUMN_BYTES: usize = 8;
const RUN_BYTES: usize = 16;
/// More blocks than a header can list the checksums of.
const LISTED_BLOCKS_MAX: u32 = 1024;

/// The part of a header that has a fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageBatch {
    /// The array's identity.
    pub array: Uuid,
    /// The nonce of the stage's descriptor.
    pub nonce: u64,
    /// Grows with every header; never repeats in the life of an array. The upper half is the
    /// generation with which the opening began.
    pub number: u64,
    /// Batches with a lower number no longer count.
    pub tail: u64,
    /// Batches of the same opening up to this number are durable; 0 for none.
    pub durable: u64,
    /// The number of blocks, and of columns of each kind.
    pub shape: StageShape,
}

/// The division of a batch into columns. The first data columns are as long as all parity columns.
/// The last data column may be shorter; parity counts its absent blocks as zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageShape {
    /// Blocks with contents.
    pub blocks: u32,
    /// Data columns; 0 in a header that only has a tail.
    pub data: u8,
    /// Parity columns.
    pub parity: u8,
}

impl StageShape {
    /// The number of columns.
    #[must_use]
    pub const fn columns(self) -> u8 {
        self.data + self.parity
    }

    /// The length of the longest column, in blocks.
    #[must_use]
    pub const fn column_blocks(self) -> u32 {
        match self.data {
            0 => 0,
            data => self.blocks.div_ceil(data as u32),
        }
    }

    /// The length of a column, in blocks.
    #[must_use]
    pub fn blocks_of(self, column: u8) -> u32 {
        let before = u32::from(column) * self.column_blocks();
        if column < self.data {
            self.column_blocks().min(self.blocks - before)
        } else {
            self.column_blocks()
        }
    }

    /// The number of checksums in the header. Every block of a column has one.
    #[must_use]
    pub const fn checksums(self) -> u32 {
        self.blocks + self.parity as u32 * self.column_blocks()
    }

    /// The length of a header with this many runs, in bytes.
    #[must_use]
    pub fn header_bytes(self, runs: usize) -> usize {
        let checksums = usize::try_from(self.checksums()).unwrap_or(usize::MAX);
        FIXED_BYTES
            + usize::from(self.columns()) * COLUMN_BYTES
            + runs.saturating_mul(RUN_BYTES)
            + checksums.saturating_mul(4)
    }

    /// Returns true if no data column is empty, and a header can list all columns.
    fn is_sane(self) -> bool {
        let columns = u16::from(self.data) + u16::from(self.parity);
        let lasts = u64::from(self.data).saturating_sub(1) * u64::from(self.column_blocks());
        let has_columns = match (self.data, self.blocks) {
            (0, blocks) => blocks == 0,
            (1, 0) => true,
            (_, blocks) => lasts < u64::from(blocks),
        };
        has_columns
            && self.blocks <= LISTED_BLOCKS_MAX
            && (1..=u16::from(MEMBERS_MAX)).contains(&columns)
    }
}

/// A column of a batch: the header and the blocks of the column lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageColumn {
    /// The holder.
    pub holder: MemberIndex,
    /// The place of the header.
    pub place: u32,
}

impl StageColumn {
    /// Fills arrays of columns.
    pub const NONE: Self = Self {
        holder: MemberIndex(0),
        place: 0,
    };
}

/// The form of a run's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// The blocks follow one another in the data columns, run after run.
    Contents,
    /// The blocks are zeros: written as zeros, or discarded.
    Zeros,
}

/// Adjacent blocks of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRun {
    /// The first block of the array.
    pub block: BlockIndex,
    /// The number of blocks, at least 1.
    pub blocks: u32,
    /// The form of the blocks.
    pub kind: StageKind,
}

/// Encodes a header into `STAGE_HEADER_BYTES` bytes, of which the first `filled` hold anything, and
/// the others zeros. Returns the number of filled bytes. `checksums` has those of the blocks with
/// contents in their order, then those of each parity column. The caller has checked that it fits.
pub fn encode_stage(
    batch: &StageBatch,
    columns: &[StageColumn],
    runs: &[StageRun],
    checksums: [&[u32]; 2],
    out: &mut [u8],
    filled: usize,
) -> usize {
    assert_eq!(out.len(), STAGE_HEADER_BYTES);
    assert!(batch.shape.is_sane(), "{:?}", batch.shape);
    assert_eq!(columns.len(), usize::from(batch.shape.columns()));
    let parity = checksums[1].len();
    assert_eq!(u32::try_from(checksums[0].len()), Ok(batch.shape.blocks));
    assert_eq!(
        u32::try_from(parity),
        Ok(batch.shape.checksums() - batch.shape.blocks)
    );
    let used = batch.shape.header_bytes(runs.len());
    out[..filled.max(FIXED_BYTES)].fill(0);
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[16..32].copy_from_slice(&batch.array.0);
    out[32..40].copy_from_slice(&batch.nonce.to_le_bytes());
    out[40..48].copy_from_slice(&batch.number.to_le_bytes());
    out[48..56].copy_from_slice(&batch.tail.to_le_bytes());
    out[56..64].copy_from_slice(&batch.durable.to_le_bytes());
    out[64..68].copy_from_slice(&batch.shape.blocks.to_le_bytes());
    out[68] = batch.shape.data;
    out[69] = batch.shape.parity;
    let count = u32::try_from(runs.len()).expect("they fit into a header");
    out[72..76].copy_from_slice(&count.to_le_bytes());
    let end = u32::try_from(used).expect("4096 at most");
    out[76..80].copy_from_slice(&end.to_le_bytes());
    let (bytes, rest) = out[FIXED_BYTES..used].split_at_mut(columns.len() * COLUMN_BYTES);
    for (bytes, column) in bytes.chunks_exact_mut(COLUMN_BYTES).zip(columns) {
        bytes[..4].copy_from_slice(&column.place.to_le_bytes());
        bytes[4] = column.holder.0;
    }
    let (bytes, rest) = rest.split_at_mut(runs.len() * RUN_BYTES);
    for (bytes, run) in bytes.chunks_exact_mut(RUN_BYTES).zip(runs) {
        bytes[..8].copy_from_slice(&run.block.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&run.blocks.to_le_bytes());
        bytes[12] = match run.kind {
            StageKind::Contents => 1,
            StageKind::Zeros => 2,
        };
    }
    let all = checksums[0].iter().chain(checksums[1]);
    for (bytes, checksum) in rest.chunks_exact_mut(4).zip(all) {
        bytes.copy_from_slice(&checksum.to_le_bytes());
    }
    // The bytes after the checksums are zeros.
    let whole = used.next_multiple_of(ZEROS_UNIT);
    let checksum = crc32c_then_zeros(&out[..whole], STAGE_HEADER_BYTES - whole);
    out[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    used
}

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageHeader<'bytes> {
    /// The part of a fixed length.
    pub batch: StageBatch,
    columns: &'bytes [u8],
    runs: &'bytes [u8],
    checksums: &'bytes [u8],
}

impl<'bytes> StageHeader<'bytes> {
    /// Decodes a header of `STAGE_HEADER_BYTES` bytes; `None` if it is not intact. The caller
    /// compares array, nonce, holder and place with those expected here.
    #[must_use]
    pub fn decode(bytes: &'bytes [u8]) -> Option<Self> {
        assert_eq!(bytes.len(), STAGE_HEADER_BYTES);
        if bytes[..8] != MAGIC || u32_at(bytes, 8) != VERSION {
            return None;
        }
        if checksum_of(bytes) != u32_at(bytes, CHECKSUM.start) {
            return None;
        }
        let mut array = [0; 16];
        array.copy_from_slice(&bytes[16..32]);
        let batch = StageBatch {
            array: Uuid(array),
            nonce: u64_at(bytes, 32),
            number: u64_at(bytes, 40),
            tail: u64_at(bytes, 48),
            durable: u64_at(bytes, 56),
            shape: StageShape {
                blocks: u32_at(bytes, 64),
                data: bytes[68],
                parity: bytes[69],
            },
        };
        if !batch.shape.is_sane() {
            return None;
        }
        let runs = usize::try_from(u32_at(bytes, 72)).ok()?;
        let end = usize::try_from(u32_at(bytes, 76)).ok()?;
        if end != batch.shape.header_bytes(runs) {
            return None;
        }
        let rest = bytes.get(FIXED_BYTES..end)?;
        let columns = usize::from(batch.shape.columns()) * COLUMN_BYTES;
        let (columns, rest) = rest.split_at_checked(columns)?;
        let (runs, checksums) = rest.split_at_checked(runs * RUN_BYTES)?;
        let header = Self {
            batch,
            columns,
            runs,
            checksums,
        };
        header.is_sane().then_some(header)
    }

    /// Checks all columns and runs once, so that iteration can't fail.
    fn is_sane(&self) -> bool {
        let mut holders = 0_u64;
        for column in self.columns() {
            let bit = 1_u64.checked_shl(column.holder.0.into()).unwrap_or(0);
            if bit == 0 || holders & bit != 0 {
                return false;
            }
            holders |= bit;
        }
        let mut contents = 0_u64;
        for bytes in self.runs.chunks_exact(RUN_BYTES) {
            let (first, blocks) = (u64_at(bytes, 0), u32_at(bytes, 8));
            let ends = first.checked_add(blocks.into()).is_some();
            if !ends || blocks == 0 || !(1..=2).contains(&bytes[12]) {
                return false;
            }
            contents += u64::from(blocks) * u64::from(bytes[12] == 1);
        }
        let has_runs = !self.runs.is_empty();
        let shape = self.batch.shape;
        contents == u64::from(shape.blocks) && has_runs == (shape.data > 0)
    }

    /// The columns: data columns, then parity columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = StageColumn> + use<'bytes> {
        let columns = self.columns.chunks_exact(COLUMN_BYTES);
        columns.map(|bytes| StageColumn {
            holder: MemberIndex(bytes[4]),
            place: u32_at(bytes, 0),
        })
    }

    /// The runs. If a block is in several, the last one counts.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = StageRun> + use<'bytes> {
        self.runs.chunks_exact(RUN_BYTES).map(|bytes| StageRun {
            block: BlockIndex(u64_at(bytes, 0)),
            blocks: u32_at(bytes, 8),
            kind: match bytes[12] {
                1 => StageKind::Contents,
                _ => StageKind::Zeros,
            },
        })
    }

    /// The checksums of the blocks of a column.
    pub fn checksums(&self, column: u8) -> impl ExactSizeIterator<Item = u32> + use<'bytes> {
        let shape = self.batch.shape;
        let before: u32 = (0..column).map(|column| shape.blocks_of(column)).sum();
        let from = usize::try_from(before).expect("within the header") * 4;
        let blocks = usize::try_from(shape.blocks_of(column)).expect("within the header");
        let bytes = &self.checksums[from..from + blocks * 4];
        bytes.chunks_exact(4).map(|bytes| u32_at(bytes, 0))
    }
}

/// The checksum of the whole header, with zeros in place of the checksum.
fn checksum_of(bytes: &[u8]) -> u32 {
    let mut copy = [0; STAGE_HEADER_BYTES];
    copy.copy_from_slice(bytes);
    copy[CHECKSUM].fill(0);
    crc32c(&copy)
}

#[cfg(test)]
mod tests;

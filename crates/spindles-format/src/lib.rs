//! The bytes on members: the superblock with its typed area table, encoding and decoding of every
//! format version, and selecting the current record among the copies that a set of devices carries.
//!
//! `docs/reference/format.md` describes the format byte by byte. This crate does no I/O, knows no
//! levels and generates no random numbers: names are text, and identities come from the caller.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod areas;
mod assembly;
mod bad_blocks;
mod bitmap;
mod checksum_area;
mod checksums;
mod choose;
mod crc32c;
mod device_record;
mod error;
mod growth;
mod journal;
mod journal_device;
mod left_over;
mod page;
mod record;
mod row_sum;
mod shared;
mod sizes;
mod spare;
mod stage;
mod text;
mod uuid;
pub mod versions;

pub use areas::{
    TooSmall, areas_for, areas_to_hold, areas_to_join, device_bytes_for, device_bytes_for_headroom,
};
pub use assembly::{AssembleError, Assembly, Half, Reason, Refusal};
pub use bad_blocks::{
    BAD_BLOCKS_FIELDS, BAD_BLOCKS_PAGE_ENTRIES, BadBlockKind, BadBlocks, blank_bad_blocks,
    decode_bad_blocks, encode_bad_blocks, give_bad_blocks, lost_runs,
};
pub use bitmap::{
    BITMAP_FIELDS, BITMAP_PAGE_WORDS, BITMAPS, BitmapPage, blank_bitmap, decode_bitmap,
    encode_bitmap, give_regions, region_groups_for, uniform_bitmap,
};
pub use checksum_area::{give_checksums, room_for_checksums};
pub use checksums::{
    CHECKSUM_BLANK, CHECKSUM_FIELDS, CHECKSUM_LOST, CHECKSUM_NONE, CHECKSUM_PAGE_BYTES,
    CHECKSUM_PART_BYTES, ChecksumKind, Entries, PageParts, open_checksums, seal_checksums,
    stored_checksum,
};
pub use choose::{Found, choose, returns_since};
pub use crc32c::{block_checksum, crc32c};
pub use device_record::{Area, AreaKind, DeviceRecord, ErrorCounts, MEMBER_BLOCKS_MAX};
pub use error::DecodeError;
pub use growth::{GrowthRecord, OlderMap};
pub use journal::{
    JOURNAL_HEADER_BYTES, JournalBatch, JournalEntry, JournalHeader, JournalKind, JournalSums,
    JournalWriter,
};
pub use journal_device::{JOURNAL_DEVICE_BYTES_MIN, JOURNAL_DEVICE_FIELDS, JournalDevice};
pub use left_over::{newest, take_left_over};
pub use record::{
    ArrayRecord, Features, JournalRecord, MemberRecord, MemberState, PAST_SESSIONS_MAX, PastSession,
};
pub use row_sum::RowSum;
pub use shared::SharedAreas;
pub use sizes::{
    BAD_BLOCKS_PAGE_BYTES, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, SLOT_BYTES, SUPERBLOCK_BYTES,
    VERSION,
};
pub use spare::{SPARE_ARRAYS_MAX, SPARE_FIELDS, SpareRecord};
pub use stage::{
    STAGE_COLUMN_BYTES_MAX, STAGE_FIELDS, STAGE_HEADER_BYTES, STAGE_SEGMENTS, StageBatch,
    StageColumn, StageDescriptor, StageHeader, StageKind, StageLayout, StageRun, StageShape,
    encode_stage,
};
pub use text::Text;
pub use uuid::Uuid;
pub use versions::{decode, encode};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_format;
#[cfg(test)]
#[path = "../tests/format.rs"]
mod public;

//! The header of a batch in a member's journal. It lists the blocks of redundancy groups that are
//! about to be written, the checksums of those on this member, and the sums of their rows. The
//! blocks themselves follow in the journal, unless they are zeros.

use crate::crc32c::{ZEROS_UNIT, crc32c, crc32c_then_zeros};
use crate::{RowSum, Uuid};
use spindles_block::MemberIndex;

/// The length of a batch header.
pub const JOURNAL_HEADER_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"SPNDJRNL";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 80;
const ENTRY_BYTES: usize = 40;

/// The part of a batch header that all entries on one member share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalBatch {
    /// The array's identity.
    pub array: Uuid,
    /// The array's nonce of this opening. A client of the array can't know it, so a data block that
    /// looks like a header is not taken for one.
    pub nonce: u64,
    /// Grows with every batch; never repeats in the life of an array.
    pub sequence: u64,
    /// The owner of the journal.
    pub member: MemberIndex,
    /// The header's position, in blocks from the start of the journal.
    pub place: u32,
}

/// The form of an entry's new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// The new blocks are in the journal.
    Data,
    /// The new blocks are zeros.
    Zeros,
}

impl JournalKind {
    /// The number of checksums of an entry of this many blocks.
    #[must_use]
    pub fn checksums(self, blocks: u32) -> u32 {
        match self {
            Self::Data => blocks,
            Self::Zeros => 0,
        }
    }
}

/// A member's part of a write: the same rows of every chunk that the write changes in one
/// redundancy group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The redundancy group.
    pub group: u64,
    /// The first row.
    pub low: u32,
    /// The number of rows.
    pub blocks: u32,
    /// The slots of the group that the write changes, one bit each.
    pub slots: u64,
    /// The slot of this member.
    pub slot: u8,
    /// The form of the new blocks.
    pub kind: JournalKind,
    /// True if the sums of the rows follow the checksums. All slots carry the same sums, so any
    /// part proves the reconstruction of missing parts.
    pub row_sums: bool,
    /// The position of the new blocks, in blocks from the start of the journal; 0 if they are
    /// zeros.
    pub place: u32,
}

impl JournalEntry {
    /// The number of row sums of the entry.
    #[must_use]
    pub fn row_sums(&self) -> u32 {
        if self.row_sums { self.blocks } else { 0 }
    }

    /// The length of the entry's checksums and row sums, in bytes.
    fn sums_bytes(&self) -> u64 {
        4 * u64::from(self.kind.checksums(self.blocks)) + 8 * u64::from(self.row_sums())
    }

    /// The length of the entry in a header, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sums = usize::try_from(self.sums_bytes());
        ENTRY_BYTES.saturating_add(sums.unwrap_or(usize::MAX))
    }
}

/// Fills a header entry by entry.
#[derive(Debug)]
pub struct JournalWriter<'out> {
    out: &'out mut [u8],
    used: usize,
    entries: u32,
}

impl<'out> JournalWriter<'out> {
    /// Starts a header in `JOURNAL_HEADER_BYTES` bytes. The first `filled` bytes hold anything, and
    /// the others zeros.
    pub fn new(batch: &JournalBatch, out: &'out mut [u8], filled: usize) -> Self {
        assert_eq!(out.len(), JOURNAL_HEADER_BYTES);
        out[..filled].fill(0);
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&batch.array.0);
        out[32..40].copy_from_slice(&batch.nonce.to_le_bytes());
        out[40..48].copy_from_slice(&batch.sequence.to_le_bytes());
        out[48..52].copy_from_slice(&batch.place.to_le_bytes());
        out[52] = batch.member.0;
        Self {
            out,
            used: FIXED_BYTES,
            entries: 0,
        }
    }

    /// The most blocks of an entry with row sums that fits into a header.
    #[must_use]
    pub const fn blocks_max() -> usize {
        (Self::room_bytes() - ENTRY_BYTES) / 12
    }

    /// The most entries that fit into a header.
    #[must_use]
    pub const fn entries_max() -> usize {
        Self::room_bytes() / ENTRY_BYTES
    }

    /// The most blocks that the entries of a header can list the checksums of.
    #[must_use]
    pub const fn listed_blocks_max() -> usize {
        (Self::room_bytes() - ENTRY_BYTES) / 4
    }

    /// The number of bytes for entries.
    #[must_use]
    pub const fn room_bytes() -> usize {
        JOURNAL_HEADER_BYTES - FIXED_BYTES
    }

    /// Adds an entry with its checksums, and with its row sums if it has any. The caller has
    /// checked that it fits.
    pub fn entry(&mut self, entry: &JournalEntry, checksums: &[u32], row_sums: &[RowSum]) {
        let bytes = &mut self.out[self.used..self.used + entry.bytes()];
        bytes[..8].copy_from_slice(&entry.group.to_le_bytes());
        bytes[8..12].copy_from_slice(&entry.low.to_le_bytes());
        bytes[12..16].copy_from_slice(&entry.blocks.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.slots.to_le_bytes());
        bytes[24..28].copy_from_slice(&entry.place.to_le_bytes());
        bytes[28] = entry.slot;
        bytes[29] = match entry.kind {
            JournalKind::Data => 1,
            JournalKind::Zeros => 2,
        };
        bytes[30] = u8::from(entry.row_sums);
        let (of_blocks, of_rows) = bytes[ENTRY_BYTES..].split_at_mut(4 * checksums.len());
        for (bytes, checksum) in of_blocks.chunks_exact_mut(4).zip(checksums) {
            bytes.copy_from_slice(&checksum.to_le_bytes());
        }
        assert_eq!(of_rows.len(), 8 * row_sums.len(), "as many as it says");
        for (bytes, sum) in of_rows.chunks_exact_mut(8).zip(row_sums) {
            bytes.copy_from_slice(&sum.0.to_le_bytes());
        }
        self.used += entry.bytes();
        self.entries += 1;
    }

    /// Finishes the header. Returns the number of filled bytes; the others hold zeros.
    pub fn finish(self) -> usize {
        let used = u32::try_from(self.used).expect("4096 at most");
        let bytes = self.out;
        bytes[56..60].copy_from_slice(&self.entries.to_le_bytes());
        bytes[60..64].copy_from_slice(&used.to_le_bytes());
        // The bytes after the entries are zeros.
        let filled = self.used.next_multiple_of(ZEROS_UNIT);
        let checksum = crc32c_then_zeros(&bytes[..filled], JOURNAL_HEADER_BYTES - filled);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        self.used
    }
}

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader<'bytes> {
    /// The part that its entries share.
    pub batch: JournalBatch,
    entries: u32,
    bytes: &'bytes [u8],
}

impl<'bytes> JournalHeader<'bytes> {
    /// Decodes a header of `JOURNAL_HEADER_BYTES` bytes; `None` if it is not intact. The caller
    /// compares the batch with the one expected here.
    #[must_use]
    pub fn decode(bytes: &'bytes [u8]) -> Option<Self> {
        assert_eq!(bytes.len(), JOURNAL_HEADER_BYTES);
        if bytes[..8] != MAGIC || u32_at(bytes, 8) != VERSION {
            return None;
        }
        let checksum = checksum_of(bytes);
        if checksum != u32_at(bytes, 12) {
            return None;
        }
        let mut array = [0; 16];
        array.copy_from_slice(&bytes[16..32]);
        let header = Self {
            batch: JournalBatch {
                array: Uuid(array),
                nonce: u64_at(bytes, 32),
                sequence: u64_at(bytes, 40),
                place: u32_at(bytes, 48),
                member: MemberIndex(bytes[52]),
            },
            entries: u32_at(bytes, 56),
            bytes: bytes.get(FIXED_BYTES..usize::try_from(u32_at(bytes, 60)).ok()?)?,
        };
        // Check every entry once, so that iteration can't fail.
        let mut rest = header.bytes;
        for _ in 0..header.entries {
            (_, _, rest) = split_entry(rest)?;
        }
        rest.is_empty().then_some(header)
    }

    /// The entries with their sums.
    pub fn entries(&self) -> impl Iterator<Item = (JournalEntry, JournalSums<'bytes>)> {
        let mut rest = self.bytes;
        (0..self.entries).map(move |_| {
            let (entry, sums, after) = split_entry(rest).expect("looked at before");
            rest = after;
            (entry, sums)
        })
    }
}

/// The checksums and row sums of an entry.
#[derive(Clone, Copy, Debug)]
pub struct JournalSums<'bytes> {
    of_blocks: &'bytes [u8],
    of_rows: &'bytes [u8],
}

impl JournalSums<'_> {
    /// The checksums of the entry's blocks, if they are in the journal.
    pub fn checksums(&self) -> impl Iterator<Item = u32> {
        let bytes = self.of_blocks.chunks_exact(4);
        bytes.map(|bytes| u32_at(bytes, 0))
    }

    /// The entry's row sums, if it has any.
    pub fn row_sums(&self) -> impl Iterator<Item = RowSum> {
        let bytes = self.of_rows.chunks_exact(8);
        bytes.map(|bytes| RowSum(u64_at(bytes, 0)))
    }
}

/// The checksum of the whole header, with zeros in place of the checksum.
fn checksum_of(bytes: &[u8]) -> u32 {
    let mut copy = [0; JOURNAL_HEADER_BYTES];
    copy.copy_from_slice(bytes);
    copy[12..16].fill(0);
    crc32c(&copy)
}

fn split_entry(bytes: &[u8]) -> Option<(JournalEntry, JournalSums<'_>, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
    let entry = JournalEntry {
        group: u64_at(fixed, 0),
        low: u32_at(fixed, 8),
        blocks: u32_at(fixed, 12),
        slots: u64_at(fixed, 16),
        place: u32_at(fixed, 24),
        slot: fixed[28],
        kind: match fixed[29] {
            1 => JournalKind::Data,
            2 => JournalKind::Zeros,
            _ => return None,
        },
        row_sums: fixed[30] == 1,
    };
    let sane =
        fixed[30] < 2 && entry.blocks > 0 && entry.slot < 64 && entry.slots >> entry.slot & 1 == 1;
    let (sums, rest) = rest.split_at_checked(usize::try_from(entry.sums_bytes()).ok()?)?;
    let of_blocks = sums.len() - 8 * usize::try_from(entry.row_sums()).ok()?;
    let (of_blocks, of_rows) = sums.split_at(of_blocks);
    sane.then_some((entry, JournalSums { of_blocks, of_rows }, rest))
}

/// Returns the little-endian number at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

/// Returns the little-endian number at an offset.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    const BATCH: JournalBatch = JournalBatch {
        array: Uuid([7; 16]),
        nonce: 0x1234_5678_9abc_def0,
        sequence: (5 << 32) + 17,
        member: MemberIndex(2),
        place: 96,
    };

    type Written = (JournalEntry, Vec<u32>, Vec<RowSum>);

    fn example() -> (Vec<Written>, Vec<u8>) {
        let entry = |group, kind: JournalKind, row_sums, blocks: u32| {
            let entry = JournalEntry {
                group,
                low: 8,
                blocks,
                slots: 0b1_0010,
                slot: 4,
                kind,
                row_sums,
                place: 97,
            };
            let checksums = (0..kind.checksums(blocks)).map(|i| i * 77 + 1).collect();
            let sums = (0..entry.row_sums()).map(|i| RowSum(u64::from(i) << 40 | 9));
            (entry, checksums, sums.collect())
        };
        let entries: Vec<Written> = [
            entry(1 << 40, JournalKind::Data, false, 16),
            entry(3, JournalKind::Zeros, false, 1 << 20),
            entry(u64::MAX, JournalKind::Data, true, 1),
            entry(6, JournalKind::Data, true, 5),
            entry(7, JournalKind::Zeros, true, 3),
        ]
        .into();
        let mut bytes = vec![0xee; JOURNAL_HEADER_BYTES]; // As left by a longer header.
        let mut writer = JournalWriter::new(&BATCH, &mut bytes, JOURNAL_HEADER_BYTES);
        for (entry, checksums, row_sums) in &entries {
            writer.entry(entry, checksums, row_sums);
        }
        writer.finish();
        (entries, bytes)
    }

    #[test]
    fn journal_records_round_trip() {
        let (entries, bytes) = example();
        let header = JournalHeader::decode(&bytes).expect("whole");
        assert_eq!(header.batch, BATCH);
        let read: Vec<Written> = header
            .entries()
            .map(|(entry, sums)| (entry, sums.checksums().collect(), sums.row_sums().collect()))
            .collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let (_, bytes) = example();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(JournalHeader::decode(&changed), None, "byte {at} bit {bit}");
            }
        }
    }

    /// Nonsensical entries under a right checksum are no header: nothing panics.
    #[test]
    fn invalid_headers_with_a_valid_checksum_are_refused() {
        let (_, bytes) = example();
        let mut refused = 0;
        for at in 16..700 {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let checksum = checksum_of(&changed);
                changed[12..16].copy_from_slice(&checksum.to_le_bytes());
                match JournalHeader::decode(&changed) {
                    Some(header) => header.entries().for_each(|(entry, sums)| {
                        let count = sums.checksums().count();
                        assert_eq!(count, entry.kind.checksums(entry.blocks) as usize);
                        assert_eq!(sums.row_sums().count(), entry.row_sums() as usize);
                    }),
                    None => refused += 1,
                }
            }
        }
        assert!(refused > 50, "{refused}");
    }

    #[test]
    fn a_full_header_fits() {
        let entry = JournalEntry {
            group: 1,
            low: 0,
            blocks: 1,
            slots: 1,
            slot: 0,
            kind: JournalKind::Data,
            row_sums: false,
            place: 1,
        };
        let count = JournalWriter::room_bytes() / entry.bytes();
        let mut bytes = vec![0; JOURNAL_HEADER_BYTES];
        let mut writer = JournalWriter::new(&BATCH, &mut bytes, 0);
        for _ in 0..count {
            writer.entry(&entry, &[9], &[]);
        }
        writer.finish();
        let header = JournalHeader::decode(&bytes).expect("whole");
        assert_eq!(header.entries().count(), count);
    }
}

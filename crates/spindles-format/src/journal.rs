//! The header of a batch in a member's journal: which blocks of which redundancy groups are about
//! to be written, and the checksums of the new ones on this member. The new blocks themselves
//! follow in the journal, for those entries that log them.

use crate::{Uuid, crc32c};
use spindles_block::MemberIndex;

/// How long the header of a batch is.
pub const JOURNAL_HEADER_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"SPNDJRNL";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 80;
const ENTRY_BYTES: usize = 40;

/// What all entries of a batch on one member have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalBatch {
    /// The array's.
    pub array: Uuid,
    /// The array's nonce of this opening, unknown to whoever writes to the array: blocks of data
    /// that look like a header are not taken for one.
    pub nonce: u64,
    /// Grows with every batch, never the same twice in the life of an array.
    pub sequence: u64,
    /// Whose journal it is.
    pub member: MemberIndex,
    /// Where the header lies, in blocks from the start of the journal.
    pub place: u32,
}

/// What an entry says of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// The new blocks are in the journal.
    Data,
    /// The new blocks are zeros.
    Zeros,
    /// The new blocks are not in the journal, only their checksums.
    Intent,
}

impl JournalKind {
    /// How many checksums of new blocks an entry of so many carries.
    #[must_use]
    pub fn new_checksums(self, blocks: u32) -> u32 {
        match self {
            Self::Data | Self::Intent => blocks,
            Self::Zeros => 0,
        }
    }
}

/// One member's part of one write: the same rows of every chunk that the write changes in one
/// redundancy group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The redundancy group.
    pub group: u64,
    /// The first row.
    pub low: u32,
    /// How many rows.
    pub blocks: u32,
    /// Which slots of the group the write changes, a bit each.
    pub slots: u64,
    /// The slot on this member.
    pub slot: u8,
    /// What is known of the new blocks.
    pub kind: JournalKind,
    /// Whether the checksums of the blocks that they replace follow, as the checksum area has them.
    pub old: bool,
    /// Where the new blocks lie, in blocks from the start of the journal; 0 without.
    pub place: u32,
}

impl JournalEntry {
    /// How many checksums it carries: those of new blocks, then those of old ones.
    #[must_use]
    pub fn checksums(&self) -> u64 {
        let old = if self.old { self.blocks } else { 0 };
        u64::from(self.kind.new_checksums(self.blocks)) + u64::from(old)
    }

    fn length(&self) -> usize {
        ENTRY_BYTES + 4 * usize::try_from(self.checksums()).expect("it fits a header")
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
    /// Begins a header in `JOURNAL_HEADER_BYTES` bytes.
    pub fn new(batch: &JournalBatch, out: &'out mut [u8]) -> Self {
        assert_eq!(out.len(), JOURNAL_HEADER_BYTES);
        out.fill(0);
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

    /// How many bytes of a header an entry with so many checksums takes.
    #[must_use]
    pub const fn entry_bytes(checksums: u32) -> usize {
        ENTRY_BYTES + 4 * checksums as usize
    }

    /// How many bytes there are for entries.
    #[must_use]
    pub const fn room_bytes() -> usize {
        JOURNAL_HEADER_BYTES - FIXED_BYTES
    }

    /// Adds an entry with its checksums. The caller has counted: it fits.
    pub fn entry(&mut self, entry: &JournalEntry, checksums: impl IntoIterator<Item = u32>) {
        let bytes = &mut self.out[self.used..self.used + entry.length()];
        bytes[..8].copy_from_slice(&entry.group.to_le_bytes());
        bytes[8..12].copy_from_slice(&entry.low.to_le_bytes());
        bytes[12..16].copy_from_slice(&entry.blocks.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.slots.to_le_bytes());
        bytes[24..28].copy_from_slice(&entry.place.to_le_bytes());
        bytes[28] = entry.slot;
        bytes[29] = match entry.kind {
            JournalKind::Data => 1,
            JournalKind::Zeros => 2,
            JournalKind::Intent => 3,
        };
        bytes[30] = u8::from(entry.old);
        let mut checksums = checksums.into_iter();
        for bytes in bytes[ENTRY_BYTES..].chunks_exact_mut(4) {
            let checksum = checksums.next().expect("as many as the kind has");
            bytes.copy_from_slice(&checksum.to_le_bytes());
        }
        assert!(checksums.next().is_none(), "as many as the kind has");
        self.used += entry.length();
        self.entries += 1;
    }

    /// Ends the header.
    pub fn finish(self) {
        let used = u32::try_from(self.used).expect("4096 at most");
        self.out[56..60].copy_from_slice(&self.entries.to_le_bytes());
        self.out[60..64].copy_from_slice(&used.to_le_bytes());
        let checksum = crc32c(self.out);
        self.out[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// A header that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader<'bytes> {
    /// What its entries have in common.
    pub batch: JournalBatch,
    entries: u32,
    bytes: &'bytes [u8],
}

impl<'bytes> JournalHeader<'bytes> {
    /// The header in these `JOURNAL_HEADER_BYTES` bytes; `None` where there is none that is whole.
    /// The caller compares the batch with what it must be at this place.
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
        // Every entry is looked at once, so that going through them can't fail.
        let mut rest = header.bytes;
        for _ in 0..header.entries {
            (_, _, rest) = split_entry(rest)?;
        }
        rest.is_empty().then_some(header)
    }

    /// Its entries with their checksums.
    pub fn entries(&self) -> impl Iterator<Item = (JournalEntry, impl Iterator<Item = u32>)> {
        let mut rest = self.bytes;
        (0..self.entries).map(move |_| {
            let (entry, checksums, after) = split_entry(rest).expect("looked at before");
            rest = after;
            let checksums = checksums.chunks_exact(4).map(|bytes| u32_at(bytes, 0));
            (entry, checksums)
        })
    }
}

/// Of the whole header, with zeros in the place of the checksum.
fn checksum_of(bytes: &[u8]) -> u32 {
    let mut copy = [0; JOURNAL_HEADER_BYTES];
    copy.copy_from_slice(bytes);
    copy[12..16].fill(0);
    crc32c(&copy)
}

fn split_entry(bytes: &[u8]) -> Option<(JournalEntry, &[u8], &[u8])> {
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
            3 => JournalKind::Intent,
            _ => return None,
        },
        old: fixed[30] == 1,
    };
    let sane =
        fixed[30] < 2 && entry.blocks > 0 && entry.slot < 64 && entry.slots >> entry.slot & 1 == 1;
    let checksums = usize::try_from(entry.checksums()).ok()?.checked_mul(4)?;
    let (checksums, rest) = rest.split_at_checked(checksums)?;
    sane.then_some((entry, checksums, rest))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const BATCH: JournalBatch = JournalBatch {
        array: Uuid([7; 16]),
        nonce: 0x1234_5678_9abc_def0,
        sequence: (5 << 32) + 17,
        member: MemberIndex(2),
        place: 96,
    };

    fn example() -> (Vec<(JournalEntry, Vec<u32>)>, Vec<u8>) {
        let entry = |group, kind, old, blocks: u32| {
            let entry = JournalEntry {
                group,
                low: 8,
                blocks,
                slots: 0b1_0010,
                slot: 4,
                kind,
                old,
                place: 97,
            };
            let count = u32::try_from(entry.checksums()).unwrap();
            let checksums = (0..count).map(|i| i * 77 + 1).collect();
            (entry, checksums)
        };
        let entries: Vec<(JournalEntry, Vec<u32>)> = [
            entry(1 << 40, JournalKind::Data, false, 16),
            entry(3, JournalKind::Zeros, false, 1 << 20),
            entry(u64::MAX, JournalKind::Data, true, 1),
            entry(5, JournalKind::Intent, false, 9),
            entry(6, JournalKind::Intent, true, 5),
            entry(7, JournalKind::Zeros, true, 3),
        ]
        .into();
        let mut bytes = [0xee; JOURNAL_HEADER_BYTES].to_vec();
        let mut writer = JournalWriter::new(&BATCH, &mut bytes);
        for (entry, checksums) in &entries {
            writer.entry(entry, checksums.iter().copied());
        }
        writer.finish();
        (entries, bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let (entries, bytes) = example();
        let header = JournalHeader::decode(&bytes).expect("whole");
        assert_eq!(header.batch, BATCH);
        let read: Vec<(JournalEntry, Vec<u32>)> = header
            .entries()
            .map(|(entry, checksums)| (entry, checksums.collect()))
            .collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (_, bytes) = example();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(JournalHeader::decode(&changed), None, "byte {at} bit {bit}");
            }
        }
    }

    /// Entries that make no sense under a right checksum are no header: nothing panics.
    #[test]
    fn nonsense_with_a_right_checksum_is_refused() {
        let (_, bytes) = example();
        let mut refused = 0;
        for at in 16..700 {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let checksum = checksum_of(&changed);
                changed[12..16].copy_from_slice(&checksum.to_le_bytes());
                match JournalHeader::decode(&changed) {
                    Some(header) => header.entries().for_each(|(entry, checksums)| {
                        assert_eq!(
                            checksums.count(),
                            usize::try_from(entry.checksums()).unwrap()
                        );
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
            old: false,
            place: 1,
        };
        let count = JournalWriter::room_bytes() / JournalWriter::entry_bytes(1);
        let mut bytes = [0; JOURNAL_HEADER_BYTES];
        let mut writer = JournalWriter::new(&BATCH, &mut bytes);
        for _ in 0..count {
            writer.entry(&entry, [9]);
        }
        writer.finish();
        let header = JournalHeader::decode(&bytes).expect("whole");
        assert_eq!(header.entries().count(), count);
    }
}

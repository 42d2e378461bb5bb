//! Round trips, invalid fields, and the room for a stage.

extern crate std;
use super::*;
use crate::areas_for;
use std::{vec, vec::Vec};

/// A small generator with a fixed sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        u32::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

struct Written {
    batch: StageBatch,
    columns: Vec<StageColumn>,
    runs: Vec<StageRun>,
    data: Vec<u32>,
    parity: Vec<u32>,
}

impl Written {
    /// Draws a batch that fits into a header.
    fn draw(random: &mut Random) -> Self {
        loop {
            let kinds = [StageKind::Contents, StageKind::Contents, StageKind::Zeros];
            let runs: Vec<StageRun> = (0..random.below(6))
                .map(|_| StageRun {
                    block: BlockIndex(u64::from(random.below(1 << 30)) << 20),
                    blocks: 1 + random.below(40),
                    kind: kinds[random.below(3) as usize],
                })
                .collect();
            let contents = runs.iter().filter(|run| run.kind == StageKind::Contents);
            let shape = StageShape {
                blocks: contents.map(|run| run.blocks).sum(),
                data: u8::try_from(random.below(7)).unwrap(),
                parity: u8::try_from(random.below(4)).unwrap(),
            };
            let fits = shape.header_bytes(runs.len()) <= STAGE_HEADER_BYTES;
            if !shape.is_sane() || (shape.data == 0) != runs.is_empty() || !fits {
                continue;
            }
            return Self {
                batch: StageBatch {
                    array: Uuid([7; 16]),
                    nonce: 0x1234_5678_9abc_def0,
                    number: (5 << 32) + u64::from(random.below(1 << 20)),
                    tail: (4 << 32) + 3,
                    durable: (5 << 32) + 1,
                    shape,
                },
                columns: (0..shape.columns())
                    .map(|column| StageColumn {
                        holder: MemberIndex(63 - column),
                        place: random.below(1 << 30),
                    })
                    .collect(),
                data: (0..shape.blocks).map(|at| at * 77 + 1).collect(),
                parity: (shape.blocks..shape.checksums()).collect(),
                runs,
            };
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0xee; STAGE_HEADER_BYTES]; // As left by a longer header.
        let checksums = [&self.data[..], &self.parity[..]];
        let filled = STAGE_HEADER_BYTES;
        encode_stage(
            &self.batch,
            &self.columns,
            &self.runs,
            checksums,
            &mut bytes,
            filled,
        );
        bytes
    }
}

#[test]
fn stage_headers_round_trip() {
    let mut random = Random(1);
    let (mut tails, mut short) = (0, 0);
    for _ in 0..2_000 {
        let written = Written::draw(&mut random);
        let bytes = written.encode();
        let header = StageHeader::decode(&bytes).expect("whole");
        assert_eq!(header.batch, written.batch);
        assert!(header.columns().eq(written.columns.iter().copied()));
        assert!(header.runs().eq(written.runs.iter().copied()));
        let shape = written.batch.shape;
        let checksums = (0..shape.columns()).flat_map(|column| {
            let checksums = header.checksums(column);
            assert_eq!(checksums.len(), shape.blocks_of(column) as usize);
            checksums
        });
        assert!(checksums.eq(written.data.iter().chain(&written.parity).copied()));
        tails += u32::from(shape.data == 0);
        short +=
            u32::from(shape.data > 1 && shape.blocks_of(shape.data - 1) < shape.column_blocks());
    }
    assert!(tails > 20 && short > 100, "{tails} {short}");
}

#[test]
fn every_changed_byte_of_a_stage_header_is_detected() {
    let bytes = Written::draw(&mut Random(3)).encode();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert_eq!(StageHeader::decode(&changed), None, "byte {at}");
    }
}

/// Nonsensical fields under a right checksum are no header, or one that can be read as a whole.
#[test]
fn invalid_stage_headers_with_a_valid_checksum_are_refused() {
    let mut random = Random(5);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..200 {
        let bytes = Written::draw(&mut random).encode();
        for at in 16..400 {
            let mut changed = bytes.clone();
            changed[at] = [0, 1, 2, 0x7f, 0x80, 0xff][random.below(6) as usize];
            let checksum = checksum_of(&changed);
            changed[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
            match StageHeader::decode(&changed) {
                Some(header) => {
                    read += header.runs().count() + header.columns().count();
                    read += (0..header.batch.shape.columns())
                        .map(|column| header.checksums(column).count())
                        .sum::<usize>();
                }
                None => refused += 1,
            }
        }
    }
    assert!(refused > 3_000 && read > 10_000, "{refused} {read}");
}

/// One header each that breaks a single rule.
#[test]
fn stage_headers_that_break_a_rule_are_refused() {
    let mut random = Random(9);
    let written = core::iter::repeat_with(|| Written::draw(&mut random))
        .find(|written| written.batch.shape.data > 1 && written.runs.len() > 1)
        .unwrap();
    let columns = FIXED_BYTES;
    let runs = FIXED_BYTES + written.columns.len() * COLUMN_BYTES;
    let table: [(&str, usize, &[u8]); 9] = [
        ("a column less than the data needs", 68, &[0]),
        ("more columns than members", 69, &[63]),
        ("more blocks than the runs have", 64, &[0xff]),
        ("more runs than there is room for", 72, &[0xff]),
        ("another length", 76, &[0xff, 0x0f]),
        ("a holder beyond all positions", columns + 4, &[64]),
        ("the same holder twice", columns + 4, &[62]),
        ("a run without blocks", runs + 8, &[0, 0, 0, 0]),
        ("a run beyond the last block", runs, &[0xff; 8]),
    ];
    for (rule, at, value) in table {
        let mut bytes = written.encode();
        bytes[at..at + value.len()].copy_from_slice(value);
        let checksum = checksum_of(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(StageHeader::decode(&bytes), None, "{rule}");
    }
}

#[test]
fn stage_descriptors_round_trip() {
    let descriptor = StageDescriptor {
        array: Uuid([7; 16]),
        nonce: 9,
        generation: 4,
        holder: MemberIndex(63),
        stage_bytes: BYTES_MIN,
    };
    let bytes = descriptor.encode();
    assert_eq!(StageDescriptor::decode(&bytes), Ok(descriptor));
    for at in 0..bytes.len() {
        let mut changed = bytes;
        changed[at] ^= 1 << (at % 8);
        assert!(StageDescriptor::decode(&changed).is_err(), "byte {at}");
    }
    let refused: [(usize, &[u8]); 5] = [
        (12, &[0; 4]),
        (12, &[1]),
        (16, &[0; 16]),
        (40, &[0; 8]),
        (48, &[64]),
    ];
    for (at, value) in refused {
        let mut page = Page(bytes);
        page.set(at, value);
        let decoded = StageDescriptor::decode(&page.seal());
        assert!(matches!(decoded, Err(DecodeError::Invalid { .. })), "{at}");
    }
}

/// Segments follow one another behind the pages, within the stage, and hold any column.
#[test]
fn segments_fit_the_stage() {
    for block_size in [BlockSize::B512, BlockSize::B4096] {
        assert_eq!(StageLayout::new(BYTES_MIN - 1, block_size), None);
        for stage_bytes in [BYTES_MIN, 5 << 20, (5 << 20) + 4096, SharedAreas::BYTES_MAX] {
            let layout = StageLayout::new(stage_bytes, block_size).unwrap();
            let longest = layout.header_blocks() + layout.column_blocks_max();
            assert!(layout.segment_blocks() >= longest);
            assert!(layout.tail_place(1) + layout.header_blocks() <= layout.segment_place(0));
            for segment in 0..STAGE_SEGMENTS {
                let (first, blocks) = (layout.segment_place(segment), layout.segment_blocks());
                assert_eq!(layout.segment_of(first, blocks), Some(segment));
                assert_eq!(layout.segment_of(first + 1, blocks), None);
                assert_eq!(layout.segment_of(first + blocks - 1, 1), Some(segment));
            }
            let end = layout.segment_place(7) + layout.segment_blocks();
            assert_eq!(layout.segment_of(end, 1), None);
            assert_eq!(layout.segment_of(layout.segment_place(0) - 1, 1), None);
            assert!(end * block_size.bytes() <= stage_bytes);
        }
    }
}

/// From version 1's lengths: what the log leaves of the journal area, once that is long enough.
#[test]
fn a_stage_takes_the_room_behind_the_log() {
    let mib = 1_u32 << 20;
    let table = [(1_u64, 0), (2, 0), (3, 16), (4, 32), (16, 224), (1024, 224)];
    for (gib, expected) in table {
        let device = areas_for(gib << 30, BlockSize::B4096, MemberIndex(0)).unwrap();
        let devices = [device];
        let mut shared = SharedAreas::of(&devices);
        let bytes = StageLayout::room_bytes(&devices, &shared);
        assert_eq!(bytes / mib, expected, "{gib} GiB");
        shared.stage_bytes = bytes;
        assert!(shared.fit(&devices[0]), "{gib} GiB");
        shared.stage_bytes += 4096;
        assert!(!shared.fit(&devices[0]), "{gib} GiB");
        let area = devices[0].area(AreaKind::JOURNAL).unwrap();
        let start = StageLayout::start(&devices[0], &shared, BlockSize::B4096).unwrap();
        let end = start.0 * 4096 + u64::from(bytes);
        assert!(end <= area.offset_bytes + area.length_bytes);
    }
}

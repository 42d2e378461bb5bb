//! The stage with a scripted caller: what each input leads to.

use super::*;
use core::fmt::Write as _;
use spindles_block::{BufferId, BufferSlice, Compute};

fn setup() -> Setup {
    let bytes = (16 << 10) + (8 << 20);
    Setup {
        array: Uuid([1; 16]),
        nonce: 7,
        layout: StageLayout::new(bytes, BlockSize::B4096).expect("long enough"),
        holders: 6,
        parity_max: 2,
        number: 4 << 32,
        memory: BufferSlice {
            buffer: BufferId(5),
            first_block: 0,
        },
        memory_blocks: 64,
        zeros_max: 8,
        writes_max: 8,
        batches_max: 64,
    }
}

const ALL: Context = Context {
    present: MemberSet::all(6),
    slow: MemberSet::EMPTY,
    parity: 2,
};

struct Rig {
    stage: Stage,
    header: Vec<u8>,
    writes: u32,
}

impl Rig {
    fn new() -> Self {
        Self {
            stage: Stage::new(setup()),
            header: vec![0; STAGE_HEADER_BYTES],
            writes: 0,
        }
    }

    fn take(&mut self, block: u64, blocks: u32, kind: StageKind, fua: bool) -> Option<u32> {
        self.writes += 1;
        let id = WriteId(self.writes);
        let block = BlockIndex(block);
        let run = StageRun {
            block,
            blocks,
            kind,
        };
        let slice = self.stage.take(Write { id, run, fua })?;
        if kind == StageKind::Contents {
            self.stage.checksums_of(slice, blocks).fill(id.0);
            self.stage.filled(id);
        }
        Some(slice.first_block)
    }

    fn write(&mut self, block: u64, blocks: u32) -> Option<u32> {
        self.take(block, blocks, StageKind::Contents, false)
    }

    /// Appends a batch. Returns its computations and its writes.
    fn append(&mut self, context: &Context) -> String {
        let mut out = String::new();
        let mut next = self.stage.append(context, &mut self.header);
        while next == Next::Compute {
            let work = self.stage.computation();
            let place = |operand: &Operand| match operand.slice {
                BufferSlice::ZEROS => std::format!("{}=0", operand.index),
                slice => std::format!("{}={}", operand.index, slice.first_block),
            };
            let from: Vec<String> = work.sources.iter().map(place).collect();
            let to: Vec<String> = work.targets.iter().map(place).collect();
            write!(
                out,
                "{:?} {}: {}",
                work.compute,
                work.blocks,
                from.join(" ")
            )
            .unwrap();
            write!(out, " > {}; ", to.join(" ")).unwrap();
            if work.compute == Compute::Checksum {
                self.stage.checksums_mut().fill(99);
            }
            next = self.stage.computed(&mut self.header);
        }
        if next != Next::Write {
            return std::format!("{next:?}");
        }
        while let Some(write) = self.stage.next_column() {
            let at = (write.to.holder.0, write.to.place);
            let slot = write.contents.first_block;
            let fua = if write.fua { " fua" } else { "" };
            write!(out, "{}@{}+{} {slot}{fua}, ", at.0, at.1, write.blocks).unwrap();
        }
        out
    }

    /// Answers the writes of all columns. Returns the writes that are answered.
    fn done(&mut self, columns: u32) -> Vec<u32> {
        for column in 1..=columns {
            let event = self.stage.column_done(true, NOW);
            let is_last = column == columns;
            assert_eq!(
                event == BatchEvent::Answered,
                is_last,
                "{column}: {event:?}"
            );
        }
        core::iter::from_fn(|| self.stage.next_answered().map(|id| id.0)).collect()
    }

    fn directory(&self) -> Directory {
        Directory::of(&StageHeader::decode(&self.header).expect("it was encoded"))
    }
}

/// One write waits: copies on three holders, with no computation. Those that wait together share a
/// batch, and runs that follow each other are one.
#[test]
fn writes_that_wait_form_one_batch() {
    let mut rig = Rig::new();
    assert_eq!(rig.append(&ALL), "Nothing");
    assert_eq!(rig.write(100, 1), Some(0));
    assert_eq!(rig.append(&ALL), "0@4+1 0, 1@4+1 0, 2@4+1 0, ");
    assert_eq!(rig.write(7, 2), Some(1));
    assert_eq!(rig.write(9, 3), Some(3));
    assert_eq!(rig.take(50, 4, StageKind::Zeros, false), Some(0));
    assert_eq!(rig.append(&ALL), "Nothing", "one batch at a time");
    assert!(rig.stage.cover().is_empty(), "not answered");
    assert_eq!(rig.done(3), [1]);
    assert!(rig.stage.cover().touches(BlockIndex(100), 1));
    // Five blocks in three columns, the last shorter; parity lies behind the memory.
    let expected = "Solve 1: 0=1 1=3 2=5 > 3=64 4=66; Solve 1: 0=2 1=4 2=0 > 3=65 4=67; \
                    Checksum 2: 3=64 4=66 > ; \
                    0@6+2 1, 1@6+2 3, 2@6+1 5, 3@4+2 64, 4@4+2 66, ";
    assert_eq!(rig.append(&ALL), expected);
    let directory = rig.directory();
    let runs: Vec<(u64, u32)> = directory
        .runs
        .iter()
        .map(|run| (run.block.0, run.blocks))
        .collect();
    assert_eq!(runs, [(7, 5), (50, 4)]);
    assert_eq!(directory.checksums, [2, 2, 3, 3, 3, 99, 99, 99, 99]);
    assert_eq!(rig.done(5), [2, 3, 4]);
    let cut: Vec<(u32, Option<Contents>)> = rig
        .stage
        .cover()
        .cut(BlockIndex(5), 48)
        .map(|cut| (cut.blocks, cut.contents))
        .collect();
    let slot = Contents::Slot(1);
    let expected = [
        (2, None),
        (5, Some(slot)),
        (38, None),
        (3, Some(Contents::Zeros)),
    ];
    assert_eq!(cut, expected);
}

/// A holder fails: the batch is written again, with another number and without that holder.
#[test]
fn a_batch_is_written_again_after_a_holder_failed() {
    let mut rig = Rig::new();
    rig.take(100, 1, StageKind::Contents, true);
    assert_eq!(rig.append(&ALL), "0@4+1 0 fua, 1@4+1 0 fua, 2@4+1 0 fua, ");
    let first = rig.directory().batch.number;
    assert_eq!(rig.stage.column_done(true, NOW), BatchEvent::Waits);
    assert_eq!(rig.stage.column_done(false, NOW), BatchEvent::Waits);
    assert_eq!(rig.stage.column_done(true, NOW), BatchEvent::Again);
    assert!(rig.stage.cover().is_empty() && rig.stage.next_answered().is_none());
    let context = Context {
        present: MemberSet::from_bits(0b11_1101),
        parity: 1,
        ..ALL
    };
    assert_eq!(rig.append(&context), "0@6+1 0 fua, 2@6+1 0 fua, ");
    assert_eq!(rig.directory().batch.number, first + 1);
    assert_eq!(rig.done(2), [1]);
    assert!(rig.stage.is_durable(first + 1) == rig.stage.is_durable(first));
    let newest = rig.stage.take_to_place(BlockIndex(100)).expect("staged");
    assert_eq!(newest.number, first + 1);
    rig.stage.placed(BlockIndex(100), newest.number, true);
    assert!(rig.stage.begin_release(true).is_some() && rig.stage.release_flushed(true));
    let mut columns = [StageColumn::NONE; 5];
    let tail = rig
        .stage
        .tail_header(context.present, &mut columns, &mut rig.header);
    assert_eq!(tail, first + 2);
    rig.stage.recorded();
    assert!(rig.stage.is_empty() && rig.stage.cover().is_empty() && rig.stage.fill() == 0);
}

#[test]
fn a_batch_needs_enough_holders() {
    let mut rig = Rig::new();
    rig.write(100, 1);
    let few = Context {
        present: MemberSet::from_bits(0b11),
        ..ALL
    };
    assert_eq!(rig.append(&few), "TooFew");
    let slow = Context {
        slow: MemberSet::from_bits(0b0101),
        ..ALL
    };
    assert_eq!(rig.append(&slow), "1@4+1 0, 3@4+1 0, 4@4+1 0, ");
}

/// What does not fit is an ordinary write: nothing stays reserved for it.
#[test]
fn writes_without_room_are_refused() {
    let mut rig = Rig::new();
    assert_eq!(rig.write(0, 32), Some(0));
    assert_eq!(rig.write(100, 30), Some(32));
    assert_eq!(rig.write(200, 3), None, "memory");
    assert_eq!(rig.write(200, 2), Some(62));
    assert_eq!(rig.take(300, 9, StageKind::Zeros, false), None, "entries");
    for _ in 0..5 {
        assert!(rig.take(300, 1, StageKind::Zeros, false).is_some());
    }
    assert_eq!(rig.take(300, 1, StageKind::Zeros, false), None, "writes");
    assert!(rig.append(&ALL).contains("@4+"));
}

/// A client's flush covers batches that were answered before it.
#[test]
fn a_flush_goes_to_holders_with_volatile_columns() {
    let mut rig = Rig::new();
    rig.write(1, 1);
    rig.append(&ALL);
    assert_eq!(rig.stage.flush(), (MemberSet::EMPTY, 0));
    rig.done(3);
    let number = rig.directory().batch.number;
    let (holders, mark) = rig.stage.flush();
    assert_eq!((holders, mark), (MemberSet::from_bits(0b111), number));
    rig.write(2, 1);
    rig.append(&ALL);
    rig.done(3);
    rig.stage.flushed(mark);
    assert!(rig.stage.is_durable(number) && !rig.stage.is_durable(number + 1));
    rig.take(3, 1, StageKind::Contents, true);
    rig.append(&ALL);
    assert_eq!(rig.directory().batch.durable, number);
    rig.done(3);
    assert_eq!(rig.stage.flush().0, MemberSet::from_bits(0b111));
    assert!(
        !rig.stage.is_durable(number + 2),
        "one before it is not durable"
    );
}

/// After opening nothing is allocated: writes, batches, placing, releases.
#[test]
fn the_stage_allocates_nothing() {
    let mut stage = Stage::new(setup());
    let mut header = vec![0; STAGE_HEADER_BYTES];
    let mut columns = [StageColumn::NONE; 6];
    let mut blocks = Vec::with_capacity(64);
    let mut seed = 1_u64;
    let (mut released, mut batches) = (0, 0);
    let allocations = allocation_counter::measure(|| {
        for write in 0..20_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let id = WriteId(write);
            let zeros = seed >> 60 == 0;
            let run = StageRun {
                block: BlockIndex(seed >> 40 & 63),
                blocks: 1 + u32::try_from(seed >> 50 & 7).expect("few"),
                kind: if zeros {
                    StageKind::Zeros
                } else {
                    StageKind::Contents
                },
            };
            let fua = seed >> 33 & 1 == 1;
            if stage.take(Write { id, run, fua }).is_some() && !zeros {
                stage.filled(id);
            }
            let mut next = stage.append(&ALL, &mut header);
            while next == Next::Compute {
                next = stage.computed(&mut header);
            }
            if next == Next::Write {
                batches += 1;
                let mut count = 0;
                while stage.next_column().is_some() {
                    count += 1;
                }
                for _ in 0..count {
                    stage.column_done(true, NOW);
                }
                while stage.next_answered().is_some() {}
            }
            if stage.fill() < 128 {
                continue;
            }
            let most = blocks.capacity();
            stage.staged_from(BlockIndex(seed >> 41 & 63), most, &mut blocks);
            for block in &blocks {
                let newest = stage.take_to_place(*block).expect("staged");
                stage.placed(*block, newest.number, true);
            }
            if stage.begin_release(true).is_some() && stage.release_flushed(true) {
                stage.tail_header(ALL.present, &mut columns, &mut header);
                stage.recorded();
                released += 1;
            }
        }
    });
    assert_eq!(allocations.count_total, 0);
    assert!(batches > 10_000 && released > 1_000, "{batches} {released}");
}

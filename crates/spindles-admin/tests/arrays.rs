//! Arrays and nests of arrays on real backends, compared with a plain vector.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use crate::common;

use common::{Loop, pattern, place, run, skip};
use spindles_admin::plain::{self, PlainOptions};
use spindles_array::Target;
use spindles_block::{BufferId, BufferSlice, MemberIndex, Operation, Reply, Request};
use spindles_device::{IoChoice, OpenOptions};
use spindles_engine::Command;
use spindles_layout::Expression;
use std::path::Path;

const ARRAYS: &[&str] = &[
    "concat(2)",
    "raid0(3)",
    "raid1(2)",
    "raid1(3)",
    "raid10(4)",
    "raid10:far2(3)",
    "raid10:offset2(3)",
    "raid4(4)",
    "raid5(4)",
    "raid5:left-asymmetric(3)",
    "raid6(5)",
    "raid7(6)",
    "raid0(raid5(3),raid5(3))",
    "raid1(raid0(2),raid0(2))",
    "raid5(raid1(2),raid0(2),concat(2))",
    "raid6(raid5(3),raid5(3),raid5(3),raid1(2))",
];

/// Fewer arrays: files are slow, and only the level below the arrays differs.
const ON_FILES: &[&str] = &[
    "raid10:far2(3)",
    "raid6(5)",
    "raid5(raid1(2),raid0(2),concat(2))",
];

fn open(
    array: &str,
    options: &PlainOptions,
    mut name: impl FnMut(&str) -> String,
) -> Box<dyn Target> {
    let expression = Expression::parse_counted(array).unwrap();
    let expression = expression.with_leaves(&mut name);
    plain::open(&expression, options).unwrap().target
}

fn options(io: IoChoice) -> PlainOptions {
    PlainOptions {
        open: OpenOptions {
            io,
            requests_max: 16,
            ..OpenOptions::default()
        },
        chunk_bytes: Some(16 << 10),
        ..PlainOptions::default()
    }
}

/// A target with a vector of its expected contents.
struct Model<'a> {
    target: &'a mut dyn Target,
    buffer: BufferId,
    all: u32,
    bytes: Vec<u8>,
    random: u64,
}

impl<'a> Model<'a> {
    fn new(target: &'a mut dyn Target) -> Self {
        let all = u32::try_from(target.facts().blocks).unwrap();
        let buffer = target.allocate(all);
        let bytes = vec![0; usize::try_from(target.facts().bytes()).unwrap()];
        Self {
            target,
            buffer,
            all,
            bytes,
            random: 42,
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(99);
        u32::try_from((self.random >> 33) % u64::from(bound)).unwrap()
    }

    /// Writes of many kinds at once that don't overlap. With `fail`, that member fails while they
    /// are in flight. Returns true if the level tolerates that.
    fn batch(&mut self, seed: u64, mut fail: Option<MemberIndex>) -> bool {
        let mut let_go = false;
        let mut block = self.below(16).min(self.all - 1);
        let mut in_flight = 0;
        while block < self.all {
            let blocks = (1 + self.below(24)).min(self.all - block);
            let kind = self.below(8);
            let bytes = usize::try_from(block).unwrap() * 4096;
            let length = usize::try_from(blocks).unwrap() * 4096;
            let range = bytes..bytes + length;
            let place = BufferSlice {
                buffer: self.buffer,
                first_block: block,
            };
            let (operation, buffer) = match kind {
                0 => (Operation::Discard, BufferSlice::NONE),
                1 => (Operation::WriteZeroes { fua: false }, BufferSlice::NONE),
                2 => (Operation::WriteZeroes { fua: true }, BufferSlice::NONE),
                3 => (Operation::Write { fua: true }, place),
                _ => (Operation::Write { fua: false }, place),
            };
            if kind < 3 {
                self.bytes[range].fill(0);
            } else {
                let data = pattern(seed + u64::from(block), length);
                self.bytes[range.clone()].copy_from_slice(&data);
                self.target.buffer_mut(self.buffer)[range].copy_from_slice(&data);
            }
            let request = Request {
                token: u64::from(block),
                operation,
                block: spindles_block::BlockIndex(u64::from(block)),
                blocks,
                buffer,
            };
            while self.target.submit(request).is_err() {
                in_flight -= 1;
                assert_eq!(self.target.poll(true).unwrap().result, Ok(()));
            }
            in_flight += 1;
            if in_flight == 6
                && let Some(member) = fail.take()
            {
                let_go = self.target.command(Command::Fail(member)).is_ok();
            }
            block += blocks + self.below(32);
        }
        while let Some(Reply { result, .. }) = self.target.poll(true) {
            in_flight -= 1;
            assert_eq!(result, Ok(()));
        }
        assert_eq!(in_flight, 0);
        let_go
    }

    /// Reads everything, in large and in small pieces.
    fn compare(&mut self) {
        let name = self.target.facts().name.clone();
        let mut pieces = vec![64];
        pieces.push(self.target.facts().request_blocks_max.min(self.all));
        for piece in pieces {
            self.target.buffer_mut(self.buffer).fill(0xEE);
            let mut block = 0;
            while block < self.all {
                let blocks = piece.min(self.all - block);
                let place = BufferSlice {
                    buffer: self.buffer,
                    first_block: block,
                };
                run(
                    self.target,
                    Operation::Read,
                    u64::from(block),
                    blocks,
                    place,
                )
                .unwrap();
                block += blocks;
            }
            assert!(self.target.buffer(self.buffer) == self.bytes, "{name}");
        }
    }
}

/// Checks an array that is healthy, and then without each member that the level can lose.
fn check(array: &str, options: &PlainOptions, folder: &Path) {
    let bytes = 1 << 20;
    let mut target = open(array, options, |index| match options.open.io {
        IoChoice::Auto => "mem:1M".to_owned(),
        io => {
            let path = folder.join(format!("{array}-{io:?}-{index}").replace('/', ""));
            std::fs::File::create_new(&path)
                .unwrap()
                .set_len(bytes)
                .unwrap();
            path.to_str().unwrap().to_owned()
        }
    });
    let facts = target.facts().clone();
    let members = facts.array.as_ref().unwrap().members;
    let devices = facts.devices.len();
    assert_eq!(target.counters().devices.len(), devices);
    let mut model = Model::new(target.as_mut());
    model.compare();
    for seed in 0..3 {
        model.batch(seed * 1000, None);
        run(model.target, Operation::Flush, 0, 0, BufferSlice::NONE).unwrap();
    }
    model.compare();
    let mut lost = 0;
    for member in 0..members {
        let seed = u64::from(member) * 1000;
        if model.batch(seed + 7, Some(MemberIndex(member))) {
            lost += 1;
            model.compare();
            model.batch(seed + 8, None);
            model.compare();
        }
    }
    let redundancy = facts.array.as_ref().unwrap().redundancy;
    assert!(lost >= redundancy.min(1), "{array}");
    let counters = model.target.counters().total();
    assert_eq!(counters.errors, 0);
    assert!(counters.bytes_written >= facts.bytes() / 4);
    target.close().unwrap();
}

#[test]
fn arrays_in_memory_return_written_data() {
    let folder = tempfile::tempdir().unwrap();
    for array in ARRAYS {
        check(array, &options(IoChoice::Auto), folder.path());
    }
}

#[test]
fn arrays_on_files_return_written_data() {
    for io in [IoChoice::Uring, IoChoice::Threads] {
        for array in ON_FILES {
            let folder = tempfile::tempdir().unwrap();
            check(array, &options(io), folder.path());
        }
    }
}

/// A real device with real errors: a loop device whose file was truncated. Its copy serves the
/// reads.
#[test]
fn real_errors_are_read_around() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = std::fs::File::create_new(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let device = match Loop::new(&path, 4096) {
        Ok(device) => device,
        Err(reason) => return skip("real_errors_are_read_around", &reason),
    };
    for io in [IoChoice::Uring, IoChoice::Threads] {
        file.set_len(1 << 20).unwrap();
        let expression = Expression::parse(&format!("raid1({},mem:1M)", device.0)).unwrap();
        let mut target = plain::open(&expression, &options(io)).unwrap().target;
        let buffer = target.allocate(256);
        let all = place(buffer);
        let data = pattern(4, 1 << 20);
        target.buffer_mut(buffer).copy_from_slice(&data);
        run(target.as_mut(), Operation::Write { fua: true }, 0, 256, all).unwrap();
        file.set_len(512 << 10).unwrap();
        for _ in 0..4 {
            target.buffer_mut(buffer).fill(0);
            run(target.as_mut(), Operation::Read, 0, 256, all).unwrap();
            assert!(target.buffer(buffer) == data);
        }
        assert!(target.counters().devices[0].errors > 0, "{io:?}");
        drop(target);
    }
}

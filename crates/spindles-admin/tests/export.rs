//! Byte access compared with a plain vector, over a target that completes requests in any order.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use crate::common;

use proptest::prelude::*;
use spindles_array::export::{Access, Export, ExportLimits};
use spindles_array::{Busy, Managed, Target, open_device};
use spindles_block::{BlockSize, BufferId, Operation, Reply, Request};
use spindles_device::TargetFacts;
use spindles_device::{CloseError, Counters, OpenOptions};

const BYTES: usize = 64 << 10;

/// Delays requests and runs them in an order derived from a number.
struct Shuffled {
    target: Box<dyn Target>,
    held: Vec<Request>,
    state: u64,
}

impl Target for Shuffled {
    fn facts(&self) -> &TargetFacts {
        self.target.facts()
    }
    fn allocate(&mut self, blocks: u32) -> BufferId {
        self.target.allocate(blocks)
    }
    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.target.buffer(buffer)
    }
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.target.buffer_mut(buffer)
    }
    fn wait_until(&mut self, until: spindles_block::Instant) {
        self.target.wait_until(until);
    }
    fn clock(&self) -> spindles_device::Clock {
        self.target.clock()
    }
    fn now(&self) -> spindles_block::Instant {
        self.target.now()
    }
    fn submit(&mut self, request: Request) -> Result<(), Busy> {
        if self.held.len() == 5 {
            return Err(Busy);
        }
        self.held.push(request);
        Ok(())
    }
    fn poll(&mut self, wait: bool) -> Option<Reply> {
        if self.held.is_empty() {
            return None;
        }
        self.state = self
            .state
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(1);
        let index = usize::try_from(self.state >> 33).unwrap() % self.held.len();
        self.target.submit(self.held.swap_remove(index)).unwrap();
        self.target.poll(wait)
    }

    fn counters(&self) -> Counters {
        self.target.counters()
    }
}

impl Managed for Shuffled {
    fn devices(&self) -> Vec<String> {
        self.target.devices()
    }
    fn close(self: Box<Self>) -> Result<(), CloseError> {
        self.target.close()
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    WriteFua,
    Discard,
    Zeroes,
}

/// A range of bytes cut into adjacent parts, each with an operation.
fn batch() -> impl Strategy<Value = (usize, Vec<(usize, Kind)>)> {
    let kind = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        Just(Kind::Write),
        Just(Kind::WriteFua),
        Just(Kind::Discard),
        Just(Kind::Zeroes)
    ];
    let bytes = prop_oneof![0..40_usize, 0..2000_usize, Just(512), Just(4096)];
    (0..BYTES / 2, prop::collection::vec((bytes, kind), 1..12))
}

fn export(block_size: BlockSize, seed: u64) -> Export {
    let options = OpenOptions {
        block_size: Some(block_size),
        ..OpenOptions::default()
    };
    let target = Box::new(Shuffled {
        target: open_device("mem:64K", &options).unwrap(),
        held: Vec::new(),
        state: seed,
    });
    let limits = ExportLimits {
        slots: 16,
        access_bytes_max: 8192,
    };
    Export::new(target, limits)
}

/// Runs all parts of a batch at once and compares.
fn check(export: &mut Export, model: &mut [u8], seed: u8, start: usize, parts: &[(usize, Kind)]) {
    let mut at = start;
    let mut expected = Vec::new();
    for (index, &(bytes, kind)) in parts.iter().enumerate() {
        let end = (at + bytes).min(BYTES);
        let operation = match kind {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write { fua: false },
            Kind::WriteFua => Operation::Write { fua: true },
            Kind::Discard => Operation::Discard,
            Kind::Zeroes => Operation::WriteZeroes {
                fua: index % 2 == 0,
            },
        };
        let access = Access {
            operation,
            offset_bytes: u64::try_from(at).unwrap(),
            bytes: u32::try_from(end - at).unwrap(),
        };
        let slot = export.take(access).unwrap();
        let fill = seed.wrapping_add(u8::try_from(index).unwrap()) | 1;
        match kind {
            Kind::Read => {}
            Kind::Write | Kind::WriteFua => {
                export.payload(slot).fill(fill);
                model[at..end].fill(fill);
            }
            Kind::Discard | Kind::Zeroes => model[at..end].fill(0),
        }
        export.submit(slot);
        expected.push((slot, at..end, kind));
        at = end;
    }
    while let Some(answer) = export.poll(true) {
        assert_eq!(answer.result, Ok(()));
        let index = expected
            .iter()
            .position(|(slot, ..)| *slot == answer.slot)
            .unwrap();
        let (slot, range, kind) = expected.swap_remove(index);
        if matches!(kind, Kind::Read) {
            assert!(export.payload(slot) == &model[range]);
        }
        export.give_back(slot);
    }
    assert!(expected.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn exports_read_and_write_any_byte_range(
        seed in any::<u64>(),
        small in any::<bool>(),
        batches in prop::collection::vec(batch(), 1..8),
    ) {
        let size = if small { BlockSize::B512 } else { BlockSize::B4096 };
        let mut export = export(size, seed);
        let mut model = vec![0; BYTES];
        for (round, (start, parts)) in batches.iter().enumerate() {
            let fill = u8::try_from(round * 16).unwrap();
            check(&mut export, &mut model, fill, *start, parts);
        }
        let mut all = vec![0xEE; BYTES];
        export.read(0, &mut all).unwrap();
        prop_assert!(all == model);
        export.close().unwrap();
    }
}

#[test]
fn long_accesses_are_split() {
    let mut export = export(BlockSize::B4096, 3);
    let data = common::pattern(5, 30_001);
    export.write(777, &data).unwrap();
    let mut back = vec![0; 30_003];
    export.read(776, &mut back).unwrap();
    assert!(back[1..30_002] == data && back[0] == 0 && back[30_002] == 0);
    export.flush().unwrap();
    assert!(export.read(BYTES as u64 - 1, &mut [0; 2]).is_err());
}

/// A client may receive the payload before it knows the request; `change` then moves the payload to
/// its place.
#[test]
fn an_access_may_change_after_its_payload_arrives() {
    let mut export = export(BlockSize::B4096, 3);
    let access = |operation, offset_bytes, bytes| Access {
        operation,
        offset_bytes,
        bytes,
    };
    let write = Operation::Write { fua: false };
    let longest = export.limits().access_bytes_max;
    for (offset_bytes, moved) in [(8192, 0), (8192 + 777, 4000), (4096 - 1, 4000)] {
        let slot = export.take(access(write, 0, longest)).unwrap();
        let data = common::pattern(offset_bytes, 4000);
        export.payload(slot)[..4000].copy_from_slice(&data);
        let changed = export.change(slot, access(write, offset_bytes, 4000));
        assert_eq!(changed, moved, "at {offset_bytes}");
        export.submit(slot);
        assert!(export.poll(true).unwrap().result.is_ok());
        export.give_back(slot);
        let mut back = vec![0; 4000];
        export.read(offset_bytes, &mut back).unwrap();
        assert!(back == data, "at {offset_bytes}");
        // The bytes received may be no payload at all.
        let slot = export.take(access(write, 0, longest)).unwrap();
        assert_eq!(
            export.change(slot, access(Operation::Read, offset_bytes, 9)),
            0
        );
        export.submit(slot);
        assert!(export.poll(true).unwrap().result.is_ok());
        assert!(export.read_payload(slot) == &data[..9]);
        export.give_back(slot);
    }
}

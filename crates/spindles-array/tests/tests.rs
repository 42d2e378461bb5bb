//! Tests of error handling: devices that fail on demand, alone, under arrays and under nested
//! arrays.

use crate::{NodeId, Stack, Target};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, MemberError, MemberIndex, MemberResult,
    Operation, Request, RequestError,
};
use spindles_device::backends::Inline;
use spindles_device::{BackendFacts, DeviceFacts, OpenOptions};
use spindles_engine::{ArrayState, Config, Event, OutReason};
use spindles_layout::{Geometry, Level, Spec};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

static FAULTY: BackendFacts = BackendFacts {
    name: "faulty",
    outlives_opening: false,
    whole_sectors_only: false,
    is_path: false,
};

const BYTES: usize = 256 << 10;

/// The answers of a device; shared with the test.
#[derive(Debug, Default)]
struct Orders {
    reads: Option<MemberError>,
    /// Limits read errors to these bytes.
    bad: Option<Range<u64>>,
    writes: Option<MemberError>,
    flushes: Option<MemberError>,
}

#[derive(Clone, Debug, Default)]
struct Faults(Rc<RefCell<Orders>>);

#[derive(Debug)]
struct Faulty {
    bytes: Vec<u8>,
    faults: Faults,
}

fn answer(order: Option<MemberError>) -> MemberResult {
    order.map_or(Ok(()), Err)
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

impl Inline for Faulty {
    fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> MemberResult {
        let orders = self.faults.0.borrow();
        let end = offset_bytes + u64::try_from(into.len()).unwrap();
        let hit = |bad: &Range<u64>| offset_bytes < bad.end && bad.start < end;
        if orders.bad.as_ref().is_none_or(hit) {
            answer(orders.reads)?;
        }
        into.copy_from_slice(&self.bytes[index(offset_bytes)..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> MemberResult {
        answer(self.faults.0.borrow().writes)?;
        self.bytes[index(offset_bytes)..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, bytes: u64) -> MemberResult {
        answer(self.faults.0.borrow().writes)?;
        self.bytes[index(offset_bytes)..][..index(bytes)].fill(0);
        Ok(())
    }

    fn flush(&mut self) -> MemberResult {
        answer(self.faults.0.borrow().flushes)
    }
}

/// Returns the configuration of an array without superblocks, for `depth` requests at once.
pub(crate) fn plain_config(spec: &Spec, depth: u32) -> Config {
    let geometry = Geometry::new(spec).unwrap();
    Config::bare(geometry, BlockSize::B4096, depth)
}

/// A stack with devices that fail on demand.
struct Bench {
    stack: Stack,
}

impl Bench {
    fn new() -> Self {
        Self::with(&OpenOptions::default())
    }

    fn with(options: &OpenOptions) -> Self {
        let options = OpenOptions {
            requests_max: 8,
            ..options.clone()
        };
        Self {
            stack: Stack::new(&options).unwrap(),
        }
    }

    fn device(&mut self) -> (NodeId, Faults) {
        self.device_that(false)
    }

    /// Adds a device; `zeroes_without_moving_bytes` is one of its facts.
    fn device_that(&mut self, zeroes_without_moving_bytes: bool) -> (NodeId, Faults) {
        let faults = Faults::default();
        let facts = DeviceFacts {
            name: "faulty".to_owned(),
            backend: &FAULTY,
            bytes: BYTES.try_into().unwrap(),
            sector_bytes: 512,
            physical_sector_bytes: 512,
            direct: true,
            direct_reason: None,
            rotational: None,
            physical_device: None,
            zeroes_without_moving_bytes,
            thin: false,
        };
        let device = Faulty {
            bytes: vec![0; BYTES],
            faults: faults.clone(),
        };
        (self.stack.add_inline(facts, Box::new(device)), faults)
    }

    fn array(&mut self, level: &str, members: &[NodeId]) -> NodeId {
        let spec = Spec {
            level: Level::by_name(level).unwrap(),
            layout: None,
            chunk_blocks: 2,
            member_blocks: members
                .iter()
                .map(|node| self.stack.blocks(*node))
                .collect(),
        };
        let config = plain_config(&spec, 8);
        let members: Vec<Option<NodeId>> = members.iter().copied().map(Some).collect();
        self.stack.add_array(level, config, &members).unwrap()
    }

    fn open(self, root: NodeId) -> Open {
        let mut target = self.stack.into_target(root);
        let blocks = u32::try_from(target.facts().blocks).unwrap();
        let buffer = target.allocate(blocks);
        Open {
            target,
            buffer,
            blocks,
        }
    }
}

struct Open {
    target: Box<dyn Target>,
    buffer: BufferId,
    blocks: u32,
}

impl Open {
    fn run(&mut self, operation: Operation) -> Result<(), RequestError> {
        let blocks = if operation == Operation::Flush {
            0
        } else {
            self.blocks
        };
        let request = Request {
            token: 1,
            operation,
            block: BlockIndex(0),
            blocks,
            buffer: BufferSlice {
                buffer: self.buffer,
                first_block: 0,
            },
        };
        self.target.submit(request).unwrap();
        self.target.poll(true).unwrap().result
    }

    fn write(&mut self, fill: u8) -> Result<(), RequestError> {
        self.target.buffer_mut(self.buffer).fill(fill);
        self.run(Operation::Write { fua: false })
    }

    /// Reads all blocks, which must hold this byte.
    fn expect(&mut self, fill: u8) {
        self.target.buffer_mut(self.buffer).fill(0xEE);
        self.run(Operation::Read).unwrap();
        assert!(
            self.target
                .buffer(self.buffer)
                .iter()
                .all(|byte| *byte == fill)
        );
    }

    fn events(&mut self) -> Vec<(String, Event)> {
        std::iter::from_fn(|| self.target.next_event()).collect()
    }
}

#[test]
fn a_single_device_returns_its_own_errors() {
    for (error, expected) in [
        (MemberError::Medium, RequestError::BeyondTolerance),
        (MemberError::Gone, RequestError::BeyondTolerance),
        (MemberError::Corrupt, RequestError::Corrupt),
    ] {
        let mut bench = Bench::new();
        let (device, faults) = bench.device();
        let mut open = bench.open(device);
        open.write(1).unwrap();
        faults.0.borrow_mut().reads = Some(error);
        assert_eq!(open.run(Operation::Read), Err(expected));
        assert_eq!(open.target.counters().total().errors, 1);
        faults.0.borrow_mut().flushes = Some(MemberError::Gone);
        let closed = open.target.close().unwrap_err();
        assert_eq!(
            closed.to_string(),
            "faulty: the last writes may not be durable: more is lost than the level survives"
        );
    }
}

/// For benchmarks: a device that can't flush gets no flushes.
#[test]
fn flushes_are_ignored_on_request() {
    let mut bench = Bench::with(&OpenOptions {
        ignore_flushes: true,
        ..OpenOptions::default()
    });
    let (device, faults) = bench.device();
    let mut open = bench.open(device);
    faults.0.borrow_mut().flushes = Some(MemberError::Gone);
    open.write(1).unwrap();
    open.run(Operation::Write { fua: true }).unwrap();
    open.run(Operation::Flush).unwrap();
    open.target.close().unwrap();
}

#[test]
fn an_array_reads_around_bad_blocks_and_survives_a_lost_member() {
    for level in ["raid1", "raid4", "raid5", "raid6", "raid10"] {
        let mut bench = Bench::new();
        let (devices, faults): (Vec<_>, Vec<_>) = (0..4).map(|_| bench.device()).unzip();
        let root = bench.array(level, &devices);
        let mut open = bench.open(root);
        open.write(3).unwrap();
        {
            let mut orders = faults[1].0.borrow_mut();
            orders.reads = Some(MemberError::Medium);
            orders.bad = Some(8192..12288);
        }
        open.expect(3);
        open.events();
        faults[2].0.borrow_mut().writes = Some(MemberError::Gone);
        *faults[1].0.borrow_mut() = Orders::default();
        open.write(4).unwrap();
        open.expect(4);
        let out = Event::MemberOut {
            member: MemberIndex(2),
            reason: OutReason::Error(MemberError::Gone),
        };
        assert!(open.events().contains(&(level.to_owned(), out)), "{level}");
        assert_eq!(open.target.status().unwrap().state, ArrayState::Degraded);
        open.target.close().unwrap();
    }
}

#[test]
fn an_outer_array_recovers_blocks_of_its_inner_array() {
    let mut bench = Bench::new();
    let (inner, faults): (Vec<_>, Vec<_>) = (0..4).map(|_| bench.device()).unzip();
    let left = bench.array("raid0", &inner[..2]);
    let right = bench.array("raid0", &inner[2..]);
    let root = bench.array("raid1", &[left, right]);
    let mut open = bench.open(root);
    open.write(7).unwrap();

    // A read error of a child costs only these blocks, whether bad or corrupt.
    for error in [MemberError::Medium, MemberError::Corrupt] {
        {
            let mut orders = faults[0].0.borrow_mut();
            orders.reads = Some(error);
            orders.bad = Some(8192..12288); // Few enough not to put it out.
        }
        open.expect(7);
        assert_eq!(
            open.target.status().unwrap().state,
            ArrayState::Healthy,
            "{error}"
        );
    }
    faults[0].0.borrow_mut().reads = None;

    // A write error of a child puts it out of the parent.
    faults[3].0.borrow_mut().writes = Some(MemberError::Gone);
    open.write(8).unwrap();
    open.expect(8);
    let out = Event::MemberOut {
        member: MemberIndex(1),
        reason: OutReason::Error(MemberError::Gone),
    };
    assert!(open.events().contains(&("raid1".to_owned(), out)));
    assert_eq!(open.target.status().unwrap().state, ArrayState::Degraded);
}

#[test]
fn errors_beyond_redundancy_are_returned() {
    let mut bench = Bench::new();
    let (devices, faults): (Vec<_>, Vec<_>) = (0..3).map(|_| bench.device()).unzip();
    let root = bench.array("raid5", &devices);
    let mut open = bench.open(root);
    open.write(1).unwrap();
    for faults in &faults[..2] {
        faults.0.borrow_mut().reads = Some(MemberError::Medium);
    }
    assert_eq!(
        open.run(Operation::Read),
        Err(RequestError::BeyondTolerance)
    );
    for faults in &faults[..2] {
        faults.0.borrow_mut().reads = None;
    }
    open.expect(1);
}

#[test]
fn an_array_writes_zeros_for_free_if_all_its_devices_do() {
    let mut bench = Bench::new();
    let devices = [true, true, true, true, true, false].map(|zeroes| bench.device_that(zeroes).0);
    let inner = bench.array("raid0", &devices[..2]);
    let other = bench.array("raid0", &devices[2..4]);
    let mixed = bench.array("raid0", &devices[4..]);
    let outer = bench.array("raid1", &[inner, other]);
    let zeroes = [inner, mixed, outer].map(|node| bench.stack.zeroes(node));
    assert_eq!(zeroes, [true, false, true]);
}

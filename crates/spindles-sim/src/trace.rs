//! Records a run without faults step by step, one request after another. Any driver that replays
//! the steps must produce the same bytes.

use crate::create;
use crate::disk::Disk;
use crate::options::Options;
use crate::world::World;
use crate::{opening, session};
use spindles_block::{BufferId, BufferSlice, Operation};

/// The recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The bytes of every disk before, with superblocks.
    pub before: Vec<Vec<u8>>,
    /// The requests, in order.
    pub steps: Vec<TraceStep>,
    /// The bytes of every disk after the array was closed.
    pub after: Vec<Vec<u8>>,
}

/// One request, answered without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The operation.
    pub operation: Operation,
    /// The first block of the array.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// The bytes written or read. Empty for other operations.
    pub bytes: Vec<u8>,
}

/// Carries out the first session of a run without its faults. Panics if the engine breaks a
/// promise: `run` then reports which one.
pub fn trace(options: &Options) -> Trace {
    let mut world = World::new(options.clone(), create::blank(options), Vec::new(), false);
    create::write_superblocks(&mut world);
    let before = disks(&world);
    assert!(opening::open(&mut world), "a new array can be opened");
    session::drain(&mut world);
    let requests = options
        .sessions
        .first()
        .map_or(0, |session| session.requests);
    let steps = (0..requests).map(|_| step(&mut world)).collect();
    session::close(&mut world);
    assert_eq!(
        world.log.failure(),
        None,
        "nothing goes wrong without faults"
    );
    Trace {
        before,
        steps,
        after: disks(&world),
    }
}

fn disks(world: &World) -> Vec<Vec<u8>> {
    let disks = world.stack.disks.iter();
    disks.map(Disk::contents).collect()
}

fn step(world: &mut World) -> TraceStep {
    let wish = world.client.wish();
    let request = world.ask_for(wish);
    let written = bytes(world, request.buffer.buffer, request.blocks);
    session::drain(world);
    let bytes = match request.operation {
        Operation::Read => bytes(world, request.buffer.buffer, request.blocks),
        _ => written,
    };
    TraceStep {
        operation: request.operation,
        block: request.block.0,
        blocks: request.blocks,
        bytes,
    }
}

fn bytes(world: &World, buffer: BufferId, blocks: u32) -> Vec<u8> {
    if buffer == BufferId::NONE {
        return Vec::new();
    }
    let bytes = usize::try_from(blocks).expect("small") * world.stack.block_bytes;
    let slice = BufferSlice {
        buffer,
        first_block: 0,
    };
    world.arrays.memory().bytes(slice, bytes)
}

//! A driver that does nothing: every member I/O and every computation is done at once.

use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, Compute, ComputeResult, Instant, MemberIoId,
    MemberResult, MemberSet, Operation, Request, StepId,
};
use spindles_engine::{Busy, Config, Engine, Limits, Output, Persistence, Policy, ReadPolicy};
use spindles_layout::{Geometry, Level, Spec};
use std::hint::black_box;

/// What every array here is made of.
pub(crate) const BLOCK_SIZE: BlockSize = BlockSize::B4096;
pub(crate) const NOW: Instant = Instant(0);
/// The checksum of a block of zeros.
const OF_ZEROS: u32 = 0x2229_2a05;

/// An engine and what it has under way.
pub(crate) struct Null {
    pub(crate) engine: Engine,
    pub(crate) pending: Vec<Pending>,
    pub(crate) replies: u64,
    pub(crate) errors: u64,
}

/// What is under way.
#[derive(Clone, Copy)]
pub(crate) enum Pending {
    Member(MemberIoId),
    Compute(StepId),
}

/// The map of an array of `level` in its usual layout.
pub(crate) fn geometry(level: &'static Level, members: u8, chunk_blocks: u32) -> Geometry {
    let spec = Spec {
        level,
        layout: None,
        chunk_blocks,
        member_blocks: vec![1 << 20; members.into()],
    };
    Geometry::new(&spec).expect("a legal array")
}

impl Null {
    /// Opens an array for `depth` requests in flight.
    pub(crate) fn open(
        geometry: Geometry,
        missing: MemberSet,
        persistence: Option<Persistence>,
        depth: u32,
    ) -> Self {
        let members = usize::from(geometry.members());
        let config = Config {
            geometry,
            block_size: BLOCK_SIZE,
            missing,
            data_start: vec![BlockIndex(256); members],
            persistence,
            clean: true,
            read_only: false,
            look_only: false,
            only_recovers: false,
            tears: false,
            force: false,
            consistency: Policy::by_name("resync").expect("the policy"),
            read_policy: ReadPolicy::by_name("nearest").expect("the policy"),
            write_mostly: MemberSet::EMPTY,
            job_rate: spindles_engine::JOB_RATE,
            faults: spindles_engine::FaultLimits::DEFAULT,
            limits: Limits::for_depth(depth, BLOCK_SIZE),
            scratch: BufferId(0),
            metadata: BufferId(1),
            #[cfg(feature = "canary")]
            mutation: spindles_engine::Mutation::None,
        };
        let mut null = Self {
            engine: Engine::open(NOW, config).expect("the array opens"),
            pending: Vec::with_capacity(1 << 16),
            replies: 0,
            errors: 0,
        };
        null.drain();
        null.run();
        null
    }

    /// Submits a request and leaves what it wants under way.
    pub(crate) fn submit(
        &mut self,
        operation: Operation,
        block: u64,
        blocks: u32,
    ) -> Result<(), Busy> {
        let request = Request {
            token: 0,
            operation,
            block: BlockIndex(block),
            blocks,
            buffer: BufferSlice {
                buffer: BufferId(2),
                first_block: 0,
            },
        };
        self.engine.submit(NOW, request)?;
        self.drain();
        Ok(())
    }

    /// Completes what was begun last, until nothing is under way.
    pub(crate) fn run(&mut self) {
        while let Some(pending) = self.pending.pop() {
            self.complete(pending, Ok(()));
        }
    }

    /// Completes what was taken out of `pending`, a member I/O with `result`.
    pub(crate) fn complete(&mut self, pending: Pending, result: MemberResult) {
        match pending {
            Pending::Member(id) => self.engine.complete_member(NOW, id, result),
            Pending::Compute(id) => {
                let step = black_box(self.engine.step(id));
                if step.compute == Compute::Checksum {
                    // All blocks are zeros.
                    self.engine.checksums_mut(id).fill(OF_ZEROS);
                }
                self.engine.complete_compute(NOW, id, ComputeResult::Done);
            }
        }
        self.drain();
    }

    /// Takes over what the engine wants done.
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Member(io) => self.pending.push(Pending::Member(black_box(io).id)),
                Output::Compute(id) => self.pending.push(Pending::Compute(id)),
                Output::Reply(reply) => {
                    self.replies += 1;
                    self.errors += u64::from(reply.result.is_err());
                }
                Output::Event(_) | Output::Swap(_) => {}
            }
        }
    }
}

//! The engines of a run, their inputs, and the buffers that they work on.

use crate::memory::Memory;
use spindles_block::{
    BufferId, BufferSlice, Compute, ComputeResult, Instant, MemberIo, MemberIoId, MemberResult,
    Operation, Piece, Reply, Request, StepId,
};
use spindles_engine::{Command, CommandError, Engine, Output};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Tokens from here on are the simulator's own.
pub(crate) const OWN_TOKEN: u64 = 1 << 62;

/// An input to an engine.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Submit(usize, Request),
    Member(usize, MemberIoId, MemberResult),
    Computed(usize, StepId, ComputeResult),
    Timeout(usize),
    Command(usize, Command),
    /// The engine was just opened: only carry out its outputs.
    Opened(usize),
}

impl Input {
    fn array(&self) -> usize {
        match *self {
            Self::Submit(array, _)
            | Self::Member(array, ..)
            | Self::Computed(array, ..)
            | Self::Timeout(array)
            | Self::Command(array, _)
            | Self::Opened(array) => array,
        }
    }
}

/// What an engine did with an input.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It took the input.
    Yes,
    /// It was too busy for this request.
    Busy(Request),
    /// It refused the command.
    Refused(CommandError),
}

/// All engines.
#[derive(Debug)]
pub(crate) struct Arrays {
    engines: Vec<Option<Engine>>,
    inputs: VecDeque<Input>,
    /// Arrays whose engine has answered `Closed`, and whether clean.
    closed: Vec<Option<bool>>,
    /// Requests that an array below another was too busy for.
    held: Vec<VecDeque<Request>>,
    /// The requests that the array above sent to each array, by token.
    handed: Vec<BTreeMap<u64, Operation>>,
    /// Replies to requests of the simulator itself.
    own_replies: Vec<Reply>,
    memory: Memory,
    /// Reads of the outermost array's members since its opening, and those that it hedged.
    reads: u64,
    hedged: u64,
}

impl Arrays {
    pub(crate) fn new(arrays: usize, memory: Memory) -> Self {
        Self {
            engines: (0..arrays).map(|_| None).collect(),
            inputs: VecDeque::new(),
            closed: vec![None; arrays],
            held: vec![VecDeque::new(); arrays],
            handed: vec![BTreeMap::new(); arrays],
            own_replies: Vec::new(),
            memory,
            reads: 0,
            hedged: 0,
        }
    }

    fn top(&self) -> usize {
        self.engines.len() - 1
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Returns the engine of an open array.
    pub(crate) fn engine(&self, array: usize) -> &Engine {
        self.engines[array].as_ref().expect("the array is open")
    }

    /// Same as `engine`, but mutable.
    pub(crate) fn engine_mut(&mut self, array: usize) -> &mut Engine {
        self.engines[array].as_mut().expect("the array is open")
    }

    /// Returns true if the array is open.
    pub(crate) fn is_open(&self, array: usize) -> bool {
        self.engines[array].is_some()
    }

    /// Gives an array its engine, and the engine its buffers.
    pub(crate) fn open(&mut self, array: usize, engine: Engine, block_bytes: usize) {
        let scratch = usize::try_from(engine.scratch_blocks()).expect("small");
        *self.memory.whole(Memory::scratch_of(array)) = vec![0; scratch * block_bytes];
        *self.memory.whole(Memory::metadata_of(array)) = vec![0; engine.metadata().len()];
        let members = usize::from(engine.geometry().members());
        let together = usize::try_from(engine.pieces_blocks_max()).expect("small") * members;
        *self.memory.whole(Memory::together_of(array)) = vec![0; together * block_bytes];
        self.engines[array] = Some(engine);
    }

    /// Lends buffers of `blocks` blocks for hedges to the outermost array, which was just opened.
    pub(crate) fn lend(&mut self, buffers: Range<u32>, blocks: u32) {
        let top = self.top();
        for buffer in buffers.map(BufferId) {
            let area = BufferSlice {
                buffer,
                first_block: 0,
            };
            self.engine_mut(top).lend(area, blocks);
        }
    }

    /// Stops all engines.
    pub(crate) fn stop(&mut self) {
        self.inputs.clear();
        self.own_replies.clear();
        self.engines.fill_with(|| None);
        self.held.fill_with(VecDeque::new);
        self.handed.fill_with(BTreeMap::new);
    }

    /// Queues an input.
    pub(crate) fn push(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    /// Gives the next input to its engine. Drops inputs of engines that crashed. `None` if no
    /// input is left.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<(usize, Taken)> {
        let top = self.top();
        loop {
            let input = self.inputs.pop_front()?;
            let array = input.array();
            let Some(engine) = self.engines[array].as_mut() else {
                continue;
            };
            match input {
                Input::Submit(_, request) => {
                    let taken = if array == top && request.token < OWN_TOKEN {
                        engine.submit_exchangeable(now, request)
                    } else {
                        engine.submit(now, request)
                    };
                    if taken.is_err() {
                        return Some((array, Taken::Busy(request)));
                    }
                }
                Input::Member(_, id, result) => {
                    if let Some(read) = engine.metadata_read(id).filter(|_| result.is_ok()) {
                        let bytes = self.memory.bytes(read.buffer, read.bytes.len());
                        read.bytes.copy_from_slice(&bytes);
                    }
                    engine.complete_member(now, id, result);
                }
                Input::Computed(_, step, result) => engine.complete_compute(now, step, result),
                Input::Timeout(_) => engine.handle_timeout(now),
                Input::Command(_, command) => {
                    if let Err(error) = engine.command(now, command) {
                        return Some((array, Taken::Refused(error)));
                    }
                }
                Input::Opened(_) => {}
            }
            return Some((array, Taken::Yes));
        }
    }

    /// Returns the next output of an engine.
    pub(crate) fn poll_output(&mut self, array: usize) -> Option<Output> {
        self.engines[array].as_mut()?.poll_output()
    }

    /// Returns when the timer of an engine expires next.
    pub(crate) fn poll_timeout(&self, array: usize) -> Option<Instant> {
        self.engines[array].as_ref()?.poll_timeout()
    }

    /// Carries out a computation that an engine requests. Returns its kind and its result.
    pub(crate) fn compute(&mut self, array: usize, id: StepId) -> (Compute, ComputeResult) {
        let engine = self.engines[array].as_mut().expect("it asked");
        let step = engine.step(id);
        let compute = step.compute;
        let (result, checksums) = self.memory.compute(&step);
        if compute == Compute::Checksum {
            engine.checksums_mut(id).copy_from_slice(&checksums);
        }
        (compute, result)
    }

    /// Returns the memory of a member I/O. Copies the metadata that an engine is about to write:
    /// the engine may change it meanwhile.
    pub(crate) fn take_pieces(&mut self, array: usize, io: &MemberIo) -> Vec<Piece> {
        let pieces: Vec<Piece> = self.engine(array).pieces(io).collect();
        let metadata = Memory::metadata_of(array);
        let is_metadata = |piece: &&Piece| piece.buffer.buffer == metadata;
        for piece in pieces.iter().filter(is_metadata) {
            if io.operation.is_write() {
                let engine = self.engines[array].as_ref().expect("the array is open");
                let bytes = engine.metadata_of(piece.buffer, piece.blocks);
                self.memory
                    .bytes_mut(piece.buffer, bytes.len())
                    .copy_from_slice(bytes);
            }
        }
        pieces
    }

    /// Turns a member I/O of one array into a request to the array below. Several pieces of memory
    /// are put together first.
    pub(crate) fn hand_down(&mut self, array: usize, below: usize, io: MemberIo, pieces: &[Piece]) {
        let mut buffer = io.buffer;
        if buffer == BufferSlice::PIECES {
            let bytes = self.memory.bytes_of(pieces);
            buffer = BufferSlice {
                buffer: Memory::together_of(array),
                first_block: u32::from(io.member.0) * self.engine(array).pieces_blocks_max(),
            };
            self.memory
                .bytes_mut(buffer, bytes.len())
                .copy_from_slice(&bytes);
        }
        let request = Request {
            token: u64::from(io.id.0),
            operation: io.operation,
            block: io.block,
            blocks: io.blocks,
            buffer,
        };
        self.handed[below].insert(request.token, io.operation);
        self.push(Input::Submit(below, request));
    }

    /// Keeps a request that an array below another was too busy for.
    pub(crate) fn hold(&mut self, array: usize, request: Request) {
        self.held[array].push_back(request);
    }

    /// Takes back a request that was handed down. Returns its operation.
    pub(crate) fn handed_back(&mut self, array: usize, token: u64) -> Option<Operation> {
        self.handed[array].remove(&token)
    }

    /// Queues a request that the array was too busy for.
    pub(crate) fn release(&mut self, array: usize) {
        if let Some(request) = self.held[array].pop_front() {
            self.push(Input::Submit(array, request));
        }
    }

    /// Keeps the reply to a request of the simulator itself.
    pub(crate) fn own_replied(&mut self, reply: Reply) {
        self.own_replies.push(reply);
    }

    /// Returns true if there is a reply to a request of the simulator itself.
    pub(crate) fn has_own_reply(&self) -> bool {
        !self.own_replies.is_empty()
    }

    /// Takes a reply to a request of the simulator itself.
    pub(crate) fn take_own_reply(&mut self) -> Option<Reply> {
        self.own_replies.pop()
    }

    /// Records whether an array was closed, and whether clean.
    pub(crate) fn set_closed(&mut self, array: usize, closed: Option<bool>) {
        self.closed[array] = closed;
    }

    /// Returns whether an array was closed clean. `None` if it was not closed.
    pub(crate) fn closed(&self, array: usize) -> Option<bool> {
        self.closed[array]
    }

    /// Returns true if all arrays were closed clean.
    pub(crate) fn all_closed_clean(&self) -> bool {
        self.closed.iter().all(|closed| *closed == Some(true))
    }

    /// Returns true if an array was closed, but not clean.
    pub(crate) fn any_closed_unclean(&self) -> bool {
        self.closed.contains(&Some(false))
    }

    /// Resets the counts of the outermost array's reads.
    pub(crate) fn restart_counts(&mut self) {
        (self.reads, self.hedged) = (0, 0);
    }

    /// Counts a read of a member of the outermost array.
    pub(crate) fn count_read(&mut self) {
        self.reads += 1;
    }

    /// Returns the hedged reads since the last call, all hedged reads, and all reads.
    pub(crate) fn count_hedged(&mut self) -> (u64, u64, u64) {
        let hedged = self.engine(self.top()).hedged_reads();
        let before = std::mem::replace(&mut self.hedged, hedged);
        (hedged - before, hedged, self.reads)
    }
}

//! Moves requests and results between arrays and devices: requests on their way down, results on
//! their way up. One thread, no recursion from array to array: an immediate result waits in a queue
//! until the engine above is drained.

use crate::compute;
use crate::device_io::{DeviceIndex, DeviceIo};
use crate::members::Members;
use spindles_block::{
    BufferId, BufferSlice, Computation, Compute, ComputeResult, Instant, MemberError, MemberIndex,
    MemberIo, MemberIoId, MemberResult, Operand, Operation, Piece, Reply, Request, RequestError,
    StepId,
};
use spindles_device::queues::Wait;
use spindles_device::transfer::Tag;
use spindles_device::{Clock, OpenError, OpenOptions};
use spindles_engine::{Command, CommandError, Config, Engine, Event, Output, PIECES_MAX};
use spindles_format::Uuid;
use std::collections::VecDeque;
use std::time::Duration;

/// Inputs between two readings of the clock, at most: a reading costs as much as a small request.
const CLOCK_EVERY: u32 = 64;
/// Compute steps of this many bytes or more first submit pending I/O, so that the members work
/// meanwhile. Such a step takes longer than a system call.
const LONG_STEP_BYTES: u64 = 32 << 10;
/// Events kept until the next call of `next_event`; older ones are dropped.
const EVENTS_MAX: usize = 4096;
/// Owner in the tag of an operation that a client sent directly to a device.
const CLIENT: u16 = u16::MAX;
/// How long to retry a busy device while arrays are in use: udev probes a device for some
/// milliseconds after it was written.
const BUSY_MEANWHILE: Duration = Duration::from_millis(200);

/// A device or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Device(DeviceIndex),
    Array(ArrayIndex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayIndex(u16);

impl ArrayIndex {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An array with its members and its parent.
#[derive(Debug)]
pub(crate) struct Array {
    engine: Engine,
    name: String,
    members: Vec<Option<Node>>,
    /// The array's separate journal device: `JOURNAL_DEVICE`.
    journal: Option<DeviceIndex>,
    /// True if that device failed while the array was open.
    journal_is_out: bool,
    metadata: BufferId,
    /// Where the pieces of a write to an array in it are put together, for each member; `None`
    /// without such members.
    together: Option<BufferId>,
    /// The outer array, and the position in it. Without an outer array, replies go to the client.
    parent: Option<(ArrayIndex, MemberIndex)>,
    /// Requests of the outer array that wait for room in the engine.
    inbox: VecDeque<Request>,
    closed: Option<bool>,
}

impl Array {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the devices and arrays in its places.
    pub(crate) fn members(&self) -> &[Option<Node>] {
        &self.members
    }

    /// Returns its separate journal device; `None` if the journal lies on the members.
    pub(crate) fn journal(&self) -> Option<DeviceIndex> {
        self.journal
    }

    /// Returns true if the journal device failed while the array was open.
    pub(crate) fn journal_is_out(&self) -> bool {
        self.journal_is_out
    }

    /// Returns the outer array, and the place in it.
    pub(crate) fn parent(&self) -> Option<(ArrayIndex, MemberIndex)> {
        self.parent
    }

    /// Returns true if it was closed cleanly; `None` while it is open.
    pub(crate) fn closed(&self) -> Option<bool> {
        self.closed
    }

    /// Returns true if its superblock names a parent array that is not open here.
    pub(crate) fn is_left_over(&self) -> bool {
        let record = self.engine.record();
        self.parent.is_none() && record.is_some_and(|record| record.parent != Uuid::NIL)
    }

    /// Returns true if at least one member is an array.
    pub(crate) fn holds_arrays(&self) -> bool {
        let is_array = |node: &Option<Node>| matches!(node, Some(Node::Array(_)));
        self.members.iter().any(is_array)
    }
}

/// An input that has not reached its engine yet.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// The inbox may have room in the engine for the parent's next request.
    Deliver(ArrayIndex),
    Member(ArrayIndex, MemberIoId, MemberResult),
    /// A pending compute step. Writes that it makes ready go out before the next step.
    Compute(ArrayIndex, StepId),
}

/// All arrays and devices, and the requests and results between them.
#[derive(Debug)]
pub(crate) struct Carry {
    members: Members,
    arrays: Vec<Array>,
    replies: VecDeque<Reply>,
    events: VecDeque<(ArrayIndex, Event)>,
    /// Set when a member goes out; reset by `lost_members()`.
    lost_members: bool,
    inputs: VecDeque<Input>,
    /// Checksums of one step, until they are copied to an engine.
    checksums: Vec<u32>,
    /// The pieces of memory of one write.
    pieces: Vec<Piece>,
    clock: Clock,
    now: Instant,
    inputs_since: u32,
    /// Tokens of the requests that a client has in flight on devices themselves.
    tokens: Vec<u64>,
    free: Vec<u32>,
}

/// No room for another request.
#[derive(Debug)]
pub(crate) struct Full;

fn tag(owner: u16, device: DeviceIndex, id: u32) -> Tag {
    Tag(u64::from(owner) << 48 | u64::from(device.0) << 32 | u64::from(id))
}

fn low_16(bits: u64) -> u16 {
    u16::try_from(bits & 0xFFFF).expect("16 bits")
}

fn untag(tag: Tag) -> (u16, DeviceIndex, u32) {
    let id = u32::try_from(tag.0 & u64::from(u32::MAX)).expect("32 bits");
    (low_16(tag.0 >> 48), DeviceIndex(low_16(tag.0 >> 32)), id)
}

impl Carry {
    pub(crate) fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        let requests_max = options.requests_max.max(1);
        let capacity = usize::try_from(requests_max).expect("64 bits");
        let clock = Clock::Real;
        Ok(Self {
            members: Members::new(options)?,
            arrays: Vec::new(),
            replies: VecDeque::with_capacity(capacity),
            events: VecDeque::with_capacity(EVENTS_MAX),
            lost_members: false,
            inputs: VecDeque::new(),
            checksums: Vec::new(),
            pieces: Vec::with_capacity(PIECES_MAX),
            now: clock.now(),
            clock,
            inputs_since: 0,
            tokens: vec![0; capacity],
            free: (0..requests_max).rev().collect(),
        })
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    pub(crate) fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    pub(crate) fn array(&self, index: ArrayIndex) -> &Array {
        &self.arrays[index.index()]
    }

    /// Sets whether space for the devices is scarce.
    pub(crate) fn set_space_is_scarce(&mut self, is_scarce: bool) {
        for array in &mut self.arrays {
            array.engine.set_space_is_scarce(is_scarce);
        }
    }

    /// Returns all arrays, each after its members.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (ArrayIndex, &Array)> {
        let indices = (0..=u16::MAX).map(ArrayIndex);
        indices.zip(&self.arrays)
    }

    /// Opens a device.
    pub(crate) fn add_device(&mut self, name: &str) -> Result<DeviceIndex, OpenError> {
        let busy_timeout = self.members.options().busy_timeout;
        let device = self.members.add(name, busy_timeout)?;
        if let Some(clock) = self.members.modelled().clock() {
            self.clock = clock;
            self.look_at_clock();
        }
        Ok(device)
    }

    /// Opens a device while arrays are in use. Their requests wait until this returns, so it
    /// retries a busy device only briefly.
    pub(crate) fn add_device_meanwhile(&mut self, name: &str) -> Result<DeviceIndex, OpenError> {
        let busy_timeout = self.members.options().busy_timeout.min(BUSY_MEANWHILE);
        self.members.add(name, busy_timeout)
    }

    /// Returns the size of a node.
    pub(crate) fn blocks(&self, node: Node) -> u64 {
        match node {
            Node::Device(device) => self.members.blocks(device),
            Node::Array(array) => self.array(array).engine.geometry().blocks(),
        }
    }

    /// Opens an array over nodes that have no parent yet.
    pub(crate) fn open(
        &mut self,
        name: &str,
        mut config: Config,
        members: &[Option<Node>],
        journal: Option<DeviceIndex>,
    ) -> Result<ArrayIndex, spindles_engine::OpenError> {
        let index = ArrayIndex(u16::try_from(self.arrays.len()).expect("few arrays"));
        assert_ne!(index.0, CLIENT);
        assert_eq!(members.len(), usize::from(config.geometry.members()));
        assert_eq!(config.block_size, self.members.block_size());
        config.scratch = self.members.reserve();
        config.metadata = self.members.reserve();
        let (scratch, metadata) = (config.scratch, config.metadata);
        let inputs = config.limits.ranges + 64;
        self.look_at_clock();
        let engine = Engine::open(self.now, config)?;
        let inputs = usize::try_from(inputs).expect("64 bits") * (members.len() + 4);
        self.inputs.reserve(inputs);
        self.checksums.reserve(engine.checksums_max());
        self.members.modelled().holds_metadata(metadata);
        self.members.provide(scratch, engine.scratch_blocks());
        let block_bytes = usize::try_from(engine.block_size().bytes()).expect("64 bits");
        let metadata_blocks = engine.metadata().len() / block_bytes;
        if engine.pieces_blocks_max() > 0 {
            self.members.prepare_pieces(members.len());
        }
        self.members
            .provide(metadata, u32::try_from(metadata_blocks).expect("few"));
        self.arrays.push(Array {
            engine,
            name: name.to_owned(),
            members: members.to_vec(),
            journal,
            journal_is_out: false,
            metadata,
            together: None,
            parent: None,
            inbox: VecDeque::new(),
            closed: None,
        });
        for (node, member) in members.iter().zip(0..) {
            self.lead_upwards(*node, index, MemberIndex(member));
        }
        self.drain(index);
        self.carry_results();
        Ok(index)
    }

    /// Makes an array that becomes a member send its replies to the parent, `around`.
    fn lead_upwards(&mut self, node: Option<Node>, around: ArrayIndex, member: MemberIndex) {
        let room = self.array(around).engine.member_ios_per_member_max();
        if let Some(Node::Array(child)) = node {
            let child = &mut self.arrays[child.index()];
            assert!(child.parent.is_none(), "a member of one array only");
            child.parent = Some((around, member));
            child.inbox.reserve(usize::try_from(room).expect("64 bits"));
            self.provide_together(around);
        }
    }

    /// Reserves the memory in which the pieces of writes to arrays in an array are put together.
    fn provide_together(&mut self, array: ArrayIndex) {
        let Array {
            engine, together, ..
        } = &mut self.arrays[array.index()];
        let blocks = u32::from(engine.geometry().members()) * engine.pieces_blocks_max();
        if together.is_none() && blocks > 0 {
            let buffer = self.members.reserve();
            self.members.provide(buffer, blocks);
            *together = Some(buffer);
        }
    }

    /// Puts the pieces of a write to an inner array together, because a request has one piece of
    /// memory. A member has one such write at a time.
    fn put_together(&mut self, index: ArrayIndex, member: MemberIndex) -> BufferSlice {
        let array = &self.arrays[index.index()];
        let whole = BufferSlice {
            buffer: array.together.expect("a member is an array"),
            first_block: u32::from(member.0) * array.engine.pieces_blocks_max(),
        };
        let mut target = whole;
        for piece in &self.pieces {
            let operand = |slice| Operand { index: 0, slice };
            let step = Computation {
                compute: Compute::Copy,
                data_chunks: 1,
                parity_chunks: 0,
                blocks: piece.blocks,
                sources: &[operand(piece.buffer)],
                targets: &[operand(target)],
            };
            compute::run(&mut self.members.buffers, &step);
            target = target.plus(piece.blocks);
        }
        whole
    }

    /// Puts a node in a place of an array.
    pub(crate) fn put_in(&mut self, array: ArrayIndex, member: MemberIndex, node: Node) {
        self.lead_upwards(Some(node), array, member);
        let place = &mut self.arrays[array.index()].members[usize::from(member.0)];
        // The previous device has no place now: close it.
        if let Some(Node::Device(before)) = place.replace(node)
            && Node::Device(before) != node
        {
            self.members.let_go(before);
        }
    }

    /// Puts a device in the place of the one that the array copies a member onto.
    pub(crate) fn put_replacement(&mut self, array: ArrayIndex, device: DeviceIndex) {
        let array = &mut self.arrays[array.index()];
        let place = usize::from(array.engine.replacement().0);
        array.members.truncate(place);
        array.members.push(Some(Node::Device(device)));
    }

    /// Closes the device next to the array's members once the array no longer uses it. After a
    /// replacement this is the old member.
    fn let_go_unused(&mut self, array: ArrayIndex) {
        let array = &self.arrays[array.index()];
        if array.engine.uses_replacement() {
            return; // The member went out, and the replacement takes its place.
        }
        let place = usize::from(array.engine.replacement().0);
        if let Some(Some(Node::Device(device))) = array.members.get(place) {
            self.members.let_go(*device);
        }
    }

    /// Lends the node memory for hedged reads. Returns true if the node can use it.
    pub(crate) fn lend(&mut self, node: Node, area: BufferSlice, blocks: u32) -> bool {
        match node {
            Node::Device(_) => false,
            Node::Array(array) => self.arrays[array.index()].engine.lend(area, blocks),
        }
    }

    /// Takes back the memory lent by `lend`.
    pub(crate) fn end_lending(&mut self, node: Node) {
        if let Node::Array(array) = node {
            self.arrays[array.index()].engine.end_lending();
        }
    }

    /// Submits a client's request to a node. With `exchangeable`, the reply may name other memory.
    pub(crate) fn submit(
        &mut self,
        node: Node,
        request: Request,
        exchangeable: bool,
    ) -> Result<(), Full> {
        match node {
            Node::Device(device) => {
                let slot = self.free.pop().ok_or(Full)?;
                self.tokens[usize::try_from(slot).expect("64 bits")] = request.token;
                let io = DeviceIo {
                    operation: request.operation,
                    block: request.block,
                    blocks: request.blocks,
                    buffer: request.buffer,
                };
                let tag = tag(CLIENT, device, slot);
                let started = self.members.start(tag, device, &io, &[], self.now);
                if let Some(result) = started {
                    self.client_done(slot, result);
                }
            }
            Node::Array(array) => {
                self.tick();
                let engine = &mut self.arrays[array.index()].engine;
                let taken = if exchangeable {
                    engine.submit_exchangeable(self.now, request)
                } else {
                    engine.submit(self.now, request)
                };
                taken.map_err(|_| Full)?;
                self.drain(array);
                self.carry_results();
            }
        }
        Ok(())
    }

    fn client_done(&mut self, slot: u32, result: MemberResult) {
        self.free.push(slot);
        self.replies.push_back(Reply {
            token: self.tokens[usize::try_from(slot).expect("64 bits")],
            result: result.map_err(|error| match error {
                MemberError::Gone | MemberError::Medium => RequestError::BeyondTolerance,
                MemberError::Corrupt => RequestError::Corrupt,
                MemberError::NoSpace => RequestError::NoSpace,
            }),
            exchanged: None,
        });
    }

    /// Ends the look at arrays opened with `look_only`: from here on their reads may fail as usual.
    pub(crate) fn end_look(&mut self) {
        for array in &mut self.arrays {
            array.engine.end_look();
        }
    }

    /// Sends a command to an array.
    pub(crate) fn command(
        &mut self,
        array: ArrayIndex,
        command: Command,
    ) -> Result<(), CommandError> {
        self.look_at_clock();
        self.arrays[array.index()]
            .engine
            .command(self.now, command)?;
        self.drain(array);
        self.carry_results();
        Ok(())
    }

    /// Submits started operations, waits if `wait` is set, for up to `at_most`, and carries
    /// completed operations as far up as they go.
    pub(super) fn turn(&mut self, wait: bool, at_most: Option<Duration>) {
        let until = |when: Instant| Duration::from_nanos(when.ns_since(self.clock.now()));
        let timeout = self.timeout().map(until);
        let wait = match timeout.into_iter().chain(at_most).min() {
            _ if !wait => Wait::No,
            None => Wait::Forever,
            Some(time) => Wait::AtMost(time),
        };
        self.members.turn(wait);
        self.look_at_clock();
        while let Some((tag, result)) = self.members.next_done(self.now) {
            let (owner, device, id) = untag(tag);
            if let Err(error) = result {
                self.members.count_error(device, error);
            }
            if owner == CLIENT {
                self.client_done(id, result);
            } else {
                let input = Input::Member(ArrayIndex(owner), MemberIoId(id), result);
                self.inputs.push_back(input);
            }
        }
        self.carry_results();
        self.wake();
    }

    /// Lets the clock go on to a moment if nothing happens until then.
    pub(super) fn skip_to(&mut self, moment: Instant) -> bool {
        let is_quiet = self.inputs.is_empty() && self.timeout().is_none_or(|when| when > moment);
        let skipped = is_quiet && self.members.modelled().skip_to(moment);
        if skipped {
            self.look_at_clock();
        }
        skipped
    }

    /// Returns true if members went out since the last call.
    pub(super) fn lost_members(&mut self) -> bool {
        std::mem::take(&mut self.lost_members)
    }

    /// Replies to a request with an error, without submitting it.
    pub(crate) fn refuse(&mut self, request: &Request, error: RequestError) {
        self.replies.push_back(Reply {
            token: request.token,
            result: Err(error),
            exchanged: None,
        });
    }

    /// The clock of the devices.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The last reading of the clock.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Returns true if there are replies for a client.
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns the next reply to a client.
    pub(crate) fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Returns the next event of any array.
    pub(crate) fn next_event(&mut self) -> Option<(ArrayIndex, Event)> {
        self.events.pop_front()
    }

    /// Returns true if an operation is in flight, or an engine waits for a timeout.
    pub(crate) fn busy(&self) -> bool {
        self.members.busy() || self.timeout().is_some()
    }

    fn timeout(&self) -> Option<Instant> {
        self.arrays
            .iter()
            .filter_map(|array| array.engine.poll_timeout())
            .min()
    }

    /// Calls the engines whose timeout has passed.
    fn wake(&mut self) {
        for index in (0..self.arrays.len()).map(|index| u16::try_from(index).expect("few arrays")) {
            let engine = &mut self.arrays[usize::from(index)].engine;
            if engine.poll_timeout().is_some_and(|when| when <= self.now) {
                engine.handle_timeout(self.now);
                self.drain(ArrayIndex(index));
                self.carry_results();
            }
        }
    }

    fn look_at_clock(&mut self) {
        self.now = self.clock.now();
        self.inputs_since = 0;
    }

    #[inline]
    fn tick(&mut self) {
        self.inputs_since += 1;
        if self.inputs_since > CLOCK_EVERY {
            self.look_at_clock();
        }
    }

    /// Carries results up until none are left.
    fn carry_results(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.tick();
            let array = match input {
                Input::Deliver(array) => {
                    self.deliver(array);
                    continue;
                }
                Input::Member(array, id, result) => {
                    let engine = &mut self.arrays[array.index()].engine;
                    if let Some(read) = engine.metadata_read(id).filter(|_| result.is_ok()) {
                        let buffers = &self.members.buffers;
                        read.bytes
                            .copy_from_slice(buffers.slice(read.buffer, read.blocks));
                    }
                    engine.complete_member(self.now, id, result);
                    array
                }
                Input::Compute(array, id) => {
                    let result = self.compute(array, id);
                    let engine = &mut self.arrays[array.index()].engine;
                    engine.complete_compute(self.now, id, result);
                    array
                }
            };
            self.drain(array);
        }
    }

    /// Executes the outputs of an engine.
    fn drain(&mut self, index: ArrayIndex) {
        while let Some(output) = self.arrays[index.index()].engine.poll_output() {
            match output {
                Output::Member(io) => self.member_io(index, &io),
                Output::Compute(id) => self.inputs.push_back(Input::Compute(index, id)),
                Output::Reply(reply) => self.reply(index, reply),
                Output::Swap(member) => {
                    let array = &mut self.arrays[index.index()];
                    let replacement = usize::from(array.engine.replacement().0);
                    array.members.swap(usize::from(member.0), replacement);
                }
                Output::Event(event) => self.event(index, event),
            }
        }
    }

    /// Executes a compute step.
    fn compute(&mut self, index: ArrayIndex, id: StepId) -> ComputeResult {
        let array = &self.arrays[index.index()];
        let step = array.engine.step(id);
        let block_bytes = array.engine.block_size().bytes();
        let operands = step.sources.len() + step.targets.len();
        let bytes = u64::from(step.blocks) * u64::from(block_bytes) * operands as u64;
        if bytes >= LONG_STEP_BYTES {
            self.members.hand_over();
        }
        if self.members.modelled().is_payload_zero() {
            if step.compute == Compute::Checksum {
                let zero = compute::checksum_of_zeros(block_bytes);
                let engine = &mut self.arrays[index.index()].engine;
                engine.checksums_mut(id).fill(zero);
            }
            return ComputeResult::Done;
        }
        if step.compute != Compute::Checksum {
            return compute::run(&mut self.members.buffers, &step);
        }
        let block_bytes = usize::try_from(block_bytes).expect("64 bits");
        self.checksums.clear();
        let checksums = compute::checksums(&self.members.buffers, &step, block_bytes);
        self.checksums.extend(checksums);
        let engine = &mut self.arrays[index.index()].engine;
        engine.checksums_mut(id).copy_from_slice(&self.checksums);
        ComputeResult::Done
    }

    fn member_io(&mut self, index: ArrayIndex, io: &MemberIo) {
        let array = &self.arrays[index.index()];
        self.pieces.clear();
        if io.buffer == BufferSlice::PIECES {
            self.pieces.extend(array.engine.pieces(io));
        }
        let (buffer, blocks) = (io.buffer, io.blocks);
        let one = Piece { buffer, blocks };
        let pieces = std::iter::once(&one).chain(&self.pieces);
        for piece in pieces.filter(|piece| piece.buffer.buffer == array.metadata) {
            // The kernel gets its own copy, aligned and registered, so the engine may go on at
            // once.
            let bytes = array.engine.metadata_of(piece.buffer, piece.blocks);
            self.members
                .buffers
                .slice_mut(piece.buffer, piece.blocks)
                .copy_from_slice(bytes);
        }
        let node = match array.members.get(usize::from(io.member.0)) {
            Some(node) => *node,
            None => array.journal.map(Node::Device),
        };
        // A device that takes over a member's place must not get I/O planned for the previous
        // member.
        let node = node.filter(|_| !array.engine.is_out(io.member));
        match node {
            None => {
                let gone = Input::Member(index, io.id, Err(MemberError::Gone));
                self.inputs.push_back(gone);
            }
            Some(Node::Device(device)) => {
                let operation = DeviceIo {
                    operation: io.operation,
                    block: io.block,
                    blocks: io.blocks,
                    buffer: io.buffer,
                };
                let tag = tag(index.0, device, io.id.0);
                let started = (self.members).start(tag, device, &operation, &self.pieces, self.now);
                if let Some(result) = started {
                    self.inputs.push_back(Input::Member(index, io.id, result));
                }
            }
            Some(Node::Array(child)) => {
                let reads = io.operation == Operation::Read;
                let buffer = if self.pieces.is_empty() {
                    io.buffer
                } else {
                    self.put_together(index, io.member)
                };
                let request = Request {
                    token: u64::from(io.id.0) | u64::from(reads) << 32,
                    operation: io.operation,
                    block: io.block,
                    blocks: io.blocks,
                    buffer,
                };
                self.arrays[child.index()].inbox.push_back(request);
                self.inputs.push_back(Input::Deliver(child));
            }
        }
    }

    /// Submits the next request of an array's parent, if the engine has room.
    fn deliver(&mut self, index: ArrayIndex) {
        let array = &mut self.arrays[index.index()];
        if let Some(request) = array.inbox.front()
            && array.engine.submit(self.now, *request).is_ok()
        {
            array.inbox.pop_front();
            self.drain(index);
        }
    }

    fn reply(&mut self, index: ArrayIndex, reply: Reply) {
        let array = &self.arrays[index.index()];
        let Some((parent, _)) = array.parent else {
            self.replies.push_back(reply);
            return;
        };
        if !array.inbox.is_empty() {
            self.inputs.push_back(Input::Deliver(index));
        }
        let id = u32::try_from(reply.token & u64::from(u32::MAX)).expect("32 bits");
        let reads = reply.token >> 32 == 1;
        // A failed write leaves the member's contents unknown; a failed read only its blocks.
        let result = reply.result.map_err(|error| match error {
            RequestError::Corrupt | RequestError::InDoubt => MemberError::Corrupt,
            RequestError::NoSpace => MemberError::NoSpace,
            RequestError::BeyondTolerance if reads => MemberError::Medium,
            _ => MemberError::Gone,
        });
        self.inputs
            .push_back(Input::Member(parent, MemberIoId(id), result));
    }

    fn event(&mut self, index: ArrayIndex, event: Event) {
        match event {
            Event::Closed { clean } => self.arrays[index.index()].closed = Some(clean),
            Event::JournalDeviceOut { .. } => self.arrays[index.index()].journal_is_out = true,
            Event::MemberOut { .. } => self.lost_members = true,
            Event::ReplaceDone { .. }
            | Event::ReplaceEnded { .. }
            | Event::RebuildStarted { .. } => self.let_go_unused(index),
            _ => {}
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((index, event));
    }
}

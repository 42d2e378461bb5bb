//! The driver: devices and arrays put together from the leaves up, and the target
//! that comes of it.

use crate::attach::AttachError;
use crate::core::{ArrayIndex, Core, Node, Vacancy};
use crate::probe::Probe;
use crate::rebuild::RebuildProgress;
use crate::scrub::ScrubProgress;
use crate::spare::{Spare, Taken};
use crate::{
    ArrayFacts, Busy, CloseError, Counters, DeviceFacts, Mishap, OpenError, OpenOptions, Target,
    TargetFacts, TooSmall,
};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, MemberIndex, Operation, Reply, Request,
    RequestError,
};
use spindles_engine::{Command, CommandError, Config, Event, Scrub, Status};
use spindles_format::DeviceRecord;

/// Longest request.
const REQUEST_BYTES_MAX: u32 = 16 << 20;

/// A device or an array of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(Node);

/// Devices and arrays that are being put together, from the leaves up, all on this thread. What
/// is there can be read and written at once, so that an array inside another can be examined
/// before the outer one is made.
#[derive(Debug)]
pub struct Stack {
    core: Core,
    /// For reads and writes while it is being put together.
    buffer: Option<(BufferId, u32)>,
}

impl Stack {
    /// Nothing yet. All that is added has the same block size, queue and buffers.
    ///
    /// # Errors
    ///
    /// When the system refuses memory.
    pub fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        Ok(Self {
            core: Core::new(options)?,
            buffer: None,
        })
    }

    /// The unit of all requests.
    pub fn block_size(&self) -> BlockSize {
        self.core.members.block_size()
    }

    /// Opens a device: a path, `mem:SIZE` or `null:SIZE`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the device.
    pub fn add_device(&mut self, name: &str) -> Result<NodeId, OpenError> {
        self.core
            .members
            .add(name)
            .map(|device| NodeId(Node::Device(device)))
    }

    /// Adds a device of a test's own.
    #[cfg(test)]
    pub(crate) fn add_inline(
        &mut self,
        facts: DeviceFacts,
        inline: Box<dyn crate::backends::Inline>,
    ) -> NodeId {
        NodeId(Node::Device(self.core.members.add_inline(facts, inline)))
    }

    /// Puts a queue of a test's own before the one that carries I/O on files.
    #[cfg(test)]
    pub(crate) fn wrap_queue(
        &mut self,
        wrap: impl FnOnce(Box<dyn crate::queues::Queue>) -> Box<dyn crate::queues::Queue>,
    ) {
        self.core.members.wrap_queue(wrap);
    }

    /// Opens an array over nodes that are not members of another. The buffers that `config` names
    /// are replaced by the stack's own. Work that is due at opening has begun when this returns.
    ///
    /// # Errors
    ///
    /// As the engine answers.
    pub fn add_array(
        &mut self,
        name: &str,
        config: Config,
        members: &[Option<NodeId>],
    ) -> Result<NodeId, spindles_engine::OpenError> {
        self.add_array_with_journal(name, config, members, None)
    }

    /// As `add_array`, with the device that the array has for its journal.
    pub(crate) fn add_array_with_journal(
        &mut self,
        name: &str,
        config: Config,
        members: &[Option<NodeId>],
        journal: Option<NodeId>,
    ) -> Result<NodeId, spindles_engine::OpenError> {
        let journal = journal.map(|node| match node.0 {
            Node::Device(device) => device,
            Node::Array(_) => panic!("a journal lies on a device"),
        });
        let nodes: Vec<Option<Node>> = members.iter().map(|node| node.map(|node| node.0)).collect();
        let config = Config {
            tears: nodes.iter().flatten().any(|&node| self.tears(node)),
            ..config
        };
        let array = self.core.open(name, config, &nodes, journal)?;
        Ok(NodeId(Node::Array(array)))
    }

    /// Whether a node writes less than a block at once. What a disk calls its physical sector it
    /// writes as a whole.
    fn tears(&self, node: Node) -> bool {
        match node {
            Node::Device(device) => {
                let facts = self.core.members.facts(device);
                facts.physical_sector_bytes < self.block_size().bytes()
            }
            Node::Array(array) => self.core.array(array).engine.tears(),
        }
    }

    /// The size of a node.
    pub fn blocks(&self, node: NodeId) -> u64 {
        self.core.blocks(node.0)
    }

    /// What a device is; `None` for an array.
    pub fn device_facts(&self, node: NodeId) -> Option<&DeviceFacts> {
        match node.0 {
            Node::Device(device) => Some(self.core.members.facts(device)),
            Node::Array(_) => None,
        }
    }

    /// The state of an array; `None` for a device.
    pub fn status(&self, node: NodeId) -> Option<Status> {
        match node.0 {
            Node::Device(_) => None,
            Node::Array(array) => Some(self.core.array(array).engine.status()),
        }
    }

    /// Asks something of an array.
    ///
    /// # Errors
    ///
    /// As the array answers, and for a device.
    pub fn command(&mut self, node: NodeId, command: Command) -> Result<(), CommandError> {
        match node.0 {
            Node::Device(_) => Err(CommandError::NoSuchMember),
            Node::Array(array) => self.core.command(array, command),
        }
    }

    /// Ends what `Config::look_only` began, once the arrays around others have read of those what they are.
    pub(crate) fn end_look(&mut self) {
        self.core.end_look();
    }

    /// The first place that waits for a device, or the one that is wanted.
    pub(crate) fn vacancy(&self, wanted: Option<MemberIndex>) -> Result<Vacancy, AttachError> {
        self.core.vacancy(wanted)
    }

    /// Whether it still does.
    pub(crate) fn still_waits(&self, vacancy: &Vacancy) -> Result<(), AttachError> {
        self.core.still_waits(vacancy).map(drop)
    }

    /// Puts a node that holds nothing there, and has it filled.
    pub(crate) fn attach(
        &mut self,
        name: &str,
        node: NodeId,
        vacancy: &Vacancy,
        areas: &DeviceRecord,
    ) -> Result<(), AttachError> {
        self.core.attach_node(name, node.0, vacancy, areas)
    }

    /// How far the devices are that are being filled, or that members are copied onto.
    pub(crate) fn rebuild_progress(&self) -> Option<RebuildProgress> {
        self.core.rebuild_progress()
    }

    /// Gives the arrays spares, which take the places of what is missing now and later.
    pub(crate) fn provide_spares(&mut self, spares: Vec<Spare>) {
        self.core.provide_spares(spares);
    }

    /// Spares that were taken since this was asked last.
    pub(crate) fn spares_taken(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.core.taken)
    }

    /// Why a spare will never be taken by any of the arrays, if so.
    pub(crate) fn spare_is_useless(&self, spare: &Spare) -> Option<String> {
        self.core.spare_is_useless(spare)
    }

    /// Reads whole blocks of a node that is not a member yet, and waits for them.
    ///
    /// # Errors
    ///
    /// As the node answers.
    pub fn read(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        into: &mut [u8],
    ) -> Result<(), RequestError> {
        let blocks = self.blocks_of(into.len());
        let buffer = self.buffer_of(blocks);
        self.run(node, Operation::Read, block, blocks, buffer)?;
        into.copy_from_slice(self.core.members.buffers.slice(buffer, blocks));
        Ok(())
    }

    /// Writes whole blocks of a node that is not a member yet, durably, and waits for it.
    ///
    /// # Errors
    ///
    /// As the node answers.
    pub fn write(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        from: &[u8],
    ) -> Result<(), RequestError> {
        let blocks = self.blocks_of(from.len());
        let buffer = self.buffer_of(blocks);
        self.core
            .members
            .buffers
            .slice_mut(buffer, blocks)
            .copy_from_slice(from);
        self.run(node, Operation::Write { fua: true }, block, blocks, buffer)
    }

    /// Makes blocks of a node that is not a member yet zeros, durably, and waits for it.
    ///
    /// # Errors
    ///
    /// As the node answers.
    pub fn write_zeroes(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        blocks: u32,
    ) -> Result<(), RequestError> {
        let operation = Operation::WriteZeroes { fua: true };
        self.run(node, operation, block, blocks, BufferSlice::ZEROS)
    }

    /// Makes everything written to a node durable, and waits for it.
    ///
    /// # Errors
    ///
    /// As the node answers.
    pub fn flush(&mut self, node: NodeId) -> Result<(), RequestError> {
        self.run(node, Operation::Flush, BlockIndex(0), 0, BufferSlice::NONE)
    }

    fn blocks_of(&self, bytes: usize) -> u32 {
        let block_bytes = usize::try_from(self.block_size().bytes()).expect("64 bits");
        assert!(bytes.is_multiple_of(block_bytes), "whole blocks only");
        u32::try_from(bytes / block_bytes).expect("a few blocks")
    }

    fn buffer_of(&mut self, blocks: u32) -> BufferSlice {
        let buffer = match self.buffer {
            Some((buffer, room)) if room >= blocks => buffer,
            _ => {
                let buffer = self.core.members.allocate(blocks.max(64));
                self.buffer = Some((buffer, blocks.max(64)));
                buffer
            }
        };
        BufferSlice {
            buffer,
            first_block: 0,
        }
    }

    fn run(
        &mut self,
        node: NodeId,
        operation: Operation,
        block: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) -> Result<(), RequestError> {
        let end = block.0.checked_add(u64::from(blocks));
        if end.is_none_or(|end| end > self.blocks(node)) {
            return Err(RequestError::OutOfRange);
        }
        let request = Request {
            token: 0,
            operation,
            block,
            blocks,
            buffer,
        };
        self.core
            .submit(node.0, request, false)
            .expect("nothing else is in flight");
        loop {
            if let Some(reply) = self.core.replies.pop_front() {
                return reply.result;
            }
            self.core.turn(true);
        }
    }

    /// Makes the target whose requests go to `root`. What `root` does not need is still closed
    /// with it.
    #[must_use]
    pub fn into_target(self, root: NodeId) -> Box<dyn Target> {
        Box::new(Driver::new(self, root.0))
    }
}

/// Opens a single device as a target: a path, `mem:SIZE` or `null:SIZE`.
///
/// # Errors
///
/// Says what is wrong with the device.
pub fn open_device(name: &str, options: &OpenOptions) -> Result<Box<dyn Target>, OpenError> {
    let mut stack = Stack::new(options)?;
    let device = stack.add_device(name)?;
    Ok(stack.into_target(device))
}

/// A stack that carries requests.
#[derive(Debug)]
struct Driver {
    core: Core,
    root: Node,
    facts: TargetFacts,
    /// Requests taken and not answered, counting replies that nobody has fetched.
    in_flight: u32,
}

impl Driver {
    fn new(stack: Stack, root: Node) -> Self {
        let core = stack.core;
        let options = core.members.options();
        let (io, io_reason) = core.members.io();
        let (name, array) = match root {
            Node::Device(device) => (core.members.facts(device).name.clone(), None),
            Node::Array(index) => {
                let array = core.array(index);
                (array.name.clone(), Some(array_facts(&array.engine)))
            }
        };
        let leaves = core.leaves(root);
        let facts = TargetFacts {
            name,
            blocks: core.blocks(root),
            block_size: core.members.block_size(),
            request_blocks_max: REQUEST_BYTES_MAX / core.members.block_size().bytes(),
            requests_max: options.requests_max.max(1),
            read_only: options.read_only,
            io,
            io_reason,
            devices: leaves
                .into_iter()
                .map(|device| core.members.facts(device).clone())
                .collect(),
            array,
        };
        Self {
            core,
            root,
            facts,
            in_flight: 0,
        }
    }

    /// Devices came or went.
    fn look_at_devices(&mut self) {
        let leaves = self.core.leaves(self.root);
        self.facts.devices = leaves
            .into_iter()
            .map(|device| self.core.members.facts(device).clone())
            .collect();
    }

    /// Why a request can't be right, before anything is done for it.
    fn refuse(&self, request: &Request) -> Option<RequestError> {
        let end = request.block.0.checked_add(u64::from(request.blocks));
        if end.is_none_or(|end| end > self.facts.blocks) {
            return Some(RequestError::OutOfRange);
        }
        (self.facts.read_only && request.operation.is_write()).then_some(RequestError::ReadOnly)
    }

    fn take(&mut self, request: Request, exchangeable: bool) -> Result<(), Busy> {
        assert!(
            request.blocks <= self.facts.request_blocks_max,
            "a request of {} blocks is longer than the target takes",
            request.blocks
        );
        if self.in_flight >= self.facts.requests_max {
            return Err(Busy);
        }
        // An engine looks for itself.
        if let Node::Device(_) = self.root
            && let Some(error) = self.refuse(&request)
        {
            self.core.replies.push_back(Reply {
                token: request.token,
                result: Err(error),
                exchanged: None,
            });
        } else {
            let taken = self.core.submit(self.root, request, exchangeable);
            taken.map_err(|_| Busy)?;
        }
        self.in_flight += 1;
        Ok(())
    }

    fn close_array(&mut self, index: ArrayIndex) -> Result<(), CloseError> {
        let not_durable = |name: &str, reason: &str| CloseError::NotDurable {
            target: name.to_owned(),
            reason: reason.to_owned(),
        };
        let closing = self.core.command(index, Command::Close);
        let name = self.core.array(index).name.clone();
        closing.map_err(|_| not_durable(&name, "it can't be closed"))?;
        loop {
            if let Some(clean) = self.core.array(index).closed {
                let status = self.core.array(index).engine.status();
                // A resync that is not through leaves the array unclean, and that is no error.
                let through = status.job("resync").is_none();
                if !clean && through && !self.facts.read_only {
                    return Err(not_durable(&name, "more members are lost than it survives"));
                }
                return Ok(());
            }
            if !self.core.busy() {
                return Err(not_durable(&name, "it does not come to an end"));
            }
            self.core.turn(true);
        }
    }
}

fn array_facts(engine: &spindles_engine::Engine) -> ArrayFacts {
    let geometry = engine.geometry();
    ArrayFacts {
        level: geometry.level().name,
        layout: geometry.layout_name(),
        chunk_blocks: geometry.chunk_blocks(),
        members: geometry.members(),
        missing: engine
            .status()
            .members
            .iter()
            .filter(|member| member.state != spindles_engine::Member::Active)
            .map(|member| member.member)
            .collect(),
        data_chunks: geometry.data_chunks(),
        redundancy: geometry.redundancy(),
    }
}

impl Target for Driver {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn allocate(&mut self, blocks: u32) -> BufferId {
        self.core.members.allocate(blocks)
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.core.members.buffers.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.core.members.buffers.buffer_mut(buffer)
    }

    fn submit(&mut self, request: Request) -> Result<(), Busy> {
        self.take(request, false)
    }

    fn submit_exchangeable(&mut self, request: Request) -> Result<(), Busy> {
        self.take(request, true)
    }

    fn lend(&mut self, area: BufferSlice, blocks: u32) -> bool {
        self.core.lend(self.root, area, blocks)
    }

    fn end_lending(&mut self) {
        self.core.end_lending(self.root);
    }

    fn poll(&mut self, wait: bool) -> Option<Reply> {
        loop {
            if let Some(reply) = self.core.replies.pop_front() {
                self.in_flight -= 1;
                return Some(reply);
            }
            if self.in_flight == 0 {
                // Jobs in the background go on all the same.
                if self.core.busy() {
                    self.core.turn(false);
                }
                return None;
            }
            self.core.turn(wait);
            if !wait && self.core.replies.is_empty() {
                return None;
            }
        }
    }

    fn counters(&self) -> Counters {
        self.core.counters(self.root)
    }

    fn status(&self) -> Option<Status> {
        match self.root {
            Node::Device(_) => None,
            Node::Array(array) => Some(self.core.array(array).engine.status()),
        }
    }

    fn status_of(&self, name: &str) -> Option<Status> {
        let array = self.core.arrays.iter().find(|array| array.name == name)?;
        Some(array.engine.status())
    }

    fn command(&mut self, command: Command) -> Result<(), CommandError> {
        match self.root {
            Node::Device(_) => Err(CommandError::NoSuchMember),
            Node::Array(array) => self.core.command(array, command),
        }
    }

    fn next_event(&mut self) -> Option<(String, Event)> {
        let (array, event) = self.core.events.pop_front()?;
        Some((self.core.array(array).name.clone(), event))
    }

    fn work(&mut self) -> bool {
        let busy = self.core.busy();
        if busy {
            self.core.turn(true);
        }
        busy
    }

    fn settled_bytes(&self) -> (u64, u64) {
        self.core.settled_bytes()
    }

    fn begin_scrub(&mut self, scrub: Scrub) -> Result<(), CommandError> {
        let mut result = Err(CommandError::NoRedundancy);
        for array in self.core.arrays_from_the_top() {
            if self.core.array(array).engine.can_scrub() && !self.core.is_mended_from_above(array) {
                self.core.command(array, Command::Scrub(scrub))?;
                result = Ok(());
            }
        }
        result
    }

    fn begin_scrub_below(&mut self, scrub: Scrub) -> Result<bool, CommandError> {
        let mut begun = false;
        for array in self.core.arrays_from_the_top() {
            if self.core.is_mended_from_above(array) {
                self.core.command(array, Command::Scrub(scrub))?;
                begun = true;
            }
        }
        Ok(begun)
    }

    fn scrub_progress(&self) -> ScrubProgress {
        self.core.scrub_progress()
    }

    fn may_attach(&self, device: &str, member: Option<MemberIndex>) -> Result<(), AttachError> {
        self.core.may_attach(device, member).map(|_| ())
    }

    fn attach(
        &mut self,
        device: &str,
        member: Option<MemberIndex>,
    ) -> Result<(String, MemberIndex), AttachError> {
        let (array, member) = self.core.attach(device, member)?;
        self.look_at_devices();
        Ok((self.core.array(array).name.clone(), member))
    }

    fn may_be_spare(&self, device: &str) -> Result<Vec<TooSmall>, AttachError> {
        let bytes = Probe::open(device)?.bytes;
        Ok(self.core.may_be_spare(device, bytes)?)
    }

    fn spares_taken(&mut self) -> Vec<Taken> {
        let taken = std::mem::take(&mut self.core.taken);
        if !taken.is_empty() {
            self.look_at_devices();
        }
        taken
    }

    fn mishaps(&self) -> Vec<Mishap> {
        self.core.mishaps()
    }

    fn may_replace(&self, old: &str, device: &str) -> Result<(), AttachError> {
        self.core.may_replace(old, device).map(|_| ())
    }

    fn replace(&mut self, old: &str, device: &str) -> Result<(String, MemberIndex), AttachError> {
        let (array, member) = self.core.replace(old, device)?;
        self.look_at_devices();
        Ok((self.core.array(array).name.clone(), member))
    }

    fn stop_job(&mut self, name: &'static str) {
        for array in self.core.arrays_from_the_top() {
            // One that is through already can't be stopped, and need not.
            self.core.command(array, Command::StopJob(name)).ok();
        }
    }

    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        self.core.rebuild_progress()
    }

    fn close(mut self: Box<Self>) -> Result<(), CloseError> {
        while self.poll(true).is_some() {}
        // Members come before the arrays that are made of them.
        let mut failed = Vec::new();
        for array in self.core.arrays_from_the_top() {
            if let Err(error) = self.close_array(array) {
                failed.push((array, error));
            }
        }
        let arrays: Vec<ArrayIndex> = failed.iter().map(|(array, _)| *array).collect();
        // An array that could not be closed is a member that its outer array may do without.
        let survived = |(array, _): &(ArrayIndex, CloseError)| self.core.survives(*array, &arrays);
        if let Some(at) = failed.iter().position(|failed| !survived(failed)) {
            return Err(failed.swap_remove(at).1);
        }
        if self.facts.read_only || matches!(self.root, Node::Array(_)) {
            return Ok(());
        }
        let flush = Request {
            token: 0,
            operation: Operation::Flush,
            block: BlockIndex(0),
            blocks: 0,
            buffer: BufferSlice::NONE,
        };
        self.submit(flush).expect("nothing else is in flight");
        let reply = self.poll(true).expect("the flush is in flight");
        reply.result.map_err(|error| CloseError::NotDurable {
            target: self.facts.name.clone(),
            reason: error.to_string(),
        })
    }
}

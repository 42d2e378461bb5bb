//! Builds devices and arrays into a target, from the leaves up.

use crate::core::manage::{self, Vacancy};
use crate::core::{Core, Node, progress, spares, tree};
use crate::driver::Driver;
use crate::errors::AttachError;
use crate::incidents::no_space;
use crate::labels::Spare;
use crate::progress::RebuildProgress;
use crate::spare_report::Taken;
use crate::{LostBytes, Target};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, MemberIndex, Operation, Request, RequestError,
};
use spindles_device::{DeviceFacts, OpenError, OpenOptions};
use spindles_engine::{Command, CommandError, Config, Status};
use spindles_format::DeviceRecord;

/// A device or an array of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(Node);

/// Devices and arrays under construction, from the leaves up, all on this thread. Existing nodes
/// can be read and written at once, so an inner array can be examined before the outer one is
/// built.
#[derive(Debug)]
pub struct Stack {
    core: Core,
    /// For reads and writes during construction.
    buffer: Option<(BufferId, u32)>,
}

impl Stack {
    /// Creates an empty stack. All its nodes share the block size, the queue and the buffers.
    ///
    /// # Errors
    ///
    /// If the system refuses memory.
    pub fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        Ok(Self {
            core: Core::new(options)?,
            buffer: None,
        })
    }

    /// Returns the unit of all requests.
    pub fn block_size(&self) -> BlockSize {
        self.core.carry.members().block_size()
    }

    /// Opens a device: a path, the address of an export, `mem:SIZE` or `null:SIZE`.
    ///
    /// # Errors
    ///
    /// If the device can't be opened.
    pub fn add_device(&mut self, name: &str) -> Result<NodeId, OpenError> {
        self.core
            .carry
            .add_device(name)
            .map(|device| NodeId(Node::Device(device)))
    }

    /// Adds a test device.
    #[cfg(test)]
    pub(crate) fn add_inline(
        &mut self,
        facts: DeviceFacts,
        inline: Box<dyn spindles_device::backends::Inline>,
    ) -> NodeId {
        NodeId(Node::Device(
            self.core.carry.members_mut().add_inline(facts, inline),
        ))
    }

    /// Wraps the queue for I/O on files in a test queue.
    #[cfg(any(test, feature = "testing"))]
    pub fn wrap_queue(
        &mut self,
        wrap: impl FnOnce(
            Box<dyn spindles_device::queues::Queue>,
        ) -> Box<dyn spindles_device::queues::Queue>,
    ) {
        self.core.carry.members_mut().wrap_queue(wrap);
    }

    /// Opens an array over nodes that are not members of another array. The stack's own buffers
    /// replace those in `config`. Work due at opening has begun when this returns. Panics if
    /// `config` is read-only and a device is not [protected](Self::protect).
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn add_array(
        &mut self,
        name: &str,
        config: Config,
        members: &[Option<NodeId>],
    ) -> Result<NodeId, spindles_engine::OpenError> {
        self.add_array_with_journal(name, config, members, None)
    }

    /// Like `add_array`, with the array's journal device.
    pub fn add_array_with_journal(
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
        let those = |are: &dyn Fn(NodeId) -> bool| {
            let members = (0..).map(MemberIndex).zip(members);
            let there = members.filter_map(|(member, node)| Some((member, (*node)?)));
            there
                .filter_map(|(member, node)| are(node).then_some(member))
                .collect()
        };
        if config.read_only {
            let devices = nodes.iter().flatten();
            let devices = devices.flat_map(|&node| tree::leaves(&self.core.carry, node));
            for device in devices.chain(journal) {
                assert!(
                    self.core.carry.members().is_protected(device),
                    "an array that is open read-only would write to a device"
                );
            }
        }
        let config = Config {
            zeroes_without_moving_bytes: those(&|node| self.zeroes(node)),
            thin: those(&|node| self.is_thin(node)),
            tears: nodes.iter().flatten().any(|&node| self.tears(node)),
            ..config
        };
        let array = self.core.carry.open(name, config, &nodes, journal)?;
        Ok(NodeId(Node::Array(array)))
    }

    /// Returns true if a node may write less than a block atomically. A disk writes its physical
    /// sector atomically.
    fn tears(&self, node: Node) -> bool {
        match node {
            Node::Device(device) => {
                let facts = self.core.carry.members().facts(device);
                facts.physical_sector_bytes < self.block_size().bytes()
            }
            Node::Array(array) => self.core.carry.array(array).engine().tears(),
        }
    }

    /// Returns true if write-zeroes moves no bytes on a node.
    pub(crate) fn zeroes(&self, node: NodeId) -> bool {
        match node.0 {
            Node::Device(device) => {
                let facts = self.core.carry.members().facts(device);
                facts.zeroes_without_moving_bytes
            }
            Node::Array(array) => {
                let engine = self.core.carry.array(array).engine();
                engine.zeroes_without_moving_bytes()
            }
        }
    }

    /// Describes a lack of space, with a remedy; `None` if there was none.
    pub fn no_space(&self) -> Option<String> {
        no_space(&progress::incidents(&self.core.carry))
    }

    /// Returns true if a node takes space only for written data.
    fn is_thin(&self, node: NodeId) -> bool {
        match node.0 {
            Node::Device(device) => self.core.carry.members().facts(device).thin,
            Node::Array(array) => self.core.carry.array(array).engine().is_thin(),
        }
    }

    /// Returns the size of a node.
    pub fn blocks(&self, node: NodeId) -> u64 {
        self.core.carry.blocks(node.0)
    }

    /// Returns the facts of a device; `None` for an array.
    pub fn device_facts(&self, node: NodeId) -> Option<&DeviceFacts> {
        match node.0 {
            Node::Device(device) => Some(self.core.carry.members().facts(device)),
            Node::Array(_) => None,
        }
    }

    /// Returns the state of an array; `None` for a device.
    pub fn status(&self, node: NodeId) -> Option<Status> {
        match node.0 {
            Node::Device(_) => None,
            Node::Array(array) => Some(self.core.carry.array(array).engine().status()),
        }
    }

    /// Sends a command to an array.
    ///
    /// # Errors
    ///
    /// If the array refuses it, or the node is a device.
    pub fn command(&mut self, node: NodeId, command: Command) -> Result<(), CommandError> {
        match node.0 {
            Node::Device(_) => Err(CommandError::NoSuchMember),
            Node::Array(array) => self.core.carry.command(array, command),
        }
    }

    /// Keeps all later writes to the devices of a node in memory. An array that is open read-only
    /// writes to itself.
    pub fn protect(&mut self, node: NodeId) {
        for device in tree::leaves(&self.core.carry, node.0) {
            self.core.carry.members_mut().protect(device);
        }
    }

    /// Ends the mode of `Config::look_only`, once the outer arrays have read their superblocks from
    /// the inner ones.
    pub fn end_look(&mut self) {
        self.core.carry.end_look();
    }

    /// Closes devices that no array uses, such as left-out members. Other programs can then open
    /// these devices.
    pub fn let_go_unused(&mut self) {
        for device in tree::unused_devices(&self.core.carry) {
            self.core.carry.members_mut().let_go(device);
        }
    }

    /// Returns the wanted vacant place, or the first one.
    pub fn vacancy(&self, wanted: Option<MemberIndex>) -> Result<Vacancy, AttachError> {
        manage::vacancy(&self.core.carry, wanted)
    }

    /// Checks that a place is still vacant.
    pub fn still_waits(&self, vacancy: &Vacancy) -> Result<(), AttachError> {
        manage::still_waits(&self.core.carry, vacancy).map(drop)
    }

    /// Attaches an empty node at a vacant place, and begins to fill it.
    pub fn attach(
        &mut self,
        name: &str,
        node: NodeId,
        vacancy: &Vacancy,
        areas: &DeviceRecord,
    ) -> Result<(), AttachError> {
        manage::attach_node(&mut self.core.carry, name, node.0, vacancy, areas)
    }

    /// Returns the progress of the devices being filled or copied onto.
    pub fn rebuild_progress(&self) -> Option<RebuildProgress> {
        progress::rebuild(&self.core.carry)
    }

    /// Returns the lost bytes of the open arrays.
    pub fn lost(&self) -> Vec<LostBytes> {
        progress::lost(&self.core.carry)
    }

    /// Gives the arrays spares, which take vacant places now and later.
    pub fn provide_spares(&mut self, spares: Vec<Spare>) {
        self.core.provide_spares(spares);
    }

    /// Returns the spares taken since the last call.
    pub fn spares_taken(&mut self) -> Vec<Taken> {
        self.core.spares.taken()
    }

    /// Returns the reason why no array will ever take a spare; `None` if one may.
    pub fn spare_is_useless(&self, spare: &Spare) -> Option<String> {
        spares::is_useless(&self.core.carry, spare)
    }

    /// Reads whole blocks of a node that is not a member yet, synchronously.
    ///
    /// # Errors
    ///
    /// The error of the node.
    pub fn read(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        into: &mut [u8],
    ) -> Result<(), RequestError> {
        let blocks = self.blocks_of(into.len());
        let buffer = self.buffer_of(blocks);
        self.run(node, Operation::Read, block, blocks, buffer)?;
        into.copy_from_slice(self.core.carry.members().buffers.slice(buffer, blocks));
        Ok(())
    }

    /// Writes whole blocks of a node that is not a member yet, synchronously and durably.
    ///
    /// # Errors
    ///
    /// The error of the node.
    pub fn write(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        from: &[u8],
    ) -> Result<(), RequestError> {
        let blocks = self.blocks_of(from.len());
        let buffer = self.buffer_of(blocks);
        self.core
            .carry
            .members_mut()
            .buffers
            .slice_mut(buffer, blocks)
            .copy_from_slice(from);
        self.run(node, Operation::Write { fua: true }, block, blocks, buffer)
    }

    /// Zeroes blocks of a node that is not a member yet, synchronously and durably.
    ///
    /// # Errors
    ///
    /// The error of the node.
    pub fn write_zeroes(
        &mut self,
        node: NodeId,
        block: BlockIndex,
        blocks: u32,
    ) -> Result<(), RequestError> {
        let operation = Operation::WriteZeroes { fua: true };
        self.run(node, operation, block, blocks, BufferSlice::ZEROS)
    }

    /// Makes all data written to a node durable, synchronously.
    ///
    /// # Errors
    ///
    /// The error of the node.
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
                let members = self.core.carry.members_mut();
                let buffer = members.allocate(blocks.max(64));
                members.modelled().holds_metadata(buffer);
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
            .carry
            .submit(node.0, request, false)
            .expect("nothing else is in flight");
        loop {
            if let Some(reply) = self.core.carry.next_reply() {
                return reply.result;
            }
            self.core.turn(true);
        }
    }

    /// Creates the target whose requests go to `root`. Nodes that `root` does not need are closed
    /// together with it.
    #[must_use]
    pub fn into_target(self, root: NodeId) -> Box<dyn Target> {
        Driver::open(self.core, root.0)
    }
}

/// Opens a single device as a target: a path, the address of an export, `mem:SIZE` or `null:SIZE`.
/// Unless the options name a block size, it is 4096 bytes, or 512 if the length requires that.
///
/// # Errors
///
/// If the device can't be opened. The length must be a whole number of blocks, or the last bytes
/// would be lost.
pub fn open_device(name: &str, options: &OpenOptions) -> Result<Box<dyn Target>, OpenError> {
    let (target, device_bytes) = match open_blocks(name, options) {
        Ok(target) => {
            let devices = &target.facts().devices;
            let bytes = devices.iter().map(|device| device.bytes).sum();
            (Ok(target), bytes)
        }
        Err(error @ OpenError::TooSmall { bytes, .. }) => (Err(error), bytes),
        Err(error) => return Err(error),
    };
    let blocks_bytes = target.as_ref().map_or(0, |target| target.facts().bytes());
    if blocks_bytes == device_bytes {
        return target;
    }
    let smallest = BlockSize::B512;
    if options.block_size.is_none() && device_bytes.is_multiple_of(smallest.bytes().into()) {
        drop(target);
        let options = OpenOptions {
            block_size: Some(smallest),
            ..options.clone()
        };
        return open_blocks(name, &options);
    }
    target?;
    Err(OpenError::NotWhole {
        device: name.to_owned(),
        bytes: device_bytes,
        block_bytes: options.block_size.unwrap_or(smallest).bytes(),
    })
}

/// Like `open_device`, without the bytes beyond the last whole block.
pub fn open_blocks(name: &str, options: &OpenOptions) -> Result<Box<dyn Target>, OpenError> {
    let mut stack = Stack::new(options)?;
    let device = stack.add_device(name)?;
    Ok(stack.into_target(device))
}

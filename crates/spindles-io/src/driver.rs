//! The driver: carries the requests of a target to its devices and the answers
//! back, on the thread of whoever polls it.

use crate::members::{DeviceIndex, DeviceIo, Members};
use crate::queues::Wait;
use crate::transfer::Tag;
use crate::{Busy, CloseError, Counters, OpenError, OpenOptions, Target, TargetFacts};
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, MemberError, MemberResult, Operation, Reply, Request,
    RequestError,
};
use std::collections::VecDeque;

/// Longest request of a single device.
const REQUEST_BYTES_MAX: u32 = 16 << 20;

/// A device of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(DeviceIndex);

/// Devices that are being put together to a target: first devices, then what is made of them.
#[derive(Debug)]
pub struct Stack {
    members: Members,
}

impl Stack {
    /// Nothing yet. All that is added has the same block size, queue and buffers.
    ///
    /// # Errors
    ///
    /// When the system refuses memory.
    pub fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        Ok(Self {
            members: Members::new(options)?,
        })
    }

    /// Opens a device: a path, `mem:SIZE` or `null:SIZE`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the device.
    pub fn add_device(&mut self, name: &str) -> Result<NodeId, OpenError> {
        self.members.add(name).map(NodeId)
    }

    /// Makes the target whose requests go to `root`.
    #[must_use]
    pub fn into_target(self, root: NodeId) -> Box<dyn Target> {
        Box::new(Driver::new(self, root))
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
    members: Members,
    root: DeviceIndex,
    facts: TargetFacts,
    replies: VecDeque<Reply>,
    /// Tokens of requests in flight on a single device.
    tokens: Vec<u64>,
    free: Vec<u32>,
}

impl Driver {
    fn new(stack: Stack, root: NodeId) -> Self {
        let members = stack.members;
        let root = root.0;
        let options = members.options();
        let requests_max = options.requests_max.max(1);
        let (io, io_reason) = members.io();
        let facts = TargetFacts {
            name: members.facts(root).name.clone(),
            blocks: members.blocks(root),
            block_size: members.block_size(),
            request_blocks_max: REQUEST_BYTES_MAX / members.block_size().bytes(),
            requests_max,
            read_only: options.read_only,
            io,
            io_reason,
            devices: vec![members.facts(root).clone()],
            array: None,
        };
        let capacity = usize::try_from(requests_max).expect("64 bits");
        Self {
            members,
            root,
            facts,
            replies: VecDeque::with_capacity(capacity),
            tokens: vec![0; capacity],
            free: (0..requests_max).rev().collect(),
        }
    }

    fn in_flight(&self) -> usize {
        self.tokens.len() - self.free.len()
    }

    /// Why a request can't be right, before anything is done for it.
    fn refuse(&self, request: &Request) -> Option<RequestError> {
        let writes = request.operation.is_write();
        let end = request.block.0.checked_add(u64::from(request.blocks));
        if end.is_none_or(|end| end > self.facts.blocks) {
            return Some(RequestError::OutOfRange);
        }
        (writes && self.facts.read_only).then_some(RequestError::ReadOnly)
    }

    fn finish(&mut self, tag: Tag, result: MemberResult) {
        let slot = u32::try_from(tag.0).expect("a slot");
        let index = usize::try_from(slot).expect("64 bits");
        self.free.push(slot);
        self.replies.push_back(Reply {
            token: self.tokens[index],
            result: result.map_err(|error| match error {
                MemberError::Gone | MemberError::Medium => RequestError::BeyondTolerance,
                MemberError::Corrupt => RequestError::Corrupt,
            }),
        });
    }

    fn collect(&mut self) {
        while let Some((tag, result)) = self.members.next_done() {
            if let Err(error) = result {
                self.members.count_error(self.root, error);
            }
            self.finish(tag, result);
        }
    }
}

impl Target for Driver {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn allocate(&mut self, blocks: u32) -> BufferId {
        self.members.allocate(blocks)
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.members.buffers.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.members.buffers.buffer_mut(buffer)
    }

    fn submit(&mut self, request: Request) -> Result<(), Busy> {
        assert!(
            request.blocks <= self.facts.request_blocks_max,
            "a request of {} blocks is longer than the target takes",
            request.blocks
        );
        if self.replies.len() >= self.tokens.len() {
            return Err(Busy);
        }
        let slot = self.free.pop().ok_or(Busy)?;
        self.tokens[usize::try_from(slot).expect("64 bits")] = request.token;
        let tag = Tag(u64::from(slot));
        if let Some(error) = self.refuse(&request) {
            self.free.push(slot);
            self.replies.push_back(Reply {
                token: request.token,
                result: Err(error),
            });
            return Ok(());
        }
        let io = DeviceIo {
            operation: request.operation,
            block: request.block,
            blocks: request.blocks,
            buffer: request.buffer,
        };
        if let Some(result) = self.members.start(tag, self.root, &io) {
            self.finish(tag, result);
        }
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Option<Reply> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Some(reply);
            }
            if self.in_flight() == 0 {
                return None;
            }
            self.members
                .turn(if wait { Wait::Forever } else { Wait::No });
            self.collect();
            if !wait {
                return self.replies.pop_front();
            }
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            devices: vec![self.members.counters(self.root)],
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), CloseError> {
        while self.poll(true).is_some() {}
        if self.facts.read_only {
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

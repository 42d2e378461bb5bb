//! The requests that were taken, each with its cursor, up to which its blocks have been handed out
//! to stripe ranges.

use crate::{
    RangeId,
    hedges::Pairing,
    index,
    plan::{Ask, Strategy},
    stripe::{Owner, Ranges},
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::ops::{Index, IndexMut};
use spindles_block::{BlockIndex, BufferSlice, Operation, RequestError};

/// A request that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSlot {
    pub(crate) token: u64,
    pub(crate) operation: Operation,
    pub(crate) block: BlockIndex,
    pub(crate) end: BlockIndex,
    pub(crate) buffer: BufferSlice,
    /// The first block of the group part that is being handed out.
    pub(crate) next: BlockIndex,
    /// The end of the blocks that can be handed out without the stage.
    pub(crate) cut: BlockIndex,
    /// How far into the chunks of that group stripe ranges have been handed out.
    pub(crate) low: u32,
    pub(crate) handed_out: bool,
    pub(crate) pending: u32,
    pub(crate) error: Option<RequestError>,
    /// True if `buffer` may be lent, and the answer may name other memory.
    pub(crate) exchangeable: bool,
    pub(crate) pairing: Pairing,
}

impl RequestSlot {
    pub(crate) const fn new(
        token: u64,
        operation: Operation,
        block: BlockIndex,
        end: BlockIndex,
        buffer: BufferSlice,
    ) -> Self {
        Self {
            token,
            operation,
            block,
            end,
            buffer,
            next: block,
            cut: end,
            low: 0,
            handed_out: false,
            pending: 0,
            error: None,
            exchangeable: false,
            pairing: Pairing::Single,
        }
    }

    /// Returns true if all its stripe ranges have been handed out.
    pub(crate) const fn is_handed_out(&self) -> bool {
        self.handed_out
    }

    /// Ends the handing out of stripe ranges.
    pub(crate) const fn stop(&mut self) {
        self.handed_out = true;
    }

    /// Returns true if some stripe ranges of a group have been handed out, and others have not.
    pub(crate) const fn is_midway(&self) -> bool {
        self.low > 0
    }

    pub(crate) const fn free() -> Self {
        Self {
            token: 0,
            operation: Operation::Flush,
            block: BlockIndex(0),
            end: BlockIndex(0),
            buffer: BufferSlice::NONE,
            next: BlockIndex(0),
            cut: BlockIndex(0),
            low: 0,
            handed_out: false,
            pending: 0,
            error: None,
            exchangeable: false,
            pairing: Pairing::Single,
        }
    }

    /// Returns the buffer place of array block `block`.
    pub(crate) fn place(&self, block: BlockIndex) -> BufferSlice {
        if matches!(
            self.operation,
            Operation::Discard | Operation::WriteZeroes { .. }
        ) {
            return BufferSlice::ZEROS;
        }
        let blocks = u32::try_from(block.0 - self.block.0).expect("within the request");
        self.buffer.plus(blocks)
    }
}

/// The requests, and the free slots for more.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    slots: Vec<RequestSlot>,
    /// The number of slots for clients.
    clients: usize,
    free: Vec<u32>,
    /// Requests with blocks left to hand out that wait for a stripe range, in order.
    waiting: VecDeque<u32>,
}

impl Requests {
    /// Creates slots for as many requests of clients, and for `others` after them.
    pub(crate) fn new(clients: u32, others: usize) -> Self {
        let (free, clients) = ((0..clients).rev().collect(), index(clients));
        Self {
            slots: vec![RequestSlot::free(); clients + others],
            clients,
            free,
            waiting: VecDeque::with_capacity(clients + others),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RequestSlot> {
        self.slots.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut RequestSlot> {
        self.slots.iter_mut()
    }

    /// Takes a free slot of a client.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Frees a slot for the next request of a client.
    #[inline]
    pub(crate) fn give_back(&mut self, request: u32) {
        self.free.push(request);
    }

    /// Returns true if no request of a client is under way.
    pub(crate) fn all_free(&self) -> bool {
        self.free.len() == self.clients
    }

    /// Lets a request wait for a stripe range, after all others.
    pub(crate) fn wait(&mut self, request: u32) {
        self.waiting.push_back(request);
    }

    /// Lets a request wait for a stripe range, before all others.
    pub(crate) fn wait_first(&mut self, request: u32) {
        self.waiting.push_front(request);
    }

    /// Returns true if a request waits for a stripe range.
    #[inline]
    pub(crate) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the first request that waits for a stripe range.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    /// Ends the wait of the first request.
    pub(crate) fn first_goes(&mut self) {
        self.waiting.pop_front();
    }

    /// Ends the wait of a request, if it waits.
    pub(crate) fn stop_waiting(&mut self, request: u32) {
        self.waiting.retain(|&waiting| waiting != request);
    }

    pub(crate) fn writes_zeros(&self, ranges: &Ranges, id: RangeId) -> bool {
        match ranges[id].owner {
            Owner::Request(request) => matches!(
                self[request].operation,
                Operation::Discard | Operation::WriteZeroes { .. }
            ),
            Owner::Nobody
            | Owner::Answered
            | Owner::Stage { .. }
            | Owner::Job(_)
            | Owner::Repair
            | Owner::Replay => false,
        }
    }

    /// Returns the operation of a stripe range's request; `None` if it does not write data.
    pub(crate) fn write_operation(&self, ranges: &Ranges, id: RangeId) -> Option<Operation> {
        let Owner::Request(request) = ranges[id].owner else {
            return None;
        };
        let operation = self[request].operation;
        matches!(operation, Operation::Write { .. }).then_some(operation)
    }

    /// Returns whether a stripe range writes durably, and the operation that writes zeros.
    pub(crate) fn write_kind(&self, ranges: &Ranges, id: RangeId) -> (bool, Option<Operation>) {
        if ranges[id].ask != Ask::Write {
            // The contents that a client read must survive a power loss, even if the member that
            // was read is lost as well: the other copies agree durably before the reply.
            let settles = ranges[id].shape.copies && ranges[id].plan.strategy == Strategy::Settle;
            // A reported repair is durable.
            return (settles || ranges[id].repairs(), None);
        }
        let Owner::Request(request) = ranges[id].owner else {
            return (false, None);
        };
        match self[request].operation {
            Operation::Write { fua } => (fua, None),
            zeros @ Operation::WriteZeroes { fua } => (fua, Some(zeros)),
            Operation::Discard => (false, Some(Operation::Discard)),
            Operation::Read | Operation::Flush => (false, None),
        }
    }

    /// Returns true if the remaining free stripe ranges are not for this request.
    pub(crate) fn must_leave_ranges(&self, ranges: &Ranges, request: u32) -> bool {
        let is_hedge = matches!(self[request].pairing, Pairing::Hedge(_));
        !is_hedge || ranges.free_count() == 0
    }
}

impl Index<u32> for Requests {
    type Output = RequestSlot;

    #[inline]
    fn index(&self, request: u32) -> &RequestSlot {
        &self.slots[index(request)]
    }
}

impl IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, request: u32) -> &mut RequestSlot {
        &mut self.slots[index(request)]
    }
}

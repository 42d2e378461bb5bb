//! What everything that carries block requests looks like from above: a single
//! device, a file, memory, or an array.

use crate::managed::Managed;
use crate::queues::{Watch, WatchId};
use crate::{OpenError, TargetFacts};
use spindles_block::{BlockIndex, BufferId, BufferSlice, Instant, Reply, Request};

/// Carries block requests. It belongs to one thread, which polls it.
///
/// The bytes of a request belong to the target from `submit` to the reply: what `buffer` shows of
/// them meanwhile is any mixture of old and new.
pub trait Target: Managed {
    /// What it is, read when it was opened.
    fn facts(&self) -> &TargetFacts;

    /// A new buffer of zeros for requests of this target, aligned for direct I/O and registered
    /// with the kernel where possible. It lives as long as the target.
    fn allocate(&mut self, blocks: u32) -> BufferId;

    /// The bytes of a buffer.
    fn buffer(&self, buffer: BufferId) -> &[u8];

    /// The bytes of a buffer, to be changed.
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8];

    /// The last reading of its clock, which costs nothing.
    fn now(&self) -> Instant;

    /// Takes a request of at most `facts().request_blocks_max` blocks, or nothing. Reads fill the
    /// buffer, writes are taken from it; [`spindles_block::BufferSlice::ZEROS`] may be written.
    ///
    /// # Errors
    ///
    /// `Busy` when as many requests are in flight as there is room for: try again after the next
    /// reply.
    fn submit(&mut self, request: Request) -> Result<(), Busy>;

    /// As `submit`. Where the request is a read, the reply may name other memory than the request
    /// (`Reply::exchanged`): then that is the caller's from now on, and the request's memory, which
    /// a device may still write into, is the target's. Both are as long as what was lent.
    ///
    /// # Errors
    ///
    /// As `submit`.
    fn submit_exchangeable(&mut self, request: Request) -> Result<(), Busy> {
        self.submit(request)
    }

    /// Lends the target memory of one of its buffers, for reads that redundancy is asked for because
    /// a member keeps them waiting. Whether it has a use for it; all that is lent is equally long.
    /// [`crate::Areas`] does it.
    fn lend(&mut self, _area: BufferSlice, _blocks: u32) -> bool {
        false
    }

    /// Ends all lending: other memory may be lent from now on. A straggler may still fill what was
    /// lent before, or given for it.
    fn end_lending(&mut self) {}

    /// Does what is to be done and gives the next reply, in the order in which requests end. With
    /// `wait` it returns `None` only when no request is in flight.
    fn poll(&mut self, wait: bool) -> Option<Reply>;

    /// Returns true if the block `from` certainly lies on members that are missing, can't be computed from the others, and
    /// is not known to be zeros; and the first block from which on that may differ, at most `end`.
    fn is_out_of_reach(&self, _from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        (false, end)
    }

    /// Whether the block `from` is known to read as zeros, as it was never written, and the first block from which on that
    /// may differ, at most `end`. Where it is not known, it is taken for data.
    fn reads_zeros(&self, _from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        (false, end)
    }

    /// Threads of its own, where it has some, begin anew: with what the calling thread may by now. Call it after that
    /// thread gave something up.
    ///
    /// # Errors
    ///
    /// There can be no threads.
    fn restart_threads(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Looks out for a descriptor, until `next_ready` gives its id: so that one thread waits for what the
    /// target does and for its clients.
    ///
    /// # Errors
    ///
    /// It can't look out for any.
    fn watch(&mut self, _watch: Watch) -> Result<(), OpenError> {
        Err(OpenError::Io {
            device: self.facts().name.clone(),
            action: "look out for connections with",
            source: std::io::ErrorKind::Unsupported.into(),
        })
    }

    /// The next descriptor that was found ready.
    fn next_ready(&mut self) -> Option<WatchId> {
        None
    }

    /// Waits until something that is in flight has come a step further, or a descriptor is ready.
    fn wait(&mut self) {}
}

/// There is no room for another request; nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

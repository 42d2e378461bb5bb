//! The interface of all targets of block requests: a single device, a file, memory, or an array.

use crate::SpaceChange;
use crate::errors::AttachError;
use crate::managed::Managed;
use spindles_block::{BlockIndex, BufferId, BufferSlice, Instant, Reply, Request};
use spindles_device::counters::Counters;
use spindles_device::queues::{Watch, WatchId};
use spindles_device::{Clock, OpenError, TargetFacts};
use spindles_engine::{Command, CommandError};

impl std::fmt::Debug for dyn Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.facts().fmt(f)
    }
}

/// Carries block requests. Belongs to one thread, which polls it.
///
/// The target owns the bytes of a request from `submit` to the reply. Meanwhile `buffer` may show
/// any mixture of old and new ones.
pub trait Target: Managed {
    /// Returns facts about the target, recorded when it was opened.
    fn facts(&self) -> &TargetFacts;

    /// Allocates a zeroed buffer for requests of this target, aligned for direct I/O and registered
    /// with the kernel if possible. It lives as long as the target.
    fn allocate(&mut self, blocks: u32) -> BufferId;

    /// Returns the bytes of a buffer.
    fn buffer(&self, buffer: BufferId) -> &[u8];

    /// Returns the bytes of a buffer, for changes.
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8];

    /// Returns the clock of its devices.
    fn clock(&self) -> Clock;

    /// Returns the last reading of its clock, at no cost.
    fn now(&self) -> Instant;

    /// Takes a request of at most `facts().request_blocks_max` blocks, or refuses it. Reads fill
    /// the buffer, writes take their data from it; [`spindles_block::BufferSlice::ZEROS`] may be
    /// written.
    ///
    /// # Errors
    ///
    /// `Busy` if the maximum number of requests is in flight: try again after the next reply.
    fn submit(&mut self, request: Request) -> Result<(), Busy>;

    /// Like `submit`, but the reply to a read may name other memory than the request
    /// (`Reply::exchanged`). The caller then owns that memory. The target owns the request's
    /// memory, which a device may still write. Both have the length of the lent memory.
    ///
    /// # Errors
    ///
    /// As for `submit`.
    fn submit_exchangeable(&mut self, request: Request) -> Result<(), Busy> {
        self.submit(request)
    }

    /// Lends the target memory of one of its buffers. Hedged reads use it: reads from redundancy
    /// because a member is slow. Returns true if the target can use it. All lent areas must have
    /// the same length. Used by [`crate::Areas`].
    fn lend(&mut self, _area: BufferSlice, _blocks: u32) -> bool {
        false
    }

    /// Ends the loan of all areas. The caller may lend other memory afterwards. A straggler may
    /// still fill memory that was lent before, or exchanged for it.
    fn end_lending(&mut self) {}

    /// Makes progress and returns the next reply, in completion order. With `wait` it returns
    /// `None` only if no request is in flight.
    fn poll(&mut self, wait: bool) -> Option<Reply>;

    /// Lets the clock of modelled devices go on to a moment if nothing happens until then and no
    /// reply is there. Otherwise returns false: use `poll` and `wait_until`.
    fn skip_to(&mut self, _moment: Instant) -> bool {
        false
    }

    /// Returns true if the block `from` certainly lies on missing members, can't be computed from
    /// the others, and is not known to be zeros. Also returns the first block where that may
    /// change, at most `end`.
    fn is_out_of_reach(&self, _from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        (false, end)
    }

    /// Returns true if the block `from` was never written and is known to read as zeros. Also
    /// returns the first block where that may change, at most `end`. Blocks not known to be zeros
    /// count as data.
    fn reads_zeros(&self, _from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        (false, end)
    }

    /// Restarts the target's own threads, if any, with the current rights of the calling thread.
    /// Call it after that thread dropped rights.
    ///
    /// # Errors
    ///
    /// If threads can't be started.
    fn restart_threads(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Watches a descriptor until `next_ready` returns its id. So one thread can wait for both the
    /// target and its clients.
    ///
    /// # Errors
    ///
    /// If the target can't watch descriptors.
    fn watch(&mut self, _watch: Watch) -> Result<(), OpenError> {
        Err(OpenError::Io {
            device: self.facts().name.clone(),
            action: "look out for connections with",
            source: std::io::ErrorKind::Unsupported.into(),
        })
    }

    /// Returns the next descriptor found ready.
    fn next_ready(&mut self) -> Option<WatchId> {
        None
    }

    /// Waits until a request makes progress, or a descriptor is ready.
    fn wait(&mut self) {}

    /// Waits until a request makes progress, but no longer than until this time of its clock.
    fn wait_until(&mut self, until: Instant);

    /// Returns the I/O counters of the member devices since the target was opened.
    fn counters(&self) -> Counters;

    /// Sends a command to an array. To close it, use `close`.
    ///
    /// # Errors
    ///
    /// If the array refuses it; other targets have no members.
    fn command(&mut self, _command: Command) -> Result<(), CommandError> {
        Err(CommandError::NoSuchMember)
    }

    /// Checks that the arrays may be closed, changed and opened again. `device` joins them with the
    /// change. `moves` is set if the change moves the data or the journal, which a growing array
    /// can't do.
    ///
    /// # Errors
    ///
    /// The work in progress, or the device's role.
    fn may_restructure(&self, _device: Option<&str>, _moves: bool) -> Result<(), AttachError> {
        Ok(())
    }

    /// Describes the members that its arrays lack. Allocates.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// Returns changes since the last call in whether clients' writes get space.
    fn space_changes(&mut self) -> Vec<SpaceChange> {
        Vec::new()
    }
}

/// There is no room for another request; it was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

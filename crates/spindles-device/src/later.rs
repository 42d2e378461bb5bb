//! Asynchronous devices: they provide descriptors for the kernel's queue to wait on.

use crate::at_rest::AtRest;
use crate::buffers::{Memory, Pieces};
use crate::queues::Readiness;
use crate::transfer::Tag;
use spindles_block::{MemberResult, Operation};
use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

/// Most descriptors that one device has watched at once.
pub const LOOKOUTS: usize = 2;

/// One operation of an asynchronous device, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Returned with the result.
    pub tag: Tag,
    /// The operation.
    pub operation: Operation,
    /// The first byte on the device.
    pub offset_bytes: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Belongs to the device until the operation is done.
    pub memory: Memory,
    /// The memory of a write with several pieces, in place of `memory`.
    pub pieces: Option<Pieces>,
}

/// A device that takes operations and returns their results later. Only `prepare` and `at_rest` may
/// block.
pub trait Later: Debug {
    /// Prepares the device for use. `zeros` is zeroed memory with the length of the longest
    /// operation.
    fn prepare(&mut self, zeros: Memory) -> io::Result<()>;

    /// Adds `start_bytes` to the offset of every superblock; called before `prepare`.
    fn cut(&mut self, start_bytes: u64);

    /// Takes an operation.
    fn start(&mut self, job: Job);

    /// Makes as much progress as possible without waiting.
    fn advance(&mut self);

    /// Returns a descriptor to watch from now on, in that place, and the readiness to watch for. It
    /// stays open until `ready` is called for the place.
    fn next_watch(&mut self, place: usize) -> Option<(RawFd, Readiness)>;

    /// Reports that the descriptor in that place is ready.
    fn ready(&mut self, place: usize);

    /// Returns the next operation that is done.
    fn next_done(&mut self) -> Option<(Tag, MemberResult)>;

    /// Returns true if an operation is done.
    fn has_done(&self) -> bool;

    /// Returns the latest time for the next `advance`, even if no descriptor is ready.
    fn wake_at(&self) -> Option<Instant>;

    /// Returns the number of operations taken and not yet returned by `next_done`.
    fn in_flight(&self) -> usize;

    /// Returns the number of operations that the device did later than its model allows.
    fn late(&self) -> u64 {
        0
    }

    /// Restarts the device's threads, if any, so that they inherit the calling thread's
    /// restrictions.
    fn restart_threads(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the use of the device. Its descriptors stay open until they are no longer watched.
    fn end(&mut self);

    /// Converts it for blocking access.
    fn at_rest(self: Box<Self>) -> Box<dyn AtRest>;
}

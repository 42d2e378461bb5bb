//! What everything that carries block requests looks like from above: a single
//! device, a file, memory, or an array.

use crate::errors::AttachError;
use crate::progress::{RebuildProgress, ScrubProgress};
use crate::queues::{Watch, WatchId};
use crate::report::Taken;
use crate::{CloseError, Incident, LostBytes, OpenError, TargetFacts, TooSmall};
use spindles_block::{BlockIndex, BufferId, BufferSlice, MemberIndex, Reply, Request};
use spindles_engine::{Command, CommandError, Event, Scrub, Status};

/// Carries block requests. It belongs to one thread, which polls it.
///
/// The bytes of a request belong to the target from `submit` to the reply: what `buffer` shows of
/// them meanwhile is any mixture of old and new.
pub trait Target {
    /// What it is, read when it was opened.
    fn facts(&self) -> &TargetFacts;

    /// A new buffer of zeros for requests of this target, aligned for direct I/O and registered
    /// with the kernel where possible. It lives as long as the target.
    fn allocate(&mut self, blocks: u32) -> BufferId;

    /// The bytes of a buffer.
    fn buffer(&self, buffer: BufferId) -> &[u8];

    /// The bytes of a buffer, to be changed.
    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8];

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

    /// What the member devices were asked since the target was opened.
    fn counters(&self) -> Counters;

    /// The state of an array; `None` for anything else.
    fn status(&self) -> Option<Status> {
        None
    }

    /// The state of the array of that name: this one, or one inside it.
    fn status_of(&self, _array: &str) -> Option<Status> {
        None
    }

    /// Asks something of an array. To close it, use `close`.
    ///
    /// # Errors
    ///
    /// Why the array did not take it; anything else than an array has no members.
    fn command(&mut self, _command: Command) -> Result<(), CommandError> {
        Err(CommandError::NoSuchMember)
    }

    /// The next event of an array, with the array's name.
    fn next_event(&mut self) -> Option<(String, Event)> {
        None
    }

    /// Where a place of a member of that array lies at last, through arrays inside it without redundancy: the name of
    /// the array, its member, the block of that, counted from the start of its device, and how many follow it in
    /// order.
    fn lowest_place(
        &self,
        _array: &str,
        _member: MemberIndex,
        _block: BlockIndex,
    ) -> Option<(String, MemberIndex, BlockIndex, u32)> {
        None
    }

    /// Goes on with what is under way, jobs in the background included, and waits for its next
    /// step. `false` when nothing is under way.
    fn work(&mut self) -> bool {
        false
    }

    /// Of how many bytes of the target's arrays redundancy agrees with data, and of how many there
    /// are: unequal while a resync is under way or left some place out of sync.
    fn in_sync_bytes(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Begins a scrub of each of the target's arrays that keeps redundancy, or has checksums and no array
    /// above it that could mend what they find.
    ///
    /// # Errors
    ///
    /// Why an array did not take it; `NoRedundancy` where none has any.
    fn begin_scrub(&mut self, _scrub: Scrub) -> Result<(), CommandError> {
        Err(CommandError::NoRedundancy)
    }

    /// When that has come to its end: begins a scrub of the arrays that were left out, which finds what
    /// those above them did not mend. Whether there are any.
    ///
    /// # Errors
    ///
    /// As `begin_scrub`.
    fn begin_scrub_below(&mut self, _scrub: Scrub) -> Result<bool, CommandError> {
        Ok(false)
    }

    /// Stops the jobs of that name that are under way and may be stopped.
    fn stop_job(&mut self, _name: &'static str) {}

    /// How far they are.
    fn scrub_progress(&self) -> ScrubProgress {
        ScrubProgress::default()
    }

    /// Whether `attach` would find a place for that device.
    ///
    /// # Errors
    ///
    /// Why not.
    fn may_attach(&self, _device: &str, _member: Option<MemberIndex>) -> Result<(), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Puts a device, whatever is on it, in the place of a missing one, of the first that is or of
    /// that member, and begins to fill it. In which array, and where.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless it could not be cleared.
    fn attach(
        &mut self,
        _device: &str,
        _member: Option<MemberIndex>,
    ) -> Result<(String, MemberIndex), AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// For which members a device is too small that is to be a spare.
    ///
    /// # Errors
    ///
    /// Where it is for all of them.
    fn may_be_spare(&self, _device: &str) -> Result<Vec<TooSmall>, AttachError> {
        Err(AttachError::NothingMissing)
    }

    /// Spares that were taken since this was asked last, because a member went out.
    fn spares_taken(&mut self) -> Vec<Taken> {
        Vec::new()
    }

    /// What went wrong on the devices of its arrays since the target was opened. Allocates.
    fn incidents(&self) -> Vec<Incident> {
        Vec::new()
    }

    /// Which members its arrays lack, for people. Allocates.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// What is lost of its arrays and was not written since, in order for each array. Allocates.
    fn lost(&self) -> Vec<LostBytes> {
        Vec::new()
    }

    /// Whether `replace` would find that member, and room on that device.
    ///
    /// # Errors
    ///
    /// Why not.
    fn may_replace(&self, old: &str, _device: &str) -> Result<(), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// Begins to copy the member that the device `old` is onto another device, whatever is on that.
    /// In which array, and where.
    ///
    /// # Errors
    ///
    /// Nothing was written to the device, unless it could not be cleared.
    fn replace(&mut self, old: &str, _device: &str) -> Result<(String, MemberIndex), AttachError> {
        let device = old.to_owned();
        Err(AttachError::NotActive {
            device,
            active: Vec::new(),
        })
    }

    /// How far the devices are that are being filled, or copied onto; `None` where none is.
    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        None
    }

    /// Answers what is in flight, makes everything durable, marks an array as clean, closes the
    /// devices.
    ///
    /// # Errors
    ///
    /// When not everything became durable.
    fn close(self: Box<Self>) -> Result<(), CloseError>;
}

/// Waits until redundancy agrees with data in all arrays of a target. `progress` gets how many bytes
/// are done and how many there are; with `false` it stops the waiting. Returns whether all are in sync.
pub fn await_resync(target: &mut dyn Target, progress: &mut dyn FnMut(u64, u64) -> bool) -> bool {
    loop {
        let (in_sync, total) = target.in_sync_bytes();
        let goes_on = progress(in_sync, total);
        if in_sync == total {
            return true;
        }
        if !goes_on || !target.work() {
            return false;
        }
    }
}

/// There is no room for another request; nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// What every device of a target was asked, in the order of `TargetFacts::devices`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One per device.
    pub devices: Vec<DeviceCounters>,
}

impl Counters {
    /// All devices together.
    #[must_use]
    pub fn total(&self) -> DeviceCounters {
        let mut total = DeviceCounters::default();
        for device in &self.devices {
            total.reads += device.reads;
            total.writes += device.writes;
            total.bytes_read += device.bytes_read;
            total.bytes_written += device.bytes_written;
            total.flushes += device.flushes;
            total.zeroings += device.zeroings;
            total.bytes_zeroed += device.bytes_zeroed;
            total.errors += device.errors;
        }
        total
    }
}

/// What one device was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads.
    pub reads: u64,
    /// Writes, with and without FUA.
    pub writes: u64,
    /// Bytes of the reads.
    pub bytes_read: u64,
    /// Bytes of the writes.
    pub bytes_written: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub zeroings: u64,
    /// Bytes of the discards and write-zeroes.
    pub bytes_zeroed: u64,
    /// Operations that failed.
    pub errors: u64,
}

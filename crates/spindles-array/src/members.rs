//! The devices at the leaves, with their shared buffers and queue.

use crate::device_io::{DeviceIndex, DeviceIo};
use crate::modelled::ModelledDevices;
use crate::overlay::Overlay;
use spindles_block::{
    BlockSize, BufferId, BufferSlice, Instant as Moment, MemberError, MemberResult, Operation,
    Piece,
};
use spindles_device::backends::{self, Inline, Medium, Opened};
use spindles_device::buffers::{Buffers, Memory, PieceList, Pieces};
use spindles_device::holes::Holes;
use spindles_device::later::{Job, LOOKOUTS, Later};
use spindles_device::locks::Held;
use spindles_device::modelled::Disk;
use spindles_device::queues::{self, Chosen, Wait, Watch, WatchId};
use spindles_device::transfer::{FileIndex, Tag, Transfer, ZEROS_BYTES_MAX};
use spindles_device::{DeviceCounters, DeviceFacts, OpenError, OpenOptions};
use spindles_engine::PIECES_MAX;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How to reach a device.
#[derive(Debug)]
enum Reach {
    Inline(Box<dyn Inline>),
    File(FileIndex),
    Later(Box<dyn Later>),
    Modelled(Disk),
    /// Closed, but the owner may still poll one of the descriptors.
    Left(Box<dyn Later>),
    /// Closed.
    Nothing,
}

/// First watch id of the devices with a `Later`. Lower ids belong to the owner of the target.
const OWN_WATCHES: u32 = 1 << 31;
/// How long the kernel may take to close a removed file; `PAUSE` is the time between two tries.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Device {
    facts: DeviceFacts,
    reach: Reach,
    /// Where a slice begins in its device; 0 for a whole device.
    start_bytes: u64,
    /// The first open slice of the same device; `None` if this is the first.
    first_slice: Option<DeviceIndex>,
    counters: DeviceCounters,
    /// Operations in flight. `counters.busy_ns` counts them up to `counted_until`.
    in_flight: u32,
    counted_until: Moment,
    had_no_space: bool,
    /// True if writes stay in memory.
    is_protected: bool,
    /// `Some` if writing the device takes space.
    holes: Option<Holes>,
    /// Files held while the device is open, such as the file below a loop device.
    held: Vec<Held>,
}

/// An operation in flight; its index in `InFlight` is its tag in the queue.
#[derive(Clone, Copy, Debug)]
struct Started {
    tag: Tag,
    device: DeviceIndex,
    operation: Operation,
    at: Moment,
    /// The list of its pieces; `None` if it has one piece of memory.
    list: Option<usize>,
}

/// The lists of pieces of the writes in flight.
#[derive(Debug, Default)]
struct PieceLists {
    all: Vec<PieceList>,
    free: Vec<usize>,
}

impl PieceLists {
    /// Adds lists for this many writes at a time.
    fn add(&mut self, writes: usize) {
        self.free.extend(self.all.len()..self.all.len() + writes);
        let lists = (0..writes).map(|_| PieceList::with_capacity(PIECES_MAX));
        self.all.extend(lists);
    }

    /// Returns the memory of an operation. Lists its pieces, if it has any, and returns the number
    /// of the list too, for `end`.
    fn lend(
        &mut self,
        buffers: &Buffers,
        io: &DeviceIo,
        pieces: &[Piece],
    ) -> (Memory, Option<usize>, Option<Pieces>) {
        if pieces.is_empty() {
            let to_fill = io.operation == Operation::Read;
            return (buffers.memory(io.buffer, io.blocks, to_fill), None, None);
        }
        if self.free.is_empty() {
            self.add(1); // A closed device kept one.
        }
        let list = self.free.pop().expect("just added");
        let pieces = self.all[list].fill(buffers, pieces);
        (Memory::NONE, Some(list), Some(pieces))
    }

    fn end(&mut self, list: Option<usize>) {
        self.free.extend(list);
    }
}

/// Initial capacity for operations in flight; only the largest arrays exceed it.
const STARTED_MAX: usize = 1024;

/// Operations in flight, and the free indices among them.
#[derive(Debug)]
struct InFlight {
    started: Vec<Started>,
    free: Vec<u32>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            started: Vec::with_capacity(STARTED_MAX),
            free: Vec::with_capacity(STARTED_MAX),
        }
    }
}

impl InFlight {
    /// Stores an operation; returns its tag in the queue.
    #[inline]
    fn keep(&mut self, started: Started) -> Tag {
        if let Some(number) = self.free.pop() {
            self.started[usize::try_from(number).expect("64 bits")] = started;
            return Tag(number.into());
        }
        self.started.push(started);
        Tag(u64::try_from(self.started.len() - 1).expect("64 bits"))
    }

    /// Removes a completed operation.
    #[inline]
    fn end(&mut self, Tag(number): Tag) -> Started {
        let number = u32::try_from(number).expect("as it was given");
        self.free.push(number);
        self.started[usize::try_from(number).expect("64 bits")]
    }
}

/// Flushes of slices. Slices of one device share those that start before the same turn: until then
/// the kernel reports no write as done that a started flush could miss.
#[derive(Debug, Default)]
struct Flushes {
    /// The devices with several slices, and their flushes since the last turn.
    shared: Vec<(DeviceIndex, Option<Tag>)>,
    /// Tags of flushes that wait for another flush, each after the tag of that flush.
    waiting: Vec<(Tag, Tag)>,
    done: VecDeque<(Tag, MemberResult)>,
}

impl Flushes {
    /// Prepares for one more slice of a device.
    fn share(&mut self, device: DeviceIndex) {
        if self.of(device).is_none() {
            self.shared.push((device, None));
        }
        self.waiting.reserve(STARTED_MAX);
        self.done.reserve(STARTED_MAX);
    }

    fn of(&mut self, device: DeviceIndex) -> Option<&mut Option<Tag>> {
        let mut all = self.shared.iter_mut();
        all.find_map(|(shared, flush)| (*shared == device).then_some(flush))
    }

    /// Joins a flush that started since the last turn. Returns false without such a flush.
    fn join(&mut self, device: DeviceIndex, tag: Tag) -> bool {
        let Some(Some(flush)) = self.of(device).copied() else {
            return false;
        };
        self.waiting.push((flush, tag));
        true
    }

    /// Records a flush that has started.
    fn started(&mut self, device: DeviceIndex, flush: Tag) {
        if let Some(last) = self.of(device) {
            *last = Some(flush);
        }
    }

    fn turn(&mut self) {
        for (_, flush) in &mut self.shared {
            *flush = None;
        }
    }

    /// Ends the flushes that joined this one.
    fn end(&mut self, flush: Tag, result: MemberResult) {
        let ended = self.waiting.extract_if(.., |(other, _)| *other == flush);
        self.done.extend(ended.map(|(_, tag)| (tag, result)));
    }
}

/// All devices of a target, their buffers and their queue.
#[derive(Debug)]
pub(crate) struct Members {
    /// Dropped before the buffers and lists: the queue waits until the kernel no longer uses them.
    queue: Option<Chosen>,
    /// Dropped before the buffers and lists: a device may have a queue of its own.
    devices: Vec<Device>,
    pub(crate) buffers: Buffers,
    lists: PieceLists,
    in_flight: InFlight,
    /// Devices with a `Later`.
    later: Vec<DeviceIndex>,
    /// Ready watches of the target's owner.
    ready: VecDeque<WatchId>,
    flushes: Flushes,
    /// The writes to protected devices.
    overlay: Option<Overlay>,
    modelled: ModelledDevices,
    /// Set after a file was removed, while the kernel may not have closed it yet.
    lets_go: bool,
    block_size: BlockSize,
    options: OpenOptions,
}

impl Members {
    pub(crate) fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        let block_size = options.block_size.unwrap_or(BlockSize::B4096);
        let buffers = Buffers::new(block_size).map_err(|source| OpenError::Io {
            device: "buffers".to_owned(),
            action: "take the memory for",
            source,
        })?;
        Ok(Self {
            queue: None,
            buffers,
            lists: PieceLists::default(),
            devices: Vec::new(),
            in_flight: InFlight::default(),
            later: Vec::new(),
            ready: VecDeque::new(),
            flushes: Flushes::default(),
            overlay: None,
            modelled: ModelledDevices::default(),
            lets_go: false,
            block_size,
            options: options.clone(),
        })
    }

    pub(crate) fn options(&self) -> &OpenOptions {
        &self.options
    }

    pub(crate) fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Opens a device; retries a busy one for up to `busy_timeout`.
    pub(crate) fn add(
        &mut self,
        name: &str,
        busy_timeout: Duration,
    ) -> Result<DeviceIndex, OpenError> {
        let opened = self.open(name, busy_timeout)?;
        backends::check_blocks(&opened.facts, self.block_size)?;
        let block_bytes = self.block_size.bytes();
        if opened.facts.bytes < u64::from(block_bytes) {
            return Err(OpenError::TooSmall {
                device: name.to_owned(),
                bytes: opened.facts.bytes,
                block_bytes,
            });
        }
        let is_first = self.devices.is_empty();
        if !self.modelled.may_add(&opened.medium, is_first) {
            return Err(OpenError::ModelledAndReal {
                device: name.to_owned(),
            });
        }
        let start_bytes = opened.part.as_ref().map_or(0, |part| part.start);
        let holes = match &opened.medium {
            Medium::File(file) if opened.facts.has_holes() && !self.options.read_only => {
                Holes::of(file, start_bytes).ok()
            }
            _ => None,
        };
        let reach = self.reach(name, opened.medium)?;
        let index = u16::try_from(self.devices.len()).expect("few devices");
        let first_slice = first_slice(&self.devices, &opened.held);
        if let Some(first) = first_slice {
            self.flushes.share(first);
        }
        if matches!(reach, Reach::Later(_)) {
            self.later.push(DeviceIndex(index));
        }
        self.devices.push(Device {
            start_bytes,
            first_slice,
            held: opened.held,
            holes,
            ..Device::new(opened.facts, reach)
        });
        let index = DeviceIndex(index);
        if self.options.read_only {
            self.protect(index);
        }
        Ok(index)
    }

    /// Prepares the way to an opened device.
    fn reach(&mut self, name: &str, medium: Medium) -> Result<Reach, OpenError> {
        Ok(match medium {
            Medium::Inline(inline) => Reach::Inline(inline),
            Medium::File(file) => {
                let queue = self.queue()?;
                let file = queue.queue.add_file(file).map_err(|source| OpenError::Io {
                    device: name.to_owned(),
                    action: "hand to the kernel",
                    source,
                })?;
                Reach::File(file)
            }
            Medium::Later(mut later) => {
                self.queue()?;
                let prepared = later.prepare(self.buffers.memory(BufferSlice::ZEROS, 0, false));
                prepared.map_err(|source| OpenError::Io {
                    device: name.to_owned(),
                    action: "read",
                    source,
                })?;
                Reach::Later(later)
            }
            Medium::Modelled(disk) => Reach::Modelled(disk),
        })
    }

    /// Opens a device. Before Linux 6.13 the kernel closes a removed file only after all earlier
    /// completions are collected. So a retry after a removal must collect completions while it
    /// waits.
    fn open(&mut self, name: &str, busy_timeout: Duration) -> Result<Opened, OpenError> {
        let end = Instant::now() + CLOSED_WITHIN;
        let waiting = |busy_timeout| OpenOptions {
            busy_timeout,
            ..self.options.clone()
        };
        let (at_once, patient) = (waiting(Duration::ZERO), waiting(busy_timeout));
        while std::mem::take(&mut self.lets_go) {
            match backends::open(name, &at_once) {
                Err(OpenError::Busy { .. }) if Instant::now() < end => {
                    self.turn(Wait::AtMost(PAUSE));
                    self.lets_go = true;
                }
                Err(OpenError::Busy { .. }) => {}
                opened => return opened,
            }
        }
        backends::open(name, &patient)
    }

    /// Adds a test's own device.
    #[cfg(test)]
    pub(crate) fn add_inline(
        &mut self,
        facts: DeviceFacts,
        inline: Box<dyn Inline>,
    ) -> DeviceIndex {
        let index = u16::try_from(self.devices.len()).expect("few devices");
        self.devices.push(Device::new(facts, Reach::Inline(inline)));
        DeviceIndex(index)
    }

    /// Wraps the queue that carries file I/O in another one.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn wrap_queue(
        &mut self,
        wrap: impl FnOnce(Box<dyn queues::Queue>) -> Box<dyn queues::Queue>,
    ) {
        let Chosen { queue, reason } = self.queue.take().expect("there are files");
        let queue = wrap(queue);
        self.queue = Some(Chosen { queue, reason });
    }

    /// Returns the queue; opens it on the first call.
    fn queue(&mut self) -> Result<&mut Chosen, OpenError> {
        if self.queue.is_none() {
            let blocks =
                u32::try_from(ZEROS_BYTES_MAX).expect("a few MiB") / self.block_size.bytes();
            let zeros = self.buffers.memory(BufferSlice::ZEROS, blocks, false);
            let mut chosen = queues::open(self.options.io, zeros)?;
            for buffer in self.buffers.ids() {
                let (start, bytes) = self.buffers.extent(buffer);
                if bytes == 0 {
                    continue;
                }
                chosen.queue.add_buffer(buffer, start, bytes);
            }
            self.queue = Some(chosen);
        }
        Ok(self.queue.as_mut().expect("just opened"))
    }

    /// Closes a device that the array no longer uses, so that others may open it.
    pub(crate) fn let_go(&mut self, device: DeviceIndex) {
        let device = &mut self.devices[device.index()];
        device.reach = match std::mem::replace(&mut device.reach, Reach::Nothing) {
            Reach::File(file) => {
                let chosen = self.queue.as_mut().expect("opened for the file");
                chosen.queue.remove_file(file);
                self.lets_go = true;
                Reach::Nothing
            }
            Reach::Later(mut later) => {
                later.end();
                Reach::Left(later)
            }
            Reach::Inline(_) | Reach::Modelled(_) | Reach::Left(_) | Reach::Nothing => {
                Reach::Nothing
            }
        };
        device.held.clear();
        device.holes = None;
    }

    /// Returns all devices, including closed ones.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceIndex> + use<> {
        let count = u16::try_from(self.devices.len()).expect("few devices");
        (0..count).map(DeviceIndex)
    }

    /// Returns true if a device was closed.
    pub(crate) fn is_gone(&self, device: DeviceIndex) -> bool {
        let reach = &self.devices[device.index()].reach;
        matches!(reach, Reach::Left(_) | Reach::Nothing)
    }

    /// Returns what is special about modelled devices.
    pub(crate) fn modelled(&mut self) -> &mut ModelledDevices {
        &mut self.modelled
    }

    /// Returns the name of the I/O queue, and the reason if it is not `io_uring`.
    pub(crate) fn io(&self) -> (&'static str, Option<String>) {
        match &self.queue {
            None if self.modelled.are_there() => ("model", None),
            None => ("inline", None),
            Some(chosen) => (chosen.queue.name(), chosen.reason.clone()),
        }
    }

    /// Allocates a buffer of zeros.
    pub(crate) fn allocate(&mut self, blocks: u32) -> BufferId {
        let buffer = self.buffers.allocate(blocks).expect("memory for buffers");
        if let Some(chosen) = &mut self.queue {
            let (start, bytes) = self.buffers.extent(buffer);
            chosen.queue.add_buffer(buffer, start, bytes);
        }
        buffer
    }

    /// Returns the name of a buffer whose memory `provide` adds later.
    pub(crate) fn reserve(&mut self) -> BufferId {
        self.buffers.allocate(0).expect("memory for buffers")
    }

    /// Gives a reserved buffer its memory.
    pub(crate) fn provide(&mut self, buffer: BufferId, blocks: u32) {
        self.buffers
            .replace(buffer, blocks)
            .expect("memory for buffers");
        if let Some(chosen) = &mut self.queue {
            let (start, bytes) = self.buffers.extent(buffer);
            chosen.queue.add_buffer(buffer, start, bytes);
        }
    }

    pub(crate) fn facts(&self, device: DeviceIndex) -> &DeviceFacts {
        &self.devices[device.index()].facts
    }

    pub(crate) fn counters(&self, device: DeviceIndex) -> DeviceCounters {
        let device = &self.devices[device.index()];
        let late = match &device.reach {
            Reach::Later(later) => later.late(),
            _ => 0,
        };
        DeviceCounters {
            late,
            ..device.counters
        }
    }

    /// Returns the device's size.
    pub(crate) fn blocks(&self, device: DeviceIndex) -> u64 {
        self.facts(device).bytes / u64::from(self.block_size.bytes())
    }

    /// Keeps all later writes to a device in memory.
    pub(crate) fn protect(&mut self, device: DeviceIndex) {
        let protected = &mut self.devices[device.index()];
        protected.is_protected = true;
        protected.holes = None;
        let block_size = self.block_size;
        self.overlay.get_or_insert_with(|| Overlay::new(block_size));
    }

    /// Returns true if writes to a device stay in memory.
    pub(crate) fn is_protected(&self, device: DeviceIndex) -> bool {
        self.devices[device.index()].is_protected
    }

    /// Returns true once a write to protected devices found no memory left.
    pub(crate) fn is_overlay_full(&self) -> bool {
        self.overlay.as_ref().is_some_and(Overlay::is_full)
    }

    /// Prepares for one more array, with this many writes of several pieces at a time.
    pub(crate) fn prepare_pieces(&mut self, writes: usize) {
        self.lists.add(writes);
    }

    /// Starts an operation. `pieces` is the memory of a write with several pieces, at most
    /// `PIECES_MAX`. Returns the result if the device is synchronous; otherwise `next_done` returns
    /// it later.
    #[inline]
    pub(crate) fn start(
        &mut self,
        tag: Tag,
        device: DeviceIndex,
        io: &DeviceIo,
        pieces: &[Piece],
        now: Moment,
    ) -> Option<MemberResult> {
        if self.devices[device.index()].is_protected {
            return self.start_overlaid(tag, device, io, pieces, now);
        }
        self.start_below(tag, device, io, pieces, now)
    }

    /// Starts an operation on a protected device.
    fn start_overlaid(
        &mut self,
        tag: Tag,
        device: DeviceIndex,
        io: &DeviceIo,
        pieces: &[Piece],
        now: Moment,
    ) -> Option<MemberResult> {
        if self.is_gone(device) {
            return Some(Err(MemberError::Gone));
        }
        let overlay = self.overlay.as_mut().expect("a device is protected");
        if io.operation != Operation::Read {
            let mut parts = io.parts(pieces);
            let result = parts.try_for_each(|part| overlay.write(device, &part, &self.buffers));
            if let Err(error) = result {
                self.count_error(device, error);
            }
            return Some(result);
        }
        if overlay.is_empty() {
            return self.start_below(tag, device, io, &[], now);
        }
        let mut rest = *io;
        loop {
            let overlay = self.overlay.as_mut().expect("a device is protected");
            let run = overlay.fill(device, &mut rest, &mut self.buffers);
            if run == 0 {
                return Some(Ok(()));
            }
            let first = DeviceIo {
                blocks: run,
                ..rest
            };
            rest.advance(run);
            match self.start_below(tag, device, &first, &[], now) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let overlay = self.overlay.as_mut().expect("a device is protected");
                    overlay.keep_rest(tag, device, rest);
                    return None;
                }
            }
        }
    }

    /// Starts an operation on the device itself.
    fn start_below(
        &mut self,
        tag: Tag,
        device: DeviceIndex,
        io: &DeviceIo,
        pieces: &[Piece],
        now: Moment,
    ) -> Option<MemberResult> {
        let (index, device) = (device, &mut self.devices[device.index()]);
        let block_bytes = u64::from(self.block_size.bytes());
        let bytes = u64::from(io.blocks) * block_bytes;
        let offset_bytes = device.start_bytes + io.block.0 * block_bytes;
        let whole = device.first_slice.unwrap_or(index);
        let is_flush = io.operation == Operation::Flush && !self.options.ignore_flushes;
        if is_flush && device.is_open_file() && self.flushes.join(whole, tag) {
            return None;
        }
        device.counters.count(io.operation, bytes);
        let mut io = *io;
        if self.options.ignore_flushes {
            match unflushed(io.operation) {
                Some(operation) => io.operation = operation,
                None => return Some(Ok(())),
            }
        }
        let started = |list| Started {
            tag,
            device: index,
            operation: io.operation,
            at: now,
            list,
        };
        match &mut device.reach {
            Reach::Left(_) | Reach::Nothing => return Some(Err(MemberError::Gone)),
            Reach::Inline(inline) => {
                let start_bytes = device.start_bytes;
                let result = execute(&mut **inline, &mut self.buffers, start_bytes, io, pieces);
                device.counters.errors += u64::from(result.is_err());
                return Some(result);
            }
            Reach::Modelled(disk) => {
                let tag = self.in_flight.keep(started(None));
                (self.modelled).start(disk, tag, offset_bytes, &io, pieces, &mut self.buffers);
                device.begin(now);
                return None;
            }
            Reach::File(_) | Reach::Later(_) => {}
        }
        let (memory, list, pieces) = self.lists.lend(&self.buffers, &io, pieces);
        let tag = self.in_flight.keep(started(list));
        device.begin(now);
        if let Reach::Later(later) = &mut device.reach {
            later.start(Job {
                tag,
                operation: io.operation,
                offset_bytes,
                bytes,
                memory,
                pieces,
            });
        } else if let Reach::File(file) = device.reach {
            let transfer = Transfer::new(tag, file, io.operation, offset_bytes, bytes, memory);
            if is_flush {
                self.flushes.started(whole, tag);
            }
            let chosen = self.queue.as_mut().expect("opened for the file");
            chosen.queue.start(transfer.with_pieces(pieces));
        }
        None
    }

    /// Submits started operations without waiting for them.
    pub(crate) fn hand_over(&mut self) {
        self.advance();
        if let Some(chosen) = &mut self.queue {
            chosen.queue.hand_over();
        }
    }

    /// Returns the next completed operation.
    pub(crate) fn next_done(&mut self, now: Moment) -> Option<(Tag, MemberResult)> {
        loop {
            let (tag, result) = self.next_done_below(now)?;
            let overlay = self.overlay.as_mut();
            let Some((device, rest)) = overlay.and_then(|overlay| overlay.take_rest(tag)) else {
                return Some((tag, result));
            };
            let result = match result {
                Ok(()) => self.start_overlaid(tag, device, &rest, &[], now),
                Err(error) => Some(Err(error)),
            };
            if let Some(result) = result {
                return Some((tag, result));
            }
        }
    }

    /// Returns the next operation that a device completed.
    fn next_done_below(&mut self, now: Moment) -> Option<(Tag, MemberResult)> {
        if let Some(done) = self.flushes.done.pop_front() {
            return Some(done);
        }
        if let Some((tag, result)) = self.modelled.next_done() {
            let started = self.in_flight.end(tag);
            self.devices[started.device.index()].end(&started, now);
            return Some((started.tag, result));
        }
        let done = self.queue.as_mut()?.queue.next_done();
        let done = done.or_else(|| self.later().find_map(|later| later.next_done()));
        let (tag, result) = done?;
        let started = self.in_flight.end(tag);
        self.lists.end(started.list);
        self.devices[started.device.index()].end(&started, now);
        if started.operation == Operation::Flush {
            self.flushes.end(tag, result);
        }
        Some((started.tag, result))
    }

    /// Counts an error that `next_done` returned for an operation of the device.
    pub(crate) fn count_error(&mut self, device: DeviceIndex, error: MemberError) {
        let device = &mut self.devices[device.index()];
        device.counters.errors += 1;
        device.had_no_space |= error == MemberError::NoSpace;
    }

    /// Returns true if a write failed because the storage below the device was full.
    pub(crate) fn had_no_space(&self, device: DeviceIndex) -> bool {
        self.devices[device.index()].had_no_space
    }

    /// Records that the storage below the device has no space for a write.
    pub(crate) fn lacks_space(&mut self, device: DeviceIndex) {
        self.devices[device.index()].had_no_space = true;
    }

    /// Returns true if writing any device takes space.
    pub(crate) fn has_holes(&self) -> bool {
        self.devices.iter().any(|device| device.holes.is_some())
    }

    /// Returns the device's holes; `None` if writing it takes no space.
    pub(crate) fn holes(&self, device: DeviceIndex) -> Option<&Holes> {
        self.devices[device.index()].holes.as_ref()
    }

    /// Submits started operations, and collects completed ones.
    pub(crate) fn turn(&mut self, wait: Wait) {
        if self.modelled.turn(wait) {
            return;
        }
        self.flushes.turn();
        self.advance();
        let wait = self.limited(wait);
        match (&mut self.queue, wait) {
            (Some(chosen), wait) => chosen.queue.turn(wait),
            (None, Wait::AtMost(time)) => std::thread::sleep(time),
            (None, Wait::No | Wait::Forever) => {}
        }
        let mut is_own = false;
        while let Some(id) = self
            .queue
            .as_mut()
            .and_then(|queue| queue.queue.next_ready())
        {
            let Some(own) = id.0.checked_sub(OWN_WATCHES) else {
                self.ready.push_back(id);
                continue;
            };
            is_own = true;
            let own = usize::try_from(own).expect("64 bits");
            let device = self.later[own / LOOKOUTS];
            let reach = &mut self.devices[device.index()].reach;
            if let Reach::Later(later) | Reach::Left(later) = reach {
                later.ready(own % LOOKOUTS);
            }
        }
        if is_own {
            self.advance();
        }
    }

    /// Returns the devices with a `Later` that are not closed.
    fn later(&mut self) -> impl Iterator<Item = &mut Box<dyn Later>> {
        let devices = self.devices.iter_mut();
        devices.filter_map(|device| match &mut device.reach {
            Reach::Later(later) => Some(later),
            _ => None,
        })
    }

    /// Lets each `Later` device make progress, and polls the descriptors that it waits for.
    fn advance(&mut self) {
        for (own, device) in (0..).zip(&self.later) {
            let Reach::Later(later) = &mut self.devices[device.index()].reach else {
                continue;
            };
            later.advance();
            let chosen = self.queue.as_mut().expect("opened for the device");
            for place in 0..LOOKOUTS {
                let Some((descriptor, readiness)) = later.next_watch(place) else {
                    continue;
                };
                let place = own * LOOKOUTS + place;
                let watched = chosen.queue.watch(Watch {
                    descriptor,
                    readiness,
                    id: WatchId(OWN_WATCHES + u32::try_from(place).expect("few devices")),
                });
                watched.expect("the queue watched connections before");
            }
        }
    }

    /// Limits the wait of a turn, so that no `Later` device misses its wake-up time.
    fn limited(&mut self, wait: Wait) -> Wait {
        if wait == Wait::No || self.later.is_empty() {
            return wait;
        }
        let mut wake_at = None;
        for later in self.later() {
            if later.has_done() {
                return Wait::No;
            }
            wake_at = [wake_at, later.wake_at()].into_iter().flatten().min();
        }
        let left = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
        match (wait, left) {
            (Wait::Forever, Some(left)) => Wait::AtMost(left),
            (Wait::AtMost(time), Some(left)) => Wait::AtMost(Duration::min(time, left)),
            (wait, _) => wait,
        }
    }

    /// Polls a descriptor in the following turns, until it is ready.
    pub(crate) fn watch(&mut self, watch: Watch) -> Result<(), OpenError> {
        let watched = self.queue()?.queue.watch(watch);
        watched.map_err(|source| OpenError::Io {
            device: "a connection".to_owned(),
            action: "look out for",
            source,
        })
    }

    /// Restarts the threads that carry operations, so that they inherit the calling thread's
    /// restrictions.
    pub(crate) fn restart_threads(&mut self) -> std::io::Result<()> {
        for later in self.later() {
            later.restart_threads()?;
        }
        let chosen = self.queue.as_mut();
        chosen.map_or(Ok(()), |chosen| chosen.queue.restart_threads())
    }

    /// Returns the next descriptor that a turn found ready.
    pub(crate) fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_front()
    }

    /// Returns true if a descriptor is polled or ready.
    pub(crate) fn watches(&self) -> bool {
        let chosen = self.queue.as_ref();
        !self.ready.is_empty() || chosen.is_some_and(|chosen| chosen.queue.watches())
    }

    /// Returns true if an operation was started and `next_done` has not returned it yet.
    pub(crate) fn busy(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|chosen| chosen.queue.in_flight() > 0)
            || self.modelled.busy()
            || !self.flushes.done.is_empty()
            || self.later.iter().any(|device| {
                let reach = &self.devices[device.index()].reach;
                matches!(reach, Reach::Later(later) if later.in_flight() > 0)
            })
    }
}

/// Returns the first slice of the file of which `held` holds a slice too.
fn first_slice(devices: &[Device], held: &[Held]) -> Option<DeviceIndex> {
    let is_same = |device: &Device| {
        let mut pairs = device
            .held
            .iter()
            .flat_map(|own| held.iter().map(move |other| (own, other)));
        device.is_open_file() && pairs.any(|(own, other)| own.is_same_device(other))
    };
    let at = devices.iter().position(is_same)?;
    let found = DeviceIndex(u16::try_from(at).expect("few devices"));
    Some(devices[at].first_slice.unwrap_or(found))
}

/// Executes an operation on a synchronous device. `start_bytes`: where the device begins in it.
#[inline]
fn execute(
    device: &mut dyn Inline,
    buffers: &mut Buffers,
    start_bytes: u64,
    io: DeviceIo,
    pieces: &[Piece],
) -> MemberResult {
    let block_bytes = u64::from(buffers.block_size().bytes());
    let offset = |io: &DeviceIo| start_bytes + io.block.0 * block_bytes;
    match io.operation {
        Operation::Read => device.read(offset(&io), buffers.slice_mut(io.buffer, io.blocks)),
        Operation::Write { .. } => io.parts(pieces).try_for_each(|part| {
            let bytes = buffers.slice(part.buffer, part.blocks);
            device.write(offset(&part), bytes)
        }),
        Operation::Flush => device.flush(),
        Operation::Discard | Operation::WriteZeroes { .. } => {
            device.zero(offset(&io), u64::from(io.blocks) * block_bytes)
        }
    }
}

impl Device {
    fn new(facts: DeviceFacts, reach: Reach) -> Self {
        Self {
            facts,
            reach,
            start_bytes: 0,
            first_slice: None,
            counters: DeviceCounters::default(),
            in_flight: 0,
            counted_until: Moment(0),
            had_no_space: false,
            is_protected: false,
            holes: None,
            held: Vec::new(),
        }
    }

    fn is_open_file(&self) -> bool {
        matches!(self.reach, Reach::File(_))
    }

    #[inline]
    fn begin(&mut self, now: Moment) {
        if self.in_flight == 0 {
            self.counted_until = now;
        }
        self.in_flight += 1;
    }

    #[inline]
    fn end(&mut self, started: &Started, now: Moment) {
        self.in_flight -= 1;
        self.counters.busy_ns += now.ns_since(self.counted_until);
        self.counted_until = now;
        let took_ns = now.ns_since(started.at);
        match started.operation {
            Operation::Read => self.counters.read_latencies.add(took_ns),
            Operation::Write { .. } => self.counters.write_latencies.add(took_ns),
            _ => {}
        }
    }
}

/// Returns the operation without its durability request; `None` if nothing else is left of it.
fn unflushed(operation: Operation) -> Option<Operation> {
    match operation {
        Operation::Flush => None,
        Operation::Write { .. } => Some(Operation::Write { fua: false }),
        Operation::WriteZeroes { .. } => Some(Operation::WriteZeroes { fua: false }),
        Operation::Read | Operation::Discard => Some(operation),
    }
}

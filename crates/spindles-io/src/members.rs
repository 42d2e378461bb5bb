//! The devices at the leaves with what they share: buffers and the queue.

use crate::backends::{self, Inline, Medium, Opened};
use crate::buffers::Buffers;
use crate::holes::Holes;
use crate::later::{Job, LOOKOUTS, Later};
use crate::locks::Held;
use crate::queues::{self, Chosen, Wait, Watch, WatchId};
use crate::transfer::{FileIndex, Tag, Transfer, ZEROS_BYTES_MAX};
use crate::{DeviceCounters, DeviceFacts, OpenError, OpenOptions};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, Instant as Moment, MemberError, MemberResult,
    Operation,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A device at a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceIndex(pub(crate) u16);

impl DeviceIndex {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How a device is reached.
#[derive(Debug)]
enum Reach {
    Inline(Box<dyn Inline>),
    File(FileIndex),
    Later(Box<dyn Later>),
    /// It was let go, and one of its descriptors may be looked out for still.
    Left(Box<dyn Later>),
    /// It was let go.
    Nothing,
}

/// The first watch of the first device that answers later: those below are of whoever has the target.
const OWN_WATCHES: u32 = 1 << 31;
/// So long a file that was let go may take to be closed, and how often that is looked at.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Device {
    facts: DeviceFacts,
    reach: Reach,
    counters: DeviceCounters,
    /// Operations under way, and until when `counters.busy_ns` counts them.
    in_flight: u32,
    counted_until: Moment,
    had_no_space: bool,
    /// It takes space when it is written.
    holes: Option<Holes>,
    /// Of the file below a loop device.
    held: Vec<Held>,
}

/// One operation of a device, in its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceIo {
    pub(crate) operation: Operation,
    pub(crate) block: BlockIndex,
    pub(crate) blocks: u32,
    pub(crate) buffer: BufferSlice,
}

/// An operation under way, by the number that its queue has for it.
#[derive(Clone, Copy, Debug)]
struct Started {
    tag: Tag,
    device: DeviceIndex,
    operation: Operation,
    at: Moment,
}

/// More operations than are under way at once, but for the largest arrays.
const STARTED_MAX: usize = 1024;

/// All devices of a target, their buffers and their queue.
#[derive(Debug)]
pub(crate) struct Members {
    /// Goes before the buffers: it waits for what the kernel still does with them.
    queue: Option<Chosen>,
    pub(crate) buffers: Buffers,
    devices: Vec<Device>,
    /// Operations under way, and the numbers among them that are free.
    started: Vec<Started>,
    free: Vec<u32>,
    /// Those that answer later.
    later: Vec<DeviceIndex>,
    /// What others look out for, and is ready.
    ready: VecDeque<WatchId>,
    /// A file was let go, and the kernel may not have closed it yet.
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
            devices: Vec::new(),
            started: Vec::with_capacity(STARTED_MAX),
            free: Vec::with_capacity(STARTED_MAX),
            later: Vec::new(),
            ready: VecDeque::new(),
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

    /// Opens a device. One that is busy is waited for as long as that.
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
        let holes = match &opened.medium {
            Medium::File(file) if opened.facts.has_holes() && !self.options.read_only => {
                Holes::of(file).ok()
            }
            _ => None,
        };
        let reach = match opened.medium {
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
        };
        let index = u16::try_from(self.devices.len()).expect("few devices");
        if matches!(reach, Reach::Later(_)) {
            self.later.push(DeviceIndex(index));
        }
        self.devices.push(Device {
            facts: opened.facts,
            reach,
            held: opened.held,
            counters: DeviceCounters::default(),
            in_flight: 0,
            counted_until: Moment(0),
            had_no_space: false,
            holes,
        });
        Ok(DeviceIndex(index))
    }

    /// Before Linux 6.13 the kernel closes a file that was let go only when all is collected that was asked before: who
    /// opens it again must not wait for that without collecting.
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

    /// Adds a device of a test's own.
    #[cfg(test)]
    pub(crate) fn add_inline(
        &mut self,
        facts: DeviceFacts,
        inline: Box<dyn Inline>,
    ) -> DeviceIndex {
        let index = u16::try_from(self.devices.len()).expect("few devices");
        self.devices.push(Device {
            facts,
            reach: Reach::Inline(inline),
            held: Vec::new(),
            counters: DeviceCounters::default(),
            in_flight: 0,
            counted_until: Moment(0),
            had_no_space: false,
            holes: None,
        });
        DeviceIndex(index)
    }

    /// Puts another queue before the one that carries I/O on files.
    #[cfg(test)]
    pub(crate) fn wrap_queue(
        &mut self,
        wrap: impl FnOnce(Box<dyn queues::Queue>) -> Box<dyn queues::Queue>,
    ) {
        let Chosen { queue, reason } = self.queue.take().expect("there are files");
        let queue = wrap(queue);
        self.queue = Some(Chosen { queue, reason });
    }

    /// The queue, opened for the first file.
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

    /// Closes a device that nothing is asked of any more, so that others may have it.
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
            Reach::Inline(_) | Reach::Left(_) | Reach::Nothing => Reach::Nothing,
        };
        device.held.clear();
        device.holes = None;
    }

    /// All devices, those too that were let go.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceIndex> + use<> {
        let count = u16::try_from(self.devices.len()).expect("few devices");
        (0..count).map(DeviceIndex)
    }

    /// Whether a device was let go.
    pub(crate) fn is_gone(&self, device: DeviceIndex) -> bool {
        let reach = &self.devices[device.index()].reach;
        matches!(reach, Reach::Left(_) | Reach::Nothing)
    }

    /// What carries the I/O, and why it is not `io_uring`.
    pub(crate) fn io(&self) -> (&'static str, Option<String>) {
        match &self.queue {
            None => ("inline", None),
            Some(chosen) => (chosen.queue.name(), chosen.reason.clone()),
        }
    }

    /// A new buffer of zeros.
    pub(crate) fn allocate(&mut self, blocks: u32) -> BufferId {
        let buffer = self.buffers.allocate(blocks).expect("memory for buffers");
        if let Some(chosen) = &mut self.queue {
            let (start, bytes) = self.buffers.extent(buffer);
            chosen.queue.add_buffer(buffer, start, bytes);
        }
        buffer
    }

    /// A name for a buffer that is to be provided later.
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
        self.devices[device.index()].counters
    }

    /// The device's size.
    pub(crate) fn blocks(&self, device: DeviceIndex) -> u64 {
        self.facts(device).bytes / u64::from(self.block_size.bytes())
    }

    /// Starts an operation; the result at once where the device does everything at once, else
    /// later from `next_done`.
    pub(crate) fn start(
        &mut self,
        tag: Tag,
        device: DeviceIndex,
        io: &DeviceIo,
        now: Moment,
    ) -> Option<MemberResult> {
        let index = device;
        let block_bytes = u64::from(self.block_size.bytes());
        let offset_bytes = io.block.0 * block_bytes;
        let bytes = u64::from(io.blocks) * block_bytes;
        let device = &mut self.devices[device.index()];
        device.counters.count(io.operation, bytes);
        let mut io = *io;
        if self.options.ignore_flushes {
            let Some(operation) = unflushed(io.operation) else {
                return Some(Ok(()));
            };
            io.operation = operation;
        }
        let inline = match &mut device.reach {
            Reach::Inline(inline) => inline,
            Reach::Left(_) | Reach::Nothing => return Some(Err(MemberError::Gone)),
            Reach::File(file) => {
                let to_fill = io.operation == Operation::Read;
                let memory = self.buffers.memory(io.buffer, io.blocks, to_fill);
                let at = Started {
                    tag,
                    device: index,
                    operation: io.operation,
                    at: now,
                };
                let tag = keep(&mut self.started, &mut self.free, at);
                let transfer = Transfer::new(tag, *file, io.operation, offset_bytes, bytes, memory);
                device.begin(now);
                let chosen = self.queue.as_mut().expect("opened for the file");
                chosen.queue.start(transfer);
                return None;
            }
            Reach::Later(later) => {
                let to_fill = io.operation == Operation::Read;
                let at = Started {
                    tag,
                    device: index,
                    operation: io.operation,
                    at: now,
                };
                later.start(Job {
                    tag: keep(&mut self.started, &mut self.free, at),
                    operation: io.operation,
                    offset_bytes,
                    bytes,
                    memory: self.buffers.memory(io.buffer, io.blocks, to_fill),
                });
                device.begin(now);
                return None;
            }
        };
        let result = match io.operation {
            Operation::Read => {
                inline.read(offset_bytes, self.buffers.slice_mut(io.buffer, io.blocks))
            }
            Operation::Write { .. } => {
                inline.write(offset_bytes, self.buffers.slice(io.buffer, io.blocks))
            }
            Operation::Flush => inline.flush(),
            Operation::Discard | Operation::WriteZeroes { .. } => inline.zero(offset_bytes, bytes),
        };
        if result.is_err() {
            device.counters.errors += 1;
        }
        Some(result)
    }

    /// Hands over what was started, which goes on meanwhile.
    pub(crate) fn hand_over(&mut self) {
        self.advance();
        if let Some(chosen) = &mut self.queue {
            chosen.queue.hand_over();
        }
    }

    /// The next operation that has ended.
    pub(crate) fn next_done(&mut self, now: Moment) -> Option<(Tag, MemberResult)> {
        let done = self.queue.as_mut()?.queue.next_done();
        let done = done.or_else(|| self.later().find_map(|later| later.next_done()));
        let (Tag(number), result) = done?;
        let number = u32::try_from(number).expect("as it was given");
        let started = self.started[usize::try_from(number).expect("64 bits")];
        self.free.push(number);
        self.devices[started.device.index()].end(&started, now);
        Some((started.tag, result))
    }

    /// An operation of the device ended with an error, as `next_done` said.
    pub(crate) fn count_error(&mut self, device: DeviceIndex, error: MemberError) {
        let device = &mut self.devices[device.index()];
        device.counters.errors += 1;
        device.had_no_space |= error == MemberError::NoSpace;
    }

    /// Whether a write failed as there was no space where the device lies.
    pub(crate) fn had_no_space(&self, device: DeviceIndex) -> bool {
        self.devices[device.index()].had_no_space
    }

    /// There is no space for a write where the device lies.
    pub(crate) fn lacks_space(&mut self, device: DeviceIndex) {
        self.devices[device.index()].had_no_space = true;
    }

    /// Whether any device takes space when it is written.
    pub(crate) fn has_holes(&self) -> bool {
        self.devices.iter().any(|device| device.holes.is_some())
    }

    /// The device, if it takes space when it is written.
    pub(crate) fn holes(&self, device: DeviceIndex) -> Option<&Holes> {
        self.devices[device.index()].holes.as_ref()
    }

    /// Hands over what was started and collects what has ended.
    pub(crate) fn turn(&mut self, wait: Wait) {
        self.advance();
        let wait = self.limited(wait);
        match (&mut self.queue, wait) {
            (Some(chosen), wait) => chosen.queue.turn(wait),
            (None, Wait::AtMost(time)) => std::thread::sleep(time),
            (None, Wait::No | Wait::Forever) => {}
        }
        let mut is_own = false;
        while let Some(id) = self.queue.as_mut().and_then(|it| it.queue.next_ready()) {
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

    /// The devices that answer later.
    fn later(&mut self) -> impl Iterator<Item = &mut Box<dyn Later>> {
        let devices = self.devices.iter_mut();
        devices.filter_map(|device| match &mut device.reach {
            Reach::Later(later) => Some(later),
            _ => None,
        })
    }

    /// Those that answer later go as far as they can, and look out for what they wait for.
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
                watched.expect("it was looked out for connections before");
            }
        }
    }

    /// How long a turn may wait so that no device that answers later is left alone.
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

    /// Looks out for a descriptor with the turns that follow, until it is ready.
    pub(crate) fn watch(&mut self, watch: Watch) -> Result<(), OpenError> {
        let watched = self.queue()?.queue.watch(watch);
        watched.map_err(|source| OpenError::Io {
            device: "a connection".to_owned(),
            action: "look out for",
            source,
        })
    }

    /// Threads that carry operations begin anew: with what the calling thread may.
    pub(crate) fn restart_threads(&mut self) -> std::io::Result<()> {
        let chosen = self.queue.as_mut();
        chosen.map_or(Ok(()), |chosen| chosen.queue.restart_threads())
    }

    /// The next descriptor that a turn has found ready.
    pub(crate) fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_front()
    }

    /// Whether a descriptor is looked out for, or one is ready.
    pub(crate) fn watches(&self) -> bool {
        let chosen = self.queue.as_ref();
        !self.ready.is_empty() || chosen.is_some_and(|chosen| chosen.queue.watches())
    }

    /// Whether an operation was started and not yet given back by `next_done`.
    pub(crate) fn busy(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|chosen| chosen.queue.in_flight() > 0)
            || self.later.iter().any(|device| {
                let reach = &self.devices[device.index()].reach;
                matches!(reach, Reach::Later(later) if later.in_flight() > 0)
            })
    }
}

/// Keeps an operation that begins; returns what its queue calls it.
#[inline]
fn keep(all: &mut Vec<Started>, free: &mut Vec<u32>, started: Started) -> Tag {
    if let Some(number) = free.pop() {
        all[usize::try_from(number).expect("64 bits")] = started;
        return Tag(number.into());
    }
    all.push(started);
    Tag(u64::try_from(all.len() - 1).expect("64 bits"))
}

impl Device {
    /// An operation begins.
    #[inline]
    fn begin(&mut self, now: Moment) {
        if self.in_flight == 0 {
            self.counted_until = now;
        }
        self.in_flight += 1;
    }

    /// An operation ends.
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

/// The same without asking for anything durable; `None` where nothing is left of it.
fn unflushed(operation: Operation) -> Option<Operation> {
    match operation {
        Operation::Flush => None,
        Operation::Write { .. } => Some(Operation::Write { fua: false }),
        Operation::WriteZeroes { .. } => Some(Operation::WriteZeroes { fua: false }),
        Operation::Read | Operation::Discard => Some(operation),
    }
}

impl DeviceCounters {
    fn count(&mut self, operation: Operation, bytes: u64) {
        match operation {
            Operation::Read => {
                self.reads += 1;
                self.bytes_read += bytes;
            }
            Operation::Write { .. } => {
                self.writes += 1;
                self.bytes_written += bytes;
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard | Operation::WriteZeroes { .. } => {
                self.zeroings += 1;
                self.bytes_zeroed += bytes;
            }
        }
    }
}

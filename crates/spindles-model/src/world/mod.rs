//! All modelled devices of a target, with one event queue.

mod heap;

use crate::account::Account;
use crate::draw::Draw;
use crate::fault::{Fault, Problem};
use crate::kinds;
pub use crate::model::Tag;
use crate::model::{Io, Model, Outbox};
use crate::parameters::{Link, Parameters, SECTOR_BYTES};
use heap::Heap;
use spindles_block::{Instant, Operation};
use std::collections::VecDeque;
use std::fmt::Debug;

/// A device of a world, by the order in which devices were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// A link of a world, by the order in which links were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// What a request asks of a device. Offset and length are multiples of 512 bytes; a flush has
/// neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The operation, with FUA.
    pub operation: Operation,
    /// The first byte.
    pub offset_bytes: u64,
    /// The number of bytes.
    pub length_bytes: u64,
}

/// An answer: the device has done what the request asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The device.
    pub device: DeviceId,
    /// The tag of the request.
    pub tag: Tag,
    /// The moment of the answer.
    pub at: Instant,
}

#[derive(Debug)]
struct LinkState {
    ps_per_byte: u64,
    command_ns: u64,
    is_held: bool,
    users: u32,
    /// The link is free from this moment on.
    free_at: u64,
    /// The request that holds a held link.
    holder: Option<(u32, Tag)>,
    /// Requests that wait for a held link.
    waiting: VecDeque<(u32, Tag, Work, u64)>,
}

#[derive(Debug)]
struct Device {
    model: Box<dyn Model>,
    /// From the disk to the host.
    chain: Vec<LinkId>,
    slowest_ps_per_byte: u64,
    in_flight: u32,
    busy_since: u64,
    account: Account,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The device finished, and the answer has arrived.
    Answered {
        device: u32,
        tag: Tag,
        finished: bool,
    },
    /// Data is about to leave the device over a shared link.
    Ready { device: u32, tag: Tag, bytes: u64 },
}

/// All modelled devices of a target and their links.
///
/// ```
/// use spindles_block::{Instant, Operation};
/// use spindles_model::{Draw, Tag, Work, World, parse_preset};
///
/// let text = r#"
///     name = "example"
///     kind = "fixed"
///     sectors = { value = 1000, how = "assumed", source = "example" }
///     read_rate_mb_s = { value = 100, how = "assumed", source = "example" }
/// "#;
/// let parameters = parse_preset("example.toml", text)?;
/// let mut world = World::new();
/// let disk = world.add_disk(&parameters, &Draw::exact(), &[])?;
/// let work = Work { operation: Operation::Read, offset_bytes: 0, length_bytes: 4096 };
/// world.submit(Instant(0), disk, Tag(7), work);
/// let at = world.next_event().unwrap();
/// let mut answers = Vec::new();
/// world.advance(at, &mut answers);
/// assert_eq!((answers[0].tag, answers[0].at), (Tag(7), Instant(40_960)));
/// # Ok::<(), spindles_model::Fault>(())
/// ```
#[derive(Debug)]
pub struct World {
    devices: Vec<Device>,
    links: Vec<LinkState>,
    events: Heap<Cause>,
    outbox: Outbox,
    now: u64,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty world at time 0.
    pub const fn new() -> Self {
        Self {
            devices: Vec::new(),
            links: Vec::new(),
            events: Heap::new(),
            outbox: Outbox {
                answers: Vec::new(),
            },
            now: 0,
        }
    }

    /// Adds a link.
    pub fn add_link(&mut self, link: Link) -> LinkId {
        assert!(link.bytes_per_s > 0, "a link without a rate");
        self.links.push(LinkState {
            ps_per_byte: 1_000_000_000_000_u64.div_ceil(link.bytes_per_s),
            command_ns: link.command_ns,
            is_held: link.is_held,
            users: 0,
            free_at: 0,
            holder: None,
            waiting: VecDeque::new(),
        });
        LinkId(index32(self.links.len() - 1))
    }

    /// Adds a disk behind a chain of links, from the disk to the host. Its spindle's angle follows
    /// from the draw and the number of devices before it. Add all disks before the first request.
    pub fn add_disk(
        &mut self,
        parameters: &Parameters,
        draw: &Draw,
        chain: &[LinkId],
    ) -> Result<DeviceId, Fault> {
        let id = index32(self.devices.len());
        let Some(build) = kinds::build(parameters.kind) else {
            let place = format!("{}: kind", parameters.name);
            let expected = "the kind of a disk".to_owned();
            return Err(Fault::new(place, Problem::Expected { expected }));
        };
        let mut model = build(&parameters.values(draw), draw.angle(id))?;
        let rates = chain.iter().map(|link| self.link(*link).ps_per_byte);
        let slowest_ps_per_byte = rates.max().unwrap_or(0);
        model.attach(slowest_ps_per_byte);
        for link in chain {
            self.link_mut(*link).users += 1;
        }
        self.devices.push(Device {
            model,
            chain: chain.to_vec(),
            slowest_ps_per_byte,
            in_flight: 0,
            busy_since: 0,
            account: Account::default(),
        });
        Ok(DeviceId(id))
    }

    /// The size of a device.
    pub fn capacity_bytes(&self, device: DeviceId) -> u64 {
        self.device(device.0).model.capacity_bytes()
    }

    /// Requests of a device that are not answered.
    pub fn in_flight(&self, device: DeviceId) -> u32 {
        self.device(device.0).in_flight
    }

    /// Where the time of a device's requests went. Requests in flight count up to now.
    pub fn account(&self, device: DeviceId) -> Account {
        let device = self.device(device.0);
        let mut account = device.account;
        let so_far = u64::from(device.in_flight).wrapping_mul(self.now);
        account.response_ns = account.response_ns.wrapping_add(so_far);
        if device.in_flight > 0 {
            account.busy_ns += self.now - device.busy_since;
        }
        account.add(&device.model.account());
        account
    }

    /// The number of events carried out.
    pub const fn events(&self) -> u64 {
        self.events.pushed()
    }

    /// Sends a request at `now`, which is no earlier than the last call's. Panics beyond the end of
    /// the device, and on parts of sectors.
    pub fn submit(&mut self, now: Instant, device: DeviceId, tag: Tag, work: Work) {
        assert!(now.0 >= self.now, "time goes forward");
        self.now = now.0;
        let end = work.offset_bytes.checked_add(work.length_bytes);
        let capacity = self.capacity_bytes(device);
        assert!(end.is_some_and(|end| end <= capacity), "beyond the end");
        assert!((work.offset_bytes | work.length_bytes).is_multiple_of(SECTOR_BYTES));
        let index = device.0;
        let state = self.device_mut(index);
        if state.in_flight == 0 {
            state.busy_since = now.0;
        }
        state.in_flight += 1;
        // Summed as differences: response is answer minus submission.
        state.account.response_ns = state.account.response_ns.wrapping_sub(now.0);
        state.account.bytes += work.length_bytes;
        match self.held_link(index) {
            Some(link) if self.link(link).holder.is_some() => {
                let link = self.link_mut(link);
                link.waiting.push_back((index, tag, work, now.0));
            }
            _ => self.begin(index, tag, work, now.0),
        }
    }

    /// The moment of the next event; `None` if nothing is in flight.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.first_at().map(Instant)
    }

    /// Carries out all events until `now`, and appends the answers in order of time.
    pub fn advance(&mut self, now: Instant, answers: &mut Vec<Answer>) {
        assert!(now.0 >= self.now, "time goes forward");
        while self.events.first_at().is_some_and(|at| at <= now.0) {
            let event = self.events.pop().expect("there is a first");
            self.now = event.at;
            match event.cause {
                Cause::Answered {
                    device,
                    tag,
                    finished,
                } => {
                    self.answered(device, tag);
                    answers.push(Answer {
                        device: DeviceId(device),
                        tag,
                        at: Instant(event.at),
                    });
                    if finished {
                        self.finished(device);
                    }
                }
                Cause::Ready { device, tag, bytes } => {
                    // A device without a queue gets its next request after the answer.
                    let queues = self.device(device).model.queues();
                    self.ready(device, tag, bytes, !queues);
                    if queues {
                        self.finished(device);
                    }
                }
            }
        }
        self.now = now.0;
    }

    /// Sends the command, and the data of a write, over the links.
    fn begin(&mut self, device: u32, tag: Tag, work: Work, sent: u64) {
        let mut arrived = self.now;
        if let Some(link) = self.held_link(device) {
            self.link_mut(link).holder = Some((device, tag));
        }
        let carries = matches!(work.operation, Operation::Write { .. });
        let mut data_end = 0;
        for index in (0..self.device(device).chain.len()).rev() {
            let link = self.device(device).chain[index];
            let link = self.link_mut(link);
            arrived = arrived.max(link.free_at) + link.command_ns;
            if link.users > 1 {
                let moved = if carries {
                    work.length_bytes * link.ps_per_byte / 1000
                } else {
                    0
                };
                link.free_at = arrived + moved;
                data_end = data_end.max(arrived + moved);
            }
        }
        let state = self.device_mut(device);
        let moved = work.length_bytes * state.slowest_ps_per_byte / 1000;
        state.account.link_ns += arrived - sent;
        let io = Io {
            tag,
            operation: work.operation,
            sector: work.offset_bytes / SECTOR_BYTES,
            sectors: work.length_bytes / SECTOR_BYTES,
            arrived,
            data_from: data_end.saturating_sub(moved).max(arrived),
        };
        self.with(device, |model, out| model.submit(&io, out));
    }

    /// Moves data of a read over the links, the first link first.
    fn ready(&mut self, device: u32, tag: Tag, bytes: u64, finished: bool) {
        let mut start = self.now;
        let mut end = 0;
        for index in 0..self.device(device).chain.len() {
            let link = self.device(device).chain[index];
            let link = self.link_mut(link);
            start = start.max(link.free_at);
            let moved = bytes * link.ps_per_byte / 1000;
            link.free_at = start + moved;
            end = end.max(start + moved);
        }
        self.device_mut(device).account.link_ns += end - self.now;
        let cause = Cause::Answered {
            device,
            tag,
            finished,
        };
        self.events.push(end, cause);
    }

    fn answered(&mut self, device: u32, tag: Tag) {
        let now = self.now;
        let state = self.device_mut(device);
        state.in_flight -= 1;
        state.account.requests += 1;
        state.account.response_ns = state.account.response_ns.wrapping_add(now);
        if state.in_flight == 0 {
            state.account.busy_ns += now - state.busy_since;
        }
        let Some(link) = self.held_link(device) else {
            return;
        };
        let link = self.link_mut(link);
        if link.holder == Some((device, tag)) {
            link.holder = None;
            if let Some((device, tag, work, sent)) = link.waiting.pop_front() {
                self.begin(device, tag, work, sent);
            }
        }
    }

    fn finished(&mut self, device: u32) {
        let now = self.now;
        self.with(device, |model, out| model.finished(now, out));
    }

    /// Calls a device, and turns its answers into events.
    fn with(&mut self, device: u32, call: impl FnOnce(&mut dyn Model, &mut Outbox)) {
        let mut out = std::mem::take(&mut self.outbox);
        call(&mut *self.device_mut(device).model, &mut out);
        let is_shared = self.is_shared(device);
        for (tag, at, bytes) in out.answers.drain(..) {
            if is_shared && bytes > 0 {
                let moved = bytes * self.device(device).slowest_ps_per_byte / 1000;
                let cause = Cause::Ready { device, tag, bytes };
                self.events
                    .push(at.saturating_sub(moved).max(self.now), cause);
            } else {
                let cause = Cause::Answered {
                    device,
                    tag,
                    finished: true,
                };
                self.events.push(at.max(self.now), cause);
            }
        }
        self.outbox = out;
    }

    /// The first link of the chain that requests hold until their answer.
    fn held_link(&self, device: u32) -> Option<LinkId> {
        let chain = self.device(device).chain.iter().copied();
        chain
            .filter(|link| self.link(*link).users > 1)
            .find(|link| self.link(*link).is_held)
    }

    fn is_shared(&self, device: u32) -> bool {
        let mut chain = self.device(device).chain.iter();
        chain.any(|link| self.link(*link).users > 1)
    }

    fn device(&self, index: u32) -> &Device {
        &self.devices[usize::try_from(index).expect("32 bits")]
    }

    fn device_mut(&mut self, index: u32) -> &mut Device {
        &mut self.devices[usize::try_from(index).expect("32 bits")]
    }

    fn link(&self, link: LinkId) -> &LinkState {
        &self.links[usize::try_from(link.0).expect("32 bits")]
    }

    fn link_mut(&mut self, link: LinkId) -> &mut LinkState {
        &mut self.links[usize::try_from(link.0).expect("32 bits")]
    }
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32")
}

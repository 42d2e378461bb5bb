//! An open system behind a modelled controller.

use spindles_array::{Areas, Busy, Managed, Target};
use spindles_block::RequestError;
use spindles_block::{BlockIndex, BufferId, BufferSlice, Instant, Operation, Reply, Request};
use spindles_device::counters::Counters;
use spindles_device::{Clock, CloseError, TargetFacts};
use spindles_engine::Status;
use spindles_model::{Controller, Draw, Parameters, Surroundings, Tag, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A controller in a draw, and how the host sends requests to it.
#[derive(Clone, Debug)]
pub(crate) struct ControllerPlan {
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) draw: Draw,
    /// The requests that the host sends at once, and true if it sorts the others by place.
    pub(crate) queue: (u32, bool),
    /// The number of equal arrays in a row that the system consists of, and the bytes of the data
    /// of a stripe; `None` if it is one.
    pub(crate) sets: Option<(u32, u64)>,
}

/// Bytes that are destaged together where stripes have no parity.
const PLAIN_STRIPE_BYTES: u64 = 1 << 20;

/// Blocks of a request to the system, at most.
const REQUEST_BLOCKS_MAX: u32 = 256;

/// A system whose requests go through a modelled controller. Modelled disks have no payload, so
/// buffers are not copied.
pub(crate) struct Controlled {
    inner: Box<dyn Target>,
    /// The host sees one device.
    facts: TargetFacts,
    controller: Controller,
    areas: Areas,
    block_bytes: u64,
    /// The tokens of requests by tag.
    tokens: BTreeMap<Tag, u64>,
    next_tag: u64,
    /// Requests that the system did not take yet, in order.
    unsent: VecDeque<Request>,
    /// Parts of each request of the controller that are not answered.
    parts: BTreeMap<Tag, u32>,
    failed: Option<RequestError>,
}

impl Controlled {
    /// Puts a controller in front of an open system.
    ///
    /// # Errors
    ///
    /// A number of the controller that is missing.
    pub(crate) fn new(mut inner: Box<dyn Target>, plan: &ControllerPlan) -> Result<Self, String> {
        let mut facts = inner.facts().clone();
        let block_bytes = u64::from(facts.block_size.bytes());
        let array = facts.array.take().filter(|array| array.redundancy > 0);
        let striped = array.filter(|array| array.data_chunks > 1);
        let stripe_bytes = striped.map_or(PLAIN_STRIPE_BYTES, |array| {
            u64::from(array.chunk_blocks) * u64::from(array.data_chunks) * block_bytes
        });
        let (sets, stripe_bytes) = plan.sets.unwrap_or((1, stripe_bytes));
        let (openings, sorts) = plan.queue;
        let around = Surroundings {
            openings,
            sorts,
            stripe_bytes,
            capacity_bytes: facts.bytes(),
            sets,
        };
        let controller = Controller::new(&plan.parameters, &plan.draw, around);
        let area_blocks = facts.request_blocks_max.min(REQUEST_BLOCKS_MAX);
        Ok(Self {
            controller: controller.map_err(|fault| fault.to_string())?,
            areas: Areas::new(inner.as_mut(), 1, area_blocks),
            inner,
            facts,
            block_bytes,
            tokens: BTreeMap::new(),
            next_tag: 0,
            unsent: VecDeque::new(),
            parts: BTreeMap::new(),
            failed: None,
        })
    }

    /// Hands the controller's requests to the system, as far as it takes them.
    fn send(&mut self) {
        while let Some((tag, work)) = self.controller.next_request() {
            self.split(tag, work);
        }
        while let Some(request) = self.unsent.front() {
            if self.inner.submit(*request).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Splits a request of the controller into requests that the system takes.
    fn split(&mut self, tag: Tag, work: Work) {
        let begin = work.offset_bytes / self.block_bytes;
        let end = (work.offset_bytes + work.length_bytes).div_ceil(self.block_bytes);
        let buffer = match work.operation {
            Operation::Read => self.areas.of(0),
            _ => BufferSlice::ZEROS,
        };
        let mut from = begin;
        let mut parts = 0;
        while from < end || parts == 0 {
            let blocks = (end - from).min(self.areas.area_blocks().into());
            self.unsent.push_back(Request {
                token: tag.0,
                operation: work.operation,
                block: BlockIndex(from),
                blocks: u32::try_from(blocks).expect("at most an area"),
                buffer,
            });
            from += blocks;
            parts += 1;
        }
        self.parts.insert(tag, parts);
    }

    /// Takes an answer of the system.
    fn replied(&mut self, reply: &Reply) {
        if let Err(error) = reply.result {
            self.failed = Some(error);
        }
        let tag = Tag(reply.token);
        let left = self.parts.get_mut(&tag).expect("it was sent");
        *left -= 1;
        if *left == 0 {
            self.parts.remove(&tag);
            self.controller.answered(self.inner.clock().now(), tag);
        }
    }

    /// Advances to the next event, no later than `until`. Returns false without any event.
    fn advance(&mut self, until: Option<Instant>) -> bool {
        self.send();
        if let Some(reply) = self.inner.poll(false) {
            self.replied(&reply);
            return true;
        }
        let wake = self.controller.next_wake();
        let Some(moment) = wake.into_iter().chain(until).min() else {
            let reply = self.inner.poll(true);
            if let Some(reply) = &reply {
                self.replied(reply);
            }
            return reply.is_some();
        };
        let clock = self.inner.clock();
        if clock.now() < moment {
            self.inner.wait_until(moment);
        }
        if wake.is_some_and(|wake| wake <= clock.now()) {
            self.controller.wake(clock.now());
        }
        true
    }
}

impl Target for Controlled {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn allocate(&mut self, blocks: u32) -> BufferId {
        self.inner.allocate(blocks)
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.inner.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.inner.buffer_mut(buffer)
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), Busy> {
        let in_flight = u32::try_from(self.tokens.len()).expect("few");
        if in_flight >= self.facts.requests_max {
            return Err(Busy);
        }
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        self.tokens.insert(tag, request.token);
        let work = Work {
            operation: request.operation,
            offset_bytes: request.block.0 * self.block_bytes,
            length_bytes: u64::from(request.blocks) * self.block_bytes,
        };
        self.controller.submit(self.inner.clock().now(), tag, work);
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Option<Reply> {
        loop {
            if let Some(tag) = self.controller.next_answer() {
                let token = self.tokens.remove(&tag).expect("it was submitted");
                let result = self.failed.take().map_or(Ok(()), Err);
                return Some(Reply {
                    token,
                    result,
                    exchanged: None,
                });
            }
            let now = self.inner.clock().now();
            let until = (!wait).then_some(now);
            let has_more = self.controller.next_wake().is_some_and(|wake| wake <= now);
            self.send();
            if has_more {
                self.controller.wake(now);
                continue;
            }
            if let Some(reply) = self.inner.poll(false) {
                self.replied(&reply);
                continue;
            }
            if until.is_some() || self.tokens.is_empty() || !self.advance(None) {
                return None;
            }
        }
    }

    fn skip_to(&mut self, moment: Instant) -> bool {
        let is_quiet = self.unsent.is_empty() && self.controller.is_quiet_until(moment);
        is_quiet && self.inner.skip_to(moment)
    }

    fn wait_until(&mut self, until: Instant) {
        self.advance(Some(until));
    }

    fn wait(&mut self) {
        self.advance(None);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl Managed for Controlled {
    fn devices(&self) -> Vec<String> {
        self.inner.devices()
    }

    fn status(&self) -> Option<Status> {
        self.inner.status()
    }

    fn close(mut self: Box<Self>) -> Result<(), CloseError> {
        self.controller.drain(self.inner.clock().now());
        while self.controller.holds_unwritten() && self.advance(None) {}
        self.inner.close()
    }
}

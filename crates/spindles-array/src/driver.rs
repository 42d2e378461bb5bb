//! A target over a stack of devices and arrays.

use crate::core::{ArrayIndex, Core, Node, manage, progress, spares, tree};
use crate::errors::AttachError;
use crate::incidents::no_space;
use crate::labels::Spare;
use crate::managed::PlaceWanted;
use crate::progress::{RebuildProgress, ScrubProgress};
use crate::spare_report::{SpareReport, Taken};
use crate::{
    ArraySnapshot, Busy, Incident, LostBytes, Managed, PutOut, SpaceChange, Target, TooSmall,
};
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Instant, MemberIndex, Operation, Reply, Request,
    RequestError,
};
use spindles_device::identity::share_bytes;
use spindles_device::probe::Probe;
use spindles_device::queues::{Watch, WatchId};
use spindles_device::seen::Examined;
use spindles_device::{ArrayFacts, Clock, TargetFacts};
use spindles_device::{CloseError, Counters, OpenError};
use spindles_engine::{Command, CommandError, Event, Scrub, Status};
use std::time::Duration;

/// Longest request.
const REQUEST_BYTES_MAX: u32 = 16 << 20;

/// A stack that carries requests.
#[derive(Debug)]
pub(crate) struct Driver {
    core: Core,
    root: Node,
    facts: TargetFacts,
    /// Requests taken and not answered, including replies that were not fetched yet.
    in_flight: u32,
}

impl Driver {
    /// Creates a target from the stack; its requests go to `root`.
    pub(crate) fn open(core: Core, root: Node) -> Box<dyn Target> {
        let options = core.carry.members().options();
        let (io, io_reason) = core.carry.members().io();
        let (name, array) = match root {
            Node::Device(device) => (core.carry.members().facts(device).name.clone(), None),
            Node::Array(index) => {
                let array = core.carry.array(index);
                (array.name().to_owned(), Some(array_facts(array.engine())))
            }
        };
        let leaves = tree::leaves(&core.carry, root);
        let facts = TargetFacts {
            name,
            blocks: core.carry.blocks(root),
            block_size: core.carry.members().block_size(),
            request_blocks_max: REQUEST_BYTES_MAX / core.carry.members().block_size().bytes(),
            requests_max: options.requests_max.max(1),
            read_only: options.read_only,
            io,
            io_reason,
            devices: leaves
                .into_iter()
                .map(|device| core.carry.members().facts(device).clone())
                .collect(),
            array,
        };
        Box::new(Self {
            core,
            root,
            facts,
            in_flight: 0,
        })
    }

    /// Returns a place with the name of its array.
    fn named(&self, (array, member): (ArrayIndex, MemberIndex)) -> (String, MemberIndex) {
        (self.core.carry.array(array).name().to_owned(), member)
    }

    /// Updates the device facts after devices were added or removed.
    fn look_at_devices(&mut self) {
        let leaves = tree::leaves(&self.core.carry, self.root);
        self.facts.devices = leaves
            .into_iter()
            .map(|device| self.core.carry.members().facts(device).clone())
            .collect();
    }

    /// Returns the error of an invalid request, before any work on it.
    fn refuse(&self, request: &Request) -> Option<RequestError> {
        let end = request.block.0.checked_add(u64::from(request.blocks));
        if end.is_none_or(|end| end > self.facts.blocks) {
            return Some(RequestError::OutOfRange);
        }
        (self.facts.read_only && request.operation.is_write()).then_some(RequestError::ReadOnly)
    }

    fn take(&mut self, request: Request, exchangeable: bool) -> Result<(), Busy> {
        assert!(
            request.blocks <= self.facts.request_blocks_max,
            "a request of {} blocks is longer than the target takes",
            request.blocks
        );
        if self.in_flight >= self.facts.requests_max {
            return Err(Busy);
        }
        // An engine checks requests itself, except for writes to an array that is open read-only.
        let is_checked = self.facts.read_only || matches!(self.root, Node::Device(_));
        if is_checked && let Some(error) = self.refuse(&request) {
            self.core.carry.refuse(&request, error);
        } else {
            let taken = self.core.submit(self.root, request, exchangeable);
            taken.map_err(|_| Busy)?;
        }
        self.in_flight += 1;
        Ok(())
    }

    fn close_array(&mut self, index: ArrayIndex) -> Result<(), CloseError> {
        let not_durable = |name: &str, reason: &str| CloseError::NotDurable {
            target: name.to_owned(),
            reason: reason.to_owned(),
        };
        let closing = self.core.carry.command(index, Command::Close);
        let name = self.core.carry.array(index).name().to_owned();
        closing.map_err(|_| not_durable(&name, "it can't be closed"))?;
        loop {
            if let Some(clean) = self.core.carry.array(index).closed() {
                let status = self.core.carry.array(index).engine().status();
                // An unfinished resync leaves the array unclean, which is no error.
                let through = status.job("resync").is_none();
                if !clean && through && !self.facts.read_only {
                    let no_space = no_space(&progress::incidents(&self.core.carry));
                    let why = no_space
                        .unwrap_or_else(|| "more members are lost than it survives".to_owned());
                    return Err(not_durable(&name, &why));
                }
                return Ok(());
            }
            if !self.core.busy() {
                return Err(not_durable(&name, "it does not end"));
            }
            self.core.turn(true);
        }
    }
}

fn array_facts(engine: &spindles_engine::Engine) -> ArrayFacts {
    let geometry = engine.geometry();
    ArrayFacts {
        level: geometry.level().name,
        layout: geometry.layout_name(),
        chunk_blocks: geometry.chunk_blocks(),
        members: geometry.members(),
        missing: engine
            .status()
            .members
            .iter()
            .filter(|member| member.state != spindles_engine::Member::Active)
            .map(|member| member.member)
            .collect(),
        data_chunks: geometry.data_chunks(),
        redundancy: geometry.redundancy(),
    }
}

impl Target for Driver {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn allocate(&mut self, blocks: u32) -> BufferId {
        self.core.carry.members_mut().allocate(blocks)
    }

    fn buffer(&self, buffer: BufferId) -> &[u8] {
        self.core.carry.members().buffers.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.core.carry.members_mut().buffers.buffer_mut(buffer)
    }

    fn clock(&self) -> Clock {
        self.core.carry.clock().clone()
    }

    fn now(&self) -> Instant {
        self.core.carry.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), Busy> {
        self.take(request, false)
    }

    fn submit_exchangeable(&mut self, request: Request) -> Result<(), Busy> {
        self.take(request, true)
    }

    fn lend(&mut self, area: BufferSlice, blocks: u32) -> bool {
        self.core.carry.lend(self.root, area, blocks)
    }

    fn end_lending(&mut self) {
        self.core.carry.end_lending(self.root);
    }

    fn poll(&mut self, wait: bool) -> Option<Reply> {
        loop {
            if let Some(reply) = self.core.carry.next_reply() {
                self.in_flight -= 1;
                return Some(reply);
            }
            if self.in_flight == 0 {
                // Background jobs must progress, and watched descriptors must be polled.
                if self.core.busy() || self.core.carry.members().watches() {
                    self.core.turn(false);
                }
                return None;
            }
            self.core.turn(wait);
            if !wait && !self.core.carry.has_replies() {
                return None;
            }
        }
    }

    fn skip_to(&mut self, moment: Instant) -> bool {
        !self.core.carry.has_replies() && self.core.skip_to(moment)
    }

    fn reads_zeros(&self, from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        match self.root {
            Node::Device(_) => (false, end),
            Node::Array(array) => self.core.carry.array(array).engine().reads_zeros(from, end),
        }
    }

    fn is_out_of_reach(&self, from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        match self.root {
            Node::Device(_) => (false, end),
            Node::Array(array) => {
                let engine = self.core.carry.array(array).engine();
                engine.is_out_of_reach(from, end)
            }
        }
    }

    fn watch(&mut self, watch: Watch) -> Result<(), OpenError> {
        self.core.carry.members_mut().watch(watch)
    }

    fn restart_threads(&mut self) -> std::io::Result<()> {
        self.core.carry.members_mut().restart_threads()
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        self.core.carry.members_mut().next_ready()
    }

    fn wait(&mut self) {
        let busy = self.core.busy() || self.core.carry.members().watches();
        if busy && !self.core.carry.has_replies() {
            self.core.turn(true);
        }
    }

    fn wait_until(&mut self, until: Instant) {
        if !self.core.carry.has_replies() {
            let left_ns = until.ns_since(self.core.carry.clock().now());
            let left = Duration::from_nanos(left_ns);
            self.core.turn_at_most(true, Some(left));
        }
    }

    fn counters(&self) -> Counters {
        progress::counters(&self.core.carry, self.root)
    }

    fn command(&mut self, command: Command) -> Result<(), CommandError> {
        match self.root {
            Node::Device(_) => Err(CommandError::NoSuchMember),
            Node::Array(array) => self.core.carry.command(array, command),
        }
    }

    fn may_restructure(&self, device: Option<&str>, moves: bool) -> Result<(), AttachError> {
        manage::may_restructure(&self.core.carry, device, moves)
    }

    fn lacks(&self) -> Option<String> {
        progress::lacks(&self.core.carry)
    }

    fn space_changes(&mut self) -> Vec<SpaceChange> {
        self.core.space_changes()
    }
}

impl Managed for Driver {
    fn devices(&self) -> Vec<String> {
        let carry = &self.core.carry;
        let mut devices: Vec<String> = match self.root {
            Node::Device(device) => vec![carry.members().facts(device).name.clone()],
            Node::Array(_) => tree::devices_in_use(carry)
                .map(|device| carry.members().facts(device).name.clone())
                .collect(),
        };
        devices.extend(self.core.spares.names());
        devices
    }

    fn status(&self) -> Option<Status> {
        match self.root {
            Node::Device(_) => None,
            Node::Array(array) => Some(progress::status(&self.core.carry, array)),
        }
    }

    fn status_of(&self, name: &str) -> Option<Status> {
        let mut arrays = self.core.carry.arrays();
        let (index, _) = arrays.find(|(_, array)| array.name() == name)?;
        Some(progress::status(&self.core.carry, index))
    }

    fn snapshot(&self) -> Vec<ArraySnapshot> {
        self.core.snapshot()
    }

    fn next_event(&mut self) -> Option<(String, Event)> {
        let (array, event) = self.core.carry.next_event()?;
        if let Event::Grown { .. } = event {
            self.facts.blocks = self.core.carry.blocks(self.root);
        }
        Some((self.core.carry.array(array).name().to_owned(), event))
    }

    fn lowest_place(
        &self,
        array: &str,
        member: MemberIndex,
        block: BlockIndex,
    ) -> Option<(String, MemberIndex, BlockIndex, u32)> {
        let carry = &self.core.carry;
        let (index, _) = carry.arrays().find(|(_, inner)| inner.name() == array)?;
        let (below, member, block, blocks) = tree::lowest_place(carry, (index, member, block));
        Some((carry.array(below).name().to_owned(), member, block, blocks))
    }

    fn work(&mut self) -> bool {
        let busy = self.core.busy();
        if busy {
            self.core.turn(true);
        }
        busy
    }

    fn is_working(&self) -> bool {
        self.core.busy()
    }

    fn in_sync_bytes(&self) -> (u64, u64) {
        progress::in_sync_bytes(&self.core.carry)
    }

    fn begin_scrub(&mut self, scrub: Scrub) -> Result<(), CommandError> {
        for array in tree::to_scrub(&self.core.carry, tree::Pass::First)? {
            self.core.carry.command(array, Command::Scrub(scrub))?;
        }
        Ok(())
    }

    fn begin_scrub_below(&mut self, scrub: Scrub) -> Result<bool, CommandError> {
        let below = match tree::to_scrub(&self.core.carry, tree::Pass::Below) {
            Err(CommandError::NoRedundancy | CommandError::BeyondTolerance) => return Ok(false),
            below => below?,
        };
        for array in below {
            self.core.carry.command(array, Command::Scrub(scrub))?;
        }
        Ok(true)
    }

    fn scrub_progress(&self) -> ScrubProgress {
        progress::scrub(&self.core.carry)
    }

    fn may_attach(&self, device: &str, wanted: PlaceWanted) -> Result<(), AttachError> {
        manage::may_attach(&self.core.carry, device, wanted).map(drop)
    }

    fn attach(
        &mut self,
        device: &str,
        wanted: PlaceWanted,
        seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        let (array, member) = manage::attach(&mut self.core.carry, device, wanted, seen)?;
        self.core.spares.withdraw(device);
        self.look_at_devices();
        Ok(self.named((array, member)))
    }

    fn bring_back(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        let back = manage::bring_back(&mut self.core.carry, device)?;
        self.core.spares.withdraw(device);
        self.look_at_devices();
        Ok(self.named(back))
    }

    fn may_fail(&self, device: &str) -> Result<(), AttachError> {
        manage::may_fail(&self.core.carry, device).map(drop)
    }

    fn fail(&mut self, device: &str) -> Result<PutOut, AttachError> {
        let (index, member) = manage::fail(&mut self.core.carry, device)?;
        let spare = self.core.spares.next_for(&self.core.carry, index, member);
        let outermost = manage::outermost(&self.core.carry, index).to_owned();
        let (array, member) = self.named((index, member));
        Ok(PutOut {
            array,
            outermost,
            member,
            spare,
        })
    }

    fn let_go(&mut self, device: &str) -> Result<(String, MemberIndex), AttachError> {
        let gone = manage::let_go(&mut self.core.carry, device)?;
        Ok(self.named(gone))
    }

    fn provide_spare(&mut self, device: &str) -> Result<Option<Taken>, AttachError> {
        manage::may_be_spare(&self.core.carry, device)?;
        let probe = Probe::peek(device)?; // Clients wait meanwhile.
        let found = probe.found();
        let record = found.spare().ok_or_else(|| AttachError::TakenAlready {
            device: device.to_owned(),
        })?;
        let spare = Spare {
            name: device.to_owned(),
            bytes: probe.bytes,
            record: record.clone(),
        };
        drop(probe);
        // The device may already be a spare under another name.
        let known: Vec<String> = self.core.spares.names().collect();
        for name in known.iter().filter(|name| share_bytes(name, device)) {
            self.core.spares.withdraw(name);
        }
        self.core.provide_spares(vec![spare]);
        self.look_at_devices();
        Ok(self.core.spares.taken_as(device).cloned())
    }

    fn withdraw_spare(&mut self, device: &str) -> bool {
        self.core.spares.withdraw(device)
    }

    fn may_leave(&self, device: &str) -> Result<(), AttachError> {
        manage::may_leave(&self.core.carry, device)
    }

    fn may_be_spare(&self, device: &str) -> Result<Vec<TooSmall>, AttachError> {
        manage::may_be_spare(&self.core.carry, device)?;
        let bytes = Probe::peek(device)?.bytes; // Clients wait meanwhile.
        Ok(spares::may_be_spare(&self.core.carry, device, bytes)?)
    }

    fn spares(&self) -> Vec<SpareReport> {
        self.core.spares.left()
    }

    fn spares_taken(&mut self) -> Vec<Taken> {
        let taken = self.core.spares.taken();
        if !taken.is_empty() {
            self.look_at_devices();
        }
        taken
    }

    fn incidents(&self) -> Vec<Incident> {
        progress::incidents(&self.core.carry)
    }

    fn lost(&self) -> Vec<LostBytes> {
        progress::lost(&self.core.carry)
    }

    fn may_replace(&self, old: &str, device: &str) -> Result<(), AttachError> {
        manage::may_replace(&self.core.carry, old, device).map(drop)
    }

    fn replace(
        &mut self,
        old: &str,
        device: &str,
        seen: Examined,
    ) -> Result<(String, MemberIndex), AttachError> {
        let (array, member) = manage::replace(&mut self.core.carry, old, device, seen)?;
        self.core.spares.withdraw(device);
        self.look_at_devices();
        Ok(self.named((array, member)))
    }

    fn stop_job(&mut self, name: &'static str) {
        for array in tree::arrays_from_the_top(&self.core.carry) {
            // A finished job can't be stopped, and need not be.
            self.core.carry.command(array, Command::StopJob(name)).ok();
        }
    }

    fn place_staged(&mut self) {
        for array in tree::arrays_from_the_top(&self.core.carry) {
            // Every array accepts it until it closes.
            self.core.carry.command(array, Command::PlaceStaged).ok();
        }
    }

    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        progress::rebuild(&self.core.carry)
    }

    fn close(mut self: Box<Self>) -> Result<(), CloseError> {
        while self.poll(true).is_some() {}
        // Close each array before its members.
        let mut failed = Vec::new();
        for array in tree::arrays_from_the_top(&self.core.carry) {
            if let Err(error) = self.close_array(array) {
                failed.push((array, error));
            }
        }
        let arrays: Vec<ArrayIndex> = failed.iter().map(|(array, _)| *array).collect();
        // The outer array may tolerate the loss of a member array that could not be closed.
        let survived = |(array, _): &(ArrayIndex, CloseError)| {
            tree::survives(&self.core.carry, *array, &arrays)
        };
        if let Some(at) = failed.iter().position(|failed| !survived(failed)) {
            return Err(failed.swap_remove(at).1);
        }
        if self.facts.read_only || matches!(self.root, Node::Array(_)) {
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

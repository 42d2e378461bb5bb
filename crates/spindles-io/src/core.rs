//! What carries everything: arrays and devices, requests on their way down and
//! results on their way up. One thread, no recursion from array to array: what is
//! answered at once waits in a queue until the engine above has been drained.

use crate::attach::AttachError;
use crate::create;
use crate::identity;
use crate::members::{DeviceIndex, DeviceIo, Members};
use crate::probe::Probe;
use crate::queues::Wait;
use crate::rebuild::RebuildProgress;
use crate::report::positions;
use crate::room::FOR_ALL;
use crate::scrub::ScrubProgress;
use crate::spare::{self, Spare, Taken};
use crate::transfer::Tag;
use crate::{Clock, Counters, OpenError, OpenOptions, TooSmall, compute};
use spindles_block::{
    BufferId, BufferSlice, Compute, ComputeResult, Instant, MemberError, MemberIndex, MemberIo,
    MemberIoId, MemberResult, MemberSet, Operation, Reply, Request, RequestError, SizeBytes,
    StepId,
};
use spindles_engine::{Command, CommandError, Config, Engine, Event, Member, Output};
use spindles_format::{ArrayRecord, DeviceRecord, SpareRecord, Uuid, areas_to_join};
use std::collections::VecDeque;
use std::time::Duration;

/// Inputs between two looks at the clock, at most: it costs as much as a small request.
const CLOCK_EVERY: u32 = 64;
/// Events kept until somebody asks.
const EVENTS_MAX: usize = 4096;
/// The owner in the tag of an operation that a client asked of a device itself.
const CLIENT: u16 = u16::MAX;

/// A device or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Device(DeviceIndex),
    Array(ArrayIndex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayIndex(pub(crate) u16);

impl ArrayIndex {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An array with what is under and above it.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) members: Vec<Option<Node>>,
    /// The device of its own for its journal: `JOURNAL_DEVICE`.
    pub(crate) journal: Option<DeviceIndex>,
    /// That failed while the array was open.
    pub(crate) journal_is_out: bool,
    metadata: BufferId,
    /// The array that this one is a member of. Without one, replies go to the client.
    parent: Option<(ArrayIndex, MemberIndex)>,
    /// Requests of the parent that the engine has no room for yet.
    inbox: VecDeque<Request>,
    pub(crate) closed: Option<bool>,
}

impl Array {
    /// Whether it is to be a member of an array that there is not here.
    fn is_left_over(&self) -> bool {
        let record = self.engine.record();
        self.parent.is_none() && record.is_some_and(|record| record.parent != Uuid::NIL)
    }

    /// Whether some of its members are arrays.
    fn holds_arrays(&self) -> bool {
        let is_array = |node: &Option<Node>| matches!(node, Some(Node::Array(_)));
        self.members.iter().any(is_array)
    }
}

/// A place of an array that waits for a device.
pub(crate) struct Vacancy {
    pub(crate) around: ArrayRecord,
    pub(crate) member: MemberIndex,
    /// An array in another place of it.
    pub(crate) inside: Option<ArrayRecord>,
}

/// What an engine is still to be told.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// There may be room for the next request of the parent.
    Deliver(ArrayIndex),
    Member(ArrayIndex, MemberIoId, MemberResult),
    Compute(ArrayIndex, StepId, ComputeResult),
}

/// Everything there is on this thread.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) members: Members,
    pub(crate) arrays: Vec<Array>,
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) events: VecDeque<(ArrayIndex, Event)>,
    /// Spares that nobody took, in the order in which they are to be.
    spares: Vec<Spare>,
    /// A member is out, so that a spare may be wanted.
    look_for_spares: bool,
    /// Spares that were taken, until somebody asks.
    pub(crate) taken: Vec<Taken>,
    inputs: VecDeque<Input>,
    /// Of one step, on their way to an engine.
    checksums: Vec<u32>,
    clock: Clock,
    now: Instant,
    inputs_since: u32,
    /// Tokens of the requests that a client has in flight on devices themselves.
    tokens: Vec<u64>,
    free: Vec<u32>,
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Full;

fn tag(owner: u16, device: DeviceIndex, id: u32) -> Tag {
    Tag(u64::from(owner) << 48 | u64::from(device.0) << 32 | u64::from(id))
}

fn low_16(bits: u64) -> u16 {
    u16::try_from(bits & 0xFFFF).expect("16 bits")
}

fn untag(tag: Tag) -> (u16, DeviceIndex, u32) {
    let id = u32::try_from(tag.0 & u64::from(u32::MAX)).expect("32 bits");
    (low_16(tag.0 >> 48), DeviceIndex(low_16(tag.0 >> 32)), id)
}

impl Core {
    pub(crate) fn new(options: &OpenOptions) -> Result<Self, OpenError> {
        let requests_max = options.requests_max.max(1);
        let capacity = usize::try_from(requests_max).expect("64 bits");
        let clock = Clock::new();
        Ok(Self {
            members: Members::new(options)?,
            arrays: Vec::new(),
            replies: VecDeque::with_capacity(capacity),
            events: VecDeque::with_capacity(EVENTS_MAX),
            spares: Vec::new(),
            look_for_spares: false,
            taken: Vec::new(),
            inputs: VecDeque::new(),
            checksums: Vec::new(),
            clock,
            now: clock.now(),
            inputs_since: 0,
            tokens: vec![0; capacity],
            free: (0..requests_max).rev().collect(),
        })
    }

    pub(crate) fn array(&self, index: ArrayIndex) -> &Array {
        &self.arrays[index.index()]
    }

    /// The size of a node.
    pub(crate) fn blocks(&self, node: Node) -> u64 {
        match node {
            Node::Device(device) => self.members.blocks(device),
            Node::Array(array) => self.array(array).engine.geometry().blocks(),
        }
    }

    /// Opens an array over nodes that have no parent yet.
    pub(crate) fn open(
        &mut self,
        name: &str,
        mut config: Config,
        members: &[Option<Node>],
        journal: Option<DeviceIndex>,
    ) -> Result<ArrayIndex, spindles_engine::OpenError> {
        let index = ArrayIndex(u16::try_from(self.arrays.len()).expect("few arrays"));
        assert_ne!(index.0, CLIENT);
        assert_eq!(members.len(), usize::from(config.geometry.members()));
        assert_eq!(config.block_size, self.members.block_size());
        config.scratch = self.members.reserve();
        config.metadata = self.members.reserve();
        let (scratch, metadata) = (config.scratch, config.metadata);
        let inputs = config.limits.columns + 64;
        self.look_at_clock();
        let engine = Engine::open(self.now, config)?;
        let inputs = usize::try_from(inputs).expect("64 bits") * (members.len() + 4);
        self.inputs.reserve(inputs);
        self.checksums.reserve(engine.checksums_max());
        self.members.provide(scratch, engine.scratch_blocks());
        let block_bytes = usize::try_from(engine.block_size().bytes()).expect("64 bits");
        let metadata_blocks = engine.metadata().len() / block_bytes;
        self.members
            .provide(metadata, u32::try_from(metadata_blocks).expect("few"));
        self.arrays.push(Array {
            engine,
            name: name.to_owned(),
            members: members.to_vec(),
            journal,
            journal_is_out: false,
            metadata,
            parent: None,
            inbox: VecDeque::new(),
            closed: None,
        });
        for (node, member) in members.iter().zip(0..) {
            self.lead_upwards(*node, index, MemberIndex(member));
        }
        self.drain(index);
        self.settle();
        Ok(index)
    }

    /// An array that is a member from now on answers to the one around it.
    fn lead_upwards(&mut self, node: Option<Node>, around: ArrayIndex, member: MemberIndex) {
        let room = self.array(around).engine.member_ios_per_member_max();
        if let Some(Node::Array(child)) = node {
            let child = &mut self.arrays[child.index()];
            assert!(child.parent.is_none(), "a member of one array only");
            child.parent = Some((around, member));
            child.inbox.reserve(usize::try_from(room).expect("64 bits"));
        }
    }

    /// Lends the node memory for reads that are hedged. Whether it has a use for it.
    pub(crate) fn lend(&mut self, node: Node, area: BufferSlice, blocks: u32) -> bool {
        match node {
            Node::Device(_) => false,
            Node::Array(array) => self.arrays[array.index()].engine.lend(area, blocks),
        }
    }

    /// Ends what `lend` began.
    pub(crate) fn end_lending(&mut self, node: Node) {
        if let Node::Array(array) = node {
            self.arrays[array.index()].engine.end_lending();
        }
    }

    /// A client's request to a node, whose answer may name other memory if it is `exchangeable`.
    pub(crate) fn submit(
        &mut self,
        node: Node,
        request: Request,
        exchangeable: bool,
    ) -> Result<(), Full> {
        match node {
            Node::Device(device) => {
                let slot = self.free.pop().ok_or(Full)?;
                self.tokens[usize::try_from(slot).expect("64 bits")] = request.token;
                let io = DeviceIo {
                    operation: request.operation,
                    block: request.block,
                    blocks: request.blocks,
                    buffer: request.buffer,
                };
                let started = self.members.start(tag(CLIENT, device, slot), device, &io);
                if let Some(result) = started {
                    self.client_done(slot, result);
                }
            }
            Node::Array(array) => {
                self.tick();
                let engine = &mut self.arrays[array.index()].engine;
                let taken = if exchangeable {
                    engine.submit_exchangeable(self.now, request)
                } else {
                    engine.submit(self.now, request)
                };
                taken.map_err(|_| Full)?;
                self.drain(array);
                self.settle();
            }
        }
        Ok(())
    }

    fn client_done(&mut self, slot: u32, result: MemberResult) {
        self.free.push(slot);
        self.replies.push_back(Reply {
            token: self.tokens[usize::try_from(slot).expect("64 bits")],
            result: result.map_err(|error| match error {
                MemberError::Gone | MemberError::Medium => RequestError::BeyondTolerance,
                MemberError::Corrupt => RequestError::Corrupt,
                MemberError::NoSpace => RequestError::NoSpace,
            }),
            exchanged: None,
        });
    }

    /// The arrays are put together: what they hold is to be read for what it is.
    pub(crate) fn end_look(&mut self) {
        let opening = |array: &Array| !array.engine.is_serving();
        while self.arrays.iter().any(opening) && self.busy() {
            self.turn(true);
        }
        for array in &mut self.arrays {
            array.engine.end_look();
        }
    }

    /// Asks something of an array.
    pub(crate) fn command(
        &mut self,
        array: ArrayIndex,
        command: Command,
    ) -> Result<(), CommandError> {
        self.look_at_clock();
        self.arrays[array.index()]
            .engine
            .command(self.now, command)?;
        self.drain(array);
        self.settle();
        Ok(())
    }

    /// Hands over what was started, waits if asked to, and carries what has ended as far as it
    /// goes.
    pub(crate) fn turn(&mut self, wait: bool) {
        let wait = match self.timeout() {
            _ if !wait => Wait::No,
            None => Wait::Forever,
            Some(when) => Wait::AtMost(Duration::from_nanos(when.ns_since(self.clock.now()))),
        };
        self.members.turn(wait);
        self.look_at_clock();
        while let Some((tag, result)) = self.members.next_done() {
            let (owner, device, id) = untag(tag);
            if result.is_err() {
                self.members.count_error(device);
            }
            if owner == CLIENT {
                self.client_done(id, result);
            } else {
                let input = Input::Member(ArrayIndex(owner), MemberIoId(id), result);
                self.inputs.push_back(input);
            }
        }
        self.settle();
        self.wake();
        if std::mem::take(&mut self.look_for_spares) {
            self.take_spares();
        }
    }

    /// Whether anything is on its way without which nothing goes on.
    pub(crate) fn busy(&self) -> bool {
        self.members.busy() || self.timeout().is_some()
    }

    /// Of how many bytes of all arrays redundancy agrees with data, and of how many there are.
    pub(crate) fn settled_bytes(&self) -> (u64, u64) {
        self.arrays.iter().fold((0, 0), |(settled, total), array| {
            let geometry = array.engine.geometry();
            let bytes = geometry.blocks() * u64::from(array.engine.block_size().bytes());
            // Not all, before the resync has come to its end.
            let here = match array.engine.status().job("resync") {
                None if array.engine.is_settled() => bytes,
                // Not begun yet.
                None => 0,
                Some(resync) => resync.done_bytes.min(bytes - 1),
            };
            (settled + here, total + bytes)
        })
    }

    /// Puts a device in the place of a missing one, and has it filled.
    pub(crate) fn attach(
        &mut self,
        name: &str,
        wanted: Option<MemberIndex>,
    ) -> Result<(ArrayIndex, MemberIndex), AttachError> {
        let (array, member, areas) = self.may_attach(name, wanted)?;
        let device = self.add_reserved(name, array, &areas)?;
        self.join(name, array, member, &areas, Node::Device(device))?;
        Ok((array, member))
    }

    /// Puts a node that holds nothing in that place, and has it filled.
    pub(crate) fn attach_node(
        &mut self,
        name: &str,
        node: Node,
        vacancy: &Vacancy,
        areas: &DeviceRecord,
    ) -> Result<(), AttachError> {
        let array = self.still_waits(vacancy)?;
        self.join(name, array, vacancy.member, areas, node)
    }

    /// Which array it is whose place waits for a device, if it still does.
    pub(crate) fn still_waits(&self, vacancy: &Vacancy) -> Result<ArrayIndex, AttachError> {
        let member = vacancy.member;
        let waits = |array: &Array| {
            let record = array.engine.record();
            record.is_some_and(|record| record.uuid == vacancy.around.uuid)
                && array.engine.vacancies().contains(member)
        };
        let mut arrays = (0..).map(ArrayIndex).zip(&self.arrays);
        let array = arrays.find(|(_, array)| waits(array));
        array
            .map(|(index, _)| index)
            .ok_or(AttachError::NotMissing {
                member,
                missing: Vec::new(),
            })
    }

    /// The first place that waits for a device, or the one that is wanted.
    pub(crate) fn vacancy(&self, wanted: Option<MemberIndex>) -> Result<Vacancy, AttachError> {
        let (index, member) = self.find_missing(wanted)?;
        let array = self.array(index);
        let record = array.engine.record();
        let record = record.expect("only arrays with superblocks were looked at");
        let nodes = array.members.iter().flatten();
        let mut inside = nodes.filter_map(|node| match node {
            Node::Array(inner) => self.array(*inner).engine.record().cloned(),
            Node::Device(_) => None,
        });
        Ok(Vacancy {
            member,
            inside: inside.next(),
            around: record.clone(),
        })
    }

    /// Asks an array to take a device.
    fn command_for(
        &mut self,
        name: &str,
        array: ArrayIndex,
        command: Command,
    ) -> Result<(), AttachError> {
        self.command(array, command)
            .map_err(|reason| AttachError::Refused {
                device: name.to_owned(),
                reason,
            })
    }

    /// Opens a device and clears it for a place of that array. Until it is a member it is the array's
    /// spare: so whoever begins anew after a crash knows whose it is.
    fn add_reserved(
        &mut self,
        name: &str,
        array: ArrayIndex,
        areas: &DeviceRecord,
    ) -> Result<DeviceIndex, AttachError> {
        let record = self.array(array).engine.record();
        let array = record.expect("an array with superblocks").uuid;
        let device = self.members.add(name)?;
        spare::reserve(name, array, areas).map_err(|source| AttachError::Clear {
            device: name.to_owned(),
            source,
        })?;
        Ok(device)
    }

    fn new_uuid(name: &str) -> Result<Uuid, AttachError> {
        create::new_uuid().map_err(|error| AttachError::Clear {
            device: name.to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Has the member that the device `old` is copied onto another device, which takes its place.
    pub(crate) fn replace(
        &mut self,
        old: &str,
        name: &str,
    ) -> Result<(ArrayIndex, MemberIndex), AttachError> {
        let (array, member, areas) = self.may_replace(old, name)?;
        let (device, uuid) = (
            self.add_reserved(name, array, &areas)?,
            Self::new_uuid(name)?,
        );
        let beside = &mut self.arrays[array.index()];
        beside
            .members
            .truncate(usize::from(beside.engine.newcomer().0));
        beside.members.push(Some(Node::Device(device)));
        let command = Command::Replace {
            member,
            device: Box::new(areas),
            uuid,
        };
        self.command_for(name, array, command)?;
        Ok((array, member))
    }

    /// Which place a device would take from `old`, and what would lie where on it.
    pub(crate) fn may_replace(
        &self,
        old: &str,
        name: &str,
    ) -> Result<(ArrayIndex, MemberIndex, DeviceRecord), AttachError> {
        let identity = identity::identity(old);
        let is_old = |node: &Option<Node>| match node {
            Some(Node::Device(device)) => {
                let other = &self.members.facts(*device).name;
                other == old || identity.is_some() && identity::identity(other) == identity
            }
            Some(Node::Array(_)) | None => false,
        };
        for (index, array) in (0..).map(ArrayIndex).zip(&self.arrays) {
            let Some(place) = array.members.iter().position(is_old) else {
                continue;
            };
            let member = MemberIndex(u8::try_from(place).expect("few members"));
            let state = array.engine.status().members[place].state;
            if state != Member::Active || array.engine.record().is_none() {
                break;
            }
            return Ok((index, member, self.room_on(name, index, member)?));
        }
        let members = self.arrays.iter().flat_map(|array| {
            let states = array.engine.status().members.into_iter();
            let active = states.map(|member| member.state == Member::Active);
            active.zip(&array.members)
        });
        let active = members.filter_map(|(is_active, node)| match node {
            Some(Node::Device(device)) if is_active => Some(self.members.facts(*device)),
            _ => None,
        });
        Err(AttachError::NotActive {
            device: old.to_owned(),
            active: active.map(|facts| facts.name.clone()).collect(),
        })
    }

    /// What would lie where on a device that becomes this member of an array with superblocks.
    fn room_on(
        &self,
        name: &str,
        array: ArrayIndex,
        member: MemberIndex,
    ) -> Result<DeviceRecord, AttachError> {
        let bytes = Probe::open(name)?.bytes;
        let record = self.array(array).engine.record();
        let record = record.expect("only arrays with superblocks were looked at");
        Ok(areas_to_join(record, bytes, member).map_err(TooSmall::of(name))?)
    }

    /// Which place a device would take, and what would lie where on it.
    pub(crate) fn may_attach(
        &self,
        name: &str,
        wanted: Option<MemberIndex>,
    ) -> Result<(ArrayIndex, MemberIndex, DeviceRecord), AttachError> {
        let (array, member) = self.find_missing(wanted)?;
        let room = self.room_on(name, array, member).map_err(|error| {
            let around = self.array(array);
            match error {
                AttachError::TooSmall(small) if around.holds_arrays() => {
                    let of = &around.name;
                    let part = format!(
                        " to take the place of all of member {member} of array '{of}', which is itself an array"
                    );
                    let or = ", or an array, as --onto 'raid0(DEV,DEV)', or bring back the \
                              devices of that array";
                    AttachError::TooSmall(small.with_part(part, or))
                }
                error => error,
            }
        })?;
        Ok((array, member, room))
    }

    /// The first missing member: of arrays of devices before those of arrays, inner ones first. A device
    /// that is large enough stands for a whole inner array as well.
    fn find_missing(
        &self,
        wanted: Option<MemberIndex>,
    ) -> Result<(ArrayIndex, MemberIndex), AttachError> {
        let of_devices = self.arrays_of_devices();
        let of_arrays = (0..).map(ArrayIndex).zip(&self.arrays);
        let of_arrays =
            of_arrays.filter(|(_, array)| array.engine.record().is_some() && !array.is_left_over());
        let missing = of_devices.chain(of_arrays).flat_map(|(index, array)| {
            let members = array.engine.status().members.into_iter();
            let missing = members.filter(|it| matches!(it.state, Member::Missing { .. }));
            missing.map(move |it| (index, it.member))
        });
        let missing: Vec<(ArrayIndex, MemberIndex)> = missing.collect();
        let mut fit = missing.iter().copied();
        let found = fit.find(|(_, member)| wanted.is_none_or(|wanted| wanted == *member));
        found.ok_or_else(|| {
            let name = |&(index, member): &(ArrayIndex, MemberIndex)| {
                format!("member {member} of array '{}'", self.array(index).name)
            };
            let mut missing: Vec<String> = missing.iter().map(name).collect();
            missing.dedup();
            wanted.map_or(AttachError::NothingMissing, |member| {
                AttachError::NotMissing { member, missing }
            })
        })
    }

    /// Gives the arrays spares, which take the places of what is missing now and later.
    pub(crate) fn provide_spares(&mut self, mut spares: Vec<Spare>) {
        // Those that are nobody else's go first, and the smallest that will do.
        spares.sort_by_key(|spare| (spare.record.is_shared(), spare.bytes));
        self.spares = spares;
        self.take_spares();
    }

    /// Lets spares take the places of missing members.
    fn take_spares(&mut self) {
        while let Some((at, array, member, areas)) = self.next_spare() {
            let Spare { name, .. } = self.spares.remove(at);
            let result = self.take_spare(&name, array, member, &areas);
            let error = result.err().map(|error| error.to_string());
            let array = self.array(array).name.clone();
            self.taken.push(Taken {
                array,
                member,
                device: name,
                error,
            });
        }
    }

    /// A spare, the place that it is to take, and what would lie where on it.
    fn next_spare(&self) -> Option<(usize, ArrayIndex, MemberIndex, DeviceRecord)> {
        for (index, array) in self.arrays_of_devices() {
            for member in array.engine.vacancies().iter() {
                let record = array.engine.record().expect("only those have vacancies");
                let fits = self.spares.iter().enumerate().find_map(|(at, spare)| {
                    let areas = areas_to_join(record, spare.bytes, member).ok()?;
                    (self.serves(&spare.record, index)).then_some((at, index, member, areas))
                });
                if fits.is_some() {
                    return fits;
                }
            }
        }
        None
    }

    /// Arrays with superblocks that have no other arrays for members.
    fn arrays_of_devices(&self) -> impl Iterator<Item = (ArrayIndex, &Array)> {
        (0..)
            .map(ArrayIndex)
            .zip(&self.arrays)
            .filter(|(_, array)| array.engine.record().is_some() && !array.holds_arrays())
            .filter(|(_, array)| !array.is_left_over())
    }

    /// Whether an array may take a spare: it, or one around it, is named by that.
    fn serves(&self, spare: &SpareRecord, array: ArrayIndex) -> bool {
        let mut next = Some(array);
        while let Some(index) = next {
            let array = self.array(index);
            let uuid = array.engine.record().map(|record| record.uuid);
            if uuid.is_some_and(|uuid| spare.serves(uuid)) {
                return true;
            }
            next = array.parent.map(|(parent, _)| parent);
        }
        false
    }

    /// For whose places a device is too small that is to be a spare: an error where for all.
    pub(crate) fn may_be_spare(&self, name: &str, bytes: u64) -> Result<Vec<TooSmall>, TooSmall> {
        let mut least_bytes = u64::MAX;
        let (mut fits, mut unfit) = (false, Vec::new());
        for (_, array) in self.arrays_of_devices() {
            let record = array.engine.record().expect("they have superblocks");
            let (mut members, mut needed_bytes) = (MemberSet::EMPTY, 0);
            for member in (0..record.members).map(MemberIndex) {
                match areas_to_join(record, bytes, member) {
                    Ok(_) => fits = true,
                    Err(small) => {
                        members = members.with(member);
                        needed_bytes = small.needed_bytes.max(needed_bytes);
                        least_bytes = small.needed_bytes.min(least_bytes);
                    }
                }
            }
            if !members.is_empty() {
                let small = TooSmall::new(name, bytes, needed_bytes);
                let part = format!(" for {} of array '{}'", positions(members), array.name);
                unfit.push(small.with_part(part, FOR_ALL));
            }
        }
        if !fits {
            return Err(TooSmall::new(name, bytes, least_bytes));
        }
        Ok(unfit)
    }

    /// Why a spare will never be taken by any of the arrays, if so.
    pub(crate) fn spare_is_useless(&self, spare: &Spare) -> Option<String> {
        if spare.bytes < spare.record.device_bytes {
            let Spare { bytes, record, .. } = spare;
            return Some(format!(
                "truncated: it has {bytes} bytes and had {} when it became a spare",
                record.device_bytes
            ));
        }
        if !(self.arrays_of_devices()).any(|(index, _)| self.serves(&spare.record, index)) {
            return Some("it is a spare of another array".to_owned());
        }
        let small = self.may_be_spare(&spare.name, spare.bytes).err()?;
        Some(format!(
            "too small: it has {}, and a member needs {}",
            SizeBytes(small.lack.device_bytes),
            SizeBytes(small.lack.needed_bytes)
        ))
    }

    /// A spare becomes this array's alone, durably, and then takes a place in it.
    fn take_spare(
        &mut self,
        name: &str,
        array: ArrayIndex,
        member: MemberIndex,
        areas: &DeviceRecord,
    ) -> Result<(), AttachError> {
        let device = self.members.add(name)?;
        // Nobody else can take it from here on; before, somebody may have.
        let clear = |source| AttachError::Clear {
            device: name.to_owned(),
            source,
        };
        let found = Probe::held(name).map_err(clear)?.found();
        let spare = found.spare().filter(|spare| self.serves(spare, array));
        let spare = spare.ok_or_else(|| AttachError::TakenAlready {
            device: name.to_owned(),
        })?;
        let record = self.array(array).engine.record();
        let uuid = record.expect("it has a vacancy").uuid;
        spare::claim(name, spare, uuid, areas).map_err(clear)?;
        self.join(name, array, member, areas, Node::Device(device))
    }

    /// Puts a node that is cleared in the place of a missing one.
    fn join(
        &mut self,
        name: &str,
        array: ArrayIndex,
        member: MemberIndex,
        areas: &DeviceRecord,
        node: Node,
    ) -> Result<(), AttachError> {
        let uuid = Self::new_uuid(name)?;
        self.lead_upwards(Some(node), array, member);
        self.arrays[array.index()].members[usize::from(member.0)] = Some(node);
        let command = Command::Rebuild {
            member,
            device: Box::new(*areas),
            uuid,
        };
        self.command_for(name, array, command)
    }

    /// How far the devices are that are being filled, or that members are copied onto.
    pub(crate) fn rebuild_progress(&self) -> Option<RebuildProgress> {
        let mut all: Option<RebuildProgress> = None;
        for array in &self.arrays {
            let engine = &array.engine;
            let job = match (engine.is_rebuilding(), engine.replacing()) {
                (true, _) => "rebuild",
                (false, Some(_)) => "replace",
                (false, None) => continue,
            };
            let total = engine.geometry().blocks() * u64::from(engine.block_size().bytes());
            let done = engine.status().job(job).map_or(0, |job| job.done_bytes);
            let all = all.get_or_insert(RebuildProgress {
                done_bytes: 0,
                total_bytes: 0,
            });
            all.done_bytes += done;
            all.total_bytes += total;
        }
        all
    }

    /// How far the scrubs of all arrays are that can be scrubbed, and what they found.
    pub(crate) fn scrub_progress(&self) -> ScrubProgress {
        let mut all = ScrubProgress::default();
        for array in &self.arrays {
            let geometry = array.engine.geometry();
            if !array.engine.can_scrub() {
                continue;
            }
            let bytes = geometry.blocks() * u64::from(array.engine.block_size().bytes());
            let status = array.engine.status();
            all.total_bytes += bytes;
            all.done_bytes += bytes;
            if let Some(job) = status.job("scrub") {
                all.going |= job.going;
                all.failed += job.failed;
                all.done_bytes -= bytes - job.done_bytes;
            }
            all.found.repaired_blocks += status.scrub.repaired_blocks;
            all.found.left_blocks += status.scrub.left_blocks;
            all.found.disagreements += status.scrub.disagreements;
            all.found.made_to_agree += status.scrub.made_to_agree;
            // Of several arrays it is enough to know whether one was interrupted.
            all.found.mark = all.found.mark.max(status.scrub.mark);
        }
        all
    }

    /// What all devices under a node were asked, from left to right.
    pub(crate) fn counters(&self, node: Node) -> Counters {
        let devices = self.leaves(node);
        Counters {
            devices: devices
                .into_iter()
                .map(|device| self.members.counters(device))
                .collect(),
        }
    }

    /// All devices under a node, from left to right; that of an array's journal comes after its members.
    pub(crate) fn leaves(&self, node: Node) -> Vec<DeviceIndex> {
        let mut todo = vec![node];
        let mut leaves = Vec::new();
        while let Some(node) = todo.pop() {
            match node {
                Node::Device(device) => leaves.push(device),
                Node::Array(array) => {
                    let array = self.array(array);
                    todo.extend(array.journal.map(Node::Device));
                    todo.extend(array.members.iter().rev().flatten());
                }
            }
        }
        leaves
    }

    /// All arrays, each before its members.
    pub(crate) fn arrays_from_the_top(&self) -> impl Iterator<Item = ArrayIndex> + use<> {
        let count = u16::try_from(self.arrays.len()).expect("few arrays");
        let mut all: Vec<ArrayIndex> = (0..count).rev().map(ArrayIndex).collect();
        let above = |array: &ArrayIndex| self.array(*array).parent.map(|(parent, _)| parent);
        all.sort_by_key(|array| std::iter::successors(above(array), above).count());
        all.into_iter()
    }

    /// Whether an array has checksums and no redundancy, and is a member of one that has: a scrub of that
    /// one reads it too, and mends what it finds.
    pub(crate) fn is_mended_from_above(&self, array: ArrayIndex) -> bool {
        let redundant = |array: ArrayIndex| self.array(array).engine.geometry().redundancy() > 0;
        let above = |array: &ArrayIndex| self.array(*array).parent.map(|(parent, _)| parent);
        let mut all_above = core::iter::successors(above(&array), above);
        self.array(array).engine.can_scrub() && !redundant(array) && all_above.any(redundant)
    }

    /// Whether the array that this one is a member of has all of its data without those that failed.
    pub(crate) fn survives(&self, array: ArrayIndex, failed: &[ArrayIndex]) -> bool {
        let Some((outer, _)) = self.array(array).parent else {
            return false;
        };
        let engine = &self.array(outer).engine;
        let status = engine.status();
        let out = (status.members.iter())
            .filter(|member| member.state != spindles_engine::Member::Active)
            .map(|member| member.member);
        let of_outer = failed
            .iter()
            .filter_map(|failed| self.array(*failed).parent);
        let of_outer = of_outer.filter(|(parent, _)| *parent == outer);
        let lost = out.chain(of_outer.map(|(_, member)| member)).collect();
        engine.geometry().survives(lost)
    }

    fn timeout(&self) -> Option<Instant> {
        self.arrays
            .iter()
            .filter_map(|array| array.engine.poll_timeout())
            .min()
    }

    /// Tells the engines whose time has come.
    fn wake(&mut self) {
        for index in (0..self.arrays.len()).map(|index| u16::try_from(index).expect("few arrays")) {
            let engine = &mut self.arrays[usize::from(index)].engine;
            if engine.poll_timeout().is_some_and(|when| when <= self.now) {
                engine.handle_timeout(self.now);
                self.drain(ArrayIndex(index));
                self.settle();
            }
        }
    }

    fn look_at_clock(&mut self) {
        self.now = self.clock.now();
        self.inputs_since = 0;
    }

    #[inline]
    fn tick(&mut self) {
        self.inputs_since += 1;
        if self.inputs_since > CLOCK_EVERY {
            self.look_at_clock();
        }
    }

    /// Carries results upwards until there are none.
    fn settle(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.tick();
            let array = match input {
                Input::Deliver(array) => {
                    self.deliver(array);
                    continue;
                }
                Input::Member(array, id, result) => {
                    let engine = &mut self.arrays[array.index()].engine;
                    if let Some(read) = engine.metadata_read(id).filter(|_| result.is_ok()) {
                        let buffers = &self.members.buffers;
                        read.bytes
                            .copy_from_slice(buffers.slice(read.buffer, read.blocks));
                    }
                    engine.complete_member(self.now, id, result);
                    array
                }
                Input::Compute(array, id, result) => {
                    let engine = &mut self.arrays[array.index()].engine;
                    engine.complete_compute(self.now, id, result);
                    array
                }
            };
            self.drain(array);
        }
    }

    /// Carries out what an engine wants.
    fn drain(&mut self, index: ArrayIndex) {
        while let Some(output) = self.arrays[index.index()].engine.poll_output() {
            match output {
                Output::Member(io) => self.member_io(index, &io),
                Output::Compute(id) => {
                    let array = &self.arrays[index.index()];
                    let step = array.engine.step(id);
                    let result = if step.compute == Compute::Checksum {
                        let block_bytes = array.engine.block_size().bytes();
                        let block_bytes = usize::try_from(block_bytes).expect("64 bits");
                        self.checksums.clear();
                        let sums = compute::checksums(&self.members.buffers, &step, block_bytes);
                        self.checksums.extend(sums);
                        let engine = &mut self.arrays[index.index()].engine;
                        engine.checksums_mut(id).copy_from_slice(&self.checksums);
                        ComputeResult::Done
                    } else {
                        compute::run(&mut self.members.buffers, &step)
                    };
                    self.inputs.push_back(Input::Compute(index, id, result));
                }
                Output::Reply(reply) => self.reply(index, reply),
                Output::Swap(member) => {
                    let array = &mut self.arrays[index.index()];
                    let newcomer = usize::from(array.engine.newcomer().0);
                    array.members.swap(usize::from(member.0), newcomer);
                }
                Output::Event(event) => self.event(index, event),
            }
        }
    }

    fn member_io(&mut self, index: ArrayIndex, io: &MemberIo) {
        let array = &self.arrays[index.index()];
        if io.buffer.buffer == array.metadata {
            // The kernel gets its own copy, aligned and registered: the engine may go on.
            let bytes = array.engine.metadata_of(io);
            self.members
                .buffers
                .slice_mut(io.buffer, io.blocks)
                .copy_from_slice(bytes);
        }
        let node = match array.members.get(usize::from(io.member.0)) {
            Some(node) => *node,
            None => array.journal.map(Node::Device),
        };
        // What waits for the place of a member gets nothing that was planned for the one before.
        let node = node.filter(|_| !array.engine.is_out(io.member));
        match node {
            None => {
                let gone = Input::Member(index, io.id, Err(MemberError::Gone));
                self.inputs.push_back(gone);
            }
            Some(Node::Device(device)) => {
                let operation = DeviceIo {
                    operation: io.operation,
                    block: io.block,
                    blocks: io.blocks,
                    buffer: io.buffer,
                };
                let tag = tag(index.0, device, io.id.0);
                if let Some(result) = self.members.start(tag, device, &operation) {
                    self.inputs.push_back(Input::Member(index, io.id, result));
                }
            }
            Some(Node::Array(child)) => {
                let reads = io.operation == Operation::Read;
                let request = Request {
                    token: u64::from(io.id.0) | u64::from(reads) << 32,
                    operation: io.operation,
                    block: io.block,
                    blocks: io.blocks,
                    buffer: io.buffer,
                };
                self.arrays[child.index()].inbox.push_back(request);
                self.inputs.push_back(Input::Deliver(child));
            }
        }
    }

    /// Gives an array the next request of its parent, if there is room.
    fn deliver(&mut self, index: ArrayIndex) {
        let array = &mut self.arrays[index.index()];
        if let Some(request) = array.inbox.front()
            && array.engine.submit(self.now, *request).is_ok()
        {
            array.inbox.pop_front();
            self.drain(index);
        }
    }

    fn reply(&mut self, index: ArrayIndex, reply: Reply) {
        let array = &self.arrays[index.index()];
        let Some((parent, member)) = array.parent else {
            self.replies.push_back(reply);
            return;
        };
        if !array.inbox.is_empty() {
            self.inputs.push_back(Input::Deliver(index));
        }
        debug_assert_eq!(
            self.array(parent).members[usize::from(member.0)],
            Some(Node::Array(index))
        );
        let id = u32::try_from(reply.token & u64::from(u32::MAX)).expect("32 bits");
        let reads = reply.token >> 32 == 1;
        // A write that failed leaves the member's contents unknown; a read only its blocks.
        let result = reply.result.map_err(|error| match error {
            RequestError::Corrupt => MemberError::Corrupt,
            RequestError::NoSpace => MemberError::NoSpace,
            RequestError::BeyondTolerance if reads => MemberError::Medium,
            _ => MemberError::Gone,
        });
        self.inputs
            .push_back(Input::Member(parent, MemberIoId(id), result));
    }

    fn event(&mut self, index: ArrayIndex, event: Event) {
        match event {
            Event::Closed { clean } => self.arrays[index.index()].closed = Some(clean),
            Event::JournalDeviceOut { .. } => self.arrays[index.index()].journal_is_out = true,
            Event::MemberOut { .. } => self.look_for_spares = !self.spares.is_empty(),
            _ => {}
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((index, event));
    }
}

//! A driver on memory for tests: it completes operations in an order drawn from a seed, and fails
//! those that the test selects.

use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, Computation, Compute, ComputeResult, Instant,
    MemberError, MemberIndex, MemberIo, MemberSet, Operation, Piece, Reply, Request, RequestError,
    StepId,
};
use spindles_engine::{
    Command, CommandError, Config, Engine, Event, Extent, FaultLimits, Limits, Member, OpenError,
    Output, Persistence, Policy, ReadPolicy, WriteBack, WriteBackMode,
};
use spindles_format::{
    AreaKind, ArrayRecord, BITMAPS, CHECKSUM_BLANK, CHECKSUM_NONE, CHECKSUM_PAGE_BYTES,
    ChecksumKind, DeviceRecord, Features, JournalRecord, MemberRecord, MemberState, SLOT_BYTES,
    SUPERBLOCK_BYTES, SharedAreas, Text, Uuid, areas_for, blank_bad_blocks, blank_bitmap,
    block_checksum, decode, give_bad_blocks, give_checksums, give_regions, open_checksums,
    stored_checksum,
};
use spindles_layout::{Geometry, Level, Spec};
use spindles_parity::Located;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const BLOCK: usize = 512;
const SCRATCH: BufferId = BufferId(0);
const METADATA: BufferId = BufferId(1);
const CLIENT: u32 = 16;

/// A small generator of our own: the tests need no more than repeatable disorder.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

enum Pending {
    /// With its memory.
    Member(MemberIo, Vec<Piece>),
    Compute(StepId),
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) members: Vec<Vec<u8>>,
    pub(crate) data_start: Vec<u64>,
    /// The areas on the members of a persistent array.
    pub(crate) devices: Vec<DeviceRecord>,
    buffers: BTreeMap<u32, Vec<u8>>,
    pending: Vec<Pending>,
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) events: Vec<Event>,
    /// How often the device beyond the members and one of them changed places.
    pub(crate) swaps: u32,
    pub(crate) rng: Rng,
    /// Members that answer only `Gone`.
    pub(crate) gone: MemberSet,
    /// What is below an array that is open read-only, whose writes are forgotten: the members, and
    /// the record on them.
    below: Option<(Vec<Vec<u8>>, ArrayRecord)>,
    /// Member blocks that are unreadable until the next write.
    pub(crate) medium: BTreeSet<(u8, u64)>,
    /// Member blocks that refuse writes.
    pub(crate) refusing: BTreeSet<(u8, u64)>,
    /// Member blocks without space.
    pub(crate) without_space: BTreeSet<(u8, u64)>,
    /// The durable contents of blocks that were written since a flush.
    cached: BTreeMap<(u8, u64), [u8; BLOCK]>,
    /// The member I/O as text, when the test wants to see it.
    pub(crate) trace: Option<Vec<String>>,
    /// The last plan of each stripe range.
    pub(crate) plans: BTreeMap<u32, String>,
    /// True to complete operations in the order in which they began.
    pub(crate) in_order: bool,
    next_buffer: u32,
    pub(crate) now: Instant,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one choice of a test"
)]
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) spec: Spec,
    pub(crate) missing: MemberSet,
    pub(crate) clean: bool,
    pub(crate) persistent: bool,
    /// True if a persistent array has bitmaps. Its members then have arbitrary contents at first.
    pub(crate) regions: bool,
    pub(crate) force: bool,
    pub(crate) read_only: bool,
    pub(crate) look_only: bool,
    pub(crate) beyond_tolerance: bool,
    pub(crate) only_recovers: bool,
    /// True if a crash may leave a block torn.
    pub(crate) tears: bool,
    pub(crate) policy: &'static str,
    pub(crate) requests: u32,
    pub(crate) hedges: u32,
    pub(crate) range_blocks: u32,
    pub(crate) read_policy: &'static str,
    pub(crate) errors_max: u32,
    /// Pages of checksums that fit in memory. `None` if the blocks of a persistent array have no
    /// checksums.
    pub(crate) checksum_pages: Option<u32>,
    /// Bytes of each member in dirty regions, beyond which no region is marked ahead of writes.
    pub(crate) dirty_bytes: u64,
    /// Bytes of the longest write to a journal with FUA.
    pub(crate) fua_bytes_max: u32,
    /// Blocks of memory for staged writes; 0 for an array without a stage.
    pub(crate) staged_blocks: u32,
    pub(crate) write_back: WriteBackMode,
    /// True if members write zeros without moving bytes.
    pub(crate) zeroes: bool,
    pub(crate) seed: u64,
}

/// Members of equal size, in the level's default layout.
pub(crate) fn equal(level: &str, members: usize, chunk_blocks: u32, blocks: u64) -> Spec {
    Spec {
        level: Level::by_name(level).unwrap(),
        layout: None,
        chunk_blocks,
        member_blocks: vec![blocks; members],
    }
}

/// Returns the byte at which a block begins.
pub(crate) fn at_block(block: u64) -> usize {
    usize::try_from(block).unwrap() * BLOCK
}

/// Asserts that the engine reported an event of this pattern.
macro_rules! assert_met {
    ($world:expr, $($event:tt)+) => {
        let events = &$world.events;
        assert!(events.iter().any(|event| matches!(event, $($event)+)), "{events:?}");
    };
}
pub(crate) use assert_met;

/// Asserts that the engine reported no event of this pattern.
macro_rules! assert_not_met {
    ($world:expr, $($event:tt)+) => {
        let events = &$world.events;
        assert!(!events.iter().any(|event| matches!(event, $($event)+)), "{events:?}");
    };
}
pub(crate) use assert_not_met;

pub(crate) fn only(member: u8) -> MemberSet {
    MemberSet::EMPTY.with(MemberIndex(member))
}

impl Setup {
    pub(crate) fn new(spec: Spec) -> Self {
        Self {
            spec,
            missing: MemberSet::EMPTY,
            clean: true,
            persistent: false,
            regions: false,
            force: false,
            read_only: false,
            look_only: false,
            beyond_tolerance: false,
            only_recovers: false,
            tears: false,
            policy: "resync",
            requests: 4,
            hedges: 0,
            range_blocks: 4,
            read_policy: "nearest",
            errors_max: 0,
            checksum_pages: None,
            dirty_bytes: 0,
            fua_bytes_max: 1 << 20,
            staged_blocks: 0,
            write_back: WriteBackMode::Off,
            zeroes: false,
            seed: 1,
        }
    }

    /// The same array without these members.
    pub(crate) fn without(&self, missing: MemberSet) -> Self {
        Self {
            missing,
            ..self.clone()
        }
    }

    /// The same array, read-only.
    pub(crate) fn to_look(&self) -> Self {
        Self {
            read_only: true,
            ..self.clone()
        }
    }

    pub(crate) fn open(&self) -> Result<World, OpenError> {
        let geometry = Geometry::new(&self.spec).expect("a legal array");
        let persistence = self.persistent.then(|| persistence(self, &geometry));
        self.open_on(persistence, None)
    }

    /// Like `open`, on members with the contents `held`, or on new ones.
    fn open_on(
        &self,
        persistence: Option<Persistence>,
        held: Option<Vec<Vec<u8>>>,
    ) -> Result<World, OpenError> {
        let geometry = Geometry::new(&self.spec).expect("a legal array");
        let count = geometry.members();
        let start = if self.persistent { 512 } else { 3 };
        let data_start = match &persistence {
            Some(persistence) => persistence
                .devices
                .iter()
                .map(|device| device.as_ref().expect("all are there").data_start().0)
                .collect(),
            None => vec![start; usize::from(count)],
        };
        let devices = persistence
            .iter()
            .flat_map(|it| it.devices.iter().flatten());
        let devices = devices.copied().collect();
        let mut members: Vec<Vec<u8>> = self
            .spec
            .member_blocks
            .iter()
            .zip(&data_start)
            .map(|(blocks, start)| vec![0; usize::try_from(start + blocks).unwrap() * BLOCK])
            .collect();
        if let Some(persistence) = persistence.as_ref().filter(|_| self.regions) {
            for (member, device) in members.iter_mut().zip(&persistence.devices) {
                member.fill(0xaa);
                let device = device.as_ref().expect("all are there");
                for kind in BITMAPS {
                    let area = device.area(kind).expect("it has all areas");
                    let at = usize::try_from(area.offset_bytes).unwrap();
                    let bytes = blank_bitmap(persistence.array.uuid, kind, geometry.groups());
                    member[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                clear_checksums(member, device);
                let area = device.area(AreaKind::BAD_BLOCKS).expect("it has all areas");
                let at = usize::try_from(area.offset_bytes).unwrap();
                let pages = persistence.array.bad_blocks_pages();
                let bytes = blank_bad_blocks(persistence.array.uuid, pages);
                member[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        let clean =
            (persistence.as_ref()).map_or(self.clean, |persistence| persistence.array.clean);
        let members = held.unwrap_or(members);
        let below = (persistence.as_ref().filter(|_| self.read_only))
            .map(|persistence| (members.clone(), (*persistence.array).clone()));
        let engine = Engine::open(
            Instant(0),
            Config {
                zeroes_without_moving_bytes: if self.zeroes {
                    MemberSet::all(count)
                } else {
                    MemberSet::EMPTY
                },
                missing: self.missing,
                data_start: data_start.iter().map(|&start| BlockIndex(start)).collect(),
                persistence,
                clean,
                read_only: self.read_only,
                look_only: self.look_only,
                beyond_tolerance: self.beyond_tolerance,
                only_recovers: self.only_recovers,
                tears: self.tears,
                force: self.force,
                consistency: Policy::by_name(self.policy).unwrap(),
                read_policy: ReadPolicy::by_name(self.read_policy).unwrap(),
                faults: FaultLimits {
                    errors_max: self.errors_max,
                    ..FaultLimits::DEFAULT
                },
                write_back: WriteBack {
                    mode: self.write_back,
                    memory_blocks: self.staged_blocks,
                },
                limits: Limits {
                    requests: self.requests,
                    ranges: self.requests,
                    hedges: self.hedges,
                    range_blocks: self.range_blocks,
                    checksum_pages: self.checksum_pages.unwrap_or(0),
                    dirty_bytes: self.dirty_bytes,
                    fua_bytes_max: self.fua_bytes_max,
                },
                scratch: SCRATCH,
                metadata: METADATA,
                ..Config::bare(geometry, BlockSize::B512, self.requests)
            },
        )?;
        let scratch = vec![0xee; usize::try_from(engine.scratch_blocks()).unwrap() * BLOCK];
        let metadata = vec![0; engine.metadata().len()];
        let mut world = World {
            engine,
            members,
            data_start,
            devices,
            buffers: BTreeMap::from([(SCRATCH.0, scratch), (METADATA.0, metadata)]),
            pending: Vec::new(),
            replies: VecDeque::new(),
            events: Vec::new(),
            swaps: 0,
            rng: Rng(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            gone: self.missing,
            below,
            medium: BTreeSet::new(),
            cached: BTreeMap::new(),
            refusing: BTreeSet::new(),
            without_space: BTreeSet::new(),
            trace: None,
            plans: BTreeMap::new(),
            in_order: false,
            next_buffer: CLIENT,
            now: Instant(0),
        };
        world.drain();
        Ok(world)
    }

    /// Like `open`, with members filled by `fill` (member, byte) before any operation completes.
    pub(crate) fn open_filled(
        &self,
        fill: impl Fn(usize, usize) -> u8,
    ) -> Result<World, OpenError> {
        let mut world = self.open()?;
        for (member, bytes) in world.members.iter_mut().enumerate() {
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = fill(member, at);
            }
        }
        Ok(world)
    }
}

/// How much of a cached block survives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    Segment,
    All,
}

/// Notes a write over blocks with the contents `bytes`: keeps those for a loss of power, unless the
/// write is durable.
fn cache(
    cached: &mut BTreeMap<(u8, u64), [u8; BLOCK]>,
    member: MemberIndex,
    blocks: std::ops::Range<u64>,
    bytes: &[u8],
    durably: bool,
) {
    for (block, bytes) in blocks.zip(bytes.chunks_exact(BLOCK)) {
        let place = (member.0, block);
        if durably {
            cached.remove(&place);
        } else {
            cached
                .entry(place)
                .or_insert_with(|| bytes.try_into().unwrap());
        }
    }
}

/// Zeroes the checksum area of a member.
pub(crate) fn clear_checksums(member: &mut [u8], device: &DeviceRecord) {
    let area = device.area(AreaKind::CHECKSUMS).expect("it has all areas");
    let at = usize::try_from(area.offset_bytes).unwrap();
    let bytes = usize::try_from(area.length_bytes).unwrap();
    let end = (at + bytes).min(member.len());
    member[at..end].fill(0);
}

fn persistence(setup: &Setup, geometry: &Geometry) -> Persistence {
    let mut member = [MemberRecord::NONE; 64];
    let mut devices = Vec::new();
    for (index, &blocks) in setup.spec.member_blocks.iter().enumerate() {
        let position = MemberIndex(u8::try_from(index).unwrap());
        let device_bytes = if setup.staged_blocks > 0 {
            32 << 20 // Its journal area has room for a stage.
        } else {
            (blocks + 1024) * 512 * 2
        };
        let device: DeviceRecord = areas_for(device_bytes, BlockSize::B512, position).unwrap();
        member[index] = MemberRecord {
            device_uuid: Uuid([u8::try_from(index).unwrap() + 1; 16]),
            data_blocks: device.data_blocks(),
            state: MemberState::Active,
        };
        devices.push(device);
    }
    let mut persistence = Persistence {
        array: Box::new(ArrayRecord {
            uuid: Uuid([7; 16]),
            parent: Uuid::NIL,
            name: Text::new("test").unwrap(),
            created_s: 0,
            last_written_s: 0,
            last_scrub_s: 0,
            scrub_left_blocks: 0,
            generation: 1,
            session: 0,
            past: Default::default(),
            block_size: BlockSize::B512,
            level: Text::new(geometry.level().name).unwrap(),
            layout: Text::new(&geometry.layout_name()).unwrap(),
            chunk_blocks: geometry.chunk_blocks(),
            region_groups: 0,
            members: geometry.members(),
            clean: setup.clean,
            degraded_writes: false,
            consistency: Text::new(setup.policy).unwrap(),
            journal: JournalRecord::default(),
            scrub_mark: BlockIndex(0),
            growth: spindles_format::GrowthRecord::default(),
            checksum: ChecksumKind::None,
            row_sums: false,
            bad_blocks_listed: false,
            staged: false,
            write_back_auto: false,
            shared: SharedAreas::of(&devices),
            features: Features::default(),
            member,
        }),
        devices: devices.into_iter().map(Some).collect(),
        changed: false,
        extends: None,
        journal_device: None,
        nonce: 7,
        opened_s: Some(1_700_000_000),
    };
    if setup.staged_blocks > 0 {
        let array = &mut persistence.array;
        array.shared.journal_bytes = 192 << 10;
        array.shared.stage_bytes = (4 + 8 * 9) << 12;
        array.features.refuse |= Features::STAGE;
    }
    if setup.regions {
        let mut devices: Vec<_> = persistence.devices.iter().copied().flatten().collect();
        let group_blocks = geometry.chunk_blocks() * u32::from(geometry.data_chunks());
        let array = &mut persistence.array;
        let group_bytes = u64::from(group_blocks) * 512;
        assert!(give_regions(
            array,
            &mut devices,
            geometry.groups(),
            group_bytes
        ));
        if geometry.redundancy() > 0 {
            give_bad_blocks(&mut persistence.array, &mut devices);
        }
        persistence.array.region_groups = 2;
        persistence.devices = devices.into_iter().map(Some).collect();
    }
    if setup.checksum_pages.is_some() {
        let mut devices: Vec<_> = persistence.devices.iter().copied().flatten().collect();
        let (kind, row_sums) = (ChecksumKind::Crc32c, geometry.level().grows());
        give_checksums(&mut persistence.array, &mut devices, kind, row_sums);
        persistence.devices = devices.into_iter().map(Some).collect();
    }
    persistence
}

impl World {
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Member(io) => {
                    self.note(|_| describe(&io));
                    if let Some((range, plan)) = self.engine.printed_plan(io.id) {
                        self.plans.insert(range, plan);
                    }
                    let pieces: Vec<Piece> = self.engine.pieces(&io).collect();
                    for piece in &pieces {
                        if piece.buffer.buffer == METADATA && io.operation != Operation::Read {
                            // Copied at once, as drivers do: the engine may change them later.
                            let at = usize::try_from(piece.buffer.first_block).unwrap() * BLOCK;
                            let bytes = self.engine.metadata_of(piece.buffer, piece.blocks);
                            let buffer = self.buffers.get_mut(&METADATA.0).unwrap();
                            buffer[at..at + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                    self.pending.push(Pending::Member(io, pieces));
                }
                Output::Compute(step) => {
                    self.note(|engine| describe_step(&engine.step(step)));
                    self.pending.push(Pending::Compute(step));
                }
                Output::Reply(reply) => {
                    self.note(|_| match reply.result {
                        Ok(()) => "reply done".into(),
                        Err(error) => format!("reply: {error}"),
                    });
                    self.replies.push_back(reply);
                }
                Output::Swap(member) => {
                    self.note(|_| format!("swap {member}"));
                    self.swaps += 1;
                    let last = self.members.len() - 1;
                    self.members.swap(usize::from(member.0), last);
                    let replacement = self.engine.replacement();
                    let set = |set: MemberSet, at: MemberIndex, is: bool| {
                        if is { set.with(at) } else { set.without(at) }
                    };
                    let (one, other) =
                        (self.gone.contains(member), self.gone.contains(replacement));
                    self.gone = set(set(self.gone, member, other), replacement, one);
                }
                Output::Event(event) => {
                    self.note(|_| format!("event {event:?}"));
                    self.events.push(event);
                }
            }
        }
    }

    fn note(&mut self, line: impl FnOnce(&Engine) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line(&self.engine));
        }
    }

    pub(crate) fn idle(&self) -> bool {
        self.pending.is_empty() && self.engine.poll_timeout().is_none()
    }

    /// Returns true if `step` would complete an operation.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the member of the next operation in order, if that is a read.
    pub(crate) fn next_member(&self) -> Option<MemberIndex> {
        match self.pending.first() {
            Some(Pending::Member(io, _)) if io.operation == Operation::Read => Some(io.member),
            _ => None,
        }
    }

    /// Lets time pass until the engine wants to be woken.
    pub(crate) fn wake(&mut self) {
        let at = self.engine.poll_timeout().expect("the engine waits");
        self.now = self.now.max(at);
        self.engine.handle_timeout(self.now);
        self.drain();
    }

    /// Completes one operation: a random one, or the oldest. Without pending operations, time
    /// passes.
    pub(crate) fn step(&mut self) {
        if self.pending.is_empty() {
            return self.wake();
        }
        let bound = u64::try_from(self.pending.len()).unwrap();
        let now = self.now;
        let pending = if self.in_order {
            self.pending.remove(0)
        } else {
            let at = usize::try_from(self.rng.below(bound)).unwrap();
            self.pending.swap_remove(at)
        };
        match pending {
            Pending::Member(io, pieces) => {
                let result = self.carry_out(&io, &pieces);
                if let Some(read) = self.engine.metadata_read(io.id).filter(|_| result.is_ok()) {
                    let at = usize::try_from(read.buffer.first_block).unwrap() * BLOCK;
                    let buffer = &self.buffers[&METADATA.0];
                    read.bytes
                        .copy_from_slice(&buffer[at..at + read.bytes.len()]);
                }
                self.engine.complete_member(now, io.id, result);
            }
            Pending::Compute(id) => {
                let step = self.engine.step(id);
                let sums = checksums(&step, &self.buffers);
                let result = compute(&step, &mut self.buffers);
                if !sums.is_empty() {
                    self.engine.checksums_mut(id).copy_from_slice(&sums);
                }
                self.engine.complete_compute(now, id, result);
            }
        }
        self.drain();
    }

    pub(crate) fn run(&mut self) {
        while !self.idle() {
            self.step();
        }
    }

    /// Makes up to `steps` steps. Returns false if work ended earlier.
    pub(crate) fn steps(&mut self, steps: u64) -> bool {
        (0..steps).all(|_| {
            let more = !self.idle();
            if more {
                self.step();
            }
            more
        })
    }

    fn carry_out(&mut self, io: &MemberIo, pieces: &[Piece]) -> Result<(), MemberError> {
        if self.gone.contains(io.member) {
            return Err(MemberError::Gone);
        }
        let blocks = io.block.0..io.block.0 + u64::from(io.blocks);
        let member = &mut self.members[usize::from(io.member.0)];
        let range = usize::try_from(blocks.start).unwrap() * BLOCK
            ..usize::try_from(blocks.end).unwrap() * BLOCK;
        let length = range.len();
        match io.operation {
            Operation::Read => {
                if blocks
                    .clone()
                    .any(|block| self.medium.contains(&(io.member.0, block)))
                {
                    return Err(MemberError::Medium);
                }
                let at = usize::try_from(io.buffer.first_block).unwrap() * BLOCK;
                let buffer = self.buffers.get_mut(&io.buffer.buffer.0).unwrap();
                buffer[at..at + length].copy_from_slice(&member[range]);
            }
            Operation::Write { fua } => {
                let refuses = |block| self.refusing.contains(&(io.member.0, block));
                if blocks.clone().any(refuses) {
                    return Err(MemberError::Medium);
                }
                let has_none = |block| self.without_space.contains(&(io.member.0, block));
                if blocks.clone().any(has_none) {
                    return Err(MemberError::NoSpace);
                }
                cache(
                    &mut self.cached,
                    io.member,
                    blocks.clone(),
                    &member[range.clone()],
                    fua,
                );
                let mut at = range.start;
                for piece in pieces {
                    let length = usize::try_from(piece.blocks).unwrap() * BLOCK;
                    let bytes = read_slice(&self.buffers, piece.buffer, length);
                    member[at..at + length].copy_from_slice(&bytes);
                    at += length;
                }
                self.medium
                    .retain(|(at, block)| *at != io.member.0 || !blocks.contains(block));
            }
            Operation::Discard | Operation::WriteZeroes { .. } => {
                cache(
                    &mut self.cached,
                    io.member,
                    blocks.clone(),
                    &member[range.clone()],
                    false,
                );
                member[range].fill(0);
                self.medium
                    .retain(|(at, block)| *at != io.member.0 || !blocks.contains(block));
            }
            Operation::Flush => self.cached.retain(|&(at, _), _| at != io.member.0),
        }
        Ok(())
    }

    /// Loses power. For each block written since a flush of its member, `left` decides the part
    /// that survives: no bytes, the first half, or the whole block.
    pub(crate) fn lose_power(&mut self, mut left: impl FnMut(&mut Rng) -> Kept) {
        for ((member, block), durable) in core::mem::take(&mut self.cached) {
            let back = match left(&mut self.rng) {
                Kept::Nothing => 0,
                Kept::Segment => BLOCK / 2,
                Kept::All => BLOCK,
            };
            let at = usize::try_from(block).unwrap() * BLOCK;
            let bytes = &mut self.members[usize::from(member)][at..at + BLOCK];
            bytes[back..].copy_from_slice(&durable[back..]);
        }
    }

    /// Submits a request, and completes operations while the engine is busy. Returns the token.
    pub(crate) fn submit(
        &mut self,
        operation: Operation,
        block: u64,
        bytes: Vec<u8>,
        blocks: u32,
    ) -> u64 {
        let id = self.next_buffer;
        self.next_buffer += 1;
        let carries = matches!(operation, Operation::Read | Operation::Write { .. });
        if carries {
            self.buffers.insert(id, bytes);
        }
        let buffer = if carries {
            BufferSlice {
                buffer: BufferId(id),
                first_block: 0,
            }
        } else {
            BufferSlice::NONE
        };
        let request = Request {
            token: u64::from(id),
            operation,
            block: BlockIndex(block),
            blocks,
            buffer,
        };
        while self.engine.submit(self.now, request).is_err() {
            self.step();
        }
        self.drain();
        u64::from(id)
    }

    pub(crate) fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), RequestError> {
        let blocks = u32::try_from(bytes.len() / BLOCK).unwrap();
        let token = self.submit(
            Operation::Write { fua: false },
            block,
            bytes.to_vec(),
            blocks,
        );
        self.run();
        self.result(token)
    }

    /// Steps only until a request is answered.
    pub(crate) fn await_answer(&mut self, token: u64) -> Result<(), RequestError> {
        while self.replies.is_empty() {
            self.step();
        }
        self.result(token)
    }

    /// Flushes, and steps only until that is answered.
    pub(crate) fn flush_and_no_more(&mut self) {
        let token = self.submit(Operation::Flush, 0, Vec::new(), 0);
        self.await_answer(token).unwrap();
    }

    /// Writes blocks, and steps only until that is answered.
    pub(crate) fn write_and_no_more(&mut self, block: u64, bytes: &[u8]) {
        let fua = false;
        let blocks = u32::try_from(bytes.len() / BLOCK).unwrap();
        let token = self.submit(Operation::Write { fua }, block, bytes.to_vec(), blocks);
        self.await_answer(token).unwrap();
    }

    pub(crate) fn read(&mut self, block: u64, blocks: u32) -> Result<Vec<u8>, RequestError> {
        let length = usize::try_from(blocks).unwrap() * BLOCK;
        let token = self.submit(Operation::Read, block, vec![0xdd; length], blocks);
        self.run();
        self.result(token)?;
        Ok(self.buffer(token))
    }

    pub(crate) fn read_all(&mut self) -> Vec<u8> {
        let blocks = u32::try_from(self.engine.geometry().blocks()).unwrap();
        self.read(0, blocks).unwrap()
    }

    pub(crate) fn state(&self, member: u8) -> Member {
        self.engine.status().members[usize::from(member)].state
    }

    /// Returns the byte of a member at which its data begins.
    pub(crate) fn data_at(&self, member: usize) -> usize {
        at_block(self.data_start[member])
    }

    pub(crate) fn buffer(&mut self, token: u64) -> Vec<u8> {
        self.buffers.remove(&u32::try_from(token).unwrap()).unwrap()
    }

    pub(crate) fn result(&mut self, token: u64) -> Result<(), RequestError> {
        let at = self
            .replies
            .iter()
            .position(|reply| reply.token == token)
            .expect("a reply");
        self.replies.remove(at).unwrap().result
    }

    /// Opens the array on the same members again, as `setup` says.
    pub(crate) fn reopen(mut self, setup: &Setup) -> Self {
        let mut record = self.engine.record().expect("it has superblocks").clone();
        if let Some(below) = self.below.take() {
            (self.members, record) = below;
        }
        self.reopen_as(setup, record, None)
    }

    /// Like `reopen`, and completes all work.
    pub(crate) fn restart(self, setup: &Setup) -> Self {
        let mut world = self.reopen(setup);
        world.run();
        world
    }

    pub(crate) fn close_and_reopen(mut self, setup: &Setup) -> Self {
        assert!(self.close());
        self.restart(setup)
    }

    /// Closes the array, whose blocks then fit their checksums.
    pub(crate) fn close_with_checksums(&mut self, what: &str) {
        assert!(self.close(), "{what}");
        assert_eq!(self.wrong_checksums(), [], "{what}");
    }

    /// Opens the array on the same members again, with this record and perhaps a new size.
    pub(crate) fn reopen_as(
        self,
        setup: &Setup,
        record: ArrayRecord,
        extends: Option<Extent>,
    ) -> Self {
        let persistence = Persistence {
            // Differs from the nonce of each earlier opening that logged writes.
            nonce: 8 + record.generation,
            array: Box::new(record),
            devices: self.devices.iter().copied().map(Some).collect(),
            changed: extends.is_some(),
            extends,
            journal_device: None,
            opened_s: Some(1_700_000_000),
        };
        let mut world = setup
            .open_on(Some(persistence), Some(self.members))
            .unwrap();
        world.medium = self.medium;
        world
    }

    /// The first block of the checksum area of a member.
    pub(crate) fn checksum_start(&self, member: usize) -> u64 {
        let area = self.devices[member].area(AreaKind::CHECKSUMS);
        area.expect("it has all areas").offset_bytes / 512
    }

    /// Returns the blocks of active members that do not fit their checksums on the members, as
    /// member and block of its data area. Never-written blocks have no checksums.
    pub(crate) fn wrong_checksums(&self) -> Vec<(usize, usize)> {
        let mut wrong = Vec::new();
        let record = self.engine.record().expect("it has superblocks");
        for (member, bytes) in self.members.iter().enumerate() {
            let position = MemberIndex(u8::try_from(member).unwrap());
            if record.missing().contains(position) || self.gone.contains(position) {
                continue;
            }
            let start = usize::try_from(self.data_start[member]).unwrap() * BLOCK;
            let area = usize::try_from(self.checksum_start(member)).unwrap() * BLOCK;
            for (block, contents) in bytes[start..].chunks_exact(BLOCK).enumerate() {
                let (page, place) = record.entries().find(block as u64);
                let at = area + usize::try_from(page).unwrap() * CHECKSUM_PAGE_BYTES;
                let mut page_bytes = bytes[at..at + CHECKSUM_PAGE_BYTES].to_vec();
                open_checksums(record.entries(), record.uuid, page, &mut page_bytes);
                let kept = record.entries().checksum_in(&page_bytes, place);
                let unwritten = [CHECKSUM_NONE, CHECKSUM_BLANK].contains(&kept);
                if !unwritten && kept != stored_checksum(block_checksum(contents)) {
                    wrong.push((member, block));
                }
            }
        }
        wrong
    }

    pub(crate) fn close(&mut self) -> bool {
        self.engine.command(self.now, Command::Close).unwrap();
        self.drain();
        self.run();
        match self.events.last() {
            Some(&Event::Closed { clean }) => clean,
            other => panic!("not closed but {other:?}"),
        }
    }

    /// Rebuilds a missing member onto a device with arbitrary contents. `identity` is new.
    pub(crate) fn rebuild(&mut self, member: u8, identity: u8) -> Result<(), CommandError> {
        let position = MemberIndex(member);
        let device = Box::new(self.devices[usize::from(member)]);
        self.engine.command(
            self.now,
            Command::Rebuild {
                member: position,
                device,
                uuid: Uuid([identity; 16]),
            },
        )?;
        let contents = &mut self.members[usize::from(member)];
        contents.fill(0x5a);
        clear_checksums(contents, &self.devices[usize::from(member)]);
        self.gone = self.gone.without(position);
        self.drain();
        Ok(())
    }

    /// Replaces a live member by a device with arbitrary contents. `identity` is new.
    pub(crate) fn replace(&mut self, member: u8, identity: u8) -> Result<(), CommandError> {
        let replacement = self.engine.replacement();
        let device = Box::new(self.devices[usize::from(member)]);
        self.engine.command(
            self.now,
            Command::Replace {
                member: MemberIndex(member),
                device,
                uuid: Uuid([identity; 16]),
            },
        )?;
        self.members.truncate(usize::from(replacement.0));
        let bytes = self.members[usize::from(member)].len();
        self.members.push(vec![0x5a; bytes]);
        self.gone = self.gone.without(replacement);
        self.drain();
        Ok(())
    }

    /// Returns a member to the array, with the contents that it had when it failed.
    pub(crate) fn bring_back(&mut self, member: u8) -> Result<(), CommandError> {
        let position = MemberIndex(member);
        self.gone = self.gone.without(position);
        let device = Box::new(self.devices[usize::from(member)]);
        self.command(Command::Return {
            member: position,
            device,
        })
    }

    pub(crate) fn command(&mut self, command: Command) -> Result<(), CommandError> {
        let result = self.engine.command(self.now, command);
        self.drain();
        result
    }

    /// Returns the valid superblocks of a member.
    pub(crate) fn superblocks(&self, member: usize) -> Vec<ArrayRecord> {
        let slot = |at: u64| {
            let at = usize::try_from(at).unwrap();
            let bytes = &self.members[member][at..at + SUPERBLOCK_BYTES];
            Some(decode(bytes).ok()?.0)
        };
        SLOT_BYTES.into_iter().filter_map(slot).collect()
    }

    /// Makes a block of a member unreadable.
    pub(crate) fn spoil(&mut self, member: usize, block: usize) {
        let member = u8::try_from(member).unwrap();
        self.medium.insert((member, u64::try_from(block).unwrap()));
    }

    /// Returns the newest valid superblock of a member.
    pub(crate) fn newest(&self, member: usize) -> Option<ArrayRecord> {
        let records = self.superblocks(member).into_iter();
        records.max_by_key(|record| record.generation)
    }

    pub(crate) fn fail(&mut self, member: u8) {
        self.engine
            .command(self.now, Command::Fail(MemberIndex(member)))
            .unwrap();
        self.gone = self.gone.with(MemberIndex(member));
        self.drain();
        self.run();
    }
}

fn describe(io: &MemberIo) -> String {
    let word = match io.operation {
        Operation::Read => "read",
        Operation::Write { fua: false } => "write",
        Operation::Write { fua: true } => "write-fua",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
        Operation::WriteZeroes { .. } => "zero",
    };
    format!("{word} {}:{}+{}", io.member, io.block, io.blocks)
}

fn describe_step(step: &Computation<'_>) -> String {
    let list = |operands: &[spindles_block::Operand]| {
        let mut indices: Vec<String> = operands
            .iter()
            .map(|operand| operand.index.to_string())
            .collect();
        indices.dedup();
        indices.join(" ")
    };
    let word = format!("{:?}", step.compute).to_lowercase();
    match step.targets {
        [] => format!("{word} {} ({} blocks)", list(step.sources), step.blocks),
        targets => {
            format!(
                "{word} {} -> {} ({} blocks)",
                list(step.sources),
                list(targets),
                step.blocks
            )
        }
    }
}

fn read_slice(buffers: &BTreeMap<u32, Vec<u8>>, slice: BufferSlice, length: usize) -> Vec<u8> {
    if slice.buffer == BufferId::ZEROS {
        return vec![0; length];
    }
    let at = usize::try_from(slice.first_block).unwrap() * BLOCK;
    buffers[&slice.buffer.0][at..at + length].to_vec()
}

/// Returns the checksums that a step asks for; none for other kinds of steps.
fn checksums(step: &Computation<'_>, buffers: &BTreeMap<u32, Vec<u8>>) -> Vec<u32> {
    if step.compute != Compute::Checksum {
        return Vec::new();
    }
    let length = usize::try_from(step.blocks).unwrap() * BLOCK;
    let bytes = |operand: &spindles_block::Operand| read_slice(buffers, operand.slice, length);
    let blocks = step.sources.iter().map(bytes).collect::<Vec<_>>().concat();
    blocks
        .chunks_exact(BLOCK)
        .map(spindles_format::block_checksum)
        .collect()
}

fn compute(step: &Computation<'_>, buffers: &mut BTreeMap<u32, Vec<u8>>) -> ComputeResult {
    let length = usize::try_from(step.blocks).unwrap() * BLOCK;
    let code = spindles_parity::by_parity_chunks(step.parity_chunks);
    let read = |operand: &spindles_block::Operand| {
        (operand.index, read_slice(buffers, operand.slice, length))
    };
    let sources: Vec<(u8, Vec<u8>)> = step.sources.iter().map(read).collect();
    let mut targets: Vec<(u8, Vec<u8>)> = step.targets.iter().map(read).collect();
    let mut outputs: Vec<(u8, &mut [u8])> = targets
        .iter_mut()
        .map(|(index, bytes)| (*index, &mut bytes[..]))
        .collect();
    match step.compute {
        Compute::Solve => {
            let inputs: Vec<(u8, &[u8])> = sources
                .iter()
                .map(|(index, bytes)| (*index, &bytes[..]))
                .collect();
            spindles_parity::solve(code, step.data_chunks, &inputs, &mut outputs);
        }
        Compute::Update => {
            let pairs: Vec<(u8, &[u8], &[u8])> = sources
                .chunks_exact(2)
                .map(|pair| (pair[0].0, &pair[0].1[..], &pair[1].1[..]))
                .collect();
            spindles_parity::update(code, step.data_chunks, &pairs, &mut outputs);
        }
        Compute::Compare => {
            if sources.chunks_exact(2).any(|pair| pair[0].1 != pair[1].1) {
                return ComputeResult::Mismatch;
            }
        }
        Compute::Locate => {
            let chunks: Vec<(u8, &[u8])> = sources
                .iter()
                .map(|(index, bytes)| (*index, &bytes[..]))
                .collect();
            match spindles_parity::locate(code, step.data_chunks, &chunks) {
                Located::None => {}
                Located::Chunk(place) => return ComputeResult::Located(place.try_into().unwrap()),
                Located::Unknown => return ComputeResult::Mismatch,
            }
        }
        Compute::Copy => {
            for ((_, target), (_, source)) in outputs.iter_mut().zip(&sources) {
                target.copy_from_slice(source);
            }
        }
        Compute::Checksum => {}
    }
    for (operand, (_, bytes)) in step.targets.iter().zip(targets) {
        let at = usize::try_from(operand.slice.first_block).unwrap() * BLOCK;
        let buffer = buffers.get_mut(&operand.slice.buffer.0).unwrap();
        buffer[at..at + length].copy_from_slice(&bytes);
    }
    ComputeResult::Done
}

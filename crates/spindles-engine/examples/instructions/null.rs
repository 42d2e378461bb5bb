//! A null driver, which completes every member I/O and every computation at once. Data reads as
//! zeros; only the metadata of the members is kept.

use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, Compute, ComputeResult, Instant, MemberIndex,
    MemberIo, MemberIoId, MemberResult, MemberSet, Operation, Request, StepId,
};
use spindles_engine::{Busy, Config, Engine, Output, Persistence, Policy, ReadPolicy};
use spindles_format::{
    AreaKind, ArrayRecord, BITMAPS, ChecksumKind, DeviceRecord, Features, JournalRecord,
    MemberRecord, MemberState, SharedAreas, Text, Uuid, areas_for, blank_bad_blocks, blank_bitmap,
    give_bad_blocks, give_checksums, give_regions,
};
use spindles_layout::{Geometry, Level, Spec};
use std::hint::black_box;

/// The block size of every array here.
pub(crate) const BLOCK_SIZE: BlockSize = BlockSize::B4096;
const BLOCK_BYTES: usize = 4096;
const SCRATCH: BufferId = BufferId(0);
const METADATA: BufferId = BufferId(1);
const CLIENT: BufferId = BufferId(2);
/// The checksum of a block of zeros.
const OF_ZEROS: u32 = 0x2229_2a05;

/// The promises of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promises {
    /// None, and no superblocks.
    Scratch,
    /// None: as created with `--checksum none --consistency none`.
    None,
    /// The promises of an array created with default options.
    Default,
}

impl Promises {
    fn policy(self) -> &'static Policy {
        let named = |name| Policy::by_name(name).expect("the policy");
        match self {
            Self::Scratch => named("resync"),
            Self::None => named("none"),
            Self::Default => Policy::default_for(true),
        }
    }
}

/// An array to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) level: &'static Level,
    pub(crate) members: u8,
    pub(crate) chunk_blocks: u32,
    pub(crate) missing: MemberSet,
    pub(crate) promises: Promises,
    /// True if members write zeros without moving bytes.
    pub(crate) zeroes: bool,
    /// The most requests in flight.
    pub(crate) depth: u32,
    /// Data blocks of each member, up to 2^20.
    pub(crate) member_blocks: u64,
}

impl Setup {
    /// The map of the array, in the usual layout.
    pub(crate) fn geometry(&self) -> Geometry {
        let spec = Spec {
            level: self.level,
            layout: None,
            chunk_blocks: self.chunk_blocks,
            member_blocks: vec![self.member_blocks; self.members.into()],
        };
        Geometry::new(&spec).expect("a legal array")
    }

    /// Creates the array and opens it.
    pub(crate) fn open(&self) -> Null {
        let geometry = self.geometry();
        let mut data_start = vec![BlockIndex(256); self.members.into()];
        let mut metadata = Vec::new();
        let mut persistence = None;
        if self.promises != Promises::Scratch {
            let (record, devices) = self.create(&geometry);
            data_start = devices.iter().map(DeviceRecord::data_start).collect();
            metadata = blank(&geometry, &record, &devices);
            persistence = Some(self.persistence(record, devices));
        }
        let config = Config {
            missing: self.missing,
            zeroes_without_moving_bytes: if self.zeroes {
                MemberSet::all(self.members)
            } else {
                MemberSet::EMPTY
            },
            data_start,
            persistence,
            consistency: self.promises.policy(),
            read_policy: ReadPolicy::by_name("nearest").expect("the policy"),
            scratch: SCRATCH,
            metadata: METADATA,
            ..Config::bare(geometry, BLOCK_SIZE, self.depth)
        };
        let now = Instant(0);
        let mut null = Null {
            engine: Engine::open(now, config).expect("the array opens"),
            now,
            pending: Vec::with_capacity(1 << 16),
            replies: 0,
            errors: 0,
            asked: None,
            metadata,
        };
        null.drain();
        null.run();
        null
    }

    /// Returns the record and the devices of the new array.
    fn create(&self, geometry: &Geometry) -> (ArrayRecord, Vec<DeviceRecord>) {
        let mut member = [MemberRecord::NONE; 64];
        let mut devices = Vec::new();
        // Room for the data and for metadata.
        let device_bytes = self.member_blocks * 5 * 1024;
        for position in (0..self.members).map(MemberIndex) {
            member[usize::from(position.0)] = MemberRecord {
                device_uuid: Uuid([position.0 + 1; 16]),
                data_blocks: self.member_blocks,
                state: MemberState::Active,
            };
            devices.push(areas_for(device_bytes, BLOCK_SIZE, position).expect("large enough"));
        }
        let mut record = ArrayRecord {
            uuid: Uuid([7; 16]),
            parent: Uuid::NIL,
            name: Text::new("test").expect("short"),
            created_s: 0,
            last_written_s: 0,
            last_scrub_s: 0,
            scrub_left_blocks: 0,
            generation: 1,
            session: 0,
            past: Default::default(),
            block_size: BLOCK_SIZE,
            level: Text::new(self.level.name).expect("short"),
            layout: Text::new(&geometry.layout_name()).expect("short"),
            chunk_blocks: self.chunk_blocks,
            region_groups: 0,
            members: self.members,
            clean: true,
            degraded_writes: false,
            consistency: Text::new(self.promises.policy().name).expect("short"),
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
        };
        if self.promises == Promises::Default {
            let row_blocks = self.chunk_blocks * u32::from(geometry.data_chunks());
            let group_bytes = u64::from(row_blocks) * u64::from(BLOCK_SIZE.bytes());
            let groups = geometry.groups();
            let given = give_regions(&mut record, &mut devices, groups, group_bytes);
            assert!(given, "the bitmaps have room");
            let row_sums = geometry.level().grows();
            give_checksums(&mut record, &mut devices, ChecksumKind::Crc32c, row_sums);
        }
        if geometry.redundancy() > 0 {
            give_bad_blocks(&mut record, &mut devices);
        }
        (record, devices)
    }

    fn persistence(&self, record: ArrayRecord, devices: Vec<DeviceRecord>) -> Persistence {
        let is_there = |device: &DeviceRecord| !self.missing.contains(device.member);
        Persistence {
            array: Box::new(record),
            devices: (devices.into_iter())
                .map(|device| Some(device).filter(is_there))
                .collect(),
            changed: false,
            extends: None,
            journal_device: None,
            nonce: 7,
            opened_s: Some(1_700_000_000),
        }
    }
}

/// Returns the bytes before the data of each member of a new array.
fn blank(geometry: &Geometry, record: &ArrayRecord, devices: &[DeviceRecord]) -> Vec<Vec<u8>> {
    let mut pages = Vec::new();
    if record.region_groups > 0 {
        let regions = geometry.groups().div_ceil(record.region_groups.into());
        pages.extend(BITMAPS.map(|kind| (kind, blank_bitmap(record.uuid, kind, regions))));
    }
    if record.has_bad_blocks() {
        let bytes = blank_bad_blocks(record.uuid, record.bad_blocks_pages());
        pages.push((AreaKind::BAD_BLOCKS, bytes));
    }
    let of_device = |device: &DeviceRecord| {
        let mut metadata = vec![0; bytes_of(device.data_start().0)];
        for (kind, bytes) in &pages {
            let area = device.area(*kind).expect("a device has all areas");
            let at = usize::try_from(area.offset_bytes).expect("small");
            metadata[at..at + bytes.len()].copy_from_slice(bytes);
        }
        metadata
    };
    devices.iter().map(of_device).collect()
}

fn bytes_of(blocks: u64) -> usize {
    usize::try_from(blocks).expect("64 bits") * BLOCK_BYTES
}

/// An engine and its operations under way.
pub(crate) struct Null {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) pending: Vec<Pending>,
    pub(crate) replies: u64,
    pub(crate) errors: u64,
    /// The member I/O of an array with superblocks, if it is recorded.
    pub(crate) asked: Option<Vec<MemberIo>>,
    /// The bytes before the data of each member; empty without superblocks.
    metadata: Vec<Vec<u8>>,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Member(MemberIoId),
    Compute(StepId),
}

impl Null {
    /// Submits a request and leaves its operations under way.
    pub(crate) fn submit(
        &mut self,
        operation: Operation,
        block: u64,
        blocks: u32,
    ) -> Result<(), Busy> {
        let request = Request {
            token: 0,
            operation,
            block: BlockIndex(block),
            blocks,
            buffer: BufferSlice {
                buffer: CLIENT,
                first_block: 0,
            },
        };
        self.engine.submit(self.now, request)?;
        self.drain();
        Ok(())
    }

    /// Completes the newest operation until none is under way.
    pub(crate) fn run(&mut self) {
        while let Some(pending) = self.pending.pop() {
            self.complete(pending, Ok(()));
        }
    }

    /// Completes an operation that was taken out of `pending`, a member I/O with `result`.
    pub(crate) fn complete(&mut self, pending: Pending, result: MemberResult) {
        match pending {
            Pending::Member(id) => self.engine.complete_member(self.now, id, result),
            Pending::Compute(id) => {
                let step = black_box(self.engine.step(id));
                if step.compute == Compute::Checksum {
                    self.engine.checksums_mut(id).fill(OF_ZEROS);
                }
                self.engine
                    .complete_compute(self.now, id, ComputeResult::Done);
            }
        }
        self.drain();
    }

    /// Takes the outputs of the engine.
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Member(io) => {
                    let io = black_box(io);
                    if !self.metadata.is_empty() {
                        self.keep(&io);
                    }
                    self.pending.push(Pending::Member(io.id));
                }
                Output::Compute(id) => self.pending.push(Pending::Compute(id)),
                Output::Reply(reply) => {
                    self.replies += 1;
                    self.errors += u64::from(reply.result.is_err());
                }
                Output::Event(_) | Output::Swap(_) => {}
            }
        }
    }

    /// Reads or writes bytes before the data of a member.
    #[inline(never)]
    fn keep(&mut self, io: &MemberIo) {
        if let Some(asked) = &mut self.asked {
            asked.push(*io);
        }
        if io.buffer.buffer == BufferId::PIECES {
            self.engine.pieces(io).for_each(|piece| {
                black_box(piece);
            });
        }
        let member = &mut self.metadata[usize::from(io.member.0)];
        let at = bytes_of(io.block.0);
        let Some(bytes) = member.get_mut(at..at + bytes_of(io.blocks.into())) else {
            return; // Data.
        };
        if !io.operation.is_write() {
            if let Some(read) = self.engine.metadata_read(io.id) {
                read.bytes.copy_from_slice(bytes);
            }
        } else if io.buffer.buffer == METADATA {
            bytes.copy_from_slice(self.engine.metadata_of(io.buffer, io.blocks));
        } else if io.buffer.buffer == BufferId::ZEROS
            || !matches!(io.operation, Operation::Write { .. })
        {
            bytes.fill(0);
        }
        // Batches of the log are not kept: this driver never reads them, and storing them is work
        // of the members, not of the engine.
    }
}

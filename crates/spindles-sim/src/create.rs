//! Creates the disks of a run, the maps over them, and their superblocks.

use crate::devices::journal::{self, JournalDisk};
use crate::disk::Disk;
use crate::options::{Keepers, Options, Tree, starts_unclean};
use crate::random::Random;
use crate::stack::Checksums;
use crate::stack::places::Places;
use crate::stack::regions::Regions;
use crate::stack::{Array, Below, Stack};
use crate::world::World;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex, MemberSet};
use spindles_engine::Policy;
use spindles_format::{
    Area, AreaKind, ArrayRecord, Assembly, BITMAPS, CHECKSUM_PAGE_BYTES, ChecksumKind,
    DeviceRecord, Features, JournalRecord, MemberRecord, MemberState, SUPERBLOCK_BYTES,
    SharedAreas, Text, Uuid, areas_for, areas_to_join, blank_bad_blocks, blank_bitmap,
    give_bad_blocks, give_checksums, give_regions,
};
use spindles_layout::{Geometry, Spec};
use std::collections::{BTreeMap, BTreeSet};

/// Creates the disks and arrays of a run, without superblocks.
pub(crate) fn blank(options: &Options) -> Stack {
    let mut stack = Stack {
        arrays: Vec::new(),
        disks: Vec::new(),
        spoiled: BTreeSet::new(),
        unfilled: BTreeSet::new(),
        is_short_of_space: false,
        decayed: BTreeMap::new(),
        lost_blocks: BTreeSet::new(),
        lost_once: BTreeSet::new(),
        block_bytes: usize::try_from(options.block_size.bytes()).expect("small"),
    };
    build(options, &options.tree, options.keepers(), false, &mut stack);
    if starts_unclean(options) {
        let mut random = Random::new(options.seed, "garbage");
        for number in 0..stack.disks.len() {
            let in_use = stack.in_use(number);
            let disk = &mut stack.disks[number];
            for (from, bytes) in in_use.parts(disk.bytes(), options.block_size) {
                let mut bytes = vec![0; usize::try_from(bytes).expect("what is in use is small")];
                for word in bytes.chunks_exact_mut(8) {
                    word.copy_from_slice(&random.any().to_le_bytes());
                }
                let sector_bytes = u64::try_from(disk.sector_bytes()).expect("small");
                disk.write(from / sector_bytes, &bytes, true);
            }
        }
    }
    stack
}

/// Adds a tree to the stack. Returns its place and its bytes.
fn build(
    options: &Options,
    tree: &Tree,
    keepers: Keepers,
    around_keeps: bool,
    stack: &mut Stack,
) -> (Below, u64) {
    match tree {
        Tree::Disk { bytes } => {
            let disk = new_disk(options, stack.disks.len(), *bytes);
            stack.disks.push(disk);
            (Below::Disk(stack.disks.len() - 1), *bytes)
        }
        Tree::Array {
            level,
            layout,
            chunk_blocks,
            members,
        } => {
            let keeps = tree.keeps_checksums(keepers, around_keeps);
            let below: Vec<_> = members
                .iter()
                .map(|member| build(options, member, keepers, keeps || around_keeps, stack))
                .collect();
            let records: Vec<_> = (0_u8..)
                .zip(&below)
                .map(|(member, (_, bytes))| new_areas(options, *bytes, MemberIndex(member)))
                .collect();
            let spec = Spec {
                level,
                layout: Some(level.layout(layout).expect("it is one of the level's")),
                chunk_blocks: *chunk_blocks,
                member_blocks: records.iter().map(DeviceRecord::data_blocks).collect(),
            };
            let geometry = Geometry::new(&spec).expect("members are made large enough");
            let bytes = geometry.blocks() * u64::from(options.block_size.bytes());
            let index = stack.arrays.len();
            for (member, (below, _)) in (0_u8..).map(MemberIndex).zip(&below) {
                if let Below::Array(array) = *below {
                    stack.arrays[array].above = Some((index, member));
                }
            }
            stack.arrays.push(Array {
                stage_bytes: options.stage_bytes,
                geometry,
                data_start: records.iter().map(DeviceRecord::data_start).collect(),
                members: below.iter().map(|(below, _)| *below).collect(),
                lost: MemberSet::EMPTY,
                blank: MemberSet::EMPTY,
                unsettled: false,
                damaged: None,
                above: None,
                filling: MemberSet::EMPTY,
                marks: false,
                logs: false,
                regions: None,
                checksum: if keeps {
                    ChecksumKind::Crc32c
                } else {
                    ChecksumKind::None
                },
                checksums: None,
                staged: 0..0,
            });
            (Below::Array(index), bytes)
        }
    }
}

/// Creates a disk of this number. Its length in the tree applies unless the run fixes another.
fn new_disk(options: &Options, number: usize, bytes: u64) -> Disk {
    let size = options.disks.get(number);
    let (sector_bytes, real_bytes) = size.map_or((options.sector_bytes, bytes), |size| {
        (size.sector_bytes, size.bytes)
    });
    let sectors = real_bytes / u64::from(sector_bytes);
    let mut disk = Disk::new(options.model, sector_bytes, sectors);
    if options.may_run_out_of_space() {
        disk.make_sparse();
    }
    disk
}

/// Durably writes the first superblocks of all arrays, as `create` does. An array above another is
/// written through the maps, with parity and copies in agreement.
pub(crate) fn write_superblocks(world: &mut World) {
    if !world.options.disks.is_empty() {
        world.log.count("disks of different sizes", 1);
    }
    for array in 0..world.stack.arrays.len() {
        let (record, devices) = first_record(world, array);
        for device in &devices {
            world.stack.arrays[array].put_places(device.member, Places::of(device));
        }
        if let Some(device) = journal::device_for(&world.options, &record)
            && device.device_uuid == record.journal.device
        {
            world.devices.journal = Some(JournalDisk::new(&world.options, &device));
        }
        give_bitmaps(world, array, &record, &devices);
        blank_checksums(world, array, &record, &devices);
        for (position, device) in devices.iter().enumerate() {
            let done = put(world, array, position, &record, device);
            assert!(done, "no engine is involved");
        }
    }
}

fn array_uuid(options: &Options, index: usize) -> Uuid {
    let seed = options.seed ^ u64::try_from(index).expect("small");
    Random::new(seed, "array uuid").uuid()
}

fn first_record(world: &World, index: usize) -> (ArrayRecord, Vec<DeviceRecord>) {
    let options = &world.options;
    let mut random = Random::new(options.seed ^ u64::try_from(index).expect("small"), "uuid");
    let array = &world.stack.arrays[index];
    let mut devices: Vec<_> = (0..array.geometry.members())
        .map(|member| {
            let bytes = created_bytes(world, index, usize::from(member));
            new_areas(options, bytes, MemberIndex(member))
        })
        .collect();
    let sums = array.checksum != ChecksumKind::None;
    let redundant = array.geometry.redundancy() > 0;
    let regions = options.region_groups > 0 && redundant || sums;
    let logs = array.geometry.parity_chunks() > 0 || sums;
    let mut record = ArrayRecord {
        uuid: array_uuid(options, index),
        parent: (array.above).map_or(Uuid::NIL, |(above, _)| array_uuid(options, above)),
        // An array that holds the superblocks of another was opened for that.
        generation: if array.above.is_some() { 2 } else { 1 },
        // Unwritten regions need no redundancy.
        clean: regions || !starts_unclean(options),
        ..fresh_record(
            &array.geometry,
            options.block_size,
            &devices,
            options.policy(logs),
            &mut random,
        )
    };
    let stage_bytes = u32::try_from(options.stage_bytes).expect("small");
    if stage_bytes > 0 {
        give_stage(&mut record, stage_bytes);
    }
    if regions {
        let geometry = &array.geometry;
        let group_blocks = geometry.chunk_blocks() * u32::from(geometry.data_chunks());
        let group_bytes = u64::from(group_blocks) * u64::from(options.block_size.bytes());
        let given = give_regions(&mut record, &mut devices, geometry.groups(), group_bytes);
        assert!(given, "its bitmaps have room");
        if redundant {
            give_bad_blocks(&mut record, &mut devices);
        }
        // The sensible size, or another one.
        if options.region_groups > 1 {
            record.region_groups = options.region_groups;
        }
    }
    if sums {
        let row_sums = array.geometry.level().grows();
        give_checksums(&mut record, &mut devices, array.checksum, row_sums);
    }
    let device = (index == world.stack.top() && logs)
        .then(|| journal::device_for(options, &record))
        .flatten();
    if let Some(device) = device {
        record.journal.device = device.device_uuid;
        record.note_journal_device();
    }
    // Larger disks have replaced the original ones.
    for device in &mut devices {
        let bytes = world
            .stack
            .member_bytes(index, usize::from(device.member.0));
        if bytes != device.device_bytes {
            let joined = areas_to_join(&record, bytes, device.member);
            *device = joined.expect("a larger disk has room");
        }
    }
    (record, devices)
}

/// Takes a stage of this length from the journal area of each member.
pub(crate) fn give_stage(record: &mut ArrayRecord, stage_bytes: u32) {
    record.shared.journal_bytes -= stage_bytes;
    record.shared.stage_bytes = stage_bytes;
    record.features.refuse |= Features::STAGE;
}

/// Returns the bytes of a member when its array was created.
fn created_bytes(world: &World, array: usize, position: usize) -> u64 {
    let size = match world.stack.arrays[array].members[position] {
        Below::Disk(disk) => world.options.disks.get(disk),
        Below::Array(_) => None,
    };
    size.map_or_else(
        || world.stack.member_bytes(array, position),
        |size| size.created_bytes,
    )
}

/// Durably writes blank bitmaps and bad-block lists to all members.
fn give_bitmaps(world: &mut World, array: usize, record: &ArrayRecord, devices: &[DeviceRecord]) {
    if record.region_groups == 0 {
        return;
    }
    let block_bytes = world.stack.block_bytes;
    let first = |kind| {
        let blocks = devices.iter().map(|device: &DeviceRecord| {
            let area = device.area(kind).expect("a new member has all areas");
            BlockIndex(area.offset_bytes / u64::try_from(block_bytes).expect("small"))
        });
        blocks.collect::<Vec<_>>()
    };
    world.stack.arrays[array].regions = Some(Regions {
        groups: record.region_groups,
        first: 0,
        older: None,
        array: record.uuid,
        dirty: first(AreaKind::DIRTY_BITMAP),
        written: first(AreaKind::WRITTEN_BITMAP),
    });
    let groups = world.stack.arrays[array].geometry.groups();
    let regions = groups.div_ceil(u64::from(record.region_groups));
    for kind in BITMAPS {
        let bytes = blank_bitmap(record.uuid, kind, regions);
        for (member, first) in (0..).map(MemberIndex).zip(first(kind)) {
            let blocks = bytes.chunks_exact(block_bytes);
            for (block, bytes) in (first.0..).map(BlockIndex).zip(blocks) {
                world.stack.put_raw(array, member, block, bytes);
            }
        }
    }
    let pages = record.bad_blocks_pages();
    let bytes = blank_bad_blocks(record.uuid, pages);
    for (member, first) in (0..).map(MemberIndex).zip(first(AreaKind::BAD_BLOCKS)) {
        let blocks = bytes.chunks_exact(block_bytes);
        for (block, bytes) in (first.0..).map(BlockIndex).zip(blocks) {
            world.stack.put_raw(array, member, block, bytes);
        }
    }
}

/// Durably zeroes the checksum areas of all members.
fn blank_checksums(
    world: &mut World,
    array: usize,
    record: &ArrayRecord,
    devices: &[DeviceRecord],
) {
    if record.checksum == ChecksumKind::None {
        return;
    }
    let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
    let mut starts = Vec::new();
    for (member, device) in (0..).map(MemberIndex).zip(devices) {
        let area = device.area(AreaKind::CHECKSUMS).expect("it has all areas");
        let first = area.offset_bytes / block_bytes;
        starts.push(BlockIndex(first));
        let zeros = vec![0; world.stack.block_bytes];
        // Of a large disk, only as many pages as its part of the array needs.
        let pages = record.entries().pages(device.data_blocks()).min(64);
        let bytes = pages * u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
        for block in first..first + bytes.min(area.length_bytes) / block_bytes {
            (world.stack).put_raw(array, member, BlockIndex(block), &zeros);
        }
    }
    world.stack.arrays[array].checksums = Some(Checksums {
        array: record.uuid,
        entries: record.entries(),
        starts,
    });
}

/// Returns the first record of a clean array that is not a member of another.
pub(crate) fn fresh_record(
    geometry: &Geometry,
    block_size: BlockSize,
    devices: &[DeviceRecord],
    consistency: &Policy,
    random: &mut Random,
) -> ArrayRecord {
    let mut member = [MemberRecord::NONE; MEMBERS_MAX as usize];
    for (record, device) in member.iter_mut().zip(devices) {
        *record = MemberRecord {
            device_uuid: random.uuid(),
            data_blocks: device.data_blocks(),
            state: MemberState::Active,
        };
    }
    ArrayRecord {
        uuid: random.uuid(),
        name: Text::new("simulated").expect("short"),
        created_s: 1_700_000_000,
        last_written_s: 1_700_000_000,
        last_scrub_s: 0,
        scrub_left_blocks: 0,
        generation: 1,
        session: 0,
        past: Default::default(),
        block_size,
        level: Text::new(geometry.level().name).expect("short"),
        layout: Text::new(&geometry.layout_name()).expect("short"),
        chunk_blocks: geometry.chunk_blocks(),
        region_groups: 0,
        members: geometry.members(),
        parent: Uuid::NIL,
        clean: true,
        degraded_writes: false,
        consistency: Text::new(consistency.name).expect("short"),
        journal: JournalRecord::default(),
        scrub_mark: BlockIndex(0),
        growth: spindles_format::GrowthRecord::default(),
        checksum: ChecksumKind::None,
        row_sums: false,
        bad_blocks_listed: false,
        staged: false,
        write_back_auto: false,
        shared: SharedAreas::of(devices),
        features: Features::default(),
        member,
    }
}

/// Durably writes a superblock on one member, through the engine if the member is an open array.
/// Returns true if done.
fn put(
    world: &mut World,
    array: usize,
    position: usize,
    record: &ArrayRecord,
    device: &DeviceRecord,
) -> bool {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    spindles_format::encode(record, device, &mut bytes);
    let first = device.slot_block(record.generation);
    if let Below::Array(below) = world.stack.arrays[array].members[position]
        && world.arrays.is_open(below)
    {
        return world.write_own(below, first, &bytes);
    }
    let blocks = bytes.chunks_exact(world.stack.block_bytes);
    for (block, bytes) in (first.0..).map(BlockIndex).zip(blocks) {
        match world.stack.arrays[array].members[position] {
            Below::Disk(disk) => world.stack.put_disk_block(disk, block, bytes),
            Below::Array(below) => world.stack.put_array_block(below, block, bytes),
        }
    }
    true
}

/// Writes the superblock to members that missed its last write, before any other write. Returns
/// true if done.
pub(crate) fn catch_up(world: &mut World, array: usize, assembly: &Assembly) -> bool {
    assembly.lagging.iter().all(|member| {
        world.note(&format!(
            "array {array}: member {member} lags and catches up"
        ));
        let position = usize::from(member.0);
        let device = assembly.records[position].expect("a lagging member is there");
        put(world, array, position, &assembly.array, &device)
    })
}

/// Returns the areas of a new member in a run with these options.
pub(crate) fn new_areas(options: &Options, bytes: u64, member: MemberIndex) -> DeviceRecord {
    let device = areas_for(bytes, options.block_size, member).expect("it was made so");
    let (headroom, stage) = (options.headroom_bytes, options.stage_bytes);
    if headroom + stage == 0 {
        return device;
    }
    let journal = device.area(AreaKind::JOURNAL);
    let journal = journal.map_or(u64::MAX, |area| area.offset_bytes);
    let mut areas: Vec<Area> = device.areas().to_vec();
    for area in &mut areas {
        if area.offset_bytes > journal {
            area.offset_bytes += stage;
        }
        match area.kind {
            AreaKind::JOURNAL => area.length_bytes += stage,
            AreaKind::HEADROOM => area.length_bytes += headroom,
            AreaKind::DATA => {
                area.offset_bytes += headroom;
                area.length_bytes -= headroom + stage;
            }
            _ => {}
        }
    }
    DeviceRecord::new(member, options.block_size, bytes, &areas).expect("it was made so")
}

//! Opens the arrays from their superblocks, inner ones first.

use crate::checkers::Seen;
use crate::create;
use crate::devices::journal::JournalDisk;
use crate::disk::View;
use crate::memory::{Memory, index};
use crate::session::after_crash;
use crate::stack::Below;
use crate::stack::places::Places;
use crate::stack::superblocks::newest_superblock;
use crate::world::{Moment, World};
use spindles_block::{BlockIndex, BufferId, MemberIndex, MemberSet};
use spindles_engine::{
    Command, Config, Engine, FaultLimits, Limits, OpenError, POLICIES, Persistence, Policy,
    WriteBack, WriteBackMode,
};
use spindles_format::{
    ArrayRecord, Assembly, ChecksumKind, DecodeError, DeviceRecord, Found, JournalDevice, Reason,
    SLOT_BYTES, SUPERBLOCK_BYTES,
};
use spindles_layout::Geometry;
use std::collections::BTreeSet;

/// Opens all arrays, inner ones first. Returns false if one is refused or fails a check, which ends
/// the run.
pub(crate) fn open(world: &mut World) -> bool {
    let opened = open_all(world);
    if opened || world.log.has_failed() || !world.stack.is_short_of_space {
        return opened;
    }
    // Without space the array may be refused.
    world.crash(false);
    after_crash(world);
    world.tell(&mut Moment::Relief);
    open_all(world)
}

fn open_all(world: &mut World) -> bool {
    let (now, session) = (world.now(), world.session);
    world.log.entry(now, crate::log::Entry::Open { session });
    for array in 0..world.stack.arrays.len() {
        world.arrays.set_closed(array, None);
    }
    keep_outdated_disks_apart(world);
    (world.truth).cure_gaps(&mut world.stack, &mut world.log, &BTreeSet::new());
    (0..world.stack.arrays.len()).all(|array| {
        let above = world.stack.arrays[array].above;
        open_array(world, array)
            || !world.log.has_failed()
                && above
                    .is_some_and(|(above, member)| world.stack.arrays[above].lost.contains(member))
    })
}

/// Drops outdated disks that assembly might wrongly accept. There are two cases, both beyond any
/// budget, because the information is lost:
///
/// - The array lost too many members, and not all disks are present to prove the disk outdated.
/// - The disk's superblock relies only on disks that were lost or replaced since, so no disk can
///   prove that it was never completed.
fn keep_outdated_disks_apart(world: &mut World) {
    for disk in 0..world.stack.disks.len() {
        let (array, member) = world.stack.position(disk);
        if is_outdated(world, array, member, disk) && !world.devices.is_gone(disk) {
            world.drop_disk(disk);
        }
    }
    let replaced = world.devices.replacement.as_ref();
    if let Some((array, member)) = replaced.map(|disk| (disk.array, disk.member))
        && is_outdated(world, array, member, world.devices.replacement_number())
    {
        world.detach_replacement();
    }
}

/// Returns true if the disk of a member, or its replacement, is outdated and no present disk can
/// prove it.
fn is_outdated(world: &World, array: usize, member: MemberIndex, disk: usize) -> bool {
    let array = &world.stack.arrays[array];
    let refuted = || {
        let newest = newest_superblock(world.disk(disk), View::Current);
        newest.is_none_or(|record| {
            let counts_on = MemberSet::all(array.geometry.members()).difference(record.missing());
            let mut there = counts_on.difference(array.lost).iter();
            there.any(|other| {
                // The very device that the record lists, not a later one in its position.
                let at = usize::from(other.0);
                let Below::Disk(disk) = array.members[at] else {
                    return true;
                };
                newest_superblock(&world.stack.disks[disk], View::Current).is_some_and(|theirs| {
                    theirs.member[at].device_uuid == record.member[at].device_uuid
                })
            })
        })
    };
    let is_proven = || {
        let mut disks = array.members.iter();
        let is_there =
            |below: &Below| matches!(*below, Below::Disk(disk) if !world.devices.is_gone(disk));
        if array.geometry.survives(array.lost) {
            refuted()
        } else {
            world.stack.arrays.len() == 1 && disks.all(is_there)
        }
    };
    array.lost.contains(member) && !is_proven()
}

/// A member as found at opening.
struct Member {
    found: Found,
    position: usize,
    /// Set for the second of two disks for this position.
    is_second: bool,
}

fn open_array(world: &mut World, array: usize) -> bool {
    let members = examine_members(world, array);
    let found: Vec<Found> = members.iter().map(|member| member.found.clone()).collect();
    let mut assembly = match spindles_format::choose(&found) {
        Ok(assembly) => assembly,
        Err(error) => return refuse(world, array, &error.to_string(), None),
    };
    for refusal in &assembly.refused {
        world.note(&format!("array {array}: {refusal}"));
    }
    if let Err(why) = place_devices(world, array, &members, &assembly)
        .and_then(|()| follow_missing(world, array, &assembly))
    {
        return refuse(world, array, why, None);
    }
    if !create::catch_up(world, array, &assembly) {
        return refuse(world, array, "a superblock can't be written", None);
    }
    let clean = assembly.array.clean;
    let filled = assembly.array.rebuilding();
    follow_growth(world, array, &mut assembly);
    let mut config = config(world, array, &assembly);
    let marks = config.consistency.resync_after_crash;
    let logs = config.consistency.write_hole == spindles_engine::WriteHole::Closed;
    world.stack.arrays[array].marks = marks;
    world.stack.arrays[array].logs = logs;
    world.show(&Seen::Assembled {
        array,
        clean,
        marks,
        missing: config.missing,
    });
    if world.log.has_failed() {
        return false;
    }
    let has_parity = config.geometry.parity_chunks() > 0;
    assume_doubts(world, array, &assembly.array, clean, has_parity);
    let missing = config.missing.union(filled);
    if let Some((record, extent)) = world.planned_size(array, &assembly) {
        world.follow_record(array, &record);
        assembly.array = record;
        config = self::config(world, array, &assembly);
        let persistence = config.persistence.as_mut().expect("it has superblocks");
        persistence.changed = true;
        persistence.extends = Some(extent);
        // The added space is zeroed before its dirty bits count.
        world.stack.arrays[array].marks = false;
    }
    match Engine::open(world.now(), config) {
        Ok(engine) => {
            start_engine(world, array, engine);
            bring_back(world, array, &found, &assembly);
            world.attach_added(array);
            world.take_spares(array);
            world.opened(array);
            !world.log.has_failed()
        }
        Err(error) => refuse(
            world,
            array,
            &error.to_string(),
            Some((error, clean, missing)),
        ),
    }
}

/// Reads the superblocks of all present members, in a random order.
fn examine_members(world: &mut World, array: usize) -> Vec<Member> {
    let mut members = Vec::new();
    for position in 0..world.stack.arrays[array].members.len() {
        if let Some(found) = examine(world, array, position) {
            members.push(Member {
                found,
                position,
                is_second: false,
            });
        }
    }
    examine_replacement(world, array, &mut members);
    // Assembly accepts devices in any order.
    let turn = usize::try_from(world.faults.below(64)).expect("small");
    let count = members.len().max(1);
    members.rotate_left(turn % count);
    members
}

/// Checks that each device got its own position, and decides which disk of an interrupted
/// replacement is the member. Returns an error for a wrong position.
fn place_devices(
    world: &mut World,
    array: usize,
    members: &[Member],
    assembly: &Assembly,
) -> Result<(), &'static str> {
    for (position, device) in assembly.devices.iter().enumerate() {
        let right = device.is_none_or(|device| members[device].position == position);
        if !right {
            return Err("a device got another's position");
        }
        if device.is_some_and(|device| members[device].is_second) {
            let member = MemberIndex(u8::try_from(position).expect("few"));
            world.exchange(array, member);
        }
    }
    // The old disk is back, and its replacement was never recorded.
    let returns = assembly.refused.iter().find(|refusal| {
        members[refusal.found].is_second && matches!(refusal.reason, Reason::Returning { .. })
    });
    if let Some(member) = returns.and_then(|refusal| refusal.member) {
        world.exchange(array, member);
        let blank = &mut world.stack.arrays[array].blank;
        *blank = blank.without(member);
    }
    let replacement = &mut world.devices.replacement;
    replacement.take_if(|disk| disk.array == array);
    Ok(())
}

/// Notes lost members that the assembly uses again, and loses those that it misses. Returns an
/// error if the array has to wait for space.
fn follow_missing(
    world: &mut World,
    array: usize,
    assembly: &Assembly,
) -> Result<(), &'static str> {
    let all = MemberSet::all(assembly.array.members);
    let lost = world.stack.arrays[array].lost;
    let wrongly_taken = (lost.difference(lost.difference(all)))
        .difference(assembly.missing)
        .difference(assembly.array.rebuilding());
    if !wrongly_taken.is_empty() && world.stack.is_short_of_space {
        // Inner arrays that can't write may also fail reads. An administrator waits for space.
        return Err("what went on without these members can't be read");
    }
    if !wrongly_taken.is_empty() {
        // Not a failure by itself: perhaps the array wrote nothing in the meantime.
        world.note(&format!(
            "array {array}: lost members {wrongly_taken:?} are taken again"
        ));
        world.found_again(array, wrongly_taken);
    }
    for member in assembly.missing.iter() {
        // Beyond the budget, or without space, a member array may be unable to return its
        // superblock.
        let beyond = world.options.beyond || world.stack.is_short_of_space;
        world.stack.lose_array(array, member, beyond);
    }
    Ok(())
}

/// Begins a planned growth, if there is one, and makes the maps follow the array's record.
fn follow_growth(world: &mut World, array: usize, assembly: &mut Assembly) {
    if let Some(record) = world.planned_growth(array, assembly) {
        assembly.missing = assembly.missing.union(record.missing());
        assembly.records.resize(usize::from(record.members), None);
        assembly.array = record;
    }
    world.follow_record(array, &assembly.array);
    for device in assembly.records.iter().flatten() {
        let this = &mut world.stack.arrays[array];
        this.put_places(device.member, Places::of(device));
    }
    world.follow_policy(array, &assembly.array);
    world.note_growth(&assembly.array);
}

/// Assumes the doubts that a crash leaves about the log and about parity, until the engine reports
/// otherwise. `clean` is the state before any growth.
fn assume_doubts(
    world: &mut World,
    array: usize,
    record: &ArrayRecord,
    clean: bool,
    has_parity: bool,
) {
    let journal = record.journal;
    let sums = record.checksum != ChecksumKind::None;
    if array == world.stack.top() {
        let counts = !clean && journal.on_device && journal.tail > 0;
        if let Some(disk) = world.devices.journal.as_mut().filter(|_| !counts) {
            disk.does_not_count();
        }
    }
    let there = !journal.on_device || journal_tells(world, array);
    let logged = journal.tail > 0 && there;
    if world.devices.journal.is_some() && array == world.stack.top() {
        world.truth.set_unlogged_parity(!clean && !logged);
        if !clean && !logged && sums {
            // Durable checksums are the only record of recent writes.
            (world.truth).lose_log(&mut world.stack, &world.client, &mut world.log);
        }
    }
    // After growing from copies to parity there may be a log, but rows were also written before it
    // began.
    let in_doubt = !logged || array == world.stack.top() && world.truth.has_unlogged_parity();
    world.stack.arrays[array].unsettled = !clean && in_doubt && has_parity;
}

/// Gives an engine its buffers and carries out its first outputs.
fn start_engine(world: &mut World, array: usize, engine: Engine) {
    let block_bytes = world.stack.block_bytes;
    world.arrays.open(array, engine, block_bytes);
    if array == world.stack.top() {
        lend(world);
        world.truth.note_gone_rows(&world.stack);
    }
    world.opened(array);
}

/// Returns disks to their positions if they miss no more than the dirty regions.
fn bring_back(world: &mut World, array: usize, found: &[Found], assembly: &Assembly) {
    for refusal in &assembly.refused {
        let Reason::Returning { .. } = refusal.reason else {
            continue;
        };
        let member = refusal.member.expect("its superblock could be read");
        let below = world.stack.arrays[array].members[usize::from(member.0)];
        let Below::Disk(disk) = below else {
            continue;
        };
        if world.faults.percent(20) {
            continue;
        }
        let (_, device) = found[refusal.found].record().expect("as before");
        let device = Box::new(*device);
        world.log.count("brought back", 1);
        world.devices.set_returning(disk, true);
        world.command(array, Command::Return { member, device });
    }
}

fn refuse(
    world: &mut World,
    array: usize,
    why: &str,
    error: Option<(OpenError, bool, MemberSet)>,
) -> bool {
    world.note(&format!("array {array} is refused: {why}"));
    world.log.count("refused", 1);
    let parity = world.stack.arrays[array].geometry.parity_chunks() > 0 && world.doubts_parity();
    let unclean_degraded = matches!(error, Some((OpenError::UncleanDegraded { .. }, ..)));
    if world.stack.is_given_up(array) {
        return false; // Correct, or irrelevant.
    }
    world.show(&Seen::Refused {
        array,
        why,
        unclean_degraded,
        is_unclean_degraded: matches!(error, Some((_, false, missing)) if !missing.is_empty())
            && parity,
    });
    false
}

/// Adds the replacement disk to the members found. A crash may have come during a replacement, so
/// assembly gets both disks, if they hold superblocks.
fn examine_replacement(world: &mut World, array: usize, members: &mut Vec<Member>) {
    let number = world.devices.replacement_number();
    let disk = world.devices.replacement.as_ref();
    let disk = disk.filter(|disk| disk.array == array);
    let Some(member) = disk.map(|disk| disk.member) else {
        return;
    };
    if world.devices.is_gone(number) {
        return;
    }
    let position = usize::from(member.0);
    let found = found_on(world, position, number);
    if found.record().is_err() {
        return;
    }
    members.retain(|other| other.position != position || other.found.record().is_ok());
    members.push(Member {
        found,
        position,
        is_second: true,
    });
}

/// Reads the superblock slots of a present disk.
fn found_on(world: &World, position: usize, disk: usize) -> Found {
    let disk = world.disk(disk);
    let length = disk.bytes();
    let slots = SLOT_BYTES.map(|at| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let sector_bytes = u64::try_from(disk.sector_bytes()).expect("small");
        disk.read(at / sector_bytes, &mut bytes)
            .map(|()| bytes)
            .map_err(|_| DecodeError::Unreadable)
    });
    found(position, length, &slots)
}

fn found(position: usize, bytes: u64, slots: &[Result<Vec<u8>, DecodeError>; 2]) -> Found {
    let slots = slots.each_ref().map(|slot| match slot {
        Ok(bytes) => Ok(&bytes[..]),
        Err(error) => Err(*error),
    });
    Found::new(format!("member {position}"), bytes, slots)
}

/// Reads the superblock slots of a member. `None` if it is missing.
fn examine(world: &mut World, array: usize, position: usize) -> Option<Found> {
    let below = world.stack.arrays[array].members[position];
    let found = match below {
        Below::Disk(disk) => {
            if world.devices.is_gone(disk) {
                return None;
            }
            found_on(world, position, disk)
        }
        Below::Array(below) => {
            if !world.arrays.is_open(below) {
                return None;
            }
            let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
            let slots = SLOT_BYTES.map(|at| {
                let block = BlockIndex(at / block_bytes);
                let bytes = world.read_own(below, block, SUPERBLOCK_BYTES);
                bytes.ok_or(DecodeError::Unreadable)
            });
            let bytes = world.stack.member_bytes(array, position);
            found(position, bytes, &slots)
        }
    };
    // An administrator never passes a disk that was to be filled but holds no superblock.
    let blank = found.record().err() == Some(DecodeError::NotOurs);
    let lost = world.stack.arrays[array].lost;
    let position = MemberIndex(u8::try_from(position).expect("few members"));
    (!blank || !lost.contains(position)).then_some(found)
}

fn config(world: &World, array: usize, assembly: &Assembly) -> Config {
    let options = &world.options;
    let this = &world.stack.arrays[array];
    let requests = match this.above {
        // Never busy: at least as many as the array above can have in flight on one member.
        Some(_) => options.limit_columns + 24,
        None => options.limit_requests,
    };
    let limits = Limits {
        requests,
        ranges: options.limit_columns,
        hedges: options.limit_hedges,
        range_blocks: options.limit_column_blocks,
        checksum_pages: options.checksum_pages,
        dirty_bytes: options.dirty_bytes,
        fua_bytes_max: options.fua_bytes_max,
    };
    let (scratch, metadata) = (Memory::scratch_of(array), Memory::metadata_of(array));
    let mut plain = plain_config(&this.geometry, assembly, limits, scratch, metadata);
    if let Some(persistence) = &mut plain.persistence {
        let device = journal_of(world, array);
        let record = &persistence.array;
        let named = |device: &JournalDevice| {
            device.device_uuid == record.journal.device && !device.is_outdated(record)
        };
        persistence.journal_device = device.filter(named);
    }
    Config {
        read_policy: options.read_policy,
        write_mostly: match options.seed % 3 {
            0 => MemberSet::EMPTY.with(MemberIndex(0)),
            _ => MemberSet::EMPTY,
        },
        job_rate: options.job_rate,
        faults: options.faults,
        write_back: WriteBack {
            mode: if options.stage_bytes > 0 {
                WriteBackMode::On
            } else {
                WriteBackMode::Off
            },
            memory_blocks: options.staged_blocks,
        },
        zeroes_without_moving_bytes: options.zeroes_without_moving_bytes,
        thin: options.thin,
        tears: options.sector_bytes < options.block_size.bytes(),
        mutation: options.planted.mutation(),
        ..plain
    }
}

/// Returns the default configuration for opening an assembled array.
pub(crate) fn plain_config(
    geometry: &Geometry,
    assembly: &Assembly,
    limits: Limits,
    scratch: BufferId,
    metadata: BufferId,
) -> Config {
    let record = &assembly.array;
    let data_start = |device: &Option<DeviceRecord>| {
        let start = device.as_ref().map(DeviceRecord::data_start);
        start.unwrap_or(BlockIndex(0)) // A missing member gets no requests.
    };
    Config {
        data_start: assembly.records.iter().map(data_start).collect(),
        missing: assembly.missing,
        persistence: Some(Persistence {
            array: Box::new(record.clone()),
            devices: assembly.records.clone(),
            changed: false,
            extends: None,
            journal_device: None,
            nonce: assembly.nonce(0),
            opened_s: None,
        }),
        clean: record.clean,
        tears: true,
        consistency: Policy::by_name(record.consistency.as_str()).unwrap_or(POLICIES[0]),
        job_rate: 0,
        faults: FaultLimits {
            errors_max: 0,
            stall_factor: 0,
            ..FaultLimits::DEFAULT
        },
        limits,
        scratch,
        metadata,
        ..Config::bare(geometry.clone(), record.block_size, limits.requests)
    }
}

/// Lends buffers for hedges to the outermost array, which was just opened.
fn lend(world: &mut World) {
    world.arrays.restart_counts();
    let hedges = world.options.limit_hedges;
    let lent = world.client.own_all_buffers(hedges);
    if hedges == 0 {
        return;
    }
    let blocks = world.options.request_blocks_max.max(64);
    let bytes = index(blocks) * world.stack.block_bytes;
    let first = lent.end - hedges - world.options.depth;
    for buffer in first..lent.end {
        let memory = world.arrays.memory_mut();
        memory.extend(BufferId(buffer), bytes, 0xdd);
    }
    world.arrays.lend(lent, blocks);
}

/// Returns the journal disk's description of itself, if it is the journal of this array and
/// answers.
fn journal_of(world: &World, array: usize) -> Option<JournalDevice> {
    let journal = world.devices.journal.as_ref();
    let journal = journal.filter(|_| array == world.stack.top());
    journal.and_then(JournalDisk::device)
}

/// Returns true if the journal disk of this array answers and holds the log.
fn journal_tells(world: &World, array: usize) -> bool {
    !world.devices.journal_is_damaged() && journal_of(world, array).is_some()
}

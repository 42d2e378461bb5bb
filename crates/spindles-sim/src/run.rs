//! A run, from blank disks to the last check. It consists of sessions of requests and faults, each
//! ended by a close or a crash. Then everything is read, members are lost, and everything is read
//! again.

use crate::checkers::Seen;
use crate::checkers::failure_record::newest_superblock;
use crate::client::Wish;
use crate::create;
use crate::options::{Ending, Options, Session};
use crate::places::Places;
use crate::stack::{Below, View};
use crate::world::{Failure, World};
use spindles_block::{BlockIndex, BufferId, Instant, MemberIndex, MemberSet, Operation};
use spindles_engine::Mutation;
use spindles_engine::{
    ArrayState, Command, Config, Engine, FaultLimits, Limits, OpenError, POLICIES, Persistence,
    Policy, READ_POLICIES,
};
use spindles_format::{
    ArrayRecord, Assembly, ChecksumKind, DecodeError, DeviceRecord, Found, JournalDevice, Reason,
    SLOT_BYTES, SUPERBLOCK_BYTES,
};
use spindles_layout::Geometry;
use spindles_workload::history::Initial;
use std::collections::{BTreeMap, BTreeSet};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The array, as text.
    pub tree: String,
    /// The first finding; `None` if all promises were kept.
    pub failure: Option<Failure>,
    /// A hash of all events.
    pub hash: u64,
    /// Number of log entries.
    pub entries: u64,
    /// Client requests that were answered.
    pub requests: u64,
    /// Virtual time that passed.
    pub virtual_time: Instant,
    /// The longest that a client waited for a read, counted from the stall of a disk, in
    /// nanoseconds.
    pub longest_read_ns: u64,
    /// How often each fault struck and each ending occurred.
    pub struck: BTreeMap<&'static str, u64>,
    /// The events line by line, if requested.
    pub story: Vec<String>,
}

/// Carries out a run. With `story`, also records it as text.
pub fn run(options: &Options, story: bool) -> Outcome {
    let stack = create::blank(options);
    let mut world = World::new(options.clone(), stack, story);
    world.note(&format!("seed {}: {}", options.seed, options.tree));
    world.errors_excused = options.beyond;
    create::write_superblocks(&mut world);
    through_sessions(&mut world);
    Outcome {
        seed: options.seed,
        tree: options.tree.to_string(),
        failure: world.failure.clone(),
        hash: world.log.hash(),
        entries: world.log.entries(),
        requests: world.client.answered,
        virtual_time: world.now(),
        longest_read_ns: world.client.longest_read_ns,
        struck: std::mem::take(&mut world.struck),
        story: world.log.into_story(),
    }
}

fn through_sessions(world: &mut World) {
    for session in world.options.sessions.clone() {
        if !open(world) {
            return;
        }
        load(world, &session);
        if world.failure.is_some() || !world.is_open(world.stack.top()) {
            return;
        }
        if world.engine(world.stack.top()).status().stopped_writing {
            // Bytes read now must also be read after the next opening.
            read_all(world);
        }
        if world.failure.is_some() {
            return;
        }
        end(world, session.ending);
        if world.failure.is_some() {
            return;
        }
        between_sessions(world);
        world.session += 1;
    }
    last_check(world);
}

/// Submits requests and injects faults until the session's requests are used up.
fn load(world: &mut World, session: &Session) {
    let mut left = session.requests;
    let mut faults = session.faults.iter().peekable();
    let mut quiet = session.quiet_after;
    world.ask(&mut left);
    loop {
        let asked = session.requests - left;
        while let Some((fault, _)) = faults.next_if(|(_, at)| *at <= asked) {
            let struck = (fault.strike)(world);
            *world.struck.entry(fault.name).or_default() += u64::from(struck);
            // The fault may have waited until nothing was in flight.
            world.ask(&mut left);
        }
        if quiet.take_if(|after| *after <= asked).is_some() {
            be_quiet(world);
            world.ask(&mut left);
        }
        if left == 0 && faults.peek().is_none() || !world.step() {
            break;
        }
        world.ask(&mut left);
    }
    if left > 0 && world.failure.is_none() && world.is_open(world.stack.top()) {
        world.stalled("clients wait, and nothing happens");
    }
}

/// Lets some seconds pass without client requests.
fn be_quiet(world: &mut World) {
    let seconds = world.faults.between(1, 14);
    let until = world.now().plus_ns(seconds * 1_000_000_000);
    while world.now() < until && world.step() {}
}

fn end(world: &mut World, ending: Ending) {
    let degraded_parity = |world: &World| {
        let mut arrays = world.stack.arrays.iter();
        arrays.any(|array| !array.lost.is_empty() && array.geometry.parity_chunks() > 0)
            && world.doubts_parity()
    };
    // An unclean degraded array with parity is refused, which ends the run. Make this rare.
    let ending = match ending {
        Ending::ProcessCrash | Ending::PowerLoss
            if degraded_parity(world) && world.faults.percent(85) =>
        {
            Ending::Close
        }
        ending => ending,
    };
    *world.struck.entry(ending.name()).or_default() += 1;
    match ending {
        Ending::Close => close(world),
        Ending::ProcessCrash | Ending::PowerLoss => {
            // Crash some time later, in the middle of an operation, or of closing.
            if world.faults.percent(25) {
                world.command(world.stack.top(), Command::Close);
            }
            // The cause of the crash may take the journal disk down first.
            if world.journal.is_some() && world.faults.percent(20) {
                world.drop_journal();
            }
            for _ in 0..world.faults.below(60) {
                if !world.step() {
                    break;
                }
            }
            world.note(ending.name());
            if world.failure.is_none() {
                world.crash(ending == Ending::PowerLoss);
                after_crash(world);
            }
        }
    }
}

/// Repairs faults that can't be distinguished from the effects of a crash.
pub(crate) fn after_crash(world: &mut World) {
    cure_what_is_in_doubt(world);
    for decay in world.stack.decayed.values_mut() {
        decay.outlived_crash = true;
    }
}

/// Repairs unreadable sectors that exceed the budget. An unreadable sector does if parity can't be
/// trusted; an unreadable superblock does if the other slot may not have been written.
fn cure_what_is_in_doubt(world: &mut World) {
    let in_doubt = world.doubts_parity();
    let unreadable: Vec<(usize, u64)> = (world.stack.disks.iter().enumerate())
        .flat_map(|(disk, contents)| contents.unreadable().map(move |sector| (disk, sector)))
        .collect();
    for &(disk, sector) in &unreadable {
        let stack = &world.stack;
        if stack.is_superblock(disk, sector) || stack.is_superblock_above(disk, sector) {
            world.stack.disks[disk].make_readable(sector);
        }
    }
    // If only the journal is lost, checksums still detect corruption. The next opening detects log
    // records that existed only there.
    if in_doubt && (!world.options.sums() || world.options.doubts_parity()) {
        world.stack.cure(|_, _| true);
    }
    if !in_doubt || unreadable.is_empty() {
        return;
    }
    if world.stack.arrays.len() == 1 && world.faults.percent(30) {
        world.errors_excused = true;
        return;
    }
    for (disk, sector) in unreadable {
        world.stack.disks[disk].make_readable(sector);
    }
    world.note("what could not be read can be");
}

/// Drains all requests, then closes the arrays, outer ones first.
pub(crate) fn close(world: &mut World) {
    drain(world);
    for array in (0..world.stack.arrays.len()).rev() {
        world.closed[array] = None;
        if !world.is_open(array) {
            continue;
        }
        world.command(array, Command::Close);
        while world.closed[array].is_none() && world.step() {}
        let failed = world.stack.is_given_up(array) || may_not_settle(world, array);
        match world.closed[array] {
            None if world.failure.is_none() => {
                return world.stalled(&format!("array {array} does not close"));
            }
            Some(false) if !world.excuses_errors() && !failed => {
                return world.stalled(&format!("array {array} could not be closed clean"));
            }
            _ => {}
        }
    }
    let clean = !world.closed.contains(&Some(false));
    if clean && world.closed[world.stack.top()] == Some(true) {
        world.unlogged.forget_writes();
        world.show(&Seen::ClosedClean);
    }
    world.stop();
}

/// Returns true if a crash may have destroyed all copies of a block in an array of arrays. These
/// copies stay unreadable until they are written. Redundancy then is not known to agree, and the
/// array stays unclean.
fn may_not_settle(world: &World, array: usize) -> bool {
    !world.in_doubt.now.is_empty() && world.stack.may_lose_member_blocks(array)
}

/// Runs until nothing is in flight: every request is answered and every resync is done.
pub(crate) fn drain(world: &mut World) {
    while world.step() {}
    if world.failure.is_none()
        && let Some(flight) = world.client.oldest()
    {
        let request = flight.request;
        world.stalled(&format!("request {} is never answered", request.token));
    }
}

/// Changes disks between sessions.
fn between_sessions(world: &mut World) {
    let clean = world.closed.iter().all(|closed| *closed == Some(true));
    if clean {
        for array in 0..world.stack.arrays.len() {
            if !world.stack.lacks_checksums(array) {
                world.stack.arrays[array].damaged = None;
            }
        }
    } else {
        world.damage_journal();
    }
    world.damage_metadata();
    bring_all_back(world);
    for disk in 0..world.stack.disks.len() {
        if world.is_gone(disk) && world.faults.percent(50) {
            world.bring_back(disk);
            *world.struck.entry("stale disk is back").or_default() += 1;
        }
    }
    if world.journal_is_gone() && world.faults.percent(50) {
        world.bring_back_journal();
    }
    // A disk that is missing at the next opening.
    let disk = world.random_disk();
    let clean = world.closed.iter().all(|closed| *closed == Some(true));
    let trusted = clean || !world.doubts_parity();
    if world.faults.percent(8) && trusted && world.stack.may_lose_disk(disk) {
        world.drop_disk(disk);
        *world.struck.entry("missing at opening").or_default() += 1;
    }
    let whole = world.stack.arrays.iter().all(|array| array.lost.is_empty());
    if world.journal.is_some() && (clean || whole) && world.faults.percent(15) {
        let missing = world.drop_journal();
        if !clean {
            after_crash(world);
        }
        *world
            .struck
            .entry("journal missing at opening")
            .or_default() += u64::from(missing);
    }
    world.copy_journal_device();
    if !clean && whole && world.damage_journal_device() {
        after_crash(world);
        *world.struck.entry("journal device damaged").or_default() += 1;
    }
    world.change_space();
}

/// After an array lost more disks than it survives, may bring all of them back. Drawn from its own
/// stream.
fn bring_all_back(world: &mut World) {
    let array = &world.stack.arrays[world.stack.top()];
    let failed = !array.geometry.survives(array.lost);
    if world.stack.arrays.len() > 1 || !failed || !world.restarting.percent(80) {
        return;
    }
    let gone: Vec<usize> = (0..world.stack.disks.len())
        .filter(|&disk| world.is_gone(disk))
        .collect();
    for disk in gone {
        world.bring_back(disk);
    }
    *world.struck.entry("failed and restarted").or_default() += 1;
}

/// Opens all arrays, inner ones first. Returns false if one is refused or fails a check, which ends
/// the run.
pub(crate) fn open(world: &mut World) -> bool {
    let opened = open_all(world);
    if opened || world.failure.is_some() || world.space.is_none() {
        return opened;
    }
    // Without space the array may be refused.
    world.crash(false);
    after_crash(world);
    world.give_space();
    open_all(world)
}

fn open_all(world: &mut World) -> bool {
    let (now, session) = (world.now(), world.session);
    world.log.entry(now, crate::log::Entry::Open { session });
    world.closed.fill(None);
    keep_outdated_disks_apart(world);
    world.cure_gaps(&BTreeSet::new());
    (0..world.stack.arrays.len()).all(|array| {
        let above = world.stack.arrays[array].above;
        open_array(world, array)
            || world.failure.is_none()
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
        if is_outdated(world, array, member, disk) && !world.is_gone(disk) {
            world.drop_disk(disk);
        }
    }
    let replaced = world.replacement.as_ref();
    if let Some((array, member)) = replaced.map(|disk| (disk.array, disk.member))
        && is_outdated(world, array, member, world.replacement_number())
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
        let is_there = |below: &Below| matches!(*below, Below::Disk(disk) if !world.is_gone(disk));
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
    if world.failure.is_some() {
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
            world.failure.is_none()
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
    world.replacement.take_if(|disk| disk.array == array);
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
        world.journal_counts(!clean && journal.on_device && journal.tail > 0);
    }
    let there = !journal.on_device || world.journal_tells(array);
    let logged = journal.tail > 0 && there;
    if world.journal.is_some() && array == world.stack.top() {
        world.unlogged_parity = !clean && !logged;
        if !clean && !logged && sums {
            // Durable checksums are the only record of recent writes.
            world.lose_log();
        }
    }
    // After growing from copies to parity there may be a log, but rows were also written before it
    // began.
    let in_doubt = !logged || array == world.stack.top() && world.unlogged_parity;
    world.stack.arrays[array].unsettled = !clean && in_doubt && has_parity;
}

/// Gives an engine its buffers and carries out its first outputs.
fn start_engine(world: &mut World, array: usize, engine: Engine) {
    let scratch = usize::try_from(engine.scratch_blocks()).expect("small");
    let bytes = scratch * world.stack.block_bytes;
    world.buffers[2 * array] = vec![0; bytes];
    world.buffers[2 * array + 1] = vec![0; engine.metadata().len()];
    world.engines[array] = Some(engine);
    world.lend(array);
    if array == world.stack.top() {
        world.note_gone_rows();
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
        *world.struck.entry("brought back").or_default() += 1;
        world.returning.insert(disk);
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
    *world.struck.entry("refused").or_default() += 1;
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
    let number = world.replacement_number();
    let disk = world.replacement.as_ref();
    let disk = disk.filter(|disk| disk.array == array);
    let Some(member) = disk.map(|disk| disk.member) else {
        return;
    };
    if world.is_gone(number) {
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
            if world.is_gone(disk) {
                return None;
            }
            found_on(world, position, disk)
        }
        Below::Array(below) => {
            if !world.is_open(below) {
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
    };
    let (scratch, metadata) = (World::scratch_of(array), World::metadata_of(array));
    let mut plain = plain_config(&this.geometry, assembly, limits, scratch, metadata);
    if let Some(persistence) = &mut plain.persistence {
        let device = world.journal_of(array);
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
        zeroes_without_moving_bytes: options.zeroes_without_moving_bytes,
        thin: options.thin,
        tears: options.sector_bytes < options.block_size.bytes(),
        mutation: options.mutation,
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
        geometry: geometry.clone(),
        block_size: record.block_size,
        missing: assembly.missing,
        zeroes_without_moving_bytes: MemberSet::EMPTY,
        thin: MemberSet::EMPTY,
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
        read_only: false,
        look_only: false,
        beyond_tolerance: false,
        only_recovers: false,
        tears: true,
        force: false,
        consistency: Policy::by_name(record.consistency.as_str()).unwrap_or(POLICIES[0]),
        read_policy: READ_POLICIES[0],
        write_mostly: MemberSet::EMPTY,
        job_rate: 0,
        faults: FaultLimits {
            errors_max: 0,
            stall_factor: 0,
            ..FaultLimits::DEFAULT
        },
        limits,
        scratch,
        metadata,
        mutation: Mutation::None,
    }
}

/// Opens once more and checks everything against the history. It checks right after opening, after
/// the resync, without the members that may be lost, and after a last close.
fn last_check(world: &mut World) {
    while world.space.is_some() {
        if !open(world) {
            return;
        }
        read_all(world);
        if world.failure.is_some() {
            return;
        }
        end(world, Ending::ProcessCrash);
        if world.failure.is_some() {
            return;
        }
        world.give_space();
    }
    if !open(world) {
        return;
    }
    // Read some before the resync: later reads must return the same.
    read_some(world);
    let crashes = !world.doubts_parity() && world.options.sums_exactly();
    if crashes && world.faults.percent(50) {
        // Also if the caches and a member are lost right after.
        while world.client.oldest().is_some() && world.step() {}
        if world.failure.is_some() {
            return;
        }
        world.note("power loss after the first reads");
        world.crash(true);
        drop_what_may_be_lost(world, 1);
        if !open(world) {
            return;
        }
    }
    drain(world);
    read_all(world);
    if world.failure.is_none() && !world.errors_excused {
        world.show(&Seen::Settled);
    }
    if world.faults.percent(60) {
        heal(world);
    }
    drop_what_may_be_lost(world, world.stack.disks.len());
    read_all(world);
    if world.failure.is_some() {
        return;
    }
    close(world);
    if world.failure.is_some() || !open(world) {
        return;
    }
    read_all(world);
    if world.failure.is_none() {
        close(world);
    }
}

/// Replaces all lost members with blank disks, then checks that the arrays become healthy.
fn heal(world: &mut World) {
    world.weak_disks = 0;
    for _ in 0..world.stack.disks.len() {
        // One after another: while a disk waits to join, no other can.
        for disk in 0..world.stack.disks.len() {
            world.replace_lost_disk(disk);
        }
        drain(world);
    }
    for array in 0..world.stack.arrays.len() {
        let out = world.stack.is_given_up(array) || !world.is_open(array);
        if out || world.errors_excused || world.failure.is_some() {
            continue;
        }
        let is_disk = |below: &Below| matches!(below, Below::Disk(_));
        let all_disks = world.stack.arrays[array].members.iter().all(is_disk);
        if all_disks && world.engine(array).state() != ArrayState::Healthy {
            world.stalled(&format!("array {array} does not become healthy again"));
        }
    }
    if world.failure.is_none() && !world.errors_excused {
        world.show(&Seen::Settled);
    }
    read_all(world);
}

/// Reads a few random blocks.
fn read_some(world: &mut World) {
    let blocks = world.stack.geometry().blocks();
    for _ in 0..3 {
        if world.client.has_room() {
            let block = world.faults.below(blocks);
            let length = world.faults.between(1, 8).min(blocks - block);
            read(world, block, length);
        }
    }
}

/// Drops a random disk up to `times` times, if the budget allows its loss.
fn drop_what_may_be_lost(world: &mut World, times: usize) {
    for _ in 0..times {
        let disk = world.random_disk();
        if world.failure.is_none() && world.stack.may_lose_disk(disk) && !world.is_gone(disk) {
            world.drop_disk(disk);
        }
    }
}

fn read(world: &mut World, block: u64, blocks: u64) {
    world.ask_for(Wish {
        operation: Operation::Read,
        block,
        blocks: u32::try_from(blocks).expect("small"),
        issue: None,
    });
}

/// Reads the whole array and checks every byte.
fn read_all(world: &mut World) {
    let blocks = world.stack.geometry().blocks();
    let mut next = 0;
    while next < blocks && world.failure.is_none() {
        while world.client.has_room() && next < blocks {
            // If some blocks may be lost, request each separately.
            let may_lose = [&world.in_doubt, &world.unlogged.sectors];
            let all = may_lose.iter().all(|it| it.now.is_empty()) && !world.errors_excused;
            let most = if all { 64 } else { 1 };
            let length = most.min(blocks - next);
            read(world, next, length);
            next += length;
        }
        if !world.step() {
            break;
        }
    }
    drain(world);
}

/// Returns true if the run starts from disks with unknown contents.
pub(crate) fn starts_unclean(options: &Options) -> bool {
    options.initial == Initial::Unknown
}

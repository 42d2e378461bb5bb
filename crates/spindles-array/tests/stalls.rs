//! A device that does not answer for a while, for tests: its reads reach the kernel late, and so
//! reach memory late.

use crate::Stack;
use crate::export::{Access, Export, ExportLimits};
use crate::tests::plain_config;
use crate::{Areas, Target};
use spindles_block::{BlockIndex, BufferId, MemberResult, Operation, Request};
use spindles_device::OpenOptions;
use spindles_device::queues::{Queue, Wait, Watch, WatchId};
use spindles_device::transfer::{Call, FileIndex, Tag, Transfer};
use spindles_engine::{Config, Event, FaultLimits};
use spindles_layout::{LEVELS, Level, Redundancy, Spec};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// A device stalls this long unless a test ends the stall earlier. Much longer than any read takes,
/// even on a busy machine.
const STALL: Duration = Duration::from_secs(30);
/// How long reads go on before, during and after a stall.
const PERIOD: Duration = Duration::from_millis(300);
/// Attempts at something that a busy machine may prevent.
const ATTEMPTS: usize = 5;

/// Times until which files answer no reads.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    first: Instant,
    all: Instant,
}

impl Stalls {
    /// Returns for how long a file still answers no reads.
    fn left(&self, file: FileIndex) -> Duration {
        let until = match file {
            FileIndex(0) => self.first.max(self.all),
            _ => self.all,
        };
        until.saturating_duration_since(Instant::now())
    }
}

/// Shared with the test.
type Until = Arc<Mutex<Stalls>>;

#[derive(Debug)]
struct Stalling {
    inner: Box<dyn Queue>,
    until: Until,
    held: Vec<Transfer>,
}

impl Stalling {
    fn left(&self, transfer: &Transfer) -> Duration {
        self.until.lock().unwrap().left(transfer.file)
    }
}

impl Queue for Stalling {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex> {
        self.inner.add_file(file)
    }

    fn remove_file(&mut self, file: FileIndex) {
        self.inner.remove_file(file);
    }

    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize) {
        self.inner.add_buffer(buffer, start, bytes);
    }

    fn start(&mut self, transfer: Transfer) {
        let reads = matches!(transfer.call(), Call::Read);
        if reads && !self.left(&transfer).is_zero() {
            self.held.push(transfer);
        } else {
            self.inner.start(transfer);
        }
    }

    fn watch(&mut self, watch: Watch) -> io::Result<()> {
        self.inner.watch(watch)
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        self.inner.next_ready()
    }

    fn watches(&self) -> bool {
        self.inner.watches()
    }

    fn hand_over(&mut self) {
        self.inner.hand_over();
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        self.inner.next_done()
    }

    fn turn(&mut self, wait: Wait) {
        let held = std::mem::take(&mut self.held);
        for transfer in held {
            self.start(transfer);
        }
        let left = self.held.iter().map(|held| self.left(held)).min();
        self.inner.turn(match (wait, left) {
            (wait, None) => wait,
            (Wait::No, _) => Wait::No,
            (Wait::Forever, Some(left)) => Wait::AtMost(left),
            (Wait::AtMost(time), Some(left)) => Wait::AtMost(time.min(left)),
        });
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }
}

/// Returns a byte that depends on where a block lies.
fn fill(block: usize) -> u8 {
    u8::try_from(block % 251).unwrap()
}

/// Runs the tests one at a time: each measures how long reads take, and others would slow them
/// down.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn open(folder: &std::path::Path, level: &'static Level) -> (Box<dyn Target>, Until) {
    let mut stack = Stack::new(&OpenOptions::default()).unwrap();
    let members: Vec<_> = (0..4)
        .map(|member| {
            let path = folder.join(format!("{level}-{member}.img"));
            std::fs::File::create(&path)
                .unwrap()
                .set_len(1 << 20)
                .unwrap();
            stack.add_device(path.to_str().unwrap()).unwrap()
        })
        .collect();
    let spec = Spec {
        level,
        layout: None,
        chunk_blocks: 4,
        member_blocks: vec![256; 4],
    };
    let config = Config {
        faults: FaultLimits {
            hedge_share: 1,
            ..FaultLimits::DEFAULT
        },
        ..plain_config(&spec, 64)
    };
    let members: Vec<_> = members.into_iter().map(Some).collect();
    let root = stack.add_array(level.name, config, &members).unwrap();
    let now = Instant::now();
    let until = Arc::new(Mutex::new(Stalls {
        first: now,
        all: now,
    }));
    let shared = Arc::clone(&until);
    stack.wrap_queue(|inner| {
        Box::new(Stalling {
            inner,
            until: shared,
            held: Vec::new(),
        })
    });
    (stack.into_target(root), until)
}

/// Returns the levels at which a read can bypass a member.
fn redundant() -> impl Iterator<Item = &'static Level> {
    let fits = |level: &Level| level.members_min <= 4 && level.redundancy != Redundancy::None;
    LEVELS.iter().copied().filter(move |level| fits(level))
}

fn export(target: Box<dyn Target>) -> Export {
    let limits = ExportLimits {
        slots: 16,
        access_bytes_max: 64 << 10,
    };
    Export::new(target, limits)
}

/// Fills every block with bytes that depend on where it lies.
fn fill_all(target: Box<dyn Target>) -> Export {
    let mut export = export(target);
    let blocks = usize::try_from(export.bytes()).unwrap() / BLOCK;
    let bytes: Vec<u8> = (0..blocks).flat_map(|block| [fill(block); BLOCK]).collect();
    export.write(0, &bytes).unwrap();
    export
}

/// Reads single blocks, several at once, until `end`, and checks their contents. Returns the
/// longest time that one took.
fn read_for(export: &mut Export, end: Instant, blocks: usize) -> Duration {
    let mut in_flight = Vec::new();
    let (mut next, mut longest) = (0, Duration::ZERO);
    loop {
        while in_flight.len() < 8 && Instant::now() < end {
            let offset_bytes = u64::try_from(next * BLOCK).unwrap();
            let access = Access {
                operation: Operation::Read,
                offset_bytes,
                bytes: u32::try_from(BLOCK).unwrap(),
            };
            let slot = export.take(access).unwrap();
            export.submit(slot);
            in_flight.push((slot, Instant::now(), next));
            next = (next + 5) % blocks;
        }
        let Some(answer) = export.poll(true) else {
            return longest;
        };
        answer.result.unwrap();
        let at = in_flight.iter().position(|(slot, ..)| *slot == answer.slot);
        let (slot, begun, block) = in_flight.swap_remove(at.unwrap());
        let payload = export.payload(slot);
        assert!(
            payload.iter().all(|&byte| byte == fill(block)),
            "block {block}"
        );
        payload.fill(0xEE);
        longest = longest.max(begun.elapsed());
        export.give_back(slot);
    }
}

#[test]
fn a_read_delayed_by_a_member_is_served_by_the_others() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for level in redundant() {
        let (target, until) = open(folder.path(), level);
        let mut export = fill_all(target);
        let blocks = usize::try_from(export.bytes()).unwrap() / BLOCK;
        // Let the engine learn how long reads take.
        read_for(&mut export, Instant::now() + PERIOD, blocks);
        until.lock().unwrap().first = Instant::now() + STALL;
        let longest = read_for(&mut export, Instant::now() + PERIOD, blocks);
        assert!(longest < STALL / 2, "{level}: {longest:?}");
        let counts = hedged(export.target());
        assert!(counts[0] > 0, "{level}: {counts:?}");
        // The late reads complete while others use the memory.
        until.lock().unwrap().first = Instant::now();
        read_for(&mut export, Instant::now() + PERIOD, blocks);
        let events: Vec<Event> = std::iter::from_fn(|| export.target_mut().next_event())
            .map(|(_, event)| event)
            .collect();
        let stalls = |is: bool| {
            events.iter().any(|event| match event {
                Event::MemberStalls { member, stalls } => member.0 == 0 && *stalls == is,
                _ => false,
            })
        };
        assert!(stalls(true) && stalls(false), "{level}: {events:?}");
        read_all(&mut export);
        println!("{level}: {longest:?} instead of {STALL:?}, hedged {counts:?}");
        export.close().unwrap();
    }
}

fn hedged(target: &dyn Target) -> Vec<u64> {
    let members = target.status().unwrap().members;
    members.iter().map(|member| member.hedged_reads).collect()
}

fn read_all(export: &mut Export) {
    let mut back = vec![0; usize::try_from(export.bytes()).unwrap()];
    export.read(0, &mut back).unwrap();
    for (block, bytes) in back.chunks(BLOCK).enumerate() {
        assert!(
            bytes.iter().all(|&byte| byte == fill(block)),
            "block {block}"
        );
    }
}

/// Reads through the target itself, `length` blocks at a time and several at once, until `end`, and
/// checks the contents. Goes on while a read is late: other reads earn the credit for its hedge,
/// which a busy machine may have spent. Returns the longest time that one read took.
fn read_directly(target: &mut dyn Target, end: Instant, length: u32) -> Duration {
    const SLOTS: usize = 8;
    let mut areas = Areas::new(target, 8, length);
    let places = target.facts().blocks / u64::from(length);
    let mut slots = [None; SLOTS];
    let (mut next, mut longest) = (0, Duration::ZERO);
    loop {
        let flights = slots.iter().flatten();
        let mut waits = flights.map(|(_, begun): &(BlockIndex, Instant)| begun.elapsed());
        let is_late = waits.any(|wait| wait > PERIOD / 10);
        let goes_on = is_late || Instant::now() < end;
        for (slot, flight) in slots.iter_mut().enumerate() {
            if flight.is_some() || !goes_on {
                continue;
            }
            let block = BlockIndex(next * u64::from(length));
            let request = Request {
                token: u64::try_from(slot).unwrap(),
                operation: Operation::Read,
                block,
                blocks: length,
                buffer: areas.of(slot),
            };
            target.submit_exchangeable(request).unwrap();
            *flight = Some((block, Instant::now()));
            next = (next + 5) % places;
        }
        if slots.iter().all(Option::is_none) {
            return longest;
        }
        let Some(reply) = target.poll(false) else {
            target.wait_until(target.now().plus_ns(1_000_000));
            continue;
        };
        reply.result.unwrap();
        let slot = usize::try_from(reply.token).unwrap();
        areas.take_over(slot, &reply);
        let (block, begun) = slots[slot].take().unwrap();
        let first = usize::try_from(block.0).unwrap();
        let bytes = &mut target.buffer_mut(areas.buffer())[areas.bytes_of(slot)];
        for (block, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
            assert!(
                bytes.iter().all(|&byte| byte == fill(block)),
                "block {block}"
            );
        }
        bytes.fill(0xEE);
        longest = longest.max(begun.elapsed());
    }
}

#[test]
fn reads_through_a_target_are_hedged_too() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for level in redundant() {
        let (mut target, until) = open(folder.path(), level);
        target = fill_all(target).into_target();
        read_directly(&mut *target, Instant::now() + PERIOD, 1);
        let stall = |time| until.lock().unwrap().first = Instant::now() + time;
        stall(STALL);
        // Workloads one after the other: late reads of one complete during the next.
        let mut counts = vec![hedged(&*target)];
        for length in [1, 2, 2] {
            let longest = read_directly(&mut *target, Instant::now() + PERIOD / 2, length);
            assert!(longest < STALL / 2, "{level}: {longest:?}");
            counts.push(hedged(&*target));
        }
        assert!(counts[3][0] > counts[0][0], "{level}: {counts:?}");
        // Stall again, once all late reads are back.
        let stalls_again = |_: &usize| {
            stall(Duration::ZERO);
            read_directly(&mut *target, Instant::now() + PERIOD, 4);
            stall(STALL);
            read_directly(&mut *target, Instant::now() + PERIOD, 4);
            stall(Duration::ZERO);
            counts.push(hedged(&*target));
            counts.last().map(|them| them[0]) > Some(counts[3][0])
        };
        let seen = (0..ATTEMPTS).find(stalls_again);
        assert!(seen.is_some(), "{level}: {counts:?}");
        println!("{level}: hedged {counts:?}");
        let mut export = export(target);
        read_all(&mut export);
        export.close().unwrap();
    }
}

/// While all members delay reads for a moment, the stalled one still counts as stalled. The stalled
/// member gets no new reads, which would have to be hedged too. On a very busy machine reads are
/// too slow for a member to count as stalled.
#[test]
fn a_member_stays_stalled_while_all_members_are_busy() {
    let _alone = alone();
    // With one parity, a read that bypasses a member reads all others.
    let level = redundant().find(|level| level.redundancy == Redundancy::Parity(1));
    let level = level.expect("there is one");
    let mut attempts = (0..ATTEMPTS).map(|_| hedged_before_and_after(level));
    let seen = attempts.any(|[before, after]| before == after);
    assert!(seen, "it is hedged each time");
}

/// Returns how many reads of the first member were hedged before all members were busy, and after.
fn hedged_before_and_after(level: &'static Level) -> [u64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (mut target, until) = open(folder.path(), level);
    target = fill_all(target).into_target();
    read_directly(&mut *target, Instant::now() + PERIOD, 1);
    until.lock().unwrap().first = Instant::now() + STALL;
    read_directly(&mut *target, Instant::now() + PERIOD, 1);
    let before = hedged(&*target)[0];
    assert!(before > 0, "nothing was hedged");
    until.lock().unwrap().all = Instant::now() + 10 * PERIOD;
    let longest = read_directly(&mut *target, Instant::now() + PERIOD, 1);
    assert!(
        longest > 5 * PERIOD,
        "they were not kept waiting: {longest:?}"
    );
    let longest = read_directly(&mut *target, Instant::now() + PERIOD, 1);
    assert!(longest < STALL / 2, "{longest:?}");
    let after = hedged(&*target)[0];
    until.lock().unwrap().first = Instant::now();
    export(target).close().unwrap();
    [before, after]
}

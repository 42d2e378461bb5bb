//! The log with scripted members: what each input leads to, and what a crash leaves.

use super::*;
use crate::{checksums::RowSums, index, plan::Shape, slots::SlotSet, stripe::StripeRange};
use core::fmt::Write as _;
use spindles_block::{BufferId, BufferSlice};
use spindles_format::{JournalHeader, JournalKind, RowSum};
use spindles_layout::{Geometry, Level, Spec};
use std::{collections::BTreeMap, string::String, vec, vec::Vec};

const BLOCK: usize = 512;
const MEMBERS: u8 = 3;
/// Room for a header and eight blocks.
const SEGMENT_BLOCKS: u32 = 16;
const RANGES: u32 = 8;
/// Room for a header and four blocks.
const FUA_BLOCKS_MAX: u32 = 12;

/// A log with the groups, checksums and buffers that it uses.
struct Rig {
    log: Log,
    buffer: MetadataBuffer,
    groups: Vec<Group>,
    geometry: Geometry,
    checksums: Vec<u32>,
}

impl Rig {
    fn new(on_device: bool) -> Self {
        let mut buffer = MetadataBuffer::new(BufferId(9), BlockSize::B512, MEMBERS);
        let headers = buffer.reserve(MEMBERS, header_blocks(BlockSize::B512));
        let page = buffer.reserve(1, superblock_blocks(BlockSize::B512));
        let device = on_device.then_some(JournalDevice {
            device_uuid: Uuid([3; 16]),
            array: Uuid([1; 16]),
            device_bytes: 1 << 30,
            stamps: 0,
            nonce: 0,
            ended: 0,
        });
        let placement = Placement::of(MEMBERS, SEGMENT_BLOCKS, on_device);
        let log = Log {
            nonce: 77,
            state: State::Off,
            headers,
            ring: Ring::new(),
            batches: Batches::new(MEMBERS, RANGES, headers, FUA_BLOCKS_MAX),
            stamp: Stamp::new(device, page),
            ..Log::absent(placement, BlockSize::B512, &mut buffer)
        };
        buffer.provide();
        let geometry = Geometry::new(&Spec {
            level: Level::by_name("raid5").expect("a row"),
            layout: None,
            chunk_blocks: 8,
            member_blocks: vec![1 << 10; usize::from(MEMBERS)],
        });
        Self {
            log,
            buffer,
            groups: vec![Group::empty(); index(RANGES)],
            geometry: geometry.expect("a small array"),
            checksums: vec![0; index(RANGES) * 64],
        }
    }

    /// Queues the write of a data slot and of parity in rows `low..low + blocks` of a group.
    fn queue(&mut self, range: u32, group: u64, low: u32, blocks: u32, zeros: bool) {
        let id = RangeId(range);
        self.geometry
            .group_into(GroupIndex(group), &mut self.groups[id.index()]);
        let mut stripe = StripeRange::free(Shape::whole(&self.geometry));
        stripe.group = GroupIndex(group);
        (stripe.low, stripe.blocks) = (low, blocks);
        stripe.written.slots = SlotSet::one(0).or(SlotSet::one(2));
        stripe.written.data = if zeros {
            SlotSet::one(2)
        } else {
            stripe.written.slots
        };
        stripe.rows.new_checksums = stripe.written.data;
        let record = Record::new(id, &stripe, id.index() * 64, RowSums::Alike(RowSum(5)));
        self.log.queue(record);
    }

    fn append(&mut self) -> Append {
        let row_sums: [Option<RowSum>; 0] = [];
        let context = Context::new(&self.groups, &self.checksums, Some(&row_sums));
        self.log.append(&context, &mut self.buffer)
    }

    /// Returns the writes of a batch, each with its pieces.
    fn writes(&mut self) -> Vec<(MemberIo, Vec<LogPiece>)> {
        let mut writes = Vec::new();
        while let Some(write) = self.log.next_write(&self.buffer) {
            let member = Purpose::of(write.id).1;
            let pieces = self.log.pieces(member, &self.groups, &self.buffer);
            let pieces: Vec<LogPiece> = pieces.collect();
            let is_one = write.buffer != BufferSlice::PIECES;
            assert_eq!(is_one, pieces.len() == 1, "{write:?}");
            writes.push((write, pieces));
        }
        writes
    }

    /// Carries out an input. Returns its effects.
    fn input(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        let number = |at: usize| words[at].parse::<u8>().expect("a number");
        let mut out = String::new();
        match words[0] {
            "start" => self.log.start(),
            "restart" => return std::format!("{}", self.log.restart()),
            "bypass" => self.log.bypass_begins(),
            "bypassed" => {
                let last = self.log.bypass_ended(GroupIndex(0), Some(1));
                return std::format!("last {last}");
            }
            "next" => return std::format!("{:?}", self.log.next(|| true)),
            "next-failed" => return std::format!("{:?}", self.log.next(|| false)),
            "start-flushed" => self.log.start_flushed(4),
            "release-flushed" => self.log.release_flushed(),
            "recorded" => return std::format!("new {}", self.log.recorded()),
            "placed" => self.log.placed(number(1)),
            "failed" => return std::format!("{:?}", self.log.failed()),
            "stamp" => return std::format!("{}", self.log.begin_stamp(0, MemberSet::all(MEMBERS))),
            "stamped" => {
                let write = self.log.next_stamp(&mut self.buffer);
                return write.map_or_else(|| "done".into(), |write| print(&write, &[]));
            }
            "queue" | "zeros" => {
                let range = number(1);
                let (low, blocks) = (number(2).into(), number(3).into());
                self.queue(
                    u32::from(range),
                    range.into(),
                    low,
                    blocks,
                    words[0] == "zeros",
                );
            }
            "append" if !self.log.is_due() => return "not due".into(),
            "append" => {
                let appended = self.append();
                if appended == Append::Waits {
                    return "waits".into();
                }
                if appended == (Append::Begins { switched: true }) {
                    write!(out, "{:?}; ", self.log.next(|| true)).expect("a string");
                }
                let writes = self.writes();
                let writes = writes.iter().map(|(write, pieces)| print(write, pieces));
                let writes: Vec<String> = writes.collect();
                out.push_str(&writes.join(", "));
            }
            "done" => {
                let missing = words.get(1).map_or(0, |_| 1 << number(1));
                match self.log.io_done(MemberSet::from_bits(missing), false) {
                    BatchEvent::Committed => {
                        out.push_str("committed");
                        while let Some(range) = self.log.next_committed() {
                            write!(out, " {}", range.0).expect("a string");
                        }
                    }
                    BatchEvent::Lost => {
                        out.push_str("lost");
                        while let Some(range) = self.log.next_lost() {
                            write!(out, " {}", range.0).expect("a string");
                        }
                    }
                    BatchEvent::Flush(members) => {
                        write!(out, "flush {:03b}", members.bits()).expect("a string");
                    }
                    event => write!(out, "{event:?}").expect("a string"),
                }
            }
            word => panic!("{word}: no such input"),
        }
        out
    }
}

/// Prints a write: the device, its block and the number of blocks, whose header it has, the stripe
/// range and the slot of each piece after it, and whether it has FUA.
fn print(write: &MemberIo, pieces: &[LogPiece]) -> String {
    let device = |device: MemberIndex| match device {
        JOURNAL_DEVICE => "d".into(),
        MemberIndex(member) => std::format!("{member}"),
    };
    let (on, member) = (device(write.member), device(Purpose::of(write.id).1));
    let mut out = std::format!("{on}@{}+{} header {member}", write.block.0, write.blocks);
    for piece in pieces {
        if let LogPiece::Blocks { range, slot, .. } = piece {
            write!(out, " {}.{slot}", range.0).expect("a string");
        }
    }
    if write.operation == (Operation::Write { fua: true }) {
        out.push_str(" fua");
    }
    out
}

/// Checks the effects of inputs, and the state of the log after them. Each line: an input, its
/// effects, the state.
#[track_caller]
fn check(rig: &mut Rig, script: &str) {
    for line in script.trim().replace(",\n", ", ").lines() {
        let mut parts = line.split('|').map(str::trim);
        let mut part = || parts.next().expect("three parts");
        let (input, effects, state) = (part(), part(), part());
        let seen = rig.input(input);
        assert_eq!(seen, effects, "{line}");
        assert_eq!(std::format!("{:?}", rig.log.state), state, "{line}");
    }
}

const STARTED: &str = "
start           |                | Draining
next            | FlushToStart   | Flushing
next            | Nothing        | Flushing
start-flushed   |                | Recording
recorded        | new true       | On
recorded        | new false      | On";

#[test]
fn unlogged_writes_end_before_a_log_begins() {
    let mut rig = Rig::new(false);
    assert!(rig.log.exists() && !rig.log.is_begun() && !rig.log.is_undecided());
    check(
        &mut rig,
        "
restart         | false          | Off
bypass          |                | Off
start           |                | Draining
next            | Nothing        | Draining
bypass          |                | Draining
bypassed        | last false     | Draining
bypassed        | last true      | Draining
next-failed     | Abandon        | Draining
next            | FlushToStart   | Flushing
start-flushed   |                | Recording
recorded        | new true       | On",
    );
    assert_eq!(rig.log.tail(), 4 << 32);
}

#[test]
fn batches_of_waiting_records_fill_the_segments_in_turn() {
    let mut rig = Rig::new(false);
    check(&mut rig, STARTED);
    // Group 0 has data on members 0 and 1 and parity on 2; group 1 on 2 and 0, and 1.
    check(
        &mut rig,
        "
append          | not due        | On
queue 0 0 2     |                | On
queue 1 4 3     |                | On
append          | 0@0+10 header 0 0.0 fua, 1@0+11 header 1 1.2 fua, 2@0+13 header 2 0.2 1.0 | On
queue 2 0 1     |                | On
append          | not due        | On
done            | Waits          | On
done            | Waits          | On
done            | flush 100      | On
done            | committed 1 0  | On
append          | Nothing; 0@16+9 header 0 2.2 fua, 1@16+9 header 1 2.0 fua | On
placed 0        |                | On
next            | Nothing        | On
placed 0        |                | On
next-failed     | Nothing        | On
next            | FlushToRelease | On
done            | Waits          | On
done 1          | committed 2    | On
queue 0 0 1     |                | On
append          | waits          | On
release-flushed |                | On
append          | waits          | On
recorded        | new false      | On
placed 1        |                | On
append          | FlushToRelease; 0@0+9 header 0 0.0 fua, 2@0+9 header 2 0.2 fua | On",
    );
}

/// Only members with writes too long for FUA are flushed. Members that went out are not.
#[test]
fn long_writes_are_flushed() {
    let mut rig = Rig::new(false);
    check(&mut rig, STARTED);
    check(
        &mut rig,
        "
queue 0 0 5     |                | On
queue 1 0 3     |                | On
append          | 0@0+13 header 0 0.0, 1@0+11 header 1 1.2 fua, 2@0+16 header 2 0.2 1.0 | On
done            | Waits          | On
done            | Waits          | On
done            | flush 101      | On
done            | Waits          | On
done            | committed 1 0  | On
queue 2 0 5     |                | On
append          | Nothing; 0@16+13 header 0 2.2, 1@16+13 header 1 2.0 | On
done            | Waits          | On
done 1          | flush 001      | On
done 1          | committed 2    | On",
    );
}

/// A record without blocks has no part in the ring.
#[test]
fn zeros_are_logged_with_a_durable_header() {
    let mut rig = Rig::new(false);
    check(&mut rig, STARTED);
    check(
        &mut rig,
        "
zeros 0 0 2     |                | On
append          | 0@0+8 header 0 fua, 2@0+10 header 2 0.2 fua | On
done            | Waits          | On
done            | committed 0    | On
restart         | true           | Draining
next            | Nothing        | Draining
placed 0        |                | Draining
next            | FlushToStart   | Flushing",
    );
}

/// The batch under way is logged again on the members, in its order.
#[test]
fn a_lost_device_ends_the_log_on_it() {
    let mut rig = Rig::new(true);
    check(
        &mut rig,
        "
start           |                | Draining
next            | FlushToStart   | Flushing
start-flushed   |                | Recording
stamp           | true           | Recording
stamp           | false          | Recording
stamped         | d@64+8 header d fua | Recording
stamped         | d@128+8 header 0 fua | Recording
stamped         | d@160+8 header 1 fua | Recording
stamped         | d@192+8 header 2 fua | Recording
stamped         | done           | Recording
recorded        | new true       | On
queue 0 0 1     |                | On
append          | FlushToRelease; d@144+9 header 0 0.0, d@208+9 header 2 0.2 | On
queue 1 0 1     |                | On
done            | Waits          | On
done            | FlushDevice    | On
failed          | Device         | Draining
failed          | Known          | Draining
done            | lost 0         | Draining
next            | Nothing        | Draining
release-flushed |                | Draining
recorded        | new false      | Draining
next            | FlushToStart   | Flushing
start-flushed   |                | Recording
append          | not due        | Recording
recorded        | new true       | On
failed          | Member         | On
append          | 0@0+9 header 0 0.0 fua, 1@0+9 header 1 1.2 fua, 2@0+10 header 2 0.2 1.0 fua | On",
    );
}

/// A block that may be in a member's cache only, with the number of its write.
#[derive(Clone, Debug)]
struct Cached {
    member: usize,
    write: u32,
    at: usize,
    bytes: Vec<u8>,
}

/// An answer of a member.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// Of a write; with FUA the write of this number is durable.
    Write(Option<u32>),
    Flush,
}

/// The members' journals, what is written to them, and the records that must survive.
struct World {
    rig: Rig,
    durable: Vec<Vec<u8>>,
    cached: Vec<Cached>,
    /// Writes and flushes of the batch that have not answered, with their members.
    answers: Vec<(usize, Answer)>,
    /// The number of the last write.
    number: u32,
    /// Writes with FUA, and without.
    durable_at_once: u32,
    flushed: u32,
    /// Superblocks: the tail that is durable.
    tail: u64,
    /// Records: group, rows and contents, by stripe range, with the segment once appended.
    records: BTreeMap<u32, Kept>,
    seed: u64,
    committed: u32,
}

#[derive(Clone, Debug)]
struct Kept {
    group: u64,
    blocks: u32,
    byte: u8,
    segment: u8,
    sequence: u64,
    committed: bool,
    placed: bool,
}

impl World {
    fn new() -> Self {
        let mut rig = Rig::new(false);
        check(&mut rig, STARTED);
        Self {
            tail: rig.log.tail(),
            rig,
            durable: vec![vec![0; 2 * BLOCK * index(SEGMENT_BLOCKS)]; usize::from(MEMBERS)],
            cached: Vec::new(),
            answers: Vec::new(),
            number: 0,
            durable_at_once: 0,
            flushed: 0,
            records: BTreeMap::new(),
            seed: 1,
            committed: 0,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        usize::try_from(self.seed >> 33).expect("31 bits") % end
    }

    fn queue(&mut self) {
        let free = (0..RANGES).find(|range| !self.records.contains_key(range));
        let Some(range) = free else {
            return;
        };
        let (group, blocks) = (self.below(50), self.below(4) + 1);
        let byte = u8::try_from(self.below(255) + 1).expect("a byte");
        let kept = Kept {
            group: group as u64,
            blocks: u32::try_from(blocks).expect("few"),
            byte,
            segment: 0,
            sequence: 0,
            committed: false,
            placed: false,
        };
        self.rig.checksums[index(range) * 64..][..64].fill(u32::from(byte));
        self.rig.queue(range, kept.group, 0, kept.blocks, false);
        self.records.insert(range, kept);
    }

    fn append(&mut self) {
        let sequence = self.rig.log.ring.sequence();
        if !self.rig.log.is_due() || self.rig.append() == Append::Waits {
            return;
        }
        let (segment, records) = self.rig.log.batch();
        for record in records {
            let kept = self.records.get_mut(&record.range().0).expect("queued");
            (kept.segment, kept.sequence) = (segment, sequence);
        }
        for (write, pieces) in self.rig.writes() {
            let bytes = pieces.iter().flat_map(|piece| match piece {
                LogPiece::Header(_) => {
                    let bytes = self.rig.buffer.bytes(self.rig.log.headers, write.member.0);
                    bytes.to_vec()
                }
                LogPiece::Blocks { range, blocks, .. } => {
                    vec![self.records[&range.0].byte; index(*blocks) * BLOCK]
                }
            });
            let bytes: Vec<u8> = bytes.collect();
            assert_eq!(bytes.len(), index(write.blocks) * BLOCK);
            let member = usize::from(write.member.0);
            let at = usize::try_from(write.block.0).expect("few") * BLOCK;
            let fua = write.operation == Operation::Write { fua: true };
            self.durable_at_once += u32::from(fua);
            self.flushed += u32::from(!fua);
            // It may tear: each block lands or not.
            let blocks = (at..).step_by(BLOCK).zip(bytes.chunks_exact(BLOCK));
            self.number += 1;
            let write_number = self.number;
            self.cached.extend(blocks.map(|(at, bytes)| Cached {
                member,
                write: write_number,
                at,
                bytes: bytes.to_vec(),
            }));
            let durable = fua.then_some(write_number);
            self.answers.push((member, Answer::Write(durable)));
        }
    }

    fn answer(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.below(self.answers.len());
        let (member, answer) = self.answers.remove(at);
        let is_durable = |cached: &mut Cached| match answer {
            Answer::Write(number) => number == Some(cached.write),
            Answer::Flush => cached.member == member,
        };
        for cached in self.cached.extract_if(.., is_durable) {
            land(&mut self.durable, &cached);
        }
        match self.rig.log.io_done(MemberSet::EMPTY, false) {
            BatchEvent::Waits => {}
            BatchEvent::Flush(members) => {
                let flushes = members.iter();
                let flushes = flushes.map(|member| (usize::from(member.0), Answer::Flush));
                self.answers.extend(flushes);
            }
            BatchEvent::Committed => {
                while let Some(range) = self.rig.log.next_committed() {
                    let kept = self.records.get_mut(&range.0).expect("queued");
                    kept.committed = true;
                    self.committed += 1;
                }
            }
            event => panic!("{event:?}"),
        }
    }

    fn place(&mut self) {
        let mut records = self.records.values_mut();
        if let Some(kept) = records.find(|kept| kept.committed && !kept.placed) {
            kept.placed = true;
            self.rig.log.placed(kept.segment);
        }
    }

    /// Flushes the places before a release, and records the tail.
    fn release(&mut self) {
        if self.rig.log.next(|| true) != Next::FlushToRelease {
            return;
        }
        self.check();
        self.rig.log.release_flushed();
        self.check();
        // The places are durable, and so is the tail.
        self.tail = self.rig.log.tail();
        self.records
            .retain(|_, kept| !(kept.placed && kept.sequence < self.tail));
        self.check();
        assert!(!self.rig.log.recorded());
    }

    /// Checks that every committed record that was not released is whole in the log, whichever
    /// cached writes a crash loses.
    fn check(&mut self) {
        for _ in 0..8 {
            let mut bytes = self.durable.clone();
            for at in 0..self.cached.len() {
                if self.below(2) == 1 {
                    land(&mut bytes, &self.cached[at]);
                }
            }
            for kept in self.records.values().filter(|kept| kept.committed) {
                assert_eq!(self.found(kept, &bytes), 2, "{kept:?}");
            }
        }
    }

    /// Returns the number of parts of a record that are whole in the log.
    fn found(&self, kept: &Kept, members: &[Vec<u8>]) -> usize {
        let mut parts = 0;
        for (member, ring) in (0..).map(MemberIndex).zip(members) {
            for place in 0..2 * SEGMENT_BLOCKS - 7 {
                let at = index(place) * BLOCK;
                let Some(header) = JournalHeader::decode(&ring[at..at + JOURNAL_HEADER_BYTES])
                else {
                    continue;
                };
                let counts = self.rig.log.sought().has(&header.batch, member, place);
                if !counts || header.batch.sequence != kept.sequence || kept.sequence < self.tail {
                    continue;
                }
                for (entry, sums) in header
                    .entries()
                    .filter(|(entry, _)| entry.group == kept.group)
                {
                    assert_eq!(entry.kind, JournalKind::Data);
                    let at = index(entry.place) * BLOCK;
                    let blocks = &ring[at..at + index(entry.blocks) * BLOCK];
                    let sums = sums.checksums().all(|sum| sum == u32::from(kept.byte));
                    let whole = blocks.iter().all(|byte| *byte == kept.byte);
                    parts += usize::from(whole && sums && entry.blocks == kept.blocks);
                }
            }
        }
        parts
    }
}

fn land(members: &mut [Vec<u8>], write: &Cached) {
    members[write.member][write.at..][..write.bytes.len()].copy_from_slice(&write.bytes);
}

/// After a crash at any moment, whichever writes were only in caches, the log has every committed
/// record that was not released.
#[test]
fn a_crash_at_any_write_leaves_committed_records_whole() {
    let mut world = World::new();
    for _ in 0..4_000 {
        match world.below(6) {
            0 => world.queue(),
            1 => world.append(),
            2 | 3 => world.answer(),
            4 => world.place(),
            _ => world.release(),
        }
        world.check();
    }
    assert!(world.committed > 200, "{}", world.committed);
    let writes = (world.durable_at_once, world.flushed);
    assert!(writes.0 > 100 && writes.1 > 20, "{writes:?}");
    assert!(
        world.tail >> 32 == 4 && world.tail & 0xffff_ffff > 50,
        "{:x}",
        world.tail
    );
}

//! What the journals hold after a crash is carried out again, before anything is served.
//!
//! ```text
//!  waiting ──▶ scanning ──▶ recording who is missing ──▶ rolling forward, write by write
//!      ──▶ choosing what blocks without parity hold (`choosing`) ──▶ putting checksums in order ──▶ marking what missing members lack ──▶ flushing ──▶ recording that all is clean
//!
//!  one write:  reading the log ──▶ checking it ──▶ writing what no later one wrote
//!                      ▲               └──not whole──▶ reading what is in place: was it begun?
//!                      └──────────────────────────────────────┘
//!  remaking:   pages ──▶ reading what is in place ──▶ checking it ──▶ recovering ──▶ writing
//!  one intent: pages ──▶ reading what is in place ──▶ checking it ──▶ (recovering or settling ──▶ writing)
//! ```
//!
//! A write is carried out where every member that is there has its part of the log; what missing
//! members should hold follows from redundancy. Where one that is there lacks its part, the log was
//! not durable when the crash came, and nothing had gone to its place; or a part of it rotted since:
//! it is so of whatever others were logged after, and where something is found in place that only
//! this write can have left. Then it is carried out too, and also where it mends as much that is torn
//! in its place as the log lacks. From the last write to the
//! first: a block gets what was written there last, and never anything older, so that what a replay
//! that is ended in the middle leaves is as good as what the crash left, with the log or without it.
//! What follows from the other blocks of its row is made when those are in place: what a device
//! lacks that is being filled, and redundancy where the log is not whole any more. Replay may be ended
//! at any moment and be begun anew: it judges the same way again, because who was missing is
//! durable before the first block goes to its place.
//!
//! An *intent* has checksums only. What came before it in its rows is not carried out: the intent's
//! own blocks, or what was written after them, may be there already. After all writes come the
//! intents, row by row. As many chunks as there are data chunks that hold what was written last give
//! all others. Where there are fewer, as many that hold what was there before do, as far as checksums
//! tell, or the log of a write before has it. Where there are fewer of these too, data stays as it is, old or new, and redundancy is made from
//! it. What a missing member had there can't be told then: it goes into the list of bad blocks.

use super::{choosing::Version, vouching::Vouching};
use crate::{
    Engine, Mutation,
    columns::{Owner, Phase},
    index,
    output::{Event, OutReason, Output},
    plan::{Ask, Plan, Shape, Strategy, Work},
    slots::SlotSet,
    system_io::{Place, Purpose},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use core::ops::Range;
use spindles_block::{
    BlockIndex, ComputeResult, MemberError, MemberIndex, MemberResult, MemberSet, Operation,
};
use spindles_format::{
    BadBlockKind, CHECKSUM_LOST, CHECKSUM_NONE, JOURNAL_HEADER_BYTES, JournalEntry, JournalHeader,
    JournalKind, block_checksum, stored_checksum,
};
use spindles_layout::{Group, GroupIndex};

/// How much of a journal is read at once.
const WINDOW_BYTES: u32 = 64 << 10;

/// One slot of a write, as the log has it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) sequence: u64,
    pub(super) member: MemberIndex,
    pub(super) entry: JournalEntry,
    /// In `Replay::checksums`.
    pub(super) checksums: Range<usize>,
    /// Its blocks are in the journal, and are not what was logged.
    pub(super) void: bool,
}

impl Part {
    /// What is the same for all parts of one write, in the order of replay.
    fn write(&self) -> (u64, u64, u32) {
        (self.sequence, self.entry.group, self.entry.low)
    }
}

/// Rows of one write that are to be looked at: nothing later covers them.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// In `Replay::parts`.
    pub(super) parts: Range<usize>,
    pub(super) rows: Range<u32>,
}

/// Rows of a write that were carried out.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) group: u64,
    pub(super) parts: Range<usize>,
    pub(super) rows: Range<u32>,
}

/// What tells whether a write was begun: whether anything of it went to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    /// Its log, if that is whole.
    Log,
    /// What is in place, which is being read.
    Place,
    /// It is taken to be begun below this row: something of it is in place, or it mends what is.
    Found { end: u32 },
}

/// Whether slots of which nothing is logged hold what was there before, in a row of a write that is not
/// whole in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Proof {
    #[default]
    Unknown,
    /// What is made of them in these slots is compared with the checksums of what was there.
    UnderWay {
        by: SlotSet,
    },
    Failed,
}

/// What was tried of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    pub(super) row: u32,
    /// These slots got what the log has, if that is whole.
    pub(super) restored: SlotSet,
    pub(super) proof: Proof,
    /// The row is not done yet: it is looked at again.
    pub(super) again: bool,
}

/// Slots of rows that follow from what is in place of the others, once all writes are carried out.
#[derive(Clone, Debug)]
struct Remake {
    span: Span,
    slots: SlotSet,
    /// Whether they are made also where they hold what was written last.
    anew: bool,
}

/// Rows of redundancy groups.
#[derive(Clone, Debug, Default)]
struct Rows(BTreeMap<(u64, u32), u32>);

impl Rows {
    /// Adds rows of a group. What of them was not there.
    fn cover(&mut self, group: u64, rows: &Range<u32>) -> Vec<Range<u32>> {
        let free = self.free(group, rows);
        for rows in &free {
            self.0.insert((group, rows.start), rows.end);
        }
        free
    }

    /// What of the rows of a group is not there.
    fn free(&self, group: u64, rows: &Range<u32>) -> Vec<Range<u32>> {
        let mut free = Vec::new();
        let mut start = rows.start;
        let before = self.0.range(..(group, start)).next_back();
        if let Some((&(of, _), &end)) = before
            && of == group
        {
            start = start.max(end);
        }
        for (&(_, low), &end) in self.0.range((group, rows.start)..(group, rows.end)) {
            if start < low {
                free.push(start..low);
            }
            start = start.max(end);
        }
        if start < rows.end {
            free.push(start..rows.end);
        }
        free
    }

    /// Whether a row of a group is there, and the first after it of which that may not be said.
    fn run(&self, group: u64, row: u32) -> (bool, u32) {
        let before = self.0.range(..=(group, row)).next_back();
        if let Some((&(of, _), &end)) = before
            && of == group
            && row < end
        {
            return (true, end);
        }
        let after = self.0.range((group, row)..=(group, u32::MAX)).next();
        (false, after.map_or(u32::MAX, |(&(_, low), _)| low))
    }
}

/// How far the reading of one journal has come.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// The block that is looked at next, from the start of the journal.
    next: u32,
    /// Below, headers are read one by one: something there could not be read.
    careful_below: u32,
    /// The length of the read under way.
    reading: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Scanning {
        pending: u32,
    },
    /// Who is missing is made durable.
    Recording,
    /// What is about to be written is marked: see `lost`.
    Preparing,
    Rolling,
    /// Without a log: what is not settled is looked at.
    Vouching,
    /// What is in place of blocks without parity is looked at, and one of what they may hold is chosen.
    Choosing,
    /// The checksums of what is in its place are put in order: how far that is.
    Summing {
        part: usize,
        rows: u32,
    },
    /// What missing members lack is marked.
    Marking,
    Flushing {
        pending: u32,
    },
}

/// A replay under way. It allocates: nothing is served yet.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(super) stage: Stage,
    window: Place,
    scans: Vec<Scan>,
    /// The batches of the log that were found, and the last one of those with which a log begins.
    pub(super) seen: BTreeSet<u64>,
    pub(super) begun: u64,
    pub(super) parts: Vec<Part>,
    /// The same, each group's together, in order.
    pub(super) by_group: Vec<usize>,
    pub(super) checksums: Vec<u32>,
    /// What is to be carried out, the last first; then the intents to be looked at, in order.
    pub(super) spans: Vec<Span>,
    pub(super) intents: usize,
    /// The last batch: the only one of which a crash may have left a part. Before the next one is
    /// begun all of one is durable: what is not there of that rotted.
    last: u64,
    /// Which of them is next.
    pub(super) next: usize,
    /// The one under way, and the row from which on it is to be done.
    pub(super) span: Span,
    low: u32,
    /// Of each slot the rows that have what was written there last.
    final_rows: Vec<Rows>,
    /// The last to be found is made first: redundancy that is made anew of data follows what data is
    /// made of it, for writes before.
    remakes: Vec<Remake>,
    /// Writes that were carried out: what is expected in place of intents. In order when all are.
    pub(super) applied: Vec<Applied>,
    /// What blocks of groups without parity may hold, in order, and where to go on.
    pub(super) versions: Vec<Version>,
    pub(super) choose_from: (u64, u32),
    /// A group, and rows of it of which not all could be read, or that did not fit together: they are
    /// looked at one by one.
    pub(super) careful: (GroupIndex, Range<u32>),
    /// The part of the log that is being read in their place.
    pub(super) from_log: Option<usize>,
    /// The checksum of a block of zeros.
    pub(super) zero_checksum: u32,
    /// Slots of the rows of an intent under way that were made, and are being summed up.
    pub(super) made: SlotSet,
    pub(super) tried: Tried,
    /// Slots of the rows under way that are to be made of the others, after all writes.
    pub(super) remaking: SlotSet,
    /// Those that are made also where they hold what was written last.
    pub(super) anew: SlotSet,
    /// What tells of the write under way whether it was begun, in the rows under way.
    judge: Judge,
    /// There is no log, or it was lost.
    pub(super) without_log: bool,
    pub(super) vouching: Vouching,
    /// What is lost is being put into the list: until that is durable nothing else is done.
    pub(super) listing: bool,
    pub(super) column: u32,
    /// Slots of the rows under way that no later write wrote, and those whose new blocks are known.
    written: SlotSet,
    valid: SlotSet,
    pub(super) replayed: u64,
    /// What is to be written waits until it is durable who is out.
    waits: bool,
}

impl Engine {
    /// Space to read journals into, where they are to be read.
    /// `without_log` where nothing is logged of what is unclean, and blocks have checksums.
    pub(crate) fn new_replay(&mut self, without_log: bool) -> Option<Replay> {
        self.journal.as_ref()?;
        let blocks = WINDOW_BYTES / self.block_size.bytes();
        let members = self.geometry.members();
        let window = self.metadata_buffer.reserve(members, blocks);
        Some(Replay {
            stage: Stage::Waiting,
            window,
            scans: vec![Scan::default(); usize::from(members)],
            seen: BTreeSet::new(),
            begun: 0,
            parts: Vec::new(),
            by_group: Vec::new(),
            checksums: Vec::new(),
            spans: Vec::new(),
            intents: 0,
            last: 0,
            next: 0,
            span: Span {
                parts: 0..0,
                rows: 0..0,
            },
            low: 0,
            final_rows: vec![Rows::default(); usize::from(members)],
            remakes: Vec::new(),
            applied: Vec::new(),
            versions: Vec::new(),
            choose_from: (0, 0),
            careful: (GroupIndex(0), 0..0),
            from_log: None,
            zero_checksum: block_checksum(&vec![0; index(self.block_size.bytes())]),
            made: SlotSet::EMPTY,
            tried: Tried::default(),
            remaking: SlotSet::EMPTY,
            anew: SlotSet::EMPTY,
            judge: Judge::Log,
            without_log,
            vouching: Vouching::default(),
            listing: false,
            column: self.free_job_columns.pop().expect("all are free"),
            written: SlotSet::EMPTY,
            valid: SlotSet::EMPTY,
            replayed: 0,
            waits: false,
        })
    }

    /// The pages of the rows under way are there.
    pub(crate) fn replay_paged(&mut self, id: u32) {
        let replay = self.replay();
        match replay.stage {
            Stage::Summing { .. } => self.sum_paged(id),
            Stage::Choosing | Stage::Vouching => self.choose_paged(id),
            Stage::Rolling if replay.judge == Judge::Place => self.read_judged(),
            Stage::Rolling => self.read_settling(),
            stage => panic!("pages came in stage {stage:?}"),
        }
    }

    /// Whether checksums are being put in order.
    fn is_summing(&self) -> bool {
        let replay = self.replay.as_ref();
        replay.is_some_and(|replay| matches!(replay.stage, Stage::Summing { .. }))
    }

    /// Whether what the journals held can't be read any more.
    fn journal_is_lost(&self) -> bool {
        self.journal.as_ref().is_some_and(|it| it.home.is_lost())
    }

    pub(super) fn replay(&mut self) -> &mut Replay {
        self.replay.as_mut().expect("a replay is under way")
    }

    /// Begins what is to be replayed, when what was found at opening is durable.
    pub(crate) fn begin_replay(&mut self) {
        let waiting = |replay: &Replay| replay.stage == Stage::Waiting;
        if !self.replay.as_ref().is_some_and(waiting) {
            return;
        }
        if !self.geometry.survives(self.lost) {
            return self.give_up_replay();
        }
        if self.mutated(Mutation::SkipReplay) {
            return self.flush_replayed();
        }
        if self.vouches() {
            self.replay().stage = Stage::Recording;
            return self.replay_recorded();
        }
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        self.replay().stage = Stage::Scanning {
            pending: active.count(),
        };
        for member in active.iter() {
            self.scan_on(member);
        }
    }

    /// Reads the next window of a journal. Counts the member as done after the last.
    fn scan_on(&mut self, member: MemberIndex) {
        let journal = self.journal.as_ref().expect("a replay has a journal");
        let ((device, start), ring) = (journal.home.place(member), 2 * journal.home.half_blocks());
        let lost = journal.home.is_lost();
        let header_blocks = journal.headers.blocks;
        let replay = self.replay.as_mut().expect("a replay is under way");
        let window = replay.window;
        let scan = &mut replay.scans[usize::from(member.0)];
        let at_end = ring - scan.next.min(ring) < header_blocks;
        if at_end || lost || self.missing.contains(member) {
            return self.scanned();
        }
        let length = if scan.next < scan.careful_below {
            header_blocks
        } else {
            window.blocks.min(ring - scan.next)
        };
        scan.reading = length;
        let block = start.plus(u64::from(scan.next));
        let place = self.metadata_buffer.slice(window, member.0);
        self.system_io_on(
            device,
            Purpose::JournalScan,
            member,
            Operation::Read,
            block,
            length,
            place,
        );
    }

    /// A window came.
    pub(crate) fn journal_read(&mut self, member: MemberIndex, result: MemberResult) {
        let header_blocks = self.journal.as_ref().map_or(0, |j| j.headers.blocks);
        match result {
            Ok(()) => self.look_for_headers(member, header_blocks),
            Err(error) if error == MemberError::Gone || self.logs_on_device() => {
                // This journal is not to be had, also where the last copies stay. On a device of its
                // own, where all of them lie, what can't be read may be any of them.
                self.replay().scans[usize::from(member.0)].next = u32::MAX;
                self.log_failed(member, result);
            }
            Err(_) => {
                let scan = &mut self.replay().scans[usize::from(member.0)];
                if scan.reading > header_blocks {
                    scan.careful_below = scan.next + scan.reading;
                } else {
                    scan.next += 1;
                }
            }
        }
        self.scan_on(member);
    }

    fn look_for_headers(&mut self, member: MemberIndex, header_blocks: u32) {
        let mut replay = self.replay.take().expect("a replay is under way");
        let journal = self.journal.as_ref().expect("a replay has a journal");
        let bytes = self.metadata_buffer.bytes(replay.window, member.0);
        let scan = &mut replay.scans[usize::from(member.0)];
        let block_bytes = index(self.block_size.bytes());
        let headers = scan.reading + 1 - header_blocks;
        for at in 0..headers {
            let first = index(at) * block_bytes;
            let Some(header) = JournalHeader::decode(&bytes[first..first + JOURNAL_HEADER_BYTES])
            else {
                continue;
            };
            let batch = header.batch;
            let counts = batch.array == journal.array
                && batch.nonce == journal.record.nonce
                && batch.member == member
                && batch.place == scan.next + at;
            if !counts {
                continue;
            }
            replay.seen.insert(batch.sequence);
            if header.entries().next().is_none() {
                replay.begun = replay.begun.max(batch.sequence);
            }
            if batch.sequence < journal.record.tail {
                continue;
            }
            for (entry, checksums) in header.entries() {
                if !self.entry_is_sane(&entry, member) {
                    continue;
                }
                let start = replay.checksums.len();
                replay.checksums.extend(checksums);
                replay.parts.push(Part {
                    sequence: batch.sequence,
                    member,
                    entry,
                    checksums: start..replay.checksums.len(),
                    void: false,
                });
            }
        }
        scan.next += headers;
        self.replay = Some(replay);
    }

    /// Whether an entry can be of this array: what is not is taken for rot.
    fn entry_is_sane(&self, entry: &JournalEntry, member: MemberIndex) -> bool {
        if entry.group >= self.geometry.groups() || !self.regions.is_live(GroupIndex(entry.group)) {
            return false;
        }
        let mut group = Group::empty();
        self.geometry
            .group_into(GroupIndex(entry.group), &mut group);
        let ring = self
            .journal
            .as_ref()
            .map_or(0, |j| 2 * j.home.half_blocks());
        let rows = entry.low.checked_add(entry.blocks);
        let place = entry.place.checked_add(entry.blocks);
        rows.is_some_and(|end| end <= group.blocks)
            && (group.slots().get(usize::from(entry.slot)))
                .is_some_and(|slot| slot.member == member)
            && (entry.kind != JournalKind::Data || place.is_some_and(|end| end <= ring))
    }

    /// A journal was read to its end.
    fn scanned(&mut self) {
        let Stage::Scanning { pending } = &mut self.replay().stage else {
            panic!("scanned twice");
        };
        *pending -= 1;
        if *pending > 0 {
            return;
        }
        self.judge_log();
        let replay = self.replay();
        replay.stage = Stage::Recording;
        replay
            .parts
            .sort_by_key(|part| (part.write(), part.entry.slot));
        replay.by_group = (0..replay.parts.len()).collect();
        (replay.by_group).sort_by_key(|&part| replay.parts[part].entry.group);
        self.find_versions();
        self.find_spans();
        self.replay_recorded();
    }

    /// What is to be carried out, and which intents are to be looked at. From the last write to the
    /// first: what is in rows of a later intent is left out.
    fn find_spans(&mut self) {
        let mut replay = self.replay.take().expect("a replay is under way");
        let mut covered = Rows::default();
        let (mut writes, mut intents) = (Vec::new(), Vec::new());
        let mut group = Group::empty();
        let mut end = replay.parts.len();
        replay.last = replay.parts.last().map_or(0, |part| part.sequence);
        while end > 0 {
            let same = replay.parts[end - 1].write();
            let parts = replay.parts[..end].iter().rev();
            let start = end - parts.take_while(|part| part.write() == same).count();
            let parts = &replay.parts[start..end];
            let entry = &parts[0].entry;
            let here = parts
                .iter()
                .fold(SlotSet::EMPTY, |set, part| set.with(part.entry.slot));
            self.geometry
                .group_into(GroupIndex(entry.group), &mut group);
            let shape = Shape::of(&group);
            if shape.copies {
                end = start; // Each block by itself.
                continue;
            }
            let members = group.slots().iter().zip(0..shape.slots);
            let lost = members.filter(|(place, _)| self.lost.contains(place.member));
            let lost = lost.fold(SlotSet::EMPTY, |set, (_, slot)| set.with(slot));
            let written = SlotSet::from_bits(entry.slots).and(shape.all());
            let followed = parts[0].sequence < replay.last;
            let counts = followed || written.minus(here).minus(lost).is_empty();
            let is_intent = entry.kind == JournalKind::Intent;
            let rows = entry.low..entry.low + entry.blocks;
            let covers = counts && is_intent && !self.mutated(Mutation::ReplaySuperseded);
            let left = if covers {
                covered.cover(entry.group, &rows)
            } else {
                covered.free(entry.group, &rows)
            };
            for rows in left.into_iter().rev() {
                let parts = start..end;
                // What tells whether an intent of which a part is not there was begun comes first.
                let settles = is_intent && counts;
                let spans = if settles { &mut intents } else { &mut writes };
                spans.push(Span { parts, rows });
            }
            end = start;
        }
        intents.reverse();
        if self.mutated(Mutation::ReplayOlder) {
            writes.reverse();
        }
        replay.intents = writes.len();
        writes.append(&mut intents);
        replay.spans = writes;
        self.replay = Some(replay);
    }

    /// Rolls forward, when it is durable who is missing: what is judged without them must not be
    /// judged with them again.
    pub(crate) fn replay_recorded(&mut self) {
        let idle = !self.metadata.busy() || self.metadata.broken;
        if idle
            && let Some(replay) = &mut self.replay
            && core::mem::take(&mut replay.waits)
        {
            if self.metadata.broken {
                return self.give_up_replay();
            }
            return self.write_replayed();
        }
        let recording = |replay: &Replay| replay.stage == Stage::Recording;
        let recorded = self.metadata.is_recorded() && !self.metadata.busy() || self.metadata.broken;
        if self.replay.as_ref().is_some_and(recording) && recorded {
            if self.metadata.broken {
                return self.give_up_replay();
            }
            if self.mark_before_replay() {
                return self.replay_marked();
            }
            self.roll_forward();
        }
    }

    fn roll_forward(&mut self) {
        if self.vouches() {
            return self.begin_vouching();
        }
        self.replay().stage = Stage::Rolling;
        self.next_write();
    }

    /// On to the write before the one that is done; to the next intent, when all writes are.
    fn next_write(&mut self) {
        if !self.geometry.survives(self.lost) {
            return self.give_up_replay();
        }
        if self.journal_is_lost() {
            return self.replay_lost();
        }
        loop {
            let replay = self.replay();
            replay.remaking = SlotSet::EMPTY;
            if replay.next == replay.intents {
                (replay.applied).sort_by_key(|applied| (applied.group, applied.parts.start));
                if let Some(Remake { span, slots, anew }) = replay.remakes.pop() {
                    self.begin_span(span);
                    let replay = self.replay();
                    replay.remaking = slots;
                    replay.anew = if anew { slots } else { SlotSet::EMPTY };
                    return self.next_rows();
                }
            }
            let Some(span) = replay.spans.get(replay.next).cloned() else {
                replay.stage = Stage::Choosing;
                return self.choose_next();
            };
            replay.next += 1;
            let group = self.begin_span(span);
            let settling = self.is_settling();
            if settling && !self.concerns(group) || !settling && !self.skip_final() {
                continue;
            }
            self.replay().replayed += u64::from(!settling);
            return self.next_rows();
        }
    }

    /// Turns to rows of a write or an intent. Their group.
    fn begin_span(&mut self, span: Span) -> GroupIndex {
        let replay = self.replay();
        let group = GroupIndex(replay.parts[span.parts.start].entry.group);
        replay.low = span.rows.start;
        replay.tried = Tried::default();
        replay.span = span;
        let id = replay.column;
        self.take_group(id, group);
        let column = &mut self.columns[index(id)];
        column.group = group;
        column.owner = Owner::Replay;
        column.ask = Ask::Settle;
        column.touched = SlotSet::EMPTY;
        group
    }

    /// Turns to rows of a group, of which these slots are to be read with their checksums. Whether the
    /// pages of those are there; else `replay_paged` is told.
    pub(super) fn begin_rows(
        &mut self,
        id: u32,
        group: GroupIndex,
        rows: Range<u32>,
        strategy: Strategy,
        reads: SlotSet,
    ) -> bool {
        let column = &mut self.columns[index(id)];
        column.reset();
        column.group = group;
        column.owner = Owner::Replay;
        column.ask = Ask::Settle;
        column.touched = SlotSet::EMPTY;
        column.zeros = SlotSet::EMPTY;
        column.low = rows.start;
        column.blocks = rows.end - rows.start;
        column.end = rows.end;
        column.plan = Plan {
            strategy,
            reads,
            recover: SlotSet::EMPTY,
            encode: SlotSet::EMPTY,
            writes: SlotSet::EMPTY,
            writes_always: SlotSet::EMPTY,
        };
        column.phase = Phase::Paging;
        self.hold_pages(id)
    }

    /// Whether all writes are carried out: what is under way is told by what is in place.
    fn is_settling(&self) -> bool {
        let settling =
            |replay: &Replay| replay.next > replay.intents || !replay.remaking.is_empty();
        self.replay.as_ref().is_some_and(settling)
    }

    /// Whether there is something to settle: what was never written, or given back, is zeros.
    fn concerns(&self, group: GroupIndex) -> bool {
        self.regions.is_written(group) && !self.mutated(Mutation::TrustIntents)
    }

    /// The next rows of a write, as many as scratch space allows: the log is read.
    fn next_rows(&mut self) {
        if self.journal_is_lost() {
            return self.replay_lost();
        }
        let settling = self.is_settling();
        if !settling {
            self.skip_final();
        }
        let replay = self.replay.as_ref().expect("a replay is under way");
        let (id, low) = (replay.column, replay.low);
        let left = replay.span.rows.end - low;
        if left == 0 {
            return self.next_write();
        }
        let limit = self.rows_at_once(self.columns[index(id)].group, low);
        let column = &mut self.columns[index(id)];
        column.reset();
        column.zeros = SlotSet::EMPTY;
        column.low = low;
        column.blocks = left.min(limit);
        column.end = column.low + column.blocks;
        column.phase = Phase::Reading;
        column.plan.strategy = Strategy::Reconstruct;
        if settling {
            return self.begin_settling_logged();
        }
        let (written, mut end) = self.not_final(low);
        let replay = self.replay.as_ref().expect("a replay is under way");
        if let Judge::Found { end: found } = replay.judge {
            end = end.min(found);
        }
        self.take_rows(id, end.min(low + left.min(limit)) - low);
        let replay = self.replay.as_ref().expect("a replay is under way");
        let mut data = SlotSet::EMPTY;
        let mut zeros = SlotSet::EMPTY;
        for part in &replay.parts[replay.span.parts.clone()] {
            match part.entry.kind {
                JournalKind::Data => data = data.with(part.entry.slot),
                JournalKind::Zeros => zeros = zeros.with(part.entry.slot),
                JournalKind::Intent => {} // It is none of these writes.
            }
        }
        let missing = self.missing_slots(id);
        let (data, zeros) = (data.and(written), zeros.and(written));
        let data = data.minus(missing);
        let column = &mut self.columns[index(id)];
        column.zeros = zeros;
        column.log_data = data;
        let replay = self.replay();
        (replay.written, replay.valid) = (written, zeros.minus(missing));
        if data.is_empty() {
            return self.log_checked();
        }
        let column = &mut self.columns[index(id)];
        column.pending = data.count();
        let blocks = column.blocks;
        for slot in data.iter() {
            let replay = self.replay.as_ref().expect("a replay is under way");
            let part = replay.part(slot).expect("one for each of these slots");
            let journal = self.journal.as_ref().expect("a replay has a journal");
            let (device, start) = journal.home.place(part.member);
            let block = start.plus(u64::from(part.entry.place + replay.low - part.entry.low));
            let place = self.row(id, slot);
            self.journal_io(id, slot, device, Operation::Read, block, blocks, place);
        }
    }

    /// A member I/O of the replay's column came back.
    pub(crate) fn replay_io_done(&mut self, id: u32, slot: u8, result: MemberResult) {
        let member = self.groups[index(id)].slots()[usize::from(slot)].member;
        let column = &mut self.columns[index(id)];
        let writing = column.phase == Phase::Writing;
        if let Err(error) = result {
            column.unreadable = column.unreadable.with(slot);
            let reads = column.phase == Phase::Reading;
            let gone = error == MemberError::Gone;
            if reads && (gone || self.logs_on_device()) && self.reads_log() {
                self.log_failed(member, result);
            } else if (writing || gone)
                && !self.put_out(member, OutReason::Error(error))
                && self.shape.copies
            {
                self.nothing_more();
            }
        }
        let column = &self.columns[index(id)];
        if column.pending > 0 {
            return;
        }
        if self.looks_again(id) {
            return;
        }
        let copies = self.shape(id).copies;
        match self.replay().stage {
            Stage::Vouching if !copies => return self.vouch_io_done(id),
            Stage::Choosing | Stage::Vouching => return self.chosen_io_done(id),
            _ => {}
        }
        let column = &self.columns[index(id)];
        match column.phase {
            Phase::Reading if self.is_summing() => self.sum_read(id),
            Phase::Reading => self.check_read(),
            Phase::Writing => self.rows_replayed(),
            phase => panic!("a member I/O of a replay came back in phase {phase:?}"),
        }
    }

    /// Where not all of the rows under way could be read, each is looked at alone: what can't be read of
    /// one says nothing of the others. Whether that is so.
    fn looks_again(&mut self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        let (phase, blocks, unreadable) = (column.phase, column.blocks, column.unreadable);
        if phase != Phase::Reading || blocks == 1 || unreadable.is_empty() {
            return false;
        }
        if unreadable.minus(self.missing_slots(id)).is_empty() {
            return false; // It went out, and that is so in all rows.
        }
        let stage = self.replay().stage;
        let go_on: fn(&mut Self) = match stage {
            // Whether a write was begun that the log does not have as a whole is told by all its rows.
            Stage::Rolling if !self.is_settling() => return false,
            Stage::Rolling => Self::next_rows,
            Stage::Choosing => Self::choose_next,
            Stage::Vouching => Self::vouch_next,
            Stage::Summing { .. } => Self::sum_next,
            _ => panic!("rows were read in stage {stage:?}"),
        };
        self.take_care(id);
        go_on(self);
        true
    }

    /// The rows under way are to be looked at one by one.
    pub(super) fn take_care(&mut self, id: u32) {
        self.let_go_pages(id);
        let column = &self.columns[index(id)];
        let careful = (column.group, column.low..column.low + column.blocks);
        let replay = self.replay();
        (replay.careful, replay.from_log) = (careful, None);
    }

    /// How many rows from this one on are looked at at once, at most.
    pub(super) fn rows_at_once(&self, group: GroupIndex, row: u32) -> u32 {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let (careful, rows) = &replay.careful;
        if *careful == group && rows.contains(&row) {
            return 1;
        }
        self.limits.column_blocks
    }

    /// Whether what is being read is the log, and not what is in place.
    fn reads_log(&self) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        match replay.stage {
            Stage::Choosing => replay.from_log.is_some(),
            Stage::Rolling if self.is_settling() => replay.from_log.is_some(),
            Stage::Rolling => replay.judge != Judge::Place,
            _ => false,
        }
    }

    fn check_read(&mut self) {
        let id = self.replay().column;
        let column = &mut self.columns[index(id)];
        column.log_data = column.log_data.minus(column.unreadable);
        column.unreadable = SlotSet::EMPTY;
        if column.log_data.is_empty() && !self.is_settling() {
            return match self.replay().judge {
                Judge::Place => self.looked(),
                Judge::Log | Judge::Found { .. } => self.log_checked(),
            };
        }
        self.work_step(id, Work::Checksum);
    }

    /// A computation of the replay's column came back.
    pub(crate) fn replay_computed(&mut self, id: u32, work: Work, result: ComputeResult) {
        let vouching = self.replay().stage == Stage::Vouching;
        if vouching && !self.shape(id).copies {
            return self.vouch_computed(id, work, result);
        }
        assert_eq!(result, ComputeResult::Done, "nothing was compared");
        match work {
            Work::Checksum if self.is_settling() => self.settle_summed(id),
            Work::Checksum if self.replay().judge == Judge::Place => self.looked(),
            Work::Checksum => {
                let replay = self.replay.as_ref().expect("a replay is under way");
                let column = &self.columns[index(id)];
                let (data, blocks) = (column.log_data, column.blocks);
                let whole = |&slot: &u8| {
                    let part = replay.part(slot).expect("one for each of these slots");
                    let first = part.checksums.start + index(replay.low - part.entry.low);
                    let expected = &replay.checksums[first..first + index(blocks)];
                    let sums =
                        super::checksum_range(id, data, slot, blocks, self.checksums_of_column);
                    self.checksums[sums] == *expected
                };
                let whole = data
                    .iter()
                    .filter(whole)
                    .fold(SlotSet::EMPTY, SlotSet::with);
                let replay = self.replay();
                replay.valid = replay.valid.or(whole);
                self.log_checked();
            }
            Work::Verify if vouching || self.replay().stage == Stage::Choosing => {
                self.chosen_summed(id);
            }
            Work::Verify => self.summed(id),
            Work::Recover if self.is_settling() => self.sum_settled(id),
            Work::Recover => self.write_replayed(),
            work => panic!("a replay computes no {work:?}"),
        }
    }

    /// Slots of members that are there which the write under way wrote, and no later one that was
    /// carried out did, in a row; and up to which row it is those.
    fn not_final(&self, row: u32) -> (SlotSet, u32) {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let entry = &replay.parts[replay.span.parts.start].entry;
        let written = SlotSet::from_bits(entry.slots).and(self.shape(replay.column).all());
        let (mut slots, mut end) = (SlotSet::EMPTY, u32::MAX);
        for slot in written.iter() {
            let (is_final, until) = replay.final_rows[usize::from(slot)].run(entry.group, row);
            end = end.min(until);
            if !is_final || self.mutated(Mutation::ReplayOlder) {
                slots = slots.with(slot);
            }
        }
        (slots.minus(self.missing_slots(replay.column)), end)
    }

    /// Goes past rows of the write under way that later ones wrote. Whether others are left.
    fn skip_final(&mut self) -> bool {
        loop {
            let replay = self.replay.as_ref().expect("a replay is under way");
            let (low, end) = (replay.low, replay.span.rows.end);
            if low >= end {
                return false;
            }
            let (slots, until) = self.not_final(low);
            if !slots.is_empty() {
                return true;
            }
            self.replay().low = until.min(end);
        }
    }

    /// It is known which new blocks are there.
    fn log_checked(&mut self) {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let (id, written, valid) = (replay.column, replay.written, replay.valid);
        let missing = self.missing_slots(id);
        let valid = valid.minus(missing);
        let lost = self.slots_of(id, self.lost);
        // A later one of the same rows, which was carried out, began when it was in its place: what the
        // log lacks of it rotted since.
        let entry = &replay.parts[replay.span.parts.start].entry;
        let all = SlotSet::from_bits(entry.slots).and(self.shape(id).all());
        let has_successor = !all.minus(written).minus(missing).is_empty();
        let followed = replay.parts[replay.span.parts.start].sequence < replay.last;
        let found = matches!(replay.judge, Judge::Found { .. });
        let begun = has_successor || followed || found;
        if begun || written.minus(valid).minus(lost).is_empty() {
            self.note_applied(written);
            // A device that is being filled, and came after this write, may lack it.
            self.remake_later(written.minus(valid).minus(missing), false);
            let column = &mut self.columns[index(id)];
            column.plan.writes = valid;
            return self.write_replayed();
        }
        // Nothing had gone to its place, or else a part was lost since, to rot.
        self.look_in_place();
    }

    /// Reads what a write that is not whole in the log may have left.
    fn look_in_place(&mut self) {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let (id, logged) = (replay.column, self.logged(replay.written));
        let reads = logged.minus(self.missing_slots(id));
        self.replay().judge = Judge::Place;
        self.columns[index(id)].zeros = SlotSet::EMPTY; // What is there may be something else.
        if self.hold_pages_of(id, reads) {
            self.read_judged();
        }
    }

    /// Those of these slots of which the log of the write under way tells.
    pub(super) fn logged(&self, slots: SlotSet) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let logged = slots.iter().filter(|&slot| replay.part(slot).is_some());
        logged.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// The pages of what a write may have left are there.
    fn read_judged(&mut self) {
        let id = self.replay().column;
        let missing = self.missing_slots(id);
        let column = &mut self.columns[index(id)];
        let reads = column.plan.reads.minus(missing);
        column.log_data = reads;
        if reads.is_empty() {
            return self.looked();
        }
        self.read_in_place(id, reads);
    }

    /// Gets hold of the pages of slots in the rows under way, where blocks have checksums. Whether they
    /// are there; else `replay_paged` is told.
    pub(super) fn hold_pages_of(&mut self, id: u32, slots: SlotSet) -> bool {
        let column = &mut self.columns[index(id)];
        column.plan.reads = slots;
        column.plan.writes = SlotSet::EMPTY;
        column.phase = Phase::Paging;
        !self.has_checksums() || self.hold_pages(id)
    }

    /// Reads what is in place of slots in the rows under way.
    pub(super) fn read_in_place(&mut self, id: u32, slots: SlotSet) {
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Reading;
        column.pending = slots.count();
        for slot in slots.iter() {
            let place = self.row(id, slot);
            self.slot_io(id, slot, Operation::Read, place);
        }
    }

    /// What is in place is summed up. If a block of a write is there, all of it was logged.
    fn looked(&mut self) {
        let replay = self.replay();
        replay.judge = Judge::Log;
        let (id, written, valid) = (replay.column, replay.written, replay.valid);
        let missing = self.missing_slots(id);
        let lost = self.slots_of(id, self.lost);
        let shape = self.shape(id);
        let left = shape.all().minus(written.minus(valid)).minus(lost);
        // Without checksums nobody would find out that some of it can't be made.
        let can_be_made = self.has_checksums() || left.count() >= u32::from(shape.data);
        let column = &self.columns[index(id)];
        let (low, mut end) = (column.low, column.low + column.blocks);
        let mut begun = can_be_made && self.is_in_place(id);
        if !begun {
            let tells = |row| self.is_mended(row) || self.is_half_written(row);
            begun = tells(low);
            let alike = (low..end).take_while(|&row| tells(row) == begun);
            end = low + u32::try_from(alike.count()).expect("rows of a column");
        }
        if begun && self.is_intent() {
            self.take_rows(id, end - low);
            return self.intent_was_begun(id);
        }
        if begun {
            self.replay().judge = Judge::Found { end };
            self.let_go_pages(id);
            return self.next_rows();
        }
        self.take_rows(id, end - low);
        // Of a part without a header it is not known what it was. Where all are there redundancy is made
        // anew, of data that is as it was; otherwise that part is, since what is missing follows from it.
        if lost.or(missing).is_empty() {
            self.remake_later(shape.redundant(), true);
        } else if self.has_checksums() {
            self.remake_later(written.minus(self.logged(written)), true);
        }
        self.rows_replayed();
    }

    /// Whether what is under way has its contents in place only.
    fn is_intent(&self) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        replay.parts[replay.span.parts.start].entry.kind == JournalKind::Intent
    }

    /// An intent that is not whole in the log was begun in the rows under way: nothing older goes there,
    /// and they are settled as those of any other.
    fn intent_was_begun(&mut self, id: u32) {
        let column = &self.columns[index(id)];
        let (group, rows) = (column.group.0, column.low..column.low + column.blocks);
        let replay = self.replay();
        let entry = &replay.parts[replay.span.parts.start].entry;
        for slot in SlotSet::from_bits(entry.slots).iter() {
            replay.final_rows[usize::from(slot)].cover(group, &rows);
        }
        let mut settled = Rows::default();
        settled.cover(group, &rows);
        let older = replay.spans.split_off(replay.intents);
        let parts = replay.span.parts.clone();
        replay.spans.push(Span { parts, rows });
        for Span { parts, rows } in older {
            let left = settled.free(replay.parts[parts.start].entry.group, &rows);
            let left = left.into_iter().map(|rows| Span {
                parts: parts.clone(),
                rows,
            });
            replay.spans.extend(left);
        }
        self.rows_replayed();
    }

    /// Whether what was read tells that the write under way went to its place: a block is there, or the
    /// checksum of one, that no write before it left, and that was not there before it. Without
    /// checksums that may have been the same: then all that the log has must be there, so that
    /// carrying it out changes nothing but what it lacks.
    fn is_in_place(&self, id: u32) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let column = &self.columns[index(id)];
        let (low, blocks, read) = (column.low, column.blocks, column.log_data);
        let part = |slot| replay.part(slot).expect("one for each of these slots");
        let found = |slot| {
            let sums = super::checksum_range(id, read, slot, blocks, self.checksums_of_column);
            let sums = self.checksums[sums].iter();
            (low..).zip(sums.map(|&sum| stored_checksum(sum)))
        };
        let Some(pages) = &self.pages else {
            let valid = replay.valid.minus(self.missing_slots(id));
            let new = |slot| found(slot).all(|(row, sum)| replay.is_new(part(slot), row, sum));
            let holds = |slot| read.contains(slot) && new(slot);
            return !valid.is_empty() && valid.iter().all(holds);
        };
        let tells = |slot, (row, sum)| {
            let held = !self.slots_not_held(id, row + 1).contains(slot);
            held && replay.is_new(part(slot), row, sum) && !replay.is_old(part(slot), row, sum)
        };
        let kept = |slot| {
            let first = self.block_of_slot(id, slot);
            (low..).zip(pages.kept(&self.metadata_buffer, (id, slot), first, blocks))
        };
        let there = column.plan.reads.minus(self.missing_slots(id));
        read.iter()
            .any(|slot| found(slot).any(|it| tells(slot, it)))
            || there
                .iter()
                .any(|slot| kept(slot).any(|it| tells(slot, it)))
    }

    /// Whether a write of which nothing is in place is carried out all the same in one of the rows under
    /// way: the log mends as many blocks there that are torn, or rotten, as it lacks. So no more is to be
    /// made of the others than if it were not, begun or not.
    fn is_mended(&self, row: u32) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let id = replay.column;
        let read = self.columns[index(id)].log_data;
        let mends = |&slot: &u8| {
            let part = replay.part(slot).expect("what is valid is there");
            let sum = || stored_checksum(self.found_sum(slot, row));
            !(read.contains(slot)
                && (self.is_as_it_was(slot, row) || replay.is_old(part, row, sum())))
        };
        let held = replay.valid.minus(self.slots_not_held(id, row + 1));
        let lacks = replay.written.minus(replay.valid);
        let lacks = lacks.minus(self.slots_of(id, self.lost));
        self.has_checksums() && held.iter().filter(mends).count() >= index(lacks.count())
    }

    /// Whether one of the rows under way holds a block that no checksum knows, as an intent under way
    /// leaves it where writes are torn. It may have rotted, or a write that is in the log before may have left it:
    /// so nothing is to be carried out in the row, and all members are there, for what was before to
    /// show where it was never begun. It was not, where more lack their log than may be damaged.
    fn is_half_written(&self, row: u32) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let Part {
            sequence, entry, ..
        } = &replay.parts[replay.span.parts.start];
        let follows = |part: &Part| part.sequence < *sequence;
        let all_there = self.lost.union(self.missing).is_empty();
        let logged = replay.span.parts.len();
        let shape = self.shape(replay.column);
        let fits_nothing = |slot| {
            let part = replay.part(slot).expect("one for each of these slots");
            let sum = stored_checksum(self.found_sum(slot, row));
            replay.old_checksum(part, row).is_some()
                && !(self.is_as_it_was(slot, row)
                    || replay.is_old(part, row, sum)
                    || replay.is_new(part, row, sum))
        };
        self.has_checksums()
            && self.is_intent()
            && all_there
            && logged >= usize::from(shape.data)
            && !replay.parts_of_row(entry.group, row).any(follows)
            && self.held(row).iter().any(fits_nothing)
    }

    /// Slots of the rows under way are to be made of the others.
    fn remake_later(&mut self, slots: SlotSet, anew: bool) {
        if slots.is_empty() {
            return;
        }
        let column = &self.columns[index(self.replay.as_ref().expect("under way").column)];
        let rows = column.low..column.low + column.blocks;
        let replay = self.replay();
        let span = Span {
            rows,
            ..replay.span.clone()
        };
        replay.remakes.push(Remake { span, slots, anew });
    }

    pub(super) fn write_replayed(&mut self) {
        if !self.geometry.survives(self.lost) {
            return self.give_up_replay();
        }
        if self.metadata.busy() && !self.metadata.broken {
            // Somebody went out: until that is durable, nothing that was judged without goes to its place.
            self.replay().waits = true;
            return;
        }
        let id = self.replay().column;
        let writes = self.columns[index(id)]
            .plan
            .writes
            .minus(self.missing_slots(id));
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Writing;
        column.pending = writes.count();
        if writes.is_empty() {
            return self.rows_replayed();
        }
        for slot in writes.iter() {
            let place = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Write { fua: false }, place);
        }
    }

    pub(super) fn rows_replayed(&mut self) {
        let id = self.replay().column;
        self.let_go_pages(id);
        let blocks = self.columns[index(id)].blocks;
        let replay = self.replay();
        if !core::mem::take(&mut replay.tried.again) {
            replay.low += blocks;
        }
        replay.judge = Judge::Log;
        self.next_rows();
    }

    // ---- intents ------------------------------------------------------------------------------

    /// The rows under way are carried out: these slots hold what was written last.
    fn note_applied(&mut self, slots: SlotSet) {
        let column = &self.columns[index(self.replay.as_ref().expect("under way").column)];
        let (group, rows) = (column.group.0, column.low..column.low + column.blocks);
        let replay = self.replay();
        for slot in slots.iter() {
            replay.final_rows[usize::from(slot)].cover(group, &rows);
        }
        let parts = replay.span.parts.clone();
        replay.applied.push(Applied { group, parts, rows });
    }

    /// What a slot holds in the rows under way goes into the list. Whether that has room.
    pub(super) fn lose_rows(&mut self, id: u32, slot: u8) -> bool {
        let blocks = self.array_blocks(id, slot);
        self.output(Output::Event(Event::Lost {
            block: BlockIndex(blocks.start),
            blocks: self.columns[index(id)].blocks,
        }));
        self.bad.add(BadBlockKind::Lost, blocks)
    }

    /// Makes it durable that what was lost is: `lost_is_listed` is told.
    pub(super) fn list_lost(&mut self) {
        self.replay().listing = true;
        if self.mutated(Mutation::ForgetLost) {
            self.bad.tell_nobody();
        }
        self.write_bad_blocks();
        self.replay_marked();
    }

    /// The list has no room for all that is lost: nothing more is written, and what is not there
    /// answers errors.
    pub(super) fn too_much_lost(&mut self) {
        self.output(Output::Event(Event::TooMuchLost));
        self.unreplayed = true;
        self.give_up_replay();
    }

    /// What the journals hold may be needed when the members are back: nothing is voided.
    pub(super) fn give_up_replay(&mut self) {
        let replay = self.replay();
        (replay.stage, replay.waits) = (Stage::Rolling, false); // Nobody who is told goes on with it.
        self.nothing_more();
        self.end_replay();
    }

    pub(super) fn flush_replayed(&mut self) {
        self.replay().stage = Stage::Marking;
        self.write_bitmaps();
        if self.mutated(Mutation::ForgetLost) {
            self.bad.tell_nobody();
        }
        self.write_bad_blocks();
        self.replay_marked();
    }

    /// What missing members lack must be marked durably before the journals are void.
    pub(crate) fn replay_marked(&mut self) {
        let listing = |replay: &Replay| replay.listing;
        if self.replay.as_ref().is_some_and(listing) {
            if self.metadata.broken {
                self.replay().listing = false;
                let id = self.replay().column;
                self.let_go_pages(id);
                return self.give_up_replay();
            }
            if self.bad_blocks_are_stored() {
                self.replay().listing = false;
                let id = self.replay().column;
                self.lost_is_listed(id);
            }
            return;
        }
        let preparing = |replay: &Replay| replay.stage == Stage::Preparing;
        if self.replay.as_ref().is_some_and(preparing) {
            if self.bitmaps_are_stored() || self.metadata.broken {
                self.roll_forward();
            }
            return;
        }
        let marking = |replay: &Replay| replay.stage == Stage::Marking;
        if !self.replay.as_ref().is_some_and(marking)
            || !(self.bitmaps_are_stored() || self.metadata.broken)
            || !self.bad_blocks_are_stored()
        {
            return;
        }
        if !self.geometry.survives(self.lost) {
            return self.give_up_replay();
        }
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        self.replay().stage = Stage::Flushing {
            pending: active.count(),
        };
        self.flush(active, Purpose::ReplayFlush);
    }

    pub(crate) fn replay_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        self.system_flush_failed(member, result);
        let Stage::Flushing { pending } = &mut self.replay().stage else {
            panic!("a flush of a replay came back twice");
        };
        *pending -= 1;
        if *pending > 0 {
            return;
        }
        if !self.metadata.broken {
            self.metadata.dirty = !self.all_settled;
            self.want_update();
            self.regions.want_sweep();
        }
        self.end_replay();
    }

    fn end_replay(&mut self) {
        let replay = self.replay.take().expect("a replay is under way");
        self.let_go_pages(replay.column);
        let column = &mut self.columns[index(replay.column)];
        column.phase = Phase::Free;
        column.owner = Owner::Nobody;
        column.zeros = SlotSet::EMPTY;
        self.free_job_columns.push(replay.column);
        self.output(Output::Event(Event::Replayed {
            writes: replay.replayed,
        }));
        self.try_to_serve();
    }
}

impl Replay {
    /// The checksum that a part says a row gets.
    pub(super) fn checksum(&self, part: &Part, row: u32) -> u32 {
        match part.entry.kind {
            JournalKind::Zeros => self.zero_checksum,
            _ => self.checksums[part.checksums.start + index(row - part.entry.low)],
        }
    }

    /// The checksum that a write says a row of a slot gets, where a part of it that is there does.
    pub(super) fn checksum_of(&self, parts: &Range<usize>, slot: u8, row: u32) -> Option<u32> {
        let mut parts = self.parts[parts.clone()].iter();
        let part = parts.find(|part| part.entry.slot == slot)?;
        Some(self.checksum(part, row))
    }

    /// The checksum, as it was kept, of what a part says is replaced in a row: if there was one.
    pub(super) fn old_checksum(&self, part: &Part, row: u32) -> Option<u32> {
        let Part {
            entry, checksums, ..
        } = part;
        let after = entry.low + entry.blocks - row;
        let old = (entry.old).then(|| self.checksums[checksums.end - index(after)]);
        old.filter(|&old| is_known(old))
    }

    /// What was tried of a row of the intent under way.
    pub(super) fn tried(&self, row: u32) -> Tried {
        if self.tried.row == row {
            return self.tried;
        }
        Tried {
            row,
            ..Tried::default()
        }
    }

    /// The last part before this one that says something of its slot in a row.
    pub(super) fn last_before(&self, part: &Part, row: u32) -> Option<usize> {
        let says = |&at: &usize| {
            let other = &self.parts[at];
            other.entry.slot == part.entry.slot && other.sequence < part.sequence
        };
        let of_row = self.places_of_row(part.entry.group, row);
        of_row.filter(says).last()
    }

    /// Whether a checksum, as it is kept, is what a part says a row gets.
    fn is_new(&self, part: &Part, row: u32, sum: u32) -> bool {
        stored_checksum(self.checksum(part, row)) == sum
    }

    /// Whether it is of what was there before: a cache that lost what was written last left what was
    /// there before that.
    fn is_old(&self, part: &Part, row: u32, sum: u32) -> bool {
        let was = |part| self.old_checksum(part, row) == Some(sum);
        let mut of_row = self.parts_of_row(part.entry.group, row);
        was(part)
            || of_row.any(|before| {
                let same = before.entry.slot == part.entry.slot;
                let earlier = before.sequence < part.sequence;
                same && earlier && (self.is_new(before, row, sum) || was(before))
            })
    }

    /// The parts that say something of a row, in order.
    pub(super) fn parts_of_row(&self, group: u64, row: u32) -> impl Iterator<Item = &Part> {
        self.places_of_row(group, row).map(|at| &self.parts[at])
    }

    /// Where these are.
    fn places_of_row(&self, group: u64, row: u32) -> impl Iterator<Item = usize> {
        let parts = |group| {
            let before = |&part: &usize| self.parts[part].entry.group < group;
            self.by_group.partition_point(before)
        };
        let of_group = self.by_group[parts(group)..parts(group + 1)].iter();
        of_group.copied().filter(move |&at| {
            let entry = &self.parts[at].entry;
            (entry.low..entry.low + entry.blocks).contains(&row)
        })
    }

    /// The part of the write under way for `slot`.
    pub(super) fn part(&self, slot: u8) -> Option<&Part> {
        self.parts[self.span.parts.clone()]
            .iter()
            .find(|part| part.entry.slot == slot)
    }
}

/// Whether a checksum, as it is kept, is one.
pub(super) fn is_known(kept: u32) -> bool {
    ![CHECKSUM_NONE, CHECKSUM_LOST].contains(&kept)
}

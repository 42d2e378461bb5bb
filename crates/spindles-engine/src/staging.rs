//! The stage of an open array, with the state of its life and of the work under way for it. The
//! stage itself is `stage/`.
//!
//! ```text
//! Found ─▶ Loading ─▶ On or Draining
//! Off ─▶ Describing ─▶ Tailing ─▶ Recording ─▶ On ─▶ Draining ─▶ Clearing ─▶ Off
//!  ▲           │                                  │
//!  └ a holder failed                              └ close, growth, a device joins or is filled
//! ```
//!
//! A life of the stage draws a fresh nonce. So no record of an earlier life counts on the holders,
//! nor on a device that comes back: superblocks say that the stage is empty before a member joins.

pub(crate) mod choice;
pub(crate) mod load;
pub(crate) mod pace;

use crate::{
    RangeId,
    config::{Config, WriteBackMode},
    consistency::WriteHole,
    index,
    stage::{Setup, Stage},
    status::{StageState, StageStatus},
    system_io::{MetadataBuffer, Place},
};
use alloc::{vec, vec::Vec};
use choice::Choice;
use load::Load;
use pace::Pace;
use spindles_block::{
    BlockIndex, BufferSlice, Computation, Instant, MEMBERS_MAX, MemberIndex, MemberSet, Operand,
    Piece, StepId,
};
use spindles_format::{ArrayRecord, Features, StageColumn, StageLayout};

/// The computation of a batch. Smaller numbers name computations of stripe ranges.
pub(crate) const STAGE_STEP: StepId = StepId(u32::MAX);

/// Placing begins when clients have been idle for this long, in nanoseconds.
pub(crate) const IDLE_NS: u64 = 50_000_000;
/// After a failure, placing begins again after this long, in nanoseconds.
pub(crate) const AGAIN_NS: u64 = 1_000_000_000;
/// Batches are durable this long after they are answered, in nanoseconds.
const COMMIT_NS: u64 = 1_000_000_000;
/// A close places for this long at most, in nanoseconds. The rest stays staged.
const CLOSE_NS: u64 = 10_000_000_000;
/// Failures in a row after which rows count as impossible to place.
const FAILURES_MAX: u32 = 8;
/// The blocks that are sought at once for placing.
const PASS_BLOCKS: usize = 1024;
/// Blocks that are staged as zeros, and batches that are not released, at most.
const ZEROS_MAX: u32 = 4096;
const BATCHES_MAX: u32 = 4096;

/// The fill from which the stage is placed though clients are busy, in 256ths.
pub(crate) const FILL_TO_PLACE: u32 = 102;
/// The fill from which batches are released though that frees no segment, in 256ths.
pub(crate) const FILL_TO_RELEASE: u32 = 154;

/// Returns the sizes of a stage.
fn setup(
    config: &Config,
    array: &ArrayRecord,
    layout: StageLayout,
    memory: BufferSlice,
    ranges: u32,
) -> Setup {
    Setup {
        array: array.uuid,
        nonce: 0,
        layout,
        holders: config.geometry.members(),
        parity_max: config.geometry.parity_chunks(),
        number: array.generation << 32,
        memory,
        memory_blocks: config.write_back.memory_blocks,
        zeros_max: ZEROS_MAX,
        writes_max: ranges,
        batches_max: BATCHES_MAX,
    }
}

/// Returns true if a stage of this configuration may take writes.
fn takes_writes(config: &Config) -> bool {
    let geometry = &config.geometry;
    let logs = config.consistency.write_hole == WriteHole::Closed;
    let has_parity = geometry.parity_chunks() > 0 && geometry.older().is_none() && logs;
    config.write_back.mode != WriteBackMode::Off && !config.read_only && has_parity
}

/// The life of the stage in an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Empty. Superblocks durably say so.
    Off,
    /// Superblocks say that there may be records of an earlier opening.
    Found,
    /// Loading these.
    Loading,
    /// Writing the descriptors.
    Describing,
    /// Writing the first tail.
    Tailing,
    /// Makes superblocks say that records may exist.
    Recording,
    /// Takes writes.
    On,
    /// Takes no writes. Places and releases every staged block.
    Draining,
    /// Makes superblocks say that the stage is empty.
    Clearing,
}

/// The end of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// None is due.
    Resting,
    /// The flush is done, and the loss of a member during it is not durable yet.
    Flushed,
    /// To be written.
    Due,
    /// Being written.
    Writing { failed: bool },
    /// Durable. Reads of the contents that it frees may be under way.
    Durable,
}

/// The stage of an array, and the work under way for it.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the work under way"
)]
pub(crate) struct Staging {
    pub(crate) stage: Stage,
    /// The load of an opening.
    pub(crate) load: Option<Load>,
    /// The blocks of memory for a load.
    work_blocks: u32,
    pub(crate) life: Life,
    pub(crate) layout: StageLayout,
    /// True if the array takes writes into its stage.
    pub(crate) is_on: bool,
    /// True if a write could have been staged.
    pub(crate) is_wanted: bool,
    /// True if the first request waits for room in the stage.
    pub(crate) is_awaited: bool,
    /// The header of a batch, that of a tail, and the descriptors.
    pub(crate) header: Place,
    pub(crate) tail_header: Place,
    pub(crate) descriptors: Place,
    /// Writes of descriptors and of tails under way.
    pub(crate) describing: u32,
    /// True if a write of a descriptor failed.
    pub(crate) describes_again: bool,
    pub(crate) tailing: u32,
    pub(crate) tail: Tail,
    pub(crate) columns: [StageColumn; MEMBERS_MAX as usize],
    /// The place in memory of each data slot of each stripe range that places.
    sources: Vec<BufferSlice>,
    slots: usize,
    /// Stripe ranges that place.
    pub(crate) placing: u32,
    /// The blocks sought for placing, in reverse order.
    pub(crate) pass: Vec<BlockIndex>,
    /// The block at which the next pass begins.
    pub(crate) next: BlockIndex,
    /// The mark of the flush of the holders for whole rows; `None` if none is under way.
    pub(crate) pass_flush: Option<u64>,
    /// True if the holders were flushed for this pass.
    pub(crate) is_pass_flushed: bool,
    /// The mark of the flush for clients under way.
    pub(crate) round: u64,
    /// Copies to clients under way, by the parity of `epoch`.
    pub(crate) reads: [u32; 2],
    pub(crate) epoch: u8,
    /// When a client last asked for something.
    pub(crate) asked: Instant,
    /// When placing last failed, and how often it did since it last succeeded.
    pub(crate) failed: Option<Instant>,
    pub(crate) failures: u32,
    /// The longest write, in blocks.
    pub(crate) write_blocks_max: u32,
    pub(crate) choice: Choice,
    pub(crate) pace: Pace,
    /// When a close began.
    pub(crate) closes_since: Option<Instant>,
    /// True if a close places everything, however long that takes.
    pub(crate) places_all: bool,
    /// Blocks placed since opening, and rows placed as a whole.
    pub(crate) placed_blocks: u64,
    pub(crate) whole_rows: u64,
}

impl Staging {
    /// Reserves everything; `None` if the array has no stage, or does not use it. The memory of
    /// the stage begins at `first_block` of the scratch buffer. `ranges` is the number of stripe
    /// ranges.
    pub(crate) fn new(
        config: &Config,
        first_block: u32,
        ranges: u32,
        buffer: &mut MetadataBuffer,
    ) -> Option<Self> {
        let array = &config.persistence.as_ref()?.array;
        let (geometry, block_size) = (&config.geometry, config.block_size);
        let memory = BufferSlice {
            buffer: config.scratch,
            first_block,
        };
        let has_stage = array.features.refuse & Features::STAGE != 0;
        let is_on = takes_writes(config);
        if !has_stage || !(is_on || array.staged) {
            return None;
        }
        let layout = StageLayout::new(array.shared.stage_bytes, block_size)?;
        let count = geometry.members();
        let stage = Stage::new(setup(config, array, layout, memory, ranges));
        let work = memory.plus(stage.memory_blocks());
        let window = Load::window_blocks(block_size.bytes());
        let column_max = layout.column_blocks_max();
        let mut load = || Load::new(buffer.reserve(count, window), work, column_max, count);
        let load = array.staged.then(&mut load);
        let work_blocks = load.as_ref().map_or(0, |_| u32::from(count) * column_max);
        Some(Self {
            stage,
            life: if array.staged { Life::Found } else { Life::Off },
            load,
            work_blocks,
            layout,
            is_on,
            is_wanted: false,
            is_awaited: false,
            header: buffer.reserve(1, layout.header_blocks()),
            tail_header: buffer.reserve(1, layout.header_blocks()),
            descriptors: buffer.reserve(count, layout.header_blocks()),
            describing: 0,
            describes_again: false,
            tailing: 0,
            tail: Tail::Resting,
            columns: [StageColumn::NONE; MEMBERS_MAX as usize],
            sources: vec![BufferSlice::NONE; index(ranges) * usize::from(count)],
            slots: count.into(),
            placing: 0,
            pass: Vec::with_capacity(PASS_BLOCKS),
            next: BlockIndex(0),
            pass_flush: None,
            is_pass_flushed: false,
            round: 0,
            reads: [0; 2],
            epoch: 0,
            asked: Instant(0),
            failed: None,
            failures: 0,
            write_blocks_max: column_max.min(config.write_back.memory_blocks / 4).max(1),
            choice: Choice::new(config.write_back.mode),
            pace: Pace::default(),
            closes_since: None,
            places_all: false,
            placed_blocks: 0,
            whole_rows: 0,
        })
    }

    /// The blocks of memory that a stage with this configuration needs.
    pub(crate) fn memory_blocks(&self) -> u32 {
        self.stage.memory_blocks() + self.work_blocks
    }

    /// Returns the contents of a slot of a stripe range that places.
    pub(crate) fn source(&self, id: RangeId, slot: u8) -> BufferSlice {
        self.sources[id.index() * self.slots + usize::from(slot)]
    }

    pub(crate) fn set_source(&mut self, id: RangeId, slot: u8, source: BufferSlice) {
        self.sources[id.index() * self.slots + usize::from(slot)] = source;
    }

    /// Returns true if the stage may cover one of these blocks.
    pub(crate) fn covers(&self, from: BlockIndex, end: BlockIndex) -> bool {
        let blocks = u32::try_from(end.0 - from.0).unwrap_or(u32::MAX);
        let cover = self.stage.cover();
        let is_unknown = matches!(self.life, Life::Found | Life::Loading);
        // Beyond its length it is quicker not to look.
        let is_long = u64::from(blocks) > cover.len() as u64 && !cover.is_empty();
        is_unknown || is_long || cover.touches(from, blocks)
    }

    /// Returns true if a block is staged, or about to be.
    pub(crate) fn touches(&self, block: BlockIndex) -> bool {
        self.stage.cover().touches(block, 1) || self.stage.takes(block, 1)
    }

    /// Returns true if all that was staged is placed and released, and nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        let is_quiet = self.tail == Tail::Resting && self.placing == 0 && self.reads == [0; 2];
        is_quiet && self.stage.is_empty() && self.stage.rests()
    }

    /// Returns true if some rows can't be placed. What is staged stays staged.
    pub(crate) fn is_stuck(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Returns true if a close has placed for long enough: the rest stays staged.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let closes = self.closes_since.filter(|_| !self.places_all);
        closes.is_some_and(|since| now.ns_since(since) >= CLOSE_NS)
    }

    /// Returns true if answered batches are to be made durable.
    pub(crate) fn commit_is_due(&self, now: Instant) -> bool {
        let volatile = self.stage.oldest_volatile();
        self.pass_flush.is_none() && volatile.is_some_and(|since| now.ns_since(since) >= COMMIT_NS)
    }

    /// Notes that the batch under way is answered.
    pub(crate) fn answered(&mut self, now: Instant) {
        let (blocks, fill) = (self.stage.batch_blocks(), self.stage.fill());
        self.pace.answered(blocks.into(), fill, now);
    }

    /// Notes the end of a stripe range that placed rows.
    pub(crate) fn placed(&mut self, ok: bool, now: Instant) {
        self.placing -= 1;
        if ok {
            self.failures = 0;
        } else {
            self.failed = Some(now);
            self.failures += 1;
        }
    }

    /// Returns the state of the stage.
    pub(crate) fn status(&self, now: Instant) -> StageStatus {
        let fill = self.stage.fill();
        StageStatus {
            mode: self.choice.mode(),
            state: match self.life {
                Life::Found | Life::Loading => StageState::Loading,
                Life::On => StageState::On,
                Life::Draining | Life::Clearing => StageState::Draining,
                Life::Off | Life::Describing | Life::Tailing | Life::Recording => StageState::Off,
            },
            staged_blocks: self.stage.cover().len() as u64,
            memory_blocks: self.stage.capacity_blocks(),
            memory_used_blocks: self.stage.used_blocks(),
            fill_256: fill,
            oldest_ns: self.stage.oldest().map(|since| now.ns_since(since)),
            placing_blocks_per_s: self.pace.rate(),
            is_paced: self.pace.waits_until(now).is_some(),
            is_stuck: self.is_stuck(),
            absorbed_blocks: self.stage.absorbed_blocks(),
            placed_blocks: self.placed_blocks,
            whole_rows: self.whole_rows,
            paced_ns: self.pace.paced_ns(),
        }
    }

    /// Returns true if an I/O or a computation of the stage is under way.
    pub(crate) fn has_io(&self) -> bool {
        self.stage.is_under_way()
            || self.describing + self.tailing + self.placing > 0
            || self.reads != [0; 2]
            || self.pass_flush.is_some()
    }

    /// Returns true if a request or a batch waits for room: the stage goes before other requests.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns when the stage wants to be looked at. `None` if it waits for nothing.
    pub(crate) fn wake(&self, now: Instant, are_clients_idle: bool) -> Option<Instant> {
        let after = |since: Instant, ns: u64| Instant(since.0 + ns);
        let idle = (are_clients_idle && !self.stage.is_empty() && self.life == Life::On)
            .then(|| after(self.asked, IDLE_NS));
        let again = self.failed.map(|failed| after(failed, AGAIN_NS));
        let volatile = self.stage.oldest_volatile();
        let commit = volatile.map(|since| after(since, COMMIT_NS));
        let paced = self.pace.waits_until(now);
        let late = self.closes_since.map(|since| after(since, CLOSE_NS));
        let due = [idle, again, commit, paced, late].into_iter().flatten();
        due.filter(|at| *at > now).min()
    }

    /// Returns the header of one holder, in blocks.
    pub(crate) fn header_blocks(&self) -> u32 {
        self.layout.header_blocks()
    }

    /// Returns the computation of the stage that is under way.
    pub(crate) fn computation(&self) -> Computation<'_> {
        match &self.load {
            Some(load) if self.life == Life::Loading => load.computation(load.shape()),
            _ => self.stage.computation(),
        }
    }

    /// Returns the space for the checksums of this computation.
    pub(crate) fn checksums_mut(&mut self) -> &mut [u32] {
        match self {
            Self {
                load: Some(load),
                life: Life::Loading,
                ..
            } => load.checksums_mut(),
            Self { stage, .. } => stage.checksums_mut(),
        }
    }

    /// Returns the pieces of the column on a holder.
    pub(crate) fn column_pieces(&self, buffer: &MetadataBuffer, holder: MemberIndex) -> [Piece; 2] {
        let column = self.stage.column_on(holder);
        let column = column.expect("a column is written");
        [
            Piece {
                buffer: buffer.slice(self.header, 0),
                blocks: self.header_blocks(),
            },
            Piece {
                buffer: column.contents,
                blocks: column.blocks,
            },
        ]
    }

    /// Returns the pieces of the column that is written again on a holder.
    pub(crate) fn repair_pieces(
        &self,
        metadata: &MetadataBuffer,
        holder: MemberIndex,
    ) -> [Piece; 2] {
        let load = self.load.as_ref().expect("it is being loaded");
        let (buffer, blocks) = load.repaired(holder);
        [
            Piece {
                buffer: metadata.slice(self.tail_header, 0),
                blocks: self.header_blocks(),
            },
            Piece { buffer, blocks },
        ]
    }

    /// Notes that the flush of a release has ended.
    pub(crate) fn release_flushed(&mut self) {
        self.tail = Tail::Flushed;
    }

    /// Returns true while the stage takes no writes, until superblocks say that it is empty.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.life, Life::Draining | Life::Clearing)
    }

    /// Seeks the next staged blocks. Returns false if the stage is empty.
    pub(crate) fn begin_pass(&mut self) -> bool {
        self.stage
            .staged_from(self.next, PASS_BLOCKS, &mut self.pass);
        self.is_pass_flushed = false;
        let Some(last) = self.pass.last() else {
            if self.placing == 0 {
                self.pace.rests();
            }
            return false;
        };
        self.next = last.plus(1);
        self.pass.reverse();
        true
    }

    pub(crate) fn pass_flushed(&mut self) {
        let mark = self.pass_flush.take().expect("a flush was begun");
        self.stage.flushed(mark);
    }
}

/// An operand of a copy.
pub(crate) const fn operand(slice: BufferSlice) -> Operand {
    Operand { index: 0, slice }
}

/// The holders in the order of their columns.
pub(crate) fn count_of(holders: MemberSet) -> usize {
    index(holders.count())
}

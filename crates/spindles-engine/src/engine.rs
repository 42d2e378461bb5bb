//! The engine's state, its opening, and the doors through which inputs come.

use crate::{
    NEWCOMER, SLOT_BITS, SYSTEM_IO,
    bad_blocks::BadList,
    bitmaps::{Bitmap, Loading},
    checksums::{Pages, ROWS_MAX, SUMS_MIN},
    columns::Column,
    config::{Config, Limits, OpenError},
    consistency::Policy,
    extension::{Extension, Extent},
    faults::Faults,
    first_touch::FirstTouch,
    flushes::Flushes,
    growth,
    hedges::Hedges,
    index,
    jobs::{
        JOB_COLUMNS, Jobs, Place, grow::Grow, rebuild::Rebuild, replace::Replace, scrub::ScrubState,
    },
    journal::{JOURNAL_DEVICE, Journal, replay::Replay},
    locks::Locks,
    member::{ArrayState, Member, MemberEvent},
    metadata::{Metadata, superblock_blocks},
    mutation::Mutation,
    output::{Busy, Command, CommandError, Event, OutReason, Output},
    plan::Shape,
    read_policies::{MemberLoad, ReadPolicy},
    regions::Regions,
    requests::RequestSlot,
    slow::Slow,
    system_io::{MetadataBuffer, Purpose},
    zeroing::Zeroing,
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, BufferSlice, ComputeResult, Instant, MemberError, MemberIndex,
    MemberIoId, MemberResult, MemberSet, Operand, Operation, Request, StepId,
};
use spindles_format::{ArrayRecord, BITMAPS, ChecksumKind, MemberState, RowSum};
use spindles_layout::{Geometry, Group};

/// What is known of a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberInfo {
    pub(crate) index: MemberIndex,
    pub(crate) state: Member,
    pub(crate) data_start: BlockIndex,
    /// While its device is being filled: where it was good when the walk began.
    pub(crate) filled_from_start: Place,
    pub(crate) load: MemberLoad,
}

impl MemberInfo {
    /// What happens to it, which must be legal.
    pub(crate) fn step(&mut self, event: MemberEvent) {
        let next = self.state.next(event);
        self.state = next.expect("a legal move of a member");
    }
}

/// How far a close has come.
///
/// ```text
///  Open ──Close──▶ Draining ──idle──▶ Flushing ──▶ Clearing ──▶ Marking ──▶ Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Open,
    Draining,
    Flushing { pending: u32 },
    Clearing,
    Marking,
    Closed,
}

/// One array. Inputs are `submit`, `complete_member`, `complete_compute`, `handle_timeout` and
/// `command`; after each, `poll_output` is to be drained. A plain value: a clone goes on by itself.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the array"
)]
pub struct Engine {
    pub(crate) geometry: Geometry,
    pub(crate) shape: Shape,
    pub(crate) block_size: BlockSize,
    pub(crate) read_only: bool,
    /// Neither a growth nor a rebuild goes on by itself.
    pub(crate) only_recovers: bool,
    /// A crash left the array with writes in its journals that can't be replayed, because it is
    /// open for reading only: what is not there can't be told from redundancy.
    pub(crate) unreplayed: bool,
    /// What is read is believed, whatever its checksum: a replay would tell which are out of date.
    pub(crate) believes: bool,
    pub(crate) trust_unsettled: bool,
    pub(crate) policy: &'static Policy,
    pub(crate) read_policy: &'static ReadPolicy,
    pub(crate) limits: Limits,
    pub(crate) scratch: BufferId,
    pub(crate) metadata_buffer: MetadataBuffer,
    pub(crate) members: Vec<MemberInfo>,
    /// Positions without a device.
    pub(crate) missing: MemberSet,
    /// Those, and positions whose device is still being filled.
    pub(crate) lost: MemberSet,
    /// Members that no read goes straight to: something is the matter with some of their places.
    pub(crate) indirect: MemberSet,
    /// When the input came that is being dealt with.
    pub(crate) now: Instant,
    pub(crate) faults: Faults,
    pub(crate) bad: BadList,
    pub(crate) slow: Slow,
    pub(crate) hedges: Hedges,
    pub(crate) flushes: Flushes,
    pub(crate) requests: Vec<RequestSlot>,
    pub(crate) free_requests: Vec<u32>,
    pub(crate) columns: Vec<Column>,
    /// How many columns of `Owner::Answered` there are.
    pub(crate) answered: u32,
    pub(crate) groups: Vec<Group>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) free_columns: Vec<u32>,
    pub(crate) free_job_columns: Vec<u32>,
    /// Requests that have blocks left to hand out and wait for a column, in order.
    pub(crate) stalled: VecDeque<u32>,
    /// Columns that can go on.
    pub(crate) ready: VecDeque<u32>,
    /// Columns that wait for a superblock update.
    pub(crate) gated: VecDeque<u32>,
    pub(crate) locks: Locks,
    pub(crate) outputs: VecDeque<Output>,
    /// Room for all that one input can cause: `outputs` never grows beyond it.
    outputs_max: usize,
    pub(crate) metadata: Metadata,
    pub(crate) regions: Regions,
    pub(crate) first_touch: FirstTouch,
    pub(crate) zeroing: Zeroing,
    /// The bitmaps, while they are being read.
    pub(crate) loading: Option<Loading>,
    /// False until what was found at opening is durable: a degraded array does not serve before.
    pub(crate) serving: bool,
    pub(crate) journal: Option<Journal>,
    /// What the journals hold after a crash is being carried out again.
    pub(crate) replay: Option<Replay>,
    /// The pages of checksums in memory, where blocks have checksums.
    pub(crate) pages: Option<Pages>,
    /// Of blocks that are written, or were read, for each column.
    pub(crate) checksums: Vec<u32>,
    /// How many each column has.
    pub(crate) checksums_of_column: usize,
    /// Of rows whose parity is written, for each column; and how many each has.
    pub(crate) row_sums: Vec<Option<RowSum>>,
    pub(crate) row_sums_of_column: usize,
    /// How long an operation may be that goes straight to a member.
    pub(crate) direct_blocks_max: u32,
    /// How long a column may be that needs no scratch space, and one that writes only zeros.
    pub(crate) unscratched_blocks_max: u32,
    pub(crate) zeros_blocks_max: u32,
    /// Whether a crash may leave a block torn.
    pub(crate) tears: bool,
    /// Flushes of the opening under way.
    pub(crate) opening_flushes: u32,
    pub(crate) jobs: Jobs,
    pub(crate) rebuild: Rebuild,
    pub(crate) replace: Replace,
    pub(crate) grow: Grow,
    /// The array gets larger with the first superblocks that are written.
    pub(crate) extension: Option<Extension>,
    pub(crate) scrub: ScrubState,
    /// Whether redundancy agrees with data everywhere.
    pub(crate) all_settled: bool,
    pub(crate) closing: Closing,
    pub(crate) reads_chosen: u64,
    #[cfg(feature = "canary")]
    mutation: Mutation,
}

impl Engine {
    /// Opens an array on members that are there, or says why not. Begins a resync where one is
    /// due, and records newly missing members before anything is served: drain the outputs.
    pub fn open(now: Instant, config: Config) -> Result<Self, OpenError> {
        let geometry = config.geometry;
        let count = geometry.members();
        let missing = config.missing;
        assert_eq!(
            config.data_start.len(),
            usize::from(count),
            "a data start for every member"
        );
        assert!(
            missing.difference(MemberSet::all(count)).is_empty(),
            "missing members exist"
        );
        assert!(config.limits.requests > 0 && config.limits.columns > 0);
        assert!(config.limits.column_blocks > 0);
        let rebuilding = (config.persistence.as_ref())
            .map_or(MemberSet::EMPTY, |persistence| {
                persistence.array.rebuilding()
            })
            .difference(missing);
        let lost = missing.union(rebuilding);
        if !geometry.survives(lost) {
            return Err(OpenError::BeyondTolerance { missing: lost });
        }
        let parity = geometry.parity_chunks() > 0;
        let array = config.persistence.as_ref().map(|it| &*it.array);
        let sums = array.is_some_and(|array| array.checksum != ChecksumKind::None);
        // Whether a crash leaves something to be put in order.
        let delicate = geometry.redundancy() > 0 || sums;
        let clean = config.clean || !delicate || !config.consistency.resync_after_crash;

        let shape = Shape::whole(&geometry);
        let members = (0..count)
            .map(MemberIndex)
            .map(|member| MemberInfo {
                index: member,
                state: if missing.contains(member) {
                    Member::Missing { reason: None }
                } else {
                    Member::Active
                },
                filled_from_start: Place::default(),
                data_start: config.data_start[usize::from(member.0)],
                load: MemberLoad {
                    write_mostly: config.write_mostly.contains(member),
                    ..MemberLoad::default()
                },
            })
            .collect();
        let redundancy = shape.slots > shape.data;
        let hedges = Hedges::new(&config.limits, config.faults, count, redundancy, now);
        let client_columns = config.limits.columns + hedges.columns;
        let all_columns = client_columns + JOB_COLUMNS;
        // What a column does, and two pages of checksums for each of that.
        let outputs_max = index(all_columns) * (3 * usize::from(shape.slots.max(count)) + 1)
            + index(config.limits.requests)
            + usize::from(count) * 16
            + 16;
        let operands_per_column = 2 * usize::from(shape.slots) + 8;
        let mut metadata_buffer = MetadataBuffer::new(config.metadata, config.block_size, count);
        let superblocks = match config.persistence {
            Some(_) => metadata_buffer.reserve(count, superblock_blocks(config.block_size)),
            None => metadata_buffer.reserve(0, 0),
        };
        let stored = array.is_some_and(|array| array.region_groups > 0);
        let (part, older) = growth::parts(array, &geometry);
        let extends = config.persistence.as_ref().and_then(|it| it.extends);
        let region_count = Regions::count(&part, older.as_ref())
            .max(extends.as_ref().map_or(0, Extent::regions_end));
        let bitmaps = BITMAPS.map(|_| {
            let buffer = &mut metadata_buffer;
            Bitmap::new(region_count, stored, config.block_size, buffer)
        });
        let loading = stored
            .then(|| Loading::new(count, region_count, config.block_size, &mut metadata_buffer));
        let bad = BadList::new(
            config.persistence.as_ref(),
            config.block_size,
            &mut metadata_buffer,
        );
        let regions = Regions::new(part, older, stored, !clean, bitmaps, config.limits.requests);
        let journal = config.persistence.as_ref().and_then(|persistence| {
            let wants = config.consistency.write_hole;
            Journal::new(
                persistence,
                wants,
                parity,
                config.block_size,
                all_columns,
                &mut metadata_buffer,
            )
        });
        // Whether the journals tell what the crash left undone.
        let logged = !clean
            && journal
                .as_ref()
                .is_some_and(|journal| journal.record.tail > 0);
        let replays = logged && !config.read_only;
        // Where blocks have no checksums all that is written is logged, if anything is.
        let all_logged =
            logged && !sums && geometry.older().is_none_or(|old| old.parity_chunks() > 0);
        let needed = match (geometry.older(), geometry.mark()) {
            // What was added has no part yet.
            (Some(old), Some(BlockIndex(0))) => MemberSet::all(old.members()),
            _ => MemberSet::all(count),
        };
        let doubtful = lost.difference(MemberSet::all(count).difference(needed));
        if !clean && !logged && parity && !doubtful.is_empty() && !config.force {
            return Err(OpenError::UncleanDegraded { missing: doubtful });
        }
        let mut limits = config.limits;
        if let Some(journal) = &journal {
            limits.column_blocks = limits.column_blocks.min(journal.column_blocks_max());
        }
        let pages = config.persistence.as_ref().and_then(|persistence| {
            let (slots, pages) = (shape.slots, config.limits.checksum_pages);
            let buffer = &mut metadata_buffer;
            let block_size = config.block_size;
            Pages::new(persistence, block_size, slots, all_columns, pages, buffer)
        });
        // What was read, what was recovered and computed, and what is to be written.
        let slots_max = 2 * (usize::from(shape.slots) + usize::from(geometry.redundancy()));
        let sums_of_rows = slots_max * index(limits.column_blocks);
        let checksums_of_column = match (&pages, &journal) {
            (Some(_), _) => sums_of_rows.max(SUMS_MIN),
            (None, Some(_)) => usize::from(shape.slots) * index(limits.column_blocks),
            (None, None) => 0,
        };
        let row_sums_of_column = match pages {
            Some(_) if !shape.copies => index(limits.column_blocks),
            _ => 0,
        };
        let sums_max = u32::try_from(checksums_of_column).expect("some pages of them");
        let logged_max = journal
            .as_ref()
            .map_or(ROWS_MAX, Journal::column_blocks_max);
        let grow = {
            let (persistence, block_size) = (config.persistence.as_ref(), config.block_size);
            Grow::new(persistence, &geometry, block_size, &mut metadata_buffer)
        };
        let mut engine = Self {
            direct_blocks_max: match pages {
                Some(_) => sums_max.min(ROWS_MAX),
                None => u32::MAX,
            },
            unscratched_blocks_max: match pages {
                Some(_) => sums_max.min(ROWS_MAX).min(logged_max),
                None => u32::MAX,
            },
            zeros_blocks_max: match pages {
                Some(_) => ROWS_MAX.min(logged_max),
                None => u32::MAX,
            },
            pages,
            journal,
            replay: None,
            checksums: vec![0; index(all_columns) * checksums_of_column],
            checksums_of_column,
            row_sums: vec![None; index(all_columns) * row_sums_of_column],
            row_sums_of_column,
            shape,
            block_size: config.block_size,
            tears: config.tears,
            read_only: config.read_only,
            only_recovers: config.only_recovers,
            unreplayed: logged && config.read_only && !config.look_only,
            believes: !clean && sums && config.look_only,
            trust_unsettled: config.force,
            policy: config.consistency,
            read_policy: config.read_policy,
            limits,
            scratch: config.scratch,
            metadata_buffer,
            members,
            missing,
            lost,
            indirect: MemberSet::EMPTY,
            now,
            faults: Faults::new(config.faults, count),
            bad,
            slow: Slow::new(config.faults, count),
            grow,
            extension: extends.as_ref().map(Extension::new),
            // And one for the array's own, and those of hedges.
            requests: vec![
                RequestSlot::free();
                index(config.limits.requests) + 1 + index(hedges.most())
            ],
            free_requests: (0..config.limits.requests).rev().collect(),
            columns: vec![Column::free(shape); index(all_columns)],
            answered: 0,
            groups: vec![Group::empty(); index(all_columns)],
            operands: vec![
                Operand {
                    index: 0,
                    slice: BufferSlice::NONE
                };
                index(all_columns) * operands_per_column
            ],
            free_columns: (0..client_columns).rev().collect(),
            free_job_columns: (client_columns..all_columns).rev().collect(),
            stalled: VecDeque::with_capacity(index(config.limits.requests + hedges.most())),
            hedges,
            flushes: Flushes::default(),
            ready: VecDeque::with_capacity(index(all_columns)),
            gated: VecDeque::with_capacity(index(all_columns)),
            locks: Locks::new(all_columns),
            outputs: VecDeque::with_capacity(outputs_max),
            outputs_max,
            metadata: Metadata::new(now, config.persistence, superblocks, !clean),
            regions,
            first_touch: FirstTouch::new(config.zeroes_without_moving_bytes),
            zeroing: Zeroing::new(region_count, count, all_columns),
            loading,
            serving: true,
            opening_flushes: 0,
            jobs: Jobs::new(config.job_rate),
            rebuild: Rebuild::default(),
            replace: Replace::new(region_count),
            scrub: ScrubState::default(),
            all_settled: clean || all_logged || config.read_only,
            closing: Closing::Open,
            reads_chosen: 0,
            #[cfg(feature = "canary")]
            mutation: config.mutation,
            geometry,
        };
        let persistence = engine.metadata.persistence.as_ref();
        if let Some(mark) = persistence.map(|persistence| persistence.array.scrub_mark) {
            engine.resume_scrub_mark(mark);
        }
        if engine.mutated(Mutation::SkipSettle) {
            engine.all_settled = true;
        }
        if !engine.all_settled && !stored {
            engine.begin_resync();
        }
        if replays {
            engine.replay = engine.new_replay();
        }
        engine.find_growth();
        engine.find_rebuilding();
        engine.serving = false;
        engine.load_bad_blocks();
        if engine.metadata.persistence.is_some() && !engine.read_only {
            engine.flush_at_opening();
            let changed = (engine.metadata.persistence.as_ref()).is_some_and(|it| it.changed);
            let begins = changed || engine.grow.begins();
            // Writes by itself, before anybody asks it to.
            let unfinished = !clean || !rebuilding.is_empty() || engine.geometry.older().is_some();
            if engine.missing_unrecorded() || begins || engine.journal_was_lost() || unfinished {
                engine.want_update();
            }
        }
        engine.try_to_serve();
        engine.pump(now);
        Ok(engine)
    }

    /// What was found may have been read from the members' caches, when only the process before
    /// ended: superblocks too. It is made durable before anything is built on it.
    fn flush_at_opening(&mut self) {
        if self.mutated(Mutation::SkipOpeningFlush) {
            return self.opening_goes_on();
        }
        self.opening_flushes =
            self.flush_active(Purpose::OpeningFlush) + self.flush_journal_at_opening();
    }

    pub(crate) fn opening_flushed(&mut self, member: MemberIndex, result: Result<(), MemberError>) {
        self.opening_flushes -= 1;
        match result {
            result if member == JOURNAL_DEVICE => self.log_failed(member, result),
            result => self.system_flush_failed(member, result),
        }
        self.opening_goes_on();
    }

    /// Goes on with what can be built on what was found at opening, when that is durable.
    pub(crate) fn opening_goes_on(&mut self) {
        if self.opening_flushes == 0 && self.loading.is_none() {
            self.extend();
            self.begin_update();
            self.begin_replay();
            if self.may_log() && self.replay.is_none() && !self.read_only {
                // A crash came before it could log, or what was logged is lost.
                self.journal_from_now_on();
            }
            self.try_to_serve();
        }
    }

    /// Serves, if everything of the opening is done.
    pub(crate) fn try_to_serve(&mut self) {
        self.serving |= self.opening_flushes == 0
            && self.loading.is_none()
            && self.replay.is_none()
            && !self.metadata.busy()
            && (!self.journal_undecided() || self.metadata.broken)
            && (self.bitmaps_are_stored() || self.metadata.broken)
            && self.bad_blocks_are_stored();
    }

    pub(crate) fn system_flush_failed(
        &mut self,
        member: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.nothing_more();
        }
    }

    /// Members that the superblocks say are being filled are so from there on.
    fn find_rebuilding(&mut self) {
        let Some(persistence) = self.metadata.persistence.as_ref() else {
            return;
        };
        for member in self.rebuilding().iter() {
            let at = usize::from(member.0);
            let MemberState::Rebuilding { mark, missed_since } = persistence.array.member[at].state
            else {
                panic!("member {member} is lost, there, and not rebuilding");
            };
            if missed_since > 0 {
                self.rebuild.returning = self.rebuild.returning.with(member);
            }
            self.members[at].state = Member::Rebuilding { mark };
            self.members[at].filled_from_start = self.place_of_mark(mark);
        }
        if !self.read_only && !self.only_recovers {
            self.resume_rebuild();
        }
    }

    /// Whether a member is missing that the superblocks count on.
    pub(crate) fn missing_unrecorded(&self) -> bool {
        self.metadata
            .persistence
            .as_ref()
            .is_some_and(|persistence| {
                self.missing.iter().any(|member| {
                    (persistence.array.member[usize::from(member.0)].state).takes_part()
                })
            })
    }

    /// Whether everything of the opening is done.
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Ends what `Config::look_only` began: from here on reads of blocks that wait for a replay fail.
    pub fn end_look(&mut self) {
        self.unreplayed |= self.believes && self.journal.is_some();
        self.believes = false;
    }

    /// Blocks of the scratch buffer that the driver must provide as `Config::scratch`.
    pub fn scratch_blocks(&self) -> u32 {
        let columns = u32::try_from(self.columns.len()).expect("columns are counted in 32 bits");
        (columns - self.first_with_scratch()) * self.scratch_rows() * self.limits.column_blocks
            + self.grow.buffer_blocks()
    }

    /// The first column with scratch space: where there is nothing to compute, jobs alone need some.
    pub(crate) fn first_with_scratch(&self) -> u32 {
        match self.shape.slots {
            1 => self.client_columns(),
            _ => 0,
        }
    }

    /// Rows of a column's scratch space: every chunk, and the parity it should have.
    pub(crate) fn scratch_rows(&self) -> u32 {
        match self.shape.slots {
            1 => 1,
            slots => {
                let parity = self.geometry.parity_chunks();
                let older = self.geometry.older().map_or(0, Geometry::parity_chunks);
                u32::from(slots) + u32::from(parity.max(older))
            }
        }
    }

    /// How many member I/Os one member can have in flight: what an array below must take.
    pub fn member_ios_per_member_max(&self) -> u32 {
        // Columns, a superblock, both bitmaps, bad blocks, zeros, and flushes of four kinds.
        let without = self.client_columns() + JOB_COLUMNS + 9;
        self.pages.as_ref().map_or(without, |_| 3 * without)
    }

    /// The map.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What the superblocks say, or are about to; `None` for an array without.
    pub fn record(&self) -> Option<&ArrayRecord> {
        let persistence = self.metadata.persistence.as_ref()?;
        Some(&persistence.array)
    }

    /// Whether write-zeroes moves no bytes on any member that is there.
    pub fn zeroes_without_moving_bytes(&self) -> bool {
        let members = MemberSet::all(self.geometry.members());
        self.first_touch.zeroes_on(members.difference(self.missing))
    }

    /// Whether a crash may leave a block torn.
    pub fn tears(&self) -> bool {
        self.tears
    }

    /// The addressing unit.
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    #[cfg(feature = "canary")]
    pub(crate) fn mutated(&self, fault: Mutation) -> bool {
        self.mutation == fault
    }

    #[cfg(not(feature = "canary"))]
    #[expect(clippy::unused_self, reason = "the same as with the feature")]
    #[inline]
    pub(crate) fn mutated(&self, _fault: Mutation) -> bool {
        false
    }

    /// Takes all that `request` will ever need, or nothing. Its reply comes as an output, which
    /// also tells what was wrong with it.
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<(), Busy> {
        self.assert_drained();
        self.now = now;
        self.take_request(request)?;
        self.pump(now);
        Ok(())
    }

    /// As `submit`. Where the request is a read, its answer may name other memory than the request
    /// (`Reply::exchanged`): the two change hands then, each as long as what was lent (`lend`).
    pub fn submit_exchangeable(&mut self, now: Instant, request: Request) -> Result<(), Busy> {
        self.hedges.exchanges = request.operation == Operation::Read;
        let taken = self.submit(now, request);
        self.hedges.exchanges = false;
        taken
    }

    /// A member I/O came back.
    pub fn complete_member(&mut self, now: Instant, id: MemberIoId, result: MemberResult) {
        self.assert_drained();
        self.now = now;
        if id.0 & (SYSTEM_IO | NEWCOMER) == 0 {
            let slot = u8::try_from(id.0 & ((1 << SLOT_BITS) - 1)).expect("six bits");
            self.column_io_done(id.0 >> SLOT_BITS, slot, result);
        } else if id.0 & SYSTEM_IO == 0 {
            self.written_beside(id, result);
        } else {
            self.system_io_done(id, result);
        }
        self.pump(now);
    }

    /// A step of computation came back.
    pub fn complete_compute(&mut self, now: Instant, id: StepId, result: ComputeResult) {
        self.assert_drained();
        self.now = now;
        self.column_computed(id.0, result);
        self.pump(now);
    }

    /// The moment asked for by `poll_timeout` has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.assert_drained();
        self.now = now;
        self.sweep(now);
        self.look_at_waiting();
        self.pump(now);
    }

    /// When the engine wants to be woken: while a job waits for the clients to be done, while
    /// regions are dirty that may become clean, and while reads wait at members.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sweep = (self.closing == Closing::Open)
            .then(|| self.regions.wake())
            .flatten();
        let all = [self.jobs.wake(), sweep, self.look_at()];
        all.into_iter().flatten().min()
    }

    /// Asks something of the running array.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.assert_drained();
        self.now = now;
        match command {
            Command::Close => {
                if self.closing == Closing::Open {
                    self.closing = Closing::Draining;
                    self.replace_closes();
                    self.rebuild.joining.clear();
                }
            }
            Command::Fail(member) => self.fail(member)?,
            Command::Rebuild {
                member,
                device,
                uuid,
            } => self.rebuild_onto(member, &device, uuid)?,
            Command::Return { member, device } => self.bring_back(member, &device)?,
            Command::Replace {
                member,
                device,
                uuid,
            } => self.replace_with(member, &device, uuid)?,
            Command::JobRate(rate) => self.jobs.throttle.rate = rate,
            Command::Scrub(scrub) => self.begin_scrub(scrub)?,
            Command::StopJob(name) => self.stop_on_command(name)?,
        }
        self.pump(now);
        Ok(())
    }

    fn fail(&mut self, member: MemberIndex) -> Result<(), CommandError> {
        if self.read_only {
            return Err(CommandError::ReadOnly);
        }
        if member.0 >= self.geometry.members() {
            return Err(CommandError::NoSuchMember);
        }
        if self.missing.contains(member) {
            return Err(CommandError::AlreadyOut);
        }
        if !self.geometry.survives(self.lost.with(member)) {
            return Err(CommandError::BeyondTolerance);
        }
        assert!(
            self.put_out(member, OutReason::Command),
            "the level survives it"
        );
        Ok(())
    }

    /// The next effect to carry out. To be called until `None` after every input.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The one contract of the callers.
    #[inline]
    fn assert_drained(&self) {
        assert!(
            self.outputs.is_empty(),
            "the outputs must be drained between two inputs"
        );
    }

    #[inline]
    pub(crate) fn output(&mut self, output: Output) {
        // Growing would be an allocation on the data path; the capacity covers the worst case. A
        // clone has to grow once.
        debug_assert!(self.outputs.len() < self.outputs_max);
        self.outputs.push_back(output);
    }

    /// Puts a member out after an error or on command. Whether the array goes on without it: if
    /// not, copies keep their last member, whose errors are answered one by one, and an array
    /// with parity has failed.
    pub(crate) fn put_out(&mut self, member: MemberIndex, reason: OutReason) -> bool {
        if self.missing.contains(member) {
            return self.geometry.survives(self.lost);
        }
        let was_filled = self.lost.contains(member);
        let lost = self.lost.with(member);
        let survives = self.geometry.survives(lost);
        if !survives && self.shape.copies {
            if let OutReason::Error(error) = reason {
                self.output(Output::Event(Event::MemberFault { member, error }));
            }
            return false;
        }
        self.members[usize::from(member.0)].step(MemberEvent::Out(reason));
        self.missing = self.missing.with(member);
        self.lost = lost;
        self.forget_faults(member);
        if let Some(pages) = &mut self.pages {
            pages.give_up(member);
        }
        if was_filled {
            self.rebuild_lost();
        }
        self.output(Output::Event(Event::MemberOut { member, reason }));
        self.replaced_is_out(member);
        if survives {
            self.want_update();
        } else {
            self.output(Output::Event(Event::ArrayFailed { missing: lost }));
            self.ready.append(&mut self.gated); // They may have waited for that to be recorded.
            self.journal_gives_up();
        }
        survives
    }

    /// Whether a member is out. What is still asked of it then was planned for the device that it had,
    /// and must not reach one that waits for its place: drivers answer that it is gone.
    pub fn is_out(&self, member: MemberIndex) -> bool {
        member.0 < self.geometry.members() && self.missing.contains(member)
    }

    /// The state of the array.
    pub fn state(&self) -> ArrayState {
        ArrayState::of(&self.geometry, self.lost)
    }

    /// Goes on with all that can go on.
    #[inline]
    pub(crate) fn pump(&mut self, now: Instant) {
        if !self.ready.is_empty()
            || !self.stalled.is_empty()
            || self.jobs.any()
            || self.holds_back()
            || self.closing != Closing::Open
            || self.pages.as_ref().is_some_and(Pages::wants_pump)
        {
            self.pump_all(now);
        }
    }

    // Apart, so that the look before it needs no stack.
    #[inline(never)]
    fn pump_all(&mut self, now: Instant) {
        loop {
            if let Some(column) = self.ready.pop_front() {
                self.run(column);
            } else if !self.advance_stalled()
                && !self.pump_repairs()
                && !self.pump_jobs(now)
                && !self.pump_joining()
                && !self.pump_waiting_for_pages()
                && !self.pump_replace()
                && !self.pump_grow()
            {
                break;
            }
        }
        self.pump_closing();
        self.write_pages();
    }

    fn idle(&self) -> bool {
        self.free_requests.len() == index(self.limits.requests)
            && !self.has_repairs()
            && self.is_quiet()
    }

    /// Whether nothing new is begun: before what was found at opening is durable, and while a
    /// device waits to take its position.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        !self.serving
            || !self.rebuild.joining.is_empty()
            || self.replace.holds_back()
            || self.grow.holds_back()
    }

    /// Whether nothing is under way on any member, although requests may wait.
    pub(crate) fn is_quiet(&self) -> bool {
        self.free_columns.len() + self.free_job_columns.len() == self.columns.len()
            && !self.metadata.busy()
            && self.opening_flushes == 0
            && self.loading.is_none()
            && self.zeroing.is_idle()
            && self.regions.sweep_is_idle()
            && self.bitmaps_are_quiet()
            && self.bad.is_quiet()
            && self.rebuild.is_quiet()
            && self.replace.is_quiet()
            && self.replay.is_none()
            && self.journal_is_idle()
            && self.pages.as_ref().is_none_or(Pages::is_quiet)
            && self.grow.is_quiet()
    }

    fn pump_closing(&mut self) {
        self.begin_closing();
        self.bits_cleared_while_closing();
        self.update_done_while_closing();
    }

    fn begin_closing(&mut self) {
        if self.closing != Closing::Draining || !self.idle() {
            return;
        }
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        if self.read_only || active.is_empty() {
            self.closed(false);
            return;
        }
        if self.mutated(Mutation::CloseUnflushed) {
            return self.mark_closed();
        }
        let pending = self.flush_active(Purpose::ClosingFlush);
        self.closing = Closing::Flushing { pending };
    }

    pub(crate) fn close_flushed(&mut self, member: MemberIndex, result: Result<(), MemberError>) {
        let Closing::Flushing { pending } = self.closing else {
            panic!("a flush of a close came back, and there is no close");
        };
        self.system_flush_failed(member, result);
        if pending > 1 {
            self.closing = Closing::Flushing {
                pending: pending - 1,
            };
            return;
        }
        self.mark_closed();
    }

    /// The last steps of a close: nothing is dirty any more, where that is so, and the array is
    /// marked clean where it is.
    fn mark_closed(&mut self) {
        self.clear_all_bits();
        self.closing = Closing::Clearing;
        self.write_bitmaps();
    }

    fn bits_cleared_while_closing(&mut self) {
        let done = self.bitmaps_are_stored() || self.metadata.broken;
        let done = done && self.bad_blocks_are_stored();
        if self.closing != Closing::Clearing || !done {
            return;
        }
        let clean = self.all_settled && !self.metadata.broken && self.state() != ArrayState::Failed;
        self.closing = Closing::Marking;
        if self.note_scrub_mark() {
            self.want_update();
        }
        if clean && self.metadata.dirty && self.metadata.persistence.is_some() {
            self.metadata.dirty = false;
            self.want_update();
        }
        if self.note_marks_at_close() {
            self.want_update();
        }
    }

    /// The last thing a close waits for is that superblock update, and whoever went out in it.
    fn update_done_while_closing(&mut self) {
        let quiet = !self.metadata.busy() && self.bitmaps_are_quiet() && self.bad.is_quiet();
        if self.closing == Closing::Marking && quiet {
            self.closed(!self.metadata.dirty && !self.metadata.broken);
        }
    }

    fn closed(&mut self, clean: bool) {
        self.closing = Closing::Closed;
        self.output(Output::Event(Event::Closed { clean }));
    }
}

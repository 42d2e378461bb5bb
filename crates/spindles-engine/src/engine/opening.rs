//! Opens an array. The state found on the members is completed and made durable before it serves.

use super::{Closing, Settings};
use crate::{
    Engine,
    agenda::Agenda,
    bad_blocks::BadList,
    bitmaps::Bitmap,
    checksums::{CHECKSUMS_MIN, Pages, ROWS_MAX},
    config::{Config, Limits, OpenError},
    consistency::WriteHole,
    durable::{DurableBlocks, Loading, OwnFlushes, transfer_blocks},
    extension::{Extension, Extent},
    faults::Faults,
    first_touch::FirstTouch,
    flushes::{Flushes, Rounds},
    growth,
    hedges::Hedges,
    index,
    inspection::Inspection,
    jobs::{JOB_RANGES, Jobs, grow::Grow, rebuild::Rebuild, replace::Replace, scrub::ScrubState},
    locks::Locks,
    log::Log,
    members::Members,
    metadata::{Metadata, superblock_blocks},
    mutation::Mutation,
    opening::Opening,
    outbox::Outbox,
    plan::Shape,
    regions::Regions,
    requests::Requests,
    settled::Settled,
    slow::Slow,
    staging::Staging,
    stripe::Ranges,
    system_io::{MetadataBuffer, Place, Purpose},
    waits::Waits,
    workspace::Workspace,
    zeroing::Zeroing,
};
use spindles_block::{BlockIndex, Instant, MemberSet};
use spindles_format::{ArrayRecord, BITMAPS, ChecksumKind, MemberState};

/// The state of an array as its superblocks and the present members show it.
#[derive(Clone, Copy, Debug)]
struct State {
    rebuilding: MemberSet,
    /// Members that are missing or being filled.
    lost: MemberSet,
    /// True if there is nothing to recover.
    clean: bool,
    /// True if blocks have checksums.
    sums: bool,
    /// True if the members keep bitmaps.
    stored: bool,
}

impl State {
    /// Returns the state, or the reason why the array can't be opened.
    fn of(config: &Config) -> Result<Self, OpenError> {
        let geometry = &config.geometry;
        let array = config.persistence.as_ref();
        let array = array.map(|persistence| &*persistence.array);
        let rebuilding = array.map_or(MemberSet::EMPTY, ArrayRecord::rebuilding);
        let rebuilding = rebuilding.difference(config.missing);
        let lost = config.missing.union(rebuilding);
        let staged = array.is_some_and(|array| array.staged);
        let may_fail = config.beyond_tolerance && config.clean && !staged;
        if !geometry.survives(lost) && !may_fail {
            return Err(OpenError::BeyondTolerance { missing: lost });
        }
        let sums = array.is_some_and(|array| array.checksum != ChecksumKind::None);
        // True if a crash may leave something to recover.
        let delicate = geometry.redundancy() > 0 || sums;
        Ok(Self {
            rebuilding,
            lost,
            clean: config.clean || !delicate || !config.consistency.resync_after_crash,
            sums,
            stored: array.is_some_and(|array| array.region_groups > 0),
        })
    }

    /// Returns an error if parity is in doubt that must reconstruct missing members. `logged` is
    /// true if the log records the writes that a crash interrupted.
    fn check_doubt(&self, config: &Config, logged: bool) -> Result<(), OpenError> {
        let geometry = &config.geometry;
        let all = MemberSet::all(geometry.members());
        let needed = match (geometry.older(), geometry.mark()) {
            // Added members hold nothing yet.
            (Some(old), Some(BlockIndex(0))) => MemberSet::all(old.members()),
            _ => all,
        };
        let doubtful = self.lost.difference(all.difference(needed));
        let parity = geometry.parity_chunks() > 0;
        if !self.clean && !logged && parity && !doubtful.is_empty() && !config.force {
            return Err(OpenError::UncleanDegraded { missing: doubtful });
        }
        Ok(())
    }
}

/// The rooms that keep metadata on members, and their common buffer.
struct Areas {
    buffer: MetadataBuffer,
    superblocks: Place,
    regions: Regions,
    region_count: u64,
    bad: BadList,
    loading: Option<Loading>,
    log: Log,
    pages: Option<Pages>,
    grow: Grow,
    inspection: Inspection,
}

impl Areas {
    fn new(config: &Config, state: &State, shape: Shape, ranges: u32) -> Self {
        let (geometry, block_size) = (&config.geometry, config.block_size);
        let persistence = config.persistence.as_ref();
        let count = geometry.members();
        let mut buffer = MetadataBuffer::new(config.metadata, block_size, count);
        let superblocks = match persistence {
            Some(_) => buffer.reserve(count, superblock_blocks(block_size)),
            None => buffer.reserve(0, 0),
        };
        let array = persistence.map(|persistence| &*persistence.array);
        let (part, older) = growth::parts(array, geometry);
        let extends = persistence.and_then(|persistence| persistence.extends);
        let region_count = Regions::count(&part, older.as_ref())
            .max(extends.as_ref().map_or(0, Extent::regions_end));
        let bitmaps = BITMAPS
            .map(|area| Bitmap::new(area, region_count, state.stored, block_size, &mut buffer));
        let read_at_once = |blocks: &DurableBlocks, buffer: &mut MetadataBuffer| {
            buffer.reserve(count, transfer_blocks(block_size, blocks.count()))
        };
        let bitmaps_read = (state.stored).then(|| read_at_once(bitmaps[0].blocks(), &mut buffer));
        let bad = BadList::new(persistence, block_size, &mut buffer);
        let list_read = (bad.is_kept()).then(|| read_at_once(bad.blocks_kept(), &mut buffer));
        let requests = config.limits.requests;
        let regions = Regions::new(part, older, state.stored, !state.clean, bitmaps, requests);
        let may_log = config.consistency.write_hole == WriteHole::Closed;
        let logs = may_log && geometry.parity_chunks() > 0;
        let log = Log::new(
            persistence,
            logs,
            block_size,
            &config.limits,
            ranges,
            &mut buffer,
        );
        let pages = persistence.and_then(|persistence| {
            let pages = config.limits.checksum_pages;
            Pages::new(
                persistence,
                block_size,
                shape.slots,
                ranges,
                pages,
                &mut buffer,
            )
        });
        let grow = Grow::new(persistence, geometry, block_size, &mut buffer);
        let inspection = Inspection::new(count, persistence.is_some(), block_size, &mut buffer);
        Self {
            buffer,
            superblocks,
            regions,
            region_count,
            bad,
            loading: Loading::new(list_read, bitmaps_read),
            log,
            pages,
            grow,
            inspection,
        }
    }

    /// Returns true if the log records the writes that the crash interrupted.
    fn has_log(&self, state: &State) -> bool {
        !state.clean && self.log.exists() && self.log.tail() > 0
    }

    /// Returns the limits, with stripe ranges that fit into the log.
    fn limits(&self, config: &Config) -> Limits {
        let logged_max = self.log.range_blocks_max().unwrap_or(u32::MAX);
        Limits {
            range_blocks: config.limits.range_blocks.min(logged_max),
            ..config.limits
        }
    }

    /// Reserves room for the computations of this many stripe ranges.
    fn workspace(&self, config: &Config, shape: Shape, ranges: u32) -> Workspace {
        let rows = index(self.limits(config).range_blocks);
        let slots = usize::from(shape.slots);
        let checksums = match (&self.pages, self.log.exists()) {
            // Checksums of blocks read, recovered, computed, or to be written.
            (Some(_), _) => {
                let slots_max = 2 * (slots + usize::from(config.geometry.redundancy()));
                (slots_max * rows).max(CHECKSUMS_MIN)
            }
            (None, true) => slots * rows,
            (None, false) => 0,
        };
        let row_sums = match self.pages {
            Some(_) if !shape.copies => rows,
            _ => 0,
        };
        Workspace::new(ranges, 2 * slots + 8, checksums, row_sums)
    }

    fn settings(&self, config: &Config, workspace: &Workspace) -> Settings {
        let checksums_max = u32::try_from(workspace.checksums_each()).expect("some pages of them");
        let logged_max = self.log.range_blocks_max().unwrap_or(ROWS_MAX);
        let longest = |with_checksums: u32| match self.pages {
            Some(_) => with_checksums.min(ROWS_MAX),
            None => u32::MAX,
        };
        Settings {
            block_size: config.block_size,
            read_only: config.read_only,
            wants_proof: config.read_only && !config.look_only,
            only_recovers: config.only_recovers || config.read_only,
            trust_unsettled: config.force,
            policy: config.consistency,
            read_policy: config.read_policy,
            limits: self.limits(config),
            scratch: config.scratch,
            direct_blocks_max: longest(checksums_max),
            unscratched_blocks_max: longest(checksums_max.min(logged_max)),
            zeros_blocks_max: longest(logged_max),
            tears: config.tears,
            #[cfg(feature = "canary")]
            mutation: config.mutation,
        }
    }
}

/// Panics if a configuration contradicts itself.
fn check(config: &Config) {
    let count = config.geometry.members();
    assert_eq!(
        config.data_start.len(),
        usize::from(count),
        "a data start for every member"
    );
    assert!(
        (config.missing)
            .difference(MemberSet::all(count))
            .is_empty(),
        "missing members exist"
    );
    assert!(config.limits.requests > 0 && config.limits.ranges > 0);
    assert!(config.limits.range_blocks > 0);
}

/// Returns the most outputs that one input can cause: the I/Os of all stripe ranges, with two pages
/// of checksums for each, and what the engine does by itself.
fn outputs_max(config: &Config, shape: Shape, ranges: u32) -> usize {
    let count = config.geometry.members();
    index(ranges) * (3 * usize::from(shape.slots.max(count)) + 1)
        + index(config.limits.requests)
        + usize::from(count) * 16
        + 16
}

impl Engine {
    /// Opens an array on the members that are present, or returns why not. Begins a resync if one
    /// is due, and records newly missing members before anything is served: drain the outputs.
    pub fn open(now: Instant, config: Config) -> Result<Self, OpenError> {
        check(&config);
        let state = State::of(&config)?;
        let shape = Shape::whole(&config.geometry);
        let redundancy = shape.slots > shape.data;
        let count = config.geometry.members();
        let hedges = Hedges::new(&config.limits, config.faults, count, redundancy, now);
        let ranges = Ranges::new(config.limits.ranges + hedges.ranges(), JOB_RANGES, shape);
        let areas = Areas::new(&config, &state, shape, ranges.count());
        let logged = areas.has_log(&state);
        state.check_doubt(&config, logged)?;
        let mut engine = Self::assembled(now, config, &state, areas, hedges, ranges);
        engine.begin_opening(&state, logged);
        engine.pump(now);
        Ok(engine)
    }

    /// Puts the rooms together.
    fn assembled(
        now: Instant,
        config: Config,
        state: &State,
        mut areas: Areas,
        hedges: Hedges,
        ranges: Ranges,
    ) -> Self {
        let (shape, count) = (Shape::whole(&config.geometry), ranges.count());
        let workspace = areas.workspace(&config, shape, count);
        let settings = areas.settings(&config, &workspace);
        let clients = count - JOB_RANGES;
        let scratch = settings.scratch(shape, &config.geometry, clients);
        let staging = Staging::new(&config, scratch.blocks(count), count, &mut areas.buffer);
        // Without checksums, a journal logs all writes if it logs any.
        let older = config.geometry.older();
        let all_logged =
            areas.has_log(state) && !state.sums && older.is_none_or(|old| old.parity_chunks() > 0);
        let extends = config.persistence.as_ref();
        let extends = extends.and_then(|persistence| persistence.extends);
        Self {
            members: Members::new(&config, state.lost),
            faults: Faults::new(config.faults, config.geometry.members()),
            slow: Slow::new(config.faults, config.geometry.members()),
            // One more for the array's own request, and those of hedges.
            requests: Requests::new(config.limits.requests, 1 + index(hedges.most())),
            outbox: Outbox::new(outputs_max(&config, shape, count)),
            agenda: Agenda::default(),
            first_touch: FirstTouch::new(config.zeroes_without_moving_bytes, config.thin),
            zeroing: Zeroing::new(areas.region_count, config.geometry.members(), count),
            jobs: Jobs::new(super::jobs::JOBS.len(), config.job_rate),
            replace: Replace::new(areas.region_count),
            metadata: Metadata::new(now, config.persistence, areas.superblocks, !state.clean),
            opening: Opening::Finding {
                loading: areas.loading,
                replay: None,
            },
            rounds: Rounds::new(index(count)),
            waits: Waits::new(index(count)),
            locks: Locks::new(count),
            geometry: config.geometry,
            log: areas.log,
            pages: areas.pages,
            bad: areas.bad,
            grow: areas.grow,
            regions: areas.regions,
            inspection: areas.inspection,
            metadata_buffer: areas.buffer,
            extension: extends.as_ref().map(Extension::new),
            flushes: Flushes::default(),
            own_flushes: OwnFlushes::default(),
            rebuild: Rebuild::default(),
            scrub: ScrubState::default(),
            settled: Settled::new(state.clean || all_logged, index(count)),
            lacks_space: false,
            closing: Closing::Open,
            reads_chosen: 0,
            shape,
            now,
            settings,
            staging,
            scratch,
            workspace,
            hedges,
            ranges,
        }
    }

    /// Begins to read the members' metadata, and to make the state found durable.
    fn begin_opening(&mut self, state: &State, logged: bool) {
        let persistence = self.metadata.persistence();
        if let Some(mark) = persistence.map(|persistence| persistence.array.scrub_mark) {
            self.scrub.resume_mark(mark);
        }
        if self.mutated(Mutation::SkipSettle)
            || self.mutated(Mutation::TrustEmptyJournal) && self.log.was_lost(&self.metadata)
        {
            self.settled.set_everywhere(true);
        }
        if !self.settled.everywhere() && !state.stored {
            self.begin_resync();
        }
        if logged {
            let replay = self.new_replay();
            self.opening.will_replay(replay);
        }
        self.metadata_buffer.provide();
        self.find_growth();
        self.find_rebuilding();
        self.read_areas();
        if let Some(persistence) = self.metadata.persistence() {
            let changed = persistence.changed;
            self.flush_at_opening();
            let begins = changed || self.grow.begins();
            // True if the engine writes by itself, before any client asks.
            let unfinished =
                !state.clean || !state.rebuilding.is_empty() || self.geometry.older().is_some();
            let unfinished = unfinished || self.metadata.is_staged_durable();
            if self.metadata.missing_unrecorded(&self.members)
                || begins
                || self.log.was_lost(&self.metadata)
                || unfinished
            {
                self.want_update();
            }
        }
        self.opening_goes_on();
    }

    /// Flushes all members, so that state found at opening is durable before the engine builds on
    /// it. If only the previous process ended, blocks and superblocks may have been read from the
    /// members' caches.
    fn flush_at_opening(&mut self) {
        self.flush_active(Purpose::OpeningFlush);
        self.flush_log_at_opening();
    }

    /// Continues the opening once everything found is loaded and durable.
    pub(crate) fn opening_goes_on(&mut self) {
        if !self.own_flushes.is_quiet(Purpose::OpeningFlush) || !self.opening.found() {
            return;
        }
        for member in self.members.missing().iter() {
            self.mark_bad_blocks(member);
        }
        self.write_bitmaps();
        self.extend();
        self.begin_update();
        self.begin_replay();
        if self.may_log() && self.opening.replay().is_none() {
            // The crash came before logging began, or the log is lost.
            self.log_from_now_on();
        }
        self.try_to_serve();
    }

    /// Begins to serve if the opening is complete.
    pub(crate) fn try_to_serve(&mut self) {
        let recorded = !self.metadata.busy()
            && (!self.log.is_undecided() || self.metadata.is_broken())
            && (self.bitmaps_are_stored() || self.metadata.is_broken())
            && self.bad_blocks_are_stored();
        if !self.opening.is_recording() || !recorded {
            return;
        }
        if self.loads_stage() {
            return self.load_goes_on();
        }
        if self.opening.is_recording() {
            self.opening.serve(); // Nothing that was loaded did so meanwhile.
        }
    }

    /// Takes members that are being filled, and their marks, from the superblocks.
    fn find_rebuilding(&mut self) {
        let Some(persistence) = self.metadata.persistence() else {
            return;
        };
        for member in self.members.being_filled().iter() {
            let at = usize::from(member.0);
            let MemberState::Rebuilding { mark, missed_since } = persistence.array.member[at].state
            else {
                panic!("member {member} is lost, there, and not rebuilding");
            };
            if missed_since > 0 {
                self.rebuild.returns(member);
            }
            let from = self.place_of_mark(mark);
            self.members.is_being_filled(member, mark, from);
        }
        if !self.settings.only_recovers {
            self.resume_rebuild();
        }
    }

    /// Returns true if the opening is complete.
    pub fn is_serving(&self) -> bool {
        self.opening.is_serving()
    }

    /// Ends `Config::look_only`: from here on reads of rows in doubt may fail.
    pub fn end_look(&mut self) {
        self.settings.wants_proof = self.settings.read_only;
    }
}

//! Opens an array. The state found on the members is completed and made durable before it serves.

use super::{Closing, MemberInfo};
use crate::{
    Engine, RangeId,
    bad_blocks::BadList,
    bitmaps::Bitmap,
    checksums::{CHECKSUMS_MIN, Pages, ROWS_MAX},
    config::{Config, OpenError},
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
    jobs::{
        JOB_RANGES, Jobs, Place, grow::Grow, rebuild::Rebuild, replace::Replace, scrub::ScrubState,
    },
    locks::Locks,
    log::Log,
    member::Member,
    metadata::{Metadata, superblock_blocks},
    mutation::Mutation,
    opening::Opening,
    plan::Shape,
    ranges::Ranges,
    read_policies::MemberLoad,
    regions::Regions,
    requests::RequestSlot,
    slow::Slow,
    system_io::{MetadataBuffer, Purpose},
    waits::Waits,
    zeroing::Zeroing,
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_block::{BlockIndex, BufferSlice, Instant, MemberIndex, MemberSet, Operand};
use spindles_format::{BITMAPS, ChecksumKind, MemberState};
use spindles_layout::Group;

impl Engine {
    /// Opens an array on the members that are present, or returns why not. Begins a resync if one
    /// is due, and records newly missing members before anything is served: drain the outputs.
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
        assert!(config.limits.requests > 0 && config.limits.ranges > 0);
        assert!(config.limits.range_blocks > 0);
        let rebuilding = (config.persistence.as_ref())
            .map_or(MemberSet::EMPTY, |persistence| {
                persistence.array.rebuilding()
            })
            .difference(missing);
        let lost = missing.union(rebuilding);
        let may_fail = config.beyond_tolerance && config.clean;
        if !geometry.survives(lost) && !may_fail {
            return Err(OpenError::BeyondTolerance { missing: lost });
        }
        let parity = geometry.parity_chunks() > 0;
        let array = config
            .persistence
            .as_ref()
            .map(|persistence| &*persistence.array);
        let sums = array.is_some_and(|array| array.checksum != ChecksumKind::None);
        // True if a crash may leave something to recover.
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
        let client_ranges = config.limits.ranges + hedges.ranges();
        let all_ranges = client_ranges + JOB_RANGES;
        // The I/Os of a stripe range, and two pages of checksums for each.
        let outputs_max = index(all_ranges) * (3 * usize::from(shape.slots.max(count)) + 1)
            + index(config.limits.requests)
            + usize::from(count) * 16
            + 16;
        let operands_per_range = 2 * usize::from(shape.slots) + 8;
        let mut metadata_buffer = MetadataBuffer::new(config.metadata, config.block_size, count);
        let superblocks = match config.persistence {
            Some(_) => metadata_buffer.reserve(count, superblock_blocks(config.block_size)),
            None => metadata_buffer.reserve(0, 0),
        };
        let stored = array.is_some_and(|array| array.region_groups > 0);
        let (part, older) = growth::parts(array, &geometry);
        let extends = config
            .persistence
            .as_ref()
            .and_then(|persistence| persistence.extends);
        let region_count = Regions::count(&part, older.as_ref())
            .max(extends.as_ref().map_or(0, Extent::regions_end));
        let bitmaps = BITMAPS.map(|area| {
            let buffer = &mut metadata_buffer;
            Bitmap::new(area, region_count, stored, config.block_size, buffer)
        });
        let read_at_once = |blocks: &DurableBlocks, buffer: &mut MetadataBuffer| {
            buffer.reserve(count, transfer_blocks(config.block_size, blocks.count()))
        };
        let bitmaps_read = stored.then(|| read_at_once(bitmaps[0].blocks(), &mut metadata_buffer));
        let bad = BadList::new(
            config.persistence.as_ref(),
            config.block_size,
            &mut metadata_buffer,
        );
        let list_read =
            (bad.is_kept()).then(|| read_at_once(bad.blocks_kept(), &mut metadata_buffer));
        let regions = Regions::new(part, older, stored, !clean, bitmaps, config.limits.requests);
        let log = Log::new(
            config.persistence.as_ref(),
            config.consistency.write_hole == WriteHole::Closed && parity,
            config.block_size,
            all_ranges,
            &mut metadata_buffer,
        );
        // True if the log records the writes that the crash interrupted.
        let logged = !clean && log.exists() && log.tail() > 0;
        // Without checksums, a journal logs all writes if it logs any.
        let all_logged =
            logged && !sums && geometry.older().is_none_or(|old| old.parity_chunks() > 0);
        let needed = match (geometry.older(), geometry.mark()) {
            // Added members hold nothing yet.
            (Some(old), Some(BlockIndex(0))) => MemberSet::all(old.members()),
            _ => MemberSet::all(count),
        };
        let doubtful = lost.difference(MemberSet::all(count).difference(needed));
        if !clean && !logged && parity && !doubtful.is_empty() && !config.force {
            return Err(OpenError::UncleanDegraded { missing: doubtful });
        }
        let mut limits = config.limits;
        if let Some(logged_max) = log.range_blocks_max() {
            limits.range_blocks = limits.range_blocks.min(logged_max);
        }
        let pages = config.persistence.as_ref().and_then(|persistence| {
            let (slots, pages) = (shape.slots, config.limits.checksum_pages);
            let buffer = &mut metadata_buffer;
            let block_size = config.block_size;
            Pages::new(persistence, block_size, slots, all_ranges, pages, buffer)
        });
        // Checksums of blocks read, recovered, computed, or to be written.
        let slots_max = 2 * (usize::from(shape.slots) + usize::from(geometry.redundancy()));
        let checksums_of_rows = slots_max * index(limits.range_blocks);
        let checksums_of_range = match (&pages, log.exists()) {
            (Some(_), _) => checksums_of_rows.max(CHECKSUMS_MIN),
            (None, true) => usize::from(shape.slots) * index(limits.range_blocks),
            (None, false) => 0,
        };
        let row_sums_of_range = match pages {
            Some(_) if !shape.copies => index(limits.range_blocks),
            _ => 0,
        };
        let checksums_max = u32::try_from(checksums_of_range).expect("some pages of them");
        let logged_max = log.range_blocks_max().unwrap_or(ROWS_MAX);
        let grow = {
            let (persistence, block_size) = (config.persistence.as_ref(), config.block_size);
            Grow::new(persistence, &geometry, block_size, &mut metadata_buffer)
        };
        let stored_members = config.persistence.is_some();
        let inspection = Inspection::new(
            count,
            stored_members,
            config.block_size,
            &mut metadata_buffer,
        );
        let mut engine = Self {
            direct_blocks_max: match pages {
                Some(_) => checksums_max.min(ROWS_MAX),
                None => u32::MAX,
            },
            unscratched_blocks_max: match pages {
                Some(_) => checksums_max.min(ROWS_MAX).min(logged_max),
                None => u32::MAX,
            },
            zeros_blocks_max: match pages {
                Some(_) => ROWS_MAX.min(logged_max),
                None => u32::MAX,
            },
            pages,
            log,
            checksums: vec![0; index(all_ranges) * checksums_of_range],
            checksums_of_range,
            row_sums: vec![None; index(all_ranges) * row_sums_of_range],
            row_sums_of_range,
            shape,
            block_size: config.block_size,
            tears: config.tears,
            read_only: config.read_only,
            wants_proof: config.read_only && !config.look_only,
            only_recovers: config.only_recovers || config.read_only,
            unreplayed: false,
            lacks_space: false,
            unplaced: Some(Vec::with_capacity(index(all_ranges))),
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
            // One more for the array's own request, and those of hedges.
            requests: vec![
                RequestSlot::free();
                index(config.limits.requests) + 1 + index(hedges.most())
            ],
            free_requests: (0..config.limits.requests).rev().collect(),
            ranges: Ranges::new(all_ranges, shape),
            answered: 0,
            groups: vec![Group::empty(); index(all_ranges)],
            operands: vec![
                Operand {
                    index: 0,
                    slice: BufferSlice::NONE
                };
                index(all_ranges) * operands_per_range
            ],
            free_ranges: (0..client_ranges).rev().map(RangeId).collect(),
            free_job_ranges: (client_ranges..all_ranges).rev().map(RangeId).collect(),
            backlog: VecDeque::with_capacity(index(config.limits.requests + hedges.most())),
            hedges,
            flushes: Flushes::default(),
            own_flushes: OwnFlushes::default(),
            rounds: Rounds::new(index(all_ranges)),
            ready: VecDeque::with_capacity(index(all_ranges)),
            waits: Waits::new(index(all_ranges)),
            locks: Locks::new(all_ranges),
            outputs: VecDeque::with_capacity(outputs_max),
            outputs_max,
            metadata: Metadata::new(now, config.persistence, superblocks, !clean),
            regions,
            first_touch: FirstTouch::new(config.zeroes_without_moving_bytes, config.thin),
            zeroing: Zeroing::new(region_count, count, all_ranges),
            opening: Opening::Finding {
                loading: Loading::new(list_read, bitmaps_read),
                replay: None,
            },
            jobs: Jobs::new(super::jobs::JOBS.len(), config.job_rate),
            rebuild: Rebuild::default(),
            replace: Replace::new(region_count),
            scrub: ScrubState::default(),
            inspection,
            all_settled: clean || all_logged,
            closing: Closing::Open,
            reads_chosen: 0,
            #[cfg(feature = "canary")]
            mutation: config.mutation,
            geometry,
        };
        let persistence = engine.metadata.persistence();
        if let Some(mark) = persistence.map(|persistence| persistence.array.scrub_mark) {
            engine.resume_scrub_mark(mark);
        }
        if engine.mutated(Mutation::SkipSettle) {
            engine.all_settled = true;
        }
        if engine.mutated(Mutation::TrustEmptyJournal) && engine.journal_was_lost() {
            engine.all_settled = true;
        }
        if !engine.all_settled && !stored {
            engine.begin_resync();
        }
        if logged {
            let replay = engine.new_replay();
            engine.opening.will_replay(replay);
        }
        engine.metadata_buffer.provide();
        engine.find_growth();
        engine.find_rebuilding();
        engine.read_areas();
        if engine.metadata.persistence().is_some() {
            engine.flush_at_opening();
            let changed =
                (engine.metadata.persistence()).is_some_and(|persistence| persistence.changed);
            let begins = changed || engine.grow.begins();
            // True if the engine writes by itself, before any client asks.
            let unfinished = !clean || !rebuilding.is_empty() || engine.geometry.older().is_some();
            if engine.missing_unrecorded() || begins || engine.journal_was_lost() || unfinished {
                engine.want_update();
            }
        }
        engine.opening_goes_on();
        engine.pump(now);
        Ok(engine)
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
        for member in self.missing.iter() {
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
        if self.opening.is_recording() && recorded {
            self.opening.serve();
        }
    }

    /// Takes members that are being filled, and their marks, from the superblocks.
    fn find_rebuilding(&mut self) {
        let Some(persistence) = self.metadata.persistence() else {
            return;
        };
        for member in self.rebuilding().iter() {
            let at = usize::from(member.0);
            let MemberState::Rebuilding { mark, missed_since } = persistence.array.member[at].state
            else {
                panic!("member {member} is lost, there, and not rebuilding");
            };
            if missed_since > 0 {
                self.rebuild.returns(member);
            }
            self.members[at].state = Member::Rebuilding { mark };
            self.members[at].filled_from_start = self.place_of_mark(mark);
        }
        if !self.only_recovers {
            self.resume_rebuild();
        }
    }

    /// Returns true if a member is missing on which the superblocks count.
    pub(crate) fn missing_unrecorded(&self) -> bool {
        self.metadata.persistence().is_some_and(|persistence| {
            self.missing
                .iter()
                .any(|member| (persistence.array.member[usize::from(member.0)].state).takes_part())
        })
    }

    /// Returns true if the opening is complete.
    pub fn is_serving(&self) -> bool {
        self.opening.is_serving()
    }

    /// Ends `Config::look_only`: from here on reads of rows in doubt may fail.
    pub fn end_look(&mut self) {
        self.wants_proof = self.read_only;
    }
}

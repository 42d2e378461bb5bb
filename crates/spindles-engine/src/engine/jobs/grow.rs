//! Grows an array, a window at a time. A window is read through the old map and written to the
//! members' headroom, laid out by the new map. From there on it belongs to the new map.
//!
//! ```text
//!  Idle ──its turn──▶ Waiting ──nothing is under way──▶ Readying ──▶ Reading ──▶ Staging
//!   ▲ ▲                  │ nothing was written there                               │
//!   │ └──Marking ◀───────┘                                     (Checksumming) flushed, recorded
//!   │      ▲                                                                       ▼
//!   │      └──flushed── Placing ◀──after a crash── Rereading ◀─(Loading)─opened──       (Placing)
//!  Stuck: unreadable blocks stay in their places
//! ```
//!
//! Clients wait while a window is moved, so no other code has to handle a half-moved window. Until
//! the superblocks durably record that the window is *staged*, the old map is valid, and no block
//! of it is overwritten. From then on the new map is valid, even if the places are half-written:
//! the headroom has their new contents, with the redundancy of the new map. On both sides of that
//! moment the array survives the loss of as many members as the map allows.
//!
//! A window is moved by a request of the array's own, which goes the way that all requests go. It
//! uses a slot that clients don't get, and a buffer behind the stripe ranges' scratch space.

use super::Job;
use crate::{
    Engine, RangeId,
    engine::Closing,
    growth::parts,
    hedges::Pairing,
    index,
    jobs::{
        Place, Walk,
        grow::{Stage, page_blocks, pages_of_checksums},
    },
    output::{Event, OutReason, Output},
    plan::{Ask, Shape},
    requests::RequestSlot,
    status::GrowthStatus,
    system_io::{Place as MetadataPlace, Purpose},
};
use core::ops::Range;
use spindles_block::{
    BlockIndex, BufferSlice, MemberError, MemberIndex, MemberResult, Operation, RequestError,
};
use spindles_format::{CHECKSUM_PAGE_BYTES, Entries, PageParts, open_checksums, seal_checksums};
use spindles_layout::GroupIndex;

pub(crate) static JOB: Job = Job {
    name: "grow",
    about: "moves an array to more members, another chunk size or another level",
    ask: Ask::Read,
    next_group: |engine, _| engine.next_to_move(),
    advanced: |_| {},
    ended: |_: &mut Engine, _: Walk| {},
    stopped: None,
    waits: None,
    turn: Some(Engine::begin_window),
};

impl Engine {
    /// Returns true if the array grows.
    pub fn is_growing(&self) -> bool {
        self.geometry.older().is_some()
    }

    /// Returns the progress of the growth; `None` if the array does not grow.
    pub(crate) fn growth_status(&self) -> Option<GrowthStatus> {
        let block_bytes = u64::from(self.settings.block_size.bytes());
        self.growth().map(|(mark, blocks)| GrowthStatus {
            done_bytes: mark.0 * block_bytes,
            total_bytes: blocks * block_bytes,
            stuck: self.grow.stage == Stage::Stuck,
        })
    }

    /// Returns the block up to which the array is moved, and its number of blocks; `None` if it
    /// does not grow.
    pub fn growth(&self) -> Option<(BlockIndex, u64)> {
        let (mark, blocks) = (self.geometry.mark()?, self.geometry.blocks());
        Some((mark.min(BlockIndex(blocks)), blocks))
    }

    /// Returns the redundancy groups that lie in the members' headroom instead of their places.
    pub fn staged_groups(&self) -> Range<u64> {
        self.grow.staged.clone()
    }

    /// Returns the request slot that clients don't get.
    pub(crate) fn own_request(&self) -> u32 {
        self.settings.limits.requests
    }

    /// Returns true if a stripe range is a write of staged blocks in a window that can't be moved.
    /// Members keep the checksums of the staged contents, so a later write would look like rot
    /// after a crash.
    pub(crate) fn refuses_staged_write(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        range.ask == Ask::Write
            && self.grow.stage == Stage::Stuck
            && self.grow.is_staged(range.group)
            && self.has_checksums()
    }

    /// Finds a growth at opening, when the maps are known: staged blocks belong to the new map.
    pub(crate) fn find_growth(&mut self) {
        let Some(older) = self.grow.record.older else {
            return;
        };
        self.grow.buffer = BufferSlice {
            buffer: self.settings.scratch,
            first_block: self.scratch_blocks() - self.grow.buffer_blocks,
        };
        let end = older.mark.0 + u64::from(older.staged_blocks);
        if older.staged_blocks > 0 {
            self.grow.window = older.mark.0..end;
            self.enter_window();
        }
        self.regions.set_live(self.geometry.live_groups());
        self.jobs.begin(&JOB, Place::default());
    }

    /// Clears the bits of the new map when the growth begins: earlier values mean nothing.
    pub(crate) fn blank_new_regions(&mut self) {
        if !self.grow.begins() {
            return;
        }
        self.regions.blank();
    }

    /// Returns the group where the walk of the job stands: all groups below use the new map.
    fn next_to_move(&self) -> GroupIndex {
        match self.geometry.older() {
            Some(_) => GroupIndex(self.geometry.live_groups()[0].end),
            None => GroupIndex(u64::MAX),
        }
    }

    /// Returns true if the next window may begin: redundancy is settled, and the new map can be
    /// used.
    fn may_grow(&self) -> bool {
        self.grow.stage == Stage::Idle
            && self.all_settled
            && !self.settings.only_recovers
            && !self.grow.lacks_added(&self.geometry, &self.members)
    }

    /// Begins a window, if it may. Called when it is the job's turn.
    fn begin_window(&mut self) -> bool {
        if !self.may_grow() {
            return false;
        }
        let bytes = u64::from(self.grow.window_rows(&self.geometry))
            * u64::from(self.settings.block_size.bytes());
        self.jobs.throttle.gone(self.now, bytes);
        self.grow.stage = Stage::Waiting;
        true
    }

    /// Takes the steps of a growth that no I/O result triggers. Returns true if a step was taken.
    pub(crate) fn pump_grow(&mut self) -> bool {
        match self.grow.stage {
            // An added member may have gone out while this waited.
            Stage::Waiting
                if self.closing != Closing::Open
                    || self.grow.lacks_added(&self.geometry, &self.members) =>
            {
                self.grow.stage = Stage::Idle;
                true
            }
            Stage::Waiting if self.is_alone() => {
                self.choose_window();
                true
            }
            Stage::Found if self.is_alone() => {
                self.load_staged_checksums();
                true
            }
            Stage::Readying => self.regions_are_ready(),
            Stage::Reading | Stage::Staging | Stage::Rereading | Stage::Placing => {
                let own = self.own_request();
                !self.requests[own].is_handed_out()
                    && self.ranges.free_count() > index(self.hedges.kept_ranges())
                    && self.advance(own)
            }
            _ => false,
        }
    }

    /// Returns true if nothing else is under way, and no request is in the middle of a group.
    fn is_alone(&self) -> bool {
        let midway = (self.requests.first_waiting())
            .is_some_and(|request| self.requests[request].is_midway());
        self.opening.is_serving() && !self.rebuild.somebody_joins() && !midway && self.is_quiet()
    }

    /// Makes the window part of the new map. It lies in the headroom.
    fn enter_window(&mut self) {
        let stripe = self.geometry.stripe_blocks();
        let Range { start, end } = self.grow.window;
        self.grow.staged = start / stripe..end / stripe;
        self.grow.first_row = start / u64::from(self.geometry.data_chunks());
        self.enter(end);
    }

    /// Extends the new map up to `end`.
    fn enter(&mut self, end: u64) {
        self.geometry.set_mark(BlockIndex(end));
        self.regions.set_live(self.geometry.live_groups());
    }

    /// Chooses the next window. If nothing was written before the next written region, skips to
    /// there without moving anything.
    fn choose_window(&mut self) {
        let from = self.geometry.mark().expect("it grows").0;
        let (end, unit) = (
            self.regions.growth_end(&self.geometry),
            self.geometry.growth_unit(),
        );
        let unit = unit.expect("it grows");
        let new = GroupIndex(self.geometry.live_groups()[0].end);
        let held = self.regions.holds(self.regions.of(new));
        let old = GroupIndex(self.geometry.live_groups()[1].start);
        let next = self.regions.next_written(old);
        let empty = if next.0 < self.geometry.groups() {
            self.geometry.blocks_before(next) / unit * unit
        } else {
            end
        };
        if !held && empty > from {
            self.enter(empty);
            return self.mark(empty);
        }
        let blocks = u64::from(self.grow.window_rows(&self.geometry))
            * u64::from(self.geometry.data_chunks());
        self.grow.window = from..(from + blocks).min(end);
        self.grow.stage = Stage::Readying;
        for region in self.window_regions() {
            if !self.regions.holds(region) {
                self.want_zeroing(region);
            }
        }
    }

    /// Returns the regions that the window will be in.
    fn window_regions(&self) -> Range<u64> {
        let stripe = self.geometry.stripe_blocks();
        let of = |block: u64| self.regions.of(GroupIndex(block / stripe));
        of(self.grow.window.start)..of(self.grow.window.end - 1) + 1
    }

    fn regions_are_ready(&mut self) -> bool {
        if self.metadata.is_broken() {
            self.get_stuck();
            return true;
        }
        let mut regions = self.window_regions();
        let ready =
            self.zeroing.is_idle() && regions.all(|region| self.regions.durably_holds(region));
        if ready {
            self.grow.stage = Stage::Reading;
            self.ask_own(Operation::Read);
        }
        ready
    }

    /// Submits a request of the array's own for the window.
    fn ask_own(&mut self, operation: Operation) {
        let own = self.own_request();
        let Range { start, end } = self.grow.window;
        let (block, end) = (BlockIndex(start), BlockIndex(end));
        self.requests[own] = RequestSlot::new(0, operation, block, end, self.grow.buffer);
        self.requests[own].pairing = Pairing::Own;
        self.advance(own);
    }

    /// Continues when the array's own request is done.
    pub(crate) fn own_request_done(&mut self, error: Option<RequestError>) {
        if error.is_some() {
            return self.get_stuck();
        }
        match self.grow.stage {
            // The old map is still valid: the window is moved when the devices are there.
            Stage::Reading if self.grow.lacks_added(&self.geometry, &self.members) => {
                self.grow.stage = Stage::Idle
            }
            Stage::Reading => {
                self.enter_window();
                self.grow.stage = Stage::Staging;
                self.ask_own(Operation::Write { fua: false });
            }
            Stage::Staging => self.checksum_staged(),
            Stage::Rereading => self.place(),
            Stage::Placing => {
                self.flush_active(Purpose::MovedFlush);
                self.grow.stage = Stage::Settling;
            }
            stage => panic!("a request of the array's own ended in stage {stage:?}"),
        }
    }

    // ---- checksums of staged blocks -------------------------------------------------------------

    /// Returns the format of the entries in pages of checksums.
    fn entries(&self) -> Entries {
        let pages = self.pages.as_ref().expect("blocks have checksums");
        pages.entries
    }

    /// Returns the location of a staged block's entry: the pages of its member, the bytes of the
    /// page, and the entry's place in the page. `offset` is the block's later place in the data
    /// area of its member.
    pub(crate) fn staged_entry(&self, offset: BlockIndex) -> (MetadataPlace, Range<usize>, usize) {
        let place = self.grow.sums.expect("blocks have checksums");
        let row = offset.0 - self.grow.first_row;
        let (page, at) = self.entries().find(row);
        let start = usize::try_from(page).expect("a window is short") * CHECKSUM_PAGE_BYTES;
        (place, start..start + CHECKSUM_PAGE_BYTES, at)
    }

    /// Returns the number of pages with the checksums of the current window, on each member.
    fn window_checksum_pages(&self) -> u32 {
        let Range { start, end } = self.grow.window;
        let rows = (end - start) / u64::from(self.geometry.data_chunks());
        pages_of_checksums(self.entries(), rows)
    }

    /// Writes the checksums of the staged blocks.
    fn checksum_staged(&mut self) {
        let active = self.present();
        let Some(place) = self.grow.sums else {
            return self.harden();
        };
        let persistence = self.metadata.persistence().expect("it grows");
        let (array, generation) = (persistence.array.uuid, self.metadata.generation());
        let pages = self.window_checksum_pages();
        self.grow.stage = Stage::Checksumming {
            pending: active.count(),
        };
        for member in active.iter() {
            let bytes = self.metadata_buffer.bytes_mut(place, member.0);
            for (number, page) in (0..pages.into()).zip(bytes.chunks_exact_mut(CHECKSUM_PAGE_BYTES))
            {
                seal_checksums(array, number, generation, page, PageParts::ALL);
            }
            self.staged_checksums_io(member, place, Operation::Write { fua: false });
        }
    }

    fn staged_checksums_io(
        &mut self,
        member: MemberIndex,
        place: MetadataPlace,
        operation: Operation,
    ) {
        let blocks = self.window_checksum_pages() * page_blocks(self.settings.block_size);
        // Behind the room for staged blocks.
        let start = self.grow.headroom[usize::from(member.0)].plus(self.grow.staging_rows);
        let buffer = self.metadata_buffer.slice(place, member.0);
        self.system_io(
            Purpose::GrowChecksums,
            member,
            operation,
            start,
            blocks,
            buffer,
        );
    }

    /// Loads the checksums of blocks that were found staged. The blocks are read again afterwards.
    fn load_staged_checksums(&mut self) {
        let Some(place) = self.grow.sums else {
            return self.reread();
        };
        let active = self.present();
        self.grow.stage = Stage::Loading {
            pending: active.count(),
        };
        for member in active.iter() {
            self.staged_checksums_io(member, place, Operation::Read);
        }
    }

    /// Handles the result of a write or read of the checksums of staged blocks on a member.
    pub(crate) fn staged_checksums_done(&mut self, member: MemberIndex, result: MemberResult) {
        let place = self.grow.sums.expect("blocks have checksums");
        let loads = matches!(self.grow.stage, Stage::Loading { .. });
        if loads {
            let persistence = self.metadata.persistence().expect("it grows");
            let array = persistence.array.uuid;
            let entries = self.entries();
            let bytes = self.metadata_buffer.bytes_mut(place, member.0);
            for (number, page) in (0..).zip(bytes.chunks_exact_mut(CHECKSUM_PAGE_BYTES)) {
                if result.is_ok() {
                    open_checksums(entries, array, number, page);
                } else {
                    entries.lose(page);
                }
            }
        }
        if let Err(error) = result
            && (!loads || error == MemberError::Gone)
            && !self.put_out(member, OutReason::Error(error))
        {
            self.stop_writing();
        }
        let (Stage::Checksumming { pending } | Stage::Loading { pending }) = &mut self.grow.stage
        else {
            panic!(
                "checksums of a window came back in stage {:?}",
                self.grow.stage
            );
        };
        *pending -= 1;
        if *pending > 0 {
            return;
        }
        if !loads {
            return self.harden();
        }
        self.reread();
    }

    /// Makes the staged blocks durable.
    fn harden(&mut self) {
        if self.writes_nothing() {
            return self.get_stuck();
        }
        self.flush_active(Purpose::StagedFlush);
        self.grow.stage = Stage::Hardening;
    }

    // ---- the moments that count -----------------------------------------------------------------

    pub(crate) fn grow_flushed(&mut self) {
        if self.writes_nothing() {
            return self.get_stuck();
        }
        match self.grow.stage {
            Stage::Hardening => self.record_staged(),
            Stage::Settling => self.moved(),
            stage => panic!("a flush came back in stage {stage:?}"),
        }
    }

    fn record_staged(&mut self) {
        let Range { start, end } = self.grow.window;
        let blocks = u32::try_from(end - start).expect("a window is short");
        let older = self.grow.record.older.as_mut().expect("it grows");
        older.staged_blocks = blocks;
        self.tell_growth(Stage::Recording);
    }

    /// Lets the superblocks record the progress of the growth.
    fn tell_growth(&mut self, stage: Stage) {
        self.grow.stage = stage;
        self.want_update();
        if self.metadata.is_broken() {
            self.growth_recorded(); // No superblock will be written.
        }
    }

    /// Continues when the superblocks have recorded the progress of the growth.
    pub(crate) fn growth_recorded(&mut self) {
        match self.grow.stage {
            Stage::Beginning | Stage::Recording | Stage::Marking if self.metadata.is_broken() => {
                self.get_stuck();
            }
            Stage::Beginning => self.grow.stage = Stage::Idle,
            Stage::Recording => self.place(),
            Stage::Marking => {
                self.grow.stage = Stage::Idle;
                if self.grow.record.older.is_none() {
                    self.grown();
                }
            }
            _ => {}
        }
    }

    /// Writes the window from the buffer to its places.
    fn place(&mut self) {
        self.grow.staged = 0..0;
        self.grow.stage = Stage::Placing;
        self.ask_own(Operation::Write { fua: false });
    }

    /// Reads the blocks that an earlier opening staged.
    fn reread(&mut self) {
        self.grow.stage = Stage::Rereading;
        self.ask_own(Operation::Read);
    }

    fn moved(&mut self) {
        self.mark(self.grow.window.end);
    }

    /// Lets the superblocks record that the new map is valid up to `end`.
    fn mark(&mut self, end: u64) {
        let older = self.grow.record.older.as_mut().expect("it grows");
        older.mark = BlockIndex(end);
        older.staged_blocks = 0;
        self.scrub.forget_mark();
        if end == self.regions.growth_end(&self.geometry) {
            self.grow.record.older = None;
            self.metadata.change_policy();
        }
        self.tell_growth(Stage::Marking);
    }

    /// Forgets the old map: everything is moved.
    fn grown(&mut self) {
        self.geometry = self.geometry.clone().grown();
        let array = self
            .metadata
            .persistence()
            .map(|persistence| &*persistence.array);
        let (part, older) = parts(array, &self.geometry);
        self.regions.set_parts(part, older);
        self.shape = Shape::whole(&self.geometry);
        self.ranges.set_shape(self.shape);
        let clients = self.client_ranges();
        self.scratch = (self.settings).scratch(self.shape, &self.geometry, clients);
        let blocks = self.geometry.blocks();
        self.outbox.put(Output::Event(Event::Grown { blocks }));
    }

    /// Gives up the window, which can't be moved. A durably staged window stays staged. Any other
    /// window keeps its old places.
    pub(crate) fn get_stuck(&mut self) {
        let older = self.grow.record.older;
        match self.grow.stage {
            Stage::Idle | Stage::Waiting | Stage::Stuck => return,
            Stage::Staging | Stage::Checksumming { .. } | Stage::Hardening => {
                // Nothing was overwritten.
                self.grow.staged = 0..0;
                self.enter(self.grow.window.start);
            }
            Stage::Placing | Stage::Settling => self.enter_window(),
            _ => {}
        }
        self.grow.stage = Stage::Stuck;
        self.jobs.stop(&JOB);
        let block = older.map_or(BlockIndex(0), |older| older.mark);
        self.outbox.put(Output::Event(Event::GrowthStuck { block }));
        if self.metadata.missing_unrecorded(&self.members) {
            self.want_update(); // The current map may need fewer members.
        }
    }
}

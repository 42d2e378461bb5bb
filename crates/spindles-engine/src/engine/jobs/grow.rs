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
    Engine,
    engine::Closing,
    growth::parts,
    index,
    jobs::{
        Place, Walk,
        grow::{Action, Context, Input, page_blocks},
    },
    output::{Event, OutReason, Output},
    plan::{Ask, Shape},
    status::GrowthStatus,
    system_io::Purpose,
};
use core::ops::Range;
use spindles_block::{BlockIndex, BufferSlice, MemberError, MemberIndex, MemberResult, Operation};
use spindles_format::{CHECKSUM_PAGE_BYTES, PageParts, open_checksums, seal_checksums};
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
    /// Returns the progress of the growth; `None` if the array does not grow.
    pub(crate) fn growth_status(&self) -> Option<GrowthStatus> {
        let block_bytes = u64::from(self.settings.block_size.bytes());
        self.growth().map(|(mark, blocks)| GrowthStatus {
            done_bytes: mark.0 * block_bytes,
            total_bytes: blocks * block_bytes,
            stuck: self.grow.is_stuck(),
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
        self.grow.staged()
    }

    /// Finds a growth at opening, when the maps are known: staged blocks belong to the new map.
    pub(crate) fn find_growth(&mut self) {
        if self.grow.record().older.is_none() {
            return;
        }
        let buffer = BufferSlice {
            buffer: self.settings.scratch,
            first_block: self.scratch_blocks() - self.grow.buffer_blocks(),
        };
        if let Some(end) = self.grow.find(buffer, &self.geometry) {
            self.geometry.set_mark(end);
        }
        self.regions.set_live(self.geometry.live_groups());
        self.jobs.begin(&JOB, Place::default());
    }

    /// Returns the group where the walk of the job stands: all groups below use the new map.
    fn next_to_move(&self) -> GroupIndex {
        match self.geometry.older() {
            Some(_) => GroupIndex(self.geometry.live_groups()[0].end),
            None => GroupIndex(u64::MAX),
        }
    }

    /// Begins a window, if redundancy is settled and the new map can be used. Called when it is the
    /// job's turn.
    fn begin_window(&mut self) -> bool {
        let may_begin = self.grow.is_idle()
            && self.settled.everywhere()
            && !self.settings.only_recovers
            && !self.grow.lacks_added(&self.geometry, &self.members);
        if may_begin {
            let rows = u64::from(self.grow.window_rows(&self.geometry));
            let bytes = rows * u64::from(self.settings.block_size.bytes());
            self.jobs.count_pace(self.now, bytes);
            self.step_growth(Input::Turn);
        }
        may_begin
    }

    /// Takes the steps of a growth that no I/O result triggers. Returns true if a step was taken.
    pub(crate) fn pump_grow(&mut self) -> bool {
        if self.grow.has_request() {
            let own = self.own_request();
            return !self.requests[own].is_handed_out()
                && self.ranges.free_count() > index(self.hedges.kept_ranges())
                && self.advance(own);
        }
        let input = if self.grow.is_waiting() && self.may_not_move() {
            Input::Closes
        } else if self.grow.waits_to_be_alone() && self.is_alone() {
            Input::Alone
        } else if self.grow.is_readying() && self.metadata.is_broken() {
            Input::Failed
        } else if self.grow.is_readying() && self.regions_are_ready() {
            Input::RegionsReady
        } else {
            return false;
        };
        self.step_growth(input);
        true
    }

    /// Returns true if a window that waits must not begin: an added member may have gone out.
    fn may_not_move(&self) -> bool {
        self.closing != Closing::Open || self.grow.lacks_added(&self.geometry, &self.members)
    }

    /// Returns true if nothing else is under way, and no request is in the middle of a group.
    fn is_alone(&self) -> bool {
        let midway = (self.requests.first_waiting())
            .is_some_and(|request| self.requests[request].is_midway());
        self.opening.is_serving() && !self.rebuild.somebody_joins() && !midway && self.is_quiet()
    }

    fn regions_are_ready(&self) -> bool {
        let mut regions = self.grow.window_regions(&self.geometry, &self.regions);
        self.zeroing.is_idle() && regions.all(|region| self.regions.durably_holds(region))
    }

    /// Hands an event to the growth, and does what it asks for.
    pub(crate) fn step_growth(&mut self, input: Input) {
        let context = Context {
            geometry: &self.geometry,
            members: &self.members,
            regions: &self.regions,
            writes_nothing: self.writes_nothing(),
            is_broken: self.metadata.is_broken(),
            present: self.present().count(),
        };
        let step = self.grow.step(input, &context);
        if let Some(end) = step.map_end {
            self.geometry.set_mark(end);
            self.regions.set_live(self.geometry.live_groups());
        }
        match step.action {
            Action::Wait => {}
            Action::Prepare => self.prepare_window(),
            Action::Ask(operation) => {
                let own = self.own_request();
                self.requests[own] = self.grow.request(operation);
                self.advance(own);
            }
            Action::Checksums(operation) => self.staged_checksums_io(operation),
            Action::Flush(purpose) => {
                self.flush_active(purpose);
            }
            Action::Record(moves_mark) => self.record_growth(moves_mark),
            Action::ForgetOldMap => self.forget_old_map(),
            Action::Stop => self.stop_growth(),
        }
    }

    fn prepare_window(&mut self) {
        for region in self.grow.window_regions(&self.geometry, &self.regions) {
            if !self.regions.holds(region) {
                self.want_zeroing(region);
            }
        }
    }

    /// Lets the superblocks record the progress of the growth.
    fn record_growth(&mut self, moves_mark: bool) {
        if moves_mark {
            self.scrub.forget_mark();
            if self.grow.record().older.is_none() {
                self.metadata.change_policy();
            }
        }
        self.want_update();
        if self.metadata.is_broken() {
            self.step_growth(Input::Recorded); // No superblock will be written.
        }
    }

    /// Continues when the array's own request is done.
    pub(crate) fn own_request_done(&mut self) {
        let own = self.own_request();
        self.step_growth(match self.requests[own].error {
            Some(_) => Input::Failed,
            None => Input::RequestDone,
        });
    }

    fn stop_growth(&mut self) {
        self.jobs.stop(&JOB);
        let block = self.grow.recorded_mark();
        self.outbox.put(Output::Event(Event::GrowthStuck { block }));
        if self.metadata.missing_unrecorded(&self.members) {
            self.want_update(); // The current map may need fewer members.
        }
    }

    /// Forgets the old map: everything is moved.
    fn forget_old_map(&mut self) {
        self.geometry = self.geometry.clone().grown();
        let persistence = self.metadata.persistence();
        let array = persistence.map(|persistence| &*persistence.array);
        let (part, older) = parts(array, &self.geometry);
        self.regions.set_parts(part, older);
        self.shape = Shape::whole(&self.geometry);
        self.ranges.set_shape(self.shape);
        let clients = self.client_ranges();
        self.scratch = (self.settings).scratch(self.shape, &self.geometry, clients);
        let blocks = self.geometry.blocks();
        self.outbox.put(Output::Event(Event::Grown { blocks }));
    }

    // ---- checksums of staged blocks -------------------------------------------------------------

    /// Writes or reads the checksums of the staged blocks on all present members.
    fn staged_checksums_io(&mut self, operation: Operation) {
        let place = self.grow.sums().expect("blocks have checksums");
        let persistence = self.metadata.persistence().expect("it grows");
        let (array, generation) = (persistence.array.uuid, self.metadata.generation());
        let pages = (self.grow).window_checksum_pages(self.entries(), &self.geometry);
        let blocks = pages * page_blocks(self.settings.block_size);
        for member in self.present().iter() {
            if operation != Operation::Read {
                let bytes = self.metadata_buffer.bytes_mut(place, member.0);
                let pages = (0..pages.into()).zip(bytes.chunks_exact_mut(CHECKSUM_PAGE_BYTES));
                for (number, page) in pages {
                    seal_checksums(array, number, generation, page, PageParts::ALL);
                }
            }
            let start = self.grow.sums_start(member);
            let buffer = self.metadata_buffer.slice(place, member.0);
            let purpose = Purpose::GrowChecksums;
            self.system_io(purpose, member, operation, start, blocks, buffer);
        }
    }

    /// Handles the result of a write or read of the checksums of staged blocks on a member.
    pub(crate) fn staged_checksums_done(&mut self, member: MemberIndex, result: MemberResult) {
        let loads = self.grow.loads_checksums();
        if loads {
            let place = self.grow.sums().expect("blocks have checksums");
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
        self.step_growth(Input::ChecksumsDone);
    }
}

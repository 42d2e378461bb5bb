//! Grows an array, a window at a time: what lies there is read through the old map, written as it
//! will lie into the members' headroom, and from there on belongs to the new map.
//!
//! ```text
//!  Idle ──its turn──▶ Waiting ──nothing is under way──▶ Readying ──▶ Reading ──▶ Staging
//!   ▲ ▲                  │ nothing was written there                               │
//!   │ └──Marking ◀───────┘                                          (Summing) flushed, recorded
//!   │      ▲                                                                       ▼
//!   │      └──flushed── Placing ◀──after a crash── Rereading ◀─(Loading)─opened──       (Placing)
//!  Stuck: what can't be read stays where it is
//! ```
//!
//! Clients wait while a window is on its way, so nothing has to know of two halves of it. Until it
//! is durable that the window is *staged* the old map stands, of which nothing was overwritten;
//! from then on the new one stands, whatever became of the places: what they shall hold, with the
//! redundancy of the new map, is in the headroom. Both sides of that moment survive the loss of as
//! many members as their map does.
//!
//! Everything goes the way that requests go: it is a request of the array's own, in a slot that
//! clients don't get, with a buffer behind the stripe ranges' scratch space.

use super::Job;
use crate::{
    Engine, Mutation,
    engine::Closing,
    growth::{parts, policy_after, unit_rows},
    hedges::Pairing,
    index,
    jobs::{
        Place, Walk,
        grow::{Stage, headroom, page_blocks, pages_of_checksums},
    },
    membership::Growing,
    output::{Event, OutReason, Output},
    plan::{Ask, Shape},
    requests::RequestSlot,
    status::GrowthStatus,
    system_io::{Place as MetadataPlace, Purpose},
};
use core::ops::Range;
use spindles_block::{
    BlockIndex, BufferSlice, MemberError, MemberIndex, MemberResult, MemberSet, Operation,
    RequestError,
};
use spindles_format::{
    CHECKSUM_PAGE_BYTES, DeviceRecord, Entries, PageParts, Text, open_checksums, seal_checksums,
};
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
    /// Whether the array grows.
    pub fn is_growing(&self) -> bool {
        self.geometry.older().is_some()
    }

    /// The same, as changes of its devices depend on it.
    pub(crate) fn growing(&self) -> Growing {
        match (self.geometry.older(), &self.grow.record.older) {
            (None, _) => Growing::No,
            (Some(old), Some(older)) if older.mark.0 == 0 && older.staged_blocks == 0 => {
                let old = MemberSet::all(old.members());
                Growing::Begins(MemberSet::all(self.geometry.members()).difference(old))
            }
            (Some(_), _) => Growing::Moves,
        }
    }

    /// How far the growth of the array is; `None` for one that does not grow.
    pub(crate) fn growth_status(&self) -> Option<GrowthStatus> {
        let block_bytes = u64::from(self.block_size.bytes());
        self.growth().map(|(mark, blocks)| GrowthStatus {
            done_bytes: mark.0 * block_bytes,
            total_bytes: blocks * block_bytes,
            stuck: self.grow.stage == Stage::Stuck,
        })
    }

    /// How much is moved, and of how many blocks; `None` for an array that does not grow.
    pub fn growth(&self) -> Option<(BlockIndex, u64)> {
        let (mark, blocks) = (self.geometry.mark()?, self.geometry.blocks());
        Some((mark.min(BlockIndex(blocks)), blocks))
    }

    /// The redundancy groups that lie in the members' headroom, and not in their places.
    pub fn staged_groups(&self) -> Range<u64> {
        self.grow.staged.clone()
    }

    /// The slot of requests that clients don't get.
    pub(crate) fn own_request(&self) -> u32 {
        self.limits.requests
    }

    /// Where on its device a block of a group lies that is in the headroom, `offset` in the data
    /// area otherwise.
    pub(crate) fn staged_place(&self, member: MemberIndex, offset: BlockIndex) -> BlockIndex {
        let row = offset.0 - self.grow.first_row;
        self.grow.headroom[usize::from(member.0)].plus(row)
    }

    /// A device takes a position.
    pub(crate) fn growth_joined(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.grow.headroom[usize::from(member.0)] = headroom(Some(device));
    }

    /// At opening, when the maps are known: what is staged belongs to the new one.
    pub(crate) fn find_growth(&mut self) {
        let Some(older) = self.grow.record.older else {
            return;
        };
        self.grow.buffer = BufferSlice {
            buffer: self.scratch,
            first_block: self.scratch_blocks() - self.grow.buffer_blocks,
        };
        let end = older.mark.0 + u64::from(older.staged_blocks);
        if older.staged_blocks > 0 {
            self.grow.window = older.mark.0..end;
            self.enter_window();
        }
        self.regions.set_live(self.geometry.live_groups());
        if self.read_only {
            // What is staged is read where it is, when its checksums are known.
            if self.grow.sums.is_none() || self.grow.stage != Stage::Found {
                self.grow.stage = Stage::Idle;
            }
        } else {
            self.begin_job(&JOB, Place::default());
        }
    }

    /// The bits of the new map, at the beginning: what lay there before means nothing.
    pub(crate) fn blank_new_regions(&mut self) {
        if !self.grow.begins() {
            return;
        }
        self.regions.blank();
    }

    /// Where the walk of the job stands: all below is of the new map.
    fn next_to_move(&self) -> GroupIndex {
        match self.geometry.older() {
            Some(_) => GroupIndex(self.geometry.live_groups()[0].end),
            None => GroupIndex(u64::MAX),
        }
    }

    /// Whether the next window may begin: redundancy is settled, and the new map can be used.
    fn may_grow(&self) -> bool {
        self.grow.stage == Stage::Idle
            && self.all_settled
            && !self.only_recovers
            && !self.lacks_added()
    }

    /// Whether devices that were added are not there, nor were when the first window was moved:
    /// nothing may be of the new map then.
    fn lacks_added(&self) -> bool {
        let (Some(older), Some(old)) = (self.grow.record.older, self.geometry.older()) else {
            return true;
        };
        let old = MemberSet::all(old.members());
        let added = MemberSet::all(self.geometry.members()).difference(old);
        older.mark.0 == 0 && added.difference(self.lost) != added
    }

    /// It is the job's turn.
    fn begin_window(&mut self) -> bool {
        if !self.may_grow() {
            return false;
        }
        let bytes = u64::from(self.window_rows()) * u64::from(self.block_size.bytes());
        self.jobs.throttle.gone(self.now, bytes);
        self.grow.stage = Stage::Waiting;
        true
    }

    /// Rows of each member in the next window.
    fn window_rows(&self) -> u32 {
        let unit = self.geometry.growth_unit().expect("it grows");
        let rows = unit_rows(&self.geometry).expect("it grows");
        let units = (self.grow.staging_rows / rows).min(u64::from(self.grow.buffer_blocks) / unit);
        u32::try_from(units.max(1) * rows).expect("as long as the buffer")
    }

    /// Goes on where nothing comes back that would. Whether anything was done.
    pub(crate) fn pump_grow(&mut self) -> bool {
        match self.grow.stage {
            // One that was added may have gone out while this waited.
            Stage::Waiting if self.closing != Closing::Open || self.lacks_added() => {
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
                !self.requests[index(own)].is_handed_out()
                    && self.free_ranges.len() > index(self.hedges.kept_ranges())
                    && self.advance(own)
            }
            _ => false,
        }
    }

    /// Whether nothing else is under way, and no request is in the middle of a group.
    fn is_alone(&self) -> bool {
        let midway = (self.backlog.front())
            .is_some_and(|&request| self.requests[index(request)].is_midway());
        self.opening.is_serving() && !self.rebuild.somebody_joins() && !midway && self.is_quiet()
    }

    /// Where all is moved: beyond the end of the array as it was, to that of the last region that it
    /// is in. The rest of that is zeros from then on, as of any region that is written.
    fn growth_end(&self) -> u64 {
        let region = self.geometry.stripe_blocks() << self.regions.shift();
        let room = self.regions.part_groups().end * self.geometry.stripe_blocks();
        self.geometry.blocks().next_multiple_of(region).min(room)
    }

    /// From here on the window is of the new map, and lies in the headroom.
    fn enter_window(&mut self) {
        let stripe = self.geometry.stripe_blocks();
        let Range { start, end } = self.grow.window;
        self.grow.staged = start / stripe..end / stripe;
        self.grow.first_row = start / u64::from(self.geometry.data_chunks());
        self.enter(end);
    }

    /// The new map holds up to here.
    fn enter(&mut self, end: u64) {
        self.geometry.set_mark(BlockIndex(end));
        self.regions.set_live(self.geometry.live_groups());
    }

    /// The next window, or all that comes before the next of which anything was written.
    fn choose_window(&mut self) {
        let from = self.geometry.mark().expect("it grows").0;
        let (end, unit) = (self.growth_end(), self.geometry.growth_unit());
        let unit = unit.expect("it grows");
        let new = GroupIndex(self.geometry.live_groups()[0].end);
        let held = self.regions.holds(self.regions.of(new));
        let old = GroupIndex(self.geometry.live_groups()[1].start);
        let next = self.regions.next_written(old);
        let empty = if next.0 < self.geometry.groups() {
            self.blocks_below(next) / unit * unit
        } else {
            end
        };
        if !held && empty > from {
            self.enter(empty);
            return self.mark(empty);
        }
        let blocks = u64::from(self.window_rows()) * u64::from(self.geometry.data_chunks());
        self.grow.window = from..(from + blocks).min(end);
        self.grow.stage = Stage::Readying;
        for region in self.window_regions() {
            if !self.regions.holds(region) {
                self.want_zeroing(region);
            }
        }
    }

    /// The regions that the window will be in.
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

    /// A request of the array's own for the window.
    fn ask_own(&mut self, operation: Operation) {
        let own = self.own_request();
        let Range { start, end } = self.grow.window;
        let (block, end) = (BlockIndex(start), BlockIndex(end));
        self.requests[index(own)] = RequestSlot::new(0, operation, block, end, self.grow.buffer);
        self.requests[index(own)].pairing = Pairing::Own;
        self.advance(own);
    }

    /// It was answered.
    pub(crate) fn own_request_done(&mut self, error: Option<RequestError>) {
        if error.is_some() {
            return self.get_stuck();
        }
        match self.grow.stage {
            // The old map still stands: the window is moved when they are there.
            Stage::Reading if self.lacks_added() => self.grow.stage = Stage::Idle,
            Stage::Reading => {
                self.enter_window();
                self.grow.stage = Stage::Staging;
                self.ask_own(Operation::Write { fua: false });
            }
            Stage::Staging => self.checksum_staged(),
            Stage::Rereading => self.place(),
            Stage::Placing => {
                if self.mutated(Mutation::MarkUnflushed) {
                    return self.moved();
                }
                let pending = self.flush_active(Purpose::GrowFlush);
                self.grow.stage = Stage::Settling { pending };
            }
            stage => panic!("a request of the array's own ended in stage {stage:?}"),
        }
    }

    // ---- checksums of what is staged ------------------------------------------------------------

    /// What pages have for each block.
    fn entries(&self) -> Entries {
        let pages = self.pages.as_ref().expect("blocks have checksums");
        pages.entries
    }

    /// Where the entry of a block is that is staged, `offset` in the data area of its member otherwise:
    /// the pages of the member, the bytes of one of them, and the place in it.
    pub(crate) fn staged_entry(&self, offset: BlockIndex) -> (MetadataPlace, Range<usize>, usize) {
        let place = self.grow.sums.expect("blocks have checksums");
        let row = offset.0 - self.grow.first_row;
        let (page, at) = self.entries().find(row);
        let start = usize::try_from(page).expect("a window is short") * CHECKSUM_PAGE_BYTES;
        (place, start..start + CHECKSUM_PAGE_BYTES, at)
    }

    /// Pages with the checksums of the window under way, on each member.
    fn window_checksum_pages(&self) -> u32 {
        let Range { start, end } = self.grow.window;
        let rows = (end - start) / u64::from(self.geometry.data_chunks());
        pages_of_checksums(self.entries(), rows)
    }

    /// What is staged gets its checksums.
    fn checksum_staged(&mut self) {
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
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
        let blocks = self.window_checksum_pages() * page_blocks(self.block_size);
        // Behind all that may be staged.
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

    /// What was found staged is read again, when its checksums are known.
    fn load_staged_checksums(&mut self) {
        let Some(place) = self.grow.sums else {
            return self.reread();
        };
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        self.grow.stage = Stage::Loading {
            pending: active.count(),
        };
        for member in active.iter() {
            self.staged_checksums_io(member, place, Operation::Read);
        }
    }

    /// The checksums of what is staged on a member were written, or read.
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
        if self.read_only {
            self.grow.stage = Stage::Idle;
            return;
        }
        self.reread();
    }

    /// What is staged is made durable.
    fn harden(&mut self) {
        if self.writes_nothing() {
            return self.get_stuck();
        }
        if self.mutated(Mutation::StageUnflushed) {
            return self.record_staged();
        }
        let pending = self.flush_active(Purpose::GrowFlush);
        self.grow.stage = Stage::Hardening { pending };
    }

    // ---- the moments that count -----------------------------------------------------------------

    pub(crate) fn grow_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        self.system_flush_failed(member, result);
        let (Stage::Hardening { pending } | Stage::Settling { pending }) = &mut self.grow.stage
        else {
            panic!("a flush came back in stage {:?}", self.grow.stage);
        };
        *pending -= 1;
        if *pending > 0 {
            return;
        }
        if self.writes_nothing() {
            return self.get_stuck();
        }
        match self.grow.stage {
            Stage::Hardening { .. } => self.record_staged(),
            _ => self.moved(),
        }
    }

    fn record_staged(&mut self) {
        let Range { start, end } = self.grow.window;
        let blocks = u32::try_from(end - start).expect("a window is short");
        let older = self.grow.record.older.as_mut().expect("it grows");
        older.staged_blocks = blocks;
        self.tell_growth(Stage::Recording);
    }

    /// The superblocks are to say how far it is.
    fn tell_growth(&mut self, stage: Stage) {
        self.grow.stage = stage;
        self.want_update();
        if self.metadata.is_broken() {
            self.growth_recorded(); // No superblock is written any more.
        }
    }

    /// What the superblocks were to say is durable.
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

    /// What was staged goes from the buffer to its places.
    fn place(&mut self) {
        self.grow.staged = 0..0;
        self.grow.stage = Stage::Placing;
        self.ask_own(Operation::Write { fua: false });
    }

    /// What an earlier opening staged is read again.
    fn reread(&mut self) {
        self.grow.stage = Stage::Rereading;
        self.ask_own(Operation::Read);
    }

    fn moved(&mut self) {
        self.mark(self.grow.window.end);
    }

    /// The superblocks are to say that the new map holds up to here.
    fn mark(&mut self, end: u64) {
        let older = self.grow.record.older.as_mut().expect("it grows");
        older.mark = BlockIndex(end);
        older.staged_blocks = 0;
        if end == self.growth_end() {
            self.grow.record.older = None;
            self.change_policy();
        }
        self.tell_growth(Stage::Marking);
    }

    /// What an array does about crashes goes with its level, from the next opening on.
    fn change_policy(&mut self) {
        let Some(persistence) = self.metadata.persistence_mut() else {
            return;
        };
        let array = &mut persistence.array;
        let older = array.growth.older.as_ref();
        if let Some(policy) = older.and_then(|older| policy_after(array, older)) {
            array.consistency = Text::new(policy.name).expect("a policy's name is short");
        }
    }

    /// All is moved: what the array was before is forgotten.
    fn grown(&mut self) {
        self.geometry = self.geometry.clone().grown();
        let array = self.metadata.persistence().map(|it| &*it.array);
        let (part, older) = parts(array, &self.geometry);
        self.regions.set_parts(part, older);
        self.shape = Shape::whole(&self.geometry);
        self.ranges.set_shape(self.shape);
        let blocks = self.geometry.blocks();
        self.output(Output::Event(Event::Grown { blocks }));
    }

    /// The window can't be moved. What is staged, or not, stays so.
    pub(crate) fn get_stuck(&mut self) {
        let older = self.grow.record.older;
        match self.grow.stage {
            Stage::Idle | Stage::Waiting | Stage::Stuck => return,
            Stage::Staging | Stage::Checksumming { .. } | Stage::Hardening { .. } => {
                // Nothing was overwritten.
                self.grow.staged = 0..0;
                self.enter(self.grow.window.start);
            }
            Stage::Placing | Stage::Settling { .. } => self.enter_window(),
            _ => {}
        }
        self.grow.stage = Stage::Stuck;
        self.stop_job(&JOB);
        let block = older.map_or(BlockIndex(0), |older| older.mark);
        self.output(Output::Event(Event::GrowthStuck { block }));
        if self.missing_unrecorded() {
            self.want_update(); // Of the map as it is now less may be needed.
        }
    }
}

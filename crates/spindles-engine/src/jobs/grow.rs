//! The window of a growth: its place, and the progress of its move.

use crate::{
    config::Persistence,
    growth::{staging_rows, unit_rows},
    hedges::Pairing,
    members::Members,
    membership::Growing,
    regions::Regions,
    requests::RequestSlot,
    system_io::{MetadataBuffer, Place as MetadataPlace, Purpose},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, BufferSlice, MemberIndex, MemberSet, Operation};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, GrowthRecord,
};
use spindles_layout::{Geometry, GroupIndex};

/// Bytes of the array that are moved at once, unless the members have less headroom.
const WINDOW_BYTES: u64 = 4 << 20;

/// The stage of the current window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No window exists.
    Idle,
    /// The superblocks do not say yet that the array grows.
    Beginning,
    /// Waiting for everything under way to end.
    Waiting,
    /// The window was staged before this opening. Waiting for everything under way to end.
    Found,
    /// Preparing the regions of the window for writes.
    Readying,
    Reading,
    Staging,
    /// Writing the checksums of the staged blocks behind them.
    Checksumming {
        pending: u32,
    },
    Hardening,
    /// Writing to the superblocks that the window is staged.
    Recording,
    /// Reading the checksums of the staged blocks.
    Loading {
        pending: u32,
    },
    Rereading,
    Placing,
    Settling,
    /// Writing to the superblocks that the window is moved.
    Marking,
    /// The window can't be moved. Growth continues in another opening.
    Stuck,
}

/// An event of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// It is the job's turn.
    Turn,
    /// The array closes.
    Closes,
    /// Nothing else is under way in the array.
    Alone,
    /// The regions of the window can be written.
    RegionsReady,
    /// The array's own request has ended.
    RequestDone,
    /// The checksums of staged blocks are written or read on one more member.
    ChecksumsDone,
    /// The flush of all members has ended.
    Flushed,
    /// The superblocks have recorded the progress.
    Recorded,
    /// The window can't be moved.
    Failed,
}

/// The reply to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for the next event.
    Wait,
    /// Make the regions of the window ready for writes.
    Prepare,
    /// Submit a request of the array's own for the window.
    Ask(Operation),
    /// Write or read the checksums of staged blocks on all present members.
    Checksums(Operation),
    /// Flush all members.
    Flush(Purpose),
    /// Record the growth in the superblocks. True if the mark moved.
    Record(bool),
    /// Forget the old map: everything is moved.
    ForgetOldMap,
    /// Stop the job, and report that the window can't be moved.
    Stop,
}

/// The parts of the array on which a growth depends.
pub(crate) struct Context<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) members: &'a Members,
    pub(crate) regions: &'a Regions,
    /// True if nothing is written any more.
    pub(crate) writes_nothing: bool,
    /// True if the superblocks can't be written.
    pub(crate) is_broken: bool,
    /// The members that hold checksums of staged blocks.
    pub(crate) present: u32,
}

/// The step that an event causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The block up to which the new map is valid now; `None` if it stays.
    pub(crate) map_end: Option<BlockIndex>,
    pub(crate) action: Action,
}

impl Step {
    const fn of(action: Action) -> Self {
        Self {
            map_end: None,
            action,
        }
    }

    const fn with_map(end: u64, action: Action) -> Self {
        Self {
            map_end: Some(BlockIndex(end)),
            action,
        }
    }
}

/// The engine's state of a growth.
#[derive(Clone, Debug)]
pub(crate) struct Grow {
    stage: Stage,
    /// The growth record that the superblocks have, or get with the next update.
    record: GrowthRecord,
    /// The blocks of the window. Blocks beyond the end of the array are zeros.
    window: Range<u64>,
    /// Groups of the new map that lie in the headroom instead of their places.
    staged: Range<u64>,
    /// The row in each member's data area where the first staged group begins.
    first_row: u64,
    buffer: BufferSlice,
    buffer_blocks: u32,
    /// The first block of each member's headroom, counted from the start of its device.
    headroom: Vec<BlockIndex>,
    /// Blocks of the headroom that may be staged at once.
    staging_rows: u64,
    /// Pages for the checksums of staged blocks. `None` if blocks have no checksums.
    sums: Option<MetadataPlace>,
}

impl Grow {
    /// Creates the state of a growth as the superblocks record it.
    pub(crate) fn new(
        persistence: Option<&Persistence>,
        geometry: &Geometry,
        block_size: BlockSize,
        metadata: &mut MetadataBuffer,
    ) -> Self {
        let array = persistence.map(|persistence| &persistence.array);
        let record = array.map_or_else(GrowthRecord::default, |array| array.growth);
        let devices = persistence.map_or(&[][..], |persistence| &persistence.devices);
        let mut grow = Self {
            stage: Stage::Idle,
            record,
            window: 0..0,
            staged: 0..0,
            first_row: 0,
            buffer: BufferSlice::NONE,
            buffer_blocks: 0,
            headroom: devices
                .iter()
                .map(|device| headroom(device.as_ref()))
                .collect(),
            staging_rows: array.map_or(0, |array| staging_rows(array)),
            sums: None,
        };
        if let (Some(unit), Some(older)) = (geometry.growth_unit(), &record.older) {
            let room = WINDOW_BYTES / u64::from(block_size.bytes()) / unit * unit;
            // An earlier window is as long as the headroom allowed then.
            let blocks = room.max(unit).max(older.staged_blocks.into());
            let blocks = blocks.next_multiple_of(geometry.stripe_blocks());
            grow.buffer_blocks = u32::try_from(blocks).expect("looked at when it was planned");
            if array.is_some_and(|array| array.checksum != ChecksumKind::None) {
                let rows = blocks / u64::from(geometry.data_chunks());
                let entries = array
                    .map(|array| array.entries())
                    .expect("it has checksums");
                let blocks = pages_of_checksums(entries, rows) * page_blocks(block_size);
                grow.sums = Some(metadata.reserve(geometry.members(), blocks));
            }
            if array.is_some_and(|array| array.growth_is_planned()) {
                grow.stage = Stage::Beginning;
            } else if older.staged_blocks > 0 {
                grow.stage = Stage::Found;
            }
        }
        grow
    }

    /// Returns the growth record that the superblocks have, or get with the next update.
    pub(crate) fn record(&self) -> GrowthRecord {
        self.record
    }

    /// Blocks of buffer that a growth needs behind the scratch space.
    pub(crate) fn buffer_blocks(&self) -> u32 {
        self.buffer_blocks
    }

    /// Returns true if clients wait for a window, or must.
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Stuck)
    }

    /// Returns true if no I/O of a window is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self.stage,
            Stage::Idle | Stage::Waiting | Stage::Found | Stage::Stuck
        )
    }

    /// Returns true if the superblocks do not say yet that the array grows.
    pub(crate) fn begins(&self) -> bool {
        self.stage == Stage::Beginning
    }

    /// Returns true during the array's own writes, which need no journal.
    #[inline]
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Staging | Stage::Placing)
    }

    /// Returns true if a group lies in the headroom.
    #[inline]
    pub(crate) fn is_staged(&self, group: GroupIndex) -> bool {
        self.staged.contains(&group.0)
    }

    /// Returns the stage of the growth, on which changes of devices depend.
    pub(crate) fn phase(&self, geometry: &Geometry) -> Growing {
        match (geometry.older(), &self.record.older) {
            (None, _) => Growing::No,
            (Some(old), Some(older)) if older.mark.0 == 0 && older.staged_blocks == 0 => {
                let old = MemberSet::all(old.members());
                Growing::Begins(MemberSet::all(geometry.members()).difference(old))
            }
            (Some(_), _) => Growing::Moves,
        }
    }

    /// Returns where a staged block lies on its device. `offset` is its later place in the data
    /// area.
    pub(crate) fn staged_place(&self, member: MemberIndex, offset: BlockIndex) -> BlockIndex {
        let row = offset.0 - self.first_row;
        self.headroom[usize::from(member.0)].plus(row)
    }

    /// Notes the headroom of a device that takes a position.
    pub(crate) fn joined(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.headroom[usize::from(member.0)] = headroom(Some(device));
    }

    /// Returns true if added devices are missing and no window was moved yet. The growth waits for
    /// them then.
    pub(crate) fn lacks_added(&self, geometry: &Geometry, members: &Members) -> bool {
        let (Some(older), Some(old)) = (self.record.older, geometry.older()) else {
            return true;
        };
        let old = MemberSet::all(old.members());
        let added = MemberSet::all(geometry.members()).difference(old);
        older.mark.0 == 0 && added.difference(members.lost()) != added
    }

    /// Returns the rows of each member in the next window.
    pub(crate) fn window_rows(&self, geometry: &Geometry) -> u32 {
        let unit = geometry.growth_unit().expect("it grows");
        let rows = unit_rows(geometry).expect("it grows");
        let units = (self.staging_rows / rows).min(u64::from(self.buffer_blocks) / unit);
        u32::try_from(units.max(1) * rows).expect("as long as the buffer")
    }

    /// Finds the window that an earlier opening staged. Returns its end, up to which the new map
    /// is valid; `None` if nothing is staged.
    pub(crate) fn find(&mut self, buffer: BufferSlice, geometry: &Geometry) -> Option<BlockIndex> {
        let older = self.record.older.expect("it grows");
        self.buffer = buffer;
        (older.staged_blocks > 0).then(|| {
            let end = older.mark.0 + u64::from(older.staged_blocks);
            self.window = older.mark.0..end;
            self.enter_window(geometry);
            BlockIndex(end)
        })
    }

    /// Handles an event.
    pub(crate) fn step(&mut self, input: Input, context: &Context<'_>) -> Step {
        match (self.stage, input) {
            (_, Input::Failed) => self.get_stuck(context),
            (Stage::Idle, Input::Turn) => self.wait_in(Stage::Waiting),
            (Stage::Waiting, Input::Closes) => self.wait_in(Stage::Idle),
            (Stage::Waiting, Input::Alone) => self.choose_window(context),
            (Stage::Found, Input::Alone) => self.load_checksums(context),
            (Stage::Readying, Input::RegionsReady) => self.ask(Stage::Reading, Operation::Read),
            (_, Input::RequestDone) => self.request_done(context),
            (_, Input::ChecksumsDone) => self.checksums_done(context),
            (_, Input::Flushed) if context.writes_nothing => self.get_stuck(context),
            (Stage::Hardening, Input::Flushed) => self.record_staged(),
            (Stage::Settling, Input::Flushed) => self.mark(self.window.end, context),
            (_, Input::Recorded) => self.recorded(context),
            (stage, input) => panic!("{input:?} in stage {stage:?} of a growth"),
        }
    }

    fn wait_in(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::of(Action::Wait)
    }

    fn ask(&mut self, stage: Stage, operation: Operation) -> Step {
        self.stage = stage;
        Step::of(Action::Ask(operation))
    }

    fn record_in(&mut self, stage: Stage, moves_mark: bool) -> Step {
        self.stage = stage;
        Step::of(Action::Record(moves_mark))
    }

    /// Chooses the next window. If nothing was written before the next written region, skips to
    /// there without moving anything.
    fn choose_window(&mut self, context: &Context<'_>) -> Step {
        let (geometry, regions) = (context.geometry, context.regions);
        let from = geometry.mark().expect("it grows").0;
        let end = regions.growth_end(geometry);
        let unit = geometry.growth_unit().expect("it grows");
        let new = GroupIndex(geometry.live_groups()[0].end);
        let held = regions.holds(regions.of(new));
        let old = GroupIndex(geometry.live_groups()[1].start);
        let next = regions.next_written(old);
        let empty = if next.0 < geometry.groups() {
            geometry.blocks_before(next) / unit * unit
        } else {
            end
        };
        if !held && empty > from {
            let step = self.mark(empty, context);
            return Step::with_map(empty, step.action);
        }
        let blocks = u64::from(self.window_rows(geometry)) * u64::from(geometry.data_chunks());
        self.window = from..(from + blocks).min(end);
        self.stage = Stage::Readying;
        Step::of(Action::Prepare)
    }

    /// Loads the checksums of blocks that were found staged. The blocks are read again afterwards.
    fn load_checksums(&mut self, context: &Context<'_>) -> Step {
        if self.sums.is_none() {
            return self.ask(Stage::Rereading, Operation::Read);
        }
        let pending = context.present;
        self.stage = Stage::Loading { pending };
        Step::of(Action::Checksums(Operation::Read))
    }

    /// Continues when the array's own request is done.
    fn request_done(&mut self, context: &Context<'_>) -> Step {
        match self.stage {
            // The old map is still valid: the window is moved when the devices are there.
            Stage::Reading if self.lacks_added(context.geometry, context.members) => {
                self.wait_in(Stage::Idle)
            }
            Stage::Reading => {
                self.enter_window(context.geometry);
                self.stage = Stage::Staging;
                let write = Action::Ask(Operation::Write { fua: false });
                Step::with_map(self.window.end, write)
            }
            Stage::Staging if self.sums.is_some() => {
                let pending = context.present;
                self.stage = Stage::Checksumming { pending };
                Step::of(Action::Checksums(Operation::Write { fua: false }))
            }
            Stage::Staging => self.harden(context),
            Stage::Rereading => self.place(),
            Stage::Placing => {
                self.stage = Stage::Settling;
                Step::of(Action::Flush(Purpose::MovedFlush))
            }
            stage => panic!("a request of the array's own ended in stage {stage:?}"),
        }
    }

    /// Continues when the checksums are written or read on one more member.
    fn checksums_done(&mut self, context: &Context<'_>) -> Step {
        let loads = self.loads_checksums();
        let (Stage::Checksumming { pending } | Stage::Loading { pending }) = &mut self.stage else {
            panic!("checksums of a window came back in stage {:?}", self.stage);
        };
        *pending -= 1;
        if *pending > 0 {
            return Step::of(Action::Wait);
        }
        if loads {
            return self.ask(Stage::Rereading, Operation::Read);
        }
        self.harden(context)
    }

    /// Makes the staged blocks durable.
    fn harden(&mut self, context: &Context<'_>) -> Step {
        if context.writes_nothing {
            return self.get_stuck(context);
        }
        self.stage = Stage::Hardening;
        Step::of(Action::Flush(Purpose::StagedFlush))
    }

    fn record_staged(&mut self) -> Step {
        let Range { start, end } = self.window;
        let blocks = u32::try_from(end - start).expect("a window is short");
        let older = self.record.older.as_mut().expect("it grows");
        older.staged_blocks = blocks;
        self.record_in(Stage::Recording, false)
    }

    /// Continues when the superblocks have recorded the progress of the growth.
    fn recorded(&mut self, context: &Context<'_>) -> Step {
        match self.stage {
            Stage::Beginning | Stage::Recording | Stage::Marking if context.is_broken => {
                self.get_stuck(context)
            }
            Stage::Beginning => self.wait_in(Stage::Idle),
            Stage::Recording => self.place(),
            Stage::Marking => {
                self.stage = Stage::Idle;
                Step::of(match self.record.older {
                    Some(_) => Action::Wait,
                    None => Action::ForgetOldMap,
                })
            }
            _ => Step::of(Action::Wait),
        }
    }

    /// Writes the window from the buffer to its places.
    fn place(&mut self) -> Step {
        self.staged = 0..0;
        self.ask(Stage::Placing, Operation::Write { fua: false })
    }

    /// Lets the superblocks record that the new map is valid up to `end`.
    fn mark(&mut self, end: u64, context: &Context<'_>) -> Step {
        let older = self.record.older.as_mut().expect("it grows");
        older.mark = BlockIndex(end);
        older.staged_blocks = 0;
        if end == context.regions.growth_end(context.geometry) {
            self.record.older = None;
        }
        self.record_in(Stage::Marking, true)
    }

    /// Gives up the window, which can't be moved. A durably staged window stays staged. Any other
    /// window keeps its old places.
    fn get_stuck(&mut self, context: &Context<'_>) -> Step {
        let map_end = match self.stage {
            Stage::Idle | Stage::Waiting | Stage::Stuck => return Step::of(Action::Wait),
            Stage::Staging | Stage::Checksumming { .. } | Stage::Hardening => {
                // Nothing was overwritten.
                self.staged = 0..0;
                Some(BlockIndex(self.window.start))
            }
            Stage::Placing | Stage::Settling => {
                self.enter_window(context.geometry);
                Some(BlockIndex(self.window.end))
            }
            _ => None,
        };
        self.stage = Stage::Stuck;
        let action = Action::Stop;
        Step { map_end, action }
    }

    /// Makes the window part of the new map. It lies in the headroom.
    fn enter_window(&mut self, geometry: &Geometry) {
        let stripe = geometry.stripe_blocks();
        let Range { start, end } = self.window;
        self.staged = start / stripe..end / stripe;
        self.first_row = start / u64::from(geometry.data_chunks());
    }

    /// Returns true if the growth waits until nothing else is under way.
    pub(crate) fn waits_to_be_alone(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Found)
    }

    /// Returns true if a window is about to be chosen.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Returns true if no window exists.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Returns true if the window can't be moved.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stage == Stage::Stuck
    }

    /// Returns true while the regions of the window are prepared.
    pub(crate) fn is_readying(&self) -> bool {
        self.stage == Stage::Readying
    }

    /// Returns true while a request of the array's own is under way.
    pub(crate) fn has_request(&self) -> bool {
        matches!(
            self.stage,
            Stage::Reading | Stage::Staging | Stage::Rereading | Stage::Placing
        )
    }

    /// Returns true while the checksums of staged blocks are read.
    pub(crate) fn loads_checksums(&self) -> bool {
        matches!(self.stage, Stage::Loading { .. })
    }

    /// Returns the block up to which the superblocks say that everything is moved.
    pub(crate) fn recorded_mark(&self) -> BlockIndex {
        self.record.older.map_or(BlockIndex(0), |older| older.mark)
    }

    /// Returns the request for the window.
    pub(crate) fn request(&self, operation: Operation) -> RequestSlot {
        let Range { start, end } = self.window;
        let (block, end) = (BlockIndex(start), BlockIndex(end));
        let mut slot = RequestSlot::new(0, operation, block, end, self.buffer);
        slot.pairing = Pairing::Own;
        slot
    }

    /// Returns the regions that the window will be in.
    pub(crate) fn window_regions(&self, geometry: &Geometry, regions: &Regions) -> Range<u64> {
        let stripe = geometry.stripe_blocks();
        let of = |block: u64| regions.of(GroupIndex(block / stripe));
        of(self.window.start)..of(self.window.end - 1) + 1
    }

    /// Returns the groups that lie in the headroom.
    pub(crate) fn staged(&self) -> Range<u64> {
        self.staged.clone()
    }

    /// Returns the pages for the checksums of staged blocks; `None` if blocks have no checksums.
    pub(crate) fn sums(&self) -> Option<MetadataPlace> {
        self.sums
    }

    /// Returns the start of the checksums of staged blocks on a device: behind the staged blocks.
    pub(crate) fn sums_start(&self, member: MemberIndex) -> BlockIndex {
        self.headroom[usize::from(member.0)].plus(self.staging_rows)
    }

    /// Returns the number of pages with the checksums of the current window, on each member.
    pub(crate) fn window_checksum_pages(&self, entries: Entries, geometry: &Geometry) -> u32 {
        let Range { start, end } = self.window;
        let rows = (end - start) / u64::from(geometry.data_chunks());
        pages_of_checksums(entries, rows)
    }

    /// Returns the location of a staged block's entry: the pages of its member, the bytes of the
    /// page, and the entry's place in the page. `offset` is the block's later place in the data
    /// area of its member.
    pub(crate) fn staged_entry(
        &self,
        entries: Entries,
        offset: BlockIndex,
    ) -> (MetadataPlace, Range<usize>, usize) {
        let place = self.sums.expect("blocks have checksums");
        let row = offset.0 - self.first_row;
        let (page, at) = entries.find(row);
        let start = usize::try_from(page).expect("a window is short") * CHECKSUM_PAGE_BYTES;
        (place, start..start + CHECKSUM_PAGE_BYTES, at)
    }
}

/// Blocks of a page of checksums.
pub(crate) fn page_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(CHECKSUM_PAGE_BYTES).expect("4096") / block_size.bytes()
}

/// Pages for the checksums of `rows` rows.
fn pages_of_checksums(entries: Entries, rows: u64) -> u32 {
    u32::try_from(entries.pages(rows)).expect("a window is short")
}

fn headroom(device: Option<&DeviceRecord>) -> BlockIndex {
    let area = device.and_then(|device| {
        let block_bytes = u64::from(device.block_size.bytes());
        Some(device.area(AreaKind::HEADROOM)?.offset_bytes / block_bytes)
    });
    BlockIndex(area.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bitmaps::Bitmap,
        config::Config,
        regions::{Part, Regions},
    };
    use spindles_block::BufferId;
    use spindles_format::{OlderMap, Text};
    use spindles_layout::{Level, Spec};

    /// The parts of an array of three members that grows to four.
    struct World {
        geometry: Geometry,
        members: Members,
        regions: Regions,
        grow: Grow,
    }

    impl World {
        fn new(stored: bool) -> Self {
            let map = |members: usize| {
                let level = Level::by_name("raid5").expect("a row of the table");
                let member_blocks = vec![64; members];
                let spec = Spec {
                    level,
                    layout: None,
                    chunk_blocks: 2,
                    member_blocks,
                };
                Geometry::new(&spec).expect("a legal array")
            };
            let (old, new) = (map(3), map(4));
            let older = Part::new(new.groups()..new.groups() + old.groups(), 1, 64);
            let groups = 0..new.groups();
            let geometry = new.growing_from(old, BlockIndex(0)).expect("it may grow");
            let mut config = Config::bare(geometry, BlockSize::B4096, 1);
            config.geometry.set_mark(BlockIndex(0));
            let members = Members::new(&config, MemberSet::EMPTY);
            let mut buffer = MetadataBuffer::new(BufferId::NONE, BlockSize::B4096, 4);
            let bitmaps = [AreaKind::DIRTY_BITMAP, AreaKind::WRITTEN_BITMAP]
                .map(|area| Bitmap::new(area, 128, false, BlockSize::B4096, &mut buffer));
            let part = Part::new(groups, 1, 0);
            let mut regions = Regions::new(part, Some(older), stored, false, bitmaps, 1);
            regions.set_live(config.geometry.live_groups());
            let mut grow = Grow::new(None, &config.geometry, BlockSize::B4096, &mut buffer);
            grow.record.older = Some(OlderMap {
                level: Text::new("raid5").expect("short"),
                layout: Text::new("").expect("short"),
                chunk_blocks: 2,
                members: 3,
                region_groups: 1,
                region: 64,
                mark: BlockIndex(0),
                staged_blocks: 0,
            });
            grow.staging_rows = 8;
            grow.buffer_blocks = 96;
            Self {
                geometry: config.geometry,
                members,
                regions,
                grow,
            }
        }

        fn step(&mut self, input: Input) -> Action {
            self.step_if(input, false)
        }

        fn step_if(&mut self, input: Input, broken: bool) -> Action {
            let context = Context {
                geometry: &self.geometry,
                members: &self.members,
                regions: &self.regions,
                writes_nothing: broken,
                is_broken: broken,
                present: 4,
            };
            let step = self.grow.step(input, &context);
            if let Some(end) = step.map_end {
                self.geometry.set_mark(end);
                self.regions.set_live(self.geometry.live_groups());
            }
            step.action
        }

        fn mark(&self) -> u64 {
            self.geometry.mark().expect("it grows").0
        }
    }

    const WRITE: Operation = Operation::Write { fua: false };

    /// The events of a window in order, with the reply to each.
    const WINDOW: [(Input, Action); 9] = [
        (Input::Turn, Action::Wait),
        (Input::Alone, Action::Prepare),
        (Input::RegionsReady, Action::Ask(Operation::Read)),
        (Input::RequestDone, Action::Ask(WRITE)),
        (Input::RequestDone, Action::Flush(Purpose::StagedFlush)),
        (Input::Flushed, Action::Record(false)),
        (Input::Recorded, Action::Ask(WRITE)),
        (Input::RequestDone, Action::Flush(Purpose::MovedFlush)),
        (Input::Flushed, Action::Record(true)),
    ];

    fn written_world() -> World {
        let mut world = World::new(false);
        world.regions.note_all_written();
        world
    }

    #[test]
    fn a_window_is_durable_in_the_headroom_before_its_places_are_written() {
        let mut world = written_world();
        let mut marks = Vec::new();
        for (input, action) in WINDOW {
            assert_eq!(world.step(input), action, "{input:?}");
            marks.push((world.mark(), world.grow.staged()));
        }
        assert!(
            marks[..3].iter().all(|mark| *mark == (0, 0..0)),
            "{marks:?}"
        );
        let end = marks[3].0;
        assert!(end > 0);
        assert!(
            marks[3..6]
                .iter()
                .all(|(at, staged)| *at == end && !staged.is_empty())
        );
        assert!(
            marks[6..]
                .iter()
                .all(|(at, staged)| *at == end && staged.is_empty())
        );
        assert_eq!(world.step(Input::Recorded), Action::Wait);
        assert!(world.grow.is_idle());
    }

    #[test]
    fn a_window_that_fails_keeps_the_map_that_is_recorded() {
        for failing in 2..WINDOW.len() {
            let mut world = written_world();
            for (input, _) in &WINDOW[..failing] {
                world.step(*input);
            }
            assert_eq!(
                world.step_if(Input::Failed, true),
                Action::Stop,
                "{failing}"
            );
            assert!(world.grow.is_stuck());
            // The superblocks may say that the window is staged once they were asked to.
            let may_be_recorded = failing >= 6;
            assert_eq!(world.mark() > 0, may_be_recorded, "{failing}");
        }
    }

    #[test]
    fn what_was_never_written_is_not_moved() {
        let mut world = World::new(true);
        assert_eq!(world.step(Input::Turn), Action::Wait);
        assert_eq!(world.step(Input::Alone), Action::Record(true));
        assert!(world.grow.record().older.is_none());
        assert_eq!(world.step(Input::Recorded), Action::ForgetOldMap);
    }

    #[test]
    #[should_panic(expected = "Flushed in stage Idle of a growth")]
    fn an_event_that_no_stage_awaits_is_a_bug() {
        World::new(true).step(Input::Flushed);
    }
}

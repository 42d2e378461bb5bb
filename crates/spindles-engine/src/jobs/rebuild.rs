//! Devices that take the positions of missing members, and how far they are filled.
//!
//! ```text
//!             nothing under way                 all copied, flushed, recorded
//!  Joining ──────────────────────▶ being filled ─────────────────────────────▶ done ──reported──▶
//!                                    │       ▲
//!              the mark has advanced │       │ the superblocks record the mark
//!                                    ▼       │
//!                                    flushing
//! ```

use crate::{
    jobs::{Place, Walk},
    members::Members,
    regions::Regions,
};
use alloc::vec::Vec;
use spindles_block::{BlockSize, MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};
use spindles_layout::{Geometry, GroupIndex};

/// Stands for the identity of a device that keeps its own.
pub(crate) const RETURNING: Uuid = Uuid([0xff; 16]);

/// The mark is recorded at least once in this many bytes of the array.
const MARK_BYTES: u64 = 4 << 30;

/// The mark is recorded at least this many times on the way through the array.
const MARKS: u64 = 16;

/// A device that is about to take a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    member: MemberIndex,
    device: DeviceRecord,
    uuid: Uuid,
    returns: bool,
    replaces: bool,
}

impl Joining {
    /// Returns the position.
    pub(crate) const fn member(&self) -> MemberIndex {
        self.member
    }

    /// Returns the record of the device.
    pub(crate) const fn device(&self) -> &DeviceRecord {
        &self.device
    }

    /// Returns the identity of the device.
    pub(crate) const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Returns true if the device still has its contents from when it went out.
    pub(crate) const fn returns(&self) -> bool {
        self.returns
    }

    /// Returns true if the device is attached beyond all positions: see `replace`.
    pub(crate) const fn replaces(&self) -> bool {
        self.replaces
    }
}

/// An event of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The mark of the walk has advanced.
    Advanced,
    /// The walk went through everything.
    Ended,
    /// The devices being filled are flushed.
    Flushed,
    /// The members have noted that they are durably filled below this place.
    Noted(Place),
}

/// The reply to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for the next event.
    Wait,
    /// Flush these members.
    Flush(MemberSet),
    /// Note that the members are durably filled below this place.
    Note(Place),
    /// Report that this many stripe ranges could not be filled.
    ReportIncomplete { failed: u64 },
}

/// The parts of the array on which a rebuild depends.
pub(crate) struct Context<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) block_size: BlockSize,
    pub(crate) members: &'a Members,
    pub(crate) walk: &'a Walk,
}

impl Context<'_> {
    /// Returns the number of groups after which the mark is recorded again.
    fn mark_groups(&self) -> u64 {
        let group_bytes = u64::from(self.geometry.chunk_blocks())
            * u64::from(self.geometry.data_chunks())
            * u64::from(self.block_size.bytes());
        (self.geometry.groups() / MARKS).min(MARK_BYTES / group_bytes.max(1))
    }
}

/// What a flush of the devices being filled has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    None,
    /// The superblocks have a new mark to record.
    Marked,
    /// The superblocks have a filled device to record.
    Filled,
}

/// The engine's state of rebuilds, apart from the walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rebuild {
    /// Devices that wait for a moment with nothing under way, to take their positions together.
    joining: Vec<Joining>,
    /// The devices being filled are flushed. Then the superblocks record this mark.
    flush: Option<Place>,
    /// Devices being filled that lack only the dirty regions.
    returning: MemberSet,
    /// The group up to which the superblocks record progress, or are about to.
    marked: GroupIndex,
    /// Members that the superblocks are about to call active.
    done: MemberSet,
    /// Stripe ranges that failed, reported after the last flush.
    failed: u64,
}

impl Rebuild {
    /// Handles an event.
    pub(crate) fn step(&mut self, input: Input, context: &Context<'_>) -> Action {
        let mark = context.walk.mark();
        match input {
            Input::Advanced => {
                let due = self.marked.0 + context.mark_groups();
                if self.is_quiet() && mark.group().0 > due {
                    return self.flush_to(mark, context);
                }
                Action::Wait
            }
            Input::Ended => {
                self.failed = context.walk.failed();
                if self.is_quiet() {
                    return self.flush_to(mark, context);
                }
                Action::Wait
            }
            Input::Flushed => Action::Note(self.flush.take().expect("it was begun")),
            Input::Noted(to) => {
                let is_filling = !context.members.being_filled().is_empty();
                match context.walk.is_over() && is_filling {
                    true if mark > to => self.flush_to(mark, context),
                    true => {
                        let failed = self.failed;
                        Action::ReportIncomplete { failed }
                    }
                    false => Action::Wait,
                }
            }
        }
    }

    /// Flushes the devices being filled. Everything below `to` is durable there afterwards.
    fn flush_to(&mut self, to: Place, context: &Context<'_>) -> Action {
        self.marked = to.group();
        let members = context.members.being_filled();
        if members.is_empty() {
            return Action::Wait;
        }
        self.flush = Some(to);
        Action::Flush(members)
    }

    /// Notes that everything below `to` is durable on the devices being filled.
    pub(crate) fn note_marks(
        &mut self,
        to: Place,
        members: &mut Members,
        geometry: &Geometry,
    ) -> Progress {
        let mut progress = Progress::None;
        for member in members.being_filled().iter() {
            let group = to.max(members.filled_from_start(member)).group();
            if group.0 >= geometry.groups() {
                members.filled(member);
                self.returning = self.returning.without(member);
                self.done = self.done.with(member);
                progress = Progress::Filled;
            } else if members.mark(member, geometry.blocks_before(group))
                && progress == Progress::None
            {
                progress = Progress::Marked;
            }
        }
        progress
    }

    /// Notes that the superblocks record progress up to `group`, from which a walk begins.
    pub(crate) fn begins_at(&mut self, group: GroupIndex) {
        self.marked = group;
    }

    /// Handles the loss of devices that were being filled.
    pub(crate) fn loses(&mut self, missing: MemberSet) {
        self.returning = self.returning.difference(missing);
    }

    /// Takes the members that the superblocks record as active now.
    pub(crate) fn take_done(&mut self) -> MemberSet {
        core::mem::take(&mut self.done)
    }

    /// Returns true if a device is about to take its position, is being filled, or is filled and
    /// the superblocks do not all record that yet.
    pub(crate) fn is_under_way(&self, members: &Members) -> bool {
        self.somebody_joins() || !members.being_filled().is_empty() || !self.done.is_empty()
    }

    /// Returns true if devices wait to take their positions.
    #[inline]
    pub(crate) fn somebody_joins(&self) -> bool {
        !self.joining.is_empty()
    }

    /// Returns the position that the device attached beyond all positions is about to take.
    pub(crate) fn replacement_joins(&self) -> Option<MemberIndex> {
        let mut joining = self.joining.iter();
        let joins = joining.find(|joining| joining.replaces);
        joins.map(Joining::member)
    }

    /// Drops the devices that wait to take their positions.
    pub(crate) fn nobody_joins(&mut self) {
        self.joining.clear();
    }

    /// Takes the devices that wait to take their positions.
    pub(crate) fn take_joining(&mut self) -> Vec<Joining> {
        core::mem::take(&mut self.joining)
    }

    /// Returns true if a device being filled lacks only the dirty regions.
    pub(crate) fn is_returning(&self, member: MemberIndex) -> bool {
        self.returning.contains(member)
    }

    /// Returns the members whose device is being filled and lacks only the dirty regions.
    pub(crate) fn returning(&self, members: &Members) -> MemberSet {
        members.being_filled().intersection(self.returning)
    }

    /// Notes that the device of `member` lacks only the dirty regions.
    pub(crate) fn returns(&mut self, member: MemberIndex) {
        self.returning = self.returning.with(member);
    }

    /// Returns true if no flush of a rebuild is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flush.is_none()
    }

    /// Lets a device take the place of a missing one, as soon as nothing is under way.
    pub(crate) fn fill(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.joins(member, device, uuid);
    }

    /// Lets a device that was out take its place again, like `fill`.
    pub(crate) fn fill_again(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.joins(member, device, uuid).returns = true;
    }

    /// Lets the device beyond all positions take a place, like `fill`.
    pub(crate) fn fill_other(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.joins(member, device, uuid).replaces = true;
    }

    fn joins(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) -> &mut Joining {
        self.joining.push(Joining {
            member,
            device: *device,
            uuid,
            returns: false,
            replaces: false,
        });
        self.joining.last_mut().expect("it was pushed")
    }

    /// Returns the positions that a device is about to take.
    pub(crate) fn members_joining(&self) -> MemberSet {
        self.joining.iter().map(Joining::member).collect()
    }

    /// Returns true if a device is about to take this position.
    pub(crate) fn is_joining(&self, member: MemberIndex) -> bool {
        self.members_joining().contains(member)
    }

    /// Returns the first group from `group` on of which a device being filled may lack something.
    pub(crate) fn next_to_fill(
        &self,
        members: &Members,
        regions: &Regions,
        geometry: &Geometry,
        group: GroupIndex,
    ) -> GroupIndex {
        let filled = members.being_filled();
        let next = if filled.difference(self.returning).is_empty() {
            regions.next_missed(group)
        } else {
            regions.next_written(group)
        };
        // Groups of the old map have no blocks on members added later.
        let old_members = geometry.older().map_or(0, Geometry::members);
        let lacks_old = filled.iter().any(|member| member.0 < old_members);
        if regions.is_of_older(next) && !lacks_old {
            return GroupIndex(u64::MAX);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        jobs::{JOB_RATE, Jobs},
        output::OutReason,
    };
    use spindles_block::BlockIndex;
    use spindles_layout::{Level, Spec};

    const MEMBER: MemberIndex = MemberIndex(2);

    /// An array of 32 groups that records the mark every two groups.
    struct World {
        geometry: Geometry,
        members: Members,
        jobs: Jobs,
        rebuild: Rebuild,
    }

    impl World {
        fn new() -> Self {
            let spec = Spec {
                level: Level::by_name("raid5").expect("a row of the table"),
                layout: None,
                chunk_blocks: 2,
                member_blocks: vec![64; 3],
            };
            let geometry = Geometry::new(&spec).expect("a legal array");
            let config = Config::bare(geometry, BlockSize::B4096, 1);
            let mut members = Members::new(&config, MemberSet::EMPTY);
            members.put_out(MEMBER, OutReason::Command);
            members.join(MEMBER, BlockIndex(0));
            let mut jobs = Jobs::new(1, JOB_RATE);
            jobs.begin_walk(0, Place::default());
            Self {
                geometry: config.geometry,
                members,
                jobs,
                rebuild: Rebuild::default(),
            }
        }

        fn step(&mut self, input: Input) -> Action {
            let context = Context {
                geometry: &self.geometry,
                block_size: BlockSize::B4096,
                members: &self.members,
                walk: self.jobs.walk_of(0),
            };
            self.rebuild.step(input, &context)
        }

        /// Lets the walk be complete below a group.
        fn walk_to(&mut self, group: u64) -> Action {
            self.jobs.skip_to(0, GroupIndex(group));
            self.jobs.find_mark(0, [].into_iter());
            self.step(Input::Advanced)
        }

        fn end(&mut self) -> Action {
            self.jobs.end_walk(0);
            self.step(Input::Ended)
        }

        /// Ends the flush, and notes the mark.
        fn flushed(&mut self) -> (Progress, Action) {
            let Action::Note(to) = self.step(Input::Flushed) else {
                panic!("a flush makes a mark durable");
            };
            let members = &mut self.members;
            let progress = self.rebuild.note_marks(to, members, &self.geometry);
            (progress, self.step(Input::Noted(to)))
        }
    }

    fn flush() -> Action {
        Action::Flush(MemberSet::EMPTY.with(MEMBER))
    }

    #[test]
    fn the_mark_is_recorded_from_time_to_time() {
        let mut world = World::new();
        assert_eq!(world.walk_to(2), Action::Wait);
        assert_eq!(world.walk_to(3), flush());
        assert_eq!(world.walk_to(9), Action::Wait, "one flush at a time");
        assert_eq!(world.flushed(), (Progress::Marked, Action::Wait));
        assert_eq!(world.walk_to(9), flush());
    }

    #[test]
    fn a_device_is_filled_when_its_last_flush_has_ended() {
        let mut world = World::new();
        world.rebuild.returns(MEMBER);
        assert_eq!(world.walk_to(30), flush());
        world.walk_to(32);
        assert_eq!(
            world.end(),
            Action::Wait,
            "the flush before may lack the end"
        );
        assert_eq!(world.flushed(), (Progress::Marked, flush()));
        assert!(world.members.lost().contains(MEMBER));
        assert_eq!(world.flushed(), (Progress::Filled, Action::Wait));
        assert!(world.members.lost().is_empty() && !world.rebuild.is_returning(MEMBER));
        assert!(world.rebuild.is_under_way(&world.members));
        assert_eq!(world.rebuild.take_done(), MemberSet::EMPTY.with(MEMBER));
        assert!(!world.rebuild.is_under_way(&world.members));
    }

    #[test]
    fn a_device_that_lacks_rows_is_not_filled() {
        let mut world = World::new();
        world.jobs.hold_walk(0, Place::start_of(GroupIndex(7)));
        world.jobs.skip_to(0, GroupIndex(32));
        world.jobs.find_mark(0, [].into_iter());
        assert_eq!(world.end(), flush());
        let incomplete = Action::ReportIncomplete { failed: 1 };
        assert_eq!(world.flushed(), (Progress::Marked, incomplete));
        assert!(world.members.lost().contains(MEMBER));
    }

    #[test]
    fn nothing_is_flushed_when_the_device_is_lost() {
        let mut world = World::new();
        world.members.put_out(MEMBER, OutReason::Command);
        assert_eq!(world.walk_to(9), Action::Wait);
        assert!(world.rebuild.is_quiet());
    }
}

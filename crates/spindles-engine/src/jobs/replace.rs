//! The stages of a replacement, and what remains to copy.
//!
//! ```text
//!  Idle ──Replace──▶ Waiting ──no work under way──▶ Copying ──all copied──▶ Draining
//!   ▲                                                 ▲                        │ no work
//!   │                                                 │                        │ under way
//!   │                                                 └──first-written regions─┤
//!   │                                                                          ▼
//!   └──all recorded── Recording ◀──its superblock durable── Telling ◀──durable── Flushing
//! ```
//!
//! Up to `Flushing` the replacement ends if the member or the replacement device fails, or if a
//! place can't be read. In `Telling` it ends if the replacement device refuses its superblock.

use crate::{
    RangeId, bits::Bits, faults::MemberFaults, output::ReplaceEnd, regions::Regions,
    slots::SlotSet, stripe::Ranges,
};
use core::mem::swap;
use spindles_block::{MemberError, MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};
use spindles_layout::GroupIndex;

/// The stage of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Waiting until nothing is under way.
    Waiting,
    /// The walk copies. Writes to the member go to the replacement device too.
    Copying,
    /// Everything is copied. Waiting until nothing is under way.
    Draining,
    Flushing,
    /// The devices have changed places. Writing the replacement device's own superblock.
    Telling,
    /// Writing the other superblocks.
    Recording {
        /// Errors of the device that was replaced.
        faults: MemberFaults,
    },
}

/// An event of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing is under way in the array.
    Quiet,
    /// The walk went through everything. This many of its stripe ranges failed.
    Walked { failed: u64 },
    /// The flush of all members has ended.
    MembersFlushed,
    /// The flush of the replacement device has ended.
    DeviceFlushed,
    /// The replacement device's superblock is durable. Carries the errors of the replaced device.
    Told(MemberFaults),
    /// The replacement device refused its superblock. The devices are exchanged back.
    Refused(MemberError),
    /// All superblocks are durable, or writing has stopped.
    Recorded,
    /// The replacement device failed.
    DeviceFailed(MemberError),
    /// A member went out.
    MemberOut(MemberIndex),
    /// The walk was stopped, and its last stripe range has ended.
    Stopped,
    /// The array closes.
    Closes,
}

/// The reply to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for the next event.
    Wait,
    /// Begin the walk, report that, and write all metadata to the replacement device.
    Start(MemberIndex),
    /// Begin the walk again.
    Copy,
    /// Flush all members.
    FlushMembers,
    /// Flush the replacement device.
    FlushDevice,
    /// Exchange the devices, and write the superblock of the replacement device.
    Exchange,
    /// Write the other superblocks. From now on the position's counts are the new device's.
    TellOthers(MemberIndex),
    /// Report the end of a replacement. If writing has stopped, no superblock records it.
    Finish {
        member: MemberIndex,
        faults: MemberFaults,
    },
    /// Stop the walk, and report the end of a replacement without the replacement device.
    End(MemberIndex, ReplaceEnd),
}

/// The parts of the array on which a replacement depends.
pub(crate) struct Context<'a> {
    pub(crate) regions: &'a Regions,
    /// True while superblocks are written.
    pub(crate) superblocks_are_busy: bool,
    /// True if the superblocks can't be written.
    pub(crate) is_broken: bool,
    /// True if the array has failed.
    pub(crate) has_failed: bool,
}

/// A device that is to take the position of a live member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplacementDevice {
    member: MemberIndex,
    device: DeviceRecord,
    uuid: Uuid,
}

/// The engine's state of a replacement, apart from the walk.
#[derive(Clone, Debug)]
pub(crate) struct Replace {
    stage: Stage,
    /// The replacement device; from `Telling` on, the device that it replaced. `None` while idle.
    other: Option<ReplacementDevice>,
    /// Regions that the walk has to copy.
    todo: Bits,
    /// Regions written for the first time since the walk began.
    fresh: Bits,
}

impl Replace {
    pub(crate) fn new(regions: u64) -> Self {
        Self {
            stage: Stage::Idle,
            other: None,
            todo: Bits::new(regions, false),
            fresh: Bits::new(regions, false),
        }
    }

    /// Lets a device take the position of a live member.
    pub(crate) fn begin(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.stage = Stage::Waiting;
        self.other = Some(ReplacementDevice {
            member,
            device: *device,
            uuid,
        });
    }

    /// Handles an event.
    pub(crate) fn step(&mut self, input: Input, context: &Context<'_>) -> Action {
        match (self.stage, input) {
            (Stage::Waiting | Stage::Draining, Input::Quiet) => self.quiet(context),
            (Stage::Copying, Input::Walked { failed: 0 }) => {
                if self.takes_fresh() {
                    return Action::Copy;
                }
                self.stage = Stage::Draining;
                Action::Wait
            }
            (Stage::Copying, Input::Walked { failed }) => {
                self.end(ReplaceEnd::Unreadable { failed })
            }
            (Stage::Flushing, Input::MembersFlushed) => Action::FlushDevice,
            (Stage::Flushing, Input::DeviceFlushed) => self.flushed(context),
            (Stage::Telling, Input::Told(faults)) => {
                self.stage = Stage::Recording { faults };
                Action::TellOthers(self.other().member)
            }
            (Stage::Telling, Input::Refused(error)) => self.end(ReplaceEnd::ReplacementLost(error)),
            (Stage::Recording { faults }, Input::Recorded) => {
                let member = self.other().member;
                (self.stage, self.other) = (Stage::Idle, None);
                Action::Finish { member, faults }
            }
            (_, Input::DeviceFailed(error)) if self.is_secret() => {
                self.end(ReplaceEnd::ReplacementLost(error))
            }
            (_, Input::MemberOut(member)) if self.member() == Some(member) && self.may_end() => {
                self.end(ReplaceEnd::MemberLost)
            }
            (Stage::Copying, Input::Stopped) => self.end(ReplaceEnd::Stopped),
            (_, Input::Closes) if self.may_end() => self.end(ReplaceEnd::Stopped),
            // A flush of a replacement that has ended, or an event of something else.
            (
                _,
                Input::MembersFlushed
                | Input::DeviceFlushed
                | Input::Recorded
                | Input::DeviceFailed(_)
                | Input::MemberOut(_)
                | Input::Closes,
            ) => Action::Wait,
            (stage, input) => panic!("{input:?} in stage {stage:?} of a replacement"),
        }
    }

    /// Continues when nothing is under way: begins to copy, copies the rest, or flushes.
    fn quiet(&mut self, context: &Context<'_>) -> Action {
        if context.is_broken || context.has_failed {
            return self.end(ReplaceEnd::ArrayFailed);
        }
        if self.stage == Stage::Waiting {
            context.regions.copy_written(&mut self.todo);
            self.fresh.clear_all();
            self.stage = Stage::Copying;
            return Action::Start(self.other().member);
        }
        if self.takes_fresh() {
            return Action::Copy;
        }
        self.stage = Stage::Flushing;
        Action::FlushMembers
    }

    /// Lets the next walk copy the regions that were written for the first time meanwhile. Returns
    /// false if nothing is left to copy.
    fn takes_fresh(&mut self) -> bool {
        let any = !self.fresh.is_empty();
        if any {
            swap(&mut self.todo, &mut self.fresh);
            self.fresh.clear_all();
            self.stage = Stage::Copying;
        }
        any
    }

    /// Continues when everything is durable on all members and on the replacement device.
    fn flushed(&mut self, context: &Context<'_>) -> Action {
        if context.superblocks_are_busy || context.is_broken {
            // Another member went out meanwhile: that comes first.
            self.stage = Stage::Draining;
            return Action::Wait;
        }
        self.stage = Stage::Telling;
        Action::Exchange
    }

    /// Ends the replacement without the replacement device.
    fn end(&mut self, why: ReplaceEnd) -> Action {
        self.stage = Stage::Idle;
        let other = self.other.take().expect("it goes on");
        Action::End(other.member, why)
    }

    /// Returns true if the replacement can end without a change of superblocks.
    fn may_end(&self) -> bool {
        self.is_secret() || self.stage == Stage::Waiting
    }

    fn other(&self) -> &ReplacementDevice {
        self.other.as_ref().expect("a replacement goes on")
    }

    /// Returns the member that is being replaced.
    pub(crate) fn member(&self) -> Option<MemberIndex> {
        self.other.as_ref().map(|other| other.member)
    }

    /// Returns true if the replacement waits until nothing is under way.
    pub(crate) fn waits_for_quiet(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Draining)
    }

    /// Returns the first group from `group` on that the walk has to copy.
    pub(crate) fn next_to_copy(&self, regions: &Regions, group: GroupIndex) -> GroupIndex {
        regions.next_group(&self.todo, group)
    }

    /// Exchanges the device that the position has and the other one.
    pub(crate) fn exchange(&mut self, device: &mut DeviceRecord, uuid: &mut Uuid) {
        let other = self.other.as_mut().expect("a replacement goes on");
        swap(device, &mut other.device);
        swap(uuid, &mut other.uuid);
    }

    /// Returns true if a replacement keeps new work from starting.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Copying)
    }

    /// Returns true if writes to the member go to the replacement device too.
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        matches!(self.stage, Stage::Copying | Stage::Draining)
    }

    /// Returns true if the replacement device is in use, but no superblock mentions it yet.
    pub(crate) fn is_secret(&self) -> bool {
        self.copies() || self.stage == Stage::Flushing
    }

    /// Returns true while the replacement device's own superblock is written, before all others.
    pub(crate) fn is_telling(&self) -> bool {
        self.stage == Stage::Telling
    }

    /// Returns true if the two devices have changed places, and not all superblocks say so yet.
    pub(crate) fn has_exchanged(&self) -> bool {
        matches!(self.stage, Stage::Telling | Stage::Recording { .. })
    }

    /// Returns the members, out of `there`, whose superblocks are written now.
    pub(crate) fn told_now(&self, there: MemberSet) -> MemberSet {
        match self.member() {
            Some(member) if self.is_telling() => MemberSet::EMPTY.with(member),
            _ => there,
        }
    }

    /// Notes the first write to this region.
    pub(crate) fn first_written(&mut self, region: u64) {
        if self.copies() {
            self.fresh.set(region);
        }
    }

    /// Returns the replacement device, and its identity.
    pub(crate) fn device(&self) -> (&DeviceRecord, Uuid) {
        (&self.other().device, self.other().uuid)
    }

    /// Returns the replacement device, if the bitmaps are written to it too.
    pub(crate) fn device_of_bitmaps(&self) -> Option<&DeviceRecord> {
        self.is_secret().then(|| self.device().0)
    }

    /// Returns the slot of a stripe range whose member is being replaced.
    #[inline]
    pub(crate) fn slots(&self, ranges: &Ranges, id: RangeId) -> SlotSet {
        if !self.copies() {
            return SlotSet::EMPTY;
        }
        ranges.slots_of(id, MemberSet::EMPTY.with(self.other().member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bitmaps::Bitmap, regions::Part, system_io::MetadataBuffer};
    use spindles_block::{BlockSize, BufferId};
    use spindles_format::{Area, AreaKind, SLOT_BYTES};

    const MEMBER: MemberIndex = MemberIndex(1);
    const OLD: Uuid = Uuid([1; 16]);
    const NEW: Uuid = Uuid([2; 16]);

    fn device() -> DeviceRecord {
        let area = |kind, offset_bytes| Area {
            kind,
            version: 1,
            offset_bytes,
            length_bytes: 4096,
        };
        let slots = SLOT_BYTES.map(|offset| area(AreaKind::SUPERBLOCK, offset));
        let data = area(AreaKind::DATA, SLOT_BYTES[1] + 4096);
        let areas = [slots[0], slots[1], data];
        let bytes = data.offset_bytes + data.length_bytes;
        DeviceRecord::new(MEMBER, BlockSize::B4096, bytes, &areas).expect("the areas are in order")
    }

    /// The parts of an array of eight regions, all written.
    struct World {
        regions: Regions,
        replace: Replace,
        superblocks_are_busy: bool,
        is_broken: bool,
    }

    impl World {
        /// Returns an array in which a device waits to replace a member.
        fn begun() -> Self {
            let mut buffer = MetadataBuffer::new(BufferId::NONE, BlockSize::B4096, 4);
            let bitmaps = [AreaKind::DIRTY_BITMAP, AreaKind::WRITTEN_BITMAP]
                .map(|area| Bitmap::new(area, 8, false, BlockSize::B4096, &mut buffer));
            let regions = Regions::new(Part::new(0..8, 1, 0), None, false, false, bitmaps, 1);
            let mut replace = Replace::new(8);
            replace.begin(MEMBER, &device(), NEW);
            Self {
                regions,
                replace,
                superblocks_are_busy: false,
                is_broken: false,
            }
        }

        /// Returns an array after the first of these steps.
        fn after(steps: &[(Input, Action)]) -> Self {
            let mut world = Self::begun();
            for (input, action) in steps {
                assert_eq!(world.step(*input), *action, "{input:?}");
            }
            world
        }

        fn step(&mut self, input: Input) -> Action {
            let context = Context {
                regions: &self.regions,
                superblocks_are_busy: self.superblocks_are_busy,
                is_broken: self.is_broken,
                has_failed: false,
            };
            self.replace.step(input, &context)
        }
    }

    const FAULTS: MemberFaults = MemberFaults {
        read_errors: 3,
        repaired_blocks: 0,
        rotten_blocks: 0,
        unfilled_blocks: 0,
        bad_blocks: 0,
    };

    /// The events of a replacement in order, with the reply to each.
    const STEPS: [(Input, Action); 7] = [
        (Input::Quiet, Action::Start(MEMBER)),
        (Input::Walked { failed: 0 }, Action::Wait),
        (Input::Quiet, Action::FlushMembers),
        (Input::MembersFlushed, Action::FlushDevice),
        (Input::DeviceFlushed, Action::Exchange),
        (Input::Told(FAULTS), Action::TellOthers(MEMBER)),
        (
            Input::Recorded,
            Action::Finish {
                member: MEMBER,
                faults: FAULTS,
            },
        ),
    ];

    #[test]
    fn a_replacement_goes_from_stage_to_stage() {
        let world = World::after(&STEPS);
        assert_eq!(world.replace.member(), None);
        assert!(!world.replace.holds_back() && !world.replace.copies());
    }

    #[test]
    fn new_work_begins_only_while_it_copies() {
        let holds = |steps| World::after(&STEPS[..steps]).replace.holds_back();
        let expected = [true, false, true, true, true, true, true, false];
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(holds), expected);
    }

    #[test]
    fn regions_written_meanwhile_are_copied_in_another_walk() {
        let mut world = World::after(&STEPS[..1]);
        let next = |world: &World| world.replace.next_to_copy(&world.regions, GroupIndex(0));
        assert_eq!(next(&world), GroupIndex(0));
        world.replace.first_written(5);
        assert_eq!(world.step(Input::Walked { failed: 0 }), Action::Copy);
        assert_eq!(next(&world), GroupIndex(5));
        assert_eq!(world.step(Input::Walked { failed: 0 }), Action::Wait);
        // A write that was under way while the members became quiet.
        world.replace.first_written(6);
        assert_eq!(world.step(Input::Quiet), Action::Copy);
        assert_eq!(next(&world), GroupIndex(6));
    }

    /// From `Telling` on a superblock may name the replacement device.
    #[test]
    fn it_ends_without_a_trace_until_the_devices_are_exchanged() {
        let lost = Input::MemberOut(MEMBER);
        for (at, secret) in [false, true, true, true, true, false, false]
            .iter()
            .enumerate()
        {
            let waits = at == 0;
            let ends = |input, why| {
                let mut world = World::after(&STEPS[..at]);
                let ends = world.step(input) == Action::End(MEMBER, why);
                assert_eq!(ends, world.replace.member().is_none());
                ends
            };
            assert_eq!(ends(lost, ReplaceEnd::MemberLost), *secret || waits, "{at}");
            assert_eq!(
                ends(Input::Closes, ReplaceEnd::Stopped),
                *secret || waits,
                "{at}"
            );
            let error = MemberError::Medium;
            let failed = ends(
                Input::DeviceFailed(error),
                ReplaceEnd::ReplacementLost(error),
            );
            assert_eq!(failed, *secret, "{at}");
        }
        let other = Input::MemberOut(MemberIndex(0));
        assert_eq!(World::after(&STEPS[..1]).step(other), Action::Wait);
    }

    #[test]
    fn unreadable_places_end_it() {
        let mut world = World::after(&STEPS[..1]);
        let why = ReplaceEnd::Unreadable { failed: 2 };
        let walked = Input::Walked { failed: 2 };
        assert_eq!(world.step(walked), Action::End(MEMBER, why));
    }

    #[test]
    fn an_array_that_stopped_writing_ends_it_when_it_is_quiet() {
        for at in [0, 2] {
            let mut world = World::after(&STEPS[..at]);
            world.is_broken = true;
            let end = Action::End(MEMBER, ReplaceEnd::ArrayFailed);
            assert_eq!(world.step(Input::Quiet), end);
        }
    }

    #[test]
    fn a_change_of_membership_comes_before_the_exchange() {
        let mut world = World::after(&STEPS[..4]);
        world.superblocks_are_busy = true;
        assert_eq!(world.step(Input::DeviceFlushed), Action::Wait);
        world.superblocks_are_busy = false;
        assert_eq!(world.step(Input::Quiet), Action::FlushMembers);
    }

    #[test]
    fn a_device_that_refuses_its_superblock_is_given_back() {
        let mut world = World::after(&STEPS[..5]);
        let (mut device, mut uuid) = (device(), OLD);
        world.replace.exchange(&mut device, &mut uuid);
        assert_eq!((uuid, world.replace.device().1), (NEW, OLD));
        world.replace.exchange(&mut device, &mut uuid);
        assert_eq!(uuid, OLD);
        let error = MemberError::Gone;
        let end = Action::End(MEMBER, ReplaceEnd::ReplacementLost(error));
        assert_eq!(world.step(Input::Refused(error)), end);
    }

    #[test]
    fn its_own_superblock_is_written_before_all_others() {
        let there = MemberSet::all(4);
        let own = MemberSet::EMPTY.with(MEMBER);
        let telling = World::after(&STEPS[..5]);
        assert_eq!(telling.replace.told_now(there), own);
        let recording = World::after(&STEPS[..6]);
        assert_eq!(recording.replace.told_now(there), there);
        assert!(recording.replace.has_exchanged());
    }

    #[test]
    #[should_panic(expected = "of a replacement")]
    fn an_event_that_no_stage_awaits_is_a_bug() {
        World::begun().step(Input::Walked { failed: 0 });
    }
}

//! The members of an array: the state of each, where its data begins, and its load.

use crate::config::Config;
use crate::jobs::Place;
use crate::member::{Member, MemberEvent};
use crate::output::OutReason;
use crate::read_policies::MemberLoad;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};

/// A position, and the state of its device.
#[derive(Clone, Copy, Debug)]
struct Position {
    state: Member,
    data_start: BlockIndex,
    /// Below this place the device was good when the walk began. Used while the device is being
    /// filled.
    filled_from_start: Place,
    load: MemberLoad,
}

/// All members.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    positions: Vec<Position>,
    /// Positions without a device.
    missing: MemberSet,
    /// `missing`, and positions whose device is still being filled.
    lost: MemberSet,
    /// Members that are never read directly: they have bad blocks, or are slow.
    indirect: MemberSet,
}

impl Members {
    /// Creates the members of a configuration. Those in `lost` are missing or being filled.
    pub(crate) fn new(config: &Config, lost: MemberSet) -> Self {
        let members = (0..config.geometry.members()).map(MemberIndex);
        let position = |member| Position {
            state: if config.missing.contains(member) {
                Member::Missing { reason: None }
            } else {
                Member::Active
            },
            data_start: config.data_start[usize::from(member.0)],
            filled_from_start: Place::default(),
            load: MemberLoad {
                write_mostly: config.write_mostly.contains(member),
                ..MemberLoad::default()
            },
        };
        Self {
            positions: members.map(position).collect(),
            missing: config.missing,
            lost,
            indirect: MemberSet::EMPTY,
        }
    }

    #[inline]
    fn at(&self, member: MemberIndex) -> &Position {
        &self.positions[usize::from(member.0)]
    }

    #[inline]
    fn at_mut(&mut self, member: MemberIndex) -> &mut Position {
        &mut self.positions[usize::from(member.0)]
    }

    /// Returns the positions without a device.
    #[inline]
    pub(crate) fn missing(&self) -> MemberSet {
        self.missing
    }

    /// Returns the missing members, and those that are being filled.
    #[inline]
    pub(crate) fn lost(&self) -> MemberSet {
        self.lost
    }

    /// Returns the members that are never read directly.
    #[inline]
    pub(crate) fn indirect(&self) -> MemberSet {
        self.indirect
    }

    /// Changes the set of members that are never read directly.
    pub(crate) fn set_indirect(&mut self, members: MemberSet) {
        self.indirect = members;
    }

    /// Iterates over the states, in the order of the members.
    pub(crate) fn states(&self) -> impl Iterator<Item = Member> {
        self.positions.iter().map(|position| position.state)
    }

    /// Returns the state of a member.
    pub(crate) fn state(&self, member: MemberIndex) -> Member {
        self.at(member).state
    }

    /// Returns the first block of a member's data area, counted from the start of its device.
    #[inline]
    pub(crate) fn data_start(&self, member: MemberIndex) -> BlockIndex {
        self.at(member).data_start
    }

    /// Returns the place below which a device that is being filled was good when the walk began.
    pub(crate) fn filled_from_start(&self, member: MemberIndex) -> Place {
        self.at(member).filled_from_start
    }

    /// Returns the load of a member.
    #[inline]
    pub(crate) fn load(&self, member: MemberIndex) -> &MemberLoad {
        &self.at(member).load
    }

    /// Returns the load of a member, to change it.
    #[inline]
    pub(crate) fn load_mut(&mut self, member: MemberIndex) -> &mut MemberLoad {
        &mut self.at_mut(member).load
    }

    /// Applies an event. Panics if it is not legal in the current state.
    fn step(&mut self, member: MemberIndex, event: MemberEvent) {
        let position = self.at_mut(member);
        let next = position.state.next(event);
        position.state = next.expect("a legal move of a member");
    }

    /// Puts a member out.
    pub(crate) fn put_out(&mut self, member: MemberIndex, reason: OutReason) {
        self.step(member, MemberEvent::Out(reason));
        self.missing = self.missing.with(member);
        self.lost = self.lost.with(member);
    }

    /// Gives an empty position a device, which is to be filled.
    pub(crate) fn join(&mut self, member: MemberIndex, data_start: BlockIndex) {
        self.step(member, MemberEvent::Joined);
        let position = self.at_mut(member);
        position.data_start = data_start;
        position.filled_from_start = Place::default();
        self.missing = self.missing.without(member);
    }

    /// Notes at the opening that a present device is good below a mark, and is being filled.
    pub(crate) fn is_being_filled(&mut self, member: MemberIndex, mark: BlockIndex, from: Place) {
        let position = self.at_mut(member);
        position.state = Member::Rebuilding { mark };
        position.filled_from_start = from;
    }

    /// Notes that the next walk begins where a device is good.
    pub(crate) fn fill_from(&mut self, member: MemberIndex, from: Place) {
        self.at_mut(member).filled_from_start = from;
    }

    /// Notes that a device that is being filled is good below a block of the array. Returns true if
    /// it was not known.
    pub(crate) fn mark(&mut self, member: MemberIndex, mark: u64) -> bool {
        let Member::Rebuilding { mark: before } = self.state(member) else {
            panic!("member {member} is among those that are rebuilding");
        };
        let is_new = mark > before.0;
        if is_new {
            self.step(member, MemberEvent::Marked(BlockIndex(mark)));
        }
        is_new
    }

    /// Notes that a device is durably filled.
    pub(crate) fn filled(&mut self, member: MemberIndex) {
        self.step(member, MemberEvent::Filled);
        self.lost = self.lost.without(member);
    }

    /// Gives a member another device with the same contents.
    pub(crate) fn exchange(&mut self, member: MemberIndex, data_start: BlockIndex) {
        self.at_mut(member).data_start = data_start;
    }

    /// Returns the positions whose device is being filled.
    pub(crate) fn being_filled(&self) -> MemberSet {
        self.lost().difference(self.missing())
    }
}

//! Devices that take the place of missing members, and how far they are filled.

use crate::jobs::Place;
use alloc::vec::Vec;
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};
use spindles_layout::GroupIndex;

/// Stands for the identity of a device that keeps its own.
pub(crate) const RETURNING: Uuid = Uuid([0xff; 16]);

/// A device that is about to take a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) member: MemberIndex,
    pub(crate) device: DeviceRecord,
    pub(crate) uuid: Uuid,
    /// It holds what it had when it went out.
    pub(crate) returns: bool,
    /// It is attached beside all positions: see `replace`.
    pub(crate) replacement: bool,
}

/// A flush of the devices that are being filled, after which a mark is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkFlush {
    pub(crate) to: Place,
    pub(crate) pending: u32,
}

/// What the engine keeps about rebuilds, besides the walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rebuild {
    /// Devices that take their positions together, as soon as nothing is under way.
    pub(crate) joining: Vec<Joining>,
    pub(crate) flush: Option<MarkFlush>,
    /// Of the devices that are being filled, those that lack what is marked dirty alone.
    pub(crate) returning: MemberSet,
    /// Up to where a mark was kept or is about to be.
    pub(crate) marked: GroupIndex,
    /// Members whose superblocks are to say that they are active.
    pub(crate) done: MemberSet,
    /// Stripe ranges that could not be done, to be told of after the last flush.
    pub(crate) failed: u64,
}

impl Rebuild {
    /// Whether devices wait to take their positions.
    #[inline]
    pub(crate) fn somebody_joins(&self) -> bool {
        !self.joining.is_empty()
    }

    /// The position that the device beside all positions is about to take.
    pub(crate) fn replacement_joins(&self) -> Option<MemberIndex> {
        let mut joining = self.joining.iter();
        let joins = joining.find(|joining| joining.replacement);
        joins.map(|joining| joining.member)
    }

    /// They wait no more.
    pub(crate) fn nobody_joins(&mut self) {
        self.joining.clear();
    }

    /// Whether a device that is being filled lacks what is marked dirty alone.
    pub(crate) fn is_returning(&self, member: MemberIndex) -> bool {
        self.returning.contains(member)
    }

    /// That is so of this one.
    pub(crate) fn returns(&mut self, member: MemberIndex) {
        self.returning = self.returning.with(member);
    }

    /// Whether nothing of it is under way that must end first.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flush.is_none()
    }
}

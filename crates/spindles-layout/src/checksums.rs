//! Which arrays of a nest keep checksums of their blocks.

use crate::{Level, Redundancy};

/// How far checksums cover a member of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// The member is a device.
    Device,
    /// The member is an array, and not all its blocks have checksums in an array with redundancy.
    InPart,
    /// The member is an array, and all its blocks have checksums in an array with redundancy.
    Wholly,
}

impl Level {
    /// Returns true if an array of these members keeps checksums of its blocks. `around_keeps` is
    /// true if an array around it already does.
    ///
    /// Repairing a block, or deciding after a crash which copy or row is right, needs a record of
    /// the last write. So parity always has checksums, and so have copies unless all are covered
    /// below. An array without redundancy has checksums only if no array around it has.
    pub fn keeps_checksums(
        &self,
        mut members: impl Iterator<Item = Covered>,
        around_keeps: bool,
    ) -> bool {
        match self.redundancy {
            Redundancy::Parity(_) => true,
            Redundancy::CopyOnEveryMember | Redundancy::Copies => {
                !members.all(|member| member == Covered::Wholly)
            }
            Redundancy::None => !around_keeps && members.any(|member| member == Covered::Device),
        }
    }

    /// Returns how far checksums cover an array of these members.
    pub fn covered(&self, mut members: impl Iterator<Item = Covered>) -> Covered {
        if self.redundancy != Redundancy::None || members.all(|member| member == Covered::Wholly) {
            Covered::Wholly
        } else {
            Covered::InPart
        }
    }
}

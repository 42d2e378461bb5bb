//! Which arrays of a nest keep checksums of their blocks.

use crate::{Level, Redundancy};

/// What is known of the checksums below a member of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// It is a device.
    Device,
    /// It is an array, and not every block of it has its checksum in an array with redundancy.
    InPart,
    /// It is an array, and every block of it has its checksum in an array with redundancy.
    Wholly,
}

impl Level {
    /// Whether an array of these members keeps checksums of its blocks, where one around it does so
    /// already or not.
    ///
    /// Whoever repairs a block, or tells after a crash which copy or row is right, must know what was
    /// written: so parity has checksums always, and so have copies of which not all have them below. What
    /// has no redundancy has them only where nobody around it does.
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

    /// What is known of the checksums in an array of these members.
    pub fn covered(&self, mut members: impl Iterator<Item = Covered>) -> Covered {
        if self.redundancy != Redundancy::None || members.all(|member| member == Covered::Wholly) {
            Covered::Wholly
        } else {
            Covered::InPart
        }
    }
}

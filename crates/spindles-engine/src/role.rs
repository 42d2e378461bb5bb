//! Roles of devices in an array.

use core::fmt;
use spindles_block::MemberIndex;

/// The role of a device in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not a device of the array.
    Stranger,
    /// The member in that position, with valid contents.
    Active(MemberIndex),
    /// Being filled in that position.
    Filling(MemberIndex),
    /// About to take that position.
    Joining(MemberIndex),
    /// The member of that position is out, but the array still has its device open.
    Out(MemberIndex),
    /// The device onto which the member in that position is being copied.
    Replacement(MemberIndex),
    /// Was the member in that position until a moment ago: another device has taken it, but not all
    /// superblocks say so yet.
    Replaced(MemberIndex),
    /// An unused spare.
    Spare,
    /// The device that holds the journal.
    Journal,
}

impl Role {
    /// Returns true if the array reads or writes the device, or is about to.
    #[must_use]
    pub const fn is_used(self) -> bool {
        match self {
            Self::Stranger | Self::Out(_) | Self::Spare => false,
            Self::Active(_)
            | Self::Filling(_)
            | Self::Joining(_)
            | Self::Replacement(_)
            | Self::Replaced(_)
            | Self::Journal => true,
        }
    }
}

/// Formats as `member 1`, `the device that member 1 is being copied onto`.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stranger => f.write_str("no device of the array"),
            Self::Active(member) => write!(f, "member {member}"),
            Self::Filling(member) => write!(f, "member {member}, and being filled"),
            Self::Joining(member) => write!(f, "about to become member {member}"),
            Self::Out(member) => write!(f, "member {member}, which is out"),
            Self::Replacement(member) => {
                write!(f, "the device that member {member} is being copied onto")
            }
            Self::Replaced(member) => {
                write!(
                    f,
                    "the device that is just being replaced as member {member}"
                )
            }
            Self::Spare => f.write_str("a spare"),
            Self::Journal => f.write_str("the device of the journal"),
        }
    }
}

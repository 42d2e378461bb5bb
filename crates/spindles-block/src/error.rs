//! Errors as kinds to act on. Where and why goes into the event log.

use core::fmt;

/// Why a member did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberError {
    /// The device is gone, or failed in a way that leaves its contents unknown.
    Gone,
    /// These blocks can't be read (a latent sector error); others can.
    Medium,
    /// The member is an array or checks its blocks, found these to be corrupt and could not
    /// repair them.
    Corrupt,
    /// There is no space left where it lies: it is a sparse file, or the like. What it holds is as it was.
    NoSpace,
}

/// Why a request failed. Nothing of a failed read may be used; of a failed write, each block is
/// old or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestError {
    /// The request reaches beyond the end of the array.
    OutOfRange,
    /// The array was opened read-only.
    ReadOnly,
    /// More members or blocks are lost than the level survives.
    BeyondTolerance,
    /// The blocks are corrupt and redundancy could not repair them.
    Corrupt,
    /// A crash left the blocks in doubt. Open the array for writing to settle them: it is open read-only.
    InDoubt,
    /// There is no space left where the members lie.
    NoSpace,
}

impl RequestError {
    /// What a write answers that too many members did not take, the last of them for this.
    #[must_use]
    pub const fn of_write(error: MemberError) -> Self {
        match error {
            MemberError::NoSpace => Self::NoSpace,
            MemberError::Gone | MemberError::Medium | MemberError::Corrupt => Self::BeyondTolerance,
        }
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the device is gone",
            Self::Medium => "the blocks can't be read",
            Self::Corrupt => "the blocks are corrupt",
            Self::NoSpace => "no space is left where it lies",
        })
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the request reaches beyond the end of the array",
            Self::ReadOnly => "the array is open read-only",
            Self::BeyondTolerance => "more is lost than the level survives",
            Self::Corrupt => "the blocks are corrupt and could not be repaired",
            Self::InDoubt => {
                "a crash left these blocks in doubt, and the array is open read-only: bring back first what is \
                 away, which may hold them; then 'spindles resync' puts them in order"
            }
            Self::NoSpace => "no space is left where it lies: free some, and do it again",
        })
    }
}

impl core::error::Error for MemberError {}
impl core::error::Error for RequestError {}

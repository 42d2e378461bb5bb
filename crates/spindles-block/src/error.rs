//! Errors as kinds to act on. Their place and cause go into the event log.

use core::fmt;

/// The reason why a member I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberError {
    /// The device is gone, or failed so that its contents are unknown.
    Gone,
    /// These blocks can't be read (a latent sector error), but others can.
    Medium,
    /// The member is an array, or checks its blocks. It found these blocks corrupt and could not
    /// repair them.
    Corrupt,
    /// The storage below the member is full, for example under a sparse file. The member's contents
    /// are unchanged.
    NoSpace,
}

/// The reason why a request failed. The data of a failed read must not be used. After a failed
/// write, each block is old or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestError {
    /// The request reaches beyond the end of the array.
    OutOfRange,
    /// The array was opened read-only.
    ReadOnly,
    /// More members or blocks are lost than the level tolerates.
    BeyondTolerance,
    /// The blocks are corrupt, and redundancy could not repair them.
    Corrupt,
    /// A crash left the blocks in doubt, and the array is open read-only. Opening it for writing
    /// resyncs them.
    InDoubt,
    /// The storage below the members is full.
    NoSpace,
}

impl RequestError {
    /// Returns the error of a write that failed on too many members, the last of them with this
    /// error.
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
                "a crash left these blocks in doubt, and the array is open read-only: bring back \
                 first what is away, which may hold them; then a resync puts them in order"
            }
            Self::NoSpace => "no space is left where it lies: free some, and do it again",
        })
    }
}

impl core::error::Error for MemberError {}
impl core::error::Error for RequestError {}

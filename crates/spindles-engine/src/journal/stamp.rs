//! Whether a device of its own for the journal is stamped as the one that has the log.

use spindles_block::MemberSet;

/// Whether the device says that the log which is begun lies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Not yet: superblocks wait for it.
    Wanted,
    /// It is written: the journals of these positions have no header yet.
    UnderWay { left: MemberSet },
    /// It does, or the log lies on the members.
    Done,
}

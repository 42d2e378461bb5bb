//! Whether the journal's own device is stamped as the holder of the log.

use spindles_block::MemberSet;

/// Progress of stamping the device on which a new log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Not begun: superblocks wait for it.
    Wanted,
    /// The stamp is written; the journals of the positions `left` have no header yet.
    UnderWay { left: MemberSet },
    /// The device is stamped, or the log lies on the members.
    Done,
}

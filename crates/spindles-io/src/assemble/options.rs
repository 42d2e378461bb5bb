//! How an array is to be assembled.

use crate::OpenOptions;

/// How an array is to be assembled. `Default` opens for writing and takes no risk.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
pub struct AssembleOptions {
    /// How devices are to be opened; the block size is the array's.
    pub open: OpenOptions,
    /// Open an unclean degraded array with parity too.
    pub force: bool,
    /// Write to an array also while members are away that hold something that is given up by that: they
    /// could have gone on alone, so that what they hold may be newer, or a crash left blocks that only they
    /// have. From then on it is known that they are out of date.
    pub degraded: bool,
    /// Open an array that was closed in order for reading also where more is missing than its level
    /// survives: what can't be read then answers errors. For arrays opened for reading only.
    pub rescue: bool,
    /// Only put in order what a crash left: no growth and no rebuild goes on, and no member that
    /// returns is brought up to date. With `keep_spares` nothing else is written then.
    pub only_recovers: bool,
    /// Leave spares alone that are given with the array.
    pub keep_spares: bool,
}

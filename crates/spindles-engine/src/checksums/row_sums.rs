//! How far the sums of the rows of a column are known.

/// Of which blocks of a column checksums are at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// Those that were read.
    Read,
    /// Those that were recovered from others, or computed.
    Made,
    /// Those that are to be written.
    New,
}

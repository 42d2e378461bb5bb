//! How far a stripe range has settled its rows after a crash.

/// The progress of settling the current rows of a stripe range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Not begun.
    #[default]
    No,
    /// Reading the blocks that are there, after `disproved` failed reconstructions.
    Reading { disproved: u32 },
    /// Reconstructing data from the rest. `proved`: a row sum must prove the result.
    Reconstructing { disproved: u32, proved: bool },
    /// All data is known; computing its parity.
    Encoding { proved: bool },
    /// The contents are known; writing the blocks that differ.
    Agreeing,
    /// Making the changes durable.
    Flushing,
    /// The rows are settled.
    Done,
}

impl Settling {
    /// Returns true from the first read until the rows are settled.
    #[inline]
    pub(crate) fn is_under_way(self) -> bool {
        !matches!(self, Self::No | Self::Done)
    }
}

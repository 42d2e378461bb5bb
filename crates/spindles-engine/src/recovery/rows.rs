//! How far the rows of a stripe range are put in order after a crash.

/// How far the rows under way of a stripe range are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Not at all.
    #[default]
    No,
    /// What is there is read. So many reconstructions were tried in vain.
    Reading { disproved: u32 },
    /// Data is recovered from the rest, and proved if it must be.
    Reconstructing { disproved: u32, proved: bool },
    /// All data is known: the parity that belongs to it is computed.
    Encoding,
    /// It is known what the rows hold, and made so; whether anything changes.
    Agreeing { changed: bool },
    /// That is being made durable.
    Flushing,
    /// Open read only, it is known what they hold: that goes to the client.
    Delivering,
    /// They are in order.
    Done,
}

impl Settling {
    /// Whether the stripe range is not yet at what it was asked for.
    #[inline]
    pub(crate) fn is_under_way(self) -> bool {
        !matches!(self, Self::No | Self::Done)
    }
}

//! Encoding of operation ids, and indices of pools.

/// Set in the ids of member I/O that belongs to no stripe range.
pub(crate) const SYSTEM_IO: u32 = 1 << 31;
/// Set with `SYSTEM_IO` for a page of checksums; the remaining bits are the number of its frame.
pub(crate) const PAGE_IO: u32 = 1 << 30;
/// Set in the ids of I/O to the device that is to replace a member: of a stripe range, or of a
/// page.
pub(crate) const REPLACEMENT: u32 = 1 << 29;
/// Bits of a member I/O's id that hold the slot in its stripe range.
pub(crate) const SLOT_BITS: u32 = 6;

/// A stripe range of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeId(pub(crate) u32);

impl RangeId {
    /// No stripe range: ends lists of stripe ranges.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The index into slices with one item for each stripe range.
    #[inline]
    pub(crate) fn index(self) -> usize {
        index(self.0)
    }
}

/// A pool index as an index of a slice.
#[inline]
pub(crate) fn index(value: u32) -> usize {
    usize::try_from(value).expect("pools are smaller than the address space")
}

const _: () = assert!(spindles_block::MEMBERS_MAX as u32 <= 1 << SLOT_BITS);

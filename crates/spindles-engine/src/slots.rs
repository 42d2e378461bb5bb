//! Sets of slots of a redundancy group, in a machine word.

/// A set of slots of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSet(u64);

impl SlotSet {
    /// No slot.
    pub const EMPTY: Self = Self(0);

    /// Slots `first..end`.
    #[must_use]
    pub const fn range(first: u8, end: u8) -> Self {
        Self(Self::below(end).0 & !Self::below(first).0)
    }

    const fn below(end: u8) -> Self {
        match end {
            0 => Self(0),
            _ => Self(u64::MAX >> (64 - end)),
        }
    }

    /// The set as a bit for each slot.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The set of one slot.
    #[must_use]
    pub const fn one(slot: u8) -> Self {
        Self(1 << slot)
    }

    /// Returns true if `slot` is in the set.
    #[must_use]
    pub const fn contains(self, slot: u8) -> bool {
        self.0 >> slot & 1 == 1
    }

    /// Slots in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Slots in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the slots of this set without the slots of `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of slots in the set.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The `count` lowest slots of the set, or all if there are fewer.
    #[must_use]
    pub fn lowest(self, count: u32) -> Self {
        self.iter()
            .take(usize::try_from(count).expect("at most 64"))
            .fold(Self(0), Self::with)
    }

    /// The set with `slot` in it.
    #[must_use]
    pub const fn with(self, slot: u8) -> Self {
        Self(self.0 | 1 << slot)
    }

    /// The lowest slot.
    #[must_use]
    pub fn first(self) -> Option<u8> {
        self.iter().next()
    }

    /// The slots in rising order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            let slot = u8::try_from(bits.trailing_zeros()).expect("at most 64");
            (bits != 0).then(|| {
                bits &= bits - 1;
                slot
            })
        })
    }
}

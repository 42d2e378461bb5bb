//! Sets of members as one machine word.

use crate::MemberIndex;
use core::fmt;

/// The most members an array may have.
pub const MEMBERS_MAX: u8 = 64;

/// A set of members of one array.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberSet(u64);

impl MemberSet {
    /// No member.
    pub const EMPTY: Self = Self(0);

    /// Members `0..members`.
    #[must_use]
    pub const fn all(members: u8) -> Self {
        assert!(members <= MEMBERS_MAX);
        match members {
            0 => Self(0),
            _ => Self(u64::MAX >> (64 - members)),
        }
    }

    /// Creates the set that has member i if bit i is set.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The set as bits: bit i is set if the set has member i.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns true if `member` is in the set.
    #[must_use]
    pub const fn contains(self, member: MemberIndex) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// The set plus `member`.
    #[must_use]
    pub const fn with(self, member: MemberIndex) -> Self {
        Self(self.0 | 1 << member.0)
    }

    /// The set minus `member`.
    #[must_use]
    pub const fn without(self, member: MemberIndex) -> Self {
        Self(self.0 & !(1 << member.0))
    }

    /// Members in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the members of this set without the members of `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The number of members.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The member with the lowest index; `None` if the set is empty.
    #[must_use]
    pub fn first(self) -> Option<MemberIndex> {
        self.iter().next()
    }

    /// The members in rising order.
    pub fn iter(self) -> impl Iterator<Item = MemberIndex> {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            let index = u8::try_from(bits.trailing_zeros()).expect("at most 64");
            (bits != 0).then(|| {
                bits &= bits - 1;
                MemberIndex(index)
            })
        })
    }
}

impl FromIterator<MemberIndex> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberIndex>>(members: I) -> Self {
        members.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|member| member.0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn sets_hold_inserted_members() {
        let set: MemberSet = [0, 5, 63].map(MemberIndex).into_iter().collect();
        assert_eq!(set.iter().map(|m| m.0).collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(set.count(), 3);
        assert!(set.contains(MemberIndex(63)) && !set.contains(MemberIndex(1)));
        assert_eq!(set.without(MemberIndex(0)).first(), Some(MemberIndex(5)));
        assert_eq!(MemberSet::all(64).count(), 64);
        assert_eq!(MemberSet::all(0), MemberSet::EMPTY);
        assert_eq!(
            MemberSet::all(3).difference(set),
            MemberSet::from_bits(0b110)
        );
    }
}

//! A set of regions, one bit each, in whole pages of a bitmap.

use alloc::{vec, vec::Vec};
use core::cmp::Ordering;
use spindles_format::{BITMAP_PAGE_REGIONS, BITMAP_PAGE_WORDS};

/// A set of numbers below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    /// Creates the set of all numbers below `count`, or the empty set.
    pub(crate) fn new(count: u64, all: bool) -> Self {
        let pages = usize::try_from(count.div_ceil(BITMAP_PAGE_REGIONS)).expect("it fits memory");
        let mut bits = Self {
            words: vec![if all { u64::MAX } else { 0 }; pages * BITMAP_PAGE_WORDS],
            count,
        };
        bits.trim();
        bits
    }

    fn place(number: u64) -> (usize, u64) {
        let word = usize::try_from(number / 64).expect("it fits memory");
        (word, 1 << (number % 64))
    }

    /// Returns true if `read` holds the same numbers, from word `first` on. Bits beyond the bound
    /// do not count.
    pub(crate) fn agrees(&self, first: usize, read: &[u64]) -> bool {
        let (last, bit) = Self::place(self.count);
        let mut both = (first..).zip(read.iter().zip(&self.words[first..]));
        both.all(|(word, (read, own))| match word.cmp(&last) {
            Ordering::Less => read == own,
            Ordering::Equal => read & (bit - 1) == *own,
            Ordering::Greater => true,
        })
    }

    /// Clears the bits beyond the bound.
    pub(crate) fn trim(&mut self) {
        let (word, bit) = Self::place(self.count);
        if let Some(last) = self.words.get_mut(word) {
            *last &= bit - 1;
            self.words[word + 1..].fill(0);
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.words[word] & bit != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.words[word] |= bit;
    }

    #[inline]
    pub(crate) fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.words[word] &= !bit;
    }

    pub(crate) fn clear_all(&mut self) {
        self.words.fill(0);
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The number of numbers in the set.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Returns true if every number below the bound is in the set.
    pub(crate) fn is_full(&self) -> bool {
        let (last, bit) = Self::place(self.count);
        let is_full = self.words[..last].iter().all(|&word| word == u64::MAX);
        is_full && self.words.get(last).is_none_or(|word| *word == bit - 1)
    }

    /// Returns the first number of the set from `from` on.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let (first, bit) = Self::place(from);
        let mut mask = !(bit - 1);
        for (at, &word) in self.words.iter().enumerate().skip(first) {
            let found = word & mask;
            if found != 0 {
                let word = u64::try_from(at).expect("64 bits");
                return Some(word * 64 + u64::from(found.trailing_zeros()));
            }
            mask = u64::MAX;
        }
        None
    }
}

/// A small set of numbers below a bound. A search does not read the bits below its smallest number,
/// nor those above its largest.
#[derive(Clone, Debug)]
pub(crate) struct FewBits {
    bits: Bits,
    len: u64,
    /// No number of the set is below.
    from: u64,
}

impl FewBits {
    /// Creates an empty set of numbers below `count`.
    pub(crate) fn new(count: u64) -> Self {
        Self {
            bits: Bits::new(count, false),
            len: 0,
            from: 0,
        }
    }

    pub(crate) fn get(&self, number: u64) -> bool {
        self.bits.get(number)
    }

    pub(crate) fn set(&mut self, number: u64) {
        if self.bits.get(number) {
            return;
        }
        self.from = if self.is_empty() {
            number
        } else {
            self.from.min(number)
        };
        self.bits.set(number);
        self.len += 1;
    }

    pub(crate) fn clear(&mut self, number: u64) {
        if !self.bits.get(number) {
            return;
        }
        self.bits.clear(number);
        self.len -= 1;
        self.from += u64::from(number == self.from);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the smallest number.
    pub(crate) fn first(&self) -> Option<u64> {
        self.iter().next()
    }

    /// Returns all numbers in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let mut from = self.from;
        (0..self.len).map(move |_| {
            let number = self.bits.next(from).expect("the set has as many");
            from = number + 1;
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_set_is_found_in_order() {
        let mut few = FewBits::new(1000);
        let mut model = alloc::collections::BTreeSet::new();
        let mut state = 1_u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = (state >> 40) % 1000;
            let oldest = model.first().copied();
            assert_eq!(few.first(), oldest);
            assert_eq!(few.is_empty(), model.is_empty());
            assert!(few.iter().eq(model.iter().copied()));
            if state >> 63 == 0 || model.len() > 8 {
                let gone = oldest.filter(|_| (state >> 62) & 1 == 0).unwrap_or(number);
                few.clear(gone);
                model.remove(&gone);
            } else {
                few.set(number);
                model.insert(number);
            }
            assert_eq!(few.get(number), model.contains(&number));
        }
    }

    #[test]
    fn what_is_put_in_is_found() {
        for count in [0, 1, 63, 64, 65, 3711, 3712, 3713, 8000] {
            let mut bits = Bits::new(count, false);
            assert!(bits.is_empty());
            assert_eq!(bits.next(0), None);
            for number in (0..count).step_by(7) {
                bits.set(number);
            }
            let mut at = 0;
            for number in (0..count).step_by(7) {
                assert_eq!(bits.next(at), Some(number));
                assert!(bits.get(number));
                at = number + 1;
            }
            assert_eq!(bits.next(at), None);
            let mut full = Bits::new(count, true);
            assert!(full.is_full() && (count == 0 || !full.is_empty()));
            for number in [0, count / 2, count.saturating_sub(1)] {
                if number < count {
                    full.clear(number);
                    assert!(!full.is_full(), "{number} of {count}");
                    full.set(number);
                }
            }
            assert_eq!(full.next(count), None);
        }
    }
}

//! The columns of a batch: how many, and on which holders.

use spindles_block::{MEMBERS_MAX, MemberIndex, MemberSet};

/// The number of batches that go to the same holders.
const TURN_BATCHES: u32 = 1_024;

/// The sizes on which the choice of columns depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The length of a header, in blocks.
    pub header_blocks: u32,
    /// The longest column without its header, in blocks.
    pub column_blocks_max: u32,
}

impl Sizes {
    /// Returns the number of data columns of a batch with this many blocks: the one with which the
    /// batch takes the fewest blocks on all holders, and the fewest columns of these. `None` if
    /// there are too few holders, or too many blocks.
    #[must_use]
    pub fn data_columns(self, blocks: u32, holders: u32, parity: u8) -> Option<u8> {
        let most = holders.checked_sub(parity.into())?;
        let fits = |data: &u32| blocks.div_ceil(*data) <= self.column_blocks_max;
        let cost = |data: &u32| {
            let columns = *data + u32::from(parity);
            columns * (self.header_blocks + blocks.div_ceil(*data))
        };
        let data = (1..=most).filter(fits).min_by_key(cost)?;
        u8::try_from(data).ok()
    }
}

/// Holders that take the columns of a batch, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    holders: [MemberIndex; MEMBERS_MAX as usize],
    count: u8,
}

impl Chosen {
    /// The holders.
    #[must_use]
    pub fn holders(&self) -> &[MemberIndex] {
        &self.holders[..usize::from(self.count)]
    }
}

/// Chooses the holders of each batch in turn.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The first column goes to this holder, or to the next that may have it.
    first: u8,
    left: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            first: 0,
            left: TURN_BATCHES,
        }
    }
}

impl Turns {
    /// Returns the holders that may have columns: all quick holders, and also the slow ones if one
    /// data column and its parity need them.
    #[must_use]
    pub fn usable(present: MemberSet, slow: MemberSet, parity: u8) -> MemberSet {
        let quick = present.difference(slow);
        if quick.count() > u32::from(parity) {
            quick
        } else {
            present
        }
    }

    /// Chooses the holders of a batch, from `usable`. After `TURN_BATCHES` batches the holders
    /// behind them have their turn.
    pub fn choose(&mut self, usable: MemberSet, columns: u8) -> Chosen {
        assert!(u32::from(columns) <= usable.count(), "too few holders");
        let mut chosen = Chosen {
            holders: [MemberIndex(0); MEMBERS_MAX as usize],
            count: columns,
        };
        let from = |holder: &MemberIndex| holder.0 >= self.first;
        let (before, behind): (MemberSet, MemberSet) = (
            usable.iter().filter(|holder| !from(holder)).collect(),
            usable.iter().filter(from).collect(),
        );
        let in_turn = behind.iter().chain(before.iter());
        for (place, holder) in chosen.holders.iter_mut().zip(in_turn).take(columns.into()) {
            *place = holder;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = TURN_BATCHES;
            let last = chosen.holders().last().map_or(0, |holder| holder.0);
            self.first = (last + 1) % MEMBERS_MAX;
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_format::StageShape;

    const SIZES: Sizes = Sizes {
        header_blocks: 1,
        column_blocks_max: 32,
    };

    /// Blocks of a batch, holders, parity columns: data columns, and blocks on all holders.
    #[test]
    fn columns_are_chosen_by_the_fewest_blocks() {
        let table: [(u32, u32, u8, u8, u32); 18] = [
            (0, 5, 1, 1, 2),
            (1, 4, 1, 1, 4),
            (1, 6, 2, 1, 6),
            (2, 5, 1, 1, 6), // Two columns cost 6 too.
            (2, 6, 2, 2, 8),
            (3, 5, 1, 1, 8),
            (4, 5, 1, 2, 9),
            (6, 5, 1, 2, 12), // Three too.
            (8, 5, 1, 2, 15), // Four too.
            (9, 5, 1, 3, 16),
            (12, 5, 1, 3, 20), // Four too.
            (15, 5, 1, 3, 24),
            (16, 5, 1, 4, 25),
            (32, 5, 1, 4, 45),
            (32, 6, 2, 4, 54),
            (128, 5, 1, 4, 165),
            (8, 2, 1, 1, 18),
            (3, 3, 0, 1, 4),
        ];
        for (blocks, holders, parity, data, takes) in table {
            let found = SIZES.data_columns(blocks, holders, parity);
            assert_eq!(found, Some(data), "{blocks} {holders} {parity}");
            let columns = u32::from(data + parity);
            assert_eq!(columns * (1 + blocks.div_ceil(data.into())), takes);
        }
        assert_eq!(SIZES.data_columns(1, 1, 1), None);
        assert_eq!(SIZES.data_columns(1, 1, 2), None);
        assert_eq!(SIZES.data_columns(129, 5, 1), None, "longer than 128 KiB");
    }

    /// No data column is empty, none is too long, and no other number of columns is cheaper.
    #[test]
    fn every_choice_is_the_cheapest_and_fits() {
        for header_blocks in [1, 8] {
            let sizes = Sizes {
                header_blocks,
                column_blocks_max: 32 * header_blocks,
            };
            for parity in 0..4 {
                for holders in u32::from(parity) + 1..=12 {
                    for blocks in 0..300 {
                        let Some(data) = sizes.data_columns(blocks, holders, parity) else {
                            let most = sizes.column_blocks_max * (holders - u32::from(parity));
                            assert!(blocks > most);
                            continue;
                        };
                        let shape = StageShape {
                            blocks,
                            data,
                            parity,
                        };
                        assert!(u32::from(shape.columns()) <= holders);
                        assert!(shape.column_blocks() <= sizes.column_blocks_max);
                        let lengths = (0..data).map(|column| shape.blocks_of(column));
                        assert!(blocks == 0 || lengths.clone().all(|length| length > 0));
                        assert_eq!(lengths.sum::<u32>(), blocks);
                    }
                }
            }
        }
    }

    fn set(members: &[u8]) -> MemberSet {
        members.iter().copied().map(MemberIndex).collect()
    }

    #[test]
    fn slow_holders_are_left_out_if_enough_others_are_there() {
        let all = set(&[0, 1, 2, 3]);
        let usable = |slow: &[u8], parity| Turns::usable(all, set(slow), parity);
        assert_eq!(usable(&[], 1), all);
        assert_eq!(usable(&[2], 1), set(&[0, 1, 3]));
        assert_eq!(usable(&[0, 2], 1), set(&[1, 3]));
        assert_eq!(usable(&[0, 2], 2), all);
        assert_eq!(usable(&[0, 1, 2], 1), all);
    }

    #[test]
    fn holders_take_turns_of_1024_batches() {
        let mut turns = Turns::default();
        let usable = set(&[0, 1, 3, 4, 6]);
        let expected: [&[u8]; 5] = [&[0, 1], &[3, 4], &[6, 0], &[1, 3], &[4, 6]];
        for (turn, expected) in (0..).zip(expected.into_iter().chain([&[0, 1][..]])) {
            for batch in 0..TURN_BATCHES {
                let chosen = turns.choose(usable, 2);
                let holders: std::vec::Vec<u8> =
                    chosen.holders().iter().map(|holder| holder.0).collect();
                assert_eq!(holders, expected, "turn {turn} batch {batch}");
            }
        }
        let all = turns.choose(usable, 5);
        assert_eq!(all.holders().iter().copied().collect::<MemberSet>(), usable);
    }
}

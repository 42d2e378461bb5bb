//! Decides the contents of a row in a region in doubt, from its checksums alone.
//!
//! A region is in doubt if writes to the region were under way at a crash: each block may hold new
//! or old contents. This module decides row by row; `rows` fetches the evidence and carries out the
//! verdict. The rules come from `docs/design/consistency.md`.
//!
//! | evidence | verdict |
//! |---|---|
//! | a copy fits the checksum of any copy | the first such copy |
//! | no copy fits, two are alike | those |
//! | otherwise | the first copy |
//! | a row sum fits all data as it was read | the data, proved |
//! | a reconstruction fits a row sum | the reconstructed data, proved |
//! | otherwise, all data was read, and no checksum is lost | the data as it is |
//! | otherwise | the data that was read as it is; the rest, and what lost its checksum, is lost |

use crate::{plan::Shape, slots::SlotSet};
use spindles_format::RowSum;

/// The evidence about one block of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockEvidence {
    /// The checksum of the block as read. `None` if it could not be read.
    pub(crate) read: Option<u32>,
    /// The checksum that the member keeps of the block. `None` if the member keeps no checksum.
    pub(crate) kept: Option<u32>,
    /// True if the block had a checksum that is lost.
    pub(crate) lost_checksum: bool,
    /// The row sum that the member keeps next to the checksum of parity. `None` if it is lost.
    pub(crate) row_sum: Option<RowSum>,
}

impl BlockEvidence {
    /// Returns true if the block as read fits the member's checksum.
    pub(crate) fn fits(&self) -> bool {
        self.read.is_some() && self.read == self.kept
    }
}

/// The verdict on a row of data and parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The data is correct as read.
    AsRead {
        /// True if a row sum proves the data.
        proved: bool,
    },
    /// Try to reconstruct `erased` from `sources`. If no row sum proves the result, ask for the
    /// next verdict.
    Try {
        /// Data to reconstruct.
        erased: SlotSet,
        /// The other data, and as many parities as there is data to reconstruct.
        sources: SlotSet,
    },
    /// The slots of lost blocks: unreadable blocks and blocks with lost checksums, if no row sum
    /// proves a reconstruction. The other data stays.
    Lost(SlotSet),
}

/// Returns the copy that replaces all others. `None` if no copy was read.
pub(crate) fn decide_copies(copies: &[BlockEvidence]) -> Option<u8> {
    let slots = || (0..).zip(copies);
    let is_kept = |sum| copies.iter().any(|copy| copy.kept == Some(sum));
    let fits = slots().find(|(_, copy)| copy.read.is_some_and(is_kept));
    let alike = || {
        slots().find(|&(slot, copy)| {
            let same = |&(other, of): &(u8, &BlockEvidence)| other != slot && of.read == copy.read;
            copy.read.is_some() && slots().any(|other| same(&other))
        })
    };
    let first = || slots().find(|(_, copy)| copy.read.is_some());
    fits.or_else(alike).or_else(first).map(|(slot, _)| slot)
}

/// Returns true if some parity of the row has this row sum.
pub(crate) fn proves(shape: Shape, row: &[BlockEvidence], sum: RowSum) -> bool {
    let parity = &row[usize::from(shape.data)..];
    parity.iter().any(|block| block.row_sum == Some(sum))
}

/// Returns the verdict on a row of data and parity, after `disproved` reconstructions that no row
/// sum proved.
pub(crate) fn decide_row(shape: Shape, row: &[BlockEvidence], disproved: usize) -> Verdict {
    let slots = |is: &dyn Fn(&BlockEvidence) -> bool| {
        let slots = (0..).zip(row).filter(|(_, block)| is(block));
        slots.fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot))
    };
    let gone = shape.all_data().minus(slots(&|block| block.read.is_some()));
    if gone.is_empty() {
        let data = row[..usize::from(shape.data)].iter();
        let sum = RowSum::of((0..).zip(data.filter_map(|block| block.read)));
        if proves(shape, row, sum) {
            return Verdict::AsRead { proved: true };
        }
    }
    let parity = slots(&|block| block.read.is_some()).and(shape.redundant());
    let mut wrong = slots(&|block| block.read.is_some() && !block.fits()).and(shape.all_data());
    if wrong.count() > parity.count() && parity.and(slots(&BlockEvidence::fits)).is_empty() {
        // Neither the checksums nor the row sum reached the members before the crash: no
        // reconstruction would be proved.
        wrong = SlotSet::EMPTY;
    }
    // A block without its checksum is unknown: the log may have held different contents.
    let unknown = slots(&|block| block.lost_checksum).and(shape.all_data());
    match reconstructions(shape, gone, wrong, parity).nth(disproved) {
        Some((erased, sources)) => Verdict::Try { erased, sources },
        None if gone.or(unknown).is_empty() => Verdict::AsRead { proved: false },
        None => Verdict::Lost(gone.or(unknown)),
    }
}

/// Reconstructions of a row that are tried at most: each reads the row again.
const TRIES_MAX: usize = 256;

/// Returns the ways to reconstruct all `gone` blocks and some `wrong` ones, the fewest blocks
/// first, as (erased, sources). The last ways erase one block that fits its checksum along with the
/// gone ones: an old block fits if its checksum is old too.
fn reconstructions(
    shape: Shape,
    gone: SlotSet,
    wrong: SlotSet,
    parity: SlotSet,
) -> impl Iterator<Item = (SlotSet, SlotSet)> {
    let sizes = gone.count().max(1)..=parity.count();
    let likely = sizes.flat_map(move |count| {
        let more = count - gone.count();
        subsets(wrong, more).map(move |chosen| gone.or(chosen))
    });
    let others = if gone.is_empty() || gone.count() >= parity.count() {
        SlotSet::EMPTY
    } else {
        shape.all_data().minus(gone).minus(wrong)
    };
    let others = (0..shape.data).filter(move |&slot| others.contains(slot));
    let unlikely = others.map(move |slot| gone.with(slot));
    let all = likely.chain(unlikely).flat_map(move |erased| {
        let rest = shape.all_data().minus(erased);
        subsets(parity, erased.count()).map(move |parity| (erased, rest.or(parity)))
    });
    all.take(TRIES_MAX)
}

/// Returns every subset with `count` slots.
fn subsets(of: SlotSet, count: u32) -> impl Iterator<Item = SlotSet> {
    // A choice is a number with one bit for each slot, in order. Each choice yields the next number
    // with as many bits.
    let next = |&choice: &u64| {
        let lowest = choice & choice.wrapping_neg();
        let carried = choice + lowest;
        (choice > 0).then(|| carried | (((carried ^ choice) >> 2) / lowest))
    };
    core::iter::successors(Some((1_u64 << count) - 1), next)
        .take_while(move |choice| choice >> of.count() == 0)
        .map(move |choice| {
            let chosen = (0..).zip(of.iter()).filter(|(at, _)| choice >> at & 1 == 1);
            chosen.fold(SlotSet::EMPTY, |set, (_, slot)| set.with(slot))
        })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{
        collections::BTreeMap,
        format, println,
        string::{String, ToString},
        vec::Vec,
    };

    /// The state that a crash may leave a block in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Left {
        Old,
        New,
        Torn,
        Gone,
    }

    const ALL: [Left; 4] = [Left::Old, Left::New, Left::Torn, Left::Gone];

    /// A row of `data` data blocks and `parities` parities.
    const fn row(data: u8, parities: u8) -> Shape {
        Shape {
            data,
            slots: data + parities,
            copies: false,
        }
    }

    /// Computes the values of the slots `wanted` from the known ones, with the parity code of real
    /// arrays.
    fn solved(shape: Shape, wanted: SlotSet, known: &[(u8, u32)]) -> Vec<(u8, u32)> {
        let code = spindles_parity::by_parity_chunks(shape.slots - shape.data);
        let known: Vec<_> = known.iter().map(|(s, v)| (*s, v.to_le_bytes())).collect();
        let sources: Vec<_> = known.iter().map(|(s, bytes)| (*s, &bytes[..])).collect();
        let mut made: Vec<_> = wanted.iter().map(|slot| (slot, [0; 4])).collect();
        let mut targets: Vec<_> = made.iter_mut().map(|(s, of)| (*s, &mut of[..])).collect();
        spindles_parity::solve(code, shape.data, &sources, &mut targets);
        let made = made.into_iter();
        made.map(|(slot, bytes)| (slot, u32::from_le_bytes(bytes)))
            .collect()
    }

    /// The value of a slot in a state. Blocks are short enough to be their own checksums. With one
    /// parity, the XOR of the blocks, this holds for checksums too, as with a CRC.
    fn sum(slot: u8, left: Left, shape: Shape) -> Option<u32> {
        let of = |slot: u8, new: bool| {
            let old = 0x1001_0413 * (u32::from(slot) + 3);
            let change = 0x0ab7_90c1 * (7 - u32::from(slot));
            if new { old ^ change } else { old }
        };
        let whole = |new| {
            if slot < shape.data {
                return of(slot, new);
            }
            let data: Vec<_> = (0..shape.data).map(|slot| (slot, of(slot, new))).collect();
            solved(shape, SlotSet::one(slot), &data)[0].1
        };
        match left {
            Left::Old => Some(whole(false)),
            Left::New => Some(whole(true)),
            Left::Torn => Some(whole(true) ^ 0x5a5a_0000 ^ u32::from(slot)),
            Left::Gone => None,
        }
    }

    fn row_sum(new: bool, shape: Shape) -> RowSum {
        let left = if new { Left::New } else { Left::Old };
        RowSum::of((0..shape.data).map(|slot| (slot, sum(slot, left, shape).unwrap())))
    }

    /// The state of a block, and whether its entry is the new one.
    type State = (Left, bool);

    /// Calls `of` with every row of `slots` slots.
    fn each(slots: u8, mut of: impl FnMut(&[State])) {
        let kinds = ALL.len() * 2;
        for case in 0..kinds.pow(u32::from(slots)) {
            let kind = |slot: u8| case / kinds.pow(u32::from(slot)) % kinds;
            let states = (0..slots).map(|slot| (ALL[kind(slot) / 2], kind(slot) % 2 == 1));
            of(&states.collect::<Vec<_>>());
        }
    }

    /// The evidence about a row in which the slot `lost`, if any, lost its entry.
    fn evidence(states: &[State], shape: Shape, lost: Option<u8>) -> Vec<BlockEvidence> {
        let of = |(slot, &(left, new)): (u8, &State)| {
            let entry = if new { Left::New } else { Left::Old };
            let has_entry = lost != Some(slot);
            BlockEvidence {
                lost_checksum: !has_entry,
                read: sum(slot, left, shape),
                kept: sum(slot, entry, shape).filter(|_| has_entry),
                row_sum: (has_entry && slot >= shape.data).then(|| row_sum(new, shape)),
            }
        };
        (0..).zip(states).map(of).collect()
    }

    fn told(states: &[State], data: u8, lost: Option<u8>) -> String {
        let of = |(slot, (left, new)): (u8, &State)| {
            let name = match slot.checked_sub(data) {
                None => format!("d{slot}"),
                Some(parity) => "pqr"[usize::from(parity)..][..1].to_string(),
            };
            let entry = match (lost == Some(slot), new) {
                (true, _) => "lost",
                (_, true) => "new",
                (_, false) => "old",
            };
            format!("{name}={left:?}/{entry}").to_lowercase()
        };
        let all: Vec<_> = (0..).zip(states).map(of).collect();
        all.join(" ")
    }

    /// The result for a row with parity.
    struct Settled {
        how: &'static str,
        proved: bool,
        /// The data blocks that are lost.
        lost: SlotSet,
        /// The data; `None` for lost blocks.
        values: Vec<Option<u32>>,
    }

    fn settle(shape: Shape, row: &[BlockEvidence]) -> Settled {
        let mut disproved = 0;
        loop {
            let verdict = decide_row(shape, row, disproved);
            let read = row[..usize::from(shape.data)].iter().map(|b| b.read);
            let mut settled = Settled {
                how: "as read",
                proved: false,
                lost: SlotSet::EMPTY,
                values: read.collect(),
            };
            match verdict {
                Verdict::AsRead { proved: false } => return settled,
                Verdict::AsRead { proved: true } => {
                    (settled.how, settled.proved) = ("as read, proved", true);
                    return settled;
                }
                Verdict::Lost(gone) => {
                    gone.iter()
                        .for_each(|slot| settled.values[usize::from(slot)] = None);
                    (settled.how, settled.lost) = ("lost", gone);
                    return settled;
                }
                Verdict::Try { erased, sources } => {
                    assert_eq!(sources.count(), u32::from(shape.data));
                    let value = |slot: u8| row[usize::from(slot)].read.expect("it was read");
                    let known: Vec<_> = sources.iter().map(|slot| (slot, value(slot))).collect();
                    for (slot, value) in solved(shape, erased, &known) {
                        settled.values[usize::from(slot)] = Some(value);
                    }
                    let all = (0..).zip(
                        settled
                            .values
                            .iter()
                            .map(|value| value.expect("all are known")),
                    );
                    if proves(shape, row, RowSum::of(all)) {
                        let names = ["", "reconstructed one", "reconstructed two"];
                        settled.how = names[usize::try_from(erased.count()).unwrap()];
                        settled.proved = true;
                        return settled;
                    }
                    disproved += 1;
                }
            }
        }
    }

    /// Decides every state of a row in which the slot `lost`, if any, lost its entry. Returns how
    /// often each outcome came.
    fn decided(shape: Shape, lost: Option<u8>, prints: bool) -> BTreeMap<&'static str, u32> {
        let data = shape.data;
        let parities = shape.slots - data;
        let mut outcomes = BTreeMap::new();
        each(shape.slots, |states| {
            if lost.is_some_and(|slot| states[usize::from(slot)].1) {
                return; // A lost entry is neither old nor new.
            }
            let row = evidence(states, shape, lost);
            let settled = settle(shape, &row);
            let how = settled.how;
            let told = told(states, data, lost);
            let what = format!("{data} data, {parities} parities: {told} → {how}");
            if prints {
                println!("{what}");
            }
            let is = |left| {
                let all = (0..data).map(|slot| sum(slot, left, shape));
                all.eq(settled.values.iter().copied())
            };
            assert!(
                !settled.proved || is(Left::Old) || is(Left::New),
                "{what}: what is proved is all old or all new"
            );
            for (slot, value) in (0..).zip(&settled.values) {
                let (left, _) = states[usize::from(slot)];
                let legal = [Left::Old, Left::New, left].map(|left| sum(slot, left, shape));
                let legal = legal.contains(value) && value.is_some();
                let is_lost = settled.lost.contains(slot) && value.is_none();
                assert!(legal || is_lost, "{what}: d{slot}");
                let may_be_lost = left == Left::Gone || lost == Some(slot);
                assert!(
                    may_be_lost || !settled.lost.contains(slot),
                    "{what}: d{slot}"
                );
            }
            // Enough blocks are present, all old or all new, with the row sum of a parity.
            let all_of = |left: Left| {
                let there = |is: Left| is == left || is == Left::Gone;
                let gone = states.iter().filter(|(is, _)| *is == Left::Gone).count();
                let sums = (data..shape.slots).filter(|slot| lost != Some(*slot));
                let mut sums = sums.map(|slot| states[usize::from(slot)]);
                states.iter().all(|(is, _)| there(*is))
                    && gone <= usize::from(parities)
                    && sums.any(|(_, new)| new == (left == Left::New))
            };
            for left in [Left::Old, Left::New] {
                let proved = settled.proved && is(left);
                assert!(!all_of(left) || proved, "{what}: all was there");
            }
            *outcomes.entry(how).or_default() += 1;
        });
        outcomes
    }

    /// Rows as (data blocks, parities, slot that lost its entry). For each the number of rows that
    /// come out as read, as read and proved, with one or two blocks reconstructed, and with blocks
    /// lost.
    const OUTCOMES: &[(u8, u8, Option<u8>, [u32; 5])] = &[
        (1, 1, None, [26, 16, 10, 0, 12]),
        (2, 1, None, [232, 32, 40, 0, 208]),
        (3, 1, None, [1592, 64, 120, 0, 2320]),
        (1, 2, None, [102, 192, 166, 0, 52]),
        (2, 2, None, [1398, 384, 808, 170, 1336]),
        (1, 1, Some(0), [0, 8, 6, 0, 18]),
        (1, 1, Some(1), [24, 0, 0, 0, 8]),
        (2, 1, Some(0), [0, 16, 22, 0, 218]),
        (2, 1, Some(1), [0, 16, 22, 0, 218]),
        (2, 1, Some(2), [144, 0, 0, 0, 112]),
        (3, 1, Some(0), [0, 32, 64, 0, 1952]),
        (3, 1, Some(1), [0, 32, 64, 0, 1952]),
        (3, 1, Some(2), [0, 32, 64, 0, 1952]),
        (3, 1, Some(3), [864, 0, 0, 0, 1184]),
    ];

    /// Decides every state of rows with parity and checks that:
    /// - each value was there before, old or new;
    /// - proved data is all old or all new;
    /// - a complete row is not lost;
    /// - a lost block could not be read or had lost its checksum;
    /// - the number of rows with each outcome has not changed.
    #[test]
    fn every_row_with_parity_is_decided() {
        let names = [
            "as read",
            "as read, proved",
            "reconstructed one",
            "reconstructed two",
            "lost",
        ];
        let shapes = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)];
        let whole = shapes.map(|(data, parities)| (data, parities, None));
        let lost = [1, 2, 3].into_iter();
        let lost = lost.flat_map(|data| (0..=data).map(move |slot| (data, 1, Some(slot))));
        let mut all = Vec::new();
        for (data, parities, lost) in whole.into_iter().chain(lost) {
            let prints = data < 3 && parities < 2 && lost.is_none();
            let outcomes = decided(row(data, parities), lost, prints);
            let count = |name| outcomes.get(name).copied().unwrap_or(0);
            let counts = names.map(count);
            assert_eq!(counts.iter().sum::<u32>(), outcomes.values().sum());
            println!("({data}, {parities}, {lost:?}, {counts:?}),");
            all.push((data, parities, lost, counts));
        }
        assert_eq!(all, OUTCOMES);
    }

    /// The reconstructions tried of a row in which none of the blocks `wrong` fits, and nothing is
    /// proved.
    fn tried(shape: Shape, wrong: SlotSet, gone: SlotSet) -> Vec<(SlotSet, SlotSet)> {
        let of = |slot: u8| BlockEvidence {
            lost_checksum: false,
            read: (!gone.contains(slot)).then_some(1),
            kept: Some(u32::from(!wrong.contains(slot))),
            row_sum: None,
        };
        let row: Vec<_> = (0..shape.slots).map(of).collect();
        let tries = (0..).map_while(|disproved| match decide_row(shape, &row, disproved) {
            Verdict::Try { erased, sources } => Some((erased, sources)),
            _ => None,
        });
        tries.collect()
    }

    /// A block may be rotten in a row whose other checksums did not reach the members. With fewer
    /// parities than blocks that do not fit, as many blocks as parities are reconstructed. The
    /// number of tries is limited.
    #[test]
    fn of_more_wrong_blocks_than_parities_some_are_reconstructed() {
        let shape = Shape {
            data: 3,
            slots: 5,
            copies: false,
        };
        let one_parity = tried(shape, SlotSet::range(0, 2), SlotSet::one(4));
        let set = |slots: &[u8]| slots.iter().copied().fold(SlotSet::EMPTY, SlotSet::with);
        assert_eq!(
            one_parity,
            [(set(&[0]), set(&[1, 2, 3])), (set(&[1]), set(&[0, 2, 3]))]
        );
        let two_parities = tried(shape, SlotSet::range(0, 3), SlotSet::EMPTY);
        let sizes: Vec<_> = two_parities
            .iter()
            .map(|(erased, _)| erased.count())
            .collect();
        assert_eq!(sizes, [1, 1, 1, 1, 1, 1, 2, 2, 2]);
        let shape = Shape {
            data: 61,
            slots: 64,
            copies: false,
        };
        let many = tried(shape, shape.all_data(), SlotSet::EMPTY);
        assert_eq!(many.len(), TRIES_MAX);
        let singles = many.iter().filter(|(erased, _)| erased.count() == 1);
        assert_eq!(singles.count(), 3 * 61);
    }

    /// Decides every state of copies. A copy that fits the checksum of any copy wins, otherwise one
    /// that two copies share, otherwise any copy that was read.
    #[test]
    fn every_set_of_copies_is_decided() {
        for copies in [1, 2, 3] {
            each(copies, |states| {
                let of = |&(left, new): &State| {
                    let entry = if new { Left::New } else { Left::Old };
                    BlockEvidence {
                        lost_checksum: false,
                        read: sum(0, left, row(1, 1)),
                        kept: sum(0, entry, row(1, 1)),
                        row_sum: None,
                    }
                };
                let row: Vec<_> = states.iter().map(of).collect();
                let what = told(states, copies, None);
                let Some(truth) = decide_copies(&row) else {
                    assert!(row.iter().all(|copy| copy.read.is_none()), "{what}");
                    return;
                };
                let (left, _) = states[usize::from(truth)];
                let fits = |left| {
                    let kept = states.iter().any(|(_, new)| *new == (left == Left::New));
                    left != Left::Torn && left != Left::Gone && kept
                };
                let any_fits = states.iter().any(|&(left, _)| fits(left));
                assert!(left != Left::Gone && (fits(left) || !any_fits), "{what}");
                let two = |of: Left| states.iter().filter(|(left, _)| *left == of).count() > 1;
                let agree = [Left::Old, Left::New, Left::Torn].into_iter().any(two);
                assert!(any_fits || !agree || two(left), "{what}");
            });
        }
    }
}

//! What becomes of a row of a region in doubt, decided from its checksums alone.
//!
//! A region is in doubt when a crash came while it was being written. Of each of its rows it is
//! not known which blocks are new and which are old. This module decides; `rows` fetches the
//! evidence and carries the verdict out. The rules are those of `docs/consistency.md`.
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

/// What is known of one block of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockEvidence {
    /// The checksum of what was read. `None` where nothing could be read.
    pub(crate) read: Option<u32>,
    /// The checksum that the member keeps of the block. `None` where there is none.
    pub(crate) kept: Option<u32>,
    /// There was one, and it is lost.
    pub(crate) lost_checksum: bool,
    /// The row sum that the member keeps beside the checksum of parity. `None` where that is lost.
    pub(crate) row_sum: Option<RowSum>,
}

impl BlockEvidence {
    /// Whether what was read is what the member's checksum says.
    fn fits(&self) -> bool {
        self.read.is_some() && self.read == self.kept
    }
}

/// What becomes of a row of data and parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The data is what was read.
    AsRead {
        /// A row sum proves it.
        proved: bool,
    },
    /// To be tried: `erased` is reconstructed from `sources`. If no row sum proves the result, the
    /// next verdict is asked for.
    Try {
        /// Data to reconstruct.
        erased: SlotSet,
        /// The other data, and as many parities as there is data to reconstruct.
        sources: SlotSet,
    },
    /// The other data stays. This was not read, or lost its checksum, and nothing proves what it was.
    Lost(SlotSet),
}

/// The copy that all others shall be like. `None` where none was read.
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

/// Whether some parity of the row has this row sum.
pub(crate) fn proves(shape: Shape, row: &[BlockEvidence], sum: RowSum) -> bool {
    let parity = &row[usize::from(shape.data)..];
    parity.iter().any(|block| block.row_sum == Some(sum))
}

/// The verdict on a row of data and parity, after `disproved` reconstructions that no row sum proved.
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
        // Checksums did not land before the crash, the row sum neither: nothing would be proved.
        wrong = SlotSet::EMPTY;
    }
    // Of what lost its checksum nothing is known: the log may have had other contents for it.
    let unknown = slots(&|block| block.lost_checksum).and(shape.all_data());
    match reconstructions(shape, gone, wrong, parity).nth(disproved) {
        Some((erased, sources)) => Verdict::Try { erased, sources },
        None if gone.or(unknown).is_empty() => Verdict::AsRead { proved: false },
        None => Verdict::Lost(gone.or(unknown)),
    }
}

/// So many reconstructions of a row are tried: each reads the row again.
const TRIES_MAX: usize = 256;

/// The ways to reconstruct all that is `gone` and some of what is `wrong`, the fewest blocks first:
/// what is erased, and from what. With what is gone, last, any one other block: an old one fits its
/// checksum if that is old too.
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

/// All sets of `count` of these slots.
fn subsets(of: SlotSet, count: u32) -> impl Iterator<Item = SlotSet> {
    // A choice is a number whose bits stand for the slots in order: from each follows the next with as
    // many bits.
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

    /// What a crash may leave of a block.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Left {
        Old,
        New,
        Torn,
        Gone,
    }

    const ALL: [Left; 4] = [Left::Old, Left::New, Left::Torn, Left::Gone];

    /// What a slot holds in each of these states, in place of a checksum. Parity is the exclusive or of
    /// data, so that it is right for the checksums too, as with a CRC.
    fn sum(slot: u8, left: Left, data: u8) -> Option<u32> {
        let of = |slot: u8, new: bool| {
            let old = 0x1001_0413 * (u32::from(slot) + 3);
            let change = 0x0ab7_90c1 * (7 - u32::from(slot));
            if new { old ^ change } else { old }
        };
        let row = |new| (0..data).fold(0, |sum, slot| sum ^ of(slot, new));
        let whole = |new| if slot < data { of(slot, new) } else { row(new) };
        match left {
            Left::Old => Some(whole(false)),
            Left::New => Some(whole(true)),
            Left::Torn => Some(whole(true) ^ 0x5a5a_0000 ^ u32::from(slot)),
            Left::Gone => None,
        }
    }

    fn row_sum(new: bool, data: u8) -> RowSum {
        let left = if new { Left::New } else { Left::Old };
        RowSum::of((0..data).map(|slot| (slot, sum(slot, left, data).unwrap())))
    }

    /// What is in the place of a block, and whether its entry is the new one.
    type State = (Left, bool);

    /// Every row of so many slots.
    fn each(slots: u8, mut of: impl FnMut(&[State])) {
        let kinds = ALL.len() * 2;
        for case in 0..kinds.pow(u32::from(slots)) {
            let kind = |slot: u8| case / kinds.pow(u32::from(slot)) % kinds;
            let states = (0..slots).map(|slot| (ALL[kind(slot) / 2], kind(slot) % 2 == 1));
            of(&states.collect::<Vec<_>>());
        }
    }

    fn evidence(states: &[State], data: u8) -> Vec<BlockEvidence> {
        let of = |(slot, &(left, new)): (u8, &State)| {
            let entry = if new { Left::New } else { Left::Old };
            BlockEvidence {
                lost_checksum: false,
                read: sum(slot, left, data),
                kept: sum(slot, entry, data),
                row_sum: (slot >= data).then(|| row_sum(new, data)),
            }
        };
        (0..).zip(states).map(of).collect()
    }

    fn told(states: &[State], data: u8) -> String {
        let of = |(slot, (left, new)): (u8, &State)| {
            let name = if slot < data {
                format!("d{slot}")
            } else {
                "p".to_string()
            };
            let entry = if *new { "new" } else { "old" };
            format!("{name}={left:?}/{entry}").to_lowercase()
        };
        let all: Vec<_> = (0..).zip(states).map(of).collect();
        all.join(" ")
    }

    /// What becomes of a row with one parity: its data, or nothing for what is lost.
    fn settle(data: u8, row: &[BlockEvidence]) -> (String, Vec<Option<u32>>) {
        let shape = Shape {
            data,
            slots: data + 1,
            copies: false,
        };
        let mut disproved = 0;
        loop {
            let verdict = decide_row(shape, row, disproved);
            let mut values: Vec<_> = row[..usize::from(data)].iter().map(|b| b.read).collect();
            match verdict {
                Verdict::AsRead { proved } => {
                    let how = if proved { "as read, proved" } else { "as read" };
                    return (how.to_string(), values);
                }
                Verdict::Lost(_) => return ("lost".to_string(), values),
                Verdict::Try { erased, sources } => {
                    assert_eq!(erased.count() + sources.count(), u32::from(data) + 1);
                    let value = |slot: u8| row[usize::from(slot)].read.expect("it was read");
                    let recovered = sources.iter().fold(0, |sum, slot| sum ^ value(slot));
                    let slot = erased.first().expect("one at least");
                    values[usize::from(slot)] = Some(recovered);
                    let all = (0..).zip(values.iter().map(|value| value.expect("all are known")));
                    if proves(shape, row, RowSum::of(all)) {
                        return (format!("reconstructed d{slot}"), values);
                    }
                    disproved += 1;
                }
            }
        }
    }

    /// Every state of a row with one parity. Nothing comes of it but what was there, old or new; what
    /// is reconstructed is all old or all new; and what is all there is not lost.
    #[test]
    fn every_row_with_parity_is_decided() {
        for data in [1, 2, 3] {
            let mut outcomes = BTreeMap::<String, u32>::new();
            each(data + 1, |states| {
                let row = evidence(states, data);
                let (how, values) = settle(data, &row);
                let what = format!("raid5 {}: {} → {how}", data + 1, told(states, data));
                if data < 3 {
                    println!("{what}");
                }
                let is = |left| {
                    let all = (0..data).map(|slot| sum(slot, left, data));
                    all.eq(values.iter().copied())
                };
                let proved = how.starts_with("reconstructed") || how.ends_with("proved");
                assert!(!proved || is(Left::Old) || is(Left::New), "{what}");
                for (slot, value) in (0..).zip(&values) {
                    let (left, _) = states[usize::from(slot)];
                    let legal = [Left::Old, Left::New, left].map(|left| sum(slot, left, data));
                    assert!(legal.contains(value), "{what}: d{slot}");
                }
                let all_of = |left: Left| {
                    let there = states
                        .iter()
                        .all(|(is, _)| *is == left || *is == Left::Gone);
                    let gone = states.iter().filter(|(is, _)| *is == Left::Gone).count();
                    there && gone <= 1 && states[usize::from(data)] == (left, left == Left::New)
                };
                for left in [Left::Old, Left::New] {
                    assert!(!all_of(left) || is(left), "{what}: all was there");
                }
                let gone = states[..usize::from(data)]
                    .iter()
                    .any(|(is, _)| *is == Left::Gone);
                assert!(gone || how != "lost", "{what}");
                *outcomes.entry(how).or_default() += 1;
            });
            println!("{data} data blocks: {outcomes:?}");
            assert!(outcomes.len() > 3, "{outcomes:?}");
        }
    }

    /// What is tried of a row of which none of these data blocks fits, and nothing is proved.
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

    /// One block may be rotten in a row whose other checksums did not land: with fewer parities than blocks that
    /// do not fit, as many as there are parities are reconstructed. There is an end to it.
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

    /// Every state of copies: one that fits any copy's checksum counts if there is one, else what two
    /// hold, and what is there in any case.
    #[test]
    fn every_set_of_copies_is_decided() {
        for copies in [1, 2, 3] {
            each(copies, |states| {
                let of = |&(left, new): &State| {
                    let entry = if new { Left::New } else { Left::Old };
                    BlockEvidence {
                        lost_checksum: false,
                        read: sum(0, left, 1),
                        kept: sum(0, entry, 1),
                        row_sum: None,
                    }
                };
                let row: Vec<_> = states.iter().map(of).collect();
                let what = told(states, copies);
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

//! Enumerates crashes of the stage alone, with real rooms, headers and parity. The model plays the
//! caller: it has the devices, the places, and the contract's legal values.
//!
//! A script of operations runs. At each moment of the last operation a crash leaves any part of the
//! volatile writes. The model then opens the stage with every tolerated set of missing holders, and
//! with one corrupt or unreadable piece. All reads must return legal values. A second crash follows
//! at each moment of the opening, and of one more operation.
//!
//! A [`Fault`] leaves one rule out, in the model's part or in what it tells the rooms.

mod faults;
mod machine;
mod world;

use super::judge::{Directory, Evidence, Fate, Judged, Verdict};
use super::*;
use spindles_block::{BlockSize, MemberIndex, Operand};
use spindles_format::{STAGE_HEADER_BYTES, StageHeader, StageRun};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};
use world::{Explorer, Sizes};

/// The time of all inputs: no rule depends on it.
const NOW: Instant = Instant(0);

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// One column less than the holders that may be lost need.
    FewColumns,
    /// The header lies with the first column only.
    DirectoryOnOne,
    /// Answered before the holders answered.
    AnsweredEarly,
    /// A flush of the client forgets the stage.
    FlushForgets,
    /// An ordinary write goes past a staged block.
    PastStaged,
    /// An ordinary write goes past a block that is placed and not released.
    PastPlaced,
    /// Released before the places are flushed.
    ReleasedEarly,
    /// Released for a newer record that is not durable.
    ReleasedForVolatile,
    /// Space is used again before the new tail is durable.
    ReusedEarly,
    /// The tail is durable on one holder only.
    TailOnOne,
    /// The tail found at opening is not made durable on all holders.
    TailNotRenewed,
    /// All holders write the tail to one slot, chosen by the highest tail of any holder.
    SharedSlot,
    /// Both tails go to the same slot, so that a torn one leaves none.
    TailInPlace,
    /// What counts is not made whole.
    NotMadeWhole,
    /// What does not count is not made void.
    NotMadeVoid,
    /// Of two records of a block the first counts.
    FirstCounts,
    /// A batch counts despite torn columns.
    TornTaken,
    /// A member becomes active while records without its column are live.
    ActiveWithRecords,
    /// A member becomes active while its old records are not below the tail.
    ActiveWithoutTail,
    /// A write is answered without a column before the loss of the holder is durable.
    AnsweredBeforeOut,
    /// A block that was staged again while it was placed counts as placed.
    StagedAgainPlaced,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Stages one block.
    Stage(u64),
    /// The same, durably.
    StageFua(u64),
    /// Stages as many blocks as give two data columns, of which the last is shorter.
    StageWide,
    /// Zeros of a block: staged if it is covered.
    Zeros(u64),
    /// A client's flush.
    Flush,
    /// Places all staged blocks.
    Place,
    /// Places a block; meanwhile it is staged again.
    PlaceRace(u64),
    /// Releases every batch that may go.
    Release,
    /// A durable ordinary write; staged if the block is covered.
    Ordinary(u64),
    /// A holder goes out.
    Out(u8),
    /// It comes back.
    Back(u8),
    /// A durable write of a block to the stage, under which a holder fails.
    StageFails(u64, u8),
}

use Op::{
    Back, Flush, Ordinary, Out, Place, PlaceRace, Release, StageFails, StageFua, StageWide, Zeros,
};

fn is_possible(script: &[Op]) -> bool {
    let mut out = BTreeSet::new();
    let mut is_staged = false;
    for op in script {
        is_staged |= matches!(op, Op::Stage(_) | StageFua(_) | StageWide | StageFails(..));
        let ok = match op {
            Out(holder) | StageFails(_, holder) => out.is_empty() && out.insert(*holder),
            Back(holder) => out.remove(holder),
            _ => true,
        };
        if !ok {
            return false;
        }
    }
    is_staged
}

/// Returns all scripts of up to `length` of these operations.
fn scripts(ops: &[Op], length: usize) -> Vec<Vec<Op>> {
    let mut all: Vec<Vec<Op>> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..length {
        let longer = last.iter().flat_map(|script| {
            let append = move |op: &Op| script.iter().copied().chain([*op]).collect::<Vec<Op>>();
            ops.iter().map(append)
        });
        last = longer.collect();
        all.extend(last.iter().cloned());
    }
    all.retain(|script| is_possible(script));
    all
}

/// Explores scripts. Returns the number of states, or the first illegal one.
fn explore(sizes: Sizes, fault: Fault, scripts: &[Vec<Op>]) -> Result<u64, String> {
    let mut explorer = Explorer::new(fault);
    for script in scripts {
        explorer.run(sizes, script)?;
    }
    Ok(explorer.states())
}

const ONE: Sizes = Sizes {
    holders: 3,
    parity: 1,
};
const TWO: Sizes = Sizes {
    holders: 4,
    parity: 2,
};

/// Combines all operations, with one parity column.
#[test]
fn the_rules_hold_for_all_short_scripts() {
    let ops = [
        Op::Stage(0),
        StageFua(0),
        StageWide,
        Zeros(0),
        Flush,
        Place,
        PlaceRace(0),
        Release,
        Ordinary(0),
        Out(1),
        Back(1),
        StageFails(0, 0),
    ];
    let mut scripts = scripts(&ops, 3);
    // Scripts of three operations have millions of states: test a share of them.
    let mut number = 0;
    scripts.retain(|script| {
        let is_wide = script.contains(&StageWide);
        number += u32::from(script.len() == 3);
        script.len() < 3 || !is_wide && number % 16 == 0
    });
    let states = explore(ONE, Fault::None, &scripts).unwrap();
    assert!(states > 100_000, "{states}");
}

/// Two holders may be lost.
#[test]
fn the_rules_hold_with_two_parity_columns() {
    let ops = [Op::Stage(0), StageFua(0), Place, Out(1)];
    let states = explore(TWO, Fault::None, &scripts(&ops, 2)).unwrap();
    assert!(states > 50_000, "{states}");
}

/// Longer scripts that each rule is about.
#[test]
fn the_rules_hold_for_long_scripts() {
    let scripts: [&[Op]; 6] = [
        &[StageFua(0), Op::Stage(0), Place, Release, Op::Stage(0)],
        &[StageFua(0), Place, Release, Ordinary(0)],
        &[StageFua(0), Op::Stage(1), Place, Flush, Release, Release],
        &[StageFua(0), Out(1), StageFua(0), Back(1), StageFua(1)],
        &[StageWide, Place, StageFua(3), Release, Place, Release],
        &[StageFua(0), PlaceRace(0), Flush, Release, Place, Release],
    ];
    let scripts: Vec<Vec<Op>> = scripts.iter().map(|script| script.to_vec()).collect();
    let states = explore(ONE, Fault::None, &scripts).unwrap();
    assert!(states > 2_000, "{states}");
}

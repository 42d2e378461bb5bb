//! Each rule left out is found.

use super::*;

/// Two releases, one after the other.
const TWICE: [Op; 6] = [StageWide, Place, StageFua(3), Release, Place, Release];

/// Explores scripts with a fault, and expects an illegal state.
fn assert_found(fault: Fault, sizes: Sizes, script: &[&[Op]]) {
    let scripts: Vec<Vec<Op>> = script.iter().map(|script| script.to_vec()).collect();
    let found = explore(sizes, fault, &scripts);
    assert!(found.is_err(), "{fault:?} is not found: {found:?} states");
    if script.iter().any(|script| script.len() > 4) {
        return; // `the_rules_hold_for_long_scripts` has it.
    }
    let found = explore(sizes, Fault::None, &scripts);
    assert!(found.is_ok(), "without {fault:?}: {found:?}");
}

#[test]
fn each_rule_left_out_is_found() {
    let table: &[(Fault, Sizes, &[&[Op]])] = &[
        (Fault::FewColumns, ONE, &[&[StageFua(0)]]),
        (Fault::FewColumns, TWO, &[&[StageFua(0)]]),
        (Fault::DirectoryOnOne, ONE, &[&[StageFua(0)]]),
        (Fault::AnsweredEarly, ONE, &[&[Op::Stage(0)]]),
        (Fault::FlushForgets, ONE, &[&[Op::Stage(0), Flush]]),
        (Fault::PastStaged, ONE, &[&[StageFua(0), Ordinary(0)]]),
        (
            Fault::PastPlaced,
            ONE,
            &[&[StageFua(0), Place, Ordinary(0)]],
        ),
        (Fault::ReleasedEarly, ONE, &[&[StageFua(0), Place, Release]]),
        (
            Fault::ReleasedForVolatile,
            ONE,
            &[&[StageFua(0), Op::Stage(0), Release]],
        ),
        (
            Fault::ReusedEarly,
            ONE,
            &[&[StageFua(0), StageFua(0), Place, Release]],
        ),
        (
            Fault::TailOnOne,
            ONE,
            &[&[StageFua(0), Place, Release, Ordinary(0)]],
        ),
        (
            Fault::TailNotRenewed,
            ONE,
            &[&[StageFua(0), Place, Release]],
        ),
        (
            Fault::TailInPlace,
            ONE,
            &[&[StageFua(0), Place, Release, Ordinary(0)]],
        ),
        (Fault::SharedSlot, ONE, &[&TWICE]),
        (Fault::NotMadeWhole, ONE, &[&[Op::Stage(0)]]),
        (Fault::NotMadeVoid, ONE, &[&[StageFua(0), Op::Stage(0)]]),
        (Fault::FirstCounts, ONE, &[&[StageFua(0), StageFua(0)]]),
        (Fault::TornTaken, ONE, &[&[StageFua(0)]]),
        (
            Fault::ActiveWithRecords,
            ONE,
            &[&[Out(1), StageFua(0), Back(1)]],
        ),
        (Fault::ActiveWithoutTail, ONE, &[&[Op::Stage(0)]]),
        (Fault::AnsweredBeforeOut, ONE, &[&[StageFails(0, 0)]]),
        (
            Fault::StagedAgainPlaced,
            ONE,
            &[&[StageFua(0), PlaceRace(0), Release]],
        ),
    ];
    for (fault, sizes, scripts) in table {
        assert_found(*fault, *sizes, scripts);
    }
}

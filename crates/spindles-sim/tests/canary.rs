//! Engines with one planted fault: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

#![cfg(feature = "canary")]

use spindles_engine::Mutation;
use spindles_engine::mutation::MUTATIONS;
use spindles_layout::Level;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::faults::Fault;
use spindles_sim::{Ending, Fixed, Options, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The fault, the checker that is there for it, and the most seeds that it may take.
const CANARIES: &[(Mutation, &str, u64)] = &[
    (Mutation::SkipFlush, "durability", 20),
    (Mutation::SkipFua, "durability", 20),
    (Mutation::SwapMembers, "history", 20),
    (Mutation::DropStripeLock, "redundancy", 100),
    (Mutation::SharedScratch, "buffers", 50),
    (Mutation::RepairUnlocated, "scrub", 400),
    (Mutation::BlindScrub, "scrub", 400),
    (Mutation::ScrubUnlocked, "scrub", 1000),
    (Mutation::RepairInCache, "scrub", 400),
    (Mutation::StaleParity, "redundancy", 200),
    (Mutation::SkipFailureRecord, "failure_record", 1000),
    (Mutation::SkipDirtyMark, "clean_mark", 100),
    (Mutation::CloseUnflushed, "redundancy", 100),
    (Mutation::SkipOpeningFlush, "history", 400),
    (Mutation::SkipSettle, "history", 200),
    (Mutation::SettleInCache, "history", 2000),
    (Mutation::NoRecovery, "availability", 300),
    (Mutation::LostWakeup, "liveness", 20),
    (Mutation::SkipRegionMark, "dirty_bits", 300),
    (Mutation::ClearBitEarly, "dirty_bits", 300),
    (Mutation::ClearBitWhileOut, "dirty_bits", 300),
    (Mutation::SkipZeroing, "history", 50),
    (Mutation::RebuildUnflushed, "history", 1500),
    (Mutation::RebuildSkipsWrites, "redundancy", 600),
    (Mutation::SkipJournal, "history", 100),
    (Mutation::SkipJournalFlush, "history", 500),
    (Mutation::SkipReplay, "redundancy", 200),
    (Mutation::ReuseJournalUnflushed, "history", 800),
    (Mutation::TrustLostJournal, "history", 8000),
    (Mutation::SkipPagesOfDurable, "history", 2000),
    (Mutation::TrustRecovered, "history", 4000),
    (Mutation::StaleRowSum, "checksums", 50),
    (Mutation::ReadUnplaced, "history", 300),
    (Mutation::PartsUnlogged, "liveness", 100),
    (Mutation::WholeOverLive, "history", 2000),
    (Mutation::OutUnflushed, "liveness", 150),
    (Mutation::DropBroken, "history", 2000),
    (Mutation::SkipVerify, "history", 400),
    (Mutation::ReuseJournalWithoutChecksums, "liveness", 100),
    (Mutation::SkipReplayedChecksums, "liveness", 50),
    (Mutation::ReplaceSkipsWrites, "redundancy", 300),
    (Mutation::ReplaceUnflushed, "history", 800),
    (Mutation::StageUnflushed, "history", 300),
    (Mutation::MarkUnflushed, "history", 800),
    (Mutation::HedgeInPlace, "buffers", 100),
    (Mutation::HedgeUnlimited, "hedges", 100),
];

/// What shows in few runs is planted in enumerations instead: `tests/enumerate.rs`.
const ENUMERATED: &[Mutation] = &[
    Mutation::SkipRestFlush,
    Mutation::ForgetLost,
    Mutation::LogUnrecorded,
    Mutation::TrustJournalCache,
];

/// Runs in which the fault can show at all.
fn scenario(mutation: Mutation) -> Fixed {
    let fixed = match mutation {
        Mutation::StageUnflushed | Mutation::MarkUnflushed => Fixed {
            level: Level::by_name("raid5"),
            faults: Some(Fault::by_name("grow").into_iter().collect()),
            ..Fixed::default()
        },
        Mutation::ReadUnplaced => Fixed {
            level: Level::by_name("raid6"),
            ..Fixed::default()
        },
        // The write hole: a crash, and a member that is missing after it.
        Mutation::SkipJournal | Mutation::PartsUnlogged => Fixed {
            level: Level::by_name("raid5"),
            ending: Some(Ending::PowerLoss),
            faults: Some(Vec::new()),
            ..Fixed::default()
        },
        // Short runs that end when the device does.
        Mutation::TrustLostJournal => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(false),
            journal_device: Some(true),
            requests: Some(8),
            depth: Some(4),
            ending: Some(Ending::ProcessCrash),
            faults: Some(Vec::new()),
            ..Fixed::default()
        },
        // Copies of which one rots, and the power is lost: durable checksums tell which.
        Mutation::SkipPagesOfDurable => Fixed {
            level: Level::by_name("raid1"),
            members: Some(2),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::PowerLoss),
            faults: Some(Fault::by_name("rot_met").into_iter().collect()),
            ..Fixed::default()
        },
        // Rows that a crash left half written, without a member.
        Mutation::TrustRecovered | Mutation::WholeOverLive => Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            checksums: Some(true),
            ending: Some(Ending::PowerLoss),
            faults: Some(Vec::new()),
            ..Fixed::default()
        },
        Mutation::StaleRowSum => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::Close),
            faults: Some(Vec::new()),
            ..Fixed::default()
        },
        // Short runs that end when the power does.
        Mutation::ReuseJournalWithoutChecksums | Mutation::SkipReplayedChecksums => Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::PowerLoss),
            faults: Some(Vec::new()),
            ..Fixed::default()
        },
        Mutation::OutUnflushed => Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            checksums: Some(true),
            ending: Some(Ending::PowerLoss),
            faults: Some(Fault::by_name("dropout").into_iter().collect()),
            ..Fixed::default()
        },
        Mutation::DropBroken => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            ending: Some(Ending::ProcessCrash),
            faults: Some(Fault::by_name("journal_rot").into_iter().collect()),
            ..Fixed::default()
        },
        Mutation::HedgeInPlace | Mutation::HedgeUnlimited => {
            let faults = ["stall", "slow"].into_iter().filter_map(Fault::by_name);
            Fixed {
                level: Level::by_name("raid5"),
                requests: Some(300),
                faults: Some(faults.collect()),
                ..Fixed::default()
            }
        }
        _ => Fixed::default(),
    };
    Fixed {
        sizes: Some(false),
        ..fixed
    }
}

/// What finds the fault in this run: a checker, or an assertion of the engine.
fn finder(seed: u64, mutation: Mutation, fixed: &Fixed) -> Option<&'static str> {
    let mut options = Options::swarm(seed, fixed);
    options.mutation = mutation;
    match catch_unwind(AssertUnwindSafe(|| run(&options, false))) {
        Ok(outcome) => outcome.failure.map(|failure| failure.checker),
        Err(_) => Some("an assertion"),
    }
}

#[test]
fn every_planted_fault_is_found_by_its_checker() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // Assertions that find a fault are no news.
    let mut passed = 0..0;
    let mut late = Vec::new();
    for &(mutation, checker, seeds_max) in CANARIES {
        let fixed = scenario(mutation);
        let found = (0..seeds_max).find(|&seed| finder(seed, mutation, &fixed) == Some(checker));
        match found {
            Some(seed) => println!("{mutation:?}: found by {checker} after {} seeds", seed + 1),
            None => late.push((mutation, checker, seeds_max)),
        }
        // Without the fault, the same seeds pass.
        if fixed.level.is_some() {
            for seed in 0..found.map_or(0, |seed| seed + 1) {
                assert_eq!(finder(seed, Mutation::None, &fixed), None, "seed {seed}");
            }
            continue;
        }
        let end = passed.end.max(found.map_or(0, |seed| seed + 1));
        for seed in passed.end..end {
            assert_eq!(finder(seed, Mutation::None, &fixed), None, "seed {seed}");
        }
        passed.end = end;
    }
    std::panic::set_hook(hook);
    assert!(late.is_empty(), "not found in time: {late:?}");
}

#[test]
fn every_planted_fault_and_every_checker_has_its_canary() {
    for mutation in MUTATIONS {
        let has = CANARIES.iter().any(|(canary, ..)| canary == mutation);
        assert!(
            has || ENUMERATED.contains(mutation),
            "{mutation:?} has no checker"
        );
    }
    for checker in CHECKERS {
        let has = CANARIES.iter().any(|(_, name, _)| *name == checker.name);
        assert!(has, "nothing shows that {} finds anything", checker.name);
    }
}

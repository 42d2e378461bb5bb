//! Engines with one planted fault: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

use spindles_engine::Mutation;
use spindles_engine::mutation::MUTATIONS;
use spindles_layout::Level;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::disks::Model;
use spindles_sim::faults::Fault;
use spindles_sim::{Ending, Fixed, Options, run};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The fault, the checker meant for it, and the most seeds that it may take.
const CANARIES: &[(Mutation, &str, u64)] = &[
    (Mutation::SkipFlush, "durability", 20),
    (Mutation::SkipFua, "durability", 20),
    (Mutation::SwapMembers, "history", 20),
    (Mutation::DropStripeLock, "redundancy", 100),
    (Mutation::SharedScratch, "buffers", 50),
    (Mutation::RepairUnlocated, "scrub", 400),
    (Mutation::BlindScrub, "scrub", 400),
    (Mutation::SkipInspection, "scrub", 50),
    (Mutation::ScrubUnlocked, "scrub", 1000),
    (Mutation::RepairInCache, "scrub", 400),
    (Mutation::StaleParity, "redundancy", 200),
    (Mutation::SkipFailureRecord, "failure_record", 1000),
    (Mutation::SkipDirtyMark, "clean_mark", 100),
    (Mutation::CloseUnflushed, "redundancy", 20),
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
    (Mutation::SkipReplay, "redundancy", 400),
    (Mutation::ReuseJournalUnflushed, "history", 800),
    (Mutation::TrustLostJournal, "history", 8000),
    (Mutation::SkipPagesOfDurable, "history", 2000),
    (Mutation::TrustRecovered, "history", 4000),
    (Mutation::StaleRowSum, "checksums", 50),
    (Mutation::ReadUnplaced, "history", 300),
    (Mutation::PartsUnlogged, "liveness", 100),
    (Mutation::WholeOverLive, "history", 2000),
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
    (Mutation::KeepReplayed, "availability", 400),
    (Mutation::EntriesEarly, "history", 50),
    (Mutation::SettleUnflushed, "liveness", 200),
    (Mutation::TrustAgreement, "redundancy", 100),
    (Mutation::LinearRowSum, "history", 200),
    (Mutation::AnswerListed, "availability", 50),
    (Mutation::SkipPagesOfFlush, "history", 1000),
    (Mutation::DegradedUnlogged, "liveness", 50),
    (Mutation::ForgetDoubt, "dirty_bits", 50),
    (Mutation::ClearBitRace, "dirty_bits", 100),
    (Mutation::ClearBitUnsettled, "dirty_bits", 1500),
    (Mutation::FilledUnlogged, "liveness", 200),
    (Mutation::TryOnce, "liveness", 50),
    (Mutation::ReplayUnrecorded, "order", 400),
    (Mutation::UnloggedEarly, "order", 100),
    (Mutation::OutUnflushed, "order", 20),
    (Mutation::OutWhileUnlogged, "order", 100),
    (Mutation::ReadUnplacedLog, "history", 1000),
    (Mutation::TrustFailedWrites, "history", 100),
    (Mutation::SettleUnrecorded, "history", 100),
    (Mutation::ForgetBadBlocksEarly, "history", 100),
    (Mutation::ReturnBadBlocks, "history", 100),
    (Mutation::TakeRefused, "liveness", 100),
];

/// Faults that show in few runs are planted in enumerations instead: `tests/enumerate.rs`.
const ENUMERATED: &[Mutation] = &[
    Mutation::SkipRestFlush,
    Mutation::ForgetLost,
    Mutation::FirstWriteUnlogged,
    Mutation::LogUnrecorded,
    Mutation::TrustJournalCache,
    Mutation::PlaceInferred,
    Mutation::FlushDataOnly,
    Mutation::TrustEmptyJournal,
    Mutation::ForgetRotten,
    Mutation::KeepUnlogged,
];

/// Mutations that no seed exposes, with the seeds searched.
const NOT_FOUND: &[(Mutation, &str)] = &[(
    Mutation::JoinUnvoided,
    "25,000 seeds of raid5 and raid6 with dropouts, rebuilds and all other faults: what a device \
     that takes a position held in its log was void in all of them, since the tail is moved when \
     it is full",
)];

/// The first seed to try for rare faults: no seed before it finds them.
fn first_seed(mutation: Mutation) -> u64 {
    match mutation {
        Mutation::UnloggedEarly => 60,
        Mutation::RebuildSkipsWrites => 110,
        Mutation::BlindScrub => 120,
        Mutation::RepairUnlocated => 140,
        Mutation::ReplaceUnflushed => 150,
        Mutation::CloseUnflushed | Mutation::SkipSettle => 180,
        Mutation::ScrubUnlocked | Mutation::SkipJournalFlush => 190,
        Mutation::DropBroken | Mutation::EntriesEarly => 240,
        Mutation::WholeOverLive => 250,
        Mutation::SkipPagesOfFlush => 270,
        Mutation::SettleInCache => 370,
        Mutation::TrustFailedWrites => 440,
        Mutation::FilledUnlogged => 450,
        Mutation::SkipPagesOfDurable => 620,
        Mutation::AnswerListed => 740,
        Mutation::SkipFailureRecord => 810,
        Mutation::SettleUnrecorded => 880,
        Mutation::ForgetBadBlocksEarly => 1830,
        Mutation::ReturnBadBlocks => 3270,
        Mutation::TrustLostJournal => 3490,
        _ => 0,
    }
}

/// Only these faults, so that the planted fault can show.
#[expect(clippy::unnecessary_wraps, reason = "the form of `Fixed::faults`")]
fn faults(names: &[&str]) -> Option<Vec<&'static Fault>> {
    let known = names.iter().filter_map(|name| Fault::by_name(name));
    Some(known.collect())
}

/// Returns the runs in which a fault shows.
fn scenario(mutation: Mutation) -> Fixed {
    let fixed = without_fixed_checksums(mutation)
        .or_else(|| power_loss_with_checksums(mutation))
        .or_else(|| with_checksums(mutation))
        .unwrap_or_default();
    Fixed {
        sizes: Some(false),
        ..fixed
    }
}

/// Returns the runs for faults that need no checksums; `None` for other faults.
fn without_fixed_checksums(mutation: Mutation) -> Option<Fixed> {
    Some(match mutation {
        Mutation::StageUnflushed | Mutation::MarkUnflushed => Fixed {
            level: Level::by_name("raid5"),
            faults: faults(&["grow"]),
            ..Fixed::default()
        },
        Mutation::TakeRefused => Fixed {
            faults: faults(&["two_commands", "replace"]),
            ..Fixed::default()
        },
        // A close comes before the end of a resync.
        Mutation::ClearBitUnsettled => Fixed {
            level: Level::by_name("raid10"),
            requests: Some(8),
            faults: faults(&["replace", "rebuild"]),
            ..Fixed::default()
        },
        Mutation::ClearBitRace => Fixed {
            level: Level::by_name("raid5"),
            faults: faults(&[]),
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
            faults: faults(&[]),
            ..Fixed::default()
        },
        // Short runs that end when the device drops out.
        Mutation::TrustLostJournal => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(false),
            journal_device: Some(true),
            requests: Some(8),
            depth: Some(4),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&[]),
            ..Fixed::default()
        },
        Mutation::HedgeInPlace | Mutation::HedgeUnlimited => Fixed {
            level: Level::by_name("raid5"),
            requests: Some(300),
            faults: faults(&["stall", "slow"]),
            ..Fixed::default()
        },
        // More members are lost than the array survives, and all return.
        Mutation::TrustFailedWrites | Mutation::SettleUnrecorded => Fixed {
            level: Level::by_name("raid10"),
            faults: faults(&["dropout"]),
            beyond: Some(true),
            ..Fixed::default()
        },
        Mutation::ForgetBadBlocksEarly | Mutation::ReturnBadBlocks => Fixed {
            level: Level::by_name("raid4"),
            faults: faults(&["dropout", "latent_sector_error"]),
            beyond: Some(true),
            ..Fixed::default()
        },
        _ => return None,
    })
}

/// Returns the runs for faults that show after power losses of a RAID 5 with checksums; `None` for
/// other faults.
fn power_loss_with_checksums(mutation: Mutation) -> Option<Fixed> {
    let base = Fixed {
        level: Level::by_name("raid5"),
        checksums: Some(true),
        ending: Some(Ending::PowerLoss),
        faults: faults(&[]),
        ..Fixed::default()
    };
    Some(match mutation {
        // Rows that a crash left partly written, with a member missing.
        Mutation::TrustRecovered | Mutation::WholeOverLive => Fixed {
            members: Some(3),
            ..base
        },
        // Short runs that end with a power loss.
        Mutation::ReuseJournalWithoutChecksums | Mutation::SkipReplayedChecksums => Fixed {
            members: Some(3),
            requests: Some(60),
            ..base
        },
        Mutation::ReplayUnrecorded => Fixed {
            members: Some(3),
            faults: faults(&["dropout"]),
            ..base
        },
        // The same after two crashes.
        Mutation::KeepReplayed | Mutation::EntriesEarly => Fixed {
            members: Some(3),
            requests: Some(25),
            ..base
        },
        Mutation::SkipPagesOfFlush => Fixed {
            requests: Some(40),
            ..base
        },
        Mutation::SettleUnflushed => Fixed {
            requests: Some(25),
            ..base
        },
        Mutation::TrustAgreement | Mutation::LinearRowSum | Mutation::AnswerListed => base,
        Mutation::DegradedUnlogged | Mutation::ForgetDoubt => Fixed {
            faults: faults(&["dropout"]),
            ..base
        },
        Mutation::FilledUnlogged => Fixed {
            faults: faults(&["dropout", "rebuild"]),
            ..base
        },
        _ => return None,
    })
}

/// Returns the runs for other faults that need checksums; `None` for other faults.
fn with_checksums(mutation: Mutation) -> Option<Fixed> {
    Some(match mutation {
        Mutation::SkipInspection => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            faults: faults(&["metadata_rot_met"]),
            ..Fixed::default()
        },
        // One copy is corrupted, then power is lost: durable checksums identify the bad copy.
        Mutation::SkipPagesOfDurable => Fixed {
            level: Level::by_name("raid1"),
            members: Some(2),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::PowerLoss),
            faults: faults(&["rot_met"]),
            ..Fixed::default()
        },
        Mutation::StaleRowSum => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::Close),
            faults: faults(&[]),
            ..Fixed::default()
        },
        // With one data chunk every write covers whole rows.
        Mutation::OutUnflushed | Mutation::OutWhileUnlogged => Fixed {
            level: Level::by_name("raid5"),
            members: Some(2),
            checksums: Some(true),
            faults: faults(&["dropout"]),
            ..Fixed::default()
        },
        Mutation::ReadUnplacedLog => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&["no_space"]),
            ..Fixed::default()
        },
        // As above, with slow superblock writes.
        Mutation::UnloggedEarly => Fixed {
            level: Level::by_name("raid5"),
            members: Some(2),
            model: Model::by_name("write-through"),
            checksums: Some(true),
            requests: Some(60),
            depth: Some(4),
            faults: faults(&["dropout", "rebuild"]),
            ..Fixed::default()
        },
        Mutation::DropBroken => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&["journal_rot"]),
            ..Fixed::default()
        },
        // Two parities: what one of them proves, and what the log lacks of a row.
        Mutation::TryOnce => Fixed {
            level: Level::by_name("raid6"),
            checksums: Some(true),
            ending: Some(Ending::PowerLoss),
            faults: faults(&["rot_met"]),
            ..Fixed::default()
        },
        _ => return None,
    })
}

/// Returns what finds the fault in this run: a checker, or an assertion of the engine.
fn finder(seed: u64, mutation: Mutation, fixed: &Fixed) -> Option<&'static str> {
    let mut options = Options::swarm(seed, fixed);
    options.mutation = mutation;
    match catch_unwind(AssertUnwindSafe(|| run(&options, false))) {
        Ok(outcome) => outcome.failure.map(|failure| failure.checker),
        Err(_) => Some("an assertion"),
    }
}

/// Looks for one planted fault; without it, the same seeds must pass. Returns how many seeds it
/// took.
fn find(
    &(mutation, checker, seeds_max): &(Mutation, &'static str, u64),
    passed: &Mutex<BTreeSet<(String, u64)>>,
) -> Result<u64, String> {
    let fixed = scenario(mutation);
    let first = first_seed(mutation);
    let mut seeds = first..first + seeds_max;
    let found = seeds.find(|&seed| finder(seed, mutation, &fixed) == Some(checker));
    let Some(found) = found else {
        return Err(format!("{mutation:?} is not found in {seeds_max} seeds"));
    };
    for seed in first..=found {
        let run = (format!("{fixed:?}"), seed);
        if passed.lock().expect("no thread panicked").insert(run)
            && let Some(failed) = finder(seed, Mutation::None, &fixed)
        {
            return Err(format!("without {mutation:?} seed {seed} fails: {failed}"));
        }
    }
    Ok(found + 1 - first)
}

#[test]
fn every_planted_fault_is_found_by_its_checker() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // Don't print the assertions that find a fault.
    let passed = Mutex::new(BTreeSet::new());
    let wrong = Mutex::new(Vec::new());
    let rest = Mutex::new(CANARIES.iter());
    let look = || {
        while let Some(canary) = { rest.lock().expect("no thread panicked").next() } {
            match find(canary, &passed) {
                Ok(tried) => println!("{:?}: found by {} after {tried} seeds", canary.0, canary.1),
                Err(what) => wrong.lock().expect("no thread panicked").push(what),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(look);
        }
    });
    std::panic::set_hook(hook);
    let wrong = wrong.into_inner().expect("no thread panicked");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_planted_fault_and_every_checker_has_its_canary() {
    for mutation in MUTATIONS {
        let has = CANARIES.iter().any(|(canary, ..)| canary == mutation);
        let missed = NOT_FOUND.iter().any(|(missed, _)| missed == mutation);
        assert!(
            has || ENUMERATED.contains(mutation) || missed,
            "{mutation:?} has no checker"
        );
    }
    for checker in CHECKERS {
        let has = CANARIES.iter().any(|(_, name, _)| *name == checker.name);
        assert!(has, "nothing shows that {} finds anything", checker.name);
    }
}

/// The rules of `docs/design/consistency.md`: the flag with which a model of one row leaves the
/// rule out, if it has one, and the planted fault that breaks it.
///
/// The model's flag `keeplost` has no fault. Without its rule, that blocks written by a replay
/// leave the list of lost blocks, no legal history changes; an engine test covers it instead.
const RULES: &[(&str, &str, Mutation)] = &[
    (
        "norecord",
        "the record of missing members is durable before a replay begins",
        Mutation::ReplayUnrecorded,
    ),
    (
        "novoid",
        "replayed records are void once the array serves",
        Mutation::KeepReplayed,
    ),
    (
        "nolacks",
        "a member that goes out lacks the regions in doubt",
        Mutation::ForgetDoubt,
    ),
    (
        "settlelazy",
        "rows are settled durably before a read or a logged write",
        Mutation::SettleUnflushed,
    ),
    (
        "endrel",
        "records have a part for a device that is being filled",
        Mutation::FilledUnlogged,
    ),
    (
        "endrel",
        "records older than the member of a position are void",
        Mutation::JoinUnvoided,
    ),
    (
        "early",
        "writes stay logged until the member's activity is durable",
        Mutation::UnloggedEarly,
    ),
    (
        "placefirst",
        "a failure is durable before anything is logged or placed without the member",
        Mutation::LogUnrecorded,
    ),
    (
        "pagesearly",
        "a logged write changes checksums after its record is durable",
        Mutation::EntriesEarly,
    ),
    (
        "noflushout",
        "unlogged writes are durable before the record that a member is out",
        Mutation::OutUnflushed,
    ),
    (
        "hold",
        "no unlogged write runs between that flush and the record",
        Mutation::OutWhileUnlogged,
    ),
    (
        "one",
        "a replay tries every choice of blocks to reconstruct",
        Mutation::TryOnce,
    ),
    (
        "agree",
        "parity is compared even if all checksums agree",
        Mutation::TrustAgreement,
    ),
    (
        "norot",
        "a torn record counts if a row sum proves it",
        Mutation::DropBroken,
    ),
    (
        "infer",
        "a proved record is logged whole before it is placed",
        Mutation::PlaceInferred,
    ),
    (
        "nolast",
        "the log's checksum of a block that rotted there is kept",
        Mutation::ForgetRotten,
    ),
    (
        "listack",
        "lost blocks leave the list durably before a write to them is answered",
        Mutation::AnswerListed,
    ),
    (
        "clearuns",
        "the dirty bit of an unsettled region stays",
        Mutation::ClearBitUnsettled,
    ),
    (
        "clearrace",
        "the dirty bit stays if a write came meanwhile",
        Mutation::ClearBitRace,
    ),
    (
        "fuadata",
        "a durable whole row includes its parity",
        Mutation::FlushDataOnly,
    ),
    (
        "order2",
        "rows stay locked until their blocks are in place",
        Mutation::DropStripeLock,
    ),
    (
        "",
        "a row sum proves reconstructed blocks",
        Mutation::TrustRecovered,
    ),
    (
        "",
        "the row sum is not linear in the checksums",
        Mutation::LinearRowSum,
    ),
    (
        "",
        "a whole row over logged rows is logged",
        Mutation::WholeOverLive,
    ),
    (
        "",
        "a flush writes the checksums first",
        Mutation::SkipPagesOfFlush,
    ),
    (
        "",
        "a durable write writes the checksums first",
        Mutation::SkipPagesOfDurable,
    ),
    (
        "",
        "a dirty bit is durable before its region is written",
        Mutation::SkipRegionMark,
    ),
    (
        "",
        "a dirty bit is cleared after all writes of its region are flushed",
        Mutation::ClearBitEarly,
    ),
    (
        "",
        "a whole row without a member is logged",
        Mutation::DegradedUnlogged,
    ),
    (
        "",
        "blocks in place are flushed before log space is used again",
        Mutation::ReuseJournalUnflushed,
    ),
    (
        "",
        "a region is zeroed before its first write",
        Mutation::SkipZeroing,
    ),
    (
        "",
        "a log whose device is missing is not an empty log",
        Mutation::TrustEmptyJournal,
    ),
    (
        "",
        "a block without a logged part is computed from the rest of its row",
        Mutation::KeepUnlogged,
    ),
];

#[test]
fn every_rule_has_a_checker() {
    for (flag, rule, fault) in RULES {
        let has_checker = CANARIES.iter().any(|(canary, ..)| canary == fault);
        let is_explained = NOT_FOUND.iter().any(|(missed, _)| missed == fault);
        let is_covered = has_checker || is_explained || ENUMERATED.contains(fault);
        assert!(is_covered, "{flag}: {rule}: {fault:?} has no checker");
    }
}

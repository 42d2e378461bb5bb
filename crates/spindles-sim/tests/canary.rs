//! Engines with one planted fault: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

use spindles_engine::mutation::{MUTATIONS, Mutation};
use spindles_layout::Level;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::disks::Model;
use spindles_sim::faults::Fault;
use spindles_sim::planted::{
    OUTPUT_FAULTS, OutputFault, Planted,
    Planted::{Engine, Output},
};
use spindles_sim::{Ending, Fixed, Options, run};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The fault, the checker meant for it, and the most seeds that it may take.
const CANARIES: &[(Planted, &str, u64)] = &[
    (Output(OutputFault::SkipFlush), "durability", 20),
    (Output(OutputFault::SkipFua), "durability", 20),
    (Output(OutputFault::SwapMembers), "history", 20),
    (Engine(Mutation::DropStripeLock), "redundancy", 100),
    (Engine(Mutation::SharedScratch), "buffers", 50),
    (Engine(Mutation::RepairUnlocated), "scrub", 400),
    (Engine(Mutation::BlindScrub), "scrub", 400),
    (Engine(Mutation::SkipInspection), "scrub", 50),
    (Engine(Mutation::ScrubUnlocked), "scrub", 1000),
    (Output(OutputFault::RepairInCache), "scrub", 400),
    (Output(OutputFault::StaleParity), "redundancy", 200),
    (Engine(Mutation::SkipFailureRecord), "failure_record", 1000),
    (Engine(Mutation::SkipDirtyMark), "clean_mark", 100),
    (Output(OutputFault::CloseUnflushed), "redundancy", 20),
    (Output(OutputFault::SkipOpeningFlush), "history", 400),
    (Engine(Mutation::SkipSettle), "history", 200),
    (Output(OutputFault::SettleInCache), "history", 2000),
    (Engine(Mutation::NoRecovery), "availability", 300),
    (Engine(Mutation::LostWakeup), "liveness", 20),
    (Output(OutputFault::SkipRegionMark), "dirty_bits", 300),
    (Engine(Mutation::ClearBitEarly), "dirty_bits", 300),
    (Engine(Mutation::ClearBitWhileOut), "dirty_bits", 300),
    (Output(OutputFault::SkipZeroing), "history", 50),
    (Output(OutputFault::RebuildUnflushed), "history", 1500),
    (Output(OutputFault::RebuildSkipsWrites), "redundancy", 600),
    (Engine(Mutation::SkipJournal), "history", 100),
    (Output(OutputFault::SkipJournalFlush), "history", 500),
    (Engine(Mutation::SkipReplay), "redundancy", 400),
    (Output(OutputFault::ReuseJournalUnflushed), "history", 800),
    (Engine(Mutation::TrustLostJournal), "history", 8000),
    (Engine(Mutation::SkipPagesOfDurable), "history", 2000),
    (Engine(Mutation::TrustRecovered), "history", 4000),
    (Engine(Mutation::StaleRowSum), "checksums", 50),
    (Engine(Mutation::ReadUnplaced), "history", 300),
    (Engine(Mutation::PartsUnlogged), "liveness", 100),
    (Engine(Mutation::WholeOverLive), "history", 2000),
    (Engine(Mutation::DropBroken), "history", 2000),
    (Engine(Mutation::SkipVerify), "history", 400),
    (
        Engine(Mutation::ReuseJournalWithoutChecksums),
        "liveness",
        100,
    ),
    (Engine(Mutation::SkipReplayedChecksums), "liveness", 50),
    (Output(OutputFault::ReplaceSkipsWrites), "redundancy", 300),
    (Output(OutputFault::ReplaceUnflushed), "history", 800),
    (Output(OutputFault::StageUnflushed), "history", 300),
    (Output(OutputFault::MarkUnflushed), "history", 800),
    (Engine(Mutation::HedgeInPlace), "buffers", 100),
    (Engine(Mutation::HedgeUnlimited), "hedges", 100),
    (Engine(Mutation::KeepReplayed), "availability", 400),
    (Engine(Mutation::EntriesEarly), "history", 50),
    (Output(OutputFault::SettleUnflushed), "liveness", 200),
    (Engine(Mutation::TrustAgreement), "redundancy", 100),
    (Engine(Mutation::LinearRowSum), "history", 200),
    (Output(OutputFault::ForgetBadBlocks), "availability", 50),
    (Engine(Mutation::SkipPagesOfFlush), "history", 1000),
    (Engine(Mutation::DegradedUnlogged), "liveness", 50),
    (Engine(Mutation::ForgetDoubt), "dirty_bits", 50),
    (Engine(Mutation::ClearBitRace), "dirty_bits", 100),
    (Engine(Mutation::ClearBitUnsettled), "dirty_bits", 1500),
    (Engine(Mutation::FilledUnlogged), "liveness", 200),
    (Engine(Mutation::TryOnce), "liveness", 50),
    (Engine(Mutation::ReplayUnrecorded), "order", 400),
    (Engine(Mutation::UnloggedEarly), "order", 100),
    (Output(OutputFault::OutUnflushed), "order", 20),
    (Engine(Mutation::OutWhileUnlogged), "order", 100),
    (Engine(Mutation::ReadUnplacedLog), "history", 1000),
    (Engine(Mutation::TrustFailedWrites), "history", 100),
    (Engine(Mutation::SettleUnrecorded), "history", 100),
    (Engine(Mutation::ForgetBadBlocksEarly), "history", 100),
    (Engine(Mutation::ReturnBadBlocks), "history", 100),
    (Engine(Mutation::TakeRefused), "liveness", 100),
];

/// Faults that show in few runs are planted in enumerations instead: `tests/enumerate.rs`.
const ENUMERATED: &[Planted] = &[
    Output(OutputFault::SkipRestFlush),
    Engine(Mutation::FirstWriteUnlogged),
    Engine(Mutation::LogUnrecorded),
    Output(OutputFault::TrustJournalCache),
    Engine(Mutation::PlaceInferred),
    Output(OutputFault::FlushDataOnly),
    Engine(Mutation::TrustEmptyJournal),
    Engine(Mutation::ForgetRotten),
    Engine(Mutation::KeepUnlogged),
];

/// Mutations that no seed exposes, with the seeds searched.
const NOT_FOUND: &[(Planted, &str)] = &[(
    Engine(Mutation::JoinUnvoided),
    "25,000 seeds of raid5 and raid6 with dropouts, rebuilds and all other faults: what a device \
     that takes a position held in its log was void in all of them, since the tail is moved when \
     it is full",
)];

/// The first seed to try for rare faults: no seed before it finds them.
fn first_seed(fault: Planted) -> u64 {
    match fault {
        Engine(Mutation::UnloggedEarly) => 60,
        Output(OutputFault::RebuildSkipsWrites) => 110,
        Engine(Mutation::BlindScrub) => 120,
        Engine(Mutation::RepairUnlocated) => 140,
        Output(OutputFault::ReplaceUnflushed) => 150,
        Output(OutputFault::CloseUnflushed) | Engine(Mutation::SkipSettle) => 180,
        Engine(Mutation::ScrubUnlocked) | Output(OutputFault::SkipJournalFlush) => 190,
        Engine(Mutation::DropBroken) | Engine(Mutation::EntriesEarly) => 240,
        Engine(Mutation::WholeOverLive) => 250,
        Engine(Mutation::SkipPagesOfFlush) => 270,
        Output(OutputFault::SettleInCache) => 370,
        Engine(Mutation::TrustFailedWrites) => 440,
        Engine(Mutation::FilledUnlogged) => 450,
        Engine(Mutation::SkipPagesOfDurable) => 620,
        Output(OutputFault::ForgetBadBlocks) => 740,
        Engine(Mutation::SkipFailureRecord) => 810,
        Engine(Mutation::SettleUnrecorded) => 880,
        Engine(Mutation::ForgetBadBlocksEarly) => 1830,
        Engine(Mutation::ReturnBadBlocks) => 3270,
        Engine(Mutation::TrustLostJournal) => 3490,
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
fn scenario(fault: Planted) -> Fixed {
    let fixed = without_fixed_checksums(fault)
        .or_else(|| power_loss_with_checksums(fault))
        .or_else(|| with_checksums(fault))
        .unwrap_or_default();
    Fixed {
        sizes: Some(false),
        ..fixed
    }
}

/// Returns the runs for faults that need no checksums; `None` for other faults.
fn without_fixed_checksums(fault: Planted) -> Option<Fixed> {
    Some(match fault {
        Output(OutputFault::StageUnflushed) | Output(OutputFault::MarkUnflushed) => Fixed {
            level: Level::by_name("raid5"),
            faults: faults(&["grow"]),
            ..Fixed::default()
        },
        Engine(Mutation::TakeRefused) => Fixed {
            faults: faults(&["two_commands", "replace"]),
            ..Fixed::default()
        },
        // A close comes before the end of a resync.
        Engine(Mutation::ClearBitUnsettled) => Fixed {
            level: Level::by_name("raid10"),
            requests: Some(8),
            faults: faults(&["replace", "rebuild"]),
            ..Fixed::default()
        },
        Engine(Mutation::ClearBitRace) => Fixed {
            level: Level::by_name("raid5"),
            faults: faults(&[]),
            ..Fixed::default()
        },
        Engine(Mutation::ReadUnplaced) => Fixed {
            level: Level::by_name("raid6"),
            ..Fixed::default()
        },
        // The write hole: a crash, and a member that is missing after it.
        Engine(Mutation::SkipJournal) | Engine(Mutation::PartsUnlogged) => Fixed {
            level: Level::by_name("raid5"),
            ending: Some(Ending::PowerLoss),
            faults: faults(&[]),
            ..Fixed::default()
        },
        // Short runs that end when the device drops out.
        Engine(Mutation::TrustLostJournal) => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(false),
            journal_device: Some(true),
            requests: Some(8),
            depth: Some(4),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&[]),
            ..Fixed::default()
        },
        Engine(Mutation::HedgeInPlace) | Engine(Mutation::HedgeUnlimited) => Fixed {
            level: Level::by_name("raid5"),
            requests: Some(300),
            faults: faults(&["stall", "slow"]),
            ..Fixed::default()
        },
        // More members are lost than the array survives, and all return.
        Engine(Mutation::TrustFailedWrites) | Engine(Mutation::SettleUnrecorded) => Fixed {
            level: Level::by_name("raid10"),
            faults: faults(&["dropout"]),
            beyond: Some(true),
            ..Fixed::default()
        },
        Engine(Mutation::ForgetBadBlocksEarly) | Engine(Mutation::ReturnBadBlocks) => Fixed {
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
fn power_loss_with_checksums(fault: Planted) -> Option<Fixed> {
    let base = Fixed {
        level: Level::by_name("raid5"),
        checksums: Some(true),
        ending: Some(Ending::PowerLoss),
        faults: faults(&[]),
        ..Fixed::default()
    };
    Some(match fault {
        // Rows that a crash left partly written, with a member missing.
        Engine(Mutation::TrustRecovered) | Engine(Mutation::WholeOverLive) => Fixed {
            members: Some(3),
            ..base
        },
        // Short runs that end with a power loss.
        Engine(Mutation::ReuseJournalWithoutChecksums)
        | Engine(Mutation::SkipReplayedChecksums) => Fixed {
            members: Some(3),
            requests: Some(60),
            ..base
        },
        Engine(Mutation::ReplayUnrecorded) => Fixed {
            members: Some(3),
            faults: faults(&["dropout"]),
            ..base
        },
        // The same after two crashes.
        Engine(Mutation::KeepReplayed) | Engine(Mutation::EntriesEarly) => Fixed {
            members: Some(3),
            requests: Some(25),
            ..base
        },
        Engine(Mutation::SkipPagesOfFlush) => Fixed {
            requests: Some(40),
            ..base
        },
        Output(OutputFault::SettleUnflushed) => Fixed {
            requests: Some(25),
            ..base
        },
        Engine(Mutation::TrustAgreement)
        | Engine(Mutation::LinearRowSum)
        | Output(OutputFault::ForgetBadBlocks) => base,
        Engine(Mutation::DegradedUnlogged) | Engine(Mutation::ForgetDoubt) => Fixed {
            faults: faults(&["dropout"]),
            ..base
        },
        Engine(Mutation::FilledUnlogged) => Fixed {
            faults: faults(&["dropout", "rebuild"]),
            ..base
        },
        _ => return None,
    })
}

/// Returns the runs for other faults that need checksums; `None` for other faults.
fn with_checksums(fault: Planted) -> Option<Fixed> {
    Some(match fault {
        Engine(Mutation::SkipInspection) => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            faults: faults(&["metadata_rot_met"]),
            ..Fixed::default()
        },
        // One copy is corrupted, then power is lost: durable checksums identify the bad copy.
        Engine(Mutation::SkipPagesOfDurable) => Fixed {
            level: Level::by_name("raid1"),
            members: Some(2),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::PowerLoss),
            faults: faults(&["rot_met"]),
            ..Fixed::default()
        },
        Engine(Mutation::StaleRowSum) => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            requests: Some(60),
            ending: Some(Ending::Close),
            faults: faults(&[]),
            ..Fixed::default()
        },
        // With one data chunk every write covers whole rows.
        Output(OutputFault::OutUnflushed) | Engine(Mutation::OutWhileUnlogged) => Fixed {
            level: Level::by_name("raid5"),
            members: Some(2),
            checksums: Some(true),
            faults: faults(&["dropout"]),
            ..Fixed::default()
        },
        Engine(Mutation::ReadUnplacedLog) => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&["no_space"]),
            ..Fixed::default()
        },
        // As above, with slow superblock writes.
        Engine(Mutation::UnloggedEarly) => Fixed {
            level: Level::by_name("raid5"),
            members: Some(2),
            model: Model::by_name("write-through"),
            checksums: Some(true),
            requests: Some(60),
            depth: Some(4),
            faults: faults(&["dropout", "rebuild"]),
            ..Fixed::default()
        },
        Engine(Mutation::DropBroken) => Fixed {
            level: Level::by_name("raid5"),
            checksums: Some(true),
            ending: Some(Ending::ProcessCrash),
            faults: faults(&["journal_rot"]),
            ..Fixed::default()
        },
        // Two parities: what one of them proves, and what the log lacks of a row.
        Engine(Mutation::TryOnce) => Fixed {
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
fn finder(seed: u64, fault: Planted, fixed: &Fixed) -> Option<&'static str> {
    let mut options = Options::swarm(seed, fixed);
    options.planted = fault;
    match catch_unwind(AssertUnwindSafe(|| run(&options, false))) {
        Ok(outcome) => outcome.failure.map(|failure| failure.checker),
        Err(_) => Some("an assertion"),
    }
}

/// Looks for one planted fault; without it, the same seeds must pass. Returns how many seeds it
/// took.
fn find(
    &(fault, checker, seeds_max): &(Planted, &'static str, u64),
    passed: &Mutex<BTreeSet<(String, u64)>>,
) -> Result<u64, String> {
    let fixed = scenario(fault);
    let first = first_seed(fault);
    let mut seeds = first..first + seeds_max;
    let found = seeds.find(|&seed| finder(seed, fault, &fixed) == Some(checker));
    let Some(found) = found else {
        return Err(format!("{fault:?} is not found in {seeds_max} seeds"));
    };
    for seed in first..=found {
        let run = (format!("{fixed:?}"), seed);
        if passed.lock().expect("no thread panicked").insert(run)
            && let Some(failed) = finder(seed, Planted::None, &fixed)
        {
            return Err(format!("without {fault:?} seed {seed} fails: {failed}"));
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
    let engine = MUTATIONS.iter().copied().map(Engine);
    for fault in engine.chain(OUTPUT_FAULTS.iter().copied().map(Output)) {
        let has = CANARIES.iter().any(|(canary, ..)| *canary == fault);
        let missed = NOT_FOUND.iter().any(|(missed, _)| *missed == fault);
        assert!(
            has || ENUMERATED.contains(&fault) || missed,
            "{fault:?} has no checker"
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
const RULES: &[(&str, &str, Planted)] = &[
    (
        "norecord",
        "the record of missing members is durable before a replay begins",
        Engine(Mutation::ReplayUnrecorded),
    ),
    (
        "novoid",
        "replayed records are void once the array serves",
        Engine(Mutation::KeepReplayed),
    ),
    (
        "nolacks",
        "a member that goes out lacks the regions in doubt",
        Engine(Mutation::ForgetDoubt),
    ),
    (
        "settlelazy",
        "rows are settled durably before a read or a logged write",
        Output(OutputFault::SettleUnflushed),
    ),
    (
        "endrel",
        "records have a part for a device that is being filled",
        Engine(Mutation::FilledUnlogged),
    ),
    (
        "endrel",
        "records older than the member of a position are void",
        Engine(Mutation::JoinUnvoided),
    ),
    (
        "early",
        "writes stay logged until the member's activity is durable",
        Engine(Mutation::UnloggedEarly),
    ),
    (
        "placefirst",
        "a failure is durable before anything is logged or placed without the member",
        Engine(Mutation::LogUnrecorded),
    ),
    (
        "pagesearly",
        "a logged write changes checksums after its record is durable",
        Engine(Mutation::EntriesEarly),
    ),
    (
        "noflushout",
        "unlogged writes are durable before the record that a member is out",
        Output(OutputFault::OutUnflushed),
    ),
    (
        "hold",
        "no unlogged write runs between that flush and the record",
        Engine(Mutation::OutWhileUnlogged),
    ),
    (
        "one",
        "a replay tries every choice of blocks to reconstruct",
        Engine(Mutation::TryOnce),
    ),
    (
        "agree",
        "parity is compared even if all checksums agree",
        Engine(Mutation::TrustAgreement),
    ),
    (
        "norot",
        "a torn record counts if a row sum proves it",
        Engine(Mutation::DropBroken),
    ),
    (
        "infer",
        "a proved record is logged whole before it is placed",
        Engine(Mutation::PlaceInferred),
    ),
    (
        "nolast",
        "the log's checksum of a block that rotted there is kept",
        Engine(Mutation::ForgetRotten),
    ),
    (
        "listack",
        "lost blocks leave the list durably before a write to them is answered",
        Output(OutputFault::ForgetBadBlocks),
    ),
    (
        "clearuns",
        "the dirty bit of an unsettled region stays",
        Engine(Mutation::ClearBitUnsettled),
    ),
    (
        "clearrace",
        "the dirty bit stays if a write came meanwhile",
        Engine(Mutation::ClearBitRace),
    ),
    (
        "fuadata",
        "a durable whole row includes its parity",
        Output(OutputFault::FlushDataOnly),
    ),
    (
        "order2",
        "rows stay locked until their blocks are in place",
        Engine(Mutation::DropStripeLock),
    ),
    (
        "",
        "a row sum proves reconstructed blocks",
        Engine(Mutation::TrustRecovered),
    ),
    (
        "",
        "the row sum is not linear in the checksums",
        Engine(Mutation::LinearRowSum),
    ),
    (
        "",
        "a whole row over logged rows is logged",
        Engine(Mutation::WholeOverLive),
    ),
    (
        "",
        "a flush writes the checksums first",
        Engine(Mutation::SkipPagesOfFlush),
    ),
    (
        "",
        "a durable write writes the checksums first",
        Engine(Mutation::SkipPagesOfDurable),
    ),
    (
        "",
        "a dirty bit is durable before its region is written",
        Output(OutputFault::SkipRegionMark),
    ),
    (
        "",
        "a dirty bit is cleared after all writes of its region are flushed",
        Engine(Mutation::ClearBitEarly),
    ),
    (
        "",
        "a whole row without a member is logged",
        Engine(Mutation::DegradedUnlogged),
    ),
    (
        "",
        "blocks in place are flushed before log space is used again",
        Output(OutputFault::ReuseJournalUnflushed),
    ),
    (
        "",
        "a region is zeroed before its first write",
        Output(OutputFault::SkipZeroing),
    ),
    (
        "",
        "a log whose device is missing is not an empty log",
        Engine(Mutation::TrustEmptyJournal),
    ),
    (
        "",
        "a block without a logged part is computed from the rest of its row",
        Engine(Mutation::KeepUnlogged),
    ),
];

#[test]
fn every_rule_has_a_checker() {
    for (flag, rule, fault) in RULES {
        let has_checker = CANARIES.iter().any(|(canary, ..)| canary == fault);
        let is_explained = NOT_FOUND.iter().any(|(missed, _)| missed == fault);
        let is_covered = has_checker || is_explained || ENUMERATED.contains(&fault);
        assert!(is_covered, "{flag}: {rule}: {fault:?} has no checker");
    }
}

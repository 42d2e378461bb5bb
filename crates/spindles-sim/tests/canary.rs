//! Engines with one planted fault: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

#![cfg(feature = "canary")]

use spindles_engine::Mutation;
use spindles_engine::mutation::MUTATIONS;
use spindles_layout::Level;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::disks::Model;
use spindles_sim::faults::Fault;
use spindles_sim::{Ending, Fixed, Options, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
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
        if passed.lock().expect("nobody panicked").insert(run)
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
        while let Some(canary) = { rest.lock().expect("nobody panicked").next() } {
            match find(canary, &passed) {
                Ok(tried) => println!("{:?}: found by {} after {tried} seeds", canary.0, canary.1),
                Err(what) => wrong.lock().expect("nobody panicked").push(what),
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
    let wrong = wrong.into_inner().expect("nobody panicked");
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

/// Returns what finds a planted fault, in the words of the tables of `docs/testing.md`.
fn finds(mutation: Mutation) -> String {
    let checker = CANARIES.iter().find(|(canary, ..)| *canary == mutation);
    match checker {
        Some((_, checker, _)) => format!("`{checker}`"),
        None if ENUMERATED.contains(&mutation) => "enumeration".to_owned(),
        None if NOT_FOUND.iter().any(|(missed, _)| *missed == mutation) => "nothing".to_owned(),
        None => panic!("{mutation:?} has no checker"),
    }
}

/// Returns what is wrong with each planted fault: the documentation of its variant.
fn what_is_wrong() -> BTreeMap<&'static str, String> {
    let source = include_str!("../../spindles-engine/src/mutation.rs");
    let (_, variants) = source.split_once("pub enum Mutation {").expect("it begins");
    let (variants, _) = variants.split_once("\n}\n").expect("it ends");
    let mut found = BTreeMap::new();
    let mut doc = Vec::new();
    for line in variants.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if let Some(variant) = line.strip_suffix(',') {
            let text = std::mem::take(&mut doc).join(" ");
            found.insert(variant, text.trim_end_matches('.').to_owned());
        }
    }
    found
}

/// Returns the table of planted faults.
fn table() -> String {
    let wrong = what_is_wrong();
    let mut text = "| planted fault | what is wrong | found by |\n|---|---|---|\n".to_owned();
    for &mutation in MUTATIONS {
        let name = format!("{mutation:?}");
        let finds = finds(mutation);
        writeln!(text, "| `{name}` | {} | {finds} |", wrong[&*name])
            .expect("strings take everything");
    }
    text
}

#[test]
fn docs_match_the_table_of_planted_faults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/testing.md");
    let on_disk = std::fs::read_to_string(path).expect("docs/testing.md");
    let how =
        "SPINDLES_UPDATE=1 cargo test -p spindles-sim --features canary --test simulation docs";
    let begin = format!("<!-- planted faults: {how} -->\n");
    let end = "<!-- planted faults end -->";
    let (before, rest) = on_disk.split_once(&begin).expect("the table begins");
    let (_, after) = rest.split_once(end).expect("the table ends");
    let text = format!("{before}{begin}{}{end}{after}", table());
    if std::env::var_os("SPINDLES_UPDATE").is_some() {
        std::fs::write(path, &text).expect("docs/testing.md is written");
        return;
    }
    assert!(text == on_disk, "docs/testing.md is stale: {how}");
}

/// The flags of the models, each of which leaves out one rule.
const FLAGS: &[&str] = &[
    "norecord",
    "novoid",
    "nolacks",
    "settlelazy",
    "endrel",
    "early",
    "placefirst",
    "pagesearly",
    "noflushout",
    "hold",
    "one",
    "agree",
    "norot",
    "infer",
    "nolast",
    "keeplost",
    "listack",
    "clearuns",
    "clearrace",
    "fuadata",
    "order2",
];

#[test]
fn every_rule_has_its_planted_fault() {
    let doc = include_str!("../../../docs/testing.md");
    let after = doc
        .split_once("**Rules left out.**")
        .expect("it is there")
        .1;
    let lines = after.lines().skip_while(|line| !line.starts_with('|'));
    let table = lines.skip(2).take_while(|line| line.starts_with('|'));
    let mut flags = BTreeSet::new();
    for line in table {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[flag, _, fault, found_by] = &cells[..] else {
            panic!("four columns: {line}");
        };
        flags.insert(flag.trim_matches('`'));
        if fault.starts_with("none: ") {
            continue;
        }
        let named = |mutation: &&Mutation| format!("`{mutation:?}`") == fault;
        let mutation = *MUTATIONS.iter().find(named).expect(line);
        assert_eq!(found_by, finds(mutation), "{line}");
    }
    for flag in FLAGS {
        assert!(flags.contains(flag), "{flag} is not in the table");
    }
    assert_eq!(flags.len(), FLAGS.len() + 1, "{flags:?}");
}

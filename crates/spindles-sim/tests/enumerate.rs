//! Small arrays, enumerated: see `docs/design/testing.md`.

#![allow(clippy::print_stdout, reason = "the figures")]

use spindles_engine::{Mutation, POLICIES, WriteHole};
use spindles_layout::{LEVELS, Redundancy};
use spindles_sim::enumerate::{Bounds, Scenario, Summary, explore, scenarios};
use spindles_sim::planted::{
    OutputFault, Planted,
    Planted::{Engine, Output},
};
use std::sync::Mutex;

/// Explores the scenario of that name. Returns true if there is a finding.
fn finds(planted: Planted, name: &str, bounds: Bounds) -> bool {
    let bounds = Bounds { planted, ..bounds };
    let summary = explore(&named(name, &bounds), &bounds);
    let finding = summary.findings.first();
    println!("{planted:?}: {} states: {finding:?}", summary.states);
    finding.is_some()
}

fn explore_all(scenario: &Scenario, bounds: &Bounds) -> Summary {
    let summary = explore(scenario, bounds);
    if let Some(finding) = summary.findings.first() {
        panic!("{finding}");
    }
    summary
}

/// Explores scenarios, each within its bounds, on all processors.
fn enumerate(all: Vec<(Scenario, Bounds)>) -> Summary {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rest = Mutex::new(all.into_iter());
    let total = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = rest.lock().expect("no thread panicked").next();
                    let Some((scenario, bounds)) = next else {
                        break;
                    };
                    let summary = explore_all(&scenario, &bounds);
                    total.lock().expect("no thread panicked").add(summary);
                }
            });
        }
    });
    total.into_inner().expect("no thread panicked")
}

/// The smallest array with a rotating parity.
const ARRAY: &str = "raid5:left-symmetric(3) journal regions checksums";

/// The scenarios that the test command explores beyond `Bounds::SHORT`, each with its number of
/// consecutive crashes.
const BEYOND: &str = "
1 raid5:left-symmetric(3) journal: write 0+4, close
1 raid5:left-symmetric(3) journal without {0}: write 0+4, write durably 1+2
2 raid5:left-symmetric(3) journal: write 0+1, member 0 drops out
2 raid5:left-symmetric(3) journal regions device: write 0+1, flush
2 raid5:left-symmetric(3) journal regions device: write 0+1, member 0 drops out
2 raid5:left-symmetric(3) journal regions device: write durably 0+1, write durably 0+1
2 raid1(2) journal regions checksums: write 0+1, member 0 drops out
2 raid1(2) journal regions checksums: write 0+1, write 0+1
2 raid1(2) journal regions checksums: discard 0+2, close
2 raid1(3) journal regions checksums: write 0+1, member 0 drops out
2 raid1(3) journal regions checksums: write 0+1, close
2 raid1(2) journal regions checksums: write 0+1, flush
2 raid1(2) journal regions checksums: write 0+3, write durably 0+1
2 raid10:near 2(3) journal regions checksums: write 0+1, member 0 drops out
2 raid5:left-symmetric(3) journal regions checksums: write 0+1, member 0 drops out
2 raid5:left-symmetric(3) journal regions checksums: write 0+1, member 1 drops out
2 raid5:left-symmetric(3) journal regions checksums: write 0+4, close
1 raid5:left-symmetric(3) journal regions checksums: discard 0+2, close
1 raid6:left-symmetric(4) journal regions checksums: write 0+1, close
2 raid5:left-symmetric(3) journal regions checksums device: write 0+1, close
2 raid5:left-symmetric(3) journal regions checksums device: write durably 0+1, flush
2 raid5:left-symmetric(3) journal regions checksums device: write durably 0+1, write durably 0+1
2 raid5:left-symmetric(3) journal regions checksums device: write 0+1, member 0 drops out
1 raid5:left-symmetric(3) journal regions checksums device: write 0+4, close
1 raid5:left-symmetric(3) journal regions checksums new: write 0+1, member 0 drops out
1 raid5:left-symmetric(3) journal regions checksums device new: write 0+1, close
1 raid5:left-symmetric(3) journal regions checksums device new: write durably 0+1, flush
";

/// The scenarios that it explores on arrays with one member more than the smallest of their level.
/// Each with its number of consecutive crashes. `Bounds::SHORT` already has arrays of two copies on
/// three members.
const LARGER: &str = "
2 raid4(4) resync regions: write 0+1, flush
2 raid5:left-symmetric(4) resync without {0}: member 0 is rebuilt, write 0+1
2 raid5:left-symmetric(4) resync without {0}: member 0 is rebuilt, discard 0+2
2 raid5:left-symmetric(4) resync regions: write 0+1, write 0+1
2 raid5:left-symmetric(4) journal regions checksums: write 0+1, close
1 raid6:left-symmetric(5) resync: write 0+1, flush
1 raid6:left-symmetric(5) journal regions checksums: write 0+1, flush
2 raid10:near 2(4) journal regions checksums: write 0+1, close
";

/// Arrays with a stage, which takes at least one of two requests. The number of consecutive crashes
/// comes first.
const STAGED: &str = "
2 raid5:left-symmetric(3) journal regions checksums staged: write 0+1, flush
2 raid5:left-symmetric(3) journal regions checksums staged: write durably 0+1, write 0+1
2 raid5:left-symmetric(3) journal regions checksums staged: write durably 1+2, write 0+1
2 raid5:left-symmetric(3) journal regions checksums staged: write 0+1, write 0+4
2 raid5:left-symmetric(3) journal regions checksums staged: write 0+4, write durably 0+1
2 raid5:left-symmetric(3) journal regions checksums staged: write 0+1, discard 0+2
2 raid5:left-symmetric(3) journal regions checksums staged: write durably 0+1, zero durably 1+3
2 raid5:left-symmetric(3) journal regions checksums staged: write durably 1+2, close
2 raid5:left-symmetric(3) journal regions checksums staged: write 0+1, member 0 drops out
2 raid5:left-symmetric(3) journal regions checksums staged: write durably 0+1, member 1 drops out
2 raid5:left-symmetric(3) journal regions checksums staged without {0}: write 0+1, write durably 1+2
2 raid5:left-symmetric(3) journal regions checksums staged without {0}: \
   member 0 is rebuilt, write 0+1
2 raid5:left-symmetric(3) journal regions checksums staged without {0}: \
   write 0+1, member 0 is rebuilt
2 raid6:left-symmetric(4) journal regions checksums staged: write 0+1, flush
2 raid6:left-symmetric(4) journal regions checksums staged: write durably 0+1, write 0+1
2 raid6:left-symmetric(4) journal regions checksums staged: write 0+1, member 0 drops out
2 raid6:left-symmetric(4) journal regions checksums staged: write durably 1+2, close
";

/// The same with every set of three missing members, of which it explores some states.
const LARGEST: &str = "1 raid7(6) resync: write 0+1, flush";

/// Returns the scenarios of a table, within bounds with their number of crashes.
fn rows(table: &str, bounds: Bounds) -> Vec<(Scenario, Bounds)> {
    let row = |row: &str| {
        let (crashes, name) = row.split_once(' ').expect("a number and a name");
        let bounds = Bounds {
            crashes: crashes.parse().expect("a number"),
            ..bounds
        };
        (named(name, &bounds), bounds)
    };
    table.trim().lines().map(row).collect()
}

/// Returns the scenario of that name.
fn named(name: &str, bounds: &Bounds) -> Scenario {
    let bounds = Bounds {
        member_writes_max: u32::MAX,
        ..*bounds
    };
    let mut all = scenarios(&bounds).into_iter();
    let found = all.find(|scenario| scenario.to_string() == name);
    found.unwrap_or_else(|| panic!("there is no scenario {name}"))
}

/// A third of all scenarios within the bounds, and of these beyond them:
///
/// - Whole stripes, of which the journal holds checksums only: alone, and on an array that is
///   already degraded, with a small durable write to the same rows. With members missing after the
///   crash, some blocks answer errors.
/// - An array that logs its writes and is being rebuilt.
/// - An array with a journal device, which is lost too.
/// - With checksums: members that drop out in the middle of a write, copies and rows that are
///   written twice, discards, and two parities.
/// - A little of each level with one member more.
///
/// `SPINDLES_ENUMERATION=all` takes the other thirds too.
#[test]
fn small_arrays_keep_all_promises() {
    let short = Bounds {
        later_crash_share: 48,
        ..Bounds::SHORT
    };
    let mut all = rows(BEYOND, short);
    let larger = Bounds {
        all_arrays: true,
        ..short
    };
    all.extend(rows(LARGER, larger));
    let largest = Bounds {
        states_max: 2_000,
        ..larger
    };
    all.extend(rows(LARGEST, largest));
    // Some new arrays are named above; the fleet takes all of them.
    let is_new = |scenario: &Scenario| scenario.to_string().contains(" new");
    let within = scenarios(&short).into_iter();
    let within = within.filter(|scenario| !is_new(scenario) && !is_staged(scenario));
    all.extend(within.map(|scenario| (scenario, short)));
    let part = Share::wanted();
    let taken = all.into_iter().enumerate();
    let taken = taken.filter(|(index, _)| part.has(*index));
    let total = enumerate(taken.map(|(_, scenario)| scenario).collect());
    println!("FIGURES enumeration, {part}: {total}");
    let answered = total.errors_looked < total.looked;
    assert!(total.looked > 100_000 && answered, "{total}");
    assert!(total.states >= 500_000, "{total}");
    let mut came = vec![total.old, total.new];
    if matches!(part, Share::All) {
        came.extend([total.errors_unlogged, total.refused]);
    }
    assert!(came.iter().all(|outcome| *outcome > 0), "{total}");
}

fn is_staged(scenario: &Scenario) -> bool {
    scenario.to_string().contains(" staged")
}

/// Arrays with a stage of a few blocks: a crash at each moment, and a second one. Without a fault
/// beyond the crash no staged block may be in error.
///
/// `SPINDLES_ENUMERATION=all` takes all states, `SPINDLES_SCENARIO` those with this text.
#[test]
fn small_arrays_with_a_stage_keep_all_promises() {
    let states_max = match Share::wanted() {
        Share::All => u64::MAX,
        Share::Third(_) => 800,
    };
    let bounds = Bounds {
        states_max,
        later_crash_share: 48,
        ..Bounds::SHORT
    };
    let only = std::env::var("SPINDLES_SCENARIO").unwrap_or_default();
    let mut all = rows(STAGED, bounds);
    all.retain(|(scenario, _)| scenario.to_string().contains(&only));
    let total = enumerate(all);
    println!("FIGURES enumeration of the stage: {total}");
    assert!(total.old > 0 && total.new > 0, "{total}");
}

/// Scenarios of a run: a third, which changes daily, or all.
enum Share {
    Third(u64),
    All,
}

impl Share {
    /// Reads `SPINDLES_ENUMERATION`, which is `0`, `1`, `2` or `all`; otherwise takes the third of
    /// the day.
    fn wanted() -> Self {
        match std::env::var("SPINDLES_ENUMERATION").as_deref() {
            Ok("all") => Self::All,
            Ok(third) => Self::Third(third.parse().expect("0, 1, 2 or all")),
            Err(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                let days = now.expect("a clock that is set").as_secs() / (24 * 60 * 60);
                Self::Third(days % 3)
            }
        }
    }

    fn has(&self, index: usize) -> bool {
        match self {
            // Neighbouring scenarios are alike. The product mixes them, so that every third
            // contains every kind.
            Self::Third(third) => {
                let index = u64::try_from(index).expect("64 bits");
                (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 3 == *third
            }
            Self::All => true,
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Third(third) => write!(f, "SPINDLES_ENUMERATION={third}"),
            Self::All => f.write_str("SPINDLES_ENUMERATION=all"),
        }
    }
}

/// The scenarios explored with one corrupt block at a time: of data, parity, checksums or the log.
const WITH_ROT: &[&str] = &[
    "raid1(2) journal regions checksums: write 0+1, flush",
    "raid1(2) journal regions checksums: write 0+3, write durably 0+1",
    "raid10:near 2(3) journal regions checksums: write 0+1, close",
    "raid5:left-symmetric(3) journal regions checksums: write 0+1, flush",
    "raid5:left-symmetric(3) journal regions checksums: write 0+4, close",
    "raid6:left-symmetric(4) journal regions checksums: write 0+1, close",
    "raid5:left-symmetric(3) journal regions checksums new: write 0+1, close",
];

const ROT: Bounds = Bounds {
    crashes: 1,
    rot_share: 32,
    ..Bounds::SHORT
};

/// Corruption and a crash: no wrong bytes and no errors, except in unfinished writes (the named
/// gaps).
#[test]
fn one_corrupt_block_is_survived_outside_the_known_gaps() {
    let mut total = Summary::default();
    for name in WITH_ROT {
        let summary = explore_all(&named(name, &ROT), &ROT);
        let is_logged = !name.starts_with("raid1") && name.contains("write 0+1");
        assert!(!is_logged || summary.gaps == 0, "{name}: {summary}");
        total.add(summary);
    }
    println!("FIGURES enumeration with rot: {total}");
    assert!(total.rotten >= 15_000 && total.gaps > 0, "{total}");
}

/// An engine that does not verify checksums.
#[test]
fn a_planted_fault_that_misses_corruption_is_found() {
    for name in WITH_ROT {
        assert!(finds(Engine(Mutation::SkipVerify), name, ROT), "{name}");
    }
}

/// Replays of a durable record with a corrupt block or header.
#[test]
fn planted_faults_of_a_corrupt_log_are_found() {
    let bounds = Bounds {
        rot_share: 8,
        states_max: 8_000,
        ..ROT
    };
    let name = format!("{ARRAY}: write durably 0+1, write durably 1+2");
    for planted in [
        Engine(Mutation::ForgetRotten),
        Engine(Mutation::KeepUnlogged),
        Planted::None,
    ] {
        let is_planted = planted != Planted::None;
        assert_eq!(finds(planted, &name, bounds), is_planted, "{planted:?}");
    }
}

#[test]
fn every_level_with_redundancy_and_every_policy_is_enumerated() {
    let bounds = Bounds {
        member_writes_max: u32::MAX,
        ..Bounds::SHORT
    };
    let names = scenarios(&bounds).into_iter();
    let names: Vec<_> = names.map(|scenario| scenario.to_string()).collect();
    let with_redundancy = LEVELS
        .iter()
        .filter(|row| row.redundancy != Redundancy::None);
    for level in with_redundancy {
        for policy in POLICIES {
            let mut kinds = vec![format!(") {}: ", policy.name)];
            if policy.has_regions() {
                kinds.push(format!(") {} regions: ", policy.name));
                kinds.push(format!(
                    ") {} regions without {{0}}: member 0 is rebuilt",
                    policy.name
                ));
            }
            if policy.write_hole == WriteHole::Closed {
                kinds.push(format!(") {} regions checksums: ", policy.name));
            }
            let parity = matches!(level.redundancy, Redundancy::Parity(_));
            if policy.write_hole == WriteHole::Closed && parity {
                kinds.push(format!(") {} regions checksums device: ", policy.name));
                kinds.push(format!(") {} regions checksums new: ", policy.name));
            }
            for kind in kinds {
                let mut names = names.iter();
                let has = names.any(|name| name.starts_with(level.name) && name.contains(&kind));
                assert!(has, "{level}{kind}");
            }
        }
    }
}

/// The fleet has all kinds of arrays with one member more, and all layouts; the test command has
/// some of each level.
#[test]
fn every_level_with_redundancy_is_enumerated_with_one_member_more() {
    let long = scenarios(&Bounds {
        requests: 2,
        ..Bounds::LONG
    });
    let names: Vec<_> = long.iter().map(Scenario::to_string).collect();
    for level in LEVELS {
        let fewest = match level.redundancy {
            Redundancy::None => continue,
            Redundancy::CopyOnEveryMember => level.members_min,
            Redundancy::Copies => level.members_min + 1,
            Redundancy::Parity(chunks) => chunks + 2,
        };
        for layout in level.layouts {
            let layout = level.layout(layout.name).expect("one of the level's");
            let name = layout.to_string();
            let array = [level.name, &name].join(if name.is_empty() { "" } else { ":" });
            let copies = layout.copies();
            for members in [fewest.max(copies), (fewest + 1).max(copies)] {
                let size = format!("({members}) journal regions");
                let mut names = names.iter();
                let has = names.any(|name| name.starts_with(&array) && name.contains(&size));
                assert!(has, "{array} of {members}");
            }
        }
        let larger = format!("({}) ", fewest + 1);
        let here = |name: &str| name.starts_with(level.name) && name.contains(&larger);
        let copies = level.redundancy == Redundancy::CopyOnEveryMember;
        let mut rows = LARGER.lines().chain([LARGEST]);
        let has = rows.any(|row| row.split_once(' ').is_some_and(|(_, name)| here(name)));
        assert!(copies || has, "{level}");
    }
}

#[test]
fn an_enumeration_is_deterministic() {
    let bounds = Bounds::SHORT;
    for scenario in scenarios(&bounds).iter().take(3) {
        assert_eq!(explore(scenario, &bounds), explore(scenario, &bounds));
    }
}

/// Planted faults that show in what a crash leaves. Each is found in the scenarios of the smallest
/// array, which the engine without a fault passes.
#[test]
fn planted_faults_are_found() {
    let faults = [
        Output(OutputFault::SkipFlush),
        Output(OutputFault::SkipFua),
        Output(OutputFault::SkipDirtyMark),
        Engine(Mutation::SkipSettle),
        Output(OutputFault::SkipOpeningFlush),
        Output(OutputFault::SkipFailureRecord),
        Output(OutputFault::SettleInCache),
        Output(OutputFault::CloseUnflushed),
    ];
    let mut missed = Vec::new();
    for planted in faults {
        let bounds = Bounds {
            planted,
            member_writes_max: 8,
            ..Bounds::SHORT
        };
        let all = scenarios(&bounds);
        let array = |scenario: &Scenario| scenario.to_string().split(' ').next().map(str::to_owned);
        let smallest = array(&all[0]);
        let mut tried = 0;
        let plain = |scenario: &&Scenario| !scenario.to_string().contains(" regions");
        let of_it = |scenario: &&Scenario| array(scenario) == smallest;
        let mut smallest = all.iter().filter(of_it).filter(plain);
        let found = smallest.find_map(|scenario| {
            tried += 1;
            explore(scenario, &bounds).findings.into_iter().next()
        });
        match found {
            Some(finding) => println!("{planted:?}: scenario {tried}: {finding}"),
            None => missed.push(planted),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// Faults planted in bitmaps, rebuilds and journal devices. Each is found in its named scenario,
/// which the engine without a fault passes. Some need more of the second crashes.
#[test]
fn planted_faults_of_regions_and_devices_are_found() {
    let share = Bounds::SHORT.later_crash_share;
    let device = "raid5:left-symmetric(3) journal regions device: write 0+1";
    let mirror = "raid1(2) resync regions: write 0+1, flush";
    let rebuilt = "raid1(2) resync without {0}: member 0 is rebuilt, write 0+1";
    for (planted, later_crash_share, name) in [
        (Output(OutputFault::RebuildUnflushed), share, rebuilt),
        (Output(OutputFault::SkipRegionMark), share, mirror),
        (Engine(Mutation::ClearBitEarly), share, mirror),
        (
            Output(OutputFault::SkipFailureRecord),
            share,
            &format!("{device}, member 0 drops out"),
        ),
        (
            Output(OutputFault::TrustJournalCache),
            1,
            &format!("{device}, flush"),
        ),
        (
            Engine(Mutation::TrustEmptyJournal),
            share,
            &format!("{device}, flush"),
        ),
        (
            Engine(Mutation::PlaceInferred),
            2,
            &format!("{ARRAY}: write 0+1, close"),
        ),
    ] {
        let bounds = Bounds {
            later_crash_share,
            ..Bounds::SHORT
        };
        assert!(finds(planted, name, bounds), "{planted:?}");
    }
}

/// Faults planted in the logging of stripes show in few scenarios. Each is found in its named one,
/// which the engine without a fault passes.
#[test]
fn planted_faults_of_the_journal_are_found() {
    for (planted, events, crashes) in [
        (
            Engine(Mutation::WholeOverLive),
            ": write durably 0+1, write 0+4",
            1,
        ),
        (
            Output(OutputFault::SkipRestFlush),
            ": write 0+4, write durably 0+1",
            1,
        ),
        (
            Output(OutputFault::ForgetBadBlocks),
            ": write 0+4, close",
            2,
        ),
        (
            Engine(Mutation::FirstWriteUnlogged),
            " new: write 0+4, close",
            1,
        ),
        (
            Output(OutputFault::FlushDataOnly),
            ": zero durably 1+3, close",
            1,
        ),
    ] {
        let bounds = Bounds {
            crashes,
            ..Bounds::SHORT
        };
        assert!(
            finds(planted, &format!("{ARRAY}{events}"), bounds),
            "{planted:?}"
        );
    }
}

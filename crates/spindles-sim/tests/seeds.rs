//! More than a thousand seeds, on every change. All promises are kept in each, a share of them
//! gives the same log twice, and every kind of fault occurs.

use spindles_layout::{LEVELS, Level};
use spindles_sim::checkers::CHECKERS;
use spindles_sim::faults::{FAULTS, Fault};
use spindles_sim::{Ending, Fixed, Options, Outcome, run};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run_seed(seed: u64, fixed: &Fixed) -> Outcome {
    let options = Options::swarm(seed, fixed);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&options, false)));
    outcome.unwrap_or_else(|_| panic!("seed {seed} panicked: {}", options.tree))
}

fn check_seed(seed: u64, fixed: &Fixed) -> Outcome {
    let outcome = run_seed(seed, fixed);
    if let Some(failure) = &outcome.failure {
        panic!("seed {seed}: {}: {failure}", outcome.tree);
    }
    outcome
}

/// Runs all seeds; one in 16 twice.
fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut struck = BTreeMap::<&str, u64>::new();
    for seed in seeds {
        let outcome = check_seed(seed, &Fixed::default());
        if seed % 16 == 0 {
            let again = run_seed(seed, &Fixed::default());
            assert_eq!(outcome, again, "seed {seed} is not one run");
        }
        for (what, times) in outcome.struck {
            *struck.entry(what).or_default() += times;
        }
    }
    for fault in FAULTS.iter().filter(|fault| fault.percent > 0) {
        assert!(
            struck.get(fault.name) > Some(&10),
            "{}: {struck:?}",
            fault.name
        );
    }
    let unequal = struck.get("disks of different sizes");
    assert!(unequal > Some(&50), "{struck:?}");
    let astray = struck.get("write did not land");
    assert!(astray > Some(&30), "{struck:?}");
    for ending in [Ending::Close, Ending::ProcessCrash, Ending::PowerLoss] {
        let name = ending.name();
        assert!(struck.get(name) > Some(&50), "{name}: {struck:?}");
    }
}

#[test]
fn seeds_0_to_600_keep_all_promises() {
    check_seeds(0..600);
}

#[test]
fn seeds_600_to_1200_keep_all_promises() {
    check_seeds(600..1200);
}

#[test]
fn every_level_keeps_all_promises() {
    for level in LEVELS {
        let fixed = Fixed {
            level: Some(level),
            ..Fixed::default()
        };
        for seed in 0..20 {
            check_seed(seed, &fixed);
        }
    }
}

/// Arrays on disks of different sizes and sectors, created on them or moved to them by
/// replacements.
#[test]
fn disks_of_different_sizes_keep_all_promises() {
    let fixed = Fixed {
        sizes: Some(true),
        ..Fixed::default()
    };
    let mut struck = BTreeMap::<&str, u64>::new();
    for seed in 0..200 {
        for (what, times) in check_seed(seed, &fixed).struck {
            *struck.entry(what).or_default() += times;
        }
    }
    // I/O planned for a disk that dropped out met a smaller one that waited for its place.
    for seed in [1727, 2866] {
        check_seed(seed, &fixed);
    }
    for what in ["rebuilt", "replaced", "brought back", "grown"] {
        assert!(struck.get(what) > Some(&10), "{what}: {struck:?}");
    }
}

/// Arrays of arrays, most of them with the checksums that `create` gives them.
#[test]
fn nested_arrays_keep_all_promises() {
    let fixed = Fixed {
        nested: true,
        checksums: Some(true),
        ..Fixed::default()
    };
    let mut struck = BTreeMap::<&str, u64>::new();
    // The last seed once found something.
    for seed in (0..120).chain([20038]) {
        for (what, times) in check_seed(seed, &fixed).struck {
            *struck.entry(what).or_default() += times;
        }
    }
    for what in ["rot", "rot_met", "latent_sector_error", "power loss"] {
        assert!(struck.get(what) > Some(&5), "{what}: {struck:?}");
    }
}

/// Arrays extend into the room of larger disks that replaced the original ones, and crash
/// meanwhile.
#[test]
fn growing_arrays_keep_all_promises() {
    let mut struck = BTreeMap::<&str, u64>::new();
    let fault = |name: &str| FAULTS.iter().copied().find(|fault| fault.name == name);
    for with in [&["grow"][..], &["grow", "dropout", "rebuild", "scrub"]] {
        let faults = with.iter().map(|name| fault(name).expect("a fault"));
        let fixed = Fixed {
            sizes: Some(true),
            faults: Some(faults.collect()),
            ..Fixed::default()
        };
        for seed in 0..150 {
            for (what, times) in check_seed(seed, &fixed).struck {
                *struck.entry(what).or_default() += times;
            }
        }
    }
    for what in ["got larger", "ended before it got larger"] {
        assert!(struck.get(what) > Some(&10), "{what}: {struck:?}");
    }
}

/// Options with disks of equal size, the only kind when these seeds exposed bugs.
fn alike() -> Fixed {
    Fixed {
        sizes: Some(false),
        ..Fixed::default()
    }
}

/// Each seed with a summary of the fix of its bug.
const FIXED_BUGS: &[(u64, &str)] = &[
    (
        75,
        "settling that finds nothing left to write is done, not an error",
    ),
    (
        70,
        "an array that lost too much leaves its superblocks as they are",
    ),
    (
        414,
        "a flush in the place of a merged write ends only itself",
    ),
    (
        2893,
        "data read after a crash stays, also after a power loss",
    ),
    (
        3907,
        "data read after a crash stays, also after a power loss",
    ),
    (
        5197,
        "a device that comes too late for its position delays no other",
    ),
    (
        7120,
        "an array all of whose members go at its opening answers with errors",
    ),
    (311_911, "the checksum of a block begins with its end"),
    (
        1_882_558_052_696_647,
        "writes do not wait for it to be recorded that an array failed",
    ),
    (
        1_882_558_052_707_400,
        "rows of merged writes that go one after another are those of their requests",
    ),
    (
        1_882_563_405_802_306,
        "who went on and was replaced since shows nothing again",
    ),
    (
        1_882_567_368_272_926,
        "what a journal's device takes along in the middle of a replay is in doubt, on any \
         array",
    ),
    (
        1_882_567_928_194_502,
        "an outdated replacement disk is beyond any fault budget too",
    ),
    (
        1_882_568_785_920_589,
        "what is written over rot outlives its cure",
    ),
    (
        1_882_568_785_934_888,
        "a superblock is spared that alone knows",
    ),
    (
        1_882_571_585_627_583,
        "superblocks of arrays in arrays are spared after a crash too",
    ),
    (
        1_882_575_275_574_373,
        "what waits for the journal's device ends when the array fails first",
    ),
    (
        1_882_575_275_663_449,
        "regions are given back, or not, also when a flush of theirs fails",
    ),
    (
        1_882_575_275_664_200,
        "errors do not put a member out while parity is not settled",
    ),
    (
        1_882_581_871_122_258,
        "regions are not swept while a device takes a place",
    ),
    (
        1_882_577_372_793_605,
        "a device does not take a place that can't be recorded",
    ),
    (
        1_882_577_372_805_602,
        "a device does not take a place that can't be recorded",
    ),
    (
        1_882_584_834_420_218,
        "a read may have looked before data lost in a crash was written again",
    ),
    (
        1_882_592_162_912_742,
        "what lost its checksum with a journal is not made good by closing",
    ),
    (
        1_882_592_162_916_191,
        "what a lost write left may be right later",
    ),
    (
        1_882_592_162_929_445,
        "what a lost write left may be right later",
    ),
    (
        1_882_593_203_092_154,
        "a member that was out comes back with damaged checksums",
    ),
    (
        1_882_593_203_095_191,
        "no write is lost where a journal may be lost too",
    ),
    (
        1_882_593_856_343_975,
        "a page of checksums that can't be read is damaged until it is written",
    ),
    (
        1_882_594_600_812_646,
        "an array that lost too much is out of the one above, for the simulator too",
    ),
    (
        1_882_594_600_905_301,
        "an array that lost too much is out of the one above, for the simulator too",
    ),
    (
        1_882_593_856_374_523,
        "a half-written stripe takes from the log, or from a proof, what it held before",
    ),
    (
        1_882_601_637_851_363,
        "beyond the budget an array may not tell what it is a member of",
    ),
    (
        1_882_607_864_332_885,
        "a read error in one row proves nothing about the other rows checked with it",
    ),
    (
        1_882_612_272_730_483,
        "an inner array reports its lost blocks, in the simulator too",
    ),
    (
        1_882_618_959_272_268,
        "parts of a torn row can't be written where a journal is damaged and a member missing",
    ),
];

/// Seeds that once found a bug, with a summary of its fix. Later options of a run changed what a
/// seed does; the seeds are kept because they were expensive to find.
#[test]
fn seeds_of_fixed_bugs_pass() {
    for &(seed, _) in FIXED_BUGS {
        check_seed(seed, &alike());
    }
}

/// Blocks of an array's bitmap, torn on a mirror below it, have the checksums of whole ones.
#[test]
fn copies_with_equal_checksums_are_made_identical() {
    let fixed = Fixed {
        checksums: Some(true),
        ..alike()
    };
    check_seed(920_538, &fixed);
}

/// A member whose journal must be read is missing, and the array can't work without it.
#[test]
fn a_replay_ends_without_its_last_copy() {
    let fixed = Fixed {
        checksums: Some(true),
        ..alike()
    };
    for seed in [906_671, 908_020] {
        check_seed(seed, &fixed);
    }
}

/// A block that a crash destroyed answers errors until it is written, wherever a growth moves it.
#[test]
fn lost_blocks_stay_lost_during_a_growth() {
    let names = ["grow", "rot_met", "dropout", "rebuild"];
    let fixed = Fixed {
        level: Level::by_name("raid6"),
        checksums: Some(true),
        faults: Some(names.into_iter().filter_map(Fault::by_name).collect()),
        ..alike()
    };
    check_seed(2033, &fixed);
}

/// A crash tore a whole stripe that was being written, and a damaged journal has no record of it.
/// The stripe then takes small writes, and a replacement device is filled.
#[test]
fn a_torn_stripe_missing_from_a_damaged_journal_is_resynced() {
    let fixed = Fixed {
        level: Level::by_name("raid5"),
        checksums: Some(true),
        faults: Some(Fault::by_name("journal_rot").into_iter().collect()),
        ending: Some(Ending::PowerLoss),
        requests: Some(60),
        ..alike()
    };
    for seed in [5062, 5443] {
        check_seed(seed, &fixed);
    }
}

/// An added device drops out before anything was moved onto it: the growth waits for it.
#[test]
fn a_growth_moves_nothing_onto_a_dropped_device() {
    let fixed = Fixed {
        checksums: Some(true),
        ..alike()
    };
    check_seed(8555, &fixed);
}

/// A disk replaces one that is a little smaller and had another alignment.
#[test]
fn a_larger_disk_of_any_alignment_replaces_a_member() {
    let fixed = Fixed {
        level: Level::by_name("raid5"),
        members: Some(3),
        ..Fixed::default()
    };
    check_seed(9797, &fixed);
}

/// An unreadable place is restored in a row whose device is being filled. Nothing changes there, so
/// the log is not involved.
#[test]
fn restoring_an_unreadable_block_needs_no_log() {
    let fixed = Fixed {
        level: Level::by_name("raid6"),
        ..Fixed::default()
    };
    check_seed(10832, &fixed);
    // Places that could not be filled are filled once another device is.
    check_seed(30823, &Fixed::default());
}

/// A lost block was being written when the process ended, and part of the last batch of the log is
/// corrupt. The record does not count, and the block stays lost.
#[test]
fn a_block_of_an_invalid_record_stays_lost() {
    let fixed = Fixed {
        level: Level::by_name("raid4"),
        ..Fixed::default()
    };
    check_seed(7776, &fixed);
}

/// A copy whose checksum was not durable is corrupted after a crash: one of the named gaps.
#[test]
fn corruption_before_a_resync_may_be_taken_for_a_write() {
    let fixed = Fixed {
        level: Level::by_name("raid10"),
        ..Fixed::default()
    };
    check_seed(17238, &fixed);
}

/// A block that could not be filled counts as nothing, also if an earlier write is still in a
/// cache, and in an array below.
#[test]
fn unfilled_blocks_count_as_lost() {
    let raid1 = Fixed {
        level: Level::by_name("raid1"),
        ..Fixed::default()
    };
    check_seed(26720, &raid1);
    let nested = Fixed {
        nested: true,
        ..Fixed::default()
    };
    check_seed(10934, &nested);
}

/// An array below lost blocks that hold checksums of the one above.
#[test]
fn checksums_may_be_on_lost_blocks_of_an_inner_array() {
    check_seed(6946, &Fixed::default());
}

/// Members that have no space for a while, during other writes.
#[test]
fn members_without_space_keep_all_promises() {
    let names = ["no_space", "replace", "grow", "rebuild", "scrub"];
    let fixed = |level, checksums, ending| Fixed {
        level: Level::by_name(level),
        checksums: Some(checksums),
        faults: Some(names.into_iter().filter_map(Fault::by_name).collect()),
        ending: Some(ending),
        ..Fixed::default()
    };
    let mut struck = BTreeMap::<&str, u64>::new();
    for level in LEVELS {
        for seed in 0..8 {
            let fixed = fixed(level.name, seed % 2 == 0, Ending::ProcessCrash);
            for (what, times) in check_seed(seed, &fixed).struck {
                *struck.entry(what).or_default() += times;
            }
        }
    }
    for what in ["space was short", "put out for space", "written in part"] {
        assert!(struck.get(what) > Some(&5), "{what}: {struck:?}");
    }
    // Found in the log: a record of a failed array, and an incomplete one. Growths that could not
    // continue.
    let (crash, power) = (Ending::ProcessCrash, Ending::PowerLoss);
    for (level, seed, checksums, ending) in [
        ("raid5", 997, false, crash),
        ("raid6", 1069, false, crash),
        ("raid5", 1298, true, power),
        ("raid6", 1092, true, power),
        ("raid1", 904, true, power),
        ("raid1", 275, true, crash),
    ] {
        check_seed(seed, &fixed(level, checksums, ending));
    }
}

/// Reads of some blocks of a member are slow, and the engine hedges reads.
#[test]
fn members_with_slow_reads_keep_all_promises() {
    let fixed = |faults: &[&str]| Fixed {
        faults: Some(faults.iter().copied().filter_map(Fault::by_name).collect()),
        checksums: Some(true),
        ..Fixed::default()
    };
    let mut struck = BTreeMap::<&str, u64>::new();
    for seed in 0..60 {
        for (what, times) in check_seed(seed, &fixed(&["slow_reads"])).struck {
            *struck.entry(what).or_default() += times;
        }
        check_seed(
            seed,
            &fixed(&["slow_reads", "dropout", "rebuild", "rot_met"]),
        );
    }
    for what in ["slow_reads", "slow read", "hedged"] {
        assert!(struck.get(what) > Some(&30), "{what}: {struck:?}");
    }
}

/// More members are lost than the array survives, while it is read and written; then all return.
#[test]
fn answered_writes_of_a_failed_array_persist() {
    let fault = |name: &str| FAULTS.iter().copied().find(|fault| fault.name == name);
    let fixed = |level, names: &[&str]| Fixed {
        level: Level::by_name(level),
        faults: Some(
            names
                .iter()
                .map(|name| fault(name).expect("a fault"))
                .collect(),
        ),
        beyond: Some(true),
        ..alike()
    };
    let mut struck = BTreeMap::<&str, u64>::new();
    for level in LEVELS {
        for seed in 0..20 {
            let fixed = fixed(level.name, &["dropout", "latent_sector_error"]);
            for (what, times) in check_seed(seed, &fixed).struck {
                *struck.entry(what).or_default() += times;
            }
        }
    }
    assert!(struck.get("failed and restarted") > Some(&50), "{struck:?}");
    // Found: a failed write; rows resynced without a member that was not recorded as out; and a
    // device whose rebuild completed when nothing could be recorded.
    for seed in [1211, 1544, 1594, 1609, 3007, 4116, 4544, 4674, 5091] {
        check_seed(seed, &fixed("raid10", &["dropout"]));
    }
    // Found: blocks that a device was filled without, and that it lacked when it returned.
    for (level, seed) in [
        ("raid5", 255),
        ("raid5", 1446),
        ("raid6", 301),
        ("raid6", 1316),
        ("raid4", 1835),
        ("raid4", 2884),
        ("raid1", 943),
    ] {
        check_seed(seed, &fixed(level, &["dropout", "latent_sector_error"]));
    }
    // Found: a region that was freed when the array failed.
    check_seed(1701, &fixed("raid4", &["dropout"]));
    // Found: an array that failed during a rebuild, and did not work again once that was complete.
    check_seed(2130, &fixed("raid5", &["dropout", "no_space", "put_out"]));
}

#[test]
fn parameters_of_a_run_can_be_fixed() {
    let fixed = Fixed {
        level: Some(LEVELS[2]),
        members: Some(4),
        faults: Some(Vec::new()),
        ending: Some(Ending::PowerLoss),
        requests: Some(5),
        depth: Some(2),
        ..Fixed::default()
    };
    let options = Options::swarm(9, &fixed);
    assert_eq!(options.tree.disks(), 4);
    assert!(options.tree.to_string().starts_with(LEVELS[2].name));
    let mut sessions = options.sessions.iter();
    assert!(sessions.all(|s| s.faults.is_empty() && s.requests == 5));
    check_seed(9, &fixed);
}

#[test]
fn recording_the_story_does_not_change_a_run() {
    let options = Options::swarm(3, &Fixed::default());
    let (quiet, recorded) = (run(&options, false), run(&options, true));
    assert_eq!((quiet.hash, quiet.story.len()), (recorded.hash, 0));
    let entries = u64::try_from(recorded.story.len()).unwrap();
    assert_eq!(recorded.entries, entries);
    assert!(
        recorded.story[0].contains("seed 3"),
        "{}",
        recorded.story[0]
    );
}

#[test]
fn names_are_unique_and_found() {
    for (index, row) in FAULTS.iter().enumerate() {
        assert!(FAULTS[..index].iter().all(|other| other.name != row.name));
        assert_eq!(Fault::by_name(row.name), Some(*row));
    }
    for (index, row) in CHECKERS.iter().enumerate() {
        assert!(CHECKERS[..index].iter().all(|other| other.name != row.name));
        assert!(!row.about.is_empty() && !row.about.ends_with('.'));
    }
}

/// Same as above, for one level, with checksums.
#[test]
fn seeds_of_fixed_bugs_in_one_level_pass() {
    let found = [
        (
            "raid6",
            496,
            "records logged again after a crash start over when the log is full",
        ),
        (
            "raid5",
            280,
            "sim: a row that waited until a member was back is not logged",
        ),
        (
            "raid6",
            4280,
            "a part of a durable record that its log lost is made from the rest of its row",
        ),
        (
            "raid5",
            1275,
            "sim: a block of an unlogged row that can't be read may be lost",
        ),
        (
            "raid5",
            134,
            "sim: an unlogged row, and a sector that can't be read",
        ),
        (
            "raid6",
            2469,
            "replay: an incomplete record counts next to corruption too, up to the redundancy",
        ),
    ];
    for (level, seed, title) in found {
        let fixed = Fixed {
            level: spindles_layout::Level::by_name(level),
            checksums: Some(true),
            ..Fixed::default()
        };
        let outcome = run_seed(seed, &fixed);
        assert_eq!(outcome.failure, None, "{level} {seed}: {title}");
    }
}

/// A scrub finds the journal's device gone while a write zeroes its region and nothing is logged.
/// The write waits for the log, which begins again on the members.
#[test]
fn a_journal_device_that_a_scrub_finds_gone_holds_up_no_write() {
    let fixed = Fixed {
        level: Level::by_name("raid7"),
        ..Fixed::default()
    };
    check_seed(242, &fixed);
}

/// Same as above, with members that drop out and are filled again.
#[test]
fn seeds_of_fixed_bugs_with_dropouts_pass() {
    let found = [
        (
            177,
            Ending::ProcessCrash,
            "engine: row states are read again after a wait in which their region may be freed",
        ),
        (
            2196,
            Ending::PowerLoss,
            "engine: what is put in order before zeros or a discard is written as it was",
        ),
    ];
    for (seed, ending, title) in found {
        let names = ["dropout", "rebuild"];
        let fixed = Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            checksums: Some(true),
            faults: Some(names.into_iter().filter_map(Fault::by_name).collect()),
            ending: Some(ending),
            ..alike()
        };
        let outcome = run_seed(seed, &fixed);
        assert_eq!(outcome.failure, None, "{seed}: {title}");
    }
}

/// Power is lost during first writes to regions. Each seed found one deliberately broken rule about
/// what must be durable before a region counts as written.
#[test]
fn seeds_with_power_loss_at_first_writes_pass() {
    let found = [
        (898, "the superblocks say that the array is not clean"),
        (2444, "the superblocks say that the array is not clean"),
        (240, "the dirty bit"),
        (487, "the dirty bit"),
        (1334, "the dirty bit"),
    ];
    for (seed, title) in found {
        let fixed = Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            checksums: Some(true),
            faults: Some(Vec::new()),
            ending: Some(Ending::PowerLoss),
            ..alike()
        };
        let outcome = run_seed(seed, &fixed);
        assert_eq!(outcome.failure, None, "{seed}: {title}");
    }
}

/// Each seed with a summary of the fix of its bug.
const FIXED_BUGS_ON_ANY_DISKS: &[(u64, &str)] = &[
    (
        18099,
        "a lost log restarts only after the rows that it covered are settled",
    ),
    (
        28773,
        "what a row sum proved is answered, though the log is gone",
    ),
    (
        119_005,
        "a part of a durable record that its log lost is made from the rest of its row",
    ),
    (
        123_157,
        "a part of a durable record that its log lost is made from the rest of its row",
    ),
    (
        13893,
        "sim: a member that goes out may have the last right copy of what is in doubt",
    ),
    (
        31897,
        "sim: rot of a copy that is in doubt after a crash is a gap",
    ),
    (
        31927,
        "sim: what grew from copies to parity without checksums can't spare a member after a \
         crash",
    ),
    (
        62349,
        "sim: no row lacks a member that the array grows onto",
    ),
    (
        104_836,
        "sim: what an array keeps in arrays that log is judged when it is opened again",
    ),
    (52175, "sim: without the log of a device parity is in doubt"),
    (
        13403,
        "sim: data written unlogged and then freed is not copied to a replacement device",
    ),
    (
        17503,
        "sim: unlogged data lies at another offset on a replacement device",
    ),
    (
        21230,
        "sim: a write that did not land, in an array below, is in a gap as in any other",
    ),
    (
        116_123,
        "engine: a log that went on after a crash, and ended unused, does not keep its \
         segments",
    ),
    (
        107_024,
        "engine: an array all of whose members go under one write answers it with an error",
    ),
    (
        705_326,
        "sim: whole rows of an array inside another count as unlogged",
    ),
    (
        700_894,
        "sim: a member that the array was about to grow onto is missing in no row",
    ),
    (
        188_001,
        "engine: row states are read again after a wait in which their region may be freed",
    ),
    (
        193_340,
        "sim: if the log is lost, corruption next to acknowledged volatile writes is in a gap",
    ),
];

/// Seeds of fixed bugs found on disks of random sizes.
#[test]
fn seeds_of_fixed_bugs_on_any_disks_pass() {
    for &(seed, title) in FIXED_BUGS_ON_ANY_DISKS {
        let outcome = run_seed(seed, &Fixed::default());
        assert_eq!(outcome.failure, None, "{seed}: {title}");
    }
}

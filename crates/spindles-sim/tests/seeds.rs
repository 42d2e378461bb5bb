//! More than a thousand seeds, on every change. All promises are kept in each, a share of them
//! gives the same log twice, and every kind of fault occurs.

use super::runs::fixed;
use spindles_layout::LEVELS;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::faults::{FAULTS, Fault};
use spindles_sim::{Ending, Fixed, Options, Outcome, run};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run_seed(seed: u64, fixed: &Fixed) -> Outcome {
    let options = Options::swarm(seed, fixed);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&options, false)));
    let outcome = outcome.unwrap_or_else(|_| panic!("seed {seed} panicked: {}", options.tree));
    if outcome.failure.is_some() && std::env::var_os("SPINDLES_STORY").is_some() {
        println!("{}", run(&options, true).story.join("\n"));
    }
    outcome
}

/// How often each fault struck, and other things occurred.
#[derive(Debug, Default)]
struct Struck(BTreeMap<&'static str, u64>);

impl Struck {
    /// Runs a seed in which all promises are kept.
    fn check(&mut self, seed: u64, fixed: &Fixed) -> Outcome {
        let outcome = run_seed(seed, fixed);
        if let Some(failure) = &outcome.failure {
            panic!("seed {seed}: {}: {failure}", outcome.tree);
        }
        for (what, times) in &outcome.struck {
            *self.0.entry(what).or_default() += times;
        }
        outcome
    }

    /// Runs seeds as `words` say.
    fn check_all(&mut self, seeds: std::ops::Range<u64>, words: &str) {
        let fixed = fixed(words);
        for seed in seeds {
            self.check(seed, &fixed);
        }
    }

    fn assert_more_than(&self, times: u64, all: &[&str]) {
        for what in all {
            assert!(self.0.get(what) > Some(&times), "{what}: {self:?}");
        }
    }
}

/// Runs all seeds; one in 16 twice.
fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut struck = Struck::default();
    for seed in seeds {
        let outcome = struck.check(seed, &Fixed::default());
        if seed % 16 == 0 {
            let again = run_seed(seed, &Fixed::default());
            assert_eq!(outcome, again, "seed {seed} is not one run");
        }
    }
    let faults = FAULTS.iter().filter(|fault| fault.percent > 0);
    struck.assert_more_than(10, &faults.map(|fault| fault.name).collect::<Vec<_>>());
    struck.assert_more_than(30, &["write did not land"]);
    struck.assert_more_than(50, &["disks of different sizes"]);
    let endings = [Ending::Close, Ending::ProcessCrash, Ending::PowerLoss];
    struck.assert_more_than(50, &endings.map(Ending::name));
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
        Struck::default().check_all(0..20, level.name);
    }
}

/// Arrays on disks of different sizes and sectors, created on them or moved to them by
/// replacements.
#[test]
fn disks_of_different_sizes_keep_all_promises() {
    let mut struck = Struck::default();
    struck.check_all(0..200, "unequal");
    struck.assert_more_than(10, &["rebuilt", "replaced", "brought back", "grown"]);
}

/// Arrays of arrays, most of them with the checksums that `create` gives them.
#[test]
fn nested_arrays_keep_all_promises() {
    let mut struck = Struck::default();
    struck.check_all(0..120, "nested checksums");
    struck.assert_more_than(5, &["rot", "rot_met", "latent_sector_error", "power loss"]);
}

/// Arrays extend into the room of larger disks that replaced the original ones, and crash
/// meanwhile.
#[test]
fn growing_arrays_keep_all_promises() {
    let mut struck = Struck::default();
    struck.check_all(0..150, "unequal grow");
    struck.check_all(0..150, "unequal grow dropout rebuild scrub");
    struck.assert_more_than(10, &["got larger", "ended before it got larger"]);
}

/// Members that have no space for a while, during other writes.
#[test]
fn members_without_space_keep_all_promises() {
    let mut struck = Struck::default();
    for level in LEVELS {
        for seed in 0..8 {
            let checksums = ["checksums", "no-checksums"][usize::from(seed % 2 == 1)];
            let faults = "no_space replace grow rebuild scrub";
            let words = format!("{level} {checksums} crash {faults}");
            struck.check_all(seed..seed + 1, &words);
        }
    }
    struck.assert_more_than(
        5,
        &["space was short", "put out for space", "written in part"],
    );
}

/// Reads of some blocks of a member are slow, and the engine hedges reads.
#[test]
fn members_with_slow_reads_keep_all_promises() {
    let mut struck = Struck::default();
    struck.check_all(0..60, "checksums slow_reads");
    struck.assert_more_than(30, &["slow_reads", "slow read", "hedged"]);
    struck.check_all(0..60, "checksums slow_reads dropout rebuild rot_met");
}

/// More members are lost than the array survives, while it is read and written; then all return.
#[test]
fn answered_writes_of_a_failed_array_persist() {
    let mut struck = Struck::default();
    for level in LEVELS {
        let words = format!("alike {level} beyond dropout latent_sector_error");
        struck.check_all(0..20, &words);
    }
    struck.assert_more_than(50, &["failed and restarted"]);
}

/// Seeds that once found a bug, how their runs differ from all others (`alike`: disks of equal
/// size), and a summary of the fix. Later options of a run changed what a seed does; the seeds are
/// kept because they were expensive to find.
const FIXED_BUGS: &str = "
75 alike: settling that finds nothing left to write is done, not an error
70 alike: an array that lost too much leaves its superblocks as they are
414 alike: a flush in the place of a merged write ends only itself
2893 3907 alike: data read after a crash stays, also after a power loss
5197 alike: a device that comes too late for its position delays no other
7120 alike: an array all of whose members go at its opening answers with errors
311911 alike: the checksum of a block begins with its end
1882558052696647 alike: writes do not wait for it to be recorded that an array failed
1882558052707400 alike: rows of merged writes that go one after another are those of their requests
1882563405802306 alike: who went on and was replaced since shows nothing again
1882567368272926 alike: what a journal's device takes along in the middle of a replay is in \
    doubt, on any array
1882567928194502 alike: an outdated replacement disk is beyond any fault budget too
1882568785920589 alike: what is written over rot outlives its cure
1882568785934888 alike: a superblock is spared that alone knows
1882571585627583 alike: superblocks of arrays in arrays are spared after a crash too
1882575275574373 alike: what waits for the journal's device ends when the array fails first
1882575275663449 alike: regions are given back, or not, also when a flush of theirs fails
1882575275664200 alike: errors do not put a member out while parity is not settled
1882581871122258 alike: regions are not swept while a device takes a place
1882577372793605 1882577372805602 alike: a device does not take a place that can't be recorded
1882584834420218 alike: a read may have looked before data lost in a crash was written again
1882592162912742 alike: what lost its checksum with a journal is not made good by closing
1882592162916191 1882592162929445 alike: what a lost write left may be right later
1882593203092154 alike: a member that was out comes back with damaged checksums
1882593203095191 alike: no write is lost where a journal may be lost too
1882593856343975 alike: a page of checksums that can't be read is damaged until it is written
1882594600812646 1882594600905301 alike: an array that lost too much is out of the one above, for \
    the simulator too
1882593856374523 alike: a half-written stripe takes from the log, or from a proof, what it held \
    before
1882601637851363 alike: beyond the budget an array may not tell what it is a member of
1882607864332885 alike: a read error in one row proves nothing about the other rows checked with it
1882612272730483 alike: an inner array reports its lost blocks, in the simulator too
1882618959272268 alike: parts of a torn row can't be written where a journal is damaged and a \
    member missing
920538 alike checksums: torn blocks of an array's bitmap, on a mirror below it, have the \
    checksums of whole ones
906671 908020 alike checksums: a replay ends though its last copy is missing
2033 alike raid6 checksums grow rot_met dropout rebuild: a block that a crash destroyed stays \
    lost until it is written, wherever a growth moves it
5062 5443 alike raid5 checksums journal_rot power 60-requests: a torn stripe that a damaged \
    journal lacks takes small writes, and a device is filled
8555 alike checksums: a growth moves nothing onto an added device that dropped out before: it waits
9797 raid5 3-wide: a disk replaces one that is a little smaller and had another alignment
10832 raid6: an unreadable block is restored without the log in a row whose device is being filled
30823: places that could not be filled are filled once another device is
7776 raid4: a lost block stays lost if its record does not count
17238 raid10: a copy that is corrupt before its checksum is durable is in a named gap
26720 raid1: a block that could not be filled is lost, also if an earlier write is still in a cache
10934 nested: a block that could not be filled is lost, also in an array below
6946: an array below may lose blocks with checksums of the one above
496 raid6 checksums: records logged again after a crash start over when the log is full
280 raid5 checksums: a row that waited until a member was back is not logged
4280 raid6 checksums: a part of a durable record that its log lost is made from the rest of its row
1275 raid5 checksums: a block of an unlogged row that can't be read may be lost
134 raid5 checksums: an unlogged row, and a sector that can't be read
2469 raid6 checksums: an incomplete record counts next to corruption too, up to the redundancy
242 raid7: a write that zeroes its region does not wait without end for a journal device that a \
    scrub found gone
177 alike raid5 3-wide checksums dropout rebuild crash: row states are read again after a wait in \
    which their region may be freed
2196 alike raid5 3-wide checksums dropout rebuild power: what is put in order before zeros or a \
    discard is written as it was
898 2444 alike raid5 3-wide checksums calm power: the superblocks are durably not clean before \
    the first write to a region
240 487 1334 alike raid5 3-wide checksums calm power: the dirty bit is durable before the first \
    write to a region
18099: a lost log restarts only after the rows that it covered are settled
28773: what a row sum proved is answered, though the log is gone
119005 123157: a part of a durable record that its log lost is made from the rest of its row
13893: a member that goes out may have the last right copy of what is in doubt
31897: rot of a copy that is in doubt after a crash is a gap
31927: what grew from copies to parity without checksums can't spare a member after a crash
62349: no row lacks a member that the array grows onto
104836: what an array keeps in arrays that log is judged when it is opened again
52175: without the log of a device parity is in doubt
13403: data written unlogged and then freed is not copied to a replacement device
17503: unlogged data lies at another offset on a replacement device
21230: a write that did not land, in an array below, is in a gap as in any other
116123: a log that went on after a crash, and ended unused, does not keep its segments
107024: an array all of whose members go under one write answers it with an error
705326: whole rows of an array inside another count as unlogged
700894: a member that the array was about to grow onto is missing in no row
188001: row states are read again after a wait in which their region may be freed
193340: if the log is lost, corruption next to acknowledged volatile writes is in a gap
1727 2866 unequal: I/O planned for a dropped disk meets a smaller one that waits for its place
20038 nested checksums: found once in arrays of arrays
997 raid5 no-checksums crash no_space replace grow rebuild scrub: in the log: a record of a \
    failed array, or an incomplete one
1069 raid6 no-checksums crash no_space replace grow rebuild scrub: in the log: a record of a \
    failed array, or an incomplete one
1298 raid5 checksums power no_space replace grow rebuild scrub: without space: a growth that \
    can't continue
1092 raid6 checksums power no_space replace grow rebuild scrub: without space: a growth that \
    can't continue
904 raid1 checksums power no_space replace grow rebuild scrub: without space: a growth that can't \
    continue
275 raid1 checksums crash no_space replace grow rebuild scrub: without space: a growth that can't \
    continue
1211 1544 1594 1609 3007 4116 4544 4674 5091 alike beyond raid10 dropout: a failed array: a \
    failed write, rows resynced too early, a rebuild without record
255 1446 alike beyond raid5 dropout latent_sector_error: a returning device lacks the blocks that \
    it was filled without
301 1316 alike beyond raid6 dropout latent_sector_error: a returning device lacks the blocks that \
    it was filled without
1835 2884 alike beyond raid4 dropout latent_sector_error: a returning device lacks the blocks \
    that it was filled without
943 alike beyond raid1 dropout latent_sector_error: a returning device lacks the blocks that it \
    was filled without
1701 alike beyond raid4 dropout: a region is freed when the array fails
2130 alike beyond raid5 dropout no_space put_out: an array that failed during a rebuild works \
    again once that is complete
";

/// Runs one half of the seeds in `FIXED_BUGS`.
fn check_fixed_bugs(half: usize) {
    for row in FIXED_BUGS.trim().lines().skip(half).step_by(2) {
        let (runs, fix) = row.split_once(':').expect("seeds and a summary");
        let words = runs.split_whitespace();
        let (seeds, words): (Vec<_>, Vec<_>) = words.partition(|word| word.parse::<u64>().is_ok());
        for seed in seeds {
            let outcome = run_seed(seed.parse().expect("a number"), &fixed(&words.join(" ")));
            assert_eq!(outcome.failure, None, "{seed}: {fix}");
        }
    }
}

#[test]
fn seeds_of_fixed_bugs_pass() {
    check_fixed_bugs(0);
}

#[test]
fn other_seeds_of_fixed_bugs_pass() {
    check_fixed_bugs(1);
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
    Struck::default().check(9, &fixed);
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

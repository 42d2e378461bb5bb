//! One planted fault in each run: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

use super::runs::fixed;
use spindles_engine::mutation::MUTATIONS;
use spindles_sim::checkers::CHECKERS;
use spindles_sim::planted::{OUTPUT_FAULTS, Planted};
use spindles_sim::{Fixed, Options, run};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The fault, the checker meant for it, the first seed to try, the most seeds that it may take, and
/// the runs in which it shows. A first seed skips seeds without a finding, to save time.
const CANARIES: &str = "
SkipFlush durability 0+20
SkipFua durability 0+20
SwapMembers history 0+20
DropStripeLock redundancy 0+100
SharedScratch buffers 0+50
RepairUnlocated scrub 150+400
BlindScrub scrub 130+400
SkipInspection scrub 0+50 raid5 checksums metadata_rot_met
ScrubUnlocked scrub 190+1000
RepairInCache scrub 130+400
StaleParity redundancy 0+200
SkipFailureRecord failure_record 810+1000
SkipDirtyMark clean_mark 0+100
CloseUnflushed redundancy 180+20
SkipOpeningFlush history 110+400
SkipSettle history 180+200
SettleInCache history 680+2000
NoRecovery availability 0+300
LostWakeup liveness 0+20
SkipRegionMark dirty_bits 0+300
ClearBitEarly dirty_bits 0+300
ClearBitWhileOut dirty_bits 0+300
SkipZeroing history 0+50
RebuildUnflushed history 20+1500
RebuildSkipsWrites redundancy 120+600
SkipJournal history 0+100 raid5 power calm
SkipJournalFlush history 410+500
SkipReplay redundancy 70+400
ReuseJournalUnflushed history 0+800
TrustLostJournal history 4920+8000 raid5 no-checksums device 8-requests 4-deep crash calm
SkipPagesOfDurable history 620+2000 raid1 2-wide checksums 60-requests power rot_met
TrustRecovered history 10+4000 raid5 checksums power 3-wide calm
StaleRowSum checksums 0+50 raid5 checksums 60-requests close calm
ReadUnplaced history 80+300 raid6
PartsUnlogged liveness 20+100 raid5 power calm
WholeOverLive history 1090+2000 raid5 checksums power 3-wide calm
DropBroken history 330+2000 raid5 checksums crash journal_rot
SkipVerify history 40+400
ReuseJournalWithoutChecksums liveness 20+100 raid5 checksums power 3-wide 60-requests calm
SkipReplayedChecksums liveness 0+50 raid5 checksums power 3-wide 60-requests calm
ReplaceSkipsWrites redundancy 0+300
ReplaceUnflushed history 160+800
StageUnflushed history 10+300 raid5 grow
MarkUnflushed history 40+800 raid5 grow
HedgeInPlace buffers 0+100 raid5 300-requests stall slow
HedgeUnlimited hedges 60+100 raid5 300-requests stall slow
KeepReplayed availability 30+400 raid5 checksums power 3-wide 25-requests calm
EntriesEarly history 490+50 raid5 checksums power 3-wide 25-requests calm
SettleUnflushed liveness 140+200 raid5 checksums power 25-requests calm
TrustAgreement redundancy 40+100 raid5 checksums power calm
LinearRowSum history 10+200 raid5 checksums power calm
ForgetBadBlocks availability 750+50 raid5 checksums power calm
SkipPagesOfFlush history 270+1000 raid5 checksums power 40-requests calm
DegradedUnlogged liveness 20+50 raid5 checksums power dropout
ForgetDoubt dirty_bits 10+50 raid5 checksums power dropout
ClearBitRace dirty_bits 690+100 raid5 calm
ClearBitUnsettled dirty_bits 80+1500 raid10 8-requests replace rebuild
FilledUnlogged liveness 910+200 raid5 checksums power dropout rebuild
TryOnce liveness 10+50 raid6 checksums power rot_met
SkipFailureRecord order 30+400 raid5 checksums power 3-wide dropout
UnloggedEarly order 210+100 raid5 2-wide write-through checksums 60-requests 4-deep dropout rebuild
OutUnflushed order 0+20 raid5 2-wide checksums dropout
OutWhileUnlogged order 20+100 raid5 2-wide checksums dropout
ReadUnplacedLog history 0+1000 raid5 checksums crash no_space
TrustFailedWrites history 440+100 raid10 dropout beyond
SettleUnrecorded history 880+100 raid10 dropout beyond
ForgetBadBlocksEarly history 1830+100 raid4 dropout latent_sector_error beyond
ReturnBadBlocks history 3300+100 raid4 dropout latent_sector_error beyond
TakeRefused liveness 0+100 two_commands replace
PastStage history 0+50 staged raid5 checksums power 4-wide 60-requests calm
ReadPastStage history 0+50 staged raid5 4-wide calm
FlushSkipsStage history 0+200 staged raid5 power 4-wide 60-requests calm
ReleaseUnplaced history 60+50 staged raid5 power 4-wide 60-requests
StageVolatile staged 0+50 staged raid5 4-wide calm
StageColumnUnwritten staged 0+50 staged raid5 4-wide calm
PlacingNeedsRoom liveness 0+200 staged raid5 4-wide calm
StageUnrecorded history 0+50 staged raid5 crash 4-wide 60-requests calm
";

/// Faults that show in few runs are planted in enumerations instead: `tests/enumerate.rs`.
const ENUMERATED: &[&str] = &[
    "SkipRestFlush",
    "FirstWriteUnlogged",
    "TrustJournalCache",
    "PlaceInferred",
    "FlushDataOnly",
    "TrustEmptyJournal",
    "ForgetRotten",
    "KeepUnlogged",
];

/// Faults that no seed exposes, with the seeds searched.
const NOT_FOUND: &[(&str, &str)] = &[(
    "JoinUnvoided",
    "25,000 seeds of raid5 and raid6 with dropouts, rebuilds and all other faults: what a device \
     that takes a position held in its log was void in all of them, since the tail is moved when \
     it is full",
)];

/// A row of `CANARIES`.
struct Canary {
    name: &'static str,
    checker: &'static str,
    seeds: std::ops::Range<u64>,
    runs: Fixed,
}

fn canaries() -> Vec<Canary> {
    let canary = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("three words at least");
        let (name, checker, seeds) = (word(), word(), word());
        let (first, most) = seeds.split_once('+').expect("first and most");
        let first: u64 = first.parse().expect("a seed");
        let most: u64 = most.parse().expect("a number of seeds");
        let runs = words.collect::<Vec<_>>().join(" ");
        Canary {
            name,
            checker,
            seeds: first..first + most,
            runs: fixed(&format!("alike {runs}")),
        }
    };
    CANARIES.trim().lines().map(canary).collect()
}

/// Every planted fault, with its name.
fn planted() -> Vec<(String, Planted)> {
    let engine = MUTATIONS
        .iter()
        .map(|&fault| (format!("{fault:?}"), Planted::Engine(fault)));
    let output = OUTPUT_FAULTS
        .iter()
        .map(|&fault| (format!("{fault:?}"), Planted::Output(fault)));
    engine.chain(output).collect()
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
fn find(canary: &Canary, passed: &Mutex<BTreeSet<(String, u64)>>) -> Result<u64, String> {
    let Canary {
        name,
        checker,
        seeds,
        runs,
    } = canary;
    let planted = planted().into_iter().find(|(fault, _)| fault == name);
    let (_, fault) = planted.ok_or_else(|| format!("there is no fault {name}"))?;
    let found = seeds
        .clone()
        .find(|&seed| finder(seed, fault, runs) == Some(checker));
    let found = found.ok_or_else(|| format!("{name} is not found in seeds {seeds:?}"))?;
    for seed in seeds.start..=found {
        let run = (format!("{runs:?}"), seed);
        if passed.lock().expect("no thread panicked").insert(run)
            && let Some(failed) = finder(seed, Planted::None, runs)
        {
            return Err(format!("without {name} seed {seed} fails: {failed}"));
        }
    }
    Ok(found + 1 - seeds.start)
}

#[test]
fn every_planted_fault_is_found_by_its_checker() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // Don't print the assertions that find a fault.
    let passed = Mutex::new(BTreeSet::new());
    let wrong = Mutex::new(Vec::new());
    let wanted = std::env::var("SPINDLES_CANARY").ok();
    let is_wanted = |canary: &Canary| wanted.as_ref().is_none_or(|name| canary.name == name);
    let rest = Mutex::new(canaries().into_iter().filter(is_wanted));
    let look = || {
        while let Some(canary) = { rest.lock().expect("no thread panicked").next() } {
            match find(&canary, &passed) {
                Ok(tried) => {
                    println!(
                        "{}: found by {} after {tried} seeds",
                        canary.name, canary.checker
                    );
                }
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

/// Returns true if a test finds the fault, or `NOT_FOUND` explains why none does.
fn is_covered(fault: &str) -> bool {
    canaries().iter().any(|canary| canary.name == fault)
        || ENUMERATED.contains(&fault)
        || NOT_FOUND.iter().any(|(missed, _)| *missed == fault)
}

#[test]
fn every_planted_fault_and_every_checker_has_its_canary() {
    for (fault, _) in planted() {
        assert!(is_covered(&fault), "{fault} has no checker");
    }
    for checker in CHECKERS {
        let has = canaries()
            .iter()
            .any(|canary| canary.checker == checker.name);
        assert!(has, "nothing shows that {} finds anything", checker.name);
    }
}

/// The rules of `docs/design/consistency.md`: the flag with which a model of one row leaves the
/// rule out, if it has one, the planted fault that breaks the rule, and the rule.
///
/// The model's flag `keeplost` has no fault. Without its rule, that blocks written by a replay
/// leave the list of lost blocks, no legal history changes; an engine test covers it instead.
const RULES: &str = "
norecord SkipFailureRecord the record of missing members is durable before a replay begins
novoid KeepReplayed replayed records are void once the array serves
nolacks ForgetDoubt a member that goes out lacks the regions in doubt
settlelazy SettleUnflushed rows are settled durably before a read or a logged write
endrel FilledUnlogged records have a part for a device that is being filled
endrel JoinUnvoided records older than the member of a position are void
early UnloggedEarly writes stay logged until the member's activity is durable
placefirst SkipFailureRecord a failure is durable before a write is placed without the member
pagesearly EntriesEarly a logged write changes checksums after its record is durable
noflushout OutUnflushed unlogged writes are durable before the record that a member is out
hold OutWhileUnlogged no unlogged write runs between that flush and the record
one TryOnce a replay tries every choice of blocks to reconstruct
agree TrustAgreement parity is compared even if all checksums agree
norot DropBroken a torn record counts if a row sum proves it
infer PlaceInferred a proved record is logged whole before it is placed
nolast ForgetRotten the log's checksum of a block that rotted there is kept
listack ForgetBadBlocks lost blocks leave the list durably before a write to them is answered
clearuns ClearBitUnsettled the dirty bit of an unsettled region stays
clearrace ClearBitRace the dirty bit stays if a write came meanwhile
fuadata FlushDataOnly a durable whole row includes its parity
order2 DropStripeLock rows stay locked until their blocks are in place
- TrustRecovered a row sum proves reconstructed blocks
- LinearRowSum the row sum is not linear in the checksums
- WholeOverLive a whole row over logged rows is logged
- SkipPagesOfFlush a flush writes the checksums first
- SkipPagesOfDurable a durable write writes the checksums first
- SkipRegionMark a dirty bit is durable before its region is written
- ClearBitEarly a dirty bit is cleared after all writes of its region are flushed
- DegradedUnlogged a whole row without a member is logged
- ReuseJournalUnflushed blocks in place are flushed before log space is used again
- SkipZeroing a region is zeroed before its first write
- TrustEmptyJournal a log whose device is missing is not an empty log
- KeepUnlogged a block without a logged part is computed from the rest of its row
";

#[test]
fn every_rule_has_a_checker() {
    for rule in RULES.trim().lines() {
        let fault = rule.split_whitespace().nth(1).expect("a fault");
        assert!(is_covered(fault), "{rule}: no checker");
        assert!(
            planted().iter().any(|(name, _)| name == fault),
            "{rule}: no such fault"
        );
    }
}

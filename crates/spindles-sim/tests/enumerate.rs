//! Small arrays, enumerated: see `docs/testing.md`.

#![allow(clippy::print_stdout, reason = "the figures")]

use spindles_engine::{POLICIES, WriteHole};
use spindles_layout::{LEVELS, Redundancy};
use spindles_sim::enumerate::{Bounds, Scenario, Summary, explore, scenarios};

/// Every `of`-th scenario from `first` on.
fn enumerate(bounds: &Bounds, first: usize, of: usize) -> Summary {
    let mut total = Summary::default();
    for scenario in scenarios(bounds).iter().skip(first).step_by(of) {
        // A crash of a replay is a test of its own, of fewer scenarios: there are many states.
        let crashes = match scenario.policy().write_hole {
            WriteHole::Closed => 1,
            WriteHole::Open | WriteHole::Refused => bounds.crashes,
        };
        let bounds = Bounds { crashes, ..*bounds };
        total.add(explore_all(scenario, &bounds));
    }
    println!("{total}");
    total
}

fn explore_all(scenario: &Scenario, bounds: &Bounds) -> Summary {
    let summary = explore(scenario, bounds);
    if let Some(finding) = summary.findings.first() {
        panic!("{finding}");
    }
    summary
}

fn check(total: &Summary) {
    let enough = total.states > STATES_MIN && total.old > 0 && total.new > 0 && total.refused > 0;
    assert!(enough, "{total}");
}

const STATES_MIN: u64 = 50_000;

#[test]
fn small_arrays_keep_all_promises_first_half() {
    check(&enumerate(&Bounds::SHORT, 0, 2));
}

#[test]
fn small_arrays_keep_all_promises_second_half() {
    check(&enumerate(&Bounds::SHORT, 1, 2));
}

/// Also when the replay of the journals crashes, and another member is missing at the next opening.
#[test]
fn a_closed_write_hole_stays_closed_when_the_recovery_crashes() {
    for scenario in scenarios(&Bounds::SHORT) {
        if scenario.policy().write_hole == WriteHole::Closed {
            explore_all(&scenario, &Bounds::SHORT);
        }
    }
}

/// The smallest array with a parity that moves.
const ARRAY: &str = "raid5:left-symmetric(3) journal";

/// The scenario of these words.
fn named(name: &str, bounds: &Bounds) -> Scenario {
    let bounds = Bounds {
        member_writes_max: u32::MAX,
        ..*bounds
    };
    let mut all = scenarios(&bounds).into_iter();
    let found = all.find(|scenario| scenario.to_string() == name);
    found.unwrap_or_else(|| panic!("there is no scenario {name}"))
}

/// Whole stripes, of which the journal holds checksums only, by themselves and on an array that is
/// degraded already, where a small durable write comes into the same rows: with members missing after
/// the crash some blocks answer errors.
#[test]
fn whole_stripes_lose_nothing_but_what_was_being_written() {
    let once = Bounds {
        crashes: 1,
        ..Bounds::SHORT
    };
    let mut total = Summary::default();
    for (events, bounds) in [
        (": write 0+4, close", Bounds::SHORT),
        (" without {0}: write 0+4, write durably 1+2", once),
    ] {
        let scenario = named(&format!("{ARRAY}{events}"), &bounds);
        total.add(explore_all(&scenario, &bounds));
    }
    println!("{total}");
    assert!(
        total.errors > 0 && total.old > 0 && total.new > 0,
        "{total}"
    );
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
            let policy = format!(") {}", policy.name);
            let mut names = names.iter();
            let has = names.any(|name| name.starts_with(level.name) && name.contains(&policy));
            assert!(has, "{level}{policy}");
        }
    }
}

#[test]
fn an_enumeration_is_the_same_twice() {
    let bounds = Bounds::SHORT;
    for scenario in scenarios(&bounds).iter().take(3) {
        assert_eq!(explore(scenario, &bounds), explore(scenario, &bounds));
    }
}

/// Planted faults that show in what a crash leaves, each found on the way through the scenarios of
/// the smallest array, which the engine without a fault passes.
#[cfg(feature = "canary")]
#[test]
fn planted_faults_are_found() {
    use spindles_engine::Mutation;
    let faults = [
        Mutation::SkipFlush,
        Mutation::SkipFua,
        Mutation::SkipDirtyMark,
        Mutation::SkipSettle,
        Mutation::SkipOpeningFlush,
        Mutation::SkipFailureRecord,
        Mutation::SettleInCache,
        Mutation::CloseUnflushed,
    ];
    let mut missed = Vec::new();
    for mutation in faults {
        let bounds = Bounds {
            mutation,
            member_writes_max: 8,
            ..Bounds::SHORT
        };
        let all = scenarios(&bounds);
        let array = |scenario: &Scenario| scenario.to_string().split(' ').next().map(str::to_owned);
        let smallest = array(&all[0]);
        let mut tried = 0;
        let mut smallest = all.iter().filter(|scenario| array(scenario) == smallest);
        let found = smallest.find_map(|scenario| {
            tried += 1;
            explore(scenario, &bounds).findings.into_iter().next()
        });
        match found {
            Some(finding) => println!("{mutation:?}: scenario {tried}: {finding}"),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// What is planted in how whole stripes are logged shows in few scenarios: each is found in the one
/// that is named, which the engine without a fault passes.
#[cfg(feature = "canary")]
#[test]
fn planted_faults_of_whole_stripes_are_found() {
    use spindles_engine::Mutation;
    for (mutation, events, crashes) in [
        (Mutation::TrustIntents, "write 0+4, flush", 1),
        (
            Mutation::ReplaySuperseded,
            "write durably 0+1, write 0+4",
            1,
        ),
        (Mutation::SkipIntentFlush, "write 0+4, write durably 0+1", 1),
        (Mutation::ForgetLost, "write 0+4, close", 2),
    ] {
        let bounds = Bounds {
            crashes,
            mutation,
            ..Bounds::SHORT
        };
        let scenario = named(&format!("{ARRAY}: {events}"), &bounds);
        let summary = explore(&scenario, &bounds);
        let finding = summary.findings.first();
        println!("{mutation:?}: {} states: {finding:?}", summary.states);
        assert!(finding.is_some(), "{mutation:?}: {summary}");
    }
}

//! Every workload: its exact operations, counts and bounds.

extern crate std;

use super::*;
use crate::issue::{Issue, Next};
use crate::plan::{Counted, Params, Plan};
use spindles_block::Operation;
use std::collections::BTreeSet;
use std::format;
use std::string::{String, ToString as _};
use std::vec;
use std::vec::Vec;

/// Runs a plan to its end; completes the operation in flight that `pick` selects.
fn run(plan: &Plan, mut pick: impl FnMut(&[Issue]) -> usize) -> Vec<Issue> {
    let mut workload = plan.start();
    let mut in_flight: Vec<Issue> = Vec::new();
    let mut all = Vec::new();
    loop {
        match workload.next() {
            Next::Issue(issue) => {
                assert!(in_flight.iter().all(|other| other.id != issue.id));
                assert!(in_flight.iter().all(|other| other.actor != issue.actor));
                in_flight.push(issue);
                all.push(issue);
            }
            Next::Wait => {
                let index = pick(&in_flight);
                workload.complete(in_flight.remove(index).id);
            }
            Next::Done => {
                assert!(in_flight.is_empty());
                assert_eq!(workload.next(), Next::Done);
                return all;
            }
        }
    }
}

fn oldest_first(plan: &Plan) -> Vec<Issue> {
    run(plan, |_| 0)
}

/// Formats operations: `r3@1#5` means that actor 3 reads chunk 1 and touches integer 5. A stream
/// other than 0 is a prefix.
fn text(plan: &Plan, issues: &[Issue]) -> String {
    let one = |issue: &Issue| {
        let stream = match issue.stream {
            0 => String::new(),
            stream => format!("{stream}:"),
        };
        let letter = match issue.operation {
            Operation::Read => "r",
            _ => "w",
        };
        let chunk = issue.offset_bytes / u64::from(plan.chunk_bytes);
        let touch = issue.touch.map_or(String::new(), |int| format!("#{int}"));
        format!("{stream}{letter}{}@{chunk}{touch}", issue.actor)
    };
    issues.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn small(name: &str, params: Params) -> Plan {
    let kind = by_name(name).unwrap();
    let chunk = params.chunk_bytes.unwrap_or(kind.chunk_bytes);
    let params = Params {
        size_bytes: params.size_bytes * u64::from(chunk),
        ..params
    };
    kind.plan(&params).unwrap()
}

fn check(name: &str, params: Params, expected: &str) {
    let plan = small(name, params);
    assert_eq!(text(&plan, &oldest_first(&plan)), expected, "{name}");
}

#[test]
fn sequences() {
    let four = Params::new(4, 1);
    check("dd-read", four, "r0@0 r0@1 r0@2 r0@3");
    check("dd-write", four, "w0@0 w0@1 w0@2 w0@3");
    check("block-write", four, "w0@0#0 w0@1#1 w0@2#2 w0@3#3");
    check("block-read", four, "r0@0#0 r0@1#1 r0@2#2 r0@3#3");
    check("backward-read", four, "r0@3 r0@2 r0@1 r0@0");
    check(
        "rewrite",
        Params::new(3, 1),
        "r0@0 w0@0#0 r0@1 w0@1#1 r0@2 w0@2#2",
    );
    let two_in_flight = Params {
        in_flight: Some(2),
        ..four
    };
    check("dd-read", two_in_flight, "r0@0 r1@1 r0@2 r1@3");
    // The first operations of all streams come before any completion: the start barrier.
    let three_streams = Params {
        streams: 3,
        ..Params::new(2, 1)
    };
    check(
        "dd-parallel",
        three_streams,
        "r0@0 1:r1@0 2:r2@0 r0@1 1:r1@1 2:r2@1",
    );
    let few = |operations| Params {
        operations: Some(operations),
        ..Params::new(1000, 7)
    };
    check(
        "seeks",
        few(5),
        "r0@816 r1@614 r2@207 w0@816#155 w1@614#1071 w2@207#690 r0@862 r1@187",
    );
    check(
        "random-read",
        Params {
            in_flight: Some(2),
            ..few(4)
        },
        "r0@626 r1@83 r0@724 r1@290",
    );
    check(
        "random-write",
        Params {
            in_flight: Some(2),
            ..few(3)
        },
        "w0@398#355 w1@553#118 w0@459#654",
    );
}

/// The integer rotates through the chunk and starts over at its beginning.
#[test]
fn the_touched_integer_rotates() {
    let plan = small(
        "block-write",
        Params {
            chunk_bytes: Some(512),
            ..Params::new(300, 1)
        },
    );
    let touched: Vec<_> = oldest_first(&plan)
        .iter()
        .map(|i| i.touch.unwrap())
        .collect();
    let expected: Vec<_> = (0..300).map(|i| i % 128).collect();
    assert_eq!(touched, expected);
}

/// Bonnie's seeks in full: 4000 tickets, 3 seekers. Each seeker's 1st, 11th, 21st … chunk is
/// written back right after its read, by the same seeker, at the same offset.
#[test]
fn seeks_match_bonnie() {
    let plan = small("seeks", Params::new(12_800, 42));
    assert_eq!(
        (plan.actors(), plan.chunk_bytes, plan.operations),
        (3, 8192, 4000)
    );
    // Seeker 0 is slow: it draws fewer tickets than the others.
    let mut turn = 0;
    let issues = run(&plan, |in_flight| {
        turn += 1;
        let slow = in_flight.iter().position(|issue| issue.actor == 0);
        match (slow, turn % 7) {
            (Some(index), 0) => index,
            (Some(0), _) if in_flight.len() > 1 => 1,
            _ => 0,
        }
    });
    let reads = issues
        .iter()
        .filter(|i| i.operation == Operation::Read)
        .count();
    assert_eq!(reads, 4000);
    let mut drawn = vec![];
    for seeker in 0..3 {
        let own: Vec<_> = issues.iter().filter(|i| i.actor == seeker).collect();
        let mut rest = own.as_slice();
        let mut tickets = 0;
        while let [read, tail @ ..] = rest {
            assert_eq!((read.operation, read.touch), (Operation::Read, None));
            rest = tail;
            if tickets % 10 == 0 {
                let [write, tail @ ..] = rest else {
                    panic!("seeker {seeker} did not write back its ticket {tickets}");
                };
                assert_eq!(write.operation, Operation::Write { fua: false });
                assert_eq!(write.offset_bytes, read.offset_bytes);
                assert!(write.touch.unwrap() < 2048);
                rest = tail;
            }
            tickets += 1;
        }
        drawn.push(tickets);
    }
    assert_eq!(drawn.iter().sum::<usize>(), 4000);
    assert!(drawn[0] < drawn[1] && drawn[0] < drawn[2], "{drawn:?}");
    let writes: usize = drawn.iter().map(|tickets| tickets.div_ceil(10)).sum();
    assert_eq!(issues.len(), 4000 + writes);
    // Uniform: all tenths of the target are hit about equally.
    let mut tenths = [0_u32; 10];
    for issue in issues.iter().filter(|i| i.operation == Operation::Read) {
        let tenth = issue.offset_bytes * 10 / plan.size_bytes;
        tenths[usize::try_from(tenth).unwrap()] += 1;
    }
    assert!(
        tenths.iter().all(|&n| (320..480).contains(&n)),
        "{tenths:?}"
    );
}

/// For every kind: the name is unique, and all operations are within the size, aligned, and of the
/// declared direction. Sequential kinds touch every chunk once.
#[test]
fn every_kind_keeps_its_bounds() {
    let mut names = BTreeSet::new();
    for kind in KINDS {
        assert!(names.insert(kind.name));
        assert!(kind.summary().len() <= 80, "{}", kind.name);
        let params = Params {
            streams: 2,
            operations: kind.operations.map(|_| 500),
            ..Params::new(u64::from(kind.chunk_bytes) * 64 + 511, 3)
        };
        let plan = kind.plan(&params).unwrap();
        assert_eq!(plan.chunks(), 64);
        let issues = oldest_first(&plan);
        assert_eq!(issues.iter().any(|i| i.operation.is_write()), kind.writes);
        for issue in &issues {
            assert_eq!(issue.bytes, plan.chunk_bytes);
            assert!(issue.offset_bytes.is_multiple_of(u64::from(issue.bytes)));
            assert!(issue.offset_bytes + u64::from(issue.bytes) <= plan.size_bytes);
            assert!(issue.actor < plan.actors() && issue.stream < plan.streams);
            assert!(issue.touch.is_none_or(|int| int < issue.bytes / 4));
        }
        let counted = |read: bool| {
            let of_kind = |i: &&Issue| (i.operation == Operation::Read) == read;
            u64::try_from(issues.iter().filter(of_kind).count()).unwrap()
        };
        let count = match kind.counted {
            Counted::ReadBytes | Counted::Reads => counted(true),
            Counted::WrittenBytes | Counted::Writes => counted(false),
            Counted::Operations => counted(true) + counted(false),
        };
        assert_eq!(
            count,
            plan.operations * u64::from(plan.streams),
            "{}",
            kind.name
        );
        if kind.operations.is_none() {
            let places: BTreeSet<_> = issues.iter().map(|i| (i.stream, i.offset_bytes)).collect();
            assert_eq!(places.len(), 64 * usize::try_from(plan.streams).unwrap());
        }
    }
}

/// The same seed gives the same operations; another seed gives others.
#[test]
fn seeds_replay() {
    for kind in KINDS.iter().filter(|kind| kind.operations.is_some()) {
        let with = |seed| oldest_first(&small(kind.name, Params::new(4096, seed)));
        assert_eq!(with(5), with(5), "{}", kind.name);
        assert_ne!(with(5), with(6), "{}", kind.name);
    }
}

#[test]
fn invalid_choices_are_named() {
    let check = |name: &str, params: Params, expected: &str| {
        let error = by_name(name).unwrap().plan(&params).unwrap_err();
        assert_eq!(format!("{error}"), expected);
    };
    let base = Params::new(1 << 20, 1);
    check(
        "dd-read",
        Params::new(1000, 1),
        "a size of 1000 bytes does not hold one chunk of 1048576 bytes: choose a larger size or a \
         smaller chunk",
    );
    check(
        "seeks",
        Params {
            chunk_bytes: Some(1000),
            ..base
        },
        "a chunk of 1000 bytes is not possible: choose a multiple of 512",
    );
    check(
        "seeks",
        Params {
            in_flight: Some(0),
            ..base
        },
        "0 operations in flight are not possible: choose 1 to 1024",
    );
    check(
        "dd-parallel",
        Params {
            streams: 65,
            ..base
        },
        "65 targets at once are not possible: choose 1 to 64",
    );
    check(
        "rewrite",
        Params {
            operations: Some(9),
            ..base
        },
        "rewrite goes through the whole size once, so the number of operations can't be chosen: \
         choose the size instead",
    );
    check(
        "seeks",
        Params {
            operations: Some(0),
            ..base
        },
        "a run of 0 operations has no result: choose at least 1",
    );
    let plan = by_name("random-read").unwrap();
    let plan = plan.plan(&Params::new(9000, 1)).unwrap();
    assert_eq!(plan.check_size(8192), Ok(()));
    assert_eq!(
        plan.check_size(9000).unwrap_err().to_string(),
        "a size of 9000 bytes is not a multiple of an operation's 4096 bytes: choose 8192 or 12288"
    );
    assert!(by_name("bonnie").is_none());
}

/// A summary describes the plan, not the kind's defaults.
#[test]
fn summaries_state_the_chosen_parameters() {
    for kind in KINDS {
        let params = Params {
            chunk_bytes: Some(20 << 10),
            in_flight: Some(17),
            operations: kind.operations.map(|_| 4321),
            ..Params::new(1 << 20, 1)
        };
        let summary = kind.plan(&params).unwrap().summary();
        for words in ["20 KiB", "17"] {
            assert!(summary.contains(words), "{}: {summary}", kind.name);
        }
        assert!(!summary.contains("one at a time"), "{summary}");
    }
    let one = Params {
        in_flight: Some(1),
        ..Params::new(1 << 20, 1)
    };
    let kind = crate::by_name("random-read").unwrap();
    let summary = kind.plan(&one).unwrap().summary();
    assert_eq!(summary, "reads 4 KiB at random places, one at a time");
}

/// The chosen percentage of operations are reads, and endless workloads start over.
#[test]
fn mixed_and_endless() {
    let kind = by_name("random-mixed").unwrap();
    let plan = kind
        .plan(&Params {
            read_percent: Some(25),
            ..Params::new(1 << 30, 1)
        })
        .unwrap();
    let issues = oldest_first(&plan);
    let reads = issues
        .iter()
        .filter(|issue| issue.operation == Operation::Read)
        .count();
    assert_eq!(issues.len(), 8192);
    assert!((1900..2200).contains(&reads), "{reads}");
    for name in ["dd-read", "random-read", "seeks"] {
        let params = Params {
            endless: true,
            ..Params::new(4 << 20, 1)
        };
        let plan = by_name(name).unwrap().plan(&params).unwrap();
        let mut workload = plan.start();
        let mut asked = 0;
        while asked < 20_000 {
            match workload.next() {
                Next::Issue(issue) => {
                    asked += 1;
                    assert!(issue.offset_bytes < 4 << 20);
                    workload.complete(issue.id);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    let wrong = |params: Params| kind.plan(&params).unwrap_err().to_string();
    let both = Params {
        endless: true,
        operations: Some(5),
        ..Params::new(1 << 20, 1)
    };
    assert!(wrong(both).contains("leave one of the two out"));
    let percent = Params {
        read_percent: Some(101),
        ..Params::new(1 << 20, 1)
    };
    assert!(wrong(percent).contains("choose 0 to 100"));
}

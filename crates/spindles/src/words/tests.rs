//! Every text that names commands: the command line accepts each of them.

use super::{errors, report, wipe};
use crate::commands::command_line;
use spindles_admin::assemble::{
    ArrayReport, AssembleError, AssembleOptions, GivenUp, Growing, JournalReport, MemberReport,
    assemble,
};
use spindles_admin::attach::{ChangeError, OwnRole};
use spindles_admin::create::{CreateError, CreateOptions, create};
use spindles_admin::survey::FreedBy;
use spindles_admin::wipe::{Loss, LossKind, Without};
use spindles_array::errors::AttachError;
use spindles_block::{MemberIndex, MemberSet, SizeBytes};
use spindles_copy::CopyError;
use spindles_device::OpenError;
use spindles_engine::{CommandError, PlanError, Role};
use spindles_format::{AssembleError as ChooseError, Half, Uuid};
use spindles_lab::RecordsError;
use spindles_lab_web::ServeError;
use spindles_layout::Expression;
use spindles_measure::ReadError;
use std::error::Error;

/// Checks that the text names these commands, and that the command line accepts each.
fn names(text: &str, commands: &[&str]) {
    let quoted = text.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted
        .filter(|quoted| quoted.starts_with("spindles "))
        .collect();
    assert_eq!(named, commands, "{text}");
    for command in named {
        // The texts name these without arguments.
        let arguments: &[&str] = match command {
            "spindles copy" | "spindles copy --rescue" | "spindles fail" | "spindles remove" => {
                &["DEV", "DEV"]
            }
            "spindles journal remove" => &["--array", "DEV"],
            "spindles replace" => &["DEV", "DEV", "--onto", "DEV"],
            "spindles spare add" => &["DEV", "--array", "DEV"],
            "spindles spare remove" => &["DEV"],
            _ => &[],
        };
        let words = command.split(' ').chain(arguments.iter().copied());
        // `N` stands for the number of a member.
        let words = words.map(|word| if word == "N" { "1" } else { word });
        let parsed = command_line().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
    }
}

/// Returns the report on an array 'pool' of two copies, with the device that is missing from it.
fn degraded() -> (ArrayReport, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let devices = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(8 << 20).expect("its length");
        path.into_os_string().into_string().expect("UTF-8")
    });
    let [here, missing] = devices;
    let expression = Expression::parse(&format!("raid1({here},{missing})")).expect("one");
    let created = create(&expression, &CreateOptions::new("pool"), &mut |_, _| true);
    created.expect("it is created");
    let mut options = AssembleOptions::default();
    options.open.read_only = true;
    let assembled = assemble(&[&here], &options).expect("it is there");
    (assembled.report, missing)
}

const MISSING: MemberReport = MemberReport::Missing {
    out_since: None,
    held_out: false,
};

fn second() -> MemberSet {
    MemberSet::EMPTY.with(MemberIndex(1))
}

/// Returns the warnings on the array after a change, and its remedy.
fn warned(change: impl FnOnce(&mut ArrayReport)) -> (String, Option<String>) {
    let (mut array, _) = degraded();
    change(&mut array);
    (report::warnings(&array).join("\n"), report::remedy(&array))
}

#[test]
fn warnings_name_commands_that_exist() {
    let (asked, _) = warned(|_| ());
    names(&asked, &[]);
    assert!(
        asked.contains("what is away could have gone on alone"),
        "{asked}"
    );
    let (journal, _) = warned(|array| {
        array.given_up = GivenUp::default();
        array.journal = JournalReport::DeviceMissing;
    });
    let commands = [
        "spindles journal add DEV --array pool",
        "spindles journal remove --array pool",
    ];
    names(&journal, &commands);
    let (failed, remedy) = warned(|array| array.failed = true);
    names(&failed, &["spindles copy --rescue"]);
    assert_eq!(remedy, None);
    let (resync, _) = warned(|array| {
        array.given_up = GivenUp::default();
        array.clean = false;
    });
    names(&resync, &["spindles resync pool"]);
    let (doubt, _) = warned(|array| {
        array.clean = false;
        array.given_up.last_writes = second();
    });
    names(&doubt, &["spindles resync pool --degraded"]);
    let (growing, _) = warned(|array| {
        array.given_up = GivenUp::default();
        array.growing = Some(growing_from(1));
    });
    names(&growing, &["spindles grow pool"]);
    let (mut array, _) = degraded();
    array.lost_bytes = 4096;
    names(&report::lost_texts(&array)[0], &["spindles examine pool"]);
    array.scrub_left_bytes = 4096;
    names(&report::left_by_scrub(&array)[0], &["spindles scrub pool"]);
}

fn growing_from(members: usize) -> Growing {
    Growing {
        level: "raid1".to_owned(),
        members,
        chunk_bytes: 4096,
        moved_bytes: 0,
    }
}

/// A change of a report.
type Change<'a> = &'a dyn Fn(&mut ArrayReport);

#[test]
fn remedies_for_missing_members_are_commands_that_exist() {
    let device = || vec![(MemberIndex(1), "b".to_owned())];
    let back = ["spindles add DEV pool", "spindles rebuild pool --onto DEV"];
    let cases: [(Change<'_>, &[&str]); 8] = [
        (&|_| (), &back),
        (
            &|array| array.given_up.last_writes = second(),
            &["spindles rebuild pool --onto DEV"],
        ),
        (
            &|array| array.growing = Some(growing_from(1)),
            &["spindles grow pool --add DEV", "spindles grow pool --abort"],
        ),
        (
            &|array| array.held_out = device(),
            &["spindles add b pool", "spindles rebuild pool --onto DEV"],
        ),
        (
            &|array| array.returning = device(),
            &["spindles rebuild pool"],
        ),
        (
            &|array| array.stale = device(),
            &["spindles rebuild pool --onto b --force"],
        ),
        (
            &|array| array.outrun = device(),
            &["spindles rebuild pool --onto b --force"],
        ),
        (
            &|array| array.truncated = vec![(MemberIndex(1), "b".to_owned(), SizeBytes(1 << 20))],
            &[
                "spindles wipe b --force",
                "spindles rebuild pool --onto b --force",
            ],
        ),
    ];
    for (change, commands) in cases {
        let (_, remedy) = warned(|array| {
            array.given_up = GivenUp::default();
            array.degraded_writes = true;
            change(array);
        });
        names(&remedy.expect("one"), commands);
    }
}

/// An array that stopped writing has failed; it is not merely degraded.
#[test]
fn an_array_that_stopped_writing_is_not_called_degraded() {
    let (message, _) = warned(|array| {
        array.stopped_writing = true;
        array.members[0] = MISSING;
    });
    let text = "'pool' has failed (members 0 and 1 of 2 missing)";
    assert!(message.contains(text), "{message}");
    assert!(!message.contains("degraded"), "{message}");
}

#[test]
fn remedies_of_errors_are_commands_that_exist() {
    let pool = || "pool".to_owned();
    let device = || "b".to_owned();
    let grow = |reason| AssembleError::CantGrow {
        array: pool(),
        reason,
    };
    let nothing = ChangeError::NothingToRebuild(Box::new(degraded().0));
    let cases: Vec<(Box<dyn Error>, &[&str])> = vec![
        (
            Box::new(AssembleError::TwoJournals {
                first: "a".to_owned(),
                second: device(),
                older: None,
            }),
            &["spindles wipe b"],
        ),
        (
            Box::new(AssembleError::Incomplete {
                array: pool(),
                survives: "raid1 survives".to_owned(),
                missing: "members 0 and 1".to_owned(),
                members: 2,
                refused: Vec::new(),
            }),
            &["spindles copy --rescue"],
        ),
        (
            Box::new(AssembleError::MayBeNewer {
                array: pool(),
                missing: "member 1".to_owned(),
                members: 2,
                last_written_s: 0,
                holds_last_writes: true,
                forced: true,
                refused: Vec::new(),
            }),
            &["spindles set pool --degraded-writes allow --degraded"],
        ),
        (
            Box::new(ChangeError::Assemble(AssembleError::HoldsLastWrites {
                array: pool(),
                missing: "member 1".to_owned(),
                members: 2,
                forced: false,
                refused: Vec::new(),
            })),
            &[
                "spindles copy",
                "spindles set pool --degraded-writes allow --degraded",
            ],
        ),
        (
            Box::new(grow(PlanError::Degraded)),
            &["spindles status pool"],
        ),
        (
            Box::new(grow(PlanError::Unclean)),
            &["spindles resync pool"],
        ),
        (
            Box::new(AssembleError::TooLate { array: pool() }),
            &["spindles grow pool"],
        ),
        (
            Box::new(nothing),
            &[
                "spindles add DEV pool --degraded",
                "spindles rebuild pool --degraded --onto DEV",
            ],
        ),
        (
            Box::new(ChangeError::MemberLost {
                array: pool(),
                old: "a".to_owned(),
                onto: device(),
            }),
            &["spindles rebuild pool"],
        ),
        (
            Box::new(ChangeError::Own {
                array: pool(),
                device: device(),
                role: OwnRole::Spare,
            }),
            &["spindles spare remove b"],
        ),
        (
            Box::new(ChangeError::ComesBack {
                array: pool(),
                device: device(),
            }),
            &["spindles add b pool"],
        ),
        (
            Box::new(ChangeError::Growing { array: pool() }),
            &["spindles grow pool", "spindles grow pool --abort"],
        ),
        (
            Box::new(ChangeError::NotWhole {
                array: pool(),
                members: "member 1".to_owned(),
            }),
            &["spindles status pool", "spindles rebuild pool --onto DEV"],
        ),
        (
            Box::new(ChangeError::GrowthOut {
                array: pool(),
                member: MemberIndex(1),
            }),
            &["spindles grow pool --add DEV"],
        ),
        (
            Box::new(ChangeError::HasJournal {
                array: pool(),
                device: device(),
            }),
            &["spindles journal remove --array pool"],
        ),
        (
            Box::new(ChangeError::OutUnrecorded {
                array: pool(),
                member: MemberIndex(1),
                server_ended: true,
            }),
            &["spindles status pool"],
        ),
        (
            Box::new(ChangeError::NoSpare { device: device() }),
            &["spindles status ARRAY"],
        ),
        (
            Box::new(ChangeError::NoSpareOf {
                device: device(),
                array: pool(),
                shared: true,
            }),
            &["spindles spare remove b"],
        ),
        (
            Box::new(CreateError::Spare {
                device: device(),
                source: OpenError::NoName,
            }),
            &["spindles spare add b --array ARRAY"],
        ),
        (
            Box::new(CopyError::Read {
                name: pool(),
                offset_bytes: 0,
                reason: "these blocks are lost".to_owned(),
                is_lost: true,
            }),
            &["spindles examine pool"],
        ),
        (
            Box::new(RecordsError::None("results".into())),
            &["spindles lab run"],
        ),
        (
            Box::new(ServeError::Folder {
                folder: "results".into(),
                source: std::io::ErrorKind::NotFound.into(),
            }),
            &["spindles lab run"],
        ),
        (
            Box::new(ReadError::Mixed {
                first: 1,
                line: 2,
                what: "name".to_owned(),
            }),
            &["spindles lab compare BEFORE AFTER"],
        ),
    ];
    for (error, commands) in cases {
        names(&errors::text(&*error), commands);
    }
    let released = |by| format!("`{}`", errors::releases(&by, "b"));
    names(
        &released(FreedBy::Removal(pool())),
        &["spindles remove b pool"],
    );
    names(&released(FreedBy::Stop(pool())), &["spindles stop pool"]);
}

#[test]
fn remedies_for_refused_devices_are_commands_that_exist() {
    let device = || "b".to_owned();
    let stays = |reason| AttachError::StaysIn {
        array: "pool.0".to_owned(),
        outermost: "pool".to_owned(),
        device: device(),
        reason,
    };
    let in_use = |role| AttachError::InUse {
        array: "pool".to_owned(),
        device: device(),
        role,
    };
    let half = |name: &str| Half {
        devices: vec![name.to_owned()],
        last_written_s: 0,
    };
    let split = ChooseError::SplitBrain {
        one: half("a"),
        other: half("b"),
        parted: Some(1),
    };
    let member = MemberIndex(1);
    let cases: Vec<(Box<dyn Error>, &[&str])> = vec![
        (
            Box::new(AttachError::NothingMissing),
            &["spindles replace", "spindles spare add"],
        ),
        (
            Box::new(AttachError::NotReturning { device: device() }),
            &["spindles rebuild ARRAY --onto b"],
        ),
        (
            Box::new(AttachError::NotOut {
                device: device(),
                out: Vec::new(),
            }),
            &["spindles fail"],
        ),
        (Box::new(in_use(Role::Active(member))), &["spindles fail"]),
        (Box::new(in_use(Role::Filling(member))), &["spindles fail"]),
        (
            Box::new(in_use(Role::Journal)),
            &["spindles journal remove"],
        ),
        (Box::new(in_use(Role::Out(member))), &["spindles remove"]),
        (Box::new(in_use(Role::Spare)), &["spindles spare remove"]),
        (Box::new(in_use(Role::Joining(member))), &[]),
        (Box::new(in_use(Role::Replaced(member))), &[]),
        (Box::new(in_use(Role::Replacement(member))), &[]),
        (Box::new(in_use(Role::Stranger)), &[]),
        (
            Box::new(stays(CommandError::BeyondTolerance)),
            &["spindles replace b pool --onto DEV", "spindles status pool"],
        ),
        (
            Box::new(stays(CommandError::AlreadyOut)),
            &["spindles remove b pool", "spindles add b pool"],
        ),
        (
            Box::new(AssembleError::Choose(split)),
            &[
                "spindles rebuild a --onto b --force",
                "spindles rebuild b --onto a --force",
            ],
        ),
    ];
    for (error, commands) in cases {
        names(&errors::text(&*error), commands);
    }
}

#[test]
fn losses_by_a_wipe_are_described() {
    let member = |without| LossKind::Member(MemberIndex(1), without);
    let unreadable = Without::Unreadable {
        others: true,
        around: Some("lake".to_owned()),
    };
    let cases = [
        (LossKind::Spare, "array 'pool' (0) loses a spare"),
        (
            LossKind::MemberOut(MemberIndex(1)),
            "array 'pool' (0) goes on without it as member 1 already, and loses nothing",
        ),
        (
            member(Without::Degraded(0)),
            "array 'pool' (0) loses member 1; the array is degraded then: it is not safe from \
             further losses",
        ),
        (
            member(Without::Needs(second())),
            "array 'pool' (0) loses member 1; the array can't be read then unless member 1 can be \
             found",
        ),
        (
            member(Without::Gone),
            "array 'pool' (0) loses member 1, and all others: the array is gone then, with all \
             that it holds",
        ),
        (
            member(unreadable),
            "array 'pool' (0) loses member 1, leaving too few: the array can't be read then, and \
             array 'lake' around it loses a member",
        ),
        (
            LossKind::OldJournal,
            "array 'pool' (0) has no journal there any more, and loses nothing",
        ),
        (
            LossKind::JournalCopy("j".to_owned()),
            "j has the same journal of array 'pool' (0): one is a copy of the other, and the array \
             goes on with the one that is left",
        ),
        (
            LossKind::Journal,
            "array 'pool' (0) loses the device of its journal: `spindles journal remove --array \
             pool` takes it away in order",
        ),
    ];
    for (what, expected) in cases {
        let loss = Loss {
            name: Some("pool".to_owned()),
            array: Uuid::NIL,
            what,
        };
        let text = wipe::losses(&[loss], wipe::Tense::Future).remove(0);
        let nil = format!("({})", Uuid::NIL);
        assert_eq!(text.replace(&nil, "(0)"), expected);
    }
}

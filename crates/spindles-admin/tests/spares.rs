//! Spares of an array in use: a spare replaces a member as soon as the member is out, and the next
//! spare replaces the first if that fails too.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Devices, pattern, place, read_only, run, strs};
use spindles_admin::assemble::{AssembleOptions, Assembled, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_array::Target;
use spindles_block::{MemberIndex, Operation};
use spindles_engine::{ArrayState, Command, Event, OutReason};
use spindles_layout::Expression;
use std::fs::File;

const BYTES: u64 = 8 << 20;
const BLOCKS: u32 = 256;

fn folder(names: &[&str]) -> (Devices, Vec<String>) {
    let devices = Devices::new(names, BYTES);
    let paths = devices.paths(names);
    (devices, paths)
}

fn open(paths: &[&String]) -> Assembled {
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
    assemble(&paths, &AssembleOptions::default()).unwrap()
}

/// A raid5 of the first three devices, with the others as spares.
fn array(paths: &[String]) -> Assembled {
    let expression = Expression::parse(&format!("raid5({},{},{})", paths[0], paths[1], paths[2]));
    let options = CreateOptions {
        spares: paths[3..].to_vec(),
        ..CreateOptions::new("pool")
    };
    create(&expression.unwrap(), &options, &mut |_, _| true).unwrap();
    let mut assembled = open(&paths.iter().collect::<Vec<_>>());
    assert_eq!(assembled.report.spares.len(), paths.len() - 3);
    assert!(assembled.report.refused.is_empty());
    transfer(assembled.target.as_mut(), true);
    assembled
}

/// Writes or checks the beginning of the array.
fn transfer(target: &mut dyn Target, write: bool) {
    let buffer = target.allocate(BLOCKS);
    let wanted = pattern(1, target.buffer(buffer).len());
    if write {
        target.buffer_mut(buffer).copy_from_slice(&wanted);
    }
    let operation = if write {
        Operation::Write { fua: true }
    } else {
        Operation::Read
    };
    run(target, operation, 0, BLOCKS, place(buffer)).unwrap();
    assert!(target.buffer(buffer) == wanted);
}

fn is_healthy(target: &dyn Target) -> bool {
    target.status().unwrap().state == ArrayState::Healthy
}

/// Runs the target until this event.
fn until(target: &mut dyn Target, wanted: &Event) {
    loop {
        while let Some((_, event)) = target.next_event() {
            if event == *wanted {
                return;
            }
        }
        assert!(target.work(), "{wanted:?} does not come");
    }
}

fn out(member: MemberIndex) -> Event {
    let reason = OutReason::Command;
    Event::MemberOut { member, reason }
}

#[test]
fn spares_take_over_while_the_array_is_used() {
    let (_folder, paths) = folder(&["a", "b", "c", "s", "t"]);
    let mut target = array(&paths).target;
    let member = MemberIndex(1);
    target.command(Command::Fail(member)).unwrap();
    until(target.as_mut(), &Event::RebuildStarted { member });
    let taken = target.spares_taken();
    assert_eq!(taken.len(), 1);
    assert_eq!((&taken[0].device, taken[0].member), (&paths[3], member));
    assert_eq!(taken[0].error, None);
    // The spare fails before it is filled.
    target.command(Command::Fail(member)).unwrap();
    until(target.as_mut(), &Event::RebuildDone { member });
    let taken = target.spares_taken();
    assert_eq!(&taken[0].device, &paths[4]);
    assert!(
        target
            .facts()
            .devices
            .iter()
            .any(|device| device.name == paths[4])
    );
    assert!(is_healthy(target.as_ref()));
    transfer(target.as_mut(), false);
    // No spare is left.
    target.command(Command::Fail(member)).unwrap();
    until(target.as_mut(), &out(member));
    target.work();
    assert!(target.spares_taken().is_empty());
    target.close().unwrap();
    // The device that was out first is no longer a member. The failed spare isn't one either, and
    // may still be a spare if no superblock reached it.
    let report = assemble(&strs(&paths[..4]), &read_only()).unwrap().report;
    assert_eq!(report.refused.len() + report.spares.len(), 2);
    assert!(report.missing().contains(member));
    let mut target = open(&[&paths[0], &paths[2], &paths[4]]).target;
    transfer(target.as_mut(), false);
}

/// A spare that another program uses is left untouched.
#[test]
fn a_spare_in_use_is_left_alone() {
    let (_folder, paths) = folder(&["a", "b", "c", "s", "t"]);
    let mut target = array(&paths).target;
    let used = File::open(&paths[3]).unwrap();
    used.lock().unwrap();
    let before = std::fs::read(&paths[3]).unwrap();
    let member = MemberIndex(0);
    target.command(Command::Fail(member)).unwrap();
    until(target.as_mut(), &Event::RebuildDone { member });
    let taken = target.spares_taken();
    assert!(taken[0].error.as_ref().unwrap().contains("in use"));
    assert_eq!((&taken[1].device, &taken[1].error), (&paths[4], &None));
    target.close().unwrap();
    assert!(std::fs::read(&paths[3]).unwrap() == before);
}

/// Two arrays know the same shared spare: the second array finds the spare taken.
#[test]
fn a_spare_of_another_array_is_not_taken() {
    let (_folder, paths) = folder(&["a", "b", "c", "d", "e", "f", "s"]);
    for of in [&paths[..3], &paths[3..6]] {
        array(of).target.close().unwrap();
    }
    let shared = &paths[6];
    spindles_admin::spare::add(&[shared], spindles_admin::spare::For::All, false).unwrap();
    let open = |of: &[String]| open(&of.iter().chain([shared]).collect::<Vec<_>>()).target;
    let (mut one, mut other) = (open(&paths[..3]), open(&paths[3..6]));
    let member = MemberIndex(2);
    one.command(Command::Fail(member)).unwrap();
    until(one.as_mut(), &Event::RebuildDone { member });
    other.command(Command::Fail(member)).unwrap();
    until(other.as_mut(), &out(member));
    other.work();
    let taken = other.spares_taken();
    let why = taken[0].error.as_ref().unwrap();
    assert!(why.contains("not a spare of this array any more"), "{why}");
    one.close().unwrap();
    other.close().unwrap();
    let paths = [&paths[3], &paths[4], &paths[5], shared].map(String::as_str);
    let assembled = assemble(&paths, &AssembleOptions::default());
    assert!(assembled.is_err(), "it is a member of the other array");
}

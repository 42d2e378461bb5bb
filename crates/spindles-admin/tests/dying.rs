//! Tests with devices that die while the array is opened, after they answered the first look.

use crate::assemble::{AssembleOptions, Assembled, assemble};
use crate::create::{CreateOptions, create};
use spindles_block::{BlockIndex, BufferSlice, Operation, Request};
use spindles_engine::ArrayState;
use spindles_layout::Expression;
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};

thread_local! {
    /// The openings left before the device dies, the device, and whether it reads as zeros
    /// afterwards, as some do, instead of failing.
    static DIES: Cell<Option<(u32, PathBuf, bool)>> = const { Cell::new(None) };
}

const BYTES: u64 = 4 << 20;

/// Called when all devices of an array were examined and are about to be opened, first for reading,
/// then for writing. Kills the device, if one is due.
pub(crate) fn opening() {
    DIES.set(match DIES.take() {
        Some((0, device, answers_zeros)) => {
            let file = File::options().write(true).open(device).unwrap();
            file.set_len(4096).unwrap();
            if answers_zeros {
                file.set_len(0).unwrap();
                file.set_len(BYTES).unwrap();
            }
            None
        }
        Some((left, device, answers_zeros)) => Some((left - 1, device, answers_zeros)),
        None => None,
    });
}

/// Assembles an array, one of whose devices dies at that opening.
fn with_one_that_dies(
    folder: &Path,
    expression: &str,
    dies: &str,
    at: u32,
    answers_zeros: bool,
) -> Result<Assembled, String> {
    let names = made(folder, expression);
    dying(&names, &folder.join(dies), at, answers_zeros)
}

/// Creates an array of devices with one-letter names. Returns the devices.
fn made(folder: &Path, expression: &str) -> Vec<String> {
    let path = |name: &str| folder.join(name);
    let mut whole = String::new();
    let mut names = Vec::new();
    for word in expression.split_inclusive(['(', ',', ')']) {
        let (name, end) = word.split_at(word.len() - 1);
        if name.len() == 1 {
            File::create(path(name)).unwrap().set_len(BYTES).unwrap();
            names.push(path(name).to_str().unwrap().to_owned());
            whole.push_str(names.last().unwrap());
        } else {
            whole.push_str(name);
        }
        whole.push_str(end);
    }
    let options = CreateOptions::new("test");
    create(
        &Expression::parse(&whole).unwrap(),
        &options,
        &mut |_, _| true,
    )
    .unwrap();
    names
}

fn dying(names: &[String], dies: &Path, at: u32, answers_zeros: bool) -> Result<Assembled, String> {
    DIES.set(Some((at, dies.to_owned(), answers_zeros)));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let assembled = assemble(&names, &AssembleOptions::default());
    assert!(DIES.take().is_none(), "it died");
    assembled.map_err(|error| error.to_string())
}

/// The same opening leaves it out and names it.
#[test]
fn a_device_that_fails_during_opening_is_left_out() {
    for (expression, dies) in [
        ("raid1(a,b)", "a"),
        ("raid5(a,b,c)", "b"),
        ("raid1(raid0(a,b),raid0(c,d))", "c"),
        ("raid0(raid1(a,b),raid1(c,d))", "d"),
    ] {
        // Nested arrays are still unknown when they are opened for reading.
        let nested = expression.matches('(').count() > 1;
        for (at, answers_zeros) in (u32::from(nested)..2).flat_map(|at| [(at, false), (at, true)]) {
            let folder = tempfile::tempdir().unwrap();
            let assembled =
                with_one_that_dies(folder.path(), expression, dies, at, answers_zeros).unwrap();
            let warnings = assembled.report.refused.join("\n");
            let name = format!("/{dies}: it stopped answering while the array was opened");
            assert!(warnings.contains(&name), "{expression}: {warnings}");
            assert!(assembled.report.is_degraded(), "{expression}");
            let state = assembled.target.status().unwrap().state;
            assert_ne!(state, ArrayState::Failed, "{expression}");
            assembled.target.close().unwrap();
        }
    }
}

/// If too many members are missing, the refusal names it too.
#[test]
fn the_refusal_names_the_failed_device() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = with_one_that_dies(folder.path(), "raid0(a,b)", "b", 1, false).unwrap_err();
    assert!(refusal.contains("1 of 2 missing"), "{refusal}");
    assert!(refusal.contains("/b: it stopped answering"), "{refusal}");
}

/// After a crash it may hold unique data, although it is known not to be newer. Discarding that
/// takes permission.
#[test]
fn a_device_that_fails_after_a_crash_is_not_discarded_silently() {
    let folder = tempfile::tempdir().unwrap();
    let names = made(folder.path(), "raid5(a,b,c)");
    let devices: Vec<&str> = names.iter().map(String::as_str).collect();
    let assembled = assemble(&devices, &AssembleOptions::default()).unwrap();
    let mut target = assembled.target;
    let buffer = target.allocate(1);
    let request = Request {
        token: 0,
        operation: Operation::Write { fua: true },
        block: BlockIndex(0),
        blocks: 1,
        buffer: BufferSlice {
            buffer,
            first_block: 0,
        },
    };
    target.submit(request).unwrap();
    target.poll(true).unwrap().result.unwrap();
    drop(target);
    let refusal = dying(&names, &folder.path().join("b"), 0, false).unwrap_err();
    for text in [
        "was not closed in order",
        "lacks member 1 of 3",
        "/b: it stopped answering",
    ] {
        assert!(refusal.contains(text), "{refusal}");
    }
}

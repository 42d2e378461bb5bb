//! Tests with devices that die while the array is opened, after they answered the first look.

use crate::assemble::{AssembleOptions, Assembled};
use crate::common::{Devices, place, run};
use crate::create::CreateOptions;
use spindles_block::Operation;
use spindles_engine::ArrayState;
use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;

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

/// Creates an array of devices with one-letter names.
fn made(expression: &str) -> (Devices, Vec<&str>) {
    let words = expression.split(['(', ',', ')']);
    let names: Vec<&str> = words.filter(|word| word.len() == 1).collect();
    let devices = Devices::new(&names, BYTES);
    devices.create(expression, &CreateOptions::new("test"));
    (devices, names)
}

/// Assembles an array, one of whose devices dies at that opening.
fn dying(
    devices: &Devices,
    names: &[&str],
    dies: &str,
    at: u32,
    answers_zeros: bool,
) -> Result<Assembled, String> {
    DIES.set(Some((at, devices.path(dies).into(), answers_zeros)));
    let assembled = devices.assemble(names, &AssembleOptions::default());
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
            let (devices, names) = made(expression);
            let assembled = dying(&devices, &names, dies, at, answers_zeros).unwrap();
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
    let (devices, names) = made("raid0(a,b)");
    let refusal = dying(&devices, &names, "b", 1, false).unwrap_err();
    assert!(refusal.contains("1 of 2 missing"), "{refusal}");
    assert!(refusal.contains("/b: it stopped answering"), "{refusal}");
}

/// After a crash it may hold unique data, although it is known not to be newer. Discarding that
/// takes permission.
#[test]
fn a_device_that_fails_after_a_crash_is_not_discarded_silently() {
    let (devices, names) = made("raid5(a,b,c)");
    let assembled = devices.assemble(&names, &AssembleOptions::default());
    let mut target = assembled.unwrap().target;
    let buffer = target.allocate(1);
    let write = Operation::Write { fua: true };
    run(target.as_mut(), write, 0, 1, place(buffer)).unwrap();
    drop(target);
    let refusal = dying(&devices, &names, "b", 0, false).unwrap_err();
    for text in [
        "was not closed in order",
        "lacks member 1 of 3",
        "/b: it stopped answering",
    ] {
        assert!(refusal.contains(text), "{refusal}");
    }
}

//! Old copies of devices: their contents are never taken for later writes.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Devices, place, read_only, run};
use spindles_admin::assemble::{AssembleOptions, Assembled, examine};
use spindles_admin::create::CreateOptions;
use spindles_array::{Target, await_resync};
use spindles_block::Operation;
use spindles_engine::{POLICIES, Policy};
use spindles_format::ChecksumKind;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

const MIB: u64 = 1 << 20;
/// The start of the log on a journal device.
const LOG_BYTES: u64 = 65536;
const DEVICES: [&str; 3] = ["a", "b", "c"];

/// Creates an array of three devices.
fn made(level: &str, options: &CreateOptions) -> Devices {
    let folder = Devices::new(&DEVICES, MIB);
    folder.create(&format!("{level}(a,b,c)"), options);
    folder
}

fn open(folder: &Devices, names: &[&str]) -> Result<Assembled, String> {
    let assembled = folder.assemble(names, &AssembleOptions::default());
    assembled.map_err(|error| error.to_string())
}

/// Opens the whole array and fills it with `what`. It is then closed in order, or left as by a
/// crash.
fn write(folder: &Devices, what: u8, in_order: bool) {
    write_with(folder, &DEVICES, what, in_order);
}

fn write_with(folder: &Devices, names: &[&str], what: u8, in_order: bool) {
    let mut target = open(folder, names).unwrap().target;
    each(target.as_mut(), Operation::Write { fua: false }, what).unwrap();
    if in_order {
        target.close().unwrap();
    }
}

/// Creates an array with a journal device, as a crash in the middle of writes leaves it. Logged
/// writes are already in their places, so a row's parity, or a copy, is overwritten as a crash
/// might leave it.
fn crashed(level: &str, checksum: ChecksumKind, at_once: u32) -> Devices {
    let folder = Devices::new(&DEVICES, MIB);
    folder.add("j", 8 * MIB);
    let options = CreateOptions {
        checksum: Some(checksum),
        journal: Some(folder.path("j")),
        ..options("journal")
    };
    folder.create(&format!("{level}(a,b,c)"), &options);
    write_with(&folder, &["a", "b", "c", "j"], 1, true);
    folder.copy("j", "old");
    let mut target = open(&folder, &["a", "b", "c", "j"]).unwrap().target;
    each_of(target.as_mut(), Operation::Write { fua: false }, 2, at_once).unwrap();
    drop(target);
    let file = File::options()
        .read(true)
        .write(true)
        .open(folder.path("c"))
        .unwrap();
    let found = examine(&folder.path("c")).unwrap().found;
    let start = found.record().unwrap().1.data_start().0 * 4096;
    let mut block = [0; 4096];
    // Identical data has zeros as parity.
    let wanted = if level == "raid1" { 2 } else { 0 };
    let torn = (0..MIB / 4096).map(|row| start + row * 4096).find(|at| {
        file.read_exact_at(&mut block, *at).unwrap();
        block.iter().all(|byte| *byte == wanted)
    });
    file.write_all_at(&[0x99; 4096], torn.unwrap()).unwrap();
    folder
}

/// Checks the recovery without a usable log: no wrong data is read, whichever member is missing.
fn is_resynchronised(folder: &Devices, given: &[&str], case: &str) -> String {
    let mut found = open(folder, given).unwrap();
    let mut warnings = found.report.refused.clone();
    warnings.extend(found.target.incidents().iter().map(ToString::to_string));
    await_resync(found.target.as_mut(), &mut |_, _| true);
    warnings.extend(found.target.incidents().iter().map(ToString::to_string));
    found.target.close().unwrap();
    for missing in DEVICES {
        let left: Vec<&str> = DEVICES
            .into_iter()
            .filter(|name| *name != missing)
            .collect();
        let mut found = folder.assemble(&left, &read_only()).unwrap();
        let read = each(found.target.as_mut(), Operation::Read, 2);
        assert_eq!(read, Ok(()), "{case}, without {missing}");
    }
    warnings.join("\n")
}

fn options(policy: &str) -> CreateOptions {
    CreateOptions {
        chunk_bytes: Some(64 << 10),
        consistency: Policy::by_name(policy),
        checksum: Some(ChecksumKind::None),
        degraded_writes: true,
        ..CreateOptions::new("test")
    }
}

/// Runs the operation on all blocks of a target.
fn each(target: &mut dyn Target, operation: Operation, what: u8) -> Result<(), u64> {
    each_of(target, operation, what, AT_ONCE)
}

/// Not a whole number of stripes, so parts of rows are logged.
const AT_ONCE: u32 = 60;

fn each_of(
    target: &mut dyn Target,
    operation: Operation,
    what: u8,
    at_once: u32,
) -> Result<(), u64> {
    let at_once = target.facts().request_blocks_max.min(at_once);
    let buffer = target.allocate(at_once);
    let end = target.facts().blocks;
    let mut block = 0;
    while block < end {
        let blocks = u32::try_from((end - block).min(u64::from(at_once))).unwrap();
        let bytes = usize::try_from(blocks * target.facts().block_size.bytes()).unwrap();
        let is_read = operation == Operation::Read;
        target
            .buffer_mut(buffer)
            .fill(if is_read { !what } else { what });
        run(target, operation, block, blocks, place(buffer)).map_err(|_| block)?;
        let mut held = target.buffer(buffer)[..bytes].iter();
        if held.any(|byte| *byte != what) {
            return Err(block);
        }
        block += u64::from(blocks);
    }
    Ok(())
}

/// A copy of a member made while the array was closed is recognised as old after any later write.
/// That holds for all policies, and however the array was left before and after.
#[test]
fn a_member_from_before_the_last_opening_is_refused() {
    for policy in POLICIES {
        for level in ["raid0", "raid1", "raid5"] {
            for (before, after) in [(true, true), (true, false), (false, true), (false, false)] {
                let case = format!("{level}, {}, {before}, {after}", policy.name);
                let folder = made(level, &options(policy.name));
                write(&folder, 1, before);
                folder.copy("b", "old");
                write(&folder, 2, after);
                let found = open(&folder, &["a", "old", "c"]);
                let refusal = match found {
                    Err(refusal) => refusal,
                    Ok(mut found) => {
                        let warnings = found.report.refused.join("\n");
                        assert_eq!(
                            each(found.target.as_mut(), Operation::Read, 2),
                            Ok(()),
                            "{case}"
                        );
                        found.target.close().unwrap();
                        warnings
                    }
                };
                assert!(refusal.contains("/old: stale"), "{case}: {refusal}");
            }
        }
    }
}

/// The same if nothing was written, but a replay put the journal's contents in place.
#[test]
fn a_member_from_before_a_replay_is_refused() {
    let folder = made("raid5", &options("journal"));
    write(&folder, 1, false);
    folder.copy("b", "old");
    open(&folder, &DEVICES).unwrap().target.close().unwrap();
    let found = open(&folder, &["a", "old", "c"]).unwrap();
    let warnings = found.report.refused.join("\n");
    assert!(warnings.contains("/old: stale"), "{warnings}");
    found.target.close().unwrap();
}

/// If nothing was written since, the copy is as good as the member.
#[test]
fn a_member_without_missed_writes_is_accepted() {
    let folder = made("raid5", &options("journal"));
    write(&folder, 1, true);
    folder.copy("b", "old");
    open(&folder, &DEVICES).unwrap().target.close().unwrap();
    let mut found = open(&folder, &["a", "old", "c"]).unwrap();
    assert_eq!(found.report.refused, Vec::<String>::new());
    assert!(found.report.missing().is_empty());
    assert_eq!(each(found.target.as_mut(), Operation::Read, 1), Ok(()));
    found.target.close().unwrap();
}

/// During crash recovery the journal device is not the one the array logged on. It counts as
/// missing, and the writes in flight are resynchronised.
#[test]
fn an_old_or_corrupt_journal_counts_as_missing() {
    for (level, checksum) in [
        ("raid5", ChecksumKind::None),
        ("raid5", ChecksumKind::Crc32c),
    ] {
        let case = format!("{level}, {}, an old copy", checksum.name());
        let folder = crashed(level, checksum, AT_ONCE);
        let warnings = is_resynchronised(&folder, &["a", "b", "c", "old"], &case);
        assert!(
            warnings.contains("/old: outdated: an old copy"),
            "{case}: {warnings}"
        );

        let case = format!("{level}, {}, rot", checksum.name());
        let folder = crashed(level, checksum, AT_ONCE);
        let file = File::options().write(true).open(folder.path("j")).unwrap();
        let garbage = vec![0xa5; usize::try_from(8 * MIB - LOG_BYTES).unwrap()];
        file.write_all_at(&garbage, LOG_BYTES).unwrap();
        let warnings = is_resynchronised(&folder, &["a", "b", "c", "j"], &case);
        assert!(warnings.contains("/j"), "{case}: {warnings}");

        let case = format!("{level}, {}, one batch rots", checksum.name());
        // A crash right after the log was cleared leaves a single batch, before which nothing
        // counts.
        let folder = (0..20).find_map(|fewer| {
            let folder = crashed(level, checksum, AT_ONCE - fewer);
            rot_one_batch(&folder).then_some(folder)
        });
        let folder = folder.expect("a crash that leaves two batches");
        let warnings = is_resynchronised(&folder, &["a", "b", "c", "j"], &case);
        assert!(warnings.contains("/j"), "{case}: {warnings}");
    }
}

/// Corrupts all headers of the batch before the last one, if the log counts from it or from an
/// earlier batch. Returns false otherwise.
fn rot_one_batch(folder: &Devices) -> bool {
    let device = folder.path("j");
    let file = File::options().read(true).write(true).open(device).unwrap();
    let found = examine(&folder.path("a")).unwrap().found;
    let tail = found.record().unwrap().0.journal.tail;
    let mut log = vec![0; usize::try_from(8 * MIB - LOG_BYTES).unwrap()];
    file.read_exact_at(&mut log, LOG_BYTES).unwrap();
    let nonce = |header: &[u8]| header[32..40].to_vec();
    let sequence = |header: &[u8]| u64::from_le_bytes(header[40..48].try_into().unwrap());
    let headers: Vec<&[u8]> = (log.chunks_exact(4096))
        .filter(|block| block.starts_with(b"SPNDJRNL"))
        .collect();
    let newest = headers
        .iter()
        .max_by_key(|header| sequence(header))
        .unwrap();
    let (nonce_of_last, last) = (nonce(newest), sequence(newest));
    if last <= tail {
        return false;
    }
    let mut wiped = 0;
    for (at, block) in (0..).zip(log.chunks_exact(4096)) {
        let is_header = block.starts_with(b"SPNDJRNL");
        if is_header && nonce(block) == nonce_of_last && sequence(block) + 1 == last {
            file.write_all_at(&[0; 4096], LOG_BYTES + at * 4096)
                .unwrap();
            wiped += 1;
        }
    }
    assert!(wiped > 0, "there is such a batch");
    true
}

/// Giving both the journal device and an old copy of it is refused before any write.
#[test]
fn two_devices_with_the_same_journal_are_refused() {
    let folder = crashed("raid5", ChecksumKind::Crc32c, AT_ONCE);
    let before = DEVICES.map(|name| fs::read(folder.path(name)).unwrap());
    for given in [["a", "b", "c", "j", "old"], ["old", "j", "a", "b", "c"]] {
        let refusal = open(&folder, &given).unwrap_err();
        assert!(refusal.contains("is the older one"), "{refusal}");
        assert!(
            refusal.contains("/j") && refusal.contains("/old"),
            "{refusal}"
        );
    }
    assert!(before == DEVICES.map(|name| fs::read(folder.path(name)).unwrap()));
    let mut found = open(&folder, &["a", "b", "c", "j"]).unwrap();
    assert_eq!(found.report.refused, Vec::<String>::new());
    found.target.work();
    found.target.close().unwrap();
}

//! Old copies of devices: their contents are never taken for later writes.
#![expect(clippy::unwrap_used, reason = "tests")]

use spindles_admin::assemble::{AssembleOptions, Assembled, assemble, examine};
use spindles_admin::create::{CreateOptions, create};
use spindles_array::{Target, await_resync};
use spindles_block::{BlockIndex, BlockSize, BufferSlice, Operation, Request};
use spindles_device::OpenOptions;
use spindles_engine::POLICIES;
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

const MIB: u64 = 1 << 20;
/// The start of the log on a journal device.
const LOG_BYTES: u64 = 65536;
const DEVICES: [&str; 3] = ["a", "b", "c"];

/// A folder with an array of three devices.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(level: &str, options: &CreateOptions) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.create(level, options);
        folder
    }

    fn create(&self, level: &str, options: &CreateOptions) {
        let devices = DEVICES.map(|name| self.path(name));
        for device in &devices {
            File::create(device).unwrap().set_len(MIB).unwrap();
        }
        let expression = Expression::parse(&format!("{level}({})", devices.join(","))).unwrap();
        create(&expression, options, &mut |_, _| true).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn open(&self, names: &[&str]) -> Result<Assembled, String> {
        self.open_with(names, &AssembleOptions::default())
    }

    fn open_with(&self, names: &[&str], options: &AssembleOptions) -> Result<Assembled, String> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assemble(&paths, options).map_err(|error| error.to_string())
    }

    /// Opens the whole array and fills it with `what`. It is then closed in order, or left as by a
    /// crash.
    fn write(&self, what: u8, in_order: bool) {
        self.write_with(&DEVICES, what, in_order);
    }

    fn write_with(&self, names: &[&str], what: u8, in_order: bool) {
        let mut assembled = self.open(names).unwrap();
        fill(assembled.target.as_mut(), what);
        if in_order {
            assembled.target.close().unwrap();
        }
    }
}

/// Creates an array with a journal device, as a crash in the middle of writes leaves it. Logged
/// writes are already in their places, so a row's parity, or a copy, is overwritten as a crash
/// might leave it.
fn crashed(level: &str, checksum: ChecksumKind, at_once: u32) -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    let journal = folder.path("j");
    File::create(&journal).unwrap().set_len(8 * MIB).unwrap();
    let mut options = options("journal");
    options.checksum = Some(checksum);
    options.journal = Some(journal);
    folder.create(level, &options);
    folder.write_with(&["a", "b", "c", "j"], 1, true);
    folder.copy("j", "old");
    let mut target = folder.open(&["a", "b", "c", "j"]).unwrap().target;
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
fn is_resynchronised(folder: &Folder, given: &[&str], case: &str) -> String {
    let mut found = folder.open(given).unwrap();
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
        let mut read_only = AssembleOptions::default();
        read_only.open.read_only = true;
        let mut found = folder.open_with(&left, &read_only).unwrap();
        let read = each(found.target.as_mut(), Operation::Read, 2);
        assert_eq!(read, Ok(()), "{case}, without {missing}");
    }
    warnings.join("\n")
}

fn options(policy: &str) -> CreateOptions {
    CreateOptions {
        journal: None,
        name: "test".to_owned(),
        block_size: BlockSize::B4096,
        chunk_bytes: Some(64 << 10),
        consistency: spindles_engine::Policy::by_name(policy),
        checksum: Some(ChecksumKind::None),
        spares: Vec::new(),
        degraded_writes: true,
        force: false,
        open: OpenOptions::default(),
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
        let buffer = BufferSlice {
            buffer,
            first_block: 0,
        };
        let request = Request {
            token: 1,
            operation,
            block: BlockIndex(block),
            blocks,
            buffer,
        };
        target.submit(request).unwrap();
        target.poll(true).unwrap().result.map_err(|_| block)?;
        if target.buffer(buffer.buffer)[..bytes]
            .iter()
            .any(|byte| *byte != what)
        {
            return Err(block);
        }
        block += u64::from(blocks);
    }
    Ok(())
}

fn fill(target: &mut dyn Target, what: u8) {
    each(target, Operation::Write { fua: false }, what).unwrap();
}

/// A copy of a member made while the array was closed is recognised as old after any later write.
/// That holds for all policies, and however the array was left before and after.
#[test]
fn a_member_from_before_the_last_opening_is_refused() {
    for policy in POLICIES {
        for level in ["raid0", "raid1", "raid5"] {
            for (before, after) in [(true, true), (true, false), (false, true), (false, false)] {
                let case = format!("{level}, {}, {before}, {after}", policy.name);
                let folder = Folder::new(level, &options(policy.name));
                folder.write(1, before);
                folder.copy("b", "old");
                folder.write(2, after);
                let found = folder.open(&["a", "old", "c"]);
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
    let folder = Folder::new("raid5", &options("journal"));
    folder.write(1, false);
    folder.copy("b", "old");
    folder.open(&DEVICES).unwrap().target.close().unwrap();
    let found = folder.open(&["a", "old", "c"]).unwrap();
    let warnings = found.report.refused.join("\n");
    assert!(warnings.contains("/old: stale"), "{warnings}");
    found.target.close().unwrap();
}

/// If nothing was written since, the copy is as good as the member.
#[test]
fn a_member_without_missed_writes_is_accepted() {
    let folder = Folder::new("raid5", &options("journal"));
    folder.write(1, true);
    folder.copy("b", "old");
    folder.open(&DEVICES).unwrap().target.close().unwrap();
    let mut found = folder.open(&["a", "old", "c"]).unwrap();
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
fn rot_one_batch(folder: &Folder) -> bool {
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
        let refusal = folder.open(&given).unwrap_err();
        assert!(refusal.contains("is the older one"), "{refusal}");
        assert!(
            refusal.contains("/j") && refusal.contains("/old"),
            "{refusal}"
        );
    }
    assert!(before == DEVICES.map(|name| fs::read(folder.path(name)).unwrap()));
    let mut found = folder.open(&["a", "b", "c", "j"]).unwrap();
    assert_eq!(found.report.refused, Vec::<String>::new());
    found.target.work();
    found.target.close().unwrap();
}

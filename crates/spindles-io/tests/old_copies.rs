//! Old copies of devices: what one of them holds is never taken for what was written since.
#![expect(clippy::unwrap_used, reason = "tests")]

use spindles_block::{BlockIndex, BlockSize, BufferSlice, Operation, Request};
use spindles_engine::POLICIES;
use spindles_io::assemble::{AssembleOptions, Assembled, assemble};
use spindles_io::create::{CreateOptions, create};
use spindles_io::{OpenOptions, Target};
use spindles_layout::Expression;
use std::fs::{self, File};

const MIB: u64 = 1 << 20;
const DEVICES: [&str; 3] = ["a", "b", "c"];

/// A folder with an array of three devices.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(level: &str, options: &CreateOptions) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let devices = DEVICES.map(|name| folder.path(name));
        for device in &devices {
            File::create(device).unwrap().set_len(MIB).unwrap();
        }
        let expression = Expression::parse(&format!("{level}({})", devices.join(","))).unwrap();
        create(&expression, options, &mut |_, _| true).unwrap();
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn open(&self, names: &[&str]) -> Result<Assembled, String> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assemble(&paths, &AssembleOptions::default()).map_err(|error| error.to_string())
    }

    /// Opens all of it and writes this everywhere. It is closed in order, or as a crash leaves it.
    fn write(&self, what: u8, in_order: bool) {
        let mut assembled = self.open(&DEVICES).unwrap();
        fill(assembled.target.as_mut(), what);
        if in_order {
            assembled.target.close().unwrap();
        }
    }
}

fn options(policy: &str) -> CreateOptions {
    CreateOptions {
        journal: None,
        name: "test".to_owned(),
        block_size: BlockSize::B4096,
        chunk_bytes: Some(64 << 10),
        consistency: spindles_engine::Policy::by_name(policy),
        checksum: Some(spindles_format::ChecksumKind::None),
        spares: Vec::new(),
        degraded_writes: true,
        force: false,
        open: OpenOptions::default(),
    }
}

/// Goes through all blocks of a target.
fn each(target: &mut dyn Target, operation: Operation, what: u8) -> Result<(), u64> {
    let at_once = target.facts().request_blocks_max.min(64);
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

/// A copy of a member, made while nobody had the array open, is known for what it is where anything
/// was written since: whatever closes what a crash leaves, however the array was left before and
/// after.
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
                        let warnings = found.report.warnings().join("\n");
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

/// The same where nobody wrote, and what the journals held was put in place.
#[test]
fn a_member_from_before_a_replay_is_refused() {
    let folder = Folder::new("raid5", &options("journal"));
    folder.write(1, false);
    folder.copy("b", "old");
    folder.open(&DEVICES).unwrap().target.close().unwrap();
    let found = folder.open(&["a", "old", "c"]).unwrap();
    let warnings = found.report.warnings().join("\n");
    assert!(warnings.contains("/old: stale"), "{warnings}");
    found.target.close().unwrap();
}

/// Where nothing was written since it is as good as the member.
#[test]
fn a_member_that_nothing_was_written_to_since_is_taken() {
    let folder = Folder::new("raid5", &options("journal"));
    folder.write(1, true);
    folder.copy("b", "old");
    folder.open(&DEVICES).unwrap().target.close().unwrap();
    let mut found = folder.open(&["a", "old", "c"]).unwrap();
    assert_eq!(found.report.warnings(), Vec::<String>::new());
    assert_eq!(each(found.target.as_mut(), Operation::Read, 1), Ok(()));
    found.target.close().unwrap();
}

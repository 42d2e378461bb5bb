//! Copies between files of any length, devices and memory.

use crate::common;
use spindles_copy::{CopyEnd, CopyError, Phase, compare, copy};
use spindles_device::OpenOptions;
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

fn pattern(length: usize) -> Vec<u8> {
    common::pattern(1, length)
}

fn open(path: &Path) -> CopyEnd {
    let name = path.to_str().expect("UTF-8");
    CopyEnd::open(name, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn on(_: spindles_copy::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

const LENGTHS: &[usize] = &[
    0,
    1,
    511,
    4095,
    4096,
    4097,
    100_000,
    1 << 20,
    (1 << 20) + 1,
    (9 << 20) + 5000,
];

#[test]
fn files_of_every_length_are_copied() {
    let folder = TempDir::new().unwrap();
    for length in LENGTHS {
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        std::fs::write(&source, pattern(*length)).unwrap();
        let bytes = u64::try_from(*length).unwrap();
        let name = target.to_str().unwrap();
        assert!(CopyEnd::prepare_file(name, bytes).unwrap());
        assert!(!CopyEnd::prepare_file(name, bytes).unwrap());
        let (mut from, mut to) = (open(&source), open(&target));
        assert_eq!((from.bytes(), to.bytes()), (bytes, bytes));
        let mut seen = 0;
        copy(&mut from, &mut to, bytes, &mut |progress| {
            assert_eq!(
                (progress.phase, progress.bytes_total),
                (Phase::Copying, bytes)
            );
            assert!(progress.bytes > seen && progress.bytes <= bytes);
            seen = progress.bytes;
            ControlFlow::Continue(())
        })
        .unwrap();
        compare(&mut from, &mut to, bytes, &mut on).unwrap();
        to.close().unwrap();
        assert!(
            std::fs::read(&target).unwrap() == pattern(*length),
            "{length}"
        );
        std::fs::remove_file(&target).unwrap();
    }
}

#[test]
fn data_behind_the_copy_is_unchanged() {
    let folder = TempDir::new().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    for length in LENGTHS {
        std::fs::write(&source, pattern(*length)).unwrap();
        let before = vec![0x55; length + 10_001];
        std::fs::write(&target, &before).unwrap();
        let (mut from, mut to) = (open(&source), open(&target));
        copy(&mut from, &mut to, u64::try_from(*length).unwrap(), &mut on).unwrap();
        to.close().unwrap();
        let after = std::fs::read(&target).unwrap();
        assert!(after[..*length] == pattern(*length) && after[*length..] == before[*length..]);
    }
}

#[test]
fn a_comparison_finds_the_first_differing_byte() {
    let folder = TempDir::new().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let length = (2 << 20) + 777;
    std::fs::write(&source, pattern(length)).unwrap();
    for at in [0, 4095, 4096, 1_500_000, length - 1] {
        let mut bytes = pattern(length);
        bytes[at] ^= 1;
        std::fs::write(&target, &bytes).unwrap();
        let (mut from, mut to) = (open(&source), open(&target));
        let bytes = u64::try_from(length).unwrap();
        let error = compare(&mut from, &mut to, bytes, &mut on).unwrap_err();
        let CopyError::Differs { offset_bytes, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(offset_bytes, u64::try_from(at).unwrap());
    }
}

#[test]
fn impossible_copies_are_refused_before_any_write() {
    let folder = TempDir::new().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    std::fs::write(&source, pattern(10_000)).unwrap();
    std::fs::write(&target, vec![7; 9_999]).unwrap();
    let refused = |source: &Path, target: &Path, bytes| {
        let (mut from, mut to) = (open(source), open(target));
        copy(&mut from, &mut to, bytes, &mut on)
            .unwrap_err()
            .to_string()
    };
    let name = target.to_str().unwrap();
    assert_eq!(
        refused(&source, &target, 10_000),
        format!(
            "{name} has room for 9999 bytes, and 10000 bytes are to be copied: remove the file \
             first, or name a new one"
        )
    );
    assert_eq!(
        refused(&target, &source, 10_000),
        format!("{name} holds 9999 bytes, less than the 10000 bytes to be copied: ask for less")
    );
    assert_eq!(std::fs::read(&target).unwrap(), vec![7; 9_999]);
    assert_eq!(std::fs::read(&source).unwrap(), pattern(10_000));

    // The same file under two names, opened for reading on one side.
    let link = folder.path().join("link");
    std::fs::hard_link(&source, &link).unwrap();
    let read_only = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let open = |path: &Path| CopyEnd::open(path.to_str().unwrap(), &read_only).unwrap();
    let (mut from, mut to) = (open(&source), open(&link));
    let error = copy(&mut from, &mut to, 10_000, &mut on).unwrap_err();
    assert!(error.to_string().contains("is on both sides"), "{error}");
}

#[test]
fn a_read_only_target_is_not_written() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("target");
    std::fs::write(&target, vec![7; 8192]).unwrap();
    let read_only = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let mut to = CopyEnd::open(target.to_str().unwrap(), &read_only).unwrap();
    let mut from = CopyEnd::open("mem:8K", &OpenOptions::default()).unwrap();
    let error = copy(&mut from, &mut to, 8192, &mut on)
        .unwrap_err()
        .to_string();
    assert!(error.contains("can't write at byte 0"), "{error}");
    assert_eq!(std::fs::read(&target).unwrap(), vec![7; 8192]);
}

#[test]
fn an_interrupted_copy_reports_its_progress() {
    let mut from = CopyEnd::open("mem:64M", &OpenOptions::default()).unwrap();
    let mut to = CopyEnd::open("mem:64M", &OpenOptions::default()).unwrap();
    let error = copy(&mut from, &mut to, 64 << 20, &mut |progress| {
        if progress.bytes >= 8 << 20 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let Err(CopyError::Interrupted { bytes }) = error else {
        panic!("{error:?}");
    };
    assert!((8 << 20..32 << 20).contains(&bytes), "{bytes}");
    to.close().unwrap();
}

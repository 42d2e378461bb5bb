//! If the system forbids `io_uring`, as containers often do, threads are selected automatically, do
//! the same, and are reported in the facts.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{pattern, place, run};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use spindles_array::open_device;
use spindles_block::Operation;
use spindles_device::{IoChoice, OpenError, OpenOptions};

/// The number of `io_uring_setup`, the same on all architectures.
const IO_URING_SETUP: i64 = 425;
const EPERM: u32 = 1;

/// From here on this thread, and all threads it starts, can't create a ring.
fn forbid_rings() {
    let filter = SeccompFilter::new(
        [(IO_URING_SETUP, vec![])].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(EPERM),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

#[test]
fn threads_are_used_if_rings_are_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, pattern(9, 65536)).unwrap();
    let name = path.to_str().unwrap().to_owned();
    let test = std::thread::spawn(move || {
        forbid_rings();
        let mut target = open_device(&name, &OpenOptions::default()).unwrap();
        assert_eq!(target.facts().io, "threads");
        let reason = target.facts().io_reason.clone().unwrap();
        assert!(
            reason.starts_with("io_uring is not available: "),
            "{reason}"
        );
        assert!(reason.contains("not permitted"), "{reason}");
        let buffer = target.allocate(16);
        let place = place(buffer);
        run(target.as_mut(), Operation::Read, 0, 16, place).unwrap();
        assert!(target.buffer(buffer) == pattern(9, 65536));
        target.close().unwrap();

        let options = OpenOptions {
            io: IoChoice::Uring,
            ..OpenOptions::default()
        };
        let error = open_device(&name, &options).err().unwrap();
        assert!(matches!(error, OpenError::NoUring { .. }), "{error}");
    });
    test.join().unwrap();
}

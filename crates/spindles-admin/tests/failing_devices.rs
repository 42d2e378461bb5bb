//! Devices that never complete, and arrays around inner arrays that fail.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Loop, run, skip};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_array::open_device;
use spindles_block::Operation;
use spindles_device::{IoChoice, OpenOptions};
use spindles_layout::Expression;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// From here on, reads at or beyond that place fail with `errno` in this thread and all threads it
/// starts.
fn put_off_reads(errno: libc::c_int, from_bytes: u64) {
    let beyond = SeccompCondition::new(3, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, from_bytes);
    let rule = SeccompRule::new(vec![beyond.unwrap()]).unwrap();
    let filter = SeccompFilter::new(
        [(libc::SYS_pread64, vec![rule])].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

/// A read that is put off for ever fails in the end, and its waiter does not spin meanwhile.
#[test]
fn a_device_that_defers_forever_fails() {
    let tests = [libc::EAGAIN, libc::EINTR].map(|errno| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap().set_len(MIB).unwrap();
        let name = path.to_str().unwrap().to_owned();
        std::thread::spawn(move || {
            let _folder = folder;
            put_off_reads(errno, 65536);
            let options = OpenOptions {
                io: IoChoice::Threads,
                ..OpenOptions::default()
            };
            let mut target = open_device(&name, &options).unwrap();
            let place = common::place(target.allocate(1));
            assert_eq!(run(target.as_mut(), Operation::Read, 0, 1, place), Ok(()));
            let began = Instant::now();
            let result = run(target.as_mut(), Operation::Read, 16, 1, place);
            assert!(result.is_err(), "{result:?}");
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{:?}",
                began.elapsed()
            );
            target.close().unwrap();
        })
    });
    for test in tests {
        test.join().unwrap();
    }
}

/// A member of one inner array fails. The outer array goes on without the inner one, and is closed
/// in order.
#[test]
fn closing_survives_a_failing_inner_array() {
    let folder = tempfile::tempdir().unwrap();
    let disks: Result<Vec<Loop>, String> = (0..4)
        .map(|disk| {
            let file = folder.path().join(format!("disk{disk}"));
            File::create(&file).unwrap().set_len(4 * MIB).unwrap();
            Loop::new(&file, 4096)
        })
        .collect();
    let disks = match disks {
        Ok(disks) => disks,
        Err(reason) => {
            return skip("closing_survives_a_failing_inner_array", &reason);
        }
    };
    let [a, b, c, d] = [0, 1, 2, 3].map(|disk| disks[disk].0.as_str());
    let expression = Expression::parse(&format!("raid1(raid0({a},{b}),raid0({c},{d}))"));
    let options = CreateOptions::new("test");
    create(&expression.unwrap(), &options, &mut |_, _| true).unwrap();
    let open = |names: &[&str]| assemble(names, &AssembleOptions::default()).unwrap().target;
    let mut target = open(&[a, b, c, d]);
    let place = common::place(target.allocate(64));
    let write = Operation::Write { fua: false };
    assert_eq!(run(target.as_mut(), write, 0, 64, place), Ok(()));
    let protect = |what| Command::new("blockdev").args([what, c]).status();
    assert!(protect("--setro").unwrap().success());
    target.buffer_mut(place.buffer).fill(0x77);
    let written = run(target.as_mut(), write, 0, 64, place);
    let closed = target.close();
    assert!(protect("--setrw").unwrap().success());
    assert_eq!(written, Ok(()));
    closed.unwrap();
    let mut target = open(&[a, b]);
    let place = common::place(target.allocate(64));
    assert_eq!(run(target.as_mut(), Operation::Read, 0, 64, place), Ok(()));
    assert!(target.buffer(place.buffer).iter().all(|byte| *byte == 0x77));
    target.close().unwrap();
}

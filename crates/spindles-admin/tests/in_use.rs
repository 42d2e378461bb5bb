//! A device in use is in use under all its names.

use crate::common;

use common::Loop;
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::copy::CopyEnd;
use spindles_admin::create::{CreateOptions, create};
use spindles_array::open_device;
use spindles_device::{Locks, OpenError, OpenOptions};
use spindles_layout::Expression;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A process that a test starts inherits this process's files and their locks until it executes
/// another program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn at_once(read_only: bool) -> AssembleOptions {
    AssembleOptions {
        open: OpenOptions {
            read_only,
            busy_timeout: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

/// For openings that must succeed: a process that another test starts keeps the lock of a closed
/// device for a moment.
fn in_time(read_only: bool) -> AssembleOptions {
    let mut options = at_once(read_only);
    options.open.busy_timeout = Duration::from_mins(1);
    options
}

/// A mirror on two files.
#[expect(clippy::unwrap_used, reason = "tests")]
fn mirror() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].iter().map(|it| folder.path().join(it)).collect();
    for path in &paths {
        File::create(path).unwrap().set_len(8 << 20).unwrap();
    }
    let files: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let expression = Expression::parse(&format!("raid1({})", files.join(","))).unwrap();
    create(&expression, &CreateOptions::new("test"), &mut |_, _| true).unwrap();
    (folder, paths)
}

#[test]
fn a_file_and_a_loop_device_on_it_are_not_opened_together() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (_folder, paths) = mirror();
    let files: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let loops: Result<Vec<Loop>, String> = (paths.iter().chain(&paths))
        .map(|path| Loop::with(path, &[]))
        .collect();
    let loops = match loops {
        Ok(loops) => loops,
        Err(reason) => {
            println!("SKIPPED in_use: loop devices: {reason}");
            return;
        }
    };
    let [a, b, again_a, again_b] = &loops[..] else {
        panic!("four of them");
    };
    let names = [
        files,
        vec![a.0.as_str(), b.0.as_str()],
        vec![again_a.0.as_str(), again_b.0.as_str()],
    ];
    for first in &names {
        let writer = assemble(first, &in_time(false)).unwrap();
        for second in names.iter().filter(|second| *second != first) {
            for read_only in [false, true] {
                let refused = assemble(second, &at_once(read_only)).unwrap_err();
                assert!(
                    matches!(refused, AssembleError::Open(OpenError::Busy { .. })),
                    "{refused}"
                );
            }
        }
        writer.target.close().unwrap();
    }
    // Readers share.
    let readers: Vec<_> = names
        .iter()
        .map(|names| assemble(names, &in_time(true)).unwrap())
        .collect();
    for reader in readers {
        reader.target.close().unwrap();
    }
}

/// A mounted loop device is held as in this test: its file is in use, although no process has the
/// file open.
#[test]
fn a_file_is_in_use_while_a_loop_device_on_it_is() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].iter().map(|it| folder.path().join(it)).collect();
    for path in &paths {
        std::fs::write(path, vec![7; 8 << 20]).unwrap();
    }
    let files: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let loops = Loop::with(&paths[1], &["--offset", "4096"])
        .and_then(|lower| Ok([Loop::with(Path::new(&lower.0), &[])?, lower]));
    let [upper, lower] = match loops {
        Ok(loops) => loops,
        Err(reason) => {
            println!("SKIPPED in_use: loop devices: {reason}");
            return;
        }
    };
    let expression = Expression::parse(&format!("raid1({})", files.join(","))).unwrap();
    let options = CreateOptions {
        force: true,
        open: at_once(false).open,
        ..CreateOptions::new("test")
    };
    let create = || create(&expression, &options, &mut |_, _| true);
    for device in [&lower.0, &upper.0] {
        let exclusive = File::options()
            .read(true)
            .custom_flags(libc::O_EXCL)
            .open(device);
        let held = exclusive.unwrap();
        let refusals = [
            create().unwrap_err().to_string(),
            CopyEnd::open(files[1], &options.open)
                .unwrap_err()
                .to_string(),
        ];
        for refused in refusals {
            let text = format!("{} is in use by {device}, a loop device on it", files[1]);
            assert!(refused.contains(&text), "{refused}");
        }
        assert!(
            std::fs::read(&paths[1])
                .unwrap()
                .iter()
                .all(|byte| *byte == 7)
        );
        assert!(
            CopyEnd::open(files[1], &at_once(true).open).is_ok(),
            "to be read"
        );
        drop(held);
    }
    create().unwrap();
    // A second loop device on the file is the same disk.
    drop((upper, lower));
    let [one, two] = [(); 2].map(|()| Loop::new(&paths[1], 512).unwrap());
    for (mounted, other) in [(&one.0, &two.0), (&two.0, &one.0)] {
        let exclusive = File::options()
            .read(true)
            .custom_flags(libc::O_EXCL)
            .open(mounted);
        let held = exclusive.unwrap();
        let refused = open_device(other, &options.open).err().unwrap().to_string();
        assert!(
            refused.contains(&format!("is in use by {mounted}, a loop device on it")),
            "{refused}"
        );
        drop(held);
        drop(open_device(other, &options.open).unwrap().close());
    }
}

/// Opened with the locks of a served array, files and loop devices stay in use from one opening to
/// the next.
#[test]
fn devices_stay_in_use_between_two_openings() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (_folder, paths) = mirror();
    let files: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let loops: Result<Vec<Loop>, String> = paths.iter().map(|path| Loop::with(path, &[])).collect();
    let loops = match loops {
        Ok(loops) => loops,
        Err(reason) => return println!("SKIPPED in_use: loop devices: {reason}"),
    };
    let loops: Vec<&str> = loops.iter().map(|device| device.0.as_str()).collect();
    let are_free = || {
        let is_free = |name: &&&str| open_device(name, &at_once(false).open).is_ok();
        files.iter().chain(&loops).filter(is_free).count()
    };
    for names in [&files, &loops] {
        assert_eq!(are_free(), 4);
        let mut options = at_once(false);
        options.open.locks = Locks::of_served_array();
        let first = assemble(names, &options).unwrap().target;
        let keeping = options.open.locks.keep();
        first.close().unwrap();
        assert_eq!(are_free(), 0, "{names:?}");
        let mut looking = options.clone();
        looking.open.read_only = true;
        drop(assemble(names, &looking).unwrap());
        assert_eq!(are_free(), 0, "{names:?}");
        let second = assemble(names, &options).unwrap().target;
        assert_eq!(are_free(), 0, "{names:?}");
        drop(keeping);
        assert_eq!(are_free(), 0, "{names:?}");
        second.close().unwrap();
    }
    assert_eq!(are_free(), 4);
}

//! A device in use is in use under all its names.

use crate::common;

use common::{Devices, Loop, strs};
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::create::CreateOptions;
use spindles_array::open_device;
use spindles_copy::CopyEnd;
use spindles_device::{Locks, OpenError, OpenOptions};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
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
fn mirror() -> (Devices, Vec<String>) {
    let devices = Devices::new(&["a", "b"], 8 << 20);
    devices.create("raid1(a,b)", &CreateOptions::new("test"));
    let paths = devices.paths(&["a", "b"]);
    (devices, paths)
}

#[test]
fn a_file_and_a_loop_device_on_it_are_not_opened_together() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (_folder, paths) = mirror();
    let files = strs(&paths);
    let loops: Result<Vec<Loop>, String> = (paths.iter().chain(&paths))
        .map(|path| Loop::with(Path::new(path), &[]))
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

/// Holds a device as a mount does.
fn exclusive(device: &str) -> File {
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_EXCL);
    options.open(device).expect("a device")
}

/// A mounted loop device is held as in this test: its file is in use, although no process has the
/// file open.
#[test]
fn a_file_is_in_use_while_a_loop_device_on_it_is() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = Devices::new(&[], 0);
    let paths = devices.paths(&["a", "b"]);
    for path in &paths {
        std::fs::write(path, vec![7; 8 << 20]).unwrap();
    }
    let files = strs(&paths);
    let loops = Loop::with(Path::new(files[1]), &["--offset", "4096"])
        .and_then(|lower| Ok([Loop::with(Path::new(&lower.0), &[])?, lower]));
    let [upper, lower] = match loops {
        Ok(loops) => loops,
        Err(reason) => {
            println!("SKIPPED in_use: loop devices: {reason}");
            return;
        }
    };
    let options = CreateOptions {
        force: true,
        open: at_once(false).open,
        ..CreateOptions::new("test")
    };
    let create = || devices.try_create("raid1(a,b)", &options);
    for device in [&lower.0, &upper.0] {
        let held = exclusive(device);
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
    let [one, two] = [(); 2].map(|()| Loop::new(Path::new(files[1]), 512).unwrap());
    for (mounted, other) in [(&one.0, &two.0), (&two.0, &one.0)] {
        let held = exclusive(mounted);
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
    let files = strs(&paths);
    let loops: Result<Vec<Loop>, String> = paths
        .iter()
        .map(|path| Loop::with(Path::new(path), &[]))
        .collect();
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
        options.open.locks = Locks::lasting();
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

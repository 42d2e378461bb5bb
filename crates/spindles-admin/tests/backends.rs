//! One test for every kind of device, through every queue: writes are read back, zeros are zeros,
//! and errors are reported.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use crate::common;

use common::{Loop, pattern, place, run, skip};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use spindles_admin::create::{CreateOptions, create};
use spindles_admin::plain::{self, PlainOptions};
use spindles_array::{Stack, Target, open_device};
use spindles_block::{BlockIndex, BlockSize, BufferSlice, Operation, Reply, Request, RequestError};
use spindles_device::identity::same_device;
use spindles_device::{BACKENDS, Direct, IoChoice, Locks, OpenError, OpenOptions};
use spindles_layout::{Expression, Slice};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

const BYTES: u64 = 4 << 20;
const QUEUES: [IoChoice; 2] = [IoChoice::Uring, IoChoice::Threads];
const SIZES: [BlockSize; 2] = [BlockSize::B512, BlockSize::B4096];

/// Checks all properties of a device that keeps its contents.
fn check_contents(target: &mut dyn Target) {
    let blocks_all = target.facts().blocks;
    let block_bytes = usize::try_from(target.facts().block_size.bytes()).unwrap();
    assert_eq!(target.facts().bytes(), BYTES);
    let all = u32::try_from(blocks_all).unwrap();
    let buffer = target.allocate(all);
    let place = place(buffer);
    let mut model = vec![0; usize::try_from(BYTES).unwrap()];

    // Fresh devices read as zeros, even into a stale buffer.
    target.buffer_mut(buffer).fill(0xAA);
    run(target, Operation::Read, 0, all, place).unwrap();
    assert!(target.buffer(buffer) == model, "fresh");

    // Writes of many lengths and places, with and without FUA, partly overlapping.
    for (seed, (block, blocks)) in [(0, 1), (1, 7), (5, 64), (all / 2, all / 4), (all - 1, 1)]
        .into_iter()
        .enumerate()
    {
        let bytes = usize::try_from(blocks).unwrap() * block_bytes;
        let start = usize::try_from(block).unwrap() * block_bytes;
        let data = pattern(u64::try_from(seed).unwrap(), bytes);
        target.buffer_mut(buffer)[..bytes].copy_from_slice(&data);
        model[start..start + bytes].copy_from_slice(&data);
        let fua = seed % 2 == 0;
        run(
            target,
            Operation::Write { fua },
            u64::from(block),
            blocks,
            place,
        )
        .unwrap();
    }
    let flush = run(target, Operation::Flush, 0, 0, BufferSlice::NONE);
    flush.unwrap();

    // Zeros, in each possible way.
    for (operation, block, blocks, buffer) in [
        (Operation::Discard, all / 2, 16, BufferSlice::NONE),
        (
            Operation::WriteZeroes { fua: false },
            all / 2 + 64,
            9,
            BufferSlice::NONE,
        ),
        (
            Operation::WriteZeroes { fua: true },
            2,
            1,
            BufferSlice::NONE,
        ),
        (Operation::Write { fua: false }, 20, 3, BufferSlice::ZEROS),
    ] {
        run(target, operation, u64::from(block), blocks, buffer).unwrap();
        let start = usize::try_from(block).unwrap() * block_bytes;
        model[start..start + usize::try_from(blocks).unwrap() * block_bytes].fill(0);
    }
    target.buffer_mut(buffer).fill(0x55);
    run(target, Operation::Read, 0, all, place).unwrap();
    assert!(target.buffer(buffer) == model, "after writes and zeros");

    // Many in flight, each into its own part of the buffer, completed in any order.
    target.buffer_mut(buffer).fill(0x55);
    let part = all / 64;
    for token in 0..64 {
        let first_block = token * part;
        let request = Request {
            token: u64::from(token),
            operation: Operation::Read,
            block: BlockIndex(u64::from(first_block)),
            blocks: part,
            buffer: BufferSlice {
                buffer,
                first_block,
            },
        };
        target.submit(request).unwrap();
    }
    let mut tokens: Vec<u64> = std::iter::from_fn(|| target.poll(true))
        .map(|Reply { token, result, .. }| {
            assert_eq!(result, Ok(()));
            token
        })
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..64).collect::<Vec<_>>());
    assert!(target.buffer(buffer) == model, "in parts");

    let counters = target.counters().total();
    assert_eq!(
        (counters.writes, counters.flushes, counters.zeroings),
        (6, 1, 3)
    );
    assert_eq!(counters.bytes_read, 3 * BYTES);
    assert_eq!(counters.errors, 0);
}

/// Checks the properties of every device, whether it keeps its contents or not.
fn check_answers(target: &mut dyn Target) {
    let blocks = target.facts().blocks;
    let buffer = target.allocate(4);
    let place = place(buffer);
    for (block, count) in [(blocks, 1), (blocks - 1, 2), (u64::MAX, 1)] {
        for operation in [Operation::Read, Operation::Write { fua: false }] {
            let answer = run(target, operation, block.min(u64::MAX - 7), count, place);
            assert_eq!(answer, Err(RequestError::OutOfRange));
        }
    }
    assert!(target.poll(false).is_none());
    assert!(target.poll(true).is_none());
}

fn options(io: IoChoice, block_size: BlockSize) -> OpenOptions {
    OpenOptions {
        io,
        block_size: Some(block_size),
        requests_max: 128,
        ..OpenOptions::default()
    }
}

fn check(name: &str, backend: &str, options: &OpenOptions) {
    let mut target = open_device(name, options).unwrap();
    let facts = target.facts().clone();
    assert_eq!(facts.devices[0].backend.name, backend);
    let expected_io = match (backend, options.io) {
        ("mem" | "null", _) => "inline",
        (_, IoChoice::Threads) => "threads",
        _ => "io_uring",
    };
    assert_eq!(facts.io, expected_io);
    if backend != "null" {
        check_contents(target.as_mut());
    }
    check_answers(target.as_mut());
    target.close().unwrap();
}

#[test]
fn every_backend_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    for (io, size) in QUEUES
        .into_iter()
        .flat_map(|io| SIZES.map(|size| (io, size)))
    {
        for backend in BACKENDS {
            for direct in [Direct::Auto, Direct::Never] {
                let name = format!("{}-{io:?}-{size:?}-{direct:?}", backend.facts.name);
                let Some(made) = backend.fresh(folder.path(), &name, BYTES) else {
                    continue;
                };
                let options = OpenOptions {
                    direct,
                    ..options(io, size)
                };
                check(&made.unwrap(), backend.facts.name, &options);
                let bytes = START_BYTES + BYTES + 4096;
                let made = backend.fresh(folder.path(), &format!("{name}-cut"), bytes);
                let slice = slice(&made.unwrap().unwrap(), START_BYTES, BYTES);
                check(&slice, backend.facts.name, &options);
            }
        }
    }
}

/// No multiple of a page, as in vinum's drives.
const START_BYTES: u64 = 265 * 512;

fn slice(device: &str, start_bytes: u64, bytes: u64) -> String {
    let slice = Slice {
        device: device.to_owned(),
        start_bytes,
        length_bytes: Some(bytes),
    };
    slice.to_string()
}

/// Makes a file with four slices, and some bytes before, between and behind.
fn cut_file(path: &Path) -> Vec<String> {
    let file = std::fs::File::create_new(path).unwrap();
    file.set_len(6 * BYTES).unwrap();
    let starts = (0..4).map(|at| START_BYTES + at * (BYTES + 512));
    let path = path.to_str().unwrap();
    starts.map(|start| slice(path, start, BYTES)).collect()
}

fn at_once() -> OpenOptions {
    OpenOptions {
        busy_timeout: Duration::ZERO,
        ..OpenOptions::default()
    }
}

#[test]
fn slices_of_one_file_are_open_together_unless_they_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let slices = cut_file(&path);
    let whole = path.to_str().unwrap();
    let overlapping = slice(whole, START_BYTES + BYTES - 512, 4096);
    let is_busy = |name: &str| {
        let opened = open_device(name, &at_once());
        let refused = opened.as_ref().err();
        matches!(refused, Some(OpenError::Busy { .. }))
    };
    assert_eq!(same_device(&[&slices[0], &slices[1]]), None);
    assert_eq!(same_device(&[&slices[0], &overlapping]), Some((0, 1)));
    assert_eq!(same_device(&[&slices[0], whole]), Some((0, 1)));
    // A process that another test starts holds all locks until it executes its program.
    let open = |name: &str| open_device(name, &OpenOptions::default()).unwrap();
    let first = open(&slices[0]);
    let second = open(&slices[1]);
    assert_eq!(first.facts().devices[0].name, slices[0]);
    for name in [&slices[0], &slices[1], &overlapping, whole] {
        assert!(is_busy(name), "{name}");
    }
    drop(first);
    let opened = open_device(&overlapping, &at_once()).map(drop);
    assert!(
        opened.is_err_and(|error| matches!(error, OpenError::Busy { .. })),
        "of the second"
    );
    drop(open(&slices[0]));
    assert!(
        is_busy(whole),
        "the second keeps the lock that the first took"
    );
    drop(second);
    drop(open(whole));
    let all = open(whole);
    assert!(is_busy(&slices[2]));
    drop(all);
    drop(open(&slices[2]));
}

/// A server that closes its array for a moment keeps the lock of a file with two members.
#[test]
fn the_lock_of_slices_is_kept_between_two_openings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let slices = cut_file(&path);
    let whole = path.to_str().unwrap();
    let locks = Locks::lasting();
    let options = OpenOptions {
        locks: locks.clone(),
        ..OpenOptions::default()
    };
    let open = || [0, 1].map(|at| open_device(&slices[at], &options).unwrap());
    let is_free = || open_device(whole, &at_once()).is_ok();
    for closed_last in [0, 1] {
        let mut opened = open().map(Some);
        let keeping = locks.keep();
        opened[1 - closed_last] = None;
        assert!(!is_free());
        opened[closed_last] = None;
        assert!(!is_free(), "it is kept");
        let opened = open();
        drop(keeping);
        assert!(!is_free());
        drop(opened);
        open_device(whole, &OpenOptions::default()).unwrap();
    }
}

#[test]
fn slices_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    cut_file(&path);
    let whole = path.to_str().unwrap();
    let sectors = 6 * BYTES / 512;
    for (slice, message) in [
        (format!("slice({whole},{sectors}s)"), "does not fit"),
        (
            format!("slice({whole},0s,{}s)", sectors + 1),
            "does not fit",
        ),
        (
            format!("slice({whole},{}s,2s)", sectors - 1),
            "does not fit",
        ),
        (format!("slice({whole},0s,0s)"), "a slice of length 0"),
        (
            format!("slice({whole},100)"),
            "not a whole number of sectors",
        ),
        (
            format!("slice({whole},100000000000000000000s)"),
            "too large",
        ),
        (format!("slice(slice({whole},0s),0s)"), "a slice of a slice"),
        (format!("slice({whole}.none,0s)"), "can't open"),
        (format!("slice({whole}"), "lacks the start"),
    ] {
        let error = open_device(&slice, &at_once()).err().unwrap().to_string();
        assert!(error.contains(message), "{slice}: {error}");
    }
    let device = match Loop::new(&path, 4096) {
        Ok(device) => device,
        Err(reason) => return skip("slices_that_do_not_fit_are_refused", &reason),
    };
    // Another process may look at the block device meanwhile: wait for it.
    let waits = OpenOptions::default();
    let cut = slice(&device.0, START_BYTES, 4096);
    let error = open_device(&cut, &waits).err().unwrap();
    assert!(matches!(error, OpenError::CutsSector { .. }), "{error}");
    drop(open_device(&slice(&device.0, 8192, 4096), &waits).unwrap());
}

/// A loop device on a part of a file lies next to slices of the file.
#[test]
fn slices_and_a_loop_device_on_another_part_are_open_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    cut_file(&path);
    let device = match Loop::with(
        &path,
        &[
            "--offset",
            &BYTES.to_string(),
            "--sizelimit",
            &BYTES.to_string(),
        ],
    ) {
        Ok(device) => device,
        Err(reason) => {
            return skip(
                "slices_and_a_loop_device_on_another_part_are_open_together",
                &reason,
            );
        }
    };
    let whole = path.to_str().unwrap();
    let (before, after) = (slice(whole, 0, BYTES), slice(whole, 2 * BYTES, BYTES));
    let overlapping = slice(whole, BYTES - 512, 4096);
    let first = open_device(&before, &at_once()).unwrap();
    let device_too = open_device(&device.0, &at_once()).unwrap();
    assert!(open_device(&overlapping, &at_once()).is_err());
    drop(first);
    let last = open_device(&after, &at_once()).unwrap();
    assert!(open_device(whole, &at_once()).is_err());
    drop((device_too, last));
    let overlapping = open_device(&overlapping, &at_once()).unwrap();
    assert!(open_device(&device.0, &at_once()).is_err());
    drop(overlapping);
    drop(open_device(&device.0, &at_once()).unwrap());
}

/// One flush of the array, of which two members are on one file, flushes the file once.
#[test]
fn slices_of_one_file_share_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let slices = cut_file(&folder.path().join("file"));
    for io in QUEUES {
        let expression = format!("raid1({})", slices.join(","));
        let expression = Expression::parse(&expression).unwrap();
        let options = PlainOptions {
            open: options(io, BlockSize::B4096),
            ..PlainOptions::default()
        };
        let mut target = plain::open(&expression, &options).unwrap().target;
        let buffer = place(target.allocate(1));
        let write = Operation::Write { fua: false };
        for flushes in 1..=3 {
            run(target.as_mut(), write, flushes, 1, buffer).unwrap();
            let flush = run(target.as_mut(), Operation::Flush, 0, 0, BufferSlice::NONE);
            flush.unwrap();
            let counters = target.counters().total();
            assert_eq!((counters.flushes, counters.writes), (flushes, 4 * flushes));
        }
        target.close().unwrap();
    }
}

/// A slice of an array is a member of another one.
#[test]
fn a_slice_of_an_array_has_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| {
        let made = BACKENDS.last().unwrap().fresh(folder.path(), name, BYTES);
        made.unwrap().unwrap()
    });
    let open = |expression: &str| {
        let expression = Expression::parse(expression).unwrap();
        plain::open(&expression, &PlainOptions::default()).map(|opened| opened.target)
    };
    let inner = format!("raid0({},{})", files[0], files[1]);
    let data = pattern(3, 64 << 10);
    let mut outer = open(&format!("raid1(slice({inner},128s,2048s),mem:1M)")).unwrap();
    assert_eq!(outer.facts().bytes(), 2048 * 512);
    let buffer = outer.allocate(16);
    outer.buffer_mut(buffer).copy_from_slice(&data);
    let write = Operation::Write { fua: false };
    run(outer.as_mut(), write, 2, 16, place(buffer)).unwrap();
    outer.close().unwrap();
    let mut whole = open(&inner).unwrap();
    let buffer = whole.allocate(16);
    let first = 128 * 512 / 4096 + 2;
    run(whole.as_mut(), Operation::Read, first, 16, place(buffer)).unwrap();
    assert!(whole.buffer(buffer) == data);
    drop(whole);
    for (cut, message) in [
        ("1G", "goes beyond the end"),
        ("64s,1G", "goes beyond the end"),
    ] {
        let error = open(&format!("raid0(slice({inner},{cut}),mem:1M)"))
            .err()
            .unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn loop_devices_keep_the_backend_promises() {
    let folder = tempfile::tempdir().unwrap();
    for (sector_bytes, io) in [512, 4096]
        .into_iter()
        .flat_map(|s| QUEUES.map(|io| (s, io)))
    {
        for size in SIZES {
            let path = folder
                .path()
                .join(format!("{sector_bytes}-{io:?}-{size:?}"));
            std::fs::File::create_new(&path)
                .unwrap()
                .set_len(BYTES)
                .unwrap();
            let device = match Loop::new(&path, sector_bytes) {
                Ok(device) => device,
                Err(reason) => return skip("loop_devices_keep_the_backend_promises", &reason),
            };
            let options = options(io, size);
            if size.bytes() < sector_bytes {
                let error = open_device(&device.0, &options).err().unwrap();
                assert!(matches!(error, OpenError::BlockSize { .. }), "{error}");
                continue;
            }
            check(&device.0, "device", &options);
            let read_only = OpenOptions {
                read_only: true,
                ..options
            };
            let target = open_device(&device.0, &read_only).unwrap();
            assert_eq!(target.facts().devices[0].sector_bytes, sector_bytes);
            assert!(target.facts().devices[0].direct);
            let queue = device.0.replace("/dev/", "/sys/block/") + "/queue/write_zeroes_max_bytes";
            let most = std::fs::read_to_string(queue).unwrap();
            let is_free = target.facts().devices[0].zeroes_without_moving_bytes;
            assert_eq!(is_free, most.trim() != "0");
            drop(target);
        }
    }
}

/// A block device can't be read beyond its last whole sector.
#[test]
fn a_device_is_used_up_to_its_last_whole_sector() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, bytes) in [("odd", BYTES + 1024), ("other", BYTES)] {
        let file = std::fs::File::create_new(path(name)).unwrap();
        file.set_len(bytes).unwrap();
    }
    let device = match Loop::new(&path("odd"), 4096) {
        Ok(device) => device,
        Err(reason) => {
            return skip("a_device_is_used_up_to_its_last_whole_sector", &reason);
        }
    };
    let target = open_device(&device.0, &OpenOptions::default()).unwrap();
    assert_eq!(target.facts().devices[0].bytes, BYTES);
    drop(target);
    let members = format!("raid1({},{})", device.0, path("other").display());
    let expression = Expression::parse(&members).unwrap();
    create(&expression, &CreateOptions::new("odd"), &mut |_, _| true).unwrap();
}

/// If a device claims that zeroing moves no bytes, that is true. Opening a file leaves it
/// unchanged.
#[test]
fn targets_report_whether_zeroing_transfers_data() {
    let is_free = |name: &str| {
        let target = open_device(name, &OpenOptions::default()).unwrap();
        target.facts().devices[0].zeroes_without_moving_bytes
    };
    assert!(is_free("mem:1M"));
    assert!(is_free("null:1M"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, pattern(1, 102_400)).unwrap();
    let changed = || {
        let data = std::fs::metadata(&path).unwrap();
        (data.ctime(), data.ctime_nsec(), data.blocks())
    };
    let before = changed();
    let is_reported = is_free(path.to_str().unwrap());
    assert_eq!(changed(), before);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punched = fallocate(&file, flags, 0, 65536).is_ok();
    assert!(punched || !is_reported);
    let in_memory = memfd_create("memory", MemfdFlags::empty()).unwrap();
    ftruncate(&in_memory, 1 << 20).unwrap();
    assert!(is_free(&format!("/proc/self/fd/{}", in_memory.as_raw_fd())));
}

/// A file that was truncated while the target had it open.
#[test]
fn lost_blocks_are_read_errors() {
    let folder = tempfile::tempdir().unwrap();
    for io in QUEUES {
        let path = folder.path().join(format!("{io:?}"));
        std::fs::write(&path, pattern(1, 65536)).unwrap();
        let name = path.to_str().unwrap();
        let mut target = open_device(name, &options(io, BlockSize::B4096)).unwrap();
        let buffer = place(target.allocate(16));
        run(target.as_mut(), Operation::Read, 0, 16, buffer).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(32768).unwrap();
        run(target.as_mut(), Operation::Read, 0, 8, buffer).unwrap();
        let answer = run(target.as_mut(), Operation::Read, 4, 8, buffer);
        assert_eq!(answer, Err(RequestError::BeyondTolerance));
        assert_eq!(target.counters().total().errors, 1);
    }
}

#[test]
fn a_read_only_target_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, pattern(1, 65536)).unwrap();
    for name in [path.to_str().unwrap(), "mem:64K"] {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        let mut target = open_device(name, &options).unwrap();
        let buffer = place(target.allocate(1));
        run(target.as_mut(), Operation::Read, 0, 1, buffer).unwrap();
        for operation in [
            Operation::Write { fua: true },
            Operation::Discard,
            Operation::WriteZeroes { fua: false },
        ] {
            let answer = run(target.as_mut(), operation, 0, 1, buffer);
            assert_eq!(answer, Err(RequestError::ReadOnly));
        }
        target.close().unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), pattern(1, 65536));
}

#[test]
fn a_target_accepts_at_most_requests_max_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::File::create_new(&path)
        .unwrap()
        .set_len(65536)
        .unwrap();
    for name in [path.to_str().unwrap(), "mem:64K"] {
        let options = OpenOptions {
            requests_max: 4,
            ..OpenOptions::default()
        };
        let mut target = open_device(name, &options).unwrap();
        let buffer = place(target.allocate(1));
        let request = |token| Request {
            token,
            operation: Operation::Read,
            block: BlockIndex(0),
            blocks: 1,
            buffer,
        };
        for round in 0..100 {
            for token in 0..4 {
                target.submit(request(token)).unwrap();
            }
            if round == 0 {
                target.submit(request(4)).unwrap_err();
            }
            assert_eq!(std::iter::from_fn(|| target.poll(true)).count(), 4);
        }
    }
}

/// The I/O in flight of a killed program keeps its files busy for a while: the next opening waits.
#[test]
fn opening_waits_for_a_briefly_busy_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held").to_str().unwrap().to_owned();
    std::fs::write(&path, [0; 4096]).unwrap();
    let held = open_device(&path, &OpenOptions::default()).unwrap();
    let at_once = OpenOptions {
        busy_timeout: std::time::Duration::ZERO,
        ..OpenOptions::default()
    };
    let refused = open_device(&path, &at_once).err();
    assert!(
        matches!(refused, Some(OpenError::Busy { .. })),
        "{refused:?}"
    );
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| open_device(&path, &OpenOptions::default()).is_ok());
        std::thread::sleep(std::time::Duration::from_secs(1));
        held.close().unwrap();
        assert!(opened.join().unwrap());
    });
}

#[test]
fn errors_name_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("small"), [0; 4095]).unwrap();
    std::fs::write(path("held"), [0; 4096]).unwrap();
    let _held = open_device(&path("held"), &OpenOptions::default()).unwrap();
    for (name, expected) in [
        (
            path("none"),
            "can't open {}: No such file or directory (os error 2)",
        ),
        (
            path("small"),
            "{} holds 4095 bytes, less than one block of 4096: give a larger one",
        ),
        (
            path("."),
            "{} is a folder: give a file, a block device, nbd://HOST/EXPORT, mem:SIZE or null:SIZE",
        ),
        (
            "/dev/zero".to_owned(),
            "{} is a character device: give a file, a block device, nbd://HOST/EXPORT, mem:SIZE or \
             null:SIZE",
        ),
        (
            "mem:1X".to_owned(),
            "{}: not a size: give a whole number, with K, M, G or T (powers of 1024) or s (sectors \
             of 512 bytes) after it, for example 64K",
        ),
        (
            "null:".to_owned(),
            "{}: not a size: give a whole number, with K, M, G or T (powers of 1024) or s (sectors \
             of 512 bytes) after it, for example 64K",
        ),
    ] {
        let error = open_device(&name, &OpenOptions::default()).err().unwrap();
        assert_eq!(error.to_string(), expected.replace("{}", &name));
    }
    let at_once = OpenOptions {
        busy_timeout: std::time::Duration::ZERO,
        ..OpenOptions::default()
    };
    let error = open_device(&path("held"), &at_once).err();
    let error = error.unwrap().to_string();
    let held = format!("{} is in use by ", path("held"));
    assert!(error.starts_with(&held), "{error}");
    // A program that another test starts meanwhile holds the file too, until it is executed.
    let by = format!("pid {} (", std::process::id());
    assert!(error.contains(&by), "{error}");
    // Held by this process itself, as when a server runs a command on its own array.
    assert!(
        error.contains(": the array's server has it open,"),
        "{error}"
    );
}

/// The kind of medium is found down to the disk, and shared devices are detected.
#[test]
fn device_facts_come_from_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::File::create_new(&path)
        .unwrap()
        .set_len(BYTES)
        .unwrap();
    let below = physical_device(&path);
    match Loop::new(&path, 4096) {
        Ok(device) => assert_eq!(physical_device(Path::new(&device.0)), below),
        Err(reason) => skip("device_facts_come_from_the_device", &reason),
    }
    assert_eq!(
        physical_device(Path::new("mem:1M")).as_deref(),
        Some("memory")
    );
    assert_eq!(physical_device(Path::new("null:1M")), None);
}

fn physical_device(path: &Path) -> Option<String> {
    let mut stack = Stack::new(&OpenOptions::default()).unwrap();
    let device = stack.add_device(path.to_str().unwrap()).unwrap();
    let target = stack.into_target(device);
    target.facts().devices[0].physical_device.clone()
}

/// A device is served, or measured, to its last byte: in smaller blocks, or not at all.
#[test]
fn a_device_is_a_whole_number_of_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let name = path.to_str().unwrap();
    let open = |bytes: u64, block_size| {
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        let options = OpenOptions {
            block_size,
            ..OpenOptions::default()
        };
        let target = open_device(name, &options);
        target.map(|target| (target.facts().bytes(), target.facts().block_size.bytes()))
    };
    for (bytes, block_size, block_bytes) in [
        (1 << 20, None, 4096),
        ((1 << 20) + 3584, None, 512),
        (512, None, 512),
        ((1 << 20) + 512, Some(BlockSize::B512), 512),
    ] {
        assert_eq!(open(bytes, block_size).unwrap(), (bytes, block_bytes));
    }
    for (bytes, block_size) in [
        ((1 << 20) + 1, None),
        ((1 << 20) + 512, Some(BlockSize::B4096)),
    ] {
        let error = open(bytes, block_size).unwrap_err();
        assert!(matches!(error, OpenError::NotWhole { .. }), "{error}");
    }
    assert!(open_device("mem:1000001", &OpenOptions::default()).is_err());
}

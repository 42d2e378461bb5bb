//! After open, nothing on the data path allocates: neither the engine, nor the driver, nor the
//! queues.

#![allow(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

use crate::common::{Devices, place};
use spindles_admin::assemble::AssembleOptions;
use spindles_admin::create::CreateOptions;
use spindles_admin::plain::{self, PlainOptions};
use spindles_array::Target;
use spindles_block::{BlockIndex, Instant, Operation, Request};
use spindles_device::{IoChoice, OpenOptions};
use spindles_layout::Expression;
use spindles_model::{Draw, Tag, Work, World, preset};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations while the target runs many requests of all kinds, as many at
/// once as it takes.
fn allocations(target: &mut dyn Target, requests: u64) -> u64 {
    let depth = u64::from(target.facts().requests_max);
    let blocks = 48;
    let buffer = target.allocate(blocks);
    let places = target.facts().blocks - u64::from(blocks);
    let before = ALLOCATIONS.with(Cell::get);
    for token in 0..requests {
        let operation = match token % 7 {
            0..=2 => Operation::Read,
            3 | 4 => Operation::Write { fua: false },
            5 => Operation::WriteZeroes { fua: false },
            _ => Operation::Discard,
        };
        let request = Request {
            token,
            operation,
            block: BlockIndex(token * 7919 % places),
            blocks: 1 + u32::try_from(token * 31 % u64::from(blocks)).unwrap(),
            buffer: place(buffer),
        };
        if token >= depth {
            assert_eq!(target.poll(true).unwrap().result, Ok(()));
        }
        target.submit(request).unwrap();
    }
    while target.poll(true).is_some() {}
    ALLOCATIONS.with(Cell::get) - before
}

fn check(array: &str, io: IoChoice, device: &str) {
    let options = PlainOptions {
        open: OpenOptions {
            io,
            requests_max: 32,
            ..OpenOptions::default()
        },
        chunk_bytes: Some(16 << 10),
        ..PlainOptions::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let counted = Expression::parse_counted(array).unwrap();
    let expression = counted.with_leaves(&mut |index| {
        if device != "file" {
            return device.to_owned();
        }
        let path = folder.path().join(index);
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(2 << 20).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let before = ALLOCATIONS.with(Cell::get);
    let mut target = plain::open(&expression, &options).unwrap().target;
    assert!(
        ALLOCATIONS.with(Cell::get) > before,
        "allocations are counted"
    );
    // Files are slow, and a few hundred requests fill every queue often enough.
    let requests = if device == "file" { 300 } else { 2000 };
    assert_eq!(allocations(target.as_mut(), requests), 0, "{expression}");
    target.close().unwrap();
}

/// Writes of parts of rows go to the log of the members, in several pieces of memory.
#[test]
fn logged_writes_allocate_nothing() {
    for io in [IoChoice::Uring, IoChoice::Threads] {
        let devices = Devices::new(&["a", "b", "c"], 64 << 20);
        devices.create("raid5(a,b,c)", &CreateOptions::new("a"));
        let options = AssembleOptions {
            open: OpenOptions {
                io,
                ..OpenOptions::default()
            },
            ..AssembleOptions::default()
        };
        let mut target = devices.assemble(&["a", "b", "c"], &options).unwrap().target;
        let buffer = target.allocate(1);
        let mut write = |block| {
            let request = Request {
                token: block,
                operation: Operation::Write { fua: false },
                block: BlockIndex(block),
                blocks: 1,
                buffer: place(buffer),
            };
            target.submit(request).unwrap();
            assert_eq!(target.poll(true).unwrap().result, Ok(()));
        };
        (0..64).for_each(&mut write);
        let before = ALLOCATIONS.with(Cell::get);
        (0..64).rev().for_each(&mut write);
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{io:?}");
        target.close().unwrap();
    }
}

#[test]
fn nothing_allocates_after_open() {
    for array in [
        "raid0(3)",
        "raid1(2)",
        "raid5(4)",
        "raid6(5)",
        "raid0(raid5(3),raid1(2))",
    ] {
        for device in ["null:2M", "mem:2M"] {
            check(array, IoChoice::Auto, device);
        }
    }
    for io in [IoChoice::Uring, IoChoice::Threads] {
        check("raid5(4)", io, "file");
        check("raid0(raid5(3),raid1(2))", io, "file");
    }
}

/// Writes, and the cleaning of a worn drive.
#[test]
fn a_modelled_drive_of_flash_allocates_nothing() {
    let parameters = preset("samsung-980-pro-1tb").unwrap();
    let mut world = World::new();
    let disk = world.add_disk(&parameters, &Draw::nominal(1), &[]).unwrap();
    let (mut answers, mut block, mut now) = (Vec::with_capacity(64), 1, Instant(0));
    let mut run = |requests: u64| {
        let before = ALLOCATIONS.with(Cell::get);
        for request in 0..requests {
            block = block * 7919 % 199_999_999;
            let operation = match request % 8 {
                0 => Operation::Read,
                1 => Operation::Discard,
                fua => Operation::Write { fua: fua == 2 },
            };
            let work = Work {
                operation,
                offset_bytes: block * 4096,
                length_bytes: 65_536,
            };
            world.submit(now, disk, Tag(request), work);
            answers.clear();
            while let Some(at) = world.next_event() {
                world.advance(at, &mut answers);
                now = at;
            }
        }
        ALLOCATIONS.with(Cell::get) - before
    };
    run(64);
    assert_eq!(run(20_000), 0);
}

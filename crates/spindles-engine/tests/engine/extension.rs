//! An array that gets larger on its members, and is interrupted at any moment. The array has its
//! old or its new size, with unchanged contents, and zeros behind them.

use crate::public::world::{BLOCK, Kept, Setup, World, at_block};
use spindles_engine::{geometry_of, plan_size};
use spindles_format::{ArrayRecord, DeviceRecord};
use spindles_layout::{Level, Spec};

const SMALL_ROWS: u64 = 44;

struct Way {
    level: &'static str,
    members: u8,
    /// Data blocks of each member afterwards.
    rows: [u64; 4],
    /// True if a member may be missing.
    redundant: bool,
}

const WAYS: [Way; 5] = [
    Way {
        level: "raid5",
        members: 3,
        rows: [120, 100, 130, 0],
        redundant: true,
    },
    Way {
        level: "raid6",
        members: 4,
        rows: [300; 4],
        redundant: true,
    },
    Way {
        level: "raid1",
        members: 2,
        rows: [70, 900, 0, 0],
        redundant: true,
    },
    Way {
        level: "raid0",
        members: 3,
        rows: [60, 130, 200, 0],
        redundant: false,
    },
    Way {
        level: "concat",
        members: 2,
        rows: [0, 103, 0, 0],
        redundant: false,
    },
];

fn setup(record: Option<&ArrayRecord>, way: &Way, seed: u64) -> Setup {
    // The last chunk of a concatenation is a partial one.
    let rows =
        |member: usize| record.map_or(SMALL_ROWS - 1, |record| record.member[member].data_blocks);
    let mut setup = Setup::new(Spec {
        level: Level::by_name(way.level).unwrap(),
        layout: None,
        chunk_blocks: 4,
        member_blocks: (0..usize::from(way.members)).map(rows).collect(),
    });
    setup.persistent = true;
    setup.regions = true;
    setup.checksum_pages = Some(8);
    setup.policy = "journal";
    setup.seed = seed;
    setup
}

/// An array on members with more room than it uses, with data in some of its regions. Also returns
/// its contents. If its end is written, the rows behind it must be zeroed.
fn prepare(way: &Way, seed: u64, ends_written: bool) -> (World, Vec<u8>) {
    let small = setup(None, way, seed);
    let mut world = small.open().unwrap();
    world.run();
    let mut record = world.engine.record().unwrap().clone();
    for member in &mut record.member[..usize::from(way.members)] {
        member.data_blocks = SMALL_ROWS - 1;
    }
    assert!(world.close());
    for (member, device) in world.members.iter_mut().zip(&world.devices) {
        member.resize(usize::try_from(device.device_bytes).unwrap(), 0xaa);
    }
    let mut world = world.reopen_as(&small, record, None);
    world.run();
    let blocks = world.engine.geometry().blocks();
    let mut held = vec![0; at_block(blocks)];
    let last = if ends_written { blocks - 1 } else { 0 };
    for block in [last, world.rng.below(blocks), world.rng.below(blocks)] {
        let at = at_block(block);
        let byte = u8::try_from(1 + world.rng.below(200)).unwrap();
        held[at..at + BLOCK].fill(byte);
        world.write(block, &[byte; BLOCK]).unwrap();
    }
    assert!(world.close());
    (world, held)
}

/// A device with room for `rows` blocks of data.
fn with_room(device: &DeviceRecord, rows: u64) -> DeviceRecord {
    let mut areas = device.areas().to_vec();
    let data = areas.last_mut().unwrap();
    data.length_bytes = rows * 512;
    DeviceRecord::new(
        device.member,
        device.block_size,
        device.device_bytes,
        &areas,
    )
    .unwrap()
}

/// Returns the contents of an array after its opening.
fn contents(world: &mut World) -> Vec<u8> {
    world.run();
    world.read_all()
}

#[test]
fn an_array_that_gets_larger_is_either_at_any_moment() {
    let (mut small, mut large) = (0, 0);
    for (way, ends_written) in WAYS.iter().flat_map(|way| [(way, true), (way, false)]) {
        for stop in 0.. {
            let seed = u64::try_from(stop).unwrap() + 1;
            let (world, held) = prepare(way, seed % 7 + 1, ends_written);
            let record = world.engine.record().unwrap().clone();
            let mut devices = world.devices.clone();
            for (device, rows) in devices.iter_mut().zip(way.rows) {
                *device = with_room(device, rows.max(SMALL_ROWS));
            }
            let (larger, extent) = plan_size(&record, &devices, None).unwrap();
            let blocks = geometry_of(&larger).unwrap().blocks();
            let to_be = setup(Some(&larger), way, seed);
            let mut world = world.reopen_as(&to_be, larger, Some(extent));
            let mut steps = 0;
            while steps < stop && !world.idle() {
                world.step();
                steps += 1;
            }
            let whole = world.idle();
            world.lose_power(|rng| match rng.below(2) {
                0 => Kept::Nothing,
                _ => Kept::All,
            });
            let said = (0..usize::from(way.members)).flat_map(|member| world.superblocks(member));
            let record = said.max_by_key(|record| record.generation).unwrap();
            let left = setup(Some(&record), way, seed);
            let mut world = world.reopen_as(&left, record, None);
            let found = contents(&mut world);
            assert!(found.starts_with(&held), "{} at {stop}", way.level);
            let more = &found[held.len()..];
            assert!(
                more.iter().all(|byte| *byte == 0),
                "{} at {stop}",
                way.level
            );
            assert!(
                !more.is_empty() || !whole,
                "{}: it came to its end",
                way.level
            );
            if more.is_empty() {
                small += 1;
            } else {
                large += 1;
                assert_eq!(found.len(), at_block(blocks));
                world.write(blocks - 3, &[0xee; 2 * BLOCK]).unwrap();
            }
            assert!(world.close());
            assert_eq!(world.wrong_checksums(), [], "{} at {stop}", way.level);
            let mut world = world.reopen(&left);
            let found = contents(&mut world);
            if way.redundant {
                let away = u8::try_from(world.rng.below(way.members.into())).unwrap();
                world.fail(away);
                let without = contents(&mut world);
                assert!(without == found, "{} at {stop} without {away}", way.level);
            }
            if whole {
                break;
            }
        }
    }
    assert!(small > 50 && large > 20, "{small} {large}");
}

//! A pattern written through one assembly of an array reads back through every other: devices in
//! any order, any tolerated set of them absent. Tests every level and layout on real files.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_block::{BlockSize, MemberIndex, MemberSet};
use spindles_copy::{CopyEnd, Progress, compare, copy};
use spindles_device::{IoChoice, OpenOptions};
use spindles_engine::Policy;
use spindles_layout::{Expression, Geometry, LEVELS, Level, Redundancy, Slice, Spec};
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

const CHUNK_BYTES: u64 = 12 << 10;

fn on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Creates a file of bytes that differ everywhere and with the seed.
fn pattern(path: &Path, bytes: u64, seed: u64) {
    let bytes = usize::try_from(bytes).unwrap();
    std::fs::write(path, common::pattern(seed, bytes)).unwrap();
}

fn options(read_only: bool) -> AssembleOptions {
    AssembleOptions {
        open: OpenOptions {
            read_only,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

/// The devices of one array, with their names in the order of its positions.
struct Devices {
    folder: TempDir,
    names: Vec<String>,
}

impl Devices {
    /// Creates devices, some a little larger than others. Every second one is a slice of one file.
    fn new(count: u8) -> Self {
        let folder = TempDir::new().unwrap();
        let make = |name: &str, bytes| {
            let path = folder.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let cut = make("cut.img", (2 << 20) * u64::from(count));
        let names = (0..count).map(|number| {
            let bytes = (1 << 20) + u64::from(number % 3) * 20_480;
            if number % 2 == 0 {
                return make(&format!("{number}.img"), bytes);
            }
            let slice = Slice {
                device: cut.clone(),
                start_bytes: 265 * 512 + (2 << 20) * u64::from(number - 1),
                length_bytes: Some(bytes),
            };
            slice.to_string()
        });
        let names = names.collect();
        Self { folder, names }
    }

    fn create(expression: &str, block_size: BlockSize) {
        let parsed = Expression::parse(expression).unwrap_or_else(|error| panic!("{error}"));
        let options = CreateOptions {
            block_size,
            chunk_bytes: Some(CHUNK_BYTES),
            // Logged writes are written twice.
            consistency: Policy::by_name("resync"),
            checksum: Some(spindles_format::ChecksumKind::None),
            degraded_writes: true,
            ..CreateOptions::new("a")
        };
        let created = create(&parsed, &options, &mut |_, _| true);
        created.unwrap_or_else(|error| panic!("{expression}: {error}"));
    }

    fn create_level(&self, level: &Level, layout: &str, block_size: BlockSize) {
        let list = self.names.join(",");
        let colon = if layout.is_empty() { "" } else { ":" };
        Self::create(&format!("{level}{colon}{layout}({list})"), block_size);
    }

    /// The names without the missing members, in an order that depends on `turn`.
    fn without(&self, missing: MemberSet, turn: usize) -> Vec<&str> {
        let members = (0..).map(MemberIndex).zip(&self.names);
        let there = members.filter(|(member, _)| !missing.contains(*member));
        let mut names: Vec<&str> = there.map(|(_, name)| name.as_str()).collect();
        let turn = turn % names.len().max(1);
        names.rotate_left(turn);
        if turn % 2 == 1 {
            names.reverse();
        }
        names
    }

    fn open(
        &self,
        missing: MemberSet,
        turn: usize,
        read_only: bool,
    ) -> Result<CopyEnd, AssembleError> {
        let names = self.without(missing, turn);
        let mut options = options(read_only);
        if !turn.is_multiple_of(8) {
            // A ring takes long to set up.
            options.open.io = IoChoice::Threads;
        }
        Ok(CopyEnd::new(assemble(&names, &options)?.target))
    }
}

fn every_layout(mut visit: impl FnMut(&'static Level, &str, u8)) {
    for level in LEVELS.iter().copied() {
        for row in level.layouts {
            let members = match level.redundancy {
                Redundancy::Copies => 5,
                Redundancy::Parity(chunks) => chunks + 3,
                _ => 3,
            };
            visit(level, row.name, members);
        }
    }
}

/// The array's map, to find out what it survives.
fn geometry(level: &'static Level, layout: &str, members: u8) -> Geometry {
    Geometry::new(&Spec {
        level,
        layout: Some(level.layout(layout).unwrap()),
        chunk_blocks: 3,
        member_blocks: vec![300; usize::from(members)],
    })
    .unwrap()
}

#[test]
fn a_pattern_reads_back_through_every_other_assembly() {
    every_layout(|level, layout, members| {
        let devices = Devices::new(members);
        devices.create_level(level, layout, BlockSize::B4096);
        let source = devices.folder.path().join("pattern");
        let mut to = devices.open(MemberSet::EMPTY, 0, false).unwrap();
        let bytes = to.bytes();
        pattern(&source, bytes, 1);
        let source = source.to_str().unwrap();
        let mut from = CopyEnd::open(source, &options(true).open).unwrap();
        let before = to.target().unwrap().counters().total();
        copy(&mut from, &mut to, bytes, &mut on).unwrap();
        let after = to.target().unwrap().counters().total();
        to.close().unwrap();

        // Whole stripes need no reading, and nothing is written twice.
        let geometry = geometry(level, layout, members);
        let slots = u64::from(geometry.data_chunks() + geometry.redundancy());
        let members_bytes = bytes / u64::from(geometry.data_chunks()) * slots;
        // Superblocks, bitmaps and pages of checksums, which are written more often on slow
        // machines.
        let metadata = 64 * 4096 * u64::from(members);
        let written = after.bytes_written - before.bytes_written;
        // The bitmaps are read once from each member.
        let read = after.bytes_read - before.bytes_read;
        assert!(read <= 2 * 4096 * u64::from(members), "{level} {layout}");
        assert!(
            (members_bytes..=members_bytes + metadata).contains(&written),
            "{level} {layout}: {written} instead of {members_bytes}"
        );
        let mut through = 0;
        for bits in 0..(1_u64 << members) - 1 {
            let missing = MemberSet::from_bits(bits);
            let what = format!("{level} {layout} without {missing:?}");
            let turn = usize::try_from(bits).unwrap();
            match devices.open(missing, turn, true) {
                Ok(mut array) => {
                    assert!(geometry.survives(missing), "{what}");
                    assert_eq!(array.bytes(), bytes, "{what}");
                    compare(&mut from, &mut array, bytes, &mut on)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    array.close().unwrap();
                    through += 1;
                }
                Err(error) => {
                    assert!(!geometry.survives(missing), "{what}: {error}");
                    let named = error.to_string();
                    assert!(named.contains("missing"), "{what}: {named}");
                }
            }
        }
        assert!(
            through > usize::from(geometry.redundancy()),
            "{level} {layout}"
        );
    });
}

#[test]
fn degraded_writes_read_back_degraded() {
    every_layout(|level, layout, members| {
        let geometry = geometry(level, layout, members);
        if geometry.redundancy() == 0 {
            return;
        }
        // As many members as it is sure to survive, from member 1 on.
        let count = geometry.redundancy().min(members - 1);
        let missing: MemberSet = (1..=count).map(MemberIndex).collect();
        let missing = if geometry.survives(missing) {
            missing
        } else {
            MemberSet::EMPTY.with(MemberIndex(1))
        };
        let devices = Devices::new(members);
        devices.create_level(level, layout, BlockSize::B512);
        let source = devices.folder.path().join("pattern");
        let source_name = source.to_str().unwrap().to_owned();
        for seed in [1, 2] {
            let absent = if seed == 1 { MemberSet::EMPTY } else { missing };
            let mut to = devices.open(absent, 0, false).unwrap();
            let bytes = to.bytes();
            pattern(&source, bytes, seed);
            let mut from = CopyEnd::open(&source_name, &options(true).open).unwrap();
            copy(&mut from, &mut to, bytes, &mut on).unwrap();
            compare(&mut from, &mut to, bytes, &mut on).unwrap();
            to.close().unwrap();
            let mut again = devices.open(absent, 3, true).unwrap();
            compare(&mut from, &mut again, bytes, &mut on)
                .unwrap_or_else(|error| panic!("{level} {layout}: {error}"));
        }
        // The absent members come back stale: their contents are not used.
        let Ok(mut whole) = devices.open(MemberSet::EMPTY, 1, true) else {
            return;
        };
        let mut from = CopyEnd::open(&source_name, &options(true).open).unwrap();
        let bytes = whole.bytes();
        compare(&mut from, &mut whole, bytes, &mut on)
            .unwrap_or_else(|error| panic!("{level} {layout} with stale members: {error}"));
    });
}

#[test]
fn a_nested_array_reads_back_without_a_device_of_each_array() {
    let devices = Devices::new(6);
    let names: Vec<&str> = devices.names.iter().map(String::as_str).collect();
    let (first, second) = (names[..3].join(","), names[3..].join(","));
    let expression = format!("raid0(raid5({first}),raid5({second}))");
    Devices::create(&expression, BlockSize::B4096);
    let source = devices.folder.path().join("pattern");
    let mut to = devices.open(MemberSet::EMPTY, 2, false).unwrap();
    let bytes = to.bytes();
    pattern(&source, bytes, 7);
    let mut from = CopyEnd::open(source.to_str().unwrap(), &options(true).open).unwrap();
    copy(&mut from, &mut to, bytes, &mut on).unwrap();
    to.close().unwrap();
    for (first, second) in [(0, 3), (1, 5), (2, 4)] {
        let missing = [first, second].map(MemberIndex).into_iter().collect();
        let mut array = devices.open(missing, 1, true).unwrap();
        compare(&mut from, &mut array, bytes, &mut on).unwrap();
    }
    let two_of_one = [0, 1].map(MemberIndex).into_iter().collect();
    assert!(devices.open(two_of_one, 0, true).is_err());
}

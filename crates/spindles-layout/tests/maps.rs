//! Every level and layout: the map and its inverse agree and cover the array.

use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::{Geometry, Group, GroupIndex, LEVELS, Layout, Level, Redundancy, Role, Spec};
use std::collections::BTreeMap;

/// Every level with every layout on every number of members up to `members_max`.
fn every_shape(members_max: u8) -> Vec<(&'static Level, Layout, u8)> {
    let mut shapes = Vec::new();
    for level in LEVELS.iter().copied() {
        for members in level.members_min..=members_max {
            for layout in level.layouts_on(members) {
                let named = level.layout(&layout.to_string());
                assert_eq!(named, Ok(layout), "a layout is found by its name");
                let closed = layout.to_string().replace(' ', "");
                assert_eq!(level.layout(&closed), Ok(layout), "{closed}");
                shapes.push((level, layout, members));
            }
        }
    }
    shapes
}

fn geometry(level: &'static Level, layout: Layout, chunk_blocks: u32, sizes: &[u64]) -> Geometry {
    Geometry::new(&Spec {
        level,
        layout: Some(layout),
        chunk_blocks,
        member_blocks: sizes.to_vec(),
    })
    .unwrap_or_else(|error| panic!("{level} {layout} {chunk_blocks} {sizes:?}: {error}"))
}

fn group_of(geometry: &Geometry, index: u64) -> Group {
    let mut group = Group::empty();
    geometry.group_into(GroupIndex(index), &mut group);
    group
}

/// Returns the geometry as text, for messages.
fn description(geometry: &Geometry, sizes: &[u64]) -> String {
    format!(
        "{} {} chunk {} {sizes:?}",
        geometry.level(),
        geometry.layout_name(),
        geometry.chunk_blocks()
    )
}

/// The group, slot and block within the chunk of each block of a member that the map uses.
type Covered = BTreeMap<(u8, u64), (u64, u8, u32)>;

/// Map and inverse agree: each block of the array is mapped once, no two chunks overlap, and the
/// inverse knows no place outside them. `locate` agrees with the groups.
fn check_map(geometry: &Geometry, sizes: &[u64]) {
    let what = description(geometry, sizes);
    let mut covered = Covered::new();
    let mut next_block = 0;
    for index in 0..geometry.groups() {
        let group = group_of(geometry, index);
        assert_eq!(group.index.0, index, "{what}");
        assert_eq!(group.first_block.0, next_block, "{what}: group {index}");
        assert_eq!(group.data_chunks, geometry.data_chunks(), "{what}");
        let slots = group.slots();
        let chunks = geometry.data_chunks() + geometry.redundancy();
        assert_eq!(slots.len(), usize::from(chunks), "{what}");
        let on: MemberSet = slots.iter().map(|slot| slot.member).collect();
        assert_eq!(
            on.count(),
            u32::from(chunks),
            "{what}: group {index} {slots:?}"
        );

        check_slots(geometry, sizes, &group, &mut covered);
        for data in 0..group.data_chunks {
            let slot = slots[usize::from(data)];
            for block in 0..group.blocks {
                let found = geometry.locate(BlockIndex(next_block));
                assert_eq!(found.group.0, index, "{what}: block {next_block}");
                assert_eq!(found.data_index, data, "{what}: block {next_block}");
                assert_eq!(found.block_in_chunk, block, "{what}: block {next_block}");
                assert_eq!(
                    found.blocks_left,
                    group.blocks - block,
                    "{what}: {next_block}"
                );
                assert_eq!(found.member, slot.member, "{what}: block {next_block}");
                assert_eq!(found.offset, slot.offset.plus(block.into()), "{what}");
                next_block += 1;
            }
        }
    }
    assert_eq!(next_block, geometry.blocks(), "{what}");
    check_inverse(geometry, sizes, &covered);
}

/// Checks the roles, code indices and places of a group's chunks, and adds their blocks to
/// `covered`.
fn check_slots(geometry: &Geometry, sizes: &[u64], group: &Group, covered: &mut Covered) {
    let what = description(geometry, sizes);
    let mut codes = Vec::new();
    for (number, slot) in (0..).zip(group.slots()) {
        let expected = match number {
            number if number < group.data_chunks => Role::Data(number),
            number if geometry.parity_chunks() > 0 => Role::Parity(number - group.data_chunks),
            number => Role::Copy(number),
        };
        assert_eq!(slot.role, expected, "{what}");
        codes.push(slot.code_index);
        for block in 0..group.blocks {
            let place = slot.offset.plus(block.into());
            assert!(
                place.0 < sizes[usize::from(slot.member.0)],
                "{what}: {slot:?}"
            );
            let before = covered.insert((slot.member.0, place.0), (group.index.0, number, block));
            assert_eq!(
                before, None,
                "{what}: two chunks at {place} of {}",
                slot.member
            );
        }
    }
    let chunks = geometry.data_chunks() + geometry.redundancy();
    if geometry.parity_chunks() > 0 {
        codes.sort_unstable();
        assert!(
            codes.into_iter().eq(0..chunks),
            "{what}: each code index once"
        );
    }
}

/// Checks that the inverse of the map finds the covered blocks and no others.
fn check_inverse(geometry: &Geometry, sizes: &[u64], covered: &Covered) {
    let what = description(geometry, sizes);
    for (member, size) in (0..).zip(sizes) {
        for offset in 0..size + 2 {
            let found = geometry.find(MemberIndex(member), BlockIndex(offset));
            let found = found.map(|(group, slot, block)| (group.0, slot, block));
            let expected = covered.get(&(member, offset)).copied();
            assert_eq!(found, expected, "{what}: member {member} at {offset}");
            let used = offset < geometry.member_blocks_used(MemberIndex(member));
            assert!(
                used || expected.is_none(),
                "{what}: member {member} at {offset}"
            );
        }
    }
}

#[test]
fn map_and_inverse_agree_and_cover_the_array() {
    for (level, layout, members) in every_shape(10) {
        for chunk_blocks in [1, 3] {
            // Two rotations, and a remainder of a third and of a chunk.
            let rows = 2 * u64::from(members) * u64::from(members) + 1;
            let rows = match level.redundancy {
                Redundancy::Copies => rows,
                _ => 2 * u64::from(members) + 1,
            };
            let size = rows * u64::from(chunk_blocks) + u64::from(chunk_blocks) - 1;
            let sizes = vec![size; usize::from(members)];
            check_map(&geometry(level, layout, chunk_blocks, &sizes), &sizes);
        }
    }
}

#[test]
fn any_multiple_of_the_block_is_a_chunk() {
    for (level, layout, members) in every_shape(6) {
        for chunk_blocks in [7, 48, 1000, 16_384, 131_072] {
            let rows = 3 * u64::from(members);
            let sizes = vec![rows * u64::from(chunk_blocks) + 5; usize::from(members)];
            let geometry = geometry(level, layout, chunk_blocks, &sizes);
            for index in 0..geometry.groups() {
                let group = group_of(&geometry, index);
                for (number, slot) in (0..).zip(group.slots()) {
                    for block in [0, group.blocks / 2, group.blocks - 1] {
                        let offset = slot.offset.plus(block.into());
                        let found = geometry.find(slot.member, offset);
                        let expected = Some((group.index, number, block));
                        assert_eq!(found, expected, "{level} {layout} chunk {chunk_blocks}");
                        let Role::Data(data) = slot.role else {
                            continue;
                        };
                        let before = u64::from(data) * u64::from(group.blocks);
                        let address = group.first_block.plus(before + u64::from(block));
                        let location = geometry.locate(address);
                        assert_eq!(location.group, group.index);
                        assert_eq!(location.offset, offset);
                        assert_eq!(location.blocks_left, group.blocks - block);
                    }
                }
            }
        }
    }
}

#[test]
fn unequal_members_are_fully_used() {
    let all_sizes: &[&[u64]] = &[
        &[7],
        &[1, 1],
        &[30, 7, 7],
        &[6, 12, 18],
        &[18, 6, 12],
        &[25, 7, 40, 7, 8, 25],
        &[9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
    ];
    for name in ["concat", "raid0"] {
        let level = Level::by_name(name).unwrap();
        for sizes in all_sizes {
            for chunk_blocks in [1, 3, 5, 7] {
                if name == "raid0" && sizes.iter().any(|size| *size < chunk_blocks.into()) {
                    continue;
                }
                let geometry = geometry(level, level.layout_default(), chunk_blocks, sizes);
                check_map(&geometry, sizes);
                let whole = |size: &u64| match name {
                    "concat" => *size,
                    _ => size - size % u64::from(chunk_blocks),
                };
                assert_eq!(geometry.blocks(), sizes.iter().map(whole).sum::<u64>());
            }
        }
    }
}

#[test]
fn each_zone_counts_its_chunks_from_zero() {
    let level = Level::by_name("raid0").unwrap();
    // Chunks of 2: one row of all three, one of members 0 and 2, two of member 2 alone.
    let geometry = geometry(level, level.layout_default(), 2, &[5, 3, 8]);
    let members: Vec<(u8, u64)> = (0..geometry.blocks() / 2)
        .map(|chunk| geometry.locate(BlockIndex(chunk * 2)))
        .map(|location| (location.member.0, location.offset.0))
        .collect();
    assert_eq!(
        members,
        [(0, 0), (1, 0), (2, 0), (0, 2), (2, 2), (2, 4), (2, 6)]
    );
}

/// As in Linux before 3.14. The second zone begins with chunk 3, on the second of its two members.
#[test]
fn the_original_layout_deals_chunks_by_their_number_in_the_array() {
    let level = Level::by_name("raid0").unwrap();
    let layout = level.layout("original").unwrap();
    let sizes = [2, 6, 8];
    let geometry = geometry(level, layout, 2, &sizes);
    let places: Vec<(u8, u64)> = (0..geometry.blocks() / 2)
        .map(|chunk| geometry.locate(BlockIndex(chunk * 2)))
        .map(|location| (location.member.0, location.offset.0))
        .collect();
    assert_eq!(
        places,
        [
            (0, 0),
            (1, 0),
            (2, 0),
            (2, 2),
            (1, 2),
            (2, 4),
            (1, 4),
            (2, 6)
        ]
    );
    check_map(&geometry, &sizes);
}

#[test]
fn a_layout_of_two_numbers_takes_both_or_none() {
    let level = Level::by_name("raid10").unwrap();
    assert_eq!(level.layout("near far"), level.layout("near2far2"));
    for wrong in [
        "near 2 far",
        "near far 2",
        "near2far0",
        "2near",
        "near 2 2",
        "far 2 near 2",
    ] {
        assert!(level.layout(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn members_are_used_up_to_the_smallest_size() {
    let level = Level::by_name("raid5").unwrap();
    let sizes = [100, 31, 64];
    let geometry = geometry(level, level.layout_default(), 10, &sizes);
    assert_eq!(geometry.blocks(), 60);
    assert_eq!(geometry.member_blocks_used(MemberIndex(0)), 30);
    check_map(&geometry, &sizes);
}

#[test]
fn rotating_parity_is_spread_equally_over_members() {
    for (level, layout, members) in every_shape(10) {
        let Redundancy::Parity(parity_chunks) = level.redundancy else {
            continue;
        };
        let moves = level.name != "raid4" && !layout.to_string().starts_with("parity-");
        let turns = 3;
        let stripes = turns * u64::from(members);
        let geometry = geometry(level, layout, 1, &vec![stripes; usize::from(members)]);
        let mut counts: BTreeMap<(Role, u8), u64> = BTreeMap::new();
        for index in 0..geometry.groups() {
            for slot in group_of(&geometry, index).slots() {
                if matches!(slot.role, Role::Parity(_)) {
                    *counts.entry((slot.role, slot.member.0)).or_default() += 1;
                }
            }
        }
        let places = usize::from(parity_chunks) * if moves { usize::from(members) } else { 1 };
        let each = if moves { turns } else { stripes };
        assert_eq!(counts.len(), places, "{level} {layout} {members}");
        assert!(
            counts.values().all(|count| *count == each),
            "{level} {layout} {counts:?}"
        );
    }
}

/// Chunks are numbered as in md: in the order of the devices from the one after Q on, wrapping
/// round and skipping P.
#[test]
fn the_code_counts_from_the_member_after_the_last_parity() {
    for (level, layout, members) in every_shape(10) {
        let Redundancy::Parity(parity_chunks @ 2..) = level.redundancy else {
            continue;
        };
        let sizes = vec![u64::from(members); usize::from(members)];
        let geometry = geometry(level, layout, 1, &sizes);
        for index in 0..geometry.groups() {
            let group = group_of(&geometry, index);
            let on = |member: u8| {
                let mut slots = group.slots().iter();
                slots
                    .find(|slot| slot.member.0 == member)
                    .expect("all members")
            };
            let last = Role::Parity(parity_chunks - 1);
            let last = (0..members)
                .find(|member| on(*member).role == last)
                .unwrap();
            let after = (1..members).map(|step| on((last + step) % members));
            let data = after.filter(|slot| matches!(slot.role, Role::Data(_)));
            let codes: Vec<u8> = data.map(|slot| slot.code_index).collect();
            assert!(
                codes.into_iter().eq(0..group.data_chunks),
                "{level} {layout} {members}"
            );
        }
    }
}

/// Level, layout, blocks of a chunk and of each member, and the error.
const ERRORS: &[(&str, &str, u32, &[u64], &str)] = &[
    (
        "raid9",
        "",
        1,
        &[9; 4],
        "there is no level 'raid9'; there are concat, raid0, raid1, raid10, raid4, raid5, \
         raid6, raid7",
    ),
    (
        "raid5",
        "near 2",
        1,
        &[9; 4],
        "raid5 has no layout 'near 2'; it has left-symmetric, left-asymmetric, \
         right-symmetric, right-asymmetric, parity-first, parity-last",
    ),
    (
        "raid10",
        "left",
        1,
        &[9; 4],
        "raid10 has no layout 'left'; it has near N, far N, offset N, near N far N (N: a number \
         of copies, as in 'far 3')",
    ),
    (
        "raid4",
        "left-symmetric",
        1,
        &[9; 4],
        "raid4 has no layout 'left-symmetric'; it has only one way to lie on its members",
    ),
    (
        "raid6",
        "",
        1,
        &[9; 3],
        "raid6 needs at least 4 members, and there are 3: add members or take another level",
    ),
    (
        "raid1",
        "",
        1,
        &[9; 1],
        "raid1 needs at least 2 members, and there is 1: add members or take another level",
    ),
    (
        "raid0",
        "",
        1,
        &[9; 65],
        "65 members are more than the 64 that one array may have: nest arrays, as in \
         raid0(raid5(..),raid5(..))",
    ),
    (
        "raid10",
        "far 5",
        1,
        &[9; 4],
        "5 copies on 4 members: take at least 2 copies and at most as many as there are \
         members",
    ),
    (
        "raid10",
        "near 1",
        1,
        &[9; 4],
        "1 copies on 4 members: take at least 2 copies and at most as many as there are \
         members",
    ),
    (
        "raid5",
        "",
        0,
        &[9; 3],
        "a chunk of 0 bytes: take at least one block",
    ),
    (
        "raid5",
        "",
        131_073,
        &[9; 3],
        "a chunk above 64M: take 64M or less",
    ),
    (
        "raid5",
        "",
        16,
        &[99, 15, 99],
        "member 1 has room for 15 blocks and needs 16 at least: take a smaller chunk or a \
         larger device",
    ),
    (
        "raid10",
        "offset 3",
        4,
        &[99, 99, 11],
        "member 2 has room for 11 blocks and needs 12 at least: take a smaller chunk or a \
         larger device",
    ),
    (
        "concat",
        "",
        4,
        &[9, 0],
        "member 1 has room for 0 blocks and needs 1 at least: take a smaller chunk or a \
         larger device",
    ),
    (
        "concat",
        "",
        4,
        &[u64::MAX, u64::MAX],
        "the members together hold more than 2^64 bytes: take fewer members",
    ),
];

#[test]
fn errors_name_the_thing_and_the_remedy() {
    let error = |name: &str, layout: &str, chunk_blocks, member_blocks: &[u64]| {
        let level = Level::named(name).map_err(|error| error.to_string())?;
        let layout = level.layout(layout).map_err(|error| error.to_string())?;
        Geometry::new(&Spec {
            level,
            layout: Some(layout),
            chunk_blocks,
            member_blocks: member_blocks.to_vec(),
        })
        .map(|_| String::new())
        .map_err(|error| error.to_string())
    };
    for &(name, layout, chunk_blocks, members, expected) in ERRORS {
        assert_eq!(
            error(name, layout, chunk_blocks, members),
            Err(expected.to_owned())
        );
    }
}

#[test]
fn chunk_sizes_are_checked_against_the_block() {
    use spindles_block::BlockSize::{B512, B4096};
    use spindles_layout::chunk_blocks;
    assert_eq!(chunk_blocks(64 << 10, B4096), Ok(16));
    assert_eq!(chunk_blocks(64 << 20, B512), Ok(131_072));
    assert_eq!(chunk_blocks(12_288, B4096), Ok(3));
    let message = |bytes, block| chunk_blocks(bytes, block).unwrap_err().to_string();
    assert_eq!(
        message(5000, B4096),
        "a chunk of 5000 bytes is not a multiple of the block of 4096 bytes: take a multiple of \
         4096"
    );
    assert_eq!(
        message(0, B512),
        "a chunk of 0 bytes: take at least one block"
    );
    assert_eq!(
        message((64 << 20) + 512, B512),
        "a chunk above 64M: take 64M or less"
    );
    assert_eq!(
        message(1 << 40, B512),
        "a chunk above 64M: take 64M or less"
    );
}

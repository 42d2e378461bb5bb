//! Every level and layout: the map and its inverse agree and cover the array.

use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::{Geometry, Group, GroupIndex, LEVELS, Layout, Level, Redundancy, Role, Spec};
use std::collections::BTreeMap;

/// Every level with every layout on every number of members up to `members_max`.
fn every_shape(members_max: u8) -> Vec<(&'static Level, Layout, u8)> {
    let mut shapes = Vec::new();
    for level in LEVELS.iter().copied() {
        for members in level.members_min..=members_max {
            for row in level.layouts {
                let copies = match level.redundancy {
                    Redundancy::Copies => 2..=members,
                    _ => 0..=0,
                };
                for copies in copies {
                    let name = match copies {
                        0 => row.name.to_owned(),
                        _ => format!("{} {copies}", row.name),
                    };
                    let layout = level.layout(&name).expect("a layout of the table");
                    assert_eq!(layout.to_string(), name);
                    shapes.push((level, layout, members));
                }
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

/// Map and inverse agree; each block of the array is there once, no two chunks overlap, what no
/// chunk covers the inverse does not know; `locate` says the same as the groups.
fn check_map(geometry: &Geometry, sizes: &[u64]) {
    let what = format!(
        "{} {} chunk {} {sizes:?}",
        geometry.level(),
        geometry.layout_name(),
        geometry.chunk_blocks()
    );
    let mut covered: BTreeMap<(u8, u64), (u64, u8, u32)> = BTreeMap::new();
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

        let mut codes = Vec::new();
        for (number, slot) in (0..).zip(slots) {
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
                let before = covered.insert((slot.member.0, place.0), (index, number, block));
                assert_eq!(
                    before, None,
                    "{what}: two chunks at {place} of {}",
                    slot.member
                );
            }
        }
        if geometry.parity_chunks() > 0 {
            codes.sort_unstable();
            assert!(
                codes.into_iter().eq(0..chunks),
                "{what}: each code index once"
            );
        }

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
            // Two rotations, a rest of a third and a rest of a chunk.
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

//! Arrays on members that get longer: `continues` is checked against a comparison of every place in
//! both maps.

use spindles_layout::{Geometry, Group, GroupIndex, LEVELS, Layout, Level, Spec};

fn geometry(level: &'static Level, layout: Layout, member_blocks: &[u64]) -> Option<Geometry> {
    Geometry::new(&Spec {
        level,
        layout: Some(layout),
        chunk_blocks: 4,
        member_blocks: member_blocks.to_vec(),
    })
    .ok()
}

/// Returns true if every block of `old`, and all its redundancy, is still in its place.
fn holds_all(new: &Geometry, old: &Geometry) -> bool {
    let (mut here, mut there) = (Group::empty(), Group::empty());
    new.blocks() >= old.blocks()
        && (0..old.groups()).map(GroupIndex).all(|group| {
            new.group_into(group, &mut here);
            old.group_into(group, &mut there);
            here.slots() == there.slots()
                && here.first_block == there.first_block
                && here.blocks >= there.blocks
        })
}

#[test]
fn a_map_extends_another_exactly_if_no_block_moves() {
    let sizes: [&[u64]; 4] = [
        &[40; 5],
        &[43; 5],
        &[40, 44, 40, 60, 44],
        &[44, 61, 88, 88, 47],
    ];
    let longer: [&[u64]; 4] = [
        &[9; 5],
        &[0, 8, 3, 40, 0],
        &[0, 0, 0, 0, 20],
        &[100, 9, 7, 8, 1],
    ];
    let (mut go_on, mut move_on) = (0, 0);
    for level in LEVELS {
        for row in level.layouts {
            let layout = level.layout(row.name).expect("a layout of the level");
            for (sizes, members) in sizes
                .iter()
                .flat_map(|size| (1..=5).map(move |n| (size, n)))
            {
                let Some(old) = geometry(level, layout, &sizes[..members]) else {
                    continue;
                };
                for longer in longer {
                    let at_end = old.members_at_end();
                    let all = sizes.iter().zip(longer).map(|(old, more)| old + more);
                    let all: Vec<u64> = all.take(members).collect();
                    let mut some = sizes[..members].to_vec();
                    for member in at_end.iter() {
                        some[usize::from(member.0)] = all[usize::from(member.0)];
                    }
                    for sizes in [&all, &some] {
                        let new = geometry(level, layout, sizes).expect("as before, or longer");
                        let holds = holds_all(&new, &old);
                        // A map that doesn't continue may still keep all places by chance.
                        assert!(holds || !new.continues(&old), "{level} {layout} {sizes:?}");
                        go_on += u32::from(new.continues(&old));
                        move_on += u32::from(!holds);
                    }
                    let new = geometry(level, layout, &some).expect("as before, or longer");
                    let far = row.name.contains("far");
                    assert!(far || new.continues(&old), "{level} {layout} {some:?}");
                }
            }
        }
    }
    assert!(go_on > 400 && move_on > 100, "{go_on} {move_on}");
}

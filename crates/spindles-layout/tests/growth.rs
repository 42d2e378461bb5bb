//! The map of a growing array: at each mark every block, and every place of a member, has one
//! group. Moved data never overwrites data that was not moved yet.

use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::{Geometry, Group, GroupIndex, GrowthError, Level, Spec};

const ROWS: u64 = 48;

fn geometry(level: &str, members: usize, chunk_blocks: u32) -> Geometry {
    Geometry::new(&Spec {
        level: Level::by_name(level).expect("a level"),
        layout: None,
        chunk_blocks,
        member_blocks: vec![ROWS + 1; members],
    })
    .expect("there is such an array")
}

type Way = (&'static str, usize, u32, &'static str, usize, u32);

const WAYS: [Way; 9] = [
    ("raid5", 3, 4, "raid5", 4, 4),
    ("raid5", 4, 4, "raid5", 6, 4),
    ("raid6", 4, 2, "raid6", 5, 2),
    ("raid7", 5, 2, "raid7", 6, 2),
    ("raid5", 3, 4, "raid6", 4, 4),
    ("raid6", 4, 4, "raid7", 5, 4),
    ("raid1", 2, 8, "raid5", 3, 2),
    ("raid5", 4, 2, "raid5", 4, 8),
    ("raid5", 4, 8, "raid5", 4, 2),
];

fn growing((level, members, chunk, to, more, new_chunk): Way, mark: u64) -> Geometry {
    let old = geometry(level, members, chunk);
    let new = geometry(to, more, new_chunk);
    new.growing_from(old, BlockIndex(mark)).expect("a way")
}

fn marks(way: Way) -> Vec<u64> {
    let whole = growing(way, 0);
    let unit = usize::try_from(whole.growth_unit().expect("it grows")).expect("small");
    let end = whole.blocks();
    let last = end.next_multiple_of(whole.stripe_blocks());
    (0..end).step_by(unit).chain([last]).collect()
}

#[test]
fn every_block_is_in_one_live_group_at_each_checkpoint() {
    for way in WAYS {
        for mark in marks(way) {
            let geometry = growing(way, mark);
            let live = geometry.live_groups();
            let mut group = Group::empty();
            for block in (0..geometry.blocks()).map(BlockIndex) {
                let at = geometry.locate(block);
                let part = usize::from(block.0 >= mark);
                assert!(live[part].contains(&at.group.0), "{way:?} {mark} {block:?}");
                geometry.group_into(at.group, &mut group);
                let slot = group.slots()[usize::from(at.data_index)];
                assert_eq!(slot.member, at.member);
                let (found, slot, row) = geometry.find(at.member, at.offset).unwrap();
                assert_eq!(
                    (found, slot, row),
                    (at.group, at.data_index, at.block_in_chunk)
                );
            }
        }
    }
}

/// In-place writes of a window never touch data that the old map holds from the window's end on.
#[test]
fn a_window_never_overwrites_unmoved_data() {
    for way in WAYS {
        for pair in marks(way).windows(2) {
            let (before, after) = (growing(way, pair[0]), growing(way, pair[1]));
            let (mut new, mut group) = (Vec::new(), Group::empty());
            for index in before.live_groups()[0].end..after.live_groups()[0].end {
                after.group_into(GroupIndex(index), &mut group);
                for slot in group.slots() {
                    new.push((
                        slot.member,
                        slot.offset.0,
                        slot.offset.0 + u64::from(group.blocks),
                    ));
                }
            }
            for index in after.live_groups()[1].clone() {
                after.group_into(GroupIndex(index), &mut group);
                for slot in group.slots() {
                    let (first, end) = (slot.offset.0, slot.offset.0 + u64::from(group.blocks));
                    let meets = |&(member, low, high): &(MemberIndex, u64, u64)| {
                        member == slot.member && low < end && first < high
                    };
                    assert!(!new.iter().any(meets), "{way:?} {pair:?}");
                }
            }
        }
    }
}

#[test]
fn a_growing_array_survives_what_both_maps_survive() {
    let way = ("raid1", 3, 4, "raid5", 4, 4);
    let two: MemberSet = [0, 1].map(MemberIndex).into_iter().collect();
    let new = MemberSet::EMPTY.with(MemberIndex(3));
    let one = MemberSet::EMPTY.with(MemberIndex(0));
    assert!(
        growing(way, 0).survives(one.union(new)),
        "nothing is moved yet"
    );
    assert!(!growing(way, 0).survives(two), "the new map would not");
    assert!(!growing(way, 12).survives(one.union(new)));
    assert!(growing(way, 12).survives(new) && growing(way, 12).survives(one));
}

#[test]
fn growth_that_does_not_fit_is_refused() {
    let refuse = |old: Geometry, new: Geometry| new.growing_from(old, BlockIndex(0)).unwrap_err();
    let denser = refuse(geometry("raid5", 4, 4), geometry("raid6", 4, 4));
    assert_eq!(
        denser.to_string(),
        "a row of chunks would hold 2 of data instead of 3, so not all of it would fit: it takes 5 \
         members"
    );
    let level = refuse(geometry("raid0", 4, 4), geometry("raid5", 5, 4));
    assert!(matches!(level, GrowthError::Level { .. }));
    let fewer = refuse(geometry("raid5", 4, 4), geometry("raid5", 3, 4));
    assert!(matches!(fewer, GrowthError::FewerMembers { members: 4 }));
    let same = refuse(geometry("raid5", 4, 4), geometry("raid5", 4, 4));
    assert_eq!(same, GrowthError::Nothing);
}

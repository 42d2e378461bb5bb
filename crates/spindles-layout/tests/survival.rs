//! `survives` against real recovery. Bytes are encoded on every member, and members are removed in
//! every combination. The rest either yields every byte again or provably cannot.

use spindles_block::{MemberIndex, MemberSet};
use spindles_layout::{Geometry, Group, GroupIndex, LEVELS, Layout, Level, Redundancy, Role, Spec};
use spindles_parity::{by_parity_chunks, solve};

const CHUNK_BYTES: usize = 3;
type Chunk = [u8; CHUNK_BYTES];

/// One group as bytes, in the order of its slots.
struct Encoded {
    group: Group,
    chunks: Vec<Chunk>,
}

fn groups(geometry: &Geometry) -> Vec<Encoded> {
    let mut random = 0x9e37_79b9_u32;
    let mut byte = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_le_bytes()[3]
    };
    let encode = |index| {
        let mut group = Group::empty();
        geometry.group_into(GroupIndex(index), &mut group);
        let data: Vec<Chunk> = (0..group.data_chunks)
            .map(|_| [byte(), byte(), byte()])
            .collect();
        let slots = group.slots();
        let sources: Vec<(u8, &[u8])> = slots
            .iter()
            .zip(&data)
            .map(|(slot, bytes)| (slot.code_index, &bytes[..]))
            .collect();
        let mut chunks = data.clone();
        chunks.resize(slots.len(), [0; CHUNK_BYTES]);
        let (_, redundant) = chunks.split_at_mut(data.len());
        let redundant_slots = &slots[data.len()..];
        let mut targets: Vec<(u8, &mut [u8])> = redundant_slots
            .iter()
            .zip(redundant)
            .map(|(slot, bytes)| (slot.code_index, &mut bytes[..]))
            .collect();
        if !targets.is_empty() {
            let code = by_parity_chunks(geometry.parity_chunks());
            solve(code, group.data_chunks, &sources, &mut targets);
        }
        Encoded { group, chunks }
    };
    (0..geometry.groups()).map(encode).collect()
}

/// Returns true if the remaining chunks of a group yield its data; panics on wrong bytes.
fn recovers(geometry: &Geometry, encoded: &Encoded, missing: MemberSet) -> bool {
    let group = &encoded.group;
    let data_chunks = usize::from(group.data_chunks);
    let slots = group.slots().iter().zip(&encoded.chunks);
    let (lost, left): (Vec<_>, Vec<_>) = slots.partition(|(slot, _)| missing.contains(slot.member));
    if left.len() < data_chunks {
        // Fewer chunks than data chunks: no code can recover the data.
        return lost
            .iter()
            .all(|(slot, _)| !matches!(slot.role, Role::Data(_)));
    }
    let sources: Vec<(u8, &[u8])> = (left.iter().rev())
        .take(data_chunks)
        .map(|(slot, bytes)| (slot.code_index, &bytes[..]))
        .collect();
    let mut again = vec![[0xAA; CHUNK_BYTES]; lost.len()];
    let targets = lost.iter().zip(&mut again);
    let mut targets: Vec<(u8, &mut [u8])> = targets
        .map(|((slot, _), bytes)| (slot.code_index, &mut bytes[..]))
        .collect();
    if !targets.is_empty() {
        let code = by_parity_chunks(geometry.parity_chunks());
        solve(code, group.data_chunks, &sources, &mut targets);
    }
    for ((slot, bytes), again) in lost.iter().zip(&again) {
        assert_eq!(
            *bytes,
            again,
            "{} {slot:?} missing {missing:?}",
            geometry.level()
        );
    }
    true
}

fn check(level: &'static Level, layout: Layout, sizes: &[u64]) {
    let members = u8::try_from(sizes.len()).expect("few members");
    let geometry = Geometry::new(&Spec {
        level,
        layout: Some(layout),
        chunk_blocks: 1,
        member_blocks: sizes.to_vec(),
    })
    .expect("a geometry of the table");
    let groups = groups(&geometry);
    let mut survived = 0;
    // By set of missing members, supersets first.
    let mut survives_more = vec![None; 1 << members];
    for bits in (0..1_u64 << members).rev() {
        let missing = MemberSet::from_bits(bits);
        let recovered = groups
            .iter()
            .all(|group| recovers(&geometry, group, missing));
        let what = format!("{level} {layout} {sizes:?} without {missing:?}");
        assert_eq!(geometry.survives(missing), recovered, "{what}");
        let with_one_more = (0..members).filter(|member| bits & 1 << member == 0);
        let of_set = |bits: u64| usize::try_from(bits).expect("few members");
        let least = with_one_more.map(|member| survives_more[of_set(bits | 1 << member)]);
        let least = least.min().flatten();
        let more = recovered.then(|| least.map_or(0, |more: u8| more + 1));
        assert_eq!(geometry.survives_more(missing), more, "{what}");
        survives_more[of_set(bits)] = more;
        let at_least = match level.redundancy {
            Redundancy::None => 0,
            _ => geometry.redundancy(),
        };
        assert!(recovered || missing.count() > at_least.into(), "{what}");
        survived += u32::from(recovered);
    }
    assert!(survived >= 1 && survived < 1 << members, "{level} {layout}");
}

#[test]
fn survival_equals_recoverability() {
    for level in LEVELS.iter().copied() {
        for members in level.members_min..=10 {
            for layout in level.layouts_on(members) {
                let rows = u64::from(members) + 1;
                check(level, layout, &vec![rows; usize::from(members)]);
            }
        }
    }
}

#[test]
fn arrays_shorter_than_a_rotation_can_survive_more() {
    let near = Level::by_name("raid10").unwrap();
    for rows in 1..4 {
        check(near, near.layout("near 2").unwrap(), &[rows; 5]);
        check(near, near.layout("near 3").unwrap(), &[rows; 7]);
    }
    let zones = Level::by_name("raid0").unwrap();
    check(zones, zones.layout_default(), &[3, 1, 2]);
}

#[test]
fn the_number_of_missing_members_is_not_the_answer() {
    let level = Level::by_name("raid10").unwrap();
    let geometry = Geometry::new(&Spec {
        level,
        layout: None,
        chunk_blocks: 1,
        member_blocks: vec![8; 4],
    })
    .unwrap();
    let missing = |members: [u8; 2]| members.map(MemberIndex).into_iter().collect();
    assert!(geometry.survives(missing([0, 2])));
    assert!(!geometry.survives(missing([0, 1])));
}

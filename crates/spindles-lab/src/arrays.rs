//! Arrays of the lab: made, assembled and asked what they survive.

use crate::targets::Site;
use spindles_block::{MemberIndex, MemberSet};
use spindles_io::{ArrayFacts, OpenOptions, Target};
use spindles_layout::{Expression, Geometry, Level, Spec};

/// Writes superblocks on the devices of the expression and makes the array consistent.
pub(crate) fn create(_expression: &Expression, _site: &Site<'_>) -> Result<(), String> {
    Err("arrays can't be created yet".to_owned())
}

/// Opens the array on these devices.
pub(crate) fn assemble(
    _devices: &[String],
    _options: &OpenOptions,
) -> Result<Box<dyn Target>, String> {
    Err("arrays can't be assembled yet".to_owned())
}

/// Opens an array over memory, which has no superblocks.
pub(crate) fn without_superblocks(
    _expression: &Expression,
    _chunk_bytes: Option<u64>,
    _options: &OpenOptions,
) -> Result<Box<dyn Target>, String> {
    Err("arrays can't be opened yet".to_owned())
}

/// How many members may be missing, whichever they are.
pub(crate) fn survives(array: &ArrayFacts) -> u32 {
    let all = MemberSet::all(array.members);
    (1..=u32::from(array.redundancy))
        .take_while(|&count| {
            let mut sets = subsets(all, count);
            geometry(array).is_some_and(|geometry| sets.all(|set| geometry.survives(set)))
        })
        .last()
        .unwrap_or(0)
}

fn geometry(array: &ArrayFacts) -> Option<Geometry> {
    let level = Level::by_name(array.level)?;
    // What a level survives does not depend on sizes: two periods of any layout are enough.
    let rows = u64::from(array.members) * u64::from(array.members) * 2;
    Geometry::new(&Spec {
        level,
        layout: Some(level.layout(&array.layout).ok()?),
        chunk_blocks: array.chunk_blocks,
        member_blocks: vec![rows * u64::from(array.chunk_blocks); array.members.into()],
    })
    .ok()
}

/// All sets of `count` members.
fn subsets(all: MemberSet, count: u32) -> Box<dyn Iterator<Item = MemberSet>> {
    if count == 0 {
        return Box::new(std::iter::once(MemberSet::EMPTY));
    }
    let members: Vec<MemberIndex> = all.iter().collect();
    Box::new(members.into_iter().flat_map(move |first| {
        let later = all.iter().filter(|member| *member > first).collect();
        subsets(later, count - 1).map(move |set| set.with(first))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_array_survives_is_counted() {
        for (level, layout, members, redundancy, expected) in [
            ("concat", "", 4, 0, 0),
            ("raid0", "", 4, 0, 0),
            ("raid1", "", 2, 1, 1),
            ("raid1", "", 3, 2, 2),
            ("raid10", "near 2", 4, 1, 1),
            ("raid10", "far 3", 7, 2, 2),
            ("raid4", "", 5, 1, 1),
            ("raid5", "left-symmetric", 5, 1, 1),
            ("raid6", "left-symmetric", 6, 2, 2),
            ("raid7", "", 8, 3, 3),
        ] {
            let facts = ArrayFacts {
                level: Level::by_name(level).unwrap().name,
                layout: layout.to_owned(),
                chunk_blocks: 16,
                members,
                missing: MemberSet::EMPTY,
                data_chunks: 1,
                redundancy,
            };
            assert_eq!(survives(&facts), expected, "{level} {layout} {members}");
        }
        assert_eq!(subsets(MemberSet::all(5), 2).count(), 10);
    }
}

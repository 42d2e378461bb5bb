//! Arrays of the lab: made, assembled and asked what they survive.

use crate::targets::Site;
use spindles_block::{MemberIndex, MemberSet};
use spindles_io::assemble::{self, AssembleOptions};
use spindles_io::create::{self, CreateOptions, Sync};
use spindles_io::scratch::{self, ScratchOptions};
use spindles_io::{ArrayFacts, OpenOptions, Target};
use spindles_layout::{Expression, Geometry, Level, Spec};

/// Makes the array as the command `create` does. What the devices hold is lost: whoever calls has
/// seen to that.
pub(crate) fn create(expression: &Expression, place: &Site<'_>) -> Result<(), String> {
    let options = CreateOptions {
        chunk_bytes: place.chunk_bytes,
        consistency: place.consistency,
        checksum: place.checksum,
        journal: place.journal.map(str::to_owned),
        // Experiments take members away.
        degraded_writes: true,
        force: true,
        open: place.open.clone(),
        ..CreateOptions::new("lab")
    };
    let mut go_on = |_done, _total| (place.go_on)().is_ok();
    let created = create::create(expression, &options, &mut go_on);
    match created.map_err(|error| error.to_string())?.sync {
        Sync::Stopped => Err("it was interrupted while it was made consistent".to_owned()),
        Sync::NotNeeded | Sync::Unwritten | Sync::KnownZero | Sync::Done => Ok(()),
    }
}

/// Opens the array on these devices.
pub(crate) fn assemble(
    devices: &[String],
    options: &AssembleOptions,
) -> Result<Box<dyn Target>, String> {
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let assembled = assemble::assemble(&devices, options);
    Ok(assembled.map_err(|error| error.to_string())?.target)
}

/// Opens an array over memory, which has no superblocks.
pub(crate) fn without_superblocks(
    expression: &Expression,
    chunk_bytes: Option<u64>,
    options: &OpenOptions,
) -> Result<Box<dyn Target>, String> {
    let options = ScratchOptions {
        open: options.clone(),
        chunk_bytes,
    };
    scratch::open(expression, &options).map_err(|error| error.to_string())
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

//! A region that is not marked dirty needs no resync, whichever members return.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;
use spindles_layout::GroupIndex;

pub(super) static CHECKER: Checker = Checker {
    name: "dirty_bits",
    about: "regions are dirty before they are written; others agree, also with members that are \
        out",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            // Regions that this session has not resynced yet must be dirty.
            Seen::Assembled { array, marks, .. } if marks => check(scene, array, View::Current),
            Seen::DiskAsked { disk, sector, .. } => check_marked(scene, disk, sector),
            Seen::Settled => check_all(scene, View::Current),
            Seen::ClosedClean => check_all(scene, View::Durable),
            _ => Ok(()),
        }))
    },
};

fn check_all(scene: &Scene<'_>, view: View) -> Result<(), String> {
    (0..scene.stack.arrays.len()).try_for_each(|array| check(scene, array, view))
}

fn check(scene: &Scene<'_>, index: usize, view: View) -> Result<(), String> {
    let stack = scene.stack;
    let array = &stack.arrays[index];
    if array.regions.is_none() || stack.is_given_up(index) || scene.options.beyond {
        return Ok(());
    }
    for group in (0..array.geometry.groups()).map(GroupIndex) {
        if stack.is_dirty(index, group, view) {
            continue;
        }
        // For a lost member, also check the contents after the loss of its cache.
        for view in [view, View::Durable] {
            let result = stack.check_group_without(array.blank, index, group, view);
            result.map_err(|what| format!("not dirty, but {what}"))?;
        }
    }
    Ok(())
}

/// Intent before place: the bit is durable before a write goes to its place.
fn check_marked(scene: &Scene<'_>, disk: usize, sector: u64) -> Result<(), String> {
    let stack = scene.stack;
    let Some(place) = stack.place_of(disk, sector) else {
        return Ok(()); // Metadata.
    };
    let array = &stack.arrays[place.array];
    let skipped = array.regions.is_none()
        || array.blank.contains(place.member)
        || !array.marks
        || stack.is_given_up(place.array)
        // Zeroed before its first write.
        || !stack.is_written(place.array, place.group, View::Durable);
    if skipped || stack.is_dirty(place.array, place.group, View::Durable) {
        return Ok(());
    }
    Err(format!(
        "disk {disk} is asked to write in group {} of array {}, which is not durably dirty",
        place.group.0, place.array
    ))
}

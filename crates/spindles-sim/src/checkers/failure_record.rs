//! Failure before acknowledgement: all remaining disks durably record that a disk is out before a
//! write that skipped it is answered.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;
use crate::stack::superblocks::newest_superblock;
use crate::stack::{Below, group_of};
use spindles_block::{BlockIndex, Instant, MemberIndex};
use spindles_format::MemberState;
use spindles_layout::Role;
use std::collections::BTreeMap;

pub(super) static CHECKER: Checker = Checker {
    name: "failure_record",
    about: "a write that skipped a lost member is answered only when all others know of the loss",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            // In nested arrays a violation shows once the lost disk returns.
            Seen::Written {
                block,
                blocks,
                submitted,
                ..
            } if scene.stack.arrays.len() == 1 => check(scene, block, blocks, submitted),
            _ => Ok(()),
        }))
    },
};

fn check(
    scene: &Scene<'_>,
    block: BlockIndex,
    blocks: u32,
    submitted: Instant,
) -> Result<(), String> {
    let array = &scene.stack.arrays[0];
    if array.lost.is_empty() || !array.geometry.survives(array.lost) {
        return Ok(());
    }
    for member in array.lost.difference(array.filling).iter() {
        let was_lost = |at: Instant| at < submitted;
        let skipped = scene.lost_at[usize::from(member.0)].is_some_and(was_lost)
            && writes_to(scene, member, block, blocks);
        if !skipped {
            continue;
        }
        for (other, below) in array.members.iter().enumerate() {
            let other = MemberIndex(u8::try_from(other).expect("few members"));
            let (Below::Disk(disk), false) = (*below, array.lost.contains(other)) else {
                continue;
            };
            let newest = newest_superblock(&scene.stack.disks[disk], View::Durable);
            let state = newest.map(|record| record.member[usize::from(member.0)].state);
            if state.is_none_or(|state| state == MemberState::Active) {
                return Err(format!(
                    "a write at block {block} that skipped member {member} was answered, and \
                     member {other} does not know durably that {member} is out"
                ));
            }
        }
    }
    Ok(())
}

/// Returns true if writing these blocks would have changed the member.
fn writes_to(scene: &Scene<'_>, member: MemberIndex, block: BlockIndex, blocks: u32) -> bool {
    let geometry = &scene.stack.arrays[0].geometry;
    // Staged blocks skip no member until they are placed.
    let batches = if scene.stack.is_staged(0) {
        scene.stack.batches(0, View::Current)
    } else {
        BTreeMap::new()
    };
    let is_staged = |block| batches.values().any(|batch| batch.has(BlockIndex(block)));
    (block.0..block.0 + u64::from(blocks)).any(|block| {
        if is_staged(block) {
            return false;
        }
        let location = geometry.locate(BlockIndex(block));
        if !scene.stack.is_written(0, location.group, View::Durable) {
            return false; // Zeros in a group that was never written: no member is written.
        }
        let group = group_of(geometry, location.group);
        let row = location.block_in_chunk.into();
        if scene.stack.is_blank_row(0, &group, row, View::Current) {
            return false; // Same here.
        }
        group.slots().iter().any(|slot| {
            slot.member == member
                && match slot.role {
                    Role::Data(index) => index == location.data_index,
                    Role::Copy(_) | Role::Parity(_) => true,
                }
        })
    })
}

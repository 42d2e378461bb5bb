//! Disks of different sizes and sectors: unequal from the start, or larger ones that replaced the
//! original ones. Drawn from their own stream, so that other runs stay the same.

use crate::options::{DiskSize, Tree};
use crate::random::Random;
use spindles_block::BlockSize;
use spindles_layout::Redundancy;

/// The largest disk.
const BYTES_MAX: u64 = 100 << 40;

/// Draws a larger disk: a little larger, up to a thousand times, or the size of a real disk.
pub(crate) fn larger(random: &mut Random, bytes: u64) -> u64 {
    let bytes = match random.below(4) {
        0 => bytes + (random.between(1, 256) << 10),
        1 => bytes * random.between(2, 10),
        2 => bytes * random.between(10, 1000),
        _ => bytes.max(1 << random.between(30, 46)),
    };
    // Some don't end at a common alignment.
    let odd = random.below(2) * 4096 * random.below(100);
    (bytes + odd).min(BYTES_MAX) / 4096 * 4096
}

/// Draws the disks of a run, from left to right. Empty in most runs: disks have the tree's sizes.
pub(crate) fn draw(
    seed: u64,
    tree: &mut Tree,
    block_size: BlockSize,
    sector_bytes: u32,
    wanted: Option<bool>,
) -> Vec<DiskSize> {
    let random = &mut Random::new(seed, "sizes");
    if !wanted.unwrap_or_else(|| random.percent(30)) {
        return Vec::new();
    }
    // The disks that the array is created on.
    if random.percent(60) {
        stretch(random, tree);
    }
    let replaced_percent = *random.choose(&[0, 40, 100]);
    let mixed_sectors = block_size == BlockSize::B4096 && sector_bytes == 512;
    let mut disks = Vec::new();
    leaves(tree, &mut |created_bytes| {
        let bytes = if random.percent(replaced_percent) {
            larger(random, created_bytes)
        } else {
            created_bytes
        };
        disks.push(DiskSize {
            bytes,
            created_bytes,
            sector_bytes: if mixed_sectors && random.percent(50) {
                4096
            } else {
                sector_bytes
            },
        });
    });
    disks
}

/// Makes some disks larger: by any factor in levels where the smallest member determines the size.
fn stretch(random: &mut Random, tree: &mut Tree) {
    let Tree::Array { level, members, .. } = tree else {
        return;
    };
    let smallest_decides = matches!(
        level.redundancy,
        Redundancy::CopyOnEveryMember | Redundancy::Parity(_)
    );
    // One keeps its size, so that the array stays small.
    let kept = usize::try_from(random.below(members.len().try_into().expect("few"))).expect("few");
    for (at, member) in members.iter_mut().enumerate() {
        match member {
            Tree::Disk { bytes } if at != kept && smallest_decides && random.percent(70) => {
                *bytes = larger(random, *bytes);
            }
            Tree::Disk { bytes } if !smallest_decides && random.percent(50) => {
                *bytes = *bytes / 4096 * 4096 + (random.below(128) << 12);
            }
            Tree::Disk { .. } => {}
            Tree::Array { .. } => stretch(random, member),
        }
    }
}

fn leaves(tree: &Tree, each: &mut dyn FnMut(u64)) {
    match tree {
        Tree::Disk { bytes } => each(*bytes),
        Tree::Array { members, .. } => members.iter().for_each(|tree| leaves(tree, each)),
    }
}

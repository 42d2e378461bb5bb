//! Disks of different sizes and sectors: unequal from the start, or larger ones that took the places
//! of those that an array was created on. Drawn by themselves, so that other runs stay what they were.

use crate::options::{Fixed, Tree};
use crate::random::Random;
use spindles_block::BlockSize;
use spindles_layout::Redundancy;

/// What a disk of a run is. Where there are none all are as the tree has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSize {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of the disk that its array was created on.
    pub created_bytes: u64,
    /// What may tear.
    pub sector_bytes: u32,
}

/// The largest there are.
const BYTES_MAX: u64 = 100 << 40;

/// A disk that is larger: a little, up to a thousand times, or as large as real ones are.
pub(crate) fn larger(random: &mut Random, bytes: u64) -> u64 {
    let bytes = match random.below(4) {
        0 => bytes + (random.between(1, 256) << 10),
        1 => bytes * random.between(2, 10),
        2 => bytes * random.between(10, 1000),
        _ => bytes.max(1 << random.between(30, 46)),
    };
    // Some end in the middle of what others align to.
    let odd = random.below(2) * 4096 * random.below(100);
    (bytes + odd).min(BYTES_MAX) / 4096 * 4096
}

/// The disks of a run, from left to right; none in most runs, where they are as the tree has them.
pub(crate) fn draw(
    seed: u64,
    tree: &mut Tree,
    block_size: BlockSize,
    sector_bytes: u32,
    fixed: &Fixed,
) -> Vec<DiskSize> {
    let random = &mut Random::new(seed, "sizes");
    if !fixed.sizes.unwrap_or_else(|| random.percent(30)) {
        return Vec::new();
    }
    // What the array is created on.
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

/// Makes some disks larger than others: where the smallest decides, by any factor.
fn stretch(random: &mut Random, tree: &mut Tree) {
    let Tree::Array { level, members, .. } = tree else {
        return;
    };
    let smallest_decides = matches!(
        level.redundancy,
        Redundancy::CopyOnEveryMember | Redundancy::Parity(_)
    );
    // One stays as it is, so that the array stays small.
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

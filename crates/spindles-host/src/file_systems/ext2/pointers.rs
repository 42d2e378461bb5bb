//! Which blocks of pointers lead to a block of a file: one for the blocks after the first 12, then
//! trees of two levels, and of three.

use crate::file_systems::grouped::DIRECT_BLOCKS;

/// Blocks of pointers on the way to a block, as indexes into those of a file in the order of their
/// allocation. The last one names the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    indexes: [usize; 3],
    levels: usize,
}

impl Chain {
    pub(super) fn all(&self) -> &[usize] {
        &self.indexes[..self.levels]
    }

    /// Returns the one that names the block; none for a block that the inode names.
    pub(super) fn leaf(&self) -> &[usize] {
        &self.all()[self.levels.saturating_sub(1)..]
    }

    /// Returns how many blocks of pointers a file has that ends with the block.
    pub(super) fn count(&self) -> usize {
        self.leaf().first().map_or(0, |leaf| leaf + 1)
    }
}

/// Returns the way to a block, if each block of pointers names `each`; `None` beyond three levels.
pub(super) fn chain(block: u64, each: u64) -> Option<Chain> {
    let Some(after) = block.checked_sub(DIRECT_BLOCKS) else {
        return Some(Chain::default());
    };
    let run = after / each;
    let of = |indexes: [u64; 3], levels| {
        let indexes = indexes.map(|index| usize::try_from(index).expect("64 bits"));
        Some(Chain { indexes, levels })
    };
    let Some(second) = run.checked_sub(1) else {
        return of([0, 0, 0], 1);
    };
    let Some(third) = second.checked_sub(each) else {
        return of([1, 2 + second, 0], 2);
    };
    // Before it: the first, the tree of two levels, and the top of this one.
    let top = 2 + each;
    let (branch, leaf) = (third / each, third % each);
    let branch_at = top + 1 + branch * (each + 1);
    if branch < each {
        of([top, branch_at, branch_at + 1 + leaf], 3)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks of pointers of a file of that many blocks.
    fn count(blocks: u64) -> usize {
        chain(blocks - 1, 256).unwrap().count()
    }

    #[test]
    fn pointers_begin_after_12_blocks_and_after_each_run() {
        let counts = [12, 13, 12 + 256, 12 + 257, 12 + 512, 12 + 513].map(count);
        assert_eq!(counts, [0, 1, 1, 3, 3, 4]);
        let two = 12 + 256 + 256 * 256;
        assert_eq!([two, two + 1, two + 257].map(count), [258, 261, 262]);
        let far = chain(two + 256 * 256, 256).unwrap();
        assert_eq!(far.all(), [258, 516, 517]);
        assert_eq!(chain(two + 256 * 256 * 256, 256), None);
    }
}

//! The places of a file's blocks, as runs of neighbours.

use alloc::vec::Vec;

/// Neighbouring blocks of a file that are neighbours on the device, too.
#[derive(Clone, Copy, Debug)]
struct Extent {
    block: u32,
    place: u32,
    count: u32,
}

/// Blocks of an extent, at most (Documentation/filesystems/ext4, `ifork.rst`).
const EXTENT_BLOCKS_MAX: u32 = 32_768;

/// The extents of a file, in order.
#[derive(Debug, Default)]
pub(super) struct Extents(Vec<Extent>);

impl Extents {
    /// Returns the number of extents.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the place of a block; `None` if it has none yet.
    pub(super) fn get(&self, block: u32) -> Option<u32> {
        let after = self.0.partition_point(|extent| extent.block <= block);
        let extent = self.0.get(after.checked_sub(1)?)?;
        let at = block - extent.block;
        (at < extent.count).then(|| extent.place + at)
    }

    /// Gives a block a place.
    pub(super) fn insert(&mut self, block: u32, place: u32) {
        let after = self.0.partition_point(|extent| extent.block <= block);
        let before = after.checked_sub(1).and_then(|at| self.0.get_mut(at));
        match before {
            Some(extent)
                if extent.block + extent.count == block
                    && extent.place + extent.count == place
                    && extent.count < EXTENT_BLOCKS_MAX =>
            {
                extent.count += 1;
            }
            _ => self.0.insert(
                after,
                Extent {
                    block,
                    place,
                    count: 1,
                },
            ),
        }
    }

    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> + use<'_> {
        let of = |extent: &Extent| extent.place..extent.place + extent.count;
        self.0.iter().flat_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_extent() {
        let mut extents = Extents::default();
        for (block, place, count) in [(0, 10, 1), (1, 11, 1), (3, 13, 2), (2, 40, 3), (4, 14, 3)] {
            extents.insert(block, place);
            assert_eq!(extents.count(), count, "{block}");
        }
        let places = [0, 1, 2, 3, 4, 5].map(|block| extents.get(block));
        assert_eq!(
            places,
            [Some(10), Some(11), Some(40), Some(13), Some(14), None]
        );
        assert_eq!(extents.places().count(), 5);
    }
}

//! Inner arrays that only map blocks to disks, without redundancy, bitmaps or checksums. Each block
//! of the inner array is a block of a single disk. The outer array treats the block like a block of
//! its own disks.

use super::{Array, Below, Kept, Spot, Stack, group_of};
use spindles_block::{BlockIndex, MemberIndex};

impl Array {
    /// Returns true if it is an inner array that is only a map.
    pub(crate) fn is_map(&self) -> bool {
        self.above.is_some()
            && self.geometry.redundancy() == 0
            && self.regions.is_none()
            && self.checksums.is_none()
    }
}

impl Stack {
    /// Returns true if all inner arrays are only maps.
    pub(crate) fn has_maps_below_only(&self) -> bool {
        self.arrays[..self.top()].iter().all(Array::is_map)
    }

    /// Returns the disk and block that hold a block of a member, counted from the member's start.
    /// `None` if an array below is more than a map.
    pub(crate) fn disk_place(
        &self,
        mut array: usize,
        mut member: MemberIndex,
        mut block: BlockIndex,
    ) -> Option<(usize, BlockIndex)> {
        loop {
            match self.arrays[array].members[usize::from(member.0)] {
                Below::Disk(disk) => return Some((disk, block)),
                Below::Array(below) if self.arrays[below].is_map() => {
                    let this = &self.arrays[below];
                    let location = this.geometry.locate(block);
                    let start = this.data_start[usize::from(location.member.0)];
                    (array, member) = (below, location.member);
                    block = start.plus(location.offset.0);
                }
                Below::Array(_) => return None,
            }
        }
    }

    /// Returns the innermost array above a disk that is more than a map, or else the outermost.
    /// Also returns its member that the disk belongs to.
    pub(crate) fn keeper_of(&self, disk: usize) -> (usize, MemberIndex) {
        let (mut array, mut member) = self.position(disk);
        while let Some(above) = self.arrays[array]
            .above
            .filter(|_| self.arrays[array].is_map())
        {
            (array, member) = above;
        }
        (array, member)
    }

    /// Returns the block of a disk as the array of `keeper_of` sees it; `None` for the metadata of
    /// maps.
    pub(crate) fn kept_at(&self, disk: usize, mut block: BlockIndex) -> Option<Kept> {
        let (mut array, mut member) = self.position(disk);
        while let Some(above) = self.arrays[array]
            .above
            .filter(|_| self.arrays[array].is_map())
        {
            let this = &self.arrays[array];
            let start = this.data_start[usize::from(member.0)];
            let offset = block.0.checked_sub(start.0).map(BlockIndex)?;
            let (index, _, row) = this.geometry.find(member, offset)?;
            block = group_of(&this.geometry, index).first_block.plus(row.into());
            (array, member) = above;
        }
        Some(Kept {
            array,
            member,
            block,
        })
    }

    /// Returns the place of a disk's block in the data area of its keeper's member; `None` for
    /// metadata.
    pub(crate) fn spot_at(&self, disk: usize, block: BlockIndex) -> Option<Spot> {
        let kept = self.kept_at(disk, block)?;
        let start = self.arrays[kept.array].data_start[usize::from(kept.member.0)];
        Some(Spot {
            array: kept.array,
            member: kept.member,
            offset: kept.block.0.checked_sub(start.0).map(BlockIndex)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fixed, Options, create};

    #[test]
    fn blocks_map_down_and_up_again() {
        let fixed = Fixed {
            nested: true,
            checksums: Some(true),
            ..Fixed::default()
        };
        let mut through_maps = 0;
        for seed in 0..60 {
            let stack = create::blank(&Options::swarm(seed, &fixed));
            for disk in 0..stack.disks.len() {
                let (array, member) = stack.keeper_of(disk);
                for block in (0..400).map(BlockIndex) {
                    let Some(kept) = stack.kept_at(disk, block) else {
                        continue;
                    };
                    assert_eq!((kept.array, kept.member), (array, member), "seed {seed}");
                    let place = stack.disk_place(array, member, kept.block);
                    assert_eq!(place, Some((disk, block)), "seed {seed}");
                    through_maps += u32::from(array != stack.position(disk).0);
                }
            }
        }
        assert!(through_maps > 1000, "{through_maps}");
    }
}

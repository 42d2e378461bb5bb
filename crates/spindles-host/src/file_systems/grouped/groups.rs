//! The free space of cylinder groups. A group is stored once something in it is used.

use super::geometry::{Geometry, Inode};
use crate::error::HostError;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// The used part of a group.
#[derive(Debug)]
struct Group {
    /// A bit for each block of data; set if it is used, whole or in part.
    used: Vec<u64>,
    free_blocks: u32,
    /// The block at which a search without preference begins.
    rotor: u32,
    /// Partly used blocks, with a bit for each used fragment.
    parts: BTreeMap<u32, u8>,
    next_inode: u32,
    free_inodes: BTreeSet<u32>,
    folders: u32,
}

/// The free space of all groups.
#[derive(Debug)]
pub(crate) struct Groups {
    geometry: Geometry,
    used: BTreeMap<u32, Group>,
    free_blocks: u64,
}

impl Groups {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self {
            free_blocks: u64::from(geometry.groups) * u64::from(geometry.data_blocks()),
            geometry,
            used: BTreeMap::new(),
        }
    }

    /// Allocates an inode in a group, or in the next one that has any.
    pub(crate) fn take_inode(&mut self, group: u32) -> Result<Inode, HostError> {
        let inodes = self.geometry.group_inodes;
        for group in self.from(group) {
            let one = self.group(group);
            let inode = match one.free_inodes.pop_first() {
                Some(inode) => inode,
                None if one.next_inode < inodes => {
                    one.next_inode += 1;
                    one.next_inode - 1
                }
                None => continue,
            };
            return Ok(Inode(group * inodes + inode));
        }
        Err(HostError::NoInodes)
    }

    pub(crate) fn free_inode(&mut self, inode: Inode) {
        let inodes = self.geometry.group_inodes;
        self.group(inode.0 / inodes)
            .free_inodes
            .insert(inode.0 % inodes);
    }

    /// Chooses the group of a new folder: near its parent while there is room, or the one with the
    /// fewest folders.
    pub(crate) fn group_for_folder(&mut self, parent: u32, spreads: bool) -> u32 {
        let geometry = self.geometry;
        let folders = |group: &u32| self.used.get(group).map_or(0, |one| one.folders);
        let has_room = |group: &u32| {
            self.used.get(group).is_none_or(|one| {
                one.free_blocks > geometry.data_blocks() / 4
                    && one.next_inode < geometry.group_inodes / 4 * 3
            })
        };
        let chosen = if spreads {
            let mut all = 0..geometry.groups;
            // The first that no folder uses, or the one with the fewest.
            let unused = all.clone().find(|group| !self.used.contains_key(group));
            unused.or_else(|| all.by_ref().min_by_key(folders))
        } else {
            self.from(parent).find(has_room)
        };
        let chosen = chosen.unwrap_or(parent);
        self.group(chosen).folders += 1;
        chosen
    }

    /// Returns the group with most free blocks, among those with average free inodes or more.
    pub(crate) fn emptiest(&self) -> u32 {
        let geometry = self.geometry;
        let inodes = u64::from(geometry.group_inodes);
        let used = self.used.values().map(Group::used_inodes).sum::<u64>();
        let average = inodes - used.div_ceil(geometry.groups.into());
        let of = |group: u32| match self.used.get(&group) {
            Some(one) => (inodes - one.used_inodes(), one.free_blocks),
            None => (inodes, geometry.data_blocks()),
        };
        let roomy = (0..geometry.groups).filter(|group| of(*group).0 >= average);
        // The first of equals.
        roomy.rev().max_by_key(|group| of(*group).1).unwrap_or(0)
    }

    /// Allocates a block: the one at `wanted` if it is free, else the next free one of its group,
    /// else of the groups after it. Returns its first fragment.
    pub(crate) fn take_block(&mut self, group: u32, wanted: Option<u32>) -> Result<u32, HostError> {
        let geometry = self.geometry;
        let wanted = wanted.map(|fragment| {
            let block = fragment / geometry.block_fragments;
            (block / geometry.group_blocks, block % geometry.group_blocks)
        });
        let first = wanted.map_or(group, |(group, _)| group.min(geometry.groups - 1));
        for group in self.from(first) {
            let begin = match wanted {
                Some((of, block)) if of == group => {
                    Some(block.saturating_sub(geometry.first_data_block))
                }
                _ => None,
            };
            let one = self.group(group);
            if one.free_blocks == 0 {
                continue;
            }
            let block = one.take(begin, geometry.data_blocks());
            self.free_blocks -= 1;
            let block = group * geometry.group_blocks + geometry.first_data_block + block;
            return Ok(block * geometry.block_fragments);
        }
        Err(HostError::Full)
    }

    /// Allocates the block at a place if it is a free one of data.
    pub(crate) fn take_at(&mut self, fragment: u32) -> bool {
        let geometry = self.geometry;
        let block = fragment / geometry.block_fragments;
        let group = block / geometry.group_blocks;
        let at = (block % geometry.group_blocks).checked_sub(geometry.first_data_block);
        let Some(at) = at.filter(|_| group < geometry.groups) else {
            return false;
        };
        let one = self.group(group);
        let is_free = one.used[word(at)] & bit(at) == 0;
        if is_free {
            one.used[word(at)] |= bit(at);
            one.free_blocks -= 1;
            self.free_blocks -= 1;
        }
        is_free
    }

    /// Allocates neighbouring fragments in a group. Returns the first.
    pub(crate) fn take_fragments(&mut self, group: u32, count: u32) -> Result<u32, HostError> {
        let geometry = self.geometry;
        let run = |used: u8| {
            let mask = mask(count);
            (0..=geometry.block_fragments - count).find(|at| used & (mask << at) == 0)
        };
        let parts = &mut self.group(group).parts;
        let found = parts.iter_mut().find_map(|(block, used)| {
            let at = run(*used)?;
            *used |= mask(count) << at;
            Some(*block * geometry.block_fragments + at)
        });
        if let Some(fragment) = found {
            return Ok(fragment);
        }
        let fragment = self.take_block(group, None)?;
        let block = fragment / geometry.block_fragments;
        let group = block / geometry.group_blocks;
        self.group(group).parts.insert(block, mask(count));
        Ok(fragment)
    }

    /// Frees a block, or with a count the fragments of one.
    pub(crate) fn free(&mut self, fragment: u32, count: u32) {
        let geometry = self.geometry;
        let block = fragment / geometry.block_fragments;
        let group = block / geometry.group_blocks;
        let one = self.group(group);
        if let Some(used) = one.parts.get_mut(&block) {
            *used &= !(mask(count) << (fragment % geometry.block_fragments));
            if *used != 0 {
                return;
            }
            one.parts.remove(&block);
        }
        let at = block % geometry.group_blocks - geometry.first_data_block;
        one.used[word(at)] &= !bit(at);
        one.free_blocks += 1;
        self.free_blocks += 1;
    }

    /// Returns the number of free blocks.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    /// Returns the first group from `begin` on that has no fewer free blocks than the average.
    pub(crate) fn roomy(&self, begin: u32) -> u32 {
        let average = self.free_blocks / u64::from(self.geometry.groups);
        let all = self.geometry.data_blocks();
        let free = |group: &u32| self.used.get(group).map_or(all, |one| one.free_blocks);
        let begin = begin % self.geometry.groups;
        let mut from = self.from(begin);
        from.find(|group| u64::from(free(group)) >= average)
            .unwrap_or(begin)
    }

    /// Returns the groups in order, from one on and around.
    fn from(&self, group: u32) -> impl Iterator<Item = u32> + use<> {
        let groups = self.geometry.groups;
        (group..groups).chain(0..group.min(groups))
    }

    fn group(&mut self, group: u32) -> &mut Group {
        let blocks = self.geometry.data_blocks();
        self.used.entry(group).or_insert_with(|| Group {
            used: vec![0; word(blocks) + 1],
            free_blocks: blocks,
            rotor: 0,
            parts: BTreeMap::new(),
            next_inode: if group == 0 { 2 } else { 0 },
            free_inodes: BTreeSet::new(),
            folders: 0,
        })
    }
}

impl Group {
    fn used_inodes(&self) -> u64 {
        let free = u64::try_from(self.free_inodes.len()).expect("64 bits");
        u64::from(self.next_inode) - free
    }

    /// Takes the first free block from `begin` on, or from the rotor on, and around.
    fn take(&mut self, begin: Option<u32>, blocks: u32) -> u32 {
        let begin = begin.unwrap_or(self.rotor) % blocks;
        let block = (self.free_from(begin, blocks)).or_else(|| self.free_from(0, blocks));
        let block = block.expect("a block is free");
        self.used[word(block)] |= bit(block);
        self.free_blocks -= 1;
        self.rotor = block;
        block
    }

    /// Returns the first free block from `begin` on.
    fn free_from(&self, begin: u32, blocks: u32) -> Option<u32> {
        let mut at = begin;
        while at < blocks {
            let free = !self.used[word(at)] >> (at % 64);
            match free.trailing_zeros() {
                64.. => at = (at / 64 + 1) * 64,
                zeros => {
                    at += zeros;
                    return (at < blocks).then_some(at);
                }
            }
        }
        None
    }
}

/// Returns a mask of the first `count` fragments of a block.
fn mask(count: u32) -> u8 {
    u8::try_from((1_u32 << count) - 1).expect("at most eight fragments")
}

fn word(block: u32) -> usize {
    usize::try_from(block / 64).expect("32 bits fit")
}

fn bit(block: u32) -> u64 {
    1 << (block % 64)
}

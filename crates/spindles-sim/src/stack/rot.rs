//! Corrupt blocks, and what a scrub must make of them.

use super::{Stack, group_of};
use crate::disk::View;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::{Event, Finding};
use spindles_layout::GroupIndex;
use std::collections::BTreeSet;

/// A block of a disk that holds other bytes than were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The disk.
    pub disk: usize,
    /// The block of the disk.
    pub block: BlockIndex,
    /// The member of the array that the block is on.
    pub member: MemberIndex,
    /// The block of the member.
    pub member_block: BlockIndex,
    /// The first block of the array in this row.
    pub row_block: BlockIndex,
    /// The bytes it should hold.
    pub right: Vec<u8>,
    /// The bytes it holds.
    pub wrong: Vec<u8>,
    /// True if redundancy can identify this block as the corrupt one.
    pub located: bool,
}

/// A scrub of an array without client requests.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The array.
    pub array: usize,
    /// The corrupt blocks.
    pub rot: Vec<Rot>,
    /// The events it reported.
    pub reported: Vec<Event>,
}

impl Scrubbed {
    /// Checks that the scrub reported and repaired exactly what it should have.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn check(&self, stack: &Stack) -> Result<(), String> {
        let mut repaired = BTreeSet::new();
        let mut disagreements = BTreeSet::new();
        for event in &self.reported {
            match *event {
                Event::Found(Finding {
                    member,
                    block,
                    blocks,
                    flaw: spindles_engine::Flaw::Rotten,
                    fate: spindles_engine::Fate::Repaired,
                    ..
                }) => repaired.extend((0..blocks).map(|i| (member, block.plus(i.into())))),
                Event::Found(Finding {
                    flaw: spindles_engine::Flaw::Unreadable,
                    fate: spindles_engine::Fate::Repaired,
                    ..
                }) => {}
                Event::Found(finding) => return Err(format!("it left {finding:?}")),
                Event::Disagreement { block, blocks, .. } => {
                    disagreements.extend((0..blocks).map(|i| block.plus(i.into())));
                }
                _ => {}
            }
        }
        // Blocks corrupted earlier during client requests, and not found so far.
        repaired.retain(|&(member, block)| {
            let is_expected = |rot: &Rot| (rot.member, rot.member_block) == (member, block);
            self.rot.iter().any(is_expected) || !stack.did_rot(member, block, 1)
        });
        let (located, left): (Vec<_>, Vec<_>) = self.rot.iter().partition(|rot| rot.located);
        let located: BTreeSet<_> = (located.iter())
            .map(|rot| (rot.member, rot.member_block))
            .collect();
        let left: BTreeSet<_> = left.iter().map(|rot| rot.row_block).collect();
        if located != repaired {
            return Err(format!(
                "{located:?} were corrupt, it repaired {repaired:?}"
            ));
        }
        if left != disagreements {
            return Err(format!("{left:?} disagree, it reported {disagreements:?}"));
        }
        for rot in &self.rot {
            let expected = if rot.located { &rot.right } else { &rot.wrong };
            if stack.disk_block(rot.disk, rot.block, View::Durable) != *expected {
                let (disk, block) = (rot.disk, rot.block);
                return Err(format!(
                    "block {block} of disk {disk} holds the wrong bytes"
                ));
            }
        }
        stack.unrepaired(self.array)
    }
}

impl Stack {
    /// Checks that every block of the written groups is durably readable again.
    fn unrepaired(&self, array: usize) -> Result<(), String> {
        for (disk, contents) in self.disks.iter().enumerate() {
            let (of, member) = self.keeper_of(disk);
            if of != array || self.arrays[array].lost.contains(member) {
                continue;
            }
            for sector in contents.not_durably_readable() {
                let block = sector / self.sectors(disk, BlockIndex(0)).end;
                let spot = self.spot_at(disk, BlockIndex(block));
                if spot.is_some_and(|spot| self.is_held(spot, View::Durable)) {
                    return Err(format!(
                        "sector {sector} of disk {disk} was left unreadable"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the corruption of a block, if the budget allows it in addition to `others`. It
    /// allows one corrupt block in a row. In a group that can't identify the wrong member, nothing
    /// else may be wrong.
    pub(crate) fn may_rot(&self, disk: usize, block: BlockIndex, others: &[Rot]) -> Option<Rot> {
        let member_block = self.kept_at(disk, block)?.block;
        let spot = self.spot_at(disk, block)?;
        let (array, member, offset) = spot.parts();
        let this = &self.arrays[array];
        let (index, _, row) = this.geometry.find(member, offset)?;
        let written = |view| self.is_held(spot, view);
        if this.lost.contains(member) || !written(View::Current) || !written(View::Durable) {
            return None;
        }
        let group = group_of(&this.geometry, index);
        let (unreadable, here) = self.unreadable_in(array, index);
        let present = group.slots().iter().filter(|slot| {
            !this.lost.contains(slot.member) && !unreadable.contains(&slot.member.0)
        });
        let spare = present
            .count()
            .checked_sub(usize::from(group.data_chunks))?;
        let row_block = group.first_block.plus(row.into());
        let taken = others.iter().any(|other| other.row_block == row_block);
        let none = spare == 0 || self.is_short_of_space;
        if here.contains(&disk) || unreadable.contains(&member.0) || taken || none {
            return None;
        }
        if spare == 1 && !unreadable.is_empty() {
            return None;
        }
        let right = self.disk_block(disk, block, View::Current);
        (right == self.disk_block(disk, block, View::Durable)).then(|| Rot {
            disk,
            block,
            member,
            member_block,
            row_block,
            wrong: right.clone(),
            right,
            located: spare > 1 || this.checksums.is_some(),
        })
    }

    /// Returns the members with unreadable or corrupt sectors in a group, and their disks.
    fn unreadable_in(&self, array: usize, group: GroupIndex) -> (BTreeSet<u8>, BTreeSet<usize>) {
        let mut members = BTreeSet::new();
        let mut disks = BTreeSet::new();
        for (disk, contents) in self.disks.iter().enumerate() {
            let is_here = |sector| {
                let place = self.place_of(disk, sector);
                place.is_some_and(|place| place.array == array && place.group == group)
            };
            let mut bad = contents
                .not_durably_readable()
                .chain(self.rotten_sectors(disk));
            if bad.any(is_here) {
                members.insert(self.keeper_of(disk).1.0);
                disks.insert(disk);
            }
        }
        (members, disks)
    }
}

//! Rot, and what finds it. Without checksums a rotten block is read as if it were right, so rot strikes
//! while no client asks anything, and a scrub runs before the next request. What it must find, what it
//! must repair and what it must leave alone is known exactly.

use crate::checkers::Seen;
use crate::maps::Kept;
use crate::run::drain;
use crate::stack::{Stack, View};
use crate::world::World;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_engine::{Command, Event, Finding, Member, Repair, Scrub};
use spindles_layout::{Group, GroupIndex};
use std::collections::BTreeSet;

/// A block of a disk that holds other bytes than were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The disk.
    pub disk: usize,
    /// The block of it.
    pub block: BlockIndex,
    /// The member of the array that it is on.
    pub member: MemberIndex,
    /// The block of that.
    pub member_block: BlockIndex,
    /// The block of the array at which the row of blocks begins that it is in.
    pub row_block: BlockIndex,
    /// What it should hold.
    pub right: Vec<u8>,
    /// What it holds.
    pub wrong: Vec<u8>,
    /// Whether redundancy can tell that it is the one.
    pub located: bool,
}

/// A scrub of an array nobody used meanwhile.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The array.
    pub array: usize,
    /// What was rotten.
    pub rot: Vec<Rot>,
    /// What was told.
    pub told: Vec<Event>,
}

impl Scrubbed {
    /// Whether what was told and done is what should have been.
    ///
    /// # Errors
    ///
    /// What is not.
    pub fn check(&self, stack: &Stack) -> Result<(), String> {
        let mut repaired = BTreeSet::new();
        let mut disagreements = BTreeSet::new();
        for event in &self.told {
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
        // What rotted before while clients asked, and nobody met.
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
            return Err(format!("{located:?} was rotten, it repaired {repaired:?}"));
        }
        if left != disagreements {
            return Err(format!("{left:?} disagree, it told {disagreements:?}"));
        }
        for rot in &self.rot {
            let expected = if rot.located { &rot.right } else { &rot.wrong };
            let mut bytes = vec![0; stack.block_bytes];
            stack.disk_block(rot.disk, rot.block, View::Durable, &mut bytes);
            if bytes != *expected {
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
    /// Whether every place of a written group can be read again, durably.
    fn unrepaired(&self, array: usize) -> Result<(), String> {
        for (disk, contents) in self.disks.iter().enumerate() {
            let (of, member) = self.keeper_of(disk);
            if of != array || self.arrays[array].lost.contains(member) {
                continue;
            }
            for sector in contents.not_durably_readable() {
                let start = self.arrays[array].data_start[usize::from(member.0)].0;
                let block = sector / self.sectors(disk, BlockIndex(0)).end;
                let kept = self.kept_at(disk, BlockIndex(block));
                let offset = kept.and_then(|kept| kept.block.0.checked_sub(start));
                let held = |offset| self.is_held(array, member, BlockIndex(offset), View::Durable);
                if offset.is_some_and(held) {
                    return Err(format!(
                        "sector {sector} of disk {disk} was left unreadable"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The rot of a block, if the budget has room for it beside `others`: no two in one row, nothing
    /// else the matter in a group that can't tell which of its members is wrong.
    fn may_rot(&self, disk: usize, block: BlockIndex, others: &[Rot]) -> Option<Rot> {
        let Kept {
            array,
            member,
            block: member_block,
        } = self.kept_at(disk, block)?;
        let this = &self.arrays[array];
        let offset = member_block
            .0
            .checked_sub(this.data_start[usize::from(member.0)].0)?;
        let (index, _, row) = this.geometry.find(member, BlockIndex(offset))?;
        let written = |view| self.is_held(array, member, BlockIndex(offset), view);
        if this.lost.contains(member) || !written(View::Current) || !written(View::Durable) {
            return None;
        }
        let mut group = Group::empty();
        this.geometry.group_into(index, &mut group);
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
        let mut right = vec![0; self.block_bytes];
        self.disk_block(disk, block, View::Current, &mut right);
        let mut durable = vec![0; self.block_bytes];
        self.disk_block(disk, block, View::Durable, &mut durable);
        (right == durable).then(|| Rot {
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

    /// Members of a group with sectors of it that can't be read, and their disks.
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

impl World {
    /// Blocks of the disks of an array rot, and the array is scrubbed. Whether any did.
    pub fn rot_and_scrub(&mut self) -> bool {
        drain(self);
        let disk = self.random_disk();
        let (array, _) = self.stack.keeper_of(disk);
        if self.failure.is_some() || self.excuses_errors() || !self.may_be_scrubbed(array) {
            return false;
        }
        let status = self.engine(array).status();
        if status.jobs.iter().any(|job| job.name == "resync") {
            return false; // Something could not be settled: rot is the truth there, if anything is.
        }
        if self.stack.arrays[array].damaged.is_some() {
            return false; // No more can be spared.
        }
        let unnoticed = (0..self.stack.disks.len()).any(|disk| {
            let (of, member) = self.stack.keeper_of(disk);
            let state = status.members.get(usize::from(member.0)).map(|m| m.state);
            of == array && self.is_gone(disk) && state == Some(Member::Active)
        });
        let errors = (0..self.stack.disks.len()).any(|disk| {
            let mut unreadable = self.stack.disks[disk].not_durably_readable();
            self.stack.keeper_of(disk).0 == array && unreadable.next().is_some()
        });
        if unnoticed || errors && self.options.faults.errors_max > 0 {
            return false; // The scrub would put a member out, and its spare be filled from the rot.
        }
        self.flush_disks();
        let mut rot: Vec<Rot> = Vec::new();
        for _ in 0..self.faults.between(1, 12) {
            let disk = self.random_disk();
            let block = self.stack.in_use(disk).any(&mut self.faults);
            if self.stack.keeper_of(disk).0 != array || self.is_gone(disk) {
                continue;
            }
            if let Some(mut one) = self.stack.may_rot(disk, block, &rot) {
                let at = self
                    .faults
                    .below(self.stack.block_bytes.try_into().expect("fits"));
                one.wrong[usize::try_from(at).expect("fits")] ^= 1 << self.faults.below(8);
                self.note(&format!("block {block} of disk {disk} rots"));
                self.stack.put_disk_block(disk, one.block, &one.wrong);
                rot.push(one);
            }
        }
        if rot.is_empty() {
            return false;
        }
        self.told.clear();
        self.quiet_scrub(array);
        let told = std::mem::take(&mut self.told);
        let scrubbed = Scrubbed { array, rot, told };
        self.show(&Seen::Scrubbed {
            scrubbed: &scrubbed,
        });
        for one in scrubbed.rot.iter().filter(|one| !one.located) {
            // Nobody can know what was there, save the simulator: from a backup.
            self.stack.put_disk_block(one.disk, one.block, &one.right);
        }
        true
    }

    /// Scrubs an array from start to end, now and then with an interruption.
    fn quiet_scrub(&mut self, array: usize) {
        let scrub = Scrub {
            anew: true,
            repair: Repair::Located,
        };
        self.scrubs_quietly = true;
        self.command(array, Command::Scrub(scrub));
        if self.faults.percent(30) {
            for _ in 0..self.faults.below(80) {
                self.step();
            }
            self.command(array, Command::StopJob("scrub"));
            drain(self);
            if self.engine(array).status().scrub.mark.0 > 0 {
                self.command(array, Command::Scrub(Scrub::default()));
            } else if !self
                .told
                .iter()
                .any(|event| matches!(event, Event::ScrubDone(_)))
            {
                self.command(array, Command::Scrub(scrub));
            }
        }
        drain(self);
        self.scrubs_quietly = false;
    }

    /// Scrubs an array from start to end.
    pub(crate) fn scrub_quietly(&mut self, array: usize) {
        self.scrubs_quietly = true;
        let scrub = Scrub {
            anew: true,
            repair: Repair::Located,
        };
        self.command(array, Command::Scrub(scrub));
        drain(self);
        self.scrubs_quietly = false;
    }

    /// Whether an array is open, has redundancy left, and is above nothing that has none.
    pub(crate) fn may_be_scrubbed(&self, array: usize) -> bool {
        let this = &self.stack.arrays[array];
        self.is_open(array)
            && this.geometry.redundancy() > 0
            && this.geometry.survives(this.lost)
            && !self.stack.is_given_up(array)
            && !this.unsettled
    }

    /// The administrator has an array scrubbed, whatever clients do meanwhile.
    pub fn scrub_beside_clients(&mut self) -> bool {
        let arrays = u64::try_from(self.stack.arrays.len()).expect("few");
        let array = usize::try_from(self.faults.below(arrays)).expect("few");
        let anew = self.faults.percent(50);
        if !self.may_be_scrubbed(array) {
            return false;
        }
        let repair = Repair::Located;
        self.command(array, Command::Scrub(Scrub { anew, repair }));
        true
    }

    /// A scrub told something.
    pub(crate) fn scrub_told(&mut self, event: &Event) {
        self.told.push(*event);
        if !self.scrubs_quietly && !self.excuses_errors() {
            self.show(&Seen::Told { event });
        }
    }

    /// All that was written becomes durable.
    pub(crate) fn flush_disks(&mut self) {
        for disk in &mut self.stack.disks {
            let covered = disk.flush_begins();
            disk.flush_ends(covered);
        }
    }
}

//! A replacement disk for a working member. A run has at most one at a time.

use crate::disk::{Disk, Landing};
use crate::mishaps::fill;
use crate::stack::Below;
use crate::stack::places::Places;
use crate::world::World;
use spindles_block::MemberIndex;
use spindles_engine::{Command, Event, Member, ReplaceEnd};
use std::collections::BTreeSet;

/// A replacement disk, which is not a member yet. After the exchange, the old disk of the member.
#[derive(Clone, Debug)]
pub(crate) struct ReplacementDisk {
    pub(crate) array: usize,
    pub(crate) member: MemberIndex,
    pub(crate) disk: Disk,
    /// Start of the disk's areas.
    places: Places,
    pub(crate) gone: bool,
    /// Sectors that were unreadable at some time in this session.
    spoiled: BTreeSet<u64>,
    /// Set once the new disk is the member.
    exchanged: bool,
}

impl World {
    /// The number of the replacement disk.
    pub(crate) fn replacement_number(&self) -> usize {
        self.stack.disks.len()
    }

    /// Returns a disk by number.
    pub(crate) fn disk(&self, disk: usize) -> &Disk {
        match self.stack.disks.get(disk) {
            Some(disk) => disk,
            None if disk == self.journal_number() => {
                &self.journal.as_ref().expect("it is there").disk
            }
            None => &self.replacement.as_ref().expect("it is there").disk,
        }
    }

    /// Returns a disk by number, mutably.
    pub(crate) fn disk_mut(&mut self, disk: usize) -> &mut Disk {
        if disk == self.journal_number() {
            return &mut self.journal.as_mut().expect("it is there").disk;
        }
        match self.stack.disks.get_mut(disk) {
            Some(disk) => disk,
            None => &mut self.replacement.as_mut().expect("it is there").disk,
        }
    }

    /// Begins to replace a working disk. Returns true if the command was sent to its array.
    pub fn replace_disk(&mut self, disk: usize) -> bool {
        let (array, member) = self.stack.position(disk);
        let alive = self.replacement.is_none()
            && self.arrays.is_open(array)
            && !self.stack.arrays[array].lost.contains(member)
            && self.state_of(array, member) == Member::Active;
        if !alive {
            return false;
        }
        self.note(&format!("disk {disk} is to be replaced"));
        let (device, contents) = self.blank_device(array, member);
        let mut replacement = self.stack.disks[disk].as_new(device.device_bytes);
        fill(&mut replacement, &device, &contents);
        self.replacement = Some(ReplacementDisk {
            array,
            member,
            disk: replacement,
            places: Places::of(&device),
            gone: false,
            spoiled: BTreeSet::new(),
            exchanged: false,
        });
        let uuid = self.faults.uuid();
        let command = Command::Replace {
            member,
            device,
            uuid,
        };
        self.command(array, command);
        true
    }

    /// Exchanges the disk of a member and its replacement.
    pub(crate) fn exchange(&mut self, array: usize, member: MemberIndex) {
        let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] else {
            return self.stalled("an array was to be replaced");
        };
        let Some(replacement) = self.replacement.as_mut() else {
            return self.stalled("the member has no replacement disk");
        };
        if self
            .ios
            .iter()
            .flatten()
            .any(|io| io.disk == disk && !io.lost)
        {
            return self.stalled("something is under way on a disk that is replaced");
        }
        replacement.exchanged = !replacement.exchanged;
        std::mem::swap(&mut replacement.disk, &mut self.stack.disks[disk]);
        std::mem::swap(&mut replacement.gone, &mut self.gone[disk]);
        let here = self.stack.spoiled.range((disk, 0)..=(disk, u64::MAX));
        let here: BTreeSet<u64> = here.map(|&(_, sector)| sector).collect();
        self.stack.spoiled.retain(|&(of, _)| of != disk);
        let there = std::mem::replace(&mut replacement.spoiled, here);
        let there = there.into_iter().map(|sector| (disk, sector));
        self.stack.spoiled.extend(there);
        self.slow[disk] = false;
        let this = &mut self.stack.arrays[array];
        let places = replacement.places;
        replacement.places = this.put_places(member, places);
        self.stack.move_decay(disk, replacement.places, places);
        let this = &mut self.stack.arrays[array];
        if this.lost.contains(member) {
            this.blank = this.blank.with(member); // A lost member is rebuilt instead.
        }
    }

    /// Makes the replacement disk stop answering.
    pub(crate) fn drop_replacement(&mut self) {
        let number = self.replacement_number();
        let replacement = self.replacement.as_mut();
        let Some(replacement) = replacement.filter(|disk| !disk.exchanged) else {
            return;
        };
        replacement.gone = true;
        for io in self.ios.iter_mut().flatten().filter(|io| io.disk == number) {
            io.lost = true;
            if let Some(data) = &io.data {
                let landing = Landing::random(&mut self.faults);
                replacement.disk.land(&mut self.faults, data, landing);
            }
        }
        self.note("the disk that is to replace another drops out");
        self.log.count("gone while it replaces", 1);
    }

    /// Handles an engine's event about a replacement.
    pub(crate) fn note_replace_event(&mut self, event: Event) {
        let word = match event {
            Event::ReplaceStarted { .. } => {
                if self.weak_disks > 0 {
                    self.weak_disks -= 1;
                    self.lose_replacement_soon();
                }
                return;
            }
            Event::ReplaceDone { .. } => "replaced",
            Event::ReplaceEnded { why, .. } => match why {
                // The replacement disk is still needed.
                ReplaceEnd::MemberLost => {
                    self.log.count("replaced too late", 1);
                    return;
                }
                ReplaceEnd::ReplacementLost(_)
                | ReplaceEnd::Unreadable { .. }
                | ReplaceEnd::ArrayFailed
                | ReplaceEnd::Stopped => "not replaced",
            },
            _ => return,
        };
        self.log.count(word, 1);
        self.detach_replacement();
    }

    /// Removes the replacement disk.
    pub(crate) fn detach_replacement(&mut self) {
        let number = self.replacement_number();
        for io in self.ios.iter_mut().flatten().filter(|io| io.disk == number) {
            io.lost = true;
        }
        self.replacement = None;
    }

    /// Returns true if that member has a replacement disk.
    pub(crate) fn has_replacement(&self, array: usize, member: MemberIndex) -> bool {
        let replacement = self.replacement.as_ref();
        replacement.is_some_and(|disk| (disk.array, disk.member) == (array, member))
    }
}

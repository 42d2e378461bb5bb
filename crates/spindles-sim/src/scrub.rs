//! Corruption, and the scrub that finds it. Without checksums a corrupt block is read as valid, so
//! corruption strikes while no client request runs, and a scrub follows before the next request. It
//! is known exactly what the scrub must find, repair, and leave alone.

use crate::checkers::Seen;
use crate::session::drain;
use crate::stack::rot::{Rot, Scrubbed};
use crate::world::World;
use spindles_engine::{Command, Event, Member, Repair, Scrub};

impl World {
    /// Corrupts blocks of the disks of an array, then scrubs it. Returns true if any was corrupted.
    pub fn rot_and_scrub(&mut self) -> bool {
        drain(self);
        let disk = self.random_disk();
        let (array, _) = self.stack.keeper_of(disk);
        if self.log.has_failed() || self.excuses_errors() || !self.may_be_scrubbed(array) {
            return false;
        }
        let status = self.arrays.engine(array).status();
        if status.jobs.iter().any(|job| job.name == "resync") {
            return false; // Part of it could not be resynced: corruption counts as valid there.
        }
        if self.stack.arrays[array].damaged.is_some() {
            return false; // The budget has no room.
        }
        let unnoticed = (0..self.stack.disks.len()).any(|disk| {
            let (of, member) = self.stack.keeper_of(disk);
            let state = status.members.get(usize::from(member.0)).map(|m| m.state);
            of == array && self.devices.is_gone(disk) && state == Some(Member::Active)
        });
        let errors = (0..self.stack.disks.len()).any(|disk| {
            let mut unreadable = self.stack.disks[disk].not_durably_readable();
            self.stack.keeper_of(disk).0 == array && unreadable.next().is_some()
        });
        if unnoticed || errors && self.options.faults.errors_max > 0 {
            return false; // The scrub might put a member out: its spare would copy the corruption.
        }
        self.flush_disks();
        let mut rot: Vec<Rot> = Vec::new();
        for _ in 0..self.faults.between(1, 12) {
            let disk = self.random_disk();
            let block = self.stack.in_use(disk).any(&mut self.faults);
            if self.stack.keeper_of(disk).0 != array || self.devices.is_gone(disk) {
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
        self.reported.clear();
        self.quiet_scrub(array);
        let reported = std::mem::take(&mut self.reported);
        let scrubbed = Scrubbed {
            array,
            rot,
            reported,
        };
        self.show(&Seen::Scrubbed {
            scrubbed: &scrubbed,
        });
        for one in scrubbed.rot.iter().filter(|one| !one.located) {
            // Only the simulator knows the right bytes: restore them as from a backup.
            self.stack.put_disk_block(one.disk, one.block, &one.right);
        }
        true
    }

    /// Scrubs an array from start to end, sometimes with an interruption.
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
            if self.arrays.engine(array).status().scrub.mark.0 > 0 {
                self.command(array, Command::Scrub(Scrub::default()));
            } else if !self
                .reported
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

    /// Returns true if an array is open, in sync, not given up, and has redundancy left.
    pub(crate) fn may_be_scrubbed(&self, array: usize) -> bool {
        let this = &self.stack.arrays[array];
        self.arrays.is_open(array)
            && this.geometry.redundancy() > 0
            && this.geometry.survives(this.lost)
            && !self.stack.is_given_up(array)
            && !this.unsettled
    }

    /// Scrubs an array while clients continue, as the administrator would.
    pub fn scrub_during_requests(&mut self) -> bool {
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

    /// Handles an event of a scrub.
    pub(crate) fn note_scrub_event(&mut self, event: &Event) {
        self.reported.push(*event);
        if !self.scrubs_quietly && !self.excuses_errors() {
            self.show(&Seen::Reported { event });
        }
    }

    /// Makes all writes durable.
    pub(crate) fn flush_disks(&mut self) {
        for disk in &mut self.stack.disks {
            let covered = disk.flush_begins();
            disk.flush_ends(covered);
        }
    }
}

//! Replaces working members.

use crate::devices::replacement::ReplacementDisk;
use crate::stack::Below;
use crate::world::{Moment, World};
use spindles_block::MemberIndex;
use spindles_engine::{Event, ReplaceEnd};

impl World {
    /// Exchanges the disk of a member and its replacement.
    pub(crate) fn exchange(&mut self, array: usize, member: MemberIndex) {
        let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] else {
            return self.stalled("an array was to be replaced");
        };
        if !self.devices.has_replacement(array, member) {
            return self.stalled("the member has no replacement disk");
        }
        if self.devices.in_flight(disk).any(|io| !io.lost) {
            return self.stalled("something is under way on a disk that is replaced");
        }
        self.devices.exchange(&mut self.stack, disk);
        self.tell(&mut Moment::Exchanged { disk });
    }

    /// Makes the replacement disk stop answering.
    pub(crate) fn drop_replacement(&mut self) {
        let replacement = self.devices.replacement.as_ref();
        if replacement.is_none_or(ReplacementDisk::is_exchanged) {
            return;
        }
        let number = self.devices.replacement_number();
        (self.devices).drop_out(&mut self.stack, number, &mut self.faults);
        self.note("the disk that is to replace another drops out");
        self.log.count("gone while it replaces", 1);
    }

    /// Handles an engine's event about a replacement.
    pub(crate) fn note_replace_event(&mut self, event: Event) {
        let word = match event {
            Event::ReplaceStarted { .. } => {
                let disk = self.devices.replacement_number();
                return self.tell(&mut Moment::Fills { disk });
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
        self.devices.lose_flights(self.devices.replacement_number());
        self.devices.replacement = None;
    }
}

//! Counts and reports the flaws that scrubs, repairs and reads of clients find on members, with
//! their fates.

use crate::{
    Engine, RangeId,
    jobs::scrub::{Fate, Finding, Flaw},
    output::{Event, Output},
    plan::Ask,
    stripe::Owner,
};
use spindles_block::MemberIndex;
use spindles_format::ErrorCounts;

impl Engine {
    /// Reports the flaws in the current rows, and their fates.
    pub(crate) fn tell_repairs(&mut self, id: RangeId, wrote: bool) {
        let range = self.ranges[id];
        let wrote = wrote && range.error.is_none() && !self.metadata.is_broken();
        for slot in self.ranges[id]
            .lost_here(self.ranges.missing_slots(&self.members, id))
            .iter()
        {
            let fate = match wrote {
                false => Fate::Left,
                true if range.rows.refused.contains(slot) => Fate::Refused,
                true => Fate::Repaired,
            };
            self.tell_finding(id, slot, fate);
        }
        if !range.rows.overruled.is_empty() {
            self.tell_disagreement(id, wrote);
        }
    }

    /// Reports the flaw of a slot in the current rows.
    pub(crate) fn tell_finding(&mut self, id: RangeId, slot: u8, fate: Fate) {
        let range = &self.ranges[id];
        let place = self.ranges.slot(id, slot);
        let start = self.members.data_start(place.member);
        let finding = Finding {
            member: place.member,
            block: start.plus(place.offset.0 + u64::from(range.low)),
            blocks: range.blocks,
            array_block: self.ranges.array_block(id, slot),
            flaw: if range.rows.checksum_lost.contains(slot) {
                Flaw::ChecksumLost
            } else if range.rows.rotten.contains(slot) {
                Flaw::Rotten
            } else {
                Flaw::Unreadable
            },
            fate,
            by_scrub: range.ask == Ask::Scrub && matches!(range.owner, Owner::Job(_)),
        };
        self.count_finding(&finding);
        self.outbox.put(Output::Event(Event::Found(finding)));
    }

    fn count_finding(&mut self, finding: &Finding) {
        let blocks = u64::from(finding.blocks);
        self.faults.count(finding);
        let count_if = |counts: bool| if counts { blocks } else { 0 };
        let is_error = finding.flaw != Flaw::ChecksumLost;
        self.count_errors(
            finding.member,
            &ErrorCounts {
                corrupt_blocks: count_if(finding.flaw == Flaw::Rotten),
                repaired_blocks: count_if(is_error && finding.fate == Fate::Repaired),
                ..ErrorCounts::NONE
            },
        );
        if finding.by_scrub {
            self.scrub.count(finding);
        } else if finding.fate == Fate::Left {
            self.leave_to_scrub(blocks);
        }
    }

    /// Records blocks that a client's read found and no redundancy repairs, until the next scrub.
    /// Reads that meet the same blocks count once.
    #[cold]
    fn leave_to_scrub(&mut self, blocks: u64) {
        let Some(persistence) = self.metadata.persistence_mut() else {
            return;
        };
        let left_blocks = &mut persistence.array.scrub_left_blocks;
        let is_first = *left_blocks == 0;
        *left_blocks = blocks.max(*left_blocks);
        if is_first && !self.has_failed() {
            self.want_update();
        }
    }

    pub(crate) fn tell_disagreement(&mut self, id: RangeId, made_to_agree: bool) {
        let range = &self.ranges[id];
        let (low, blocks) = (u64::from(range.low), range.blocks);
        if matches!(range.owner, Owner::Job(_)) {
            self.scrub.count_disagreement(blocks, made_to_agree);
        }
        let (shape, group) = (self.ranges[id].shape, self.ranges.group(id));
        self.outbox.put(Output::Event(Event::Disagreement {
            block: group.first_block.plus(low),
            blocks,
            chunks: if shape.copies { 1 } else { shape.data },
            chunk_blocks: group.blocks,
            made_to_agree,
        }));
    }

    /// Counts errors in the record of a member's device. Writes the superblocks for them, but at
    /// most once a minute.
    #[cold]
    pub(crate) fn count_errors(&mut self, member: MemberIndex, more: &ErrorCounts) {
        let due = self.metadata.count_errors(member, more, self.now);
        if due && !self.has_failed() {
            self.want_update();
        }
    }
}

//! In an array open read-only, reads take logged contents from the log instead of their places.
//! Nothing is written.

use crate::{
    Engine, RangeId,
    checksums::entries::Entry,
    journal::JOURNAL_DEVICE,
    recovery::overlay::{Logged, Overlay},
    slots::SlotSet,
};
use spindles_block::{BlockIndex, BufferSlice, MemberError, MemberIndex, Operation};
use spindles_format::{JournalKind, RowSum};
use spindles_layout::GroupIndex;

impl Engine {
    /// Makes the log count from now on, instead of the blocks in its places. The log was read
    /// completely.
    pub(crate) fn overlay_log(&mut self) {
        self.unlist_logged();
        let replay = self.opening.replay_mut().expect("the log was read");
        let (log, broken) = (&mut replay.log, &mut replay.broken);
        self.overlay = Overlay::new(core::mem::take(log), core::mem::take(broken));
        self.end_replay();
    }

    /// Returns true if the log may have contents of a group that are not in place.
    #[inline]
    pub(crate) fn is_overlaid(&self, group: GroupIndex) -> bool {
        let overlay = self.overlay.as_ref();
        overlay.is_some_and(|overlay| overlay.has(group)) && !self.grow.is_staged(group)
    }

    /// Returns what the log holds of a slot's block in a row, counted from the first current row.
    #[inline]
    pub(crate) fn logged(&self, id: RangeId, slot: u8, row: u32) -> Option<Logged<'_>> {
        let overlay = self.overlay.as_ref()?;
        let range = &self.ranges[id];
        if self.grow.is_staged(range.group) {
            return None;
        }
        overlay.at(range.group, range.low + row, slot)
    }

    /// Returns the slots of the current rows whose part of the log satisfies `is`.
    fn slots_logged(&self, id: RangeId, is: impl Fn(Logged<'_>) -> bool) -> SlotSet {
        if self.overlay.is_none() {
            return SlotSet::EMPTY;
        }
        let slots = self.shape(id).all().iter();
        let slots = slots.filter(|slot| self.logged(id, *slot, 0).is_some_and(&is));
        slots.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Returns the slots of the current rows of which the log holds anything.
    pub(crate) fn logged_slots(&self, id: RangeId) -> SlotSet {
        self.slots_logged(id, |_| true)
    }

    /// Returns the slots of the current rows that are zeros according to the log.
    pub(crate) fn logged_zeros(&self, id: RangeId) -> SlotSet {
        let is_zeros = |logged: Logged<'_>| match logged {
            Logged::Part(part) => part.entry.kind == JournalKind::Zeros,
            Logged::Lost => false,
        };
        self.slots_logged(id, is_zeros)
    }

    /// Returns the slots of the current rows that were written by records that are not whole.
    pub(crate) fn unproved_slots(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        let overlay = self.overlay.as_ref();
        overlay.map_or(SlotSet::EMPTY, |overlay| {
            overlay.unproved(range.group, range.low)
        })
    }

    /// Narrows the current rows to the leading ones for which the log holds the same.
    pub(crate) fn narrow_to_log(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        if let Some(overlay) = &self.overlay {
            let rows = range.low..range.low + range.blocks;
            range.blocks = overlay.alike(range.group, &rows);
        }
    }

    /// Returns the entry that the log has for a block.
    pub(crate) fn logged_entry(&self, id: RangeId, slot: u8, row: u32) -> Option<Entry> {
        let logged = self.logged(id, slot, row)?;
        let overlay = self.overlay.as_ref()?;
        let row = self.ranges[id].low + row;
        Some(match logged {
            Logged::Lost => Entry::LOST,
            Logged::Part(part) => {
                let sum = overlay.log.checksum(part, row);
                let sum = sum.unwrap_or_else(|| self.checksum_of_zeros());
                let row_sum = if self.has_checksums() {
                    overlay.log.row_sum(part, row)
                } else {
                    RowSum::NONE
                };
                Entry::of(sum, row_sum)
            }
        })
    }

    /// Returns where the log has the blocks of a slot in the current rows: the device, and the
    /// first block.
    fn place_in_log(&self, id: RangeId, slot: u8) -> Option<(MemberIndex, BlockIndex)> {
        let Logged::Part(part) = self.logged(id, slot, 0)? else {
            return None;
        };
        let journal = self.journal.as_ref()?;
        let (device, start) = journal.placement.place(part.member);
        let rows = self.ranges[id].low - part.entry.low;
        Some((device, start.plus(u64::from(part.entry.place + rows))))
    }

    /// Reads the blocks of a slot from the log. Returns false if the log does not have them.
    pub(crate) fn read_from_log(&mut self, id: RangeId, slot: u8, buffer: BufferSlice) -> bool {
        let Some((device, block)) = self.place_in_log(id, slot) else {
            return false;
        };
        let blocks = self.ranges[id].blocks;
        self.journal_io(id, slot, device, Operation::Read, block, blocks, buffer);
        true
    }

    /// Handles a failed read of a slot on the journal's own device. Returns true if the read was on
    /// that device.
    #[cold]
    pub(crate) fn log_failed_to_read(&mut self, id: RangeId, slot: u8, error: MemberError) -> bool {
        match self.place_in_log(id, slot) {
            Some((JOURNAL_DEVICE, _)) => {
                self.log_failed(JOURNAL_DEVICE, Err(error));
                true
            }
            _ => false,
        }
    }
}

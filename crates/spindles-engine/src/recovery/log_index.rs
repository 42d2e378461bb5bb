//! An index of the log after a crash: the newest logged contents of each block.

use crate::{index, slots::SlotSet};
use alloc::{collections::BTreeSet, vec::Vec};
use core::ops::Range;
use spindles_block::MemberIndex;
use spindles_format::{JournalEntry, JournalKind, JournalSums, RowSum};
use spindles_layout::GroupIndex;

/// One slot of a record.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    sequence: u64,
    member: MemberIndex,
    entry: JournalEntry,
    /// Range in `LogIndex::checksums`, and below in `LogIndex::row_sums`.
    checksums: Range<usize>,
    row_sums: Range<usize>,
    /// True while its record counts.
    counts: bool,
}

impl Part {
    /// Returns the member whose journal holds the part.
    pub(crate) const fn member(&self) -> MemberIndex {
        self.member
    }

    /// Returns the block of a row, counted from the start of the journal.
    pub(crate) const fn place_of(&self, row: u32) -> u32 {
        self.entry.place + row - self.entry.low
    }

    /// Returns the key that all parts of one record share.
    fn record(&self) -> (u64, u64, u32) {
        (self.sequence, self.entry.group, self.entry.low)
    }
}

/// Rows of a group, with the newest part that the log has of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    group: u64,
    rows: Range<u32>,
    /// Indices into `LogIndex::parts`.
    parts: Vec<usize>,
    /// Slots whose newest part is missing from the log: a record wrote them, but this part of it
    /// was not found.
    lacks: SlotSet,
}

impl Run {
    /// Returns the group.
    pub(crate) const fn group(&self) -> GroupIndex {
        GroupIndex(self.group)
    }

    /// Returns the rows in the chunks of the group.
    pub(crate) const fn rows(&self) -> &Range<u32> {
        &self.rows
    }

    /// Returns the slots whose newest part is missing from the log.
    pub(crate) const fn lacks(&self) -> SlotSet {
        self.lacks
    }
}

/// All parts of records found in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogIndex {
    parts: Vec<Part>,
    checksums: Vec<u32>,
    row_sums: Vec<RowSum>,
}

impl LogIndex {
    /// Adds a part that was found.
    pub(crate) fn add(
        &mut self,
        sequence: u64,
        member: MemberIndex,
        entry: JournalEntry,
        sums: JournalSums<'_>,
    ) {
        let (checksums, row_sums) = (self.checksums.len(), self.row_sums.len());
        self.checksums.extend(sums.checksums());
        self.row_sums.extend(sums.row_sums());
        self.parts.push(Part {
            sequence,
            member,
            entry,
            checksums: checksums..self.checksums.len(),
            row_sums: row_sums..self.row_sums.len(),
            counts: true,
        });
    }

    /// Drops all parts of batches before `sequence`.
    pub(crate) fn forget_before(&mut self, sequence: u64) {
        self.parts.retain(|part| part.sequence >= sequence);
    }

    /// The number of records that count.
    pub(crate) fn records(&self) -> u64 {
        let counted = self.parts.iter().filter(|part| part.counts);
        let records: BTreeSet<_> = counted.map(Part::record).collect();
        u64::try_from(records.len()).expect("they fit memory")
    }

    /// Returns the rows of records whose batches may not be durable, one run for each record, in
    /// log order.
    pub(crate) fn undecided(&self, is_durable: impl Fn(u64) -> bool) -> Vec<Run> {
        let undecided = self.parts.iter().filter(|part| !is_durable(part.sequence));
        let records: BTreeSet<_> = undecided.map(Part::record).collect();
        let run = |record: (u64, u64, u32)| {
            let parts = (0..self.parts.len()).filter(|&at| self.parts[at].record() == record);
            let parts: Vec<usize> = parts.collect();
            let blocks = self.parts[parts[0]].entry.blocks;
            Run {
                group: record.1,
                rows: record.2..record.2 + blocks,
                lacks: self.lacking(&parts),
                parts,
            }
        };
        records.into_iter().map(run).collect()
    }

    /// Returns the slots written by the record of this run.
    pub(crate) fn record_slots(&self, run: &Run) -> SlotSet {
        SlotSet::from_bits(self.parts[run.parts[0]].entry.slots)
    }

    /// Drops the record of this run.
    pub(crate) fn drop_record(&mut self, run: &Run) {
        for &part in &run.parts {
            self.parts[part].counts = false;
        }
    }

    /// Returns true if newer records that count cover all parts found of this run.
    pub(crate) fn is_superseded(&self, run: &Run) -> bool {
        let first = &self.parts[run.parts[0]];
        let later = |part: &&Part| {
            let entry = &part.entry;
            let covers = entry.low <= run.rows.start && entry.low + entry.blocks >= run.rows.end;
            part.counts && part.sequence > first.sequence && entry.group == run.group && covers
        };
        let slots = self.parts.iter().filter(later);
        let slots = slots.fold(SlotSet::EMPTY, |set, part| set.with(part.entry.slot));
        let own = run.parts.iter().map(|&at| self.parts[at].entry.slot);
        own.fold(SlotSet::EMPTY, SlotSet::with)
            .minus(slots)
            .is_empty()
    }

    /// Returns all rows of which the log holds blocks, in order.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.retain(|&at| self.parts[at].counts);
        order.sort_by_key(|&at| (self.parts[at].entry.group, self.parts[at].sequence));
        let mut runs = Vec::new();
        for of_group in
            order.chunk_by(|&a, &b| self.parts[a].entry.group == self.parts[b].entry.group)
        {
            self.runs_of_group(of_group, &mut runs);
        }
        runs
    }

    /// Adds the runs of one group. `of_group` has its parts in log order.
    fn runs_of_group(&self, of_group: &[usize], runs: &mut Vec<Run>) {
        let rows = |at: usize| {
            let entry = &self.parts[at].entry;
            entry.low..entry.low + entry.blocks
        };
        let bounds = of_group
            .iter()
            .flat_map(|&at| [rows(at).start, rows(at).end]);
        let bounds: Vec<u32> = bounds.collect::<BTreeSet<_>>().into_iter().collect();
        for rows_here in bounds.windows(2) {
            let here = of_group
                .iter()
                .filter(|&&at| rows(at).contains(&rows_here[0]));
            let here: Vec<usize> = here.copied().collect();
            let mut parts: Vec<usize> = Vec::new();
            for &at in &here {
                let slot = self.parts[at].entry.slot;
                parts.retain(|&before| self.parts[before].entry.slot != slot);
                parts.push(at);
            }
            if !parts.is_empty() {
                runs.push(Run {
                    group: self.parts[parts[0]].entry.group,
                    rows: rows_here[0]..rows_here[1],
                    lacks: self.lacking(&here),
                    parts,
                });
            }
        }
    }

    /// Returns the slots whose newest part is not among `parts`.
    fn lacking(&self, parts: &[usize]) -> SlotSet {
        let mut lacking = SlotSet::EMPTY;
        let parts = || parts.iter().map(|&at| &self.parts[at]);
        for record in parts().map(Part::record).collect::<BTreeSet<_>>() {
            for part in parts().filter(|part| part.record() == record) {
                lacking = lacking.or(SlotSet::from_bits(part.entry.slots));
            }
            let found = parts().filter(|part| part.record() == record);
            let found = found.fold(SlotSet::EMPTY, |set, part| set.with(part.entry.slot));
            lacking = lacking.minus(found);
        }
        lacking
    }

    /// Returns the slots of these rows that the log holds, and the kind of their contents.
    pub(crate) fn slots(&self, run: &Run) -> impl Iterator<Item = (u8, JournalKind)> {
        let entries = run.parts.iter().map(|&at| &self.parts[at].entry);
        entries.map(|entry| (entry.slot, entry.kind))
    }

    /// Returns the set of the slots from `slots`.
    pub(crate) fn all_slots(&self, run: &Run) -> SlotSet {
        self.slots(run)
            .fold(SlotSet::EMPTY, |all, (slot, _)| all.with(slot))
    }

    /// Returns the part of a slot that the log holds.
    pub(crate) fn part(&self, run: &Run, slot: u8) -> &Part {
        let part = self.find(run, slot);
        part.expect("the log has something of the slot")
    }

    /// Returns the part of a slot. `None` if the log holds nothing of it in these rows.
    pub(crate) fn find(&self, run: &Run, slot: u8) -> Option<&Part> {
        let mut parts = run.parts.iter().map(|&at| &self.parts[at]);
        parts.find(|part| part.entry.slot == slot)
    }

    /// Returns the checksums of some rows of a part whose blocks are in the log.
    pub(crate) fn checksums(&self, part: &Part, low: u32, blocks: u32) -> &[u32] {
        let start = part.checksums.start + index(low - part.entry.low);
        &self.checksums[start..start + index(blocks)]
    }

    /// Returns the checksum of one row of a part; `None` for zeros.
    pub(crate) fn checksum(&self, part: &Part, row: u32) -> Option<u32> {
        match part.entry.kind {
            JournalKind::Data => Some(self.checksums(part, row, 1)[0]),
            JournalKind::Zeros => None,
        }
    }

    /// Returns the row sum of one row of a part that has row sums.
    pub(crate) fn row_sum(&self, part: &Part, row: u32) -> RowSum {
        self.row_sums[part.row_sums.start + index(row - part.entry.low)]
    }
}

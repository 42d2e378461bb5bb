//! Prepares a region for its first write: its rows are zeroed on all members and flushed, and then
//! the region counts as written. Regions that are asked for meanwhile share the flush. Regions
//! ahead of a sequential writer are prepared before it gets there (`first_touch.rs`).
//!
//! If members would move bytes for that, and writes to the rows can be logged as a whole, no write
//! waits for zeros: the rows become blank (`ranges/blank.rs`). Only checksums of released contents
//! are removed.

use crate::{
    Engine,
    checksums::entries::Entry,
    index,
    system_io::Purpose,
    waits::WaitFor,
    zeroing::{Rows, Run},
};
use core::mem::take;
use spindles_block::{BlockIndex, BufferSlice, MemberIndex, MemberResult};
use spindles_format::{CHECKSUM_BLANK, CHECKSUM_NONE, RowSum, stored_checksum};
use spindles_layout::GroupIndex;

/// The most bytes that one operation zeroes by writing zeros; below, without moving bytes.
const ZERO_BYTES_MAX: u32 = 4 << 20;

const FREE_BYTES_MAX: u32 = 16 << 20;

impl Engine {
    /// Asks for a never-written region for which a write waits.
    pub(crate) fn want_zeroing(&mut self, region: u64) {
        let zeroing = &mut self.zeroing;
        let begun = zeroing.asked.get(region) && !zeroing.ahead.get(region);
        if begun {
            zeroing.hurry |= !zeroing.waiting.contains(&region);
            return;
        }
        zeroing.ahead.clear(region);
        zeroing.asked.set(region);
        zeroing.waiting.push_back(region);
        if self.makes_rows_blank() {
            self.regions.dirty.set(region);
            self.regions.expected.set(region);
        }
        self.begin_zeroing();
    }

    /// Begins to zero the regions that were asked for, if nothing is under way.
    pub(crate) fn begin_zeroing(&mut self) {
        if self.zeroing.regions.is_empty() && !self.zeroing.flushing && !self.zeroing.held {
            self.zero_next();
        }
    }

    /// Returns true if rows that a write waits for become blank instead of zeros.
    pub(crate) fn makes_rows_blank(&self) -> bool {
        self.log.exists()
            && self.has_checksums()
            && self.shape.may_be_blank()
            && !self.zeroes_without_moving_bytes()
            && self.regions.older.is_none()
            && self.extension.is_none()
    }

    /// Begins the next regions, or flushes those that are done.
    fn zero_next(&mut self) {
        let (blank, free) = (self.makes_rows_blank(), self.zeroes_without_moving_bytes());
        while let Some(regions) = self.zeroing.next(blank, free) {
            let groups =
                self.regions.groups(regions.start).start..self.regions.groups(regions.end - 1).end;
            if blank {
                self.write_bitmaps(); // Runs while the regions are prepared.
            }
            self.zeroing.regions = regions;
            self.zeroing.left.fill(groups);
            let active = self.present();
            for member in active.iter() {
                self.zeroing.pending += u32::from(self.zero_on(member));
            }
            if self.zeroing.pending > 0 {
                return;
            }
            self.zeroing.through();
        }
        if self.zeroing.zeroed.is_empty() {
            return;
        }
        if !take(&mut self.zeroing.changed) {
            return self.regions_ready();
        }
        self.zeroing.flushing = self.flush_active(Purpose::ZeroingFlush) > 0;
        if !self.zeroing.flushing {
            self.stop_writing();
            self.regions_ready();
        }
    }

    /// Zeroes the next run of a member's rows, or makes all of them blank. Returns true if an
    /// operation is under way.
    fn zero_on(&mut self, member: MemberIndex) -> bool {
        while self.next_zeros(member) {
            let held = !self.has_checksums() || self.pin_pages_for(self.zeroing_holder(member));
            if !held || self.zero_run(member) {
                return true;
            }
        }
        false
    }

    /// Finds the next run of a member's rows. Returns false if none is left.
    fn next_zeros(&mut self, member: MemberIndex) -> bool {
        let at = usize::from(member.0);
        let left = self.zeroing.left[at].clone();
        let bytes_max = if self.zeroes_without_moving_bytes() {
            FREE_BYTES_MAX
        } else {
            ZERO_BYTES_MAX
        };
        let blocks_max = bytes_max / self.settings.block_size.bytes();
        let mut run: Option<(BlockIndex, u32)> = None;
        let mut next = left.start;
        while next < left.end {
            self.geometry
                .group_into(GroupIndex(next), &mut self.zeroing.group);
            let group = &self.zeroing.group;
            // If the array has been extended, a region that becomes written may already hold
            // contents.
            let held = self.extension.as_ref().map_or(0, |extension| {
                let written = &self.regions.written.bits;
                extension.rows_held(written, GroupIndex(next), group.blocks)
            });
            let left = group.blocks - held;
            let mut slots = group.slots().iter().filter(|_| left > 0);
            let slot = slots.find(|slot| slot.member == member);
            let start = slot.map(|slot| slot.offset.plus(u64::from(held)));
            match (start, &mut run) {
                (None, _) => {}
                (Some(start), None) => run = Some((start, left)),
                (Some(start), Some((first, blocks)))
                    if start == first.plus(u64::from(*blocks)) && *blocks + left <= blocks_max =>
                {
                    *blocks += left;
                }
                (Some(_), Some(_)) => break,
            }
            next += 1;
        }
        self.zeroing.left[at].start = next;
        let Some((first, blocks)) = run else {
            return false;
        };
        self.zeroing.runs[at] = Run {
            first,
            blocks,
            summed: 0,
        };
        true
    }

    /// Returns the holder of the checksum pages for the rows that a member is zeroing.
    fn zeroing_holder(&self, member: MemberIndex) -> u32 {
        self.ranges.count() + u32::from(member.0)
    }

    /// Continues on a member whose pages are pinned now.
    pub(crate) fn zero_run_on(&mut self, member: MemberIndex) {
        if !self.zero_run(member) {
            self.zeroed(member, Ok(()));
        }
    }

    /// Sets the checksums of rows of a member, then zeroes the rows. For blank rows it only
    /// replaces the checksums by marks. Returns true if an operation is under way.
    fn zero_run(&mut self, member: MemberIndex) -> bool {
        let at = usize::from(member.0);
        let holder = self.zeroing_holder(member);
        let data_chunks = self.zeroing.group.data_chunks;
        let blank = self.zeroing.rows == Rows::Blank;
        while let Some(pages) = &mut self.pages {
            let (first, blocks) = self.zeroing.next_checksums(at);
            if !self.members.missing().contains(member) {
                // Every block may be parity, so its entry needs a row sum.
                let row_sum = RowSum::of_zeros(data_chunks, stored_checksum(pages.of_zeros));
                let (buffer, of) = (&mut self.metadata_buffer, (holder, 0, first));
                if blank {
                    for block in (first.0..).map(BlockIndex).take(index(blocks)) {
                        // Old checksums must be gone before the region counts as written. The marks
                        // of blank rows may become durable later: until then the region counts as
                        // begun.
                        let kept = pages.kept_at(buffer, of, block);
                        self.zeroing.changed |= ![CHECKSUM_NONE, CHECKSUM_BLANK].contains(&kept);
                        pages.set_at(buffer, of, block, Entry::BLANK);
                    }
                } else {
                    let entry = Entry::of(pages.of_zeros, row_sum);
                    pages.set_run(buffer, of, blocks, |_| entry);
                    self.zeroing.changed = true;
                }
            }
            pages.unpin_all(holder);
            let run = &mut self.zeroing.runs[at];
            run.summed += blocks;
            if run.summed == run.blocks {
                break;
            }
            if !self.pin_pages_for(holder) {
                return true;
            }
        }
        if blank {
            return false;
        }
        self.zeroing.changed = true;
        let Run { first, blocks, .. } = self.zeroing.runs[at];
        let block = self.members.data_start(member).plus(first.0);
        self.system_io(
            Purpose::Zeroing,
            member,
            self.first_touch.zeroes_by(member),
            block,
            blocks,
            BufferSlice::ZEROS,
        );
        true
    }

    /// Handles the result of zeroing rows of a member.
    pub(crate) fn zeroed(&mut self, member: MemberIndex, result: MemberResult) {
        self.system_io_failed(member, result);
        let goes_on = !self.members.missing().contains(member) && !self.metadata.is_broken();
        if goes_on && self.zero_on(member) {
            return;
        }
        self.zeroing.pending -= 1;
        if self.zeroing.pending > 0 {
            return;
        }
        self.zeroing.through();
        self.zero_next();
    }

    pub(crate) fn zeroing_flushed(&mut self) {
        self.zeroing.flushing = false;
        self.regions_ready();
    }

    /// Marks the zeroed regions as written. Stripe ranges that wait continue when that is durable.
    fn regions_ready(&mut self) {
        let zeroed = self.zeroing.zeroed.words().iter();
        let mut both = zeroed.zip(self.regions.released.words());
        let released = both.any(|(zeroed, released)| zeroed & released != 0);
        let holds = released && !self.metadata.is_broken();
        if holds && self.restart_log() {
            // Records from before the region was released must never be replayed over the new
            // contents.
            self.zeroing.held = true;
            return;
        }
        // A member that is out did not get the zeros: record that before the region is written.
        if self.metadata.may_count_on(self.members.missing()) && !self.metadata.is_broken() {
            self.zeroing.held = true;
            return self.want_update(); // A failed array gets no update: nothing is written then.
        }
        // An opening resyncs begun regions only if the array is not clean: that must be durable
        // first.
        if self.makes_rows_blank() && !self.may_commit() {
            self.zeroing.held = true;
            return;
        }
        self.zeroing.hurry = false;
        while let Some(region) = self.zeroing.zeroed.next(0) {
            self.zeroing.zeroed.clear(region);
            self.zeroing.asked.clear(region);
            if !self.metadata.is_broken() {
                self.regions.written.set(region);
                self.regions.dirty.set(region);
                self.regions.expected.set(region);
                self.regions.begun.set(region);
                self.replace.first_written(region);
            }
        }
        self.regions.note_all_written();
        self.write_bitmaps();
        if self.metadata.is_broken() {
            self.waits.wake(WaitFor::Region);
        }
        self.zero_next();
        self.extend();
    }

    /// Continues when the old records of the journal are void, or superblocks are durable.
    pub(crate) fn zeroing_goes_on(&mut self) {
        if take(&mut self.zeroing.held) {
            self.regions_ready();
        }
    }
}

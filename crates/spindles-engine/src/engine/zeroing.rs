//! Prepares a region for its first write: its rows are zeroed on all members and flushed, and then
//! the region counts as written. Regions that are asked for meanwhile share the flush. Regions
//! ahead of a sequential writer are prepared before it gets there (`first_touch.rs`).
//!
//! If members would move bytes for that, and writes to the rows can be logged as a whole, no write
//! waits for zeros: the rows become blank (`ranges/blank.rs`). Only checksums of released contents
//! are removed.

use crate::{
    Engine,
    agenda::Due,
    checksums::entries::Entry,
    index,
    system_io::Purpose,
    waits::WaitFor,
    zeroing::{Action, Input, Ways},
};
use core::ops::Range;
use spindles_block::{BlockIndex, BufferSlice, MemberIndex, MemberResult};
use spindles_format::{CHECKSUM_BLANK, CHECKSUM_NONE, RowSum, stored_checksum};

/// The most bytes that one operation zeroes by writing zeros; below, without moving bytes.
const ZERO_BYTES_MAX: u32 = 4 << 20;

const FREE_BYTES_MAX: u32 = 16 << 20;

impl Engine {
    /// Asks for a never-written region for which a write waits.
    pub(crate) fn want_zeroing(&mut self, region: u64) {
        if !self.zeroing.ask(region) {
            return;
        }
        if self.makes_rows_blank() {
            self.regions.expect_write(region);
        }
        self.begin_zeroing();
    }

    /// Begins to zero the regions that were asked for, if nothing is under way.
    pub(crate) fn begin_zeroing(&mut self) {
        if self.zeroing.may_begin() {
            self.step_zeroing(Input::Asked);
        }
    }

    /// Hands an event to the preparation of regions, and does what it asks for.
    pub(crate) fn step_zeroing(&mut self, input: Input) {
        let mut has_finished = false;
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let ways = Ways {
                blank: self.makes_rows_blank(),
                free: self.zeroes_without_moving_bytes(),
            };
            match self.zeroing.step(input, ways) {
                Action::Wait => {}
                Action::Prepare(regions) => {
                    next = Some(Input::Begun(self.prepare(&regions, ways.blank)));
                }
                Action::Flush => {
                    if self.flush_active(Purpose::ZeroingFlush) == 0 {
                        self.stop_writing();
                        next = Some(Input::Flushed);
                    }
                }
                Action::Finish if self.holds_zeroed() => {}
                Action::Finish => {
                    self.regions_ready();
                    has_finished = true;
                    next = Some(Input::Ready);
                }
            }
        }
        if has_finished {
            self.agenda.add(Due::Extend);
        }
    }

    /// Lets all members prepare these regions. Returns the number of members that write.
    fn prepare(&mut self, regions: &Range<u64>, blank: bool) -> u32 {
        let first = self.regions.groups(regions.start).start;
        let end = self.regions.groups(regions.end - 1).end;
        if blank {
            self.write_bitmaps(); // Runs while the regions are prepared.
        }
        self.zeroing.begin_rows(&(first..end));
        let mut pending = 0;
        for member in self.present().iter() {
            pending += u32::from(self.zero_on(member));
        }
        pending
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
        let bytes_max = if self.zeroes_without_moving_bytes() {
            FREE_BYTES_MAX
        } else {
            ZERO_BYTES_MAX
        };
        let blocks_max = bytes_max / self.settings.block_size.bytes();
        let (regions, extension) = (&self.regions, self.extension.as_ref());
        // If the array has been extended, a region that becomes written may already hold contents.
        let held_rows = |group, blocks| {
            extension.map_or(0, |extension| extension.rows_held(regions, group, blocks))
        };
        (self.zeroing).next_run(member, &self.geometry, blocks_max, held_rows)
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
        let holder = self.zeroing_holder(member);
        loop {
            self.set_checksums_of_run(member, holder);
            let Some(pages) = &mut self.pages else {
                break;
            };
            pages.unpin_all(holder);
            if self.zeroing.checksums_are_set(member) {
                break;
            }
            if !self.pin_pages_for(holder) {
                return true;
            }
        }
        if self.zeroing.makes_blank() {
            return false;
        }
        self.zeroing.note_change();
        let (first, blocks) = self.zeroing.run(member);
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

    /// Sets the next checksums of the rows that a member is zeroing, whose pages are pinned.
    fn set_checksums_of_run(&mut self, member: MemberIndex, holder: u32) {
        let Some(pages) = &mut self.pages else {
            return;
        };
        if self.members.missing().contains(member) {
            return;
        }
        let (first, blocks) = self.zeroing.next_checksums(usize::from(member.0));
        let (buffer, of) = (&mut self.metadata_buffer, (holder, 0, first));
        if !self.zeroing.makes_blank() {
            // Every block may be parity, so its entry needs a row sum.
            let data_chunks = self.zeroing.data_chunks();
            let of_zeros = pages.of_zeros();
            let row_sum = RowSum::of_zeros(data_chunks, stored_checksum(of_zeros));
            let entry = Entry::of(of_zeros, row_sum);
            pages.set_run(buffer, of, blocks, |_| entry);
            return self.zeroing.note_change();
        }
        for block in (first.0..).map(BlockIndex).take(index(blocks)) {
            // Old checksums must be gone before the region counts as written. The marks of blank
            // rows may become durable later: until then the region counts as begun.
            let kept = pages.kept_at(buffer, of, block);
            if ![CHECKSUM_NONE, CHECKSUM_BLANK].contains(&kept) {
                self.zeroing.note_change();
            }
            pages.set_at(buffer, of, block, Entry::BLANK);
        }
    }

    /// Handles the result of zeroing rows of a member.
    pub(crate) fn zeroed(&mut self, member: MemberIndex, result: MemberResult) {
        self.system_io_failed(member, result);
        let goes_on = !self.members.missing().contains(member) && !self.metadata.is_broken();
        if !goes_on || !self.zero_on(member) {
            self.step_zeroing(Input::MemberDone);
        }
    }

    /// Holds the zeroed regions if something must be durable before they count as written. Returns
    /// false if they may count as written now.
    fn holds_zeroed(&mut self) -> bool {
        let broken = self.metadata.is_broken();
        let released = self.zeroing.prepared_any_of(self.regions.released());
        if released && !broken && self.restart_log() {
            // Records from before the region was released must never be replayed over the new
            // contents.
            self.zeroing.hold();
            return true;
        }
        // A member that is out did not get the zeros: record that before the region is written.
        if self.metadata.may_count_on(self.members.missing()) && !self.metadata.is_broken() {
            self.zeroing.hold();
            self.want_update(); // A failed array gets no update: nothing is written then.
            return true;
        }
        // An opening resyncs begun regions only if the array is not clean: that must be durable
        // first.
        let holds = self.makes_rows_blank() && !self.may_commit();
        if holds {
            self.zeroing.hold();
        }
        holds
    }

    /// Marks the zeroed regions as written. Stripe ranges that wait continue when that is durable.
    fn regions_ready(&mut self) {
        while let Some(region) = self.zeroing.take_ready() {
            if !self.metadata.is_broken() {
                self.regions.becomes_written(region);
                self.replace.first_written(region);
            }
        }
        self.regions.note_all_written();
        self.write_bitmaps();
        if self.metadata.is_broken() {
            self.waits.wake(WaitFor::Region);
        }
    }
}

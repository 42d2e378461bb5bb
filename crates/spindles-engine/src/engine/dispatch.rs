//! Hands results of the engine's own I/O to the machines that wait for them, and carries out what
//! they ask for. Only the entry points (`mod.rs`) call it.

use super::system_io::page_io;
use crate::{
    Engine, JOURNAL_DEVICE, REPLACEMENT, RangeId, SLOT_BITS,
    agenda::Due,
    checksums::pages::{Flush, Pinned},
    durable::{AFTER_STOP, Row, Waiter},
    jobs::{grow::Input as GrowInput, rebuild::Input as RebuildInput, replace::Input},
    log::replay::Input as ReplayInput,
    output::OutReason,
    staging::Staging,
    system_io::Purpose,
    waits::WaitFor,
    zeroing::Input as ZeroingInput,
};
use spindles_block::{MemberIndex, MemberIoId, MemberResult};
use spindles_format::AreaKind;

impl Engine {
    /// Handles the result of an I/O of the engine itself.
    #[cold]
    pub(crate) fn system_io_done(&mut self, id: MemberIoId, result: MemberResult) {
        if let Some(frame) = page_io(id) {
            if id.0 & REPLACEMENT != 0 {
                self.replacement_failed(result);
                return self.page_io_done(frame, Ok(()));
            }
            return self.page_io_done(frame, result);
        }
        let (purpose, member) = Purpose::of(id);
        if let Some(read) = self.metadata_buffer.read_of(purpose, member) {
            read.take_if(|read| read.id == id);
        }
        let result = if member == self.replacement() {
            self.replacement_failed(result);
            Ok(())
        } else {
            result
        };
        match purpose {
            Purpose::Superblock => self.superblock_written(member, result),
            Purpose::BitmapRead | Purpose::BadBlocksRead => self.area_read(member, result),
            Purpose::DirtyBitmap => self.area_written(AreaKind::DIRTY_BITMAP, member, result),
            Purpose::WrittenBitmap => self.area_written(AreaKind::WRITTEN_BITMAP, member, result),
            Purpose::BadBlocks => self.area_written(AreaKind::BAD_BLOCKS, member, result),
            Purpose::Zeroing => self.zeroed(member, result),
            Purpose::JournalStamp => self.log_stamped(result),
            Purpose::JournalBatch | Purpose::JournalCommit => self.batch_io_done(member, result),
            Purpose::JournalScan => self.journal_read(member, result),
            Purpose::GrowChecksums => self.staged_checksums_done(member, result),
            Purpose::Inspection => self.inspected(member, result),
            Purpose::InspectionRepair => self.stamp_repaired(result),
            Purpose::StageDescriptor => self.stage_described(member, result),
            Purpose::StageBatch => self.column_written(member, result),
            Purpose::StageRead | Purpose::StageRepair => self.load_io_done(member, result),
            Purpose::StageTail => {
                if let Some(is_whole) = self.tail_written(member, result) {
                    self.load_tail_written(is_whole);
                }
            }
            flush => self.flush_ended(flush, member, result),
        }
    }

    /// Handles the end of a counted flush.
    fn flush_ended(&mut self, purpose: Purpose, member: MemberIndex, result: MemberResult) {
        match (purpose, result) {
            (_, result) if member == JOURNAL_DEVICE => self.log_failed(member, result),
            (Purpose::RebuildFlush, Err(error)) => {
                self.put_out(member, OutReason::Error(error));
            }
            (_, result) => self.system_io_failed(member, result),
        }
        if self.own_flushes.ended(purpose) {
            self.flushed(purpose, member);
        }
    }

    /// Continues the work that waits for the flushes with a purpose. `member` answered last.
    fn flushed(&mut self, purpose: Purpose, member: MemberIndex) {
        match purpose {
            Purpose::OpeningFlush => self.opening_goes_on(),
            Purpose::ClosingFlush => self.mark_closed(),
            Purpose::ZeroingFlush => self.step_zeroing(ZeroingInput::Flushed),
            Purpose::SweepFlush => self.sweep_flushed(),
            Purpose::RebuildFlush => self.step_rebuild(RebuildInput::Flushed),
            Purpose::JournalStart => self.log_start_flushed(),
            Purpose::JournalRelease => self.log_release_flushed(),
            Purpose::ReplayFlush => self.step_replay(ReplayInput::Flushed),
            Purpose::ReplaceFlush => self.replace_flushed(member),
            Purpose::StagedFlush | Purpose::MovedFlush => self.step_growth(GrowInput::Flushed),
            Purpose::OutFlush => self.begin_update(),
            Purpose::ScrubFlush => self.inspection.flushed(),
            Purpose::StageFlush => self.staging().pass_flushed(),
            Purpose::StageRelease => self.staging().release_flushed(),
            purpose => panic!("{purpose:?} is no counted flush"),
        }
    }

    /// Continues the work that waits for a write of an area. Later changes are not durable yet.
    fn continue_after(&mut self, area: AreaKind) {
        let row = Row::of(area);
        self.wake_all(row.next);
        if self.blocks_of(area).are_stored() || self.metadata.is_broken() {
            self.wake_all(row.wakes);
        }
    }

    /// Carries out work that is due.
    pub(super) fn carry_out(&mut self, due: Due) {
        match due {
            Due::Stopped => self.wake_all(AFTER_STOP),
            Due::Update => self.begin_update(),
            Due::Recorded => self.continue_after(AreaKind::SUPERBLOCK),
            Due::Found => self.opening_goes_on(),
            Due::Serve => self.try_to_serve(),
            Due::Zeroing => self.step_zeroing(ZeroingInput::Durable),
            Due::Extend => self.extend(),
            Due::Releases => self.pump_releases(),
            Due::Moved => self.own_request_done(),
            Due::Jobs => self.jobs_moved(),
        }
    }

    /// Continues work, in this order.
    fn wake_all(&mut self, waiters: &[Waiter]) {
        for &waiter in waiters {
            match waiter {
                Waiter::Due(due) => self.carry_out(due),
                Waiter::Bitmaps => self.write_bitmaps(),
                Waiter::List => self.write_area(AreaKind::BAD_BLOCKS),
                Waiter::OtherSlot if !self.metadata.needs_other_slot() => {}
                Waiter::OtherSlot => self.want_update(),
                Waiter::OnUpdate => self.waits.wake(WaitFor::Superblocks),
                Waiter::OnRegion => self.waits.wake(WaitFor::Region),
                Waiter::OnList => self.waits.wake(WaitFor::BadBlocks),
                Waiter::OnAny => self.waits.wake_all(),
                Waiter::Logging => self.log_abandons(),
                Waiter::BadOut => self.bad_blocks_are_out(),
                Waiter::Journal => self.log_recorded(),
                Waiter::Replay => self.step_replay(ReplayInput::Recorded),
                Waiter::Listed => self.step_replay(ReplayInput::Listed),
                Waiter::Replace => self.step_replace(Input::Recorded),
                Waiter::Growth => self.step_growth(GrowInput::Recorded),
                Waiter::Extension => self.extension_recorded(),
                Waiter::Rebuilt if self.metadata.is_broken() => {}
                Waiter::Rebuilt => self.announce_rebuilt(),
            }
        }
    }

    /// Handles the result of a write of an area.
    fn area_written(&mut self, area: AreaKind, member: MemberIndex, result: MemberResult) {
        self.system_io_failed(member, result);
        let Some(blocks) = self.blocks_of_mut(area).ended() else {
            return;
        };
        let stopped = self.metadata.is_broken();
        if area != AreaKind::BAD_BLOCKS {
            self.regions.bitmap_mut(area).end_write(blocks, stopped);
        }
        self.continue_after(area);
    }

    /// Handles the result of a superblock write.
    fn superblock_written(&mut self, member: MemberIndex, result: MemberResult) {
        self.metadata.slot_mut().ended();
        if self.replace.is_telling() {
            return self.replacement_told(result);
        }
        self.system_io_failed(member, result);
        self.update_written();
    }

    /// Handles the result of a stripe range's write to the replacement device.
    #[cold]
    pub(crate) fn written_to_replacement(&mut self, id: MemberIoId, result: MemberResult) {
        self.replacement_failed(result);
        let id = RangeId((id.0 & !REPLACEMENT) >> SLOT_BITS);
        let range = &mut self.ranges[id];
        assert!(range.pending > 0, "a member I/O came back twice");
        range.pending -= 1;
        if range.pending == 0 {
            let next = self.range_ios_done(id);
            self.go_on(id, next);
        }
    }

    /// Handles the result of a write of the stamp. If the device failed, the members log.
    fn log_stamped(&mut self, result: MemberResult) {
        self.log_failed(JOURNAL_DEVICE, result);
        self.stamp_next();
    }

    /// Handles the result of a read or write of a page.
    fn page_io_done(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        if pages.room_of_load(at).is_some() {
            return self.page_loaded(at, result);
        }
        let member = pages.written(at);
        self.system_io_failed(member, result);
        self.flush_deferred();
    }

    fn page_loaded(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        let is_read = result.is_ok();
        let (member, mut waiting) = pages.loaded(at, is_read, &mut self.metadata_buffer);
        if let Err(error @ spindles_block::MemberError::Gone) = result {
            self.put_out(member, OutReason::Error(error));
        }
        while let Some(holder) = waiting {
            let pages = self.pages.as_mut().expect("there are pages");
            let (has_all, next) = pages.stops_waiting(holder);
            if has_all {
                self.pages_pinned(holder);
            }
            waiting = next;
        }
    }

    /// Continues a holder whose awaited pages are all pinned.
    fn pages_pinned(&mut self, holder: u32) {
        match holder.checked_sub(self.ranges.count()) {
            None => self.waits.is_ready(RangeId(holder)),
            Some(member) => {
                self.zero_run_on(MemberIndex(u8::try_from(member).expect("at most 64")));
            }
        }
    }

    /// Gives free room to the holders that wait for it. Returns true if a holder got all of its
    /// pages.
    #[cold]
    pub(crate) fn pump_waiting_for_pages(&mut self) -> bool {
        let mut any = false;
        while let Some(pages) = &mut self.pages
            && let Some(holder) = pages.next_waiting()
        {
            let held = self.try_to_pin(holder, true);
            if held == Pinned::NoRoom {
                break;
            }
            let pages = self.pages.as_mut().expect("looked at");
            pages.got_room();
            if held == Pinned::All {
                self.pages_pinned(holder);
                any = true;
            }
        }
        any
    }

    /// Sends the flushes whose pages are written now.
    pub(crate) fn flush_deferred(&mut self) {
        while let Some(pages) = &mut self.pages
            && let Some(flush) = pages.next_flush()
        {
            match flush {
                Flush::System(purpose, members) => self.send_flush(members, purpose),
                Flush::StripeRange(id) => self.send_flush_of_range(id),
            }
        }
    }

    fn replace_flushed(&mut self, member: MemberIndex) {
        self.step_replace(if member == self.replacement() {
            Input::DeviceFlushed
        } else {
            Input::MembersFlushed
        });
    }

    /// Continues everything of the stage that can continue. Returns true if anything did.
    pub(crate) fn pump_stage(&mut self) -> bool {
        if self.staging.is_none()
            || !self.opening.is_serving()
                && !self.staging.as_ref().is_some_and(Staging::is_draining)
        {
            return false;
        }
        if self.settings.read_only {
            return false; // What is staged stays staged.
        }
        if self.writes_nothing() {
            return self.abandon_staged();
        }
        if self.leaves_staged() {
            return self.append_stage();
        }
        self.live_stage()
            || self.append_stage()
            || self.release_staged()
            || self.place_staged()
            || self.commit_staged()
    }
}

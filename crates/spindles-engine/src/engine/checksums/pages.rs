//! Loads pages of checksums for stripe ranges, writes them to the members, and defers flushes until
//! changed pages are written.

use crate::{
    Engine, Mutation, PAGE_IO, REPLACEMENT, RangeId, SYSTEM_IO,
    checksums::{
        Pages,
        pages::{Flush, Pinned},
    },
    index,
    output::{OutReason, Output},
    stripe::{RowState, Stage},
    system_io::{Place, Purpose},
};
use spindles_block::{MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation};

impl Engine {
    /// Pins all pages that a holder needs. Returns false if the holder must wait. It continues when
    /// all pages are pinned, except pages of members that went missing.
    #[inline(never)]
    pub(crate) fn pin_pages_for(&mut self, holder: u32) -> bool {
        match self.try_to_pin(holder, false) {
            Pinned::All => true,
            Pinned::Loading => false,
            Pinned::NoRoom => {
                let pages = self.pages.as_mut().expect("the caller looked");
                pages.wait_for_room(holder);
                false
            }
        }
    }

    fn try_to_pin(&mut self, holder: u32, in_line: bool) -> Pinned {
        self.want_pages(holder);
        let pages = self.pages.as_mut().expect("the caller looked");
        let held = pages.hold(holder, in_line);
        if held == Pinned::Loading {
            self.load_pages();
        }
        held
    }

    /// Reads the pages that `hold` has found missing.
    #[cold]
    fn load_pages(&mut self) {
        for number in 0.. {
            let pages = self.pages.as_ref().expect("the caller looked");
            let Some(at) = pages.load_at(number) else {
                return;
            };
            self.page_io(at, Operation::Read);
        }
    }

    /// Notes which pages a holder needs.
    fn want_pages(&mut self, holder: u32) {
        let pages = self.pages.as_mut().expect("the caller looked");
        pages.want_nothing();
        if let Some(member) = holder.checked_sub(self.ranges.count()) {
            let (first, blocks) = self.zeroing.next_checksums(index(member));
            let member = MemberIndex(u8::try_from(member).expect("at most 64"));
            return pages.want(0, member, first, blocks);
        }
        let range = &self.ranges[RangeId(holder)];
        if matches!(range.stage(), Stage::Direct | Stage::DirectPaging) {
            return pages.want(0, range.direct.member, range.direct.offset, range.blocks);
        }
        let slots = self.ranges.group(RangeId(holder)).slots();
        let needed = match range.rows.state {
            RowState::Looking => range.shape.all(),
            _ => range.plan.reads.or(range.plan.writes),
        };
        for slot in needed.iter() {
            let place = &slots[usize::from(slot)];
            if !self.members.missing().contains(place.member) {
                let first = place.offset.plus(u64::from(range.low));
                pages.want(slot, place.member, first, range.blocks);
            }
        }
    }

    fn page_io(&mut self, at: u32, operation: Operation) {
        let pages = self.pages.as_ref().expect("there are pages");
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | at),
            member: pages.member_of(at),
            operation,
            block: pages.block_of(at),
            blocks: pages.page_blocks(),
            buffer: pages.slice_of(at, &self.metadata_buffer),
        };
        self.outbox.put(Output::Member(io));
    }

    /// Writes a page also to the device that is to replace its member, if there is one.
    fn page_to_replacement(&mut self, at: u32, member: MemberIndex) {
        let Some(&device) = self.hidden_replacement(member) else {
            return;
        };
        let replacement = self.replacement();
        let pages = self.pages.as_mut().expect("there are pages");
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | REPLACEMENT | at),
            member: replacement,
            operation: Operation::Write { fua: false },
            block: pages.writes_to(at, &device),
            blocks: pages.page_blocks(),
            buffer: pages.slice_of(at, &self.metadata_buffer),
        };
        self.outbox.put(Output::Member(io));
    }

    /// Returns where to put the page that a read brings. `None` if the frame is not loading.
    pub(crate) fn page_read(&self, at: u32) -> Option<(Place, u32, u32)> {
        self.pages.as_ref()?.room_of_load(at)
    }

    /// Handles the result of a read or write of a page.
    pub(crate) fn page_io_done(&mut self, at: u32, result: MemberResult) {
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

    /// Writes the pages that are due, as the last step of an input: a page must not change before
    /// the driver has taken its write.
    #[cold]
    pub(crate) fn write_pages(&mut self) {
        let generation = self.metadata.generation();
        let missing = self.members.missing();
        while let Some(pages) = &mut self.pages
            && let Some(at) = pages.next_write(generation, missing, &mut self.metadata_buffer)
        {
            let member = pages.member_of(at);
            self.page_io(at, Operation::Write { fua: false });
            self.page_to_replacement(at, member);
        }
        if self.pages.as_ref().is_some_and(Pages::waits_for_write) {
            return;
        }
        self.flush_deferred();
    }

    /// Defers a flush until the pages that changed before are written. Returns false if the flush
    /// need not wait for pages.
    pub(crate) fn defers_flush(&mut self, members: MemberSet, purpose: Purpose) -> bool {
        let careless = purpose == Purpose::JournalRelease
            && self.mutated(Mutation::ReuseJournalWithoutChecksums);
        let Some(pages) = &mut self.pages else {
            return false;
        };
        purpose.needs_pages() && !careless && pages.defer(Flush::System(purpose, members))
    }

    /// Like `defers_flush`, for the flush of a stripe range: written blocks are durable only with
    /// their checksums.
    pub(crate) fn defers_flush_of_range(&mut self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let careless = self.mutated(Mutation::SkipPagesOfDurable)
            && !range.rows.settling.is_under_way()
            || self.mutated(Mutation::SkipPagesOfFlush) && range.blocks == 0;
        let Some(pages) = &mut self.pages else {
            return false;
        };
        !careless && pages.defer(Flush::StripeRange(id))
    }

    /// Sends the flushes whose pages are written now.
    fn flush_deferred(&mut self) {
        while let Some(pages) = &mut self.pages
            && let Some(flush) = pages.next_flush()
        {
            match flush {
                Flush::System(purpose, members) => self.send_flush(members, purpose),
                Flush::StripeRange(id) => self.send_flush_of_range(id),
            }
        }
    }
}

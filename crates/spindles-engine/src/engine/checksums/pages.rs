//! Loads pages of checksums for stripe ranges, writes them to the members, and defers flushes until
//! changed pages are written.

use crate::{
    Engine, Mutation, PAGE_IO, REPLACEMENT, RangeId, SYSTEM_IO,
    checksums::pages::{Deferred, Flush, NONE, Pinned, State, WRITES_MAX, start},
    index,
    output::{OutReason, Output},
    stripe::{RowState, Stage},
    system_io::{Place, Purpose},
};
use spindles_block::{MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation};
use spindles_format::{PageParts, open_checksums, seal_checksums};

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
                pages.waiting.push_back(holder);
                // Dirty pages may be in the way: have them written.
                pages.room = true;
                false
            }
        }
    }

    fn try_to_pin(&mut self, holder: u32, in_line: bool) -> Pinned {
        self.want_pages(holder);
        let pages = self.pages.as_mut().expect("the caller looked");
        let held = pages.hold(holder, in_line);
        for load in 0..pages.loads.len() {
            self.load_page(load);
        }
        held
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

    fn load_page(&mut self, load: usize) {
        let pages = self.pages.as_ref().expect("the caller looked");
        self.page_io(pages.loads[load], Operation::Read);
    }

    fn page_io(&mut self, at: u32, operation: Operation) {
        let pages = self.pages.as_ref().expect("there are pages");
        let frame = &pages.frames[index(at)];
        let start = pages.starts[usize::from(frame.member.0)];
        let page = frame.page * u64::from(pages.page_blocks);
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | at),
            member: frame.member,
            operation,
            block: start.plus(page),
            blocks: pages.page_blocks,
            buffer: (self.metadata_buffer).slice_at(pages.place, pages.start_of(at)),
        };
        self.outbox.put(Output::Member(io));
    }

    /// Writes a page also to the device that is to replace its member, if there is one.
    fn page_to_replacement(&mut self, at: u32, member: MemberIndex) {
        let Some(device) = self.hidden_replacement(member) else {
            return;
        };
        let first = start(Some(device));
        let replacement = self.replacement();
        let pages = self.pages.as_mut().expect("there are pages");
        let frame = &mut pages.frames[index(at)];
        frame.flying += 1;
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | REPLACEMENT | at),
            member: replacement,
            operation: Operation::Write { fua: false },
            block: first.plus(frame.page * u64::from(pages.page_blocks)),
            blocks: pages.page_blocks,
            buffer: (self.metadata_buffer).slice_at(pages.place, pages.start_of(at)),
        };
        self.outbox.put(Output::Member(io));
    }

    /// Returns where to put the page that a read brings. `None` if the frame is not loading.
    pub(crate) fn page_read(&self, at: u32) -> Option<(Place, u32, u32)> {
        let pages = self.pages.as_ref()?;
        let loading = pages.frames[index(at)].state == State::Loading;
        loading.then(|| (pages.place, pages.start_of(at), pages.page_blocks))
    }

    /// Handles the result of a read or write of a page.
    pub(crate) fn page_io_done(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        let frame = &mut pages.frames[index(at)];
        if frame.state == State::Loading {
            return self.page_loaded(at, result);
        }
        let member = frame.member;
        frame.flying -= 1;
        if frame.flying == 0 {
            pages.write_ended(at);
        }
        self.system_io_failed(member, result);
        self.flush_deferred();
    }

    fn page_loaded(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        let start = pages.start_of(at);
        let page = (self.metadata_buffer).bytes_at_mut(pages.place, start, pages.page_blocks);
        let frame = &mut pages.frames[index(at)];
        frame.state = State::Good;
        if result.is_ok() {
            frame.changed = open_checksums(pages.entries, pages.array, frame.page, page);
        } else {
            pages.entries.lose(page);
            frame.changed = PageParts::ALL;
        }
        let member = frame.member;
        let mut holder = core::mem::replace(&mut frame.waiter, NONE);
        if let Err(error @ spindles_block::MemberError::Gone) = result {
            self.put_out(member, OutReason::Error(error));
        }
        while holder != NONE {
            let pages = self.pages.as_mut().expect("there are pages");
            let next = core::mem::replace(&mut pages.holders[index(holder)].next, NONE);
            if !pages.wait_for_next(holder) {
                self.pages_pinned(holder);
            }
            holder = next;
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
            && core::mem::take(&mut pages.room)
            && let Some(&holder) = pages.waiting.front()
        {
            let held = self.try_to_pin(holder, true);
            if held == Pinned::NoRoom {
                break;
            }
            let pages = self.pages.as_mut().expect("looked at");
            pages.waiting.pop_front();
            pages.room = true;
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
        while let Some(pages) = &mut self.pages
            && pages.written.len() < WRITES_MAX
            && pages.wants_writes()
            && let Some(&at) = pages.dirty.front()
        {
            let start = pages.start_of(at);
            let frame = &pages.frames[index(at)];
            if frame.writing > 0 {
                return; // One write of a page at a time.
            }
            assert!(
                !self.members.missing().contains(frame.member),
                "it was given up"
            );
            pages.dirty.pop_front();
            pages.write_begins(at);
            let frame = &mut pages.frames[index(at)];
            let member = frame.member;
            let changed = core::mem::replace(&mut frame.changed, PageParts::NONE);
            let page = (self.metadata_buffer).bytes_at_mut(pages.place, start, pages.page_blocks);
            seal_checksums(pages.array, frame.page, generation, page, changed);
            self.page_io(at, Operation::Write { fua: false });
            self.page_to_replacement(at, member);
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
        if !purpose.needs_pages() || pages.oldest_change() == u64::MAX || careless {
            return false;
        }
        pages.deferred.push_back(Deferred {
            flush: Flush::System(purpose, members),
            changes: pages.changes,
        });
        true
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
        if careless || pages.oldest_change() == u64::MAX {
            return false;
        }
        pages.deferred.push_back(Deferred {
            flush: Flush::StripeRange(id),
            changes: pages.changes,
        });
        true
    }

    /// Sends the flushes whose pages are written now.
    fn flush_deferred(&mut self) {
        while let Some(pages) = &mut self.pages
            && pages.has_flush_to_send()
            && let Some(first) = pages.deferred.pop_front()
        {
            match first.flush {
                Flush::System(purpose, members) => self.send_flush(members, purpose),
                Flush::StripeRange(id) => self.send_flush_of_range(id),
            }
        }
    }
}

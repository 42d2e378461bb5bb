//! Loads pages of checksums for stripe ranges, writes them to the members, and defers flushes until
//! changed pages are written.

use crate::{
    Engine, Mutation, PAGE_IO, REPLACEMENT, RangeId, SYSTEM_IO,
    checksums::pages::{Flush, Pinned},
    index,
    output::Output,
    stripe::{RowState, Stage},
    system_io::Place,
};
use spindles_block::{MemberIndex, MemberIo, MemberIoId, Operation};

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

    pub(crate) fn try_to_pin(&mut self, holder: u32, in_line: bool) -> Pinned {
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
}

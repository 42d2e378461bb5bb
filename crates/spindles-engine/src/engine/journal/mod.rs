//! The journal: closes the write hole on the members themselves. The new blocks of a write, and
//! parity, are durable in the journals of their members before the first of them goes to its place.
//! Stripe ranges that come together form one *batch*, with one header and one flush for each member
//! (`docs/reference/format.md`).
//!
//! ```text
//!  stripe range:  commit ──▶ waiting ──▶ appending ──▶ flushing ──▶ in place ──▶ acknowledged
//!  segment:    free ──▶ in use ──all in place──▶ flushing ──▶ recording the tail ──▶ free
//! ```
//!
//! A batch has the same place on all members, in one of two segments. A segment is filled again
//! only when everything that its batches wrote was flushed in place, and a tail that excludes them
//! is durable in the superblocks. Work that does not change the contents of the array (settling,
//! repairing) is not logged: replaying an older batch over it gives the same bytes.

mod lost;
mod relog;
mod replay;
mod stamp;

use crate::{
    Engine, Mutation, RangeId, SLOT_BITS, index,
    journal::{Batch, JOURNAL_DEVICE, Load, Segment, SegmentState, State, stamp::Stamp},
    output::{Event, OutReason, Output},
    plan::Ask,
    ranges::{Owner, Phase, StripeRange},
    status::JournalStatus,
    system_io::Purpose,
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{DeviceRecord, JournalBatch, JournalEntry, JournalKind, JournalWriter, Uuid};
use spindles_layout::GroupIndex;

impl Engine {
    /// Returns true if a write must wait before it goes to its place, because it is not known yet
    /// whether writes are logged.
    pub(crate) fn journal_undecided(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            matches!(
                journal.state,
                State::Draining | State::Flushing | State::Recording
            )
        })
    }

    /// Returns true if writes are logged before they go to their places.
    pub(crate) fn journals(&self) -> bool {
        self.journal
            .as_ref()
            .is_some_and(|journal| journal.state == State::On)
            && !self.mutated(Mutation::SkipJournal)
    }

    /// Logs a stripe range. It continues with `commit` when its new blocks are durable in the
    /// journal.
    pub(crate) fn log(&mut self, id: RangeId) {
        let replays = self.ranges[id].owner == Owner::Replay;
        if self.writes_nothing() || replays && self.mutated(Mutation::PlaceInferred) {
            self.ranges[id].move_to(Phase::Committing);
            self.ready.push_back(id);
            return;
        }
        self.ranges[id].move_to(Phase::Logging);
        let journal = self.journal.as_mut().expect("there is a journal");
        journal.waiting.push_back(id);
        self.wants_batch = true;
    }

    /// Returns true if the log may hold something of a group that a replay would carry out.
    pub(crate) fn logged_lately(&self, group: GroupIndex) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.live.may_hold(group))
    }

    /// Notes that a stripe range begins to write to its places.
    pub(crate) fn writing_begins(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        if let Some(journal) = &mut self.journal
            && range.log.segment.is_none()
        {
            journal.unlogged += 1;
            range.log.bypassed = true;
        }
    }

    /// Notes that a stripe range has written everything to its places.
    pub(crate) fn writing_ended(&mut self, id: RangeId) {
        let on_device = self.journals_on_device();
        let range = &mut self.ranges[id];
        let logged = range.log.segment.is_some() && !on_device;
        let writes = range.ask == Ask::Write;
        let was_unlogged = core::mem::take(&mut range.log.bypassed);
        let (group, parity) = (range.group, !range.shape.copies);
        let write = if writes && !logged {
            self.flushes.write_ended()
        } else {
            0
        };
        let Some(journal) = &mut self.journal else {
            return;
        };
        if was_unlogged {
            if writes && parity {
                journal.live.unlogged(group, write);
            }
            journal.unlogged -= 1;
            if journal.unlogged == 0 {
                self.journal_drained();
                self.begin_update();
            }
        }
    }

    /// Returns true if writes are under way that are not logged.
    pub(crate) fn writes_unlogged(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.unlogged > 0)
    }

    /// Returns true if a stripe range wrote durably, by the log, while the rest of its rows may be
    /// only in the members' caches. If that rest and a member were lost, the logged parity would be
    /// worthless.
    pub(crate) fn rests_on_caches(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let Some(journal) = &self.journal else {
            return false;
        };
        range.log.segment.is_some()
            && !self
                .flushes
                .is_durable(journal.live.last_unlogged(range.group))
            && self.write_kind(id).0
    }

    /// Notes that the writes of a stripe range have ended.
    pub(crate) fn log_done(&mut self, id: RangeId) {
        let segment = self.ranges[id].log.segment.take();
        if self.journal.is_none() {
            return;
        }
        if let Some(segment) = segment {
            let survives = self.geometry.survives(self.missing);
            if !survives || self.ranges[id].error.is_some() {
                self.leave_to_opening(id);
            }
            if let Some(journal) = self.journal.as_mut().filter(|_| survives) {
                // If the array has failed, blocks may be missing in place: their log stays.
                journal.segments[usize::from(segment)].unfinished -= 1;
            }
        }
        self.journal_drained();
        self.release_segment();
    }

    /// Returns true if writes may be logged. Without checksums only the log shows after a crash
    /// which rows are settled, so that all rows must be settled before logging begins.
    pub(crate) fn may_log(&self) -> bool {
        self.all_settled || self.has_checksums()
    }

    /// Begins to log writes, if they are not logged yet and the array is dirty.
    pub(crate) fn journal_from_now_on(&mut self) {
        if let Some(journal) = &mut self.journal
            && journal.state == State::Off
            && self.metadata.is_dirty()
        {
            journal.state = State::Draining;
            self.journal_drained();
        }
    }

    /// Wakes the stripe ranges that wait to be logged: nothing can be written from now on.
    pub(crate) fn journal_abandons(&mut self) {
        while let Some(id) = self.journal.as_mut().and_then(|j| j.waiting.pop_front()) {
            self.ranges[id].move_to(Phase::Committing);
            self.ready.push_back(id);
        }
        self.zeroing_goes_on();
    }

    /// Begins a new log, because a device takes a position: old records must never be replayed onto
    /// it. Nothing is under way now, and nothing begins until the old records are void.
    pub(crate) fn journal_restarts_on(&mut self, member: MemberIndex, device: &DeviceRecord) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        journal.placement.moves(member, device, self.block_size);
        self.journal_restarts();
    }

    /// Voids the log so far. Returns true if that takes time: `zeroing_goes_on` is called at the
    /// end.
    pub(crate) fn journal_restarts(&mut self) -> bool {
        let goes_on = self.geometry.survives(self.missing);
        let Some(journal) = &mut self.journal else {
            return false;
        };
        if journal.state == State::On {
            journal.state = State::Draining;
            self.journal_drained();
        } else if journal.state == State::Off {
            return false;
        }
        goes_on
    }

    /// Begins a new log with the next update of the superblocks. Nothing is under way, and all
    /// logged blocks are durable in place.
    pub(crate) fn journal_is_void(&mut self) {
        let generation = self.metadata.generation();
        if let Some(journal) = &mut self.journal
            && journal.state == State::On
        {
            journal.begin(generation + 1);
        }
    }

    /// Notes that another device is the member.
    pub(crate) fn journal_moves(&mut self, member: MemberIndex, device: &DeviceRecord) {
        if let Some(journal) = &mut self.journal {
            journal.placement.moves(member, device, self.block_size);
        }
    }

    /// Begins the flush before a new log, when no earlier write is under way. An array that lost
    /// too much begins none.
    fn journal_drained(&mut self) {
        let ready = self.journal.as_ref().is_some_and(|journal| {
            let in_place = journal.segments.iter().all(|segment| {
                let settled = matches!(segment.state, SegmentState::Free | SegmentState::InUse);
                segment.unfinished == 0 && settled
            });
            journal.state == State::Draining && journal.unlogged == 0 && in_place
        });
        if ready && !self.geometry.survives(self.missing) {
            self.journal_abandons();
        } else if ready {
            self.flush_active(Purpose::JournalStart);
            let journal = self.journal.as_mut().expect("looked at");
            journal.state = State::Flushing;
        }
    }

    pub(crate) fn journal_start_flushed(&mut self) {
        let generation = self.metadata.generation();
        let journal = self.journal.as_mut().expect("it flushed");
        assert_eq!(journal.state, State::Flushing, "a flush came back late");
        journal.begin(generation + 1);
        self.want_update();
    }

    /// Begins to free the segment that is not being filled, when no stripe range needs it. An array
    /// that lost too much keeps its log, which may be needed when members are back.
    fn release_segment(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let other = 1 - journal.current;
        let segment = &journal.segments[other];
        if journal.state != State::On {
            return; // The whole log is void, or will be.
        }
        if segment.state != SegmentState::InUse || segment.unfinished > 0 {
            return;
        }
        if !self.geometry.survives(self.missing) {
            return;
        }
        self.flush_active(Purpose::JournalRelease);
        let journal = self.journal.as_mut().expect("looked at");
        journal.segments[other].state = SegmentState::Flushing;
    }

    pub(crate) fn journal_release_flushed(&mut self) {
        let journal = self.journal.as_mut().expect("it flushed");
        let segment = &mut journal.segments[1 - journal.current];
        assert_eq!(
            segment.state,
            SegmentState::Flushing,
            "a flush came back late"
        );
        segment.state = SegmentState::Recording;
        journal.record.tail = journal.segments[journal.current].first;
        self.want_update();
    }

    /// Continues when the journal's part of the superblocks is durable.
    pub(crate) fn journal_recorded(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let restarted = journal.state == State::Recording;
        if restarted {
            journal.state = State::On;
        }
        let other = 1 - journal.current;
        if journal.segments[other].state == SegmentState::Recording {
            journal.segments[other].state = SegmentState::Free;
            journal.live.clear(other);
        }
        self.wants_batch = true;
        if restarted {
            self.regions.forget_released();
            self.zeroing_goes_on();
        }
        self.journal_drained();
    }

    /// Returns true if the journal has no I/O of its own under way.
    pub(crate) fn journal_is_idle(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| {
            let flushing = |segment: &Segment| segment.state == SegmentState::Flushing;
            journal.batch.is_none()
                && !matches!(journal.stamp, Stamp::UnderWay { .. })
                && !journal.segments.iter().any(flushing)
                && journal.state != State::Flushing
        })
    }

    /// Forms a batch of the stripe ranges that wait, as many as fit. Does nothing while a batch is
    /// under way, or another stripe range is about to join.
    pub(crate) fn begin_batch(&mut self) {
        self.wants_batch = false;
        let Some(journal) = &self.journal else {
            return;
        };
        if journal.batch.is_some() || journal.waiting.is_empty() || journal.state != State::On {
            return;
        }
        if self.others_join() {
            self.wants_batch = true; // After the next input.
            return;
        }
        if self.choose_batch() == 0 {
            // Nothing fits in the rest of this segment.
            let journal = self.journal.as_mut().expect("looked at");
            let other = 1 - journal.current;
            if journal.segments[other].state != SegmentState::Free {
                return; // The segment is being freed.
            }
            journal.current = other;
            journal.used = 0;
            journal.segments[other] = Segment {
                first: journal.sequence,
                unfinished: 0,
                state: SegmentState::InUse,
            };
            self.release_segment();
            let chosen = self.choose_batch();
            assert!(chosen > 0, "a range fits in a segment");
        }
        self.append_batch();
    }

    /// Returns true if another stripe range is about to wait for the log too, so that the batch
    /// should wait for it:
    ///
    /// - a write is being computed, or
    /// - all that wait belong to requests that still read for another part. Such a request is not
    ///   answered before that part is logged.
    fn others_join(&self) -> bool {
        let journal = self.journal.as_ref().expect("the caller looked");
        let in_use = index(self.client_ranges()) - self.free_ranges.len();
        if in_use == journal.waiting.len() + index(self.answered) {
            return false; // All others wait too, or were logged before.
        }
        let of_write = |range: &&StripeRange| {
            range.ask == Ask::Write && range.log.segment.is_none() && !range.shape.copies
        };
        let computes = |range: &StripeRange| matches!(range.phase(), Phase::Computing(_));
        if self.ranges.iter().filter(of_write).any(computes) {
            return true;
        }
        let reads_more = |id: &RangeId| {
            let owner = self.ranges[*id].owner;
            let reads =
                |range: &StripeRange| range.phase() == Phase::Reading && range.owner == owner;
            self.ranges.iter().filter(of_write).any(reads)
        };
        journal.waiting.iter().all(reads_more)
    }

    /// Returns true if the rest of the segment being filled has room for a stripe range.
    fn log_has_room(&self, id: RangeId) -> bool {
        let journal = self.journal.as_ref().expect("there is a journal");
        let takes = journal.used + journal.headers.blocks + self.ranges[id].blocks;
        takes <= journal.placement.segment_blocks()
    }

    /// Moves the stripe ranges of the next batch from `waiting` to `batch_ranges`. Returns how
    /// many.
    fn choose_batch(&mut self) -> usize {
        let mut journal = self.journal.take().expect("the caller looked");
        journal.batch_ranges.clear();
        journal.loads.fill(Load::default());
        let room =
            (journal.placement.segment_blocks() - journal.used).checked_sub(journal.headers.blocks);
        while let Some(&id) = journal.waiting.front()
            && let Some(room) = room
        {
            let range = &self.ranges[id];
            let writes = range.log.slots;
            let takes = |slot| {
                let entry = self.journal_entry(id, slot, 0);
                (entry.bytes(), entry.kind.checksums(range.blocks))
            };
            let slots = self.groups[id.index()].slots();
            let fits = writes.iter().all(|slot| {
                let load = &journal.loads[usize::from(slots[usize::from(slot)].member.0)];
                let (header_bytes, blocks) = takes(slot);
                load.header_bytes + header_bytes <= JournalWriter::room_bytes()
                    && load.blocks + blocks <= room
            });
            if !fits {
                break;
            }
            for slot in writes.iter() {
                let load = &mut journal.loads[usize::from(slots[usize::from(slot)].member.0)];
                let (header_bytes, blocks) = takes(slot);
                load.header_bytes += header_bytes;
                load.blocks += blocks;
            }
            journal.waiting.pop_front();
            journal.batch_ranges.push(id);
        }
        let chosen = journal.batch_ranges.len();
        self.journal = Some(journal);
        chosen
    }

    /// Returns the journal's entry for a slot of a stripe range, whose blocks are at `place` there.
    fn journal_entry(&self, id: RangeId, slot: u8, place: u32) -> JournalEntry {
        let range = &self.ranges[id];
        let kind = range.journal_kind(slot);
        JournalEntry {
            group: range.group.0,
            low: range.low,
            blocks: range.blocks,
            slots: range.log.slots.bits(),
            slot,
            kind,
            row_sums: self.has_checksums(),
            place: if kind == JournalKind::Data { place } else { 0 },
        }
    }

    fn append_batch(&mut self) {
        let mut journal = self.journal.take().expect("the caller looked");
        let header_place = u32::try_from(journal.current).expect("0 or 1")
            * journal.placement.segment_blocks()
            + journal.used;
        let blocks_place = header_place + journal.headers.blocks;
        let mut members = MemberSet::EMPTY;
        let mut batch = Batch {
            flushed: MemberSet::EMPTY,
            pending: 0,
            flushing: false,
        };
        let longest = journal.loads.iter().map(|load| load.blocks).max();
        journal.used += journal.headers.blocks + longest.unwrap_or(0);
        let segment = u8::try_from(journal.current).expect("0 or 1");
        for &id in &journal.batch_ranges {
            let range = &mut self.ranges[id];
            range.log.segment = Some(segment);
            range.pending = range.log.slots.and(range.log.data).count();
            journal.live.logged(journal.current, range.group);
            journal.segments[journal.current].unfinished += 1;
        }
        for member in (0..self.geometry.members()).map(MemberIndex) {
            let part = JournalBatch {
                array: journal.array,
                nonce: journal.record.nonce,
                sequence: journal.sequence,
                member,
                place: header_place,
            };
            if journal.loads[usize::from(member.0)].header_bytes == 0 {
                continue;
            }
            let mut writer = JournalWriter::new(&part, &mut journal.draft);
            let mut taken = blocks_place;
            for &id in &journal.batch_ranges {
                let range = &self.ranges[id];
                let slots = self.groups[id.index()].slots();
                let of_member = |&slot: &u8| slots[usize::from(slot)].member == member;
                let Some(slot) = range.log.slots.iter().find(of_member) else {
                    continue;
                };
                let entry = self.journal_entry(id, slot, taken);
                let sums = match entry.kind {
                    JournalKind::Data => &self.checksums[self.written_checksums(id, slot)],
                    JournalKind::Zeros => &[],
                };
                journal.row_sums.clear();
                let (row_sums, rows) = (self.row_sums(id), 0..index(entry.row_sums()));
                let row_sums = rows.map(|row| row_sums.of(&self.row_sums, row));
                journal.row_sums.extend(row_sums);
                writer.entry(&entry, sums, &journal.row_sums);
                taken += entry.kind.checksums(range.blocks);
            }
            writer.finish();
            let bytes = self.metadata_buffer.bytes_mut(journal.headers, member.0);
            bytes.copy_from_slice(journal.draft.bytes());
            members = members.with(member);
        }
        journal.loads.fill(Load::default());
        for &id in &journal.batch_ranges {
            let range = self.ranges[id];
            for slot in range.log.slots.and(range.log.data).iter() {
                let member = self.groups[id.index()].slots()[usize::from(slot)].member;
                let load = &mut journal.loads[usize::from(member.0)];
                let place = blocks_place + load.blocks;
                load.blocks += range.blocks;
                batch.pending += 1;
                batch.flushed = batch.flushed.with(member);
                let (device, start) = journal.placement.place(member);
                let block = start.plus(u64::from(place));
                let source = self.write_source(id, slot);
                let write = Operation::Write { fua: false };
                self.journal_io(id, slot, device, write, block, range.blocks, source);
            }
        }
        for member in members.iter() {
            // A header without blocks is written with FUA: that does not flush the rest of the
            // member's cache.
            let fua = !batch.flushed.contains(member);
            let (device, start) = journal.placement.place(member);
            let block = start.plus(u64::from(header_place));
            let buffer = self.metadata_buffer.slice(journal.headers, member.0);
            batch.pending += 1;
            self.system_io_on(
                device,
                Purpose::JournalHeader,
                member,
                Operation::Write { fua },
                block,
                journal.headers.blocks,
                buffer,
            );
        }
        journal.sequence += 1;
        journal.batch = Some(batch);
        self.journal = Some(journal);
        assert!(batch.pending > 0, "a batch writes something");
    }

    /// Issues an I/O of a stripe range on the device that holds the journal of its member. `block`
    /// is counted from the start of the device.
    #[expect(clippy::too_many_arguments, reason = "the parts of one member I/O")]
    pub(crate) fn journal_io(
        &mut self,
        id: RangeId,
        slot: u8,
        device: MemberIndex,
        operation: Operation,
        block: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        if self.mirrors(id) {
            let member = self.groups[id.index()].slots()[usize::from(slot)].member;
            self.members[usize::from(member.0)].load.in_flight += 1;
        }
        self.output(Output::Member(MemberIo {
            id: MemberIoId(id.0 << SLOT_BITS | u32::from(slot)),
            member: device,
            operation,
            block,
            blocks,
            buffer,
        }));
    }

    /// Handles the result of a write of a header, or of a stripe range's blocks, to a member's
    /// journal.
    pub(crate) fn journal_written(&mut self, member: MemberIndex, result: MemberResult) {
        self.log_failed(member, result);
        let batch = self.batch_under_way();
        assert!(!batch.flushing, "written after the flush");
        batch.pending -= 1;
        if batch.pending > 0 {
            return;
        }
        let members = batch.flushed.difference(self.missing);
        let placement = &self.journal.as_ref().expect("looked at").placement;
        let (on_device, lost) = (placement.is_device(), placement.is_lost());
        if lost || members.is_empty() {
            return self.batch_done();
        }
        let batch = self.batch_under_way();
        batch.flushing = true;
        batch.pending = if on_device { 1 } else { members.count() };
        if on_device {
            self.flush_device(JOURNAL_DEVICE, Purpose::JournalCommit);
        } else {
            self.flush(members, Purpose::JournalCommit);
        }
    }

    /// Flushes the journal's own device if a part of the log that counts may be in its cache only.
    pub(crate) fn flush_journal_at_opening(&mut self) {
        if self.journals_on_device() {
            self.own_flushes.begin(Purpose::OpeningFlush, 1);
            self.flush_device(JOURNAL_DEVICE, Purpose::OpeningFlush);
        }
    }

    /// Returns true if writes are logged on a device of its own. If it is lost, only dirty regions
    /// show what is in flight.
    pub(crate) fn journals_on_device(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.placement.is_device())
    }

    /// Returns where the journal lies, for display.
    pub(crate) fn journal_status(&self) -> JournalStatus {
        let record = match (self.metadata.persistence(), &self.journal) {
            (Some(persistence), Some(_)) => persistence.array.journal,
            _ => return JournalStatus::None,
        };
        let works = self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.placement.device_works());
        match (record.device == Uuid::NIL, works) {
            (true, _) => JournalStatus::Members,
            (false, true) => JournalStatus::Device,
            (false, false) => JournalStatus::DeviceOut,
        }
    }

    pub(crate) fn journal_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        self.log_failed(member, result);
        let batch = self.batch_under_way();
        assert!(batch.flushing, "flushed before it was written");
        batch.pending -= 1;
        if batch.pending == 0 {
            self.batch_done();
        }
    }

    /// Handles an error of a member's journal, which did not take or return its part of a batch. If
    /// the array can't continue without the member, nothing that was to be logged there may go to
    /// its place.
    pub(crate) fn log_failed(&mut self, member: MemberIndex, result: MemberResult) {
        let Err(error) = result else {
            return;
        };
        let journal = self.journal.as_mut().expect("there is a journal");
        if !journal.placement.is_device() {
            if !self.put_out(member, OutReason::Error(error)) && self.shape.copies {
                self.stop_writing();
            }
            return;
        }
        if !journal.placement.device_fails() {
            return;
        }
        let was_on = journal.state == State::On;
        if was_on {
            journal.state = State::Draining;
        }
        self.output(Output::Event(Event::JournalDeviceOut { error }));
        if was_on {
            self.journal_drained(); // The log may be idle: then no batch or write does it later.
        }
    }

    fn batch_done(&mut self) {
        let lost = self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.placement.is_lost());
        if lost && !self.mutated(Mutation::TrustLostJournal) {
            return self.batch_lost();
        }
        self.batch_committed();
    }

    /// Logs a batch again, on the members, because the journal's device failed under it. First all
    /// blocks that were logged before must be in place.
    fn batch_lost(&mut self) {
        let journal = self.journal.as_mut().expect("there is a journal");
        journal.batch = None;
        while let Some(id) = journal.batch_ranges.pop() {
            self.ranges[id].log.segment = None;
            journal.segments[journal.current].unfinished -= 1;
            journal.waiting.push_front(id);
        }
        if self.writes_nothing() {
            return self.journal_abandons();
        }
        self.journal_drained();
    }

    fn batch_under_way(&mut self) -> &mut Batch {
        let journal = self.journal.as_mut().expect("there is a journal");
        journal.batch.as_mut().expect("a batch is under way")
    }

    /// Sends the stripe ranges of a durable batch to their places.
    fn batch_committed(&mut self) {
        let journal = self.journal.as_mut().expect("there is a journal");
        journal.batch = None;
        while let Some(id) = self.journal.as_mut().and_then(|j| j.batch_ranges.pop()) {
            self.ranges[id].move_to(Phase::Committing);
            self.ready.push_back(id);
        }
        self.begin_batch();
    }
}

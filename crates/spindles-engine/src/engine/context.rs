//! Answers questions about several rooms. Every part of the engine may ask; nothing here changes a
//! room.

use super::jobs::{rebuild, resync};
use crate::{
    Engine, RangeId,
    checksums::Pages,
    durable::DurableBlocks,
    engine::Closing,
    jobs::Place,
    jobs::scrub::Repair,
    member::ArrayState,
    mutation::Mutation,
    plan::Ask,
    staging::{Life, Staging},
    stripe::Owner,
    system_io::Purpose,
};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{AreaKind, BITMAPS, DeviceRecord};
use spindles_layout::GroupIndex;

impl Engine {
    #[cfg(feature = "canary")]
    pub(crate) fn mutated(&self, fault: Mutation) -> bool {
        self.settings.mutation == fault
    }

    #[cfg(not(feature = "canary"))]
    #[expect(clippy::unused_self, reason = "the same as with the feature")]
    #[inline]
    pub(crate) fn mutated(&self, _fault: Mutation) -> bool {
        false
    }

    /// Returns true if no new work may begin: the opening is not complete, a device waits to take
    /// its position, or a replacement or a growth needs the members to be quiet. Clients ask
    /// [`may_become_quiet`] too.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        !self.opening.is_serving()
            || self.rebuild.somebody_joins()
            || self.replace.holds_back()
            || self.grow.holds_back()
    }

    /// Returns true if nothing is under way on any member, although requests may wait.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ranges.all_free()
            && !self.metadata.busy()
            && !self.opening.is_finding()
            && self.zeroing.is_idle()
            && self.regions.sweep_is_idle()
            && self.areas_are_quiet()
            && self.inspection.is_quiet()
            && self.rebuild.is_quiet()
            && self.own_flushes.is_quiet(Purpose::ReplaceFlush)
            && self.opening.replay().is_none()
            && self.log.is_idle()
            && self.pages.as_ref().is_none_or(Pages::is_quiet)
            && self.grow.is_quiet()
            && self.stage_is_quiet()
    }

    pub(crate) fn idle(&self) -> bool {
        self.requests.all_free() && !self.faults.has_repairs() && self.is_quiet()
    }

    /// Blocks of the scratch buffer that the driver must provide as `Config::scratch`.
    pub fn scratch_blocks(&self) -> u32 {
        let staged = self.staging.as_ref().map_or(0, Staging::memory_blocks);
        self.scratch.blocks(self.ranges.count()) + staged + self.grow.buffer_blocks()
    }

    /// Returns true if write-zeroes moves no bytes on any present member.
    pub fn zeroes_without_moving_bytes(&self) -> bool {
        self.first_touch.zeroes_on(self.present())
    }

    /// Returns true if all present members take space only for written blocks.
    pub fn is_thin(&self) -> bool {
        self.first_touch.are_thin(self.present())
    }

    /// Returns true if a member is out. I/O still issued to it was planned for its former device.
    /// It must not reach a device that waits for the position: drivers answer that the member is
    /// gone.
    pub fn is_out(&self, member: MemberIndex) -> bool {
        member.0 < self.geometry.members() && self.members.missing().contains(member)
    }

    /// Returns the state of the array.
    pub fn state(&self) -> ArrayState {
        ArrayState::of(&self.geometry, self.members.lost())
    }

    /// Returns true if more members are lost than the level survives.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        !self.members.lost().is_empty() && !self.geometry.survives(self.members.lost())
    }

    /// Returns true if nothing can be written from now on.
    pub(crate) fn writes_nothing(&self) -> bool {
        let failed = || !self.members.missing().is_empty() && self.has_failed();
        self.metadata.is_broken() || (!self.shape.copies && failed())
    }

    /// Returns the present members, and those being filled.
    pub(crate) fn present(&self) -> MemberSet {
        MemberSet::all(self.geometry.members()).difference(self.members.missing())
    }

    /// Returns the blocks of an area.
    pub(crate) fn blocks_of(&self, area: AreaKind) -> &DurableBlocks {
        match area {
            AreaKind::SUPERBLOCK => self.metadata.slot(),
            AreaKind::BAD_BLOCKS => self.bad.blocks_kept(),
            bitmap => self.regions.bitmap(bitmap).blocks(),
        }
    }

    /// Returns the first block of an area on the device of a member, or on the replacement device.
    pub(crate) fn area_block(&self, member: MemberIndex, area: AreaKind) -> BlockIndex {
        let persistence = self.metadata.persistence().expect("stored");
        let device = if member == self.replacement() {
            self.replace.device_of_bitmaps()
        } else {
            persistence.devices[usize::from(member.0)].as_ref()
        };
        let device = device.expect("a present device has a record");
        let area = device.area(area).expect("checked when it was decoded");
        BlockIndex(area.offset_bytes / u64::from(self.settings.block_size.bytes()))
    }

    /// Returns true if the members store both bitmaps as they are in memory.
    pub(crate) fn bitmaps_are_stored(&self) -> bool {
        let are_stored = |area| self.blocks_of(area).are_stored();
        !self.regions.are_stored() || BITMAPS.into_iter().all(are_stored)
    }

    /// Returns true if the members store the list of bad blocks as it is in memory. Until then no
    /// request is acknowledged.
    #[inline]
    pub(crate) fn bad_blocks_are_stored(&self) -> bool {
        self.bad.blocks_kept().are_stored() || self.metadata.is_broken()
    }

    /// Returns true if no bitmap and no part of the list of bad blocks is being written. Blocks may
    /// be left to write that matter only when a member goes out.
    pub(crate) fn areas_are_quiet(&self) -> bool {
        let areas = [
            AreaKind::DIRTY_BITMAP,
            AreaKind::WRITTEN_BITMAP,
            AreaKind::BAD_BLOCKS,
        ];
        areas
            .into_iter()
            .all(|area| self.blocks_of(area).is_quiet())
    }

    /// Returns the member that is being replaced.
    pub fn replacing(&self) -> Option<MemberIndex> {
        self.replace.member()
    }

    /// Returns the index at which the driver attaches a replacement device: beyond all positions.
    pub fn replacement(&self) -> MemberIndex {
        MemberIndex(self.geometry.members())
    }

    /// Returns the position that the device beyond all positions is for.
    pub(crate) fn beside(&self) -> Option<MemberIndex> {
        self.replacing().or(self.rebuild.replacement_joins())
    }

    /// Returns true if the array uses the device that is attached beyond all positions. Otherwise
    /// the driver closes it.
    pub fn uses_replacement(&self) -> bool {
        self.beside().is_some()
    }

    /// Returns the replacement device of that member, if checksums are written to it too.
    pub(crate) fn hidden_replacement(&self, member: MemberIndex) -> Option<&DeviceRecord> {
        let replacement = self.replace.device_of_bitmaps()?;
        (self.replacing() == Some(member)).then_some(replacement)
    }

    /// Returns the request slot that clients don't get.
    pub(crate) fn own_request(&self) -> u32 {
        self.settings.limits.requests
    }

    /// Returns true if the array grows.
    pub fn is_growing(&self) -> bool {
        self.geometry.older().is_some()
    }

    /// Returns the number of stripe ranges for requests, including those for hedges.
    pub(crate) fn client_ranges(&self) -> u32 {
        self.settings.limits.ranges + self.hedges.ranges()
    }

    /// Returns true if blocks have checksums.
    #[inline]
    pub(crate) fn has_checksums(&self) -> bool {
        self.pages.is_some()
    }

    /// Returns the checksum of a block of zeros.
    pub(crate) fn checksum_of_zeros(&self) -> u32 {
        let pages = self.pages.as_ref().expect("blocks have checksums");
        pages.of_zeros()
    }

    /// Returns true if writes are logged before they go to their places.
    pub(crate) fn journals(&self) -> bool {
        self.log.is_on() && !self.mutated(Mutation::SkipJournal)
    }

    /// Returns true if writes may be logged. Without checksums only the log shows after a crash
    /// which rows are settled, so that all rows must be settled before logging begins.
    pub(crate) fn may_log(&self) -> bool {
        self.settled.everywhere() || self.has_checksums()
    }

    /// Returns true if a member can be read in the rows of `group` below `end`, where a stripe
    /// range ends.
    #[inline]
    pub(crate) fn holds(&self, member: MemberIndex, group: GroupIndex, end: u32) -> bool {
        !self.members.lost().contains(member)
            || !self.members.missing().contains(member)
                && Place::new(group, end) <= self.filled_below(member)
    }

    /// Returns the place up to which a device is filled.
    pub(crate) fn filled_below(&self, member: MemberIndex) -> Place {
        let from = self.members.filled_from_start(member);
        from.max(self.jobs.walk(&rebuild::JOB).mark())
    }

    /// Returns true if redundancy is known to agree with data in the rows of `group` below `end`,
    /// where a stripe range ends.
    #[inline]
    pub(crate) fn is_settled_to(&self, group: GroupIndex, end: u32) -> bool {
        self.settled.everywhere()
            || !self.regions.is_unsettled(group)
            || Place::new(group, end) <= self.jobs.walk(&resync::JOB).mark()
    }

    /// Returns true if redundancy is known to agree with data everywhere.
    pub fn is_settled(&self) -> bool {
        self.settled.everywhere() && !self.opening.is_finding() && self.opening.replay().is_none()
    }

    /// Returns true if dirty bits may be cleared. Bits stay set while a member is missing or being
    /// filled, to record the regions that the member lacks.
    pub(crate) fn may_clear(&self) -> bool {
        (self.members.lost().is_empty() || self.mutated(Mutation::ClearBitWhileOut))
            && !self.metadata.is_broken()
    }

    /// Returns true if rows that a write waits for become blank instead of zeros.
    pub(crate) fn makes_rows_blank(&self) -> bool {
        self.log.exists()
            && self.has_checksums()
            && self.shape.may_be_blank()
            && !self.zeroes_without_moving_bytes()
            && !self.regions.has_older()
            && self.extension.is_none()
    }

    /// Returns true if the stage is empty, and nothing is under way for it.
    pub(crate) fn stage_is_quiet(&self) -> bool {
        self.staging.as_ref().is_none_or(|staging| {
            let gives_up = self.leaves_staged();
            let stays = self.writes_nothing() || self.settings.read_only || gives_up;
            let releases = !self.own_flushes.is_quiet(Purpose::StageRelease);
            let has_io = staging.has_io() || releases || staging.life == Life::Loading;
            staging.life == Life::Off || stays && !has_io
        })
    }

    /// Returns true if a close places no more, because it can't or took too long. The next opening
    /// loads the rest.
    pub(crate) fn leaves_staged(&self) -> bool {
        let staging = self.staging.as_ref().expect("the array has a stage");
        let is_late = staging.is_late(self.now) && !staging.is_awaited;
        self.closing != Closing::Open && (staging.is_stuck() || is_late)
    }

    /// Returns the active members, which hold the columns.
    pub(crate) fn holders(&self) -> MemberSet {
        MemberSet::all(self.geometry.members()).difference(self.members.lost())
    }

    /// Returns true if a stripe range writes nothing, even if it finds a flaw.
    #[inline]
    pub(crate) fn only_looks(&self, id: RangeId) -> bool {
        self.ranges[id].repairs()
            && self
                .scrub
                .repair_of(matches!(self.ranges[id].owner, Owner::Job(_)))
                == Repair::Nothing
    }

    /// Returns true if a client's stripe range may find its answer only in a log that was not
    /// carried out. Either the log is lost, or the members to which it belongs failed, such as
    /// members without space. In an array open read-only, reads take logged contents from the log.
    #[cold]
    pub(crate) fn answer_is_in_log(&self, id: RangeId) -> bool {
        if self.mutated(Mutation::ReadUnplacedLog) {
            return false;
        }
        let asks = matches!(self.ranges[id].owner, Owner::Request(_));
        let lost = self.log.is_lost();
        asks && (lost || self.settled.lacks_log_of(self.ranges[id].group))
    }

    /// Returns the regions that lie entirely in a request.
    pub(crate) fn whole_regions(&self, request: u32) -> Range<u64> {
        let slot = &self.requests[request];
        let blocks = self.geometry.blocks();
        let group_at = |block: BlockIndex| self.geometry.locate(block).group;
        // The first region that begins in the request, and the first that does not end in it.
        let first_group = group_at(slot.block);
        let mut first = self.regions.of(first_group);
        if self.first_block(self.regions.groups(first).start) < slot.block.0 {
            first += 1;
        }
        let end = if slot.end.0 == blocks {
            self.regions.part_regions().end
        } else {
            self.regions.of(group_at(slot.end))
        };
        first..end.max(first)
    }

    fn first_block(&self, group: u64) -> u64 {
        self.geometry.blocks_before(GroupIndex(group))
    }

    /// Returns true if the next opening may count on members of a stripe range's group that are
    /// out.
    pub(crate) fn counts_on_others(&self, id: RangeId) -> bool {
        if self.mutated(Mutation::SettleUnrecorded) {
            return false;
        }
        let slots = self.ranges.group(id).slots();
        let out = self.ranges.missing_slots(&self.members, id);
        let out = out.iter().map(|slot| slots[usize::from(slot)].member);
        let out = out.fold(MemberSet::EMPTY, MemberSet::with);
        self.metadata.may_count_on(out)
    }

    /// Returns true if a stripe range is answered only with contents that are proved, or on which
    /// all redundancy agrees. The array is open read-only.
    #[inline]
    pub(crate) fn wants_proof(&self, id: RangeId) -> bool {
        self.settings.wants_proof && self.ranges[id].ask == Ask::Read
    }

    /// Returns true if answered rows may not be in their places yet, so that a reader must wait.
    #[inline]
    pub(crate) fn awaits_places(&self, id: RangeId, group: GroupIndex, rows: Range<u32>) -> bool {
        self.ranges.answered_count() > 0
            && !self.mutated(Mutation::ReadUnplaced)
            && self.locks.others(id, group, rows.start, rows.end)
    }

    /// Returns true if a stripe range is a write of staged blocks in a window that can't be moved.
    /// Members keep the checksums of the staged contents, so a later write would look like rot
    /// after a crash.
    pub(crate) fn refuses_staged_write(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        range.ask == Ask::Write
            && self.grow.is_stuck()
            && self.grow.is_staged(range.group)
            && self.has_checksums()
    }

    /// Returns true if a flush makes the writes of a stripe range durable: logged writes if the log
    /// may be lost, other writes if blocks have checksums, which are written before the flush.
    pub(super) fn is_durable_by_flush(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let flushed = if range.is_logged() {
            self.log.is_on_device()
        } else {
            self.has_checksums()
        };
        flushed && range.ask == Ask::Write && self.requests.write_kind(&self.ranges, id).0
    }
}

/// Returns false if the array never becomes quiet: rows stay staged that can't be placed. Clients
/// do not wait then. After the array was quiet once, the stage is empty until the wait ends.
#[cold]
pub(crate) fn may_become_quiet(engine: &Engine) -> bool {
    let is_stuck = engine.staging.as_ref().is_some_and(Staging::is_stuck);
    !engine.opening.is_serving() || !is_stuck || engine.stage_is_quiet()
}

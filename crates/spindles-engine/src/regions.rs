//! Regions: spans of redundancy groups with one bit each in two bitmaps.
//!
//! ```text
//!              first write: rows made zeros and flushed, then the bit
//!  unwritten ───────────────────────────────────────────────────────▶ written
//!      ▲                                                                 │
//!      └──────────── discarded as a whole, nothing in flight ────────────┘
//!
//!           a write is about to go to its place, or a member lacks one
//!  clean ──────────────────────────────────────────────────────────────▶ dirty
//!    ▲                                                                     │
//!    └── quiet for a while, nothing in flight, flushed, nobody missing ────┘
//! ```
//!
//! An *unsettled* region is one that a crash left dirty: redundancy in it may disagree with data
//! until the resync was there. Arrays without bitmaps are one region, always written.

use crate::{
    Engine, Mutation,
    bitmaps::Bitmap,
    bits::Bits,
    columns::Phase,
    engine::Closing,
    index,
    jobs::{Place, resync},
    output::OutReason,
    plan::Ask,
    system_io::Purpose,
};
use alloc::collections::VecDeque;
use core::ops::Range;
use spindles_block::{BlockIndex, Instant, MemberIndex, MemberResult, Operation};
use spindles_layout::GroupIndex;

/// How long a region must have been left alone before its bit is cleared.
const QUIET_NS: u64 = 5_000_000_000;

/// The search for dirty regions that need not be any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    /// Nothing is dirty that could be cleared.
    Idle,
    /// Something became dirty: at the next occasion the moment is set.
    Wanted,
    /// When.
    At(Instant),
    /// The flush before bits are cleared is under way.
    Flushing { pending: u32 },
}

/// The groups of one map, and their regions.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The first group and the end of them.
    groups: Range<u64>,
    /// Those that hold the array: all, unless it grows.
    live: Range<u64>,
    /// The first region.
    region: u64,
    /// A region is `1 << shift` groups.
    shift: u32,
}

impl Part {
    /// These groups, with a bit for so many each (0: one for all) from `region` on.
    pub(crate) fn new(groups: Range<u64>, region_groups: u32, region: u64) -> Self {
        Self {
            live: groups.clone(),
            groups,
            region,
            shift: match region_groups {
                0 => 63,
                groups => groups.trailing_zeros(),
            },
        }
    }

    pub(crate) fn of(&self, group: GroupIndex) -> u64 {
        self.region + ((group.0 - self.groups.start) >> self.shift)
    }

    pub(crate) fn groups(&self) -> Range<u64> {
        self.groups.clone()
    }

    /// A region is `1 << shift` groups.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// The regions, from the first to the end.
    pub(crate) fn regions(&self) -> Range<u64> {
        let count = self.groups.end - self.groups.start;
        let whole = count >> self.shift;
        let more = u64::from(whole << self.shift < count);
        self.region..self.region + (whole + more).max(1)
    }
}

/// What is known of the regions of an array.
#[derive(Clone, Debug)]
pub(crate) struct Regions {
    /// The groups of the array, in order; while it grows, those of its new map.
    pub(crate) part: Part,
    /// While it grows, the groups of its old map after those.
    pub(crate) older: Option<Part>,
    /// Whether the bitmaps are kept on the members.
    pub(crate) stored: bool,
    pub(crate) dirty: Bitmap,
    pub(crate) written: Bitmap,
    /// Whether all regions are written.
    pub(crate) all_written: bool,
    /// Dirty since before a crash; the resync takes them in order.
    pub(crate) unsettled: Bits,
    /// Written to since the last sweep.
    recent: Bits,
    /// Marked since then ahead of writes.
    pub(crate) expected: Bits,
    /// What the sweep under way is about to clear.
    clearing: Bits,
    sweep: Sweep,
    /// Discards that are through, and of which whole regions are to be given back, in order.
    pub(crate) releases: VecDeque<u32>,
    /// The regions of the first of them, while it waits for what is in flight there.
    releasing: Range<u64>,
    /// Given back since the journal began: it may hold what was written to them before.
    pub(crate) released: Bits,
}

impl Regions {
    /// Regions of an array; `stored` says whether it has bitmaps, `unsettled` whether anything may
    /// be unsettled in one that has none.
    pub(crate) fn new(
        part: Part,
        older: Option<Part>,
        stored: bool,
        unsettled: bool,
        bitmaps: [Bitmap; 2],
        requests: u32,
    ) -> Self {
        let count = Self::count(&part, older.as_ref());
        let [dirty, written] = bitmaps;
        Self {
            part,
            older,
            stored,
            dirty,
            written,
            all_written: !stored,
            unsettled: Bits::new(count, unsettled && !stored),
            recent: Bits::new(count, false),
            expected: Bits::new(count, false),
            clearing: Bits::new(count, false),
            sweep: Sweep::Idle,
            releases: VecDeque::with_capacity(index(requests)),
            releasing: 0..0,
            released: Bits::new(count, false),
        }
    }

    /// How many regions there are, those before the first included.
    pub(crate) fn count(part: &Part, older: Option<&Part>) -> u64 {
        let older = older.map_or(0, |older| older.regions().end);
        part.regions().end.max(older)
    }

    /// The groups that hold the array, as the map has them now.
    pub(crate) fn set_live(&mut self, [live, older]: [Range<u64>; 2]) {
        self.part.live = live;
        if let Some(part) = &mut self.older {
            part.live = older;
        }
    }

    /// The bits of the map as it is now mean nothing yet.
    pub(crate) fn blank(&mut self) {
        for region in self.part.regions() {
            self.dirty.bits.clear(region);
            self.written.bits.clear(region);
            self.unsettled.clear(region);
        }
        self.dirty.tell_all();
        self.written.tell_all();
    }

    /// The part that a group is of.
    #[inline]
    fn part_of(&self, group: GroupIndex) -> &Part {
        match &self.older {
            Some(older) if group.0 >= older.groups.start => older,
            _ => &self.part,
        }
    }

    /// Whether a group holds a part of the array.
    pub(crate) fn is_live(&self, group: GroupIndex) -> bool {
        self.part_of(group).live.contains(&group.0)
    }

    /// The region of a group.
    #[inline]
    pub(crate) fn of(&self, group: GroupIndex) -> u64 {
        self.part_of(group).of(group)
    }

    /// The groups of a region that hold the array; the first and the last region may have fewer.
    pub(crate) fn groups(&self, region: u64) -> Range<u64> {
        let older = self.older.as_ref();
        let older = older.filter(|older| older.regions().contains(&region));
        let part = older.unwrap_or(&self.part);
        let Some(at) = region
            .checked_sub(part.region)
            .filter(|_| self.stored || region == 0)
        else {
            return 0..0;
        };
        if !self.stored {
            return 0..part.groups.end;
        }
        let first = part.groups.start + (at << part.shift);
        let end = (first + (1 << part.shift)).min(part.live.end);
        let first = first.max(part.live.start);
        first..end.max(first)
    }

    /// Whether the members hold what the array holds there; otherwise it reads as zeros.
    #[inline]
    pub(crate) fn is_written(&self, group: GroupIndex) -> bool {
        self.all_written || self.written.bits.get(self.of(group)) && self.is_live(group)
    }

    /// Whether redundancy may disagree with data there, as far as bitmaps can tell.
    pub(crate) fn is_unsettled(&self, group: GroupIndex) -> bool {
        self.unsettled.get(self.of(group))
    }

    /// The first group from here on that a member which was out may lack.
    pub(crate) fn next_missed(&self, group: GroupIndex) -> GroupIndex {
        let mut group = group;
        loop {
            let dirty = self.next_group(&self.dirty.bits, group);
            let written = self.next_written(dirty);
            if written == dirty || written.0 == u64::MAX {
                return written;
            }
            group = written;
        }
    }

    /// The first group from here on whose region is in `bits`; beyond the last where there is none.
    pub(crate) fn next_group(&self, bits: &Bits, group: GroupIndex) -> GroupIndex {
        for part in [Some(&self.part), self.older.as_ref()]
            .into_iter()
            .flatten()
        {
            let first = group.0.max(part.live.start);
            if first >= part.live.end {
                continue;
            }
            let from = part.of(GroupIndex(first));
            match bits.next(from) {
                Some(region) if region == from => return GroupIndex(first),
                Some(region) => {
                    let start = part.groups.start + ((region - part.region) << part.shift);
                    if start < part.live.end {
                        return GroupIndex(start);
                    }
                }
                None => {}
            }
        }
        GroupIndex(u64::MAX)
    }

    /// The first group from here on that may be unsettled.
    pub(crate) fn next_unsettled(&self, group: GroupIndex) -> GroupIndex {
        self.next_group(&self.unsettled, group)
    }

    /// What is written changed: perhaps all regions are.
    pub(crate) fn note_all_written(&mut self) {
        self.all_written = !self.stored || self.older.is_none() && self.written.bits.is_full();
    }

    /// The first group from here on that was ever written.
    pub(crate) fn next_written(&self, group: GroupIndex) -> GroupIndex {
        if self.all_written {
            return group;
        }
        self.next_group(&self.written.bits, group)
    }

    /// In how many regions there is a group, from `from` on, that holds a part of the array and that
    /// `next` stops at: it answers the first such group from the one given on.
    pub(crate) fn live_regions(
        &self,
        from: GroupIndex,
        next: impl Fn(GroupIndex) -> GroupIndex,
    ) -> u64 {
        let mut regions = 0;
        for part in [Some(&self.part), self.older.as_ref()]
            .into_iter()
            .flatten()
        {
            let mut group = next(GroupIndex(from.0.max(part.live.start)));
            while part.live.contains(&group.0) {
                regions += 1;
                group = next(GroupIndex(self.groups(part.of(group)).end));
            }
        }
        regions
    }

    /// When the engine is to be woken for a sweep.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match self.sweep {
            Sweep::Idle | Sweep::Flushing { .. } => None,
            Sweep::Wanted => Some(Instant(0)),
            Sweep::At(at) => Some(at),
        }
    }
}

impl Regions {
    /// Something may be dirty: at some time it is to be looked whether it still is.
    pub(crate) fn want_sweep(&mut self) {
        let words = self.dirty.bits.words().iter().zip(self.unsettled.words());
        let clearable = words
            .into_iter()
            .any(|(dirty, unsettled)| dirty & !unsettled != 0);
        if self.sweep == Sweep::Idle && clearable {
            self.sweep = Sweep::Wanted;
        }
    }

    /// Whether nothing of a sweep is under way.
    pub(crate) fn sweep_is_idle(&self) -> bool {
        !matches!(self.sweep, Sweep::Flushing { .. })
    }
}

impl Engine {
    // ---- marking ------------------------------------------------------------------------------

    /// Whether a write in this group may go to its place: its region's dirty bit is durable where
    /// it must be. Otherwise that was begun.
    #[inline]
    pub(crate) fn may_write_region(&mut self, group: GroupIndex) -> bool {
        let regions = &mut self.regions;
        if !regions.stored {
            return true;
        }
        let region = regions.of(group);
        let durable = regions.dirty.bits.get(region) && regions.dirty.durable.get(region);
        if durable && regions.recent.get(region) {
            return true;
        }
        self.mark_region(region) || durable
    }

    #[cold]
    fn mark_region(&mut self, region: u64) -> bool {
        if !self.regions.recent.get(region) {
            self.regions.recent.set(region);
            if self.lost.is_empty() {
                self.look_ahead(region); // What is marked is what who is missing lacks.
            }
            self.begin_zeroing();
        }
        let whole = self.lost.is_empty();
        let unneeded = whole && !self.policy.resync_after_crash;
        self.regions.dirty.set(region);
        if self.regions.sweep == Sweep::Idle && whole {
            self.regions.sweep = Sweep::Wanted;
        }
        if unneeded {
            return true; // Until a member goes out.
        }
        self.write_bitmaps();
        self.metadata.broken || self.mutated(Mutation::SkipRegionMark)
    }

    /// Whether redundancy is known to agree with data everywhere.
    pub fn is_settled(&self) -> bool {
        self.all_settled && self.loading.is_none() && self.replay.is_none()
    }

    /// Whether a column may be planned: its region is not being given back, and members hold what
    /// the array holds there. Otherwise it waits.
    pub(crate) fn region_is_open(&mut self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        let (group, ask) = (column.group, column.ask);
        let region = self.regions.of(group);
        if self.metadata.broken || self.read_only {
            return true; // Nothing is written any more, bits neither.
        }
        if self.regions.releasing.contains(&region) {
            return false;
        }
        if self.regions.is_written(group) {
            return self.regions.written.durable.get(region);
        }
        if ask != Ask::Write {
            return true; // Zeros, or nothing to settle.
        }
        if self.writes_zeros(id) {
            // There is nothing to do once that is so for good.
            return self.regions.written.is_stored(region);
        }
        if !self.zeroing.is_asked(region) && self.lost.is_empty() {
            self.look_ahead(region);
        }
        self.want_zeroing(region);
        self.metadata.broken
    }

    // ---- clearing dirty bits ------------------------------------------------------------------

    /// The moment asked for has come, or another.
    pub(crate) fn sweep(&mut self, now: Instant) {
        match self.regions.sweep {
            Sweep::Wanted => self.regions.sweep = Sweep::At(now.plus_ns(QUIET_NS)),
            Sweep::At(at) if at <= now => self.begin_sweep(),
            Sweep::Idle | Sweep::At(_) | Sweep::Flushing { .. } => {}
        }
    }

    /// Bits stay while a member is missing, or being filled: it lacks what they stand for.
    fn may_clear(&self) -> bool {
        (self.lost.is_empty() || self.mutated(Mutation::ClearBitWhileOut))
            && !self.read_only
            && !self.metadata.broken
    }

    fn begin_sweep(&mut self) {
        self.regions.sweep = Sweep::Idle;
        if !self.may_clear() || self.closing != Closing::Open {
            return;
        }
        if self.holds_back() {
            return self.regions.want_sweep(); // Somebody waits until nothing is under way.
        }
        self.forget_settled();
        let early = self.mutated(Mutation::ClearBitEarly);
        let regions = &mut self.regions;
        let dirty = regions.dirty.bits.words();
        let wanted = regions.recent.words().iter().zip(regions.expected.words());
        let kept = wanted.zip(regions.unsettled.words());
        let places = regions.clearing.words_mut().iter_mut().zip(dirty);
        for ((clearing, dirty), ((recent, expected), unsettled)) in places.zip(kept) {
            let left = if early { u64::MAX } else { !recent & !expected };
            *clearing = dirty & !unsettled & left;
        }
        regions.recent.clear_all();
        regions.expected.clear_all();
        for column in &self.columns {
            // Past its commit, or about to be there.
            let writes = match column.phase {
                Phase::Free
                | Phase::Starting
                | Phase::Direct
                | Phase::Flushing
                | Phase::Locking
                | Phase::Preparing
                | Phase::Paging
                | Phase::Reading
                | Phase::Computing(_)
                | Phase::Acknowledging
                | Phase::Merged => false,
                Phase::Committing | Phase::Logging | Phase::Writing => !early,
            };
            if writes {
                let region = regions.of(column.group);
                regions.clearing.clear(region);
                regions.recent.set(region);
            }
        }
        if regions.clearing.is_empty() {
            return regions.want_sweep();
        }
        if early {
            return self.clear_bits();
        }
        let pending = self.flush_active(Purpose::SweepFlush);
        self.regions.sweep = Sweep::Flushing { pending };
    }

    /// A flush of a sweep came back.
    pub(crate) fn sweep_flushed(&mut self, member: MemberIndex, result: MemberResult) {
        let Sweep::Flushing { pending } = self.regions.sweep else {
            panic!("a flush of a sweep came back, and there is no sweep");
        };
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.nothing_more();
        }
        if pending > 1 {
            self.regions.sweep = Sweep::Flushing {
                pending: pending - 1,
            };
            return;
        }
        self.regions.sweep = Sweep::Idle;
        if self.may_clear() {
            self.clear_bits();
        }
    }

    /// What was quiet and is flushed is clean.
    fn clear_bits(&mut self) {
        let mut from = 0;
        while let Some(region) = self.regions.clearing.next(from) {
            if !self.regions.recent.get(region) && !self.regions.expected.get(region) {
                self.regions.dirty.clear(region);
            }
            from = region + 1;
        }
        self.regions.want_sweep();
        self.write_bitmaps();
    }

    /// After the flush of a close: nothing is dirty where everybody is there.
    pub(crate) fn clear_all_bits(&mut self) {
        if !self.all_settled || !self.may_clear() {
            return;
        }
        let mut from = 0;
        while let Some(region) = self.regions.dirty.bits.next(from) {
            self.regions.dirty.clear(region);
            from = region + 1;
        }
    }

    /// Regions that the resync has left behind are settled.
    pub(crate) fn forget_settled(&mut self) {
        let mark = self.jobs.walk(&resync::JOB).mark;
        let mut from = 0;
        while let Some(region) = self.regions.unsettled.next(from) {
            let end = Place {
                group: GroupIndex(self.regions.groups(region).end),
                row: 0,
            };
            if self.all_settled || end <= mark {
                self.regions.unsettled.clear(region);
            }
            from = region + 1;
        }
    }

    // ---- giving back --------------------------------------------------------------------------

    /// A discard is through on all members: whole regions of it are given back before it is
    /// answered. Whether there are any.
    #[cold]
    pub(crate) fn begin_release(&mut self, request: u32) -> bool {
        let slot = &self.requests[index(request)];
        let regions = &self.regions;
        if !regions.stored || slot.operation != Operation::Discard || slot.error.is_some() {
            return false;
        }
        if regions.older.is_some() || self.whole_regions(request).is_empty() {
            return false;
        }
        self.regions.releases.push_back(request);
        self.pump_releases();
        true
    }

    /// The regions that lie in a request as a whole.
    fn whole_regions(&self, request: u32) -> Range<u64> {
        let slot = &self.requests[index(request)];
        let blocks = self.geometry.blocks();
        let group_at = |block: BlockIndex| self.geometry.locate(block).group;
        // The first region that begins in the request, and the first that does not end in it.
        let first_group = group_at(slot.block);
        let mut first = self.regions.of(first_group);
        if self.first_block(self.regions.groups(first).start) < slot.block.0 {
            first += 1;
        }
        let end = if slot.end.0 == blocks {
            self.regions.part.regions().end
        } else {
            self.regions.of(group_at(slot.end))
        };
        first..end.max(first)
    }

    fn first_block(&self, group: u64) -> u64 {
        self.blocks_below(GroupIndex(group))
    }

    /// Goes on with giving back: after a column left its region, or bitmaps were written.
    #[inline]
    pub(crate) fn pump_releases(&mut self) {
        while !self.regions.releases.is_empty() && self.pump_release() {}
    }

    /// Whether the first release came to its end.
    #[cold]
    fn pump_release(&mut self) -> bool {
        let Some(&request) = self.regions.releases.front() else {
            return false;
        };
        if self.regions.releasing.is_empty() {
            self.regions.releasing = self.whole_regions(request);
            // From now on nothing new begins there. What did, ends first.
        }
        let range = self.regions.releasing.clone();
        let held = range
            .clone()
            .any(|region| self.regions.written.bits.get(region));
        if held && !self.metadata.broken {
            if self.columns.iter().any(|column| {
                let planned = match column.phase {
                    Phase::Paging | Phase::Reading | Phase::Computing(_) | Phase::Flushing => {
                        column.is_locked()
                    }
                    Phase::Committing | Phase::Logging | Phase::Writing | Phase::Acknowledging => {
                        true
                    }
                    Phase::Free
                    | Phase::Starting
                    | Phase::Direct
                    | Phase::Locking
                    | Phase::Preparing
                    | Phase::Merged => false,
                };
                planned && range.contains(&self.regions.of(column.group))
            }) {
                return false;
            }
            for region in range {
                self.regions.written.clear(region);
                self.regions.unsettled.clear(region);
                self.regions.released.set(region);
            }
            self.regions.all_written = false;
            self.write_bitmaps();
            return false;
        }
        let stored = range
            .clone()
            .all(|region| self.regions.written.is_stored(region));
        if !stored && !self.metadata.broken {
            return false;
        }
        self.regions.releasing = 0..0;
        self.regions.releases.pop_front();
        self.ready.append(&mut self.gated);
        self.answer(request);
        true
    }
}

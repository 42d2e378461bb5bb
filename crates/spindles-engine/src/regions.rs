//! Regions: spans of redundancy groups with one bit each in two bitmaps.
//!
//! ```text
//!              first write: rows made zeros or blank, and flushed, then the bit
//!  unwritten ───────────────────────────────────────────────────────▶ written
//!      ▲                                                                 │
//!      └──────────── discarded as a whole, nothing in flight ────────────┘
//!
//!           a write is about to go to its place, or a member lacks one
//!  clean ──────────────────────────────────────────────────────────────▶ dirty
//!    ▲                                                                     │
//!    └── quiet for a while, nothing in flight, flushed, no member missing ─┘
//! ```
//!
//! An *unsettled* region is one that a crash left dirty: redundancy in it may disagree with data
//! until it is resynchronised. Arrays without bitmaps are one region, always written.

use crate::{
    bitmaps::Bitmap, bits::Bits, durable::Loading, index, jobs::Place, system_io::MetadataBuffer,
};
use alloc::collections::VecDeque;
use core::ops::Range;
use spindles_block::{Instant, MemberSet};
use spindles_format::{AreaKind, Uuid};
use spindles_layout::{Geometry, GroupIndex};

/// A region must be left alone for this time before its dirty bit is cleared.
const QUIET_NS: u64 = 5_000_000_000;

/// The search for dirty regions that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    /// No dirty region can be cleared.
    Idle,
    /// A region became dirty. The time of the sweep is not set yet.
    Wanted,
    /// The time of the next sweep.
    At(Instant),
    /// Flushing, before bits are cleared.
    Flushing,
}

/// The groups of one map, and their regions.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// All its groups.
    groups: Range<u64>,
    /// The groups that hold the array: all groups, unless the array grows.
    live: Range<u64>,
    /// The first region.
    region: u64,
    /// A region is `1 << shift` groups.
    shift: u32,
}

impl Part {
    /// Creates a part of these groups, with one bit for each `region_groups` of them (0: one bit
    /// for all) from bit `region` on.
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

    /// All its regions.
    pub(crate) fn regions(&self) -> Range<u64> {
        let count = self.groups.end - self.groups.start;
        let whole = count >> self.shift;
        let more = u64::from(whole << self.shift < count);
        self.region..self.region + (whole + more).max(1)
    }
}

/// The state of the regions of an array.
#[derive(Clone, Debug)]
pub(crate) struct Regions {
    /// The groups of the array; while it grows, those of its new map.
    part: Part,
    /// The groups of the old map, which follow those of the new one; `None` unless the array grows.
    older: Option<Part>,
    /// True if the bitmaps are kept on the members.
    stored: bool,
    dirty: Bitmap,
    written: Bitmap,
    /// True if all regions are written.
    all_written: bool,
    /// Regions dirty since before a crash; the resync takes them in order.
    unsettled: Bits,
    /// Regions whose record of blank rows is not durable yet: they were first written since the
    /// array was opened, or are not settled. They stay dirty until the record is durable.
    begun: Bits,
    /// Regions written since the last sweep.
    recent: Bits,
    /// Regions marked ahead of writes since the last sweep.
    expected: Bits,
    /// Regions that the current sweep is about to clear.
    clearing: Bits,
    sweep: Sweep,
    /// Finished discards with whole regions to release, in order.
    releases: VecDeque<u32>,
    /// The regions of the first of these discards, while it waits for I/O in flight there.
    releasing: Range<u64>,
    /// Regions released since the journal began, which may hold earlier writes to them.
    released: Bits,
}

impl Regions {
    /// Creates the regions of an array. `stored`: the array has bitmaps. `unsettled`: the array has
    /// no bitmaps, and redundancy may disagree with data.
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
            begun: Bits::new(count, false),
            recent: Bits::new(count, false),
            expected: Bits::new(count, false),
            clearing: Bits::new(count, false),
            sweep: Sweep::Idle,
            releases: VecDeque::with_capacity(index(requests)),
            releasing: 0..0,
            released: Bits::new(count, false),
        }
    }

    /// Returns true if the bitmaps are kept on the members.
    #[inline]
    pub(crate) fn are_stored(&self) -> bool {
        self.stored
    }

    /// Returns true if the members hold the array's contents in this region.
    pub(crate) fn holds(&self, region: u64) -> bool {
        self.written.bits.get(region)
    }

    /// Returns true if the members hold the array's contents in this region, and all record that
    /// durably.
    pub(crate) fn durably_holds(&self, region: u64) -> bool {
        self.holds(region) && self.written.is_durable(region)
    }

    /// Returns the regions of the map; while the array grows, of the new one.
    pub(crate) fn part_regions(&self) -> Range<u64> {
        self.part.regions()
    }

    /// Returns true if the array grows: it has the regions of two maps.
    pub(crate) fn has_older(&self) -> bool {
        self.older.is_some()
    }

    /// Returns the groups of the map; while the array grows, of the new one.
    pub(crate) fn part_groups(&self) -> Range<u64> {
        self.part.groups()
    }

    /// Returns one of the bitmaps.
    pub(crate) fn bitmap(&self, area: AreaKind) -> &Bitmap {
        match area {
            AreaKind::DIRTY_BITMAP => &self.dirty,
            _ => &self.written,
        }
    }

    /// Like `bitmap`, mutable.
    pub(crate) fn bitmap_mut(&mut self, area: AreaKind) -> &mut Bitmap {
        match area {
            AreaKind::DIRTY_BITMAP => &mut self.dirty,
            _ => &mut self.written,
        }
    }

    /// Takes the union of the copies of a part of a bitmap that was read.
    pub(crate) fn merge(
        &mut self,
        array: Uuid,
        loading: &Loading,
        members: MemberSet,
        buffer: &MetadataBuffer,
    ) {
        let bitmap = match loading.area {
            AreaKind::DIRTY_BITMAP => &mut self.dirty,
            _ => &mut self.written,
        };
        bitmap.merge(array, loading, members, buffer, &mut self.unsettled);
    }

    /// Marks all regions as written, because the bitmap could not be read.
    pub(crate) fn may_all_be_written(&mut self) {
        self.written.bits.words_mut().fill(u64::MAX);
        self.written.bits.trim();
    }

    /// Sets exactly the bits of the written regions.
    pub(crate) fn copy_written(&self, bits: &mut Bits) {
        if self.all_written {
            bits.words_mut().fill(u64::MAX);
            bits.trim();
        } else {
            bits.words_mut().copy_from_slice(self.written.bits.words());
        }
    }

    /// Forgets the released regions: the log no longer holds earlier writes to them.
    pub(crate) fn forget_released(&mut self) {
        self.released.clear_all();
    }

    /// Sets the parts of the array: a single map, or two maps during a growth.
    pub(crate) fn set_parts(&mut self, part: Part, older: Option<Part>) {
        (self.part, self.older) = (part, older);
        self.note_all_written();
    }

    /// The number of groups in a region, as a power of two.
    pub(crate) fn shift(&self) -> u32 {
        self.part.shift()
    }

    /// The number of regions, including unused bits before the first.
    pub(crate) fn count(part: &Part, older: Option<&Part>) -> u64 {
        let older = older.map_or(0, |older| older.regions().end);
        part.regions().end.max(older)
    }

    /// Sets the groups that hold the array in both maps.
    pub(crate) fn set_live(&mut self, [live, older]: [Range<u64>; 2]) {
        self.part.live = live;
        if let Some(part) = &mut self.older {
            part.live = older;
        }
    }

    /// Clears the bits of the newest map's regions, which mean nothing yet.
    pub(crate) fn blank(&mut self) {
        for region in self.part.regions() {
            self.dirty.bits.clear(region);
            self.written.bits.clear(region);
            self.unsettled.clear(region);
            self.begun.clear(region);
        }
        self.dirty.blocks_mut().want_all();
        self.written.blocks_mut().want_all();
    }

    /// Returns the part of a group.
    #[inline]
    fn part_of(&self, group: GroupIndex) -> &Part {
        match &self.older {
            Some(older) if group.0 >= older.groups.start => older,
            _ => &self.part,
        }
    }

    /// Returns true if a group is of the old map of a growth.
    pub(crate) fn is_of_older(&self, group: GroupIndex) -> bool {
        let older = self.older.as_ref();
        older.is_some_and(|part| group.0 >= part.groups.start)
    }

    /// Returns true if a group holds a part of the array.
    pub(crate) fn is_live(&self, group: GroupIndex) -> bool {
        self.part_of(group).live.contains(&group.0)
    }

    /// Returns the region of a group.
    #[inline]
    pub(crate) fn of(&self, group: GroupIndex) -> u64 {
        self.part_of(group).of(group)
    }

    /// Returns the groups of a region that hold the array. The first and the last region may have
    /// fewer.
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

    /// Returns true if the members hold the array's contents in this group; otherwise it reads as
    /// zeros.
    #[inline]
    pub(crate) fn is_written(&self, group: GroupIndex) -> bool {
        self.all_written || self.written.bits.get(self.of(group)) && self.is_live(group)
    }

    /// Returns true if the group reads as zeros, even after a crash.
    pub(crate) fn reads_zeros(&self, group: GroupIndex) -> bool {
        !self.is_written(group) && self.written.is_stored(self.of(group))
    }

    /// Marks the region of a group dirty, so that a returning member gets it again.
    pub(crate) fn mark_dirty(&mut self, group: GroupIndex) {
        self.dirty.set(self.of(group));
    }

    /// Returns true if the group's region is released, but may be written after a crash.
    pub(crate) fn is_half_released(&self, group: GroupIndex) -> bool {
        let region = self.of(group);
        let released = self.released.get(region) && !self.written.bits.get(region);
        released && !self.written.is_stored(region)
    }

    /// Returns true if redundancy may disagree with data in the group's region, as far as bitmaps
    /// show.
    pub(crate) fn is_unsettled(&self, group: GroupIndex) -> bool {
        self.unsettled.get(self.of(group))
    }

    /// Marks the region of a group as unsettled.
    pub(crate) fn unsettle(&mut self, group: GroupIndex) {
        self.unsettled.set(self.of(group));
    }

    /// Returns true if the record of blank rows in the group's region may not be durable.
    pub(crate) fn is_begun(&self, group: GroupIndex) -> bool {
        self.begun.get(self.of(group))
    }

    /// Returns the first group from `group` on that a member which was out may lack.
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

    /// Returns the first group from `group` on whose region is in `bits`; `u64::MAX` if there is
    /// none.
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

    /// Returns the first group from `group` on that may be unsettled.
    pub(crate) fn next_unsettled(&self, group: GroupIndex) -> GroupIndex {
        self.next_group(&self.unsettled, group)
    }

    /// Updates `all_written` after a change.
    pub(crate) fn note_all_written(&mut self) {
        self.all_written = !self.stored || self.older.is_none() && self.written.bits.is_full();
    }

    /// Returns the first group from `group` on that was ever written.
    pub(crate) fn next_written(&self, group: GroupIndex) -> GroupIndex {
        if self.all_written {
            return group;
        }
        self.next_group(&self.written.bits, group)
    }

    /// Counts the regions from `from` on that have a live group selected by `next`. `next` returns
    /// the first selected group from the given one on.
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

    /// Returns the time of the next sweep.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match self.sweep {
            Sweep::Idle | Sweep::Flushing => None,
            Sweep::Wanted => Some(Instant(0)),
            Sweep::At(at) => Some(at),
        }
    }

    /// Returns the block up to which the growth moves: beyond the old end of the array, to the end
    /// of its last region. The rest of that region is zeros from then on, as in any written region.
    pub(crate) fn growth_end(&self, geometry: &Geometry) -> u64 {
        let region = geometry.stripe_blocks() << self.shift();
        let room = self.part_groups().end * geometry.stripe_blocks();
        geometry.blocks().next_multiple_of(region).min(room)
    }
}

/// Marks.
impl Regions {
    /// Returns true if the dirty bit of a region is set on all members.
    #[inline]
    pub(crate) fn is_durably_dirty(&self, region: u64) -> bool {
        self.dirty.bits.get(region) && self.dirty.is_durable(region)
    }

    /// Returns true if a region is dirty in memory.
    pub(crate) fn is_dirty(&self, region: u64) -> bool {
        self.dirty.bits.get(region)
    }

    /// Returns the number of dirty regions.
    pub(crate) fn dirty_count(&self) -> u64 {
        self.dirty.bits.count()
    }

    /// Returns the first group from `group` on whose region is dirty.
    pub(crate) fn next_dirty(&self, group: GroupIndex) -> GroupIndex {
        self.next_group(&self.dirty.bits, group)
    }

    /// Returns true if a region was written since the last sweep.
    #[inline]
    pub(crate) fn is_recent(&self, region: u64) -> bool {
        self.recent.get(region)
    }

    /// Notes a write to a region. Returns true if it is the first since the last sweep.
    pub(crate) fn note_write(&mut self, region: u64) -> bool {
        let is_first = !self.recent.get(region);
        self.recent.set(region);
        is_first
    }

    /// Marks a region dirty for a write. `sweeps`: its bit may be cleared again later.
    pub(crate) fn dirty_for_write(&mut self, region: u64, sweeps: bool) {
        self.dirty.set(region);
        if self.sweep == Sweep::Idle && sweeps {
            self.sweep = Sweep::Wanted;
        }
    }

    /// Marks a region dirty, in which a write is expected.
    pub(crate) fn expect_write(&mut self, region: u64) {
        self.dirty.set(region);
        self.expected.set(region);
    }

    /// Notes that a region is prepared for its first write.
    pub(crate) fn becomes_written(&mut self, region: u64) {
        self.written.set(region);
        self.expect_write(region);
        self.begun.set(region);
    }

    /// Returns true if all members record durably that a region is written.
    pub(crate) fn is_durably_written(&self, region: u64) -> bool {
        self.written.is_durable(region)
    }

    /// Returns true if the members store as it is in memory whether a region is written.
    pub(crate) fn written_is_stored(&self, region: u64) -> bool {
        self.written.is_stored(region)
    }

    /// Completes the bitmaps, which were read.
    pub(crate) fn loaded(&mut self) {
        self.dirty.loaded();
        self.written.loaded();
        self.note_all_written();
    }

    /// Finds the unsettled regions: written regions not known to be settled, and with `dirty_too`
    /// also the dirty regions. Returns true if one is unsettled.
    pub(crate) fn find_unsettled(&mut self, dirty_too: bool) -> bool {
        let dirty = self.dirty.bits.words().iter();
        let words = dirty.zip(self.written.bits.words());
        for (unsettled, (dirty, written)) in self.unsettled.words_mut().iter_mut().zip(words) {
            if dirty_too {
                *unsettled |= dirty;
            }
            *unsettled &= written;
        }
        let places = self.begun.words_mut().iter_mut();
        for (begun, unsettled) in places.zip(self.unsettled.words()) {
            *begun |= unsettled;
        }
        !self.unsettled.is_empty()
    }

    /// Notes that regions are settled: those that end at or below `mark`, or all.
    pub(crate) fn settle(&mut self, mark: Place, all: bool) {
        let mut from = 0;
        while let Some(region) = self.unsettled.next(from) {
            let end = Place::start_of(GroupIndex(self.groups(region).end));
            if all || end <= mark {
                self.unsettled.clear(region);
            }
            from = region + 1;
        }
    }

    /// Gives the regions of the map the bits of the regions `old`, of which `part_of` returns
    /// those that a region includes.
    pub(crate) fn take_in(&mut self, old: Range<u64>, part_of: impl Fn(&Self, u64) -> Range<u64>) {
        self.blank();
        for region in self.part.regions() {
            let included = part_of(self, region);
            let is_in = |bits: &Bits| included.clone().any(|old| bits.get(old));
            let bits = [&self.dirty.bits, &self.written.bits, &self.unsettled];
            let [dirty, written, unsettled] = bits.map(is_in);
            if dirty {
                self.dirty.set(region);
            }
            if written {
                self.written.set(region);
            }
            if unsettled {
                self.unsettled.set(region);
            }
        }
        for region in old {
            self.unsettled.clear(region);
        }
    }
}

/// The sweep.
impl Regions {
    /// Wants a sweep if some region is dirty and settled.
    pub(crate) fn want_sweep(&mut self) {
        let words = self.dirty.bits.words().iter().zip(self.unsettled.words());
        let clearable = words
            .into_iter()
            .any(|(dirty, unsettled)| dirty & !unsettled != 0);
        if self.sweep == Sweep::Idle && clearable {
            self.sweep = Sweep::Wanted;
        }
    }

    /// Returns true if no flush of a sweep is under way.
    pub(crate) fn sweep_is_idle(&self) -> bool {
        self.sweep != Sweep::Flushing
    }

    /// Returns true if a sweep begins now. Otherwise schedules it, if it is wanted.
    pub(crate) fn sweep_is_due(&mut self, now: Instant) -> bool {
        match self.sweep {
            Sweep::Wanted => self.sweep = Sweep::At(now.plus_ns(QUIET_NS)),
            Sweep::At(at) if at <= now => {
                self.sweep = Sweep::Idle;
                return true;
            }
            Sweep::Idle | Sweep::At(_) | Sweep::Flushing => {}
        }
        false
    }

    /// Chooses the regions whose dirty bits to clear: those that were quiet since the last sweep,
    /// and are settled. `busy_too` and `unsettled_too` leave out these conditions.
    pub(crate) fn choose_to_clear(&mut self, busy_too: bool, unsettled_too: bool) {
        let dirty = self.dirty.bits.words();
        let wanted = self.recent.words().iter().zip(self.expected.words());
        let kept = wanted.zip(self.unsettled.words());
        let places = self.clearing.words_mut().iter_mut().zip(dirty);
        for ((clearing, dirty), ((recent, expected), unsettled)) in places.zip(kept) {
            let left = if busy_too {
                u64::MAX
            } else {
                !recent & !expected
            };
            let settled = if unsettled_too { u64::MAX } else { !unsettled };
            *clearing = dirty & settled & left;
        }
        self.recent.clear_all();
        self.expected.clear_all();
    }

    /// Keeps the dirty bit of a group's region, in which a write is under way.
    pub(crate) fn keep_dirty(&mut self, group: GroupIndex) {
        let region = self.of(group);
        self.clearing.clear(region);
        self.recent.set(region);
    }

    /// Returns true if no dirty bit can be cleared.
    pub(crate) fn clears_nothing(&self) -> bool {
        self.clearing.is_empty()
    }

    /// Notes that the flush before the chosen bits are cleared is under way.
    pub(crate) fn sweep_flushes(&mut self) {
        self.sweep = Sweep::Flushing;
    }

    /// Notes the end of that flush.
    pub(crate) fn sweep_flushed(&mut self) {
        self.sweep = Sweep::Idle;
    }

    /// Clears the chosen dirty bits, except those of regions that were written meanwhile.
    /// `busy_too` clears these too.
    pub(crate) fn clear_chosen(&mut self, busy_too: bool) {
        let mut from = 0;
        while let Some(region) = self.clearing.next(from) {
            let again = self.recent.get(region) || self.expected.get(region);
            if !again || busy_too {
                self.dirty.clear(region);
                self.begun.clear(region);
            }
            from = region + 1;
        }
        self.want_sweep();
    }

    /// Clears all dirty bits.
    pub(crate) fn clear_all_dirty(&mut self) {
        let mut from = 0;
        while let Some(region) = self.dirty.bits.next(from) {
            self.dirty.clear(region);
            self.begun.clear(region);
            from = region + 1;
        }
    }
}

/// Releases.
impl Regions {
    /// Queues a finished discard, whose whole regions are to be released.
    pub(crate) fn queue_release(&mut self, request: u32) {
        self.releases.push_back(request);
    }

    /// Returns the discard whose regions are released next.
    pub(crate) fn first_release(&self) -> Option<u32> {
        self.releases.front().copied()
    }

    /// Returns true if a discard waits.
    #[inline]
    pub(crate) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Returns true if a region is being released: no new work begins there.
    pub(crate) fn is_releasing(&self, region: u64) -> bool {
        self.releasing.contains(&region)
    }

    /// Returns true if the regions of the first discard are being released.
    pub(crate) fn has_begun_release(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Begins to release the regions of the first discard. Work under way there ends first.
    pub(crate) fn begin_release(&mut self, regions: Range<u64>) {
        self.releasing = regions;
    }

    /// Returns true if the first discard has regions that count as written.
    pub(crate) fn releases_written(&self) -> bool {
        let mut regions = self.releasing.clone();
        regions.any(|region| self.written.bits.get(region))
    }

    /// Clears the bits of the regions of the first discard.
    pub(crate) fn release(&mut self) {
        for region in self.releasing.clone() {
            self.written.clear(region);
            self.unsettled.clear(region);
            self.released.set(region);
        }
        self.all_written = false;
    }

    /// Returns true if the members store that these regions are released.
    pub(crate) fn release_is_stored(&self) -> bool {
        let mut regions = self.releasing.clone();
        regions.all(|region| self.written.is_stored(region))
    }

    /// Ends the release of the first discard.
    pub(crate) fn end_release(&mut self) {
        self.releasing = 0..0;
        self.releases.pop_front();
    }

    /// Returns true if a region was released since the journal began.
    pub(crate) fn is_released(&self, region: u64) -> bool {
        self.released.get(region)
    }

    /// Returns the regions released since the journal began.
    pub(crate) fn released(&self) -> &Bits {
        &self.released
    }
}

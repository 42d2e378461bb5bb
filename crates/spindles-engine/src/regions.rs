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
//!    └── quiet for a while, nothing in flight, flushed, nobody missing ────┘
//! ```
//!
//! An *unsettled* region is one that a crash left dirty: redundancy in it may disagree with data
//! until the resync was there. Arrays without bitmaps are one region, always written.

use crate::{bitmaps::Bitmap, bits::Bits, index};
use alloc::collections::VecDeque;
use core::ops::Range;
use spindles_block::Instant;
use spindles_layout::GroupIndex;

/// The search for dirty regions that need not be any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
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
    /// What says that their rows are blank is not durable yet: they were first written since the array was
    /// opened, or are not settled. They stay dirty until it is.
    pub(crate) begun: Bits,
    /// Written to since the last sweep.
    pub(crate) recent: Bits,
    /// Marked since then ahead of writes.
    pub(crate) expected: Bits,
    /// What the sweep under way is about to clear.
    pub(crate) clearing: Bits,
    pub(crate) sweep: Sweep,
    /// Discards that are through, and of which whole regions are to be given back, in order.
    pub(crate) releases: VecDeque<u32>,
    /// The regions of the first of them, while it waits for what is in flight there.
    pub(crate) releasing: Range<u64>,
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

    /// Whether the bitmaps are kept on the members.
    #[inline]
    pub(crate) fn are_stored(&self) -> bool {
        self.stored
    }

    /// Whether the members hold what the array holds in this region.
    pub(crate) fn holds(&self, region: u64) -> bool {
        self.written.bits.get(region)
    }

    /// Whether they do, and all of them say so durably.
    pub(crate) fn durably_holds(&self, region: u64) -> bool {
        self.holds(region) && self.written.durable.get(region)
    }

    /// The groups of the map, of the new one while the array grows.
    pub(crate) fn part_groups(&self) -> Range<u64> {
        self.part.groups()
    }

    /// Another device is to be told all of both bitmaps.
    pub(crate) fn tell_all(&mut self) {
        self.dirty.tell_all();
        self.written.tell_all();
    }

    /// Nothing of before is in a log any more that regions which were given back may still meet.
    pub(crate) fn forget_released(&mut self) {
        self.released.clear_all();
    }

    /// The array is of one map from now on, or of two.
    pub(crate) fn set_parts(&mut self, part: Part, older: Option<Part>) {
        (self.part, self.older) = (part, older);
        self.note_all_written();
    }

    /// How many groups a region has, as a power of two.
    pub(crate) fn shift(&self) -> u32 {
        self.part.shift()
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
            self.begun.clear(region);
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

    /// Whether it reads as zeros, and does so after a crash too.
    pub(crate) fn reads_zeros(&self, group: GroupIndex) -> bool {
        !self.is_written(group) && self.written.is_stored(self.of(group))
    }

    /// A member that comes back gets its region anew.
    pub(crate) fn mark_dirty(&mut self, group: GroupIndex) {
        self.dirty.set(self.of(group));
    }

    /// Whether it is given back, and a crash may leave it written still.
    pub(crate) fn is_half_released(&self, group: GroupIndex) -> bool {
        let region = self.of(group);
        let released = self.released.get(region) && !self.written.bits.get(region);
        released && !self.written.is_stored(region)
    }

    /// Whether redundancy may disagree with data there, as far as bitmaps can tell.
    pub(crate) fn is_unsettled(&self, group: GroupIndex) -> bool {
        self.unsettled.get(self.of(group))
    }

    /// From now on it may.
    pub(crate) fn unsettle(&mut self, group: GroupIndex) {
        self.unsettled.set(self.of(group));
    }

    /// Whether what says that rows are blank may not be durable there.
    pub(crate) fn is_begun(&self, group: GroupIndex) -> bool {
        self.begun.get(self.of(group))
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

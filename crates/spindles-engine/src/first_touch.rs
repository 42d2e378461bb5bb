//! Decides how many regions are made ready at once. The first write to a region waits until the
//! region is marked. To keep such waits rare, the regions after it are marked too: as many as
//! writes will reach soon. More regions are marked before writes reach the end of the marked
//! regions.
//!
//! Never-written regions are zeroed ahead of writes only as far as these come in order. Zeroing
//! must also be no work for the members, or save more than it costs: whole rows go to zeros
//! unlogged.
//!
//! ```text
//!  region:    5    6    7    8    9   10   11   12
//!           dirty dirty dirty  -    -    -    -    -
//!             ▲               └───────────────────┘
//!     a write comes here       less than half of what is wanted ahead of it is ready:
//!                              these are made ready meanwhile
//! ```

use core::ops::Range;
use spindles_block::{Instant, MemberIndex, MemberSet, Operation};
#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, vec::Vec};

    const MS: u64 = 1_000_000;

    /// An array of 1000 regions, all written except those from `written` on.
    struct Regions {
        touches: FirstTouch,
        budget: u64,
        written: u64,
        beyond: Ground,
        dirty: BTreeSet<u64>,
    }

    impl Regions {
        fn new(budget: u64) -> Self {
            Self {
                touches: FirstTouch::new(MemberSet::EMPTY, MemberSet::EMPTY),
                budget,
                written: 1000,
                beyond: Ground::Closed,
                dirty: BTreeSet::new(),
            }
        }

        /// Writes to a region. Returns true if the write has to wait.
        fn write(&mut self, ms: u64, region: u64) -> bool {
            let ground = |region| match () {
                () if region >= 1000 => Ground::Closed,
                () if self.dirty.contains(&region) => Ground::Ready,
                () if region >= self.written => self.beyond,
                () => Ground::Clean,
            };
            let dirty = || u64::try_from(self.dirty.len()).expect("64 bits");
            let now = Instant(ms * MS);
            let touches = &mut self.touches;
            let ahead = touches.ahead(now, region, self.budget, dirty, ground);
            assert!(ahead.end <= 1000 && ahead.is_empty() || ahead.start > region);
            self.dirty.extend(ahead);
            self.dirty.insert(region)
        }

        fn dirty(&self) -> Vec<u64> {
            self.dirty.iter().copied().collect()
        }
    }

    #[test]
    fn a_write_by_itself_marks_one_region() {
        let mut regions = Regions::new(100);
        for (at, region) in [30, 20, 31, 21].into_iter().enumerate() {
            let ms = u64::try_from(at).expect("few") * 10_000;
            assert!(regions.write(ms, region));
        }
        assert_eq!(regions.dirty(), [20, 21, 30, 31]);
    }

    #[test]
    fn one_region_after_another_waits_twice() {
        for region_ms in [1, 20, 400] {
            let mut regions = Regions::new(10_000);
            let mut waits = |region| regions.write(region * region_ms, region);
            assert_eq!(
                (0..500).filter(|&region| waits(region)).count(),
                2,
                "{region_ms} ms"
            );
        }
    }

    #[test]
    fn what_is_marked_ahead_is_some_seconds_of_writing() {
        for region_ms in [20, 100, 400] {
            let mut regions = Regions::new(10_000);
            for region in 0..300 {
                regions.write(region * region_ms, region);
                let ahead = regions.dirty.last().expect("one") - region;
                assert!(ahead * region_ms < 4_000, "{ahead} of {region_ms} ms");
            }
        }
    }

    #[test]
    fn first_touches_anywhere_wait_ever_less() {
        let mut regions = Regions::new(10_000);
        let anywhere = |at: u64| (at * 617) % 1000;
        let waits = |at: &u64| regions.write(*at, anywhere(*at));
        let waits = (0..1000).filter(waits).count();
        assert!(waits < 40, "{waits}");
    }

    #[test]
    fn the_budget_is_kept_by_what_no_write_asked_for() {
        let mut regions = Regions::new(40);
        for region in 0..200 {
            regions.write(region, region);
            let asked = u64::try_from(regions.dirty.range(..=region).count()).expect("few");
            let all = u64::try_from(regions.dirty.len()).expect("few");
            assert!(all <= asked.max(40) + 8, "{all} of {asked}");
        }
        // Marking continues when the dirty regions are clean.
        regions.dirty.clear();
        for region in 200..220 {
            regions.write(region, region);
        }
        assert!(regions.dirty.len() > 22);
        let mut none = Regions::new(0);
        assert!((0..100).all(|region| none.write(region, region)));
    }

    #[test]
    fn nothing_is_marked_that_was_never_written() {
        let mut regions = Regions::new(100);
        regions.written = 10;
        for region in 0..10 {
            regions.write(region, region);
        }
        assert_eq!(regions.dirty(), (0..10).collect::<Vec<_>>());
        regions.write(10, 999);
    }

    #[test]
    fn what_was_never_written_is_made_ready_for_who_writes_in_order() {
        let mut regions = Regions::new(10_000);
        (regions.written, regions.beyond) = (0, Ground::New);
        for region in 0..300 {
            let waits = regions.write(region, region);
            assert_eq!(waits, region < 3, "region {region}");
            let last = regions.dirty.last().expect("one");
            assert!(*last <= 2 * region, "no more than came before");
        }
        // No region is made ready for a writer that skips regions, even a fast one.
        let mut regions = Regions::new(10_000);
        (regions.written, regions.beyond) = (0, Ground::New);
        for at in 0..100 {
            regions.write(at, 3 * at);
        }
        assert_eq!(regions.dirty.len(), 100);
    }
}

/// The number of regions doubles if more are made ready within this time.
const SOON_NS: u64 = 500_000_000;

/// The number of regions drops to one after this time: regions made ready ahead were of no use.
const LATE_NS: u64 = 4 * SOON_NS;

/// A sequential writer may exceed the budget by this many regions at most.
const IN_ORDER_MAX: u64 = 8;

/// The state in which the first write to a region finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Ready, or being made ready.
    Ready,
    /// Written before, and not dirty.
    Clean,
    /// Never written, and may be zeroed ahead of writes.
    New,
    /// Not made ready ahead of writes.
    Closed,
}

/// State that determines how many regions are made ready at once.
#[derive(Clone, Debug)]
pub(crate) struct FirstTouch {
    /// The number of regions made ready at once, including the one being written.
    extent: u64,
    /// When regions were last made ready.
    last: Option<Instant>,
    /// Members that write zeros without moving bytes.
    zeroes: MemberSet,
    /// Members that allocate space only for written blocks.
    thin: MemberSet,
    /// True while little space is left for these members.
    space_is_scarce: bool,
}

impl FirstTouch {
    /// Creates the state. `zeroes`: members that write zeros without moving bytes. `thin`: members
    /// that take space only for written blocks.
    pub(crate) const fn new(zeroes: MemberSet, thin: MemberSet) -> Self {
        Self {
            extent: 1,
            last: None,
            zeroes,
            thin,
            space_is_scarce: false,
        }
    }

    /// Returns true if all these members write zeros without moving bytes.
    pub(crate) const fn zeroes_on(&self, members: MemberSet) -> bool {
        members.difference(self.zeroes).is_empty()
    }

    /// Sets whether space is scarce, and returns the previous value.
    pub(crate) const fn set_space_is_scarce(&mut self, is_scarce: bool) -> bool {
        core::mem::replace(&mut self.space_is_scarce, is_scarce)
    }

    /// Returns true if regions may be zeroed ahead of writes.
    pub(crate) const fn may_zero_ahead(&self) -> bool {
        !self.space_is_scarce
    }

    /// Returns the operation with which a member zeroes never-written blocks. A discard gives back
    /// the space that was reserved for them, so scarce space needs zeros.
    pub(crate) const fn zeroes_by(&self, member: MemberIndex) -> Operation {
        if self.thin.contains(member) && !self.space_is_scarce {
            Operation::Discard
        } else {
            Operation::WriteZeroes { fua: false }
        }
    }

    /// Returns true if all these members take space only for written blocks.
    pub(crate) const fn are_thin(&self, members: MemberSet) -> bool {
        members.difference(self.thin).is_empty()
    }

    /// Forgets the properties of a member whose device was replaced: those of the new device are
    /// unknown.
    pub(crate) const fn has_another(&mut self, member: MemberIndex) {
        self.zeroes = self.zeroes.without(member);
        self.thin = self.thin.without(member);
    }

    /// Returns the number of regions to make ready now.
    fn grow(&mut self, now: Instant, extent_max: u64) -> u64 {
        let ago = self.last.map(|last| now.0.saturating_sub(last.0));
        self.last = Some(now);
        self.extent = match ago {
            Some(..=SOON_NS) => 2 * self.extent,
            Some(..=LATE_NS) => self.extent,
            _ => 1,
        };
        self.extent = self.extent.min(extent_max).max(1);
        self.extent
    }

    /// Returns the regions after `region` to make ready now, when a write comes to `region`.
    /// `dirty` returns the number of dirty regions, `ground` the state of a region.
    pub(crate) fn ahead(
        &mut self,
        now: Instant,
        region: u64,
        budget: u64,
        dirty: impl FnOnce() -> u64,
        ground: impl Fn(u64) -> Ground,
    ) -> Range<u64> {
        let none = region..region;
        let mut near = region..region + self.extent / 2 + 1;
        let first = near.find(|&region| ground(region) != Ground::Ready);
        let Some(first) = first.filter(|&first| ground(first) != Ground::Closed && budget > 0)
        else {
            return none;
        };
        // As many regions as were written in order are likely to follow.
        let ready = |region: &u64| ground(*region) == Ground::Ready;
        let before = (0..region).rev().take_while(ready);
        let before = (0..2 * self.extent).zip(before).count();
        let in_order = u64::try_from(before).expect("64 bits");
        if ground(first) == Ground::New && 2 * (first - region) > in_order {
            return none;
        }
        let extent = self.grow(now, budget / 4);
        let room = budget.saturating_sub(dirty());
        let first = first.max(region + 1);
        // A sequential writer may exceed the budget a little.
        let last = first
            .saturating_add(room)
            .max(region + in_order.min(IN_ORDER_MAX));
        let last = last.min(region + extent);
        let is_end = |at: &u64| match ground(*at) {
            Ground::Ready | Ground::Clean => false,
            Ground::New => *at >= region + in_order,
            Ground::Closed => true,
        };
        let end = (first..last).find(is_end);
        first..end.unwrap_or(last).max(first)
    }
}

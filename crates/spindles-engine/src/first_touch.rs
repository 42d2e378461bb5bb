//! The first write to a region waits until the region is marked. So that few do, the regions after it
//! are marked with it, as many as writes come to soon, and more of them before writes get there.
//! What was never written is made zeros ahead of writes only as far as these come in order, and where
//! that is no work for the members or spares more of it: whole rows go to zeros unlogged.
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

    /// An array of 1000 regions of which all are written but those from `written` on.
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

        /// Whether a write to a region has to wait.
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
        // And goes on when what was dirty is clean.
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
        // Nothing for others, who write as fast.
        let mut regions = Regions::new(10_000);
        (regions.written, regions.beyond) = (0, Ground::New);
        for at in 0..100 {
            regions.write(at, 3 * at);
        }
        assert_eq!(regions.dirty.len(), 100);
    }
}

/// Regions are made ready so soon one after the other that more at once would serve.
const SOON_NS: u64 = 500_000_000;

/// So late that what was made ready ahead was of no use.
const LATE_NS: u64 = 4 * SOON_NS;

/// So many regions one after another tell enough of a writer.
const IN_ORDER_MAX: u64 = 8;

/// What the first write to a region finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Nothing to wait for, or that is on its way.
    Ready,
    /// It holds something, and is not dirty.
    Clean,
    /// It was never written, and can be made zeros ahead of writes.
    New,
    /// It is not made ready ahead of writes.
    Closed,
}

/// How many regions are made ready at once.
#[derive(Clone, Debug)]
pub(crate) struct FirstTouch {
    /// So many, the one that is written to among them.
    extent: u64,
    /// When that was done last.
    last: Option<Instant>,
    /// Members that write zeros without moving bytes.
    zeroes: MemberSet,
    /// Members that take space only for what is written.
    thin: MemberSet,
}

impl FirstTouch {
    /// Those members write zeros without moving bytes, and those take space only for what is written.
    pub(crate) const fn new(zeroes: MemberSet, thin: MemberSet) -> Self {
        Self {
            extent: 1,
            last: None,
            zeroes,
            thin,
        }
    }

    /// Whether these members all do.
    pub(crate) const fn zeroes_on(&self, members: MemberSet) -> bool {
        members.difference(self.zeroes).is_empty()
    }

    /// How a member makes zeros of what was never written.
    pub(crate) const fn zeroes_by(&self, member: MemberIndex) -> Operation {
        if self.thin.contains(member) {
            Operation::Discard
        } else {
            Operation::WriteZeroes { fua: false }
        }
    }

    /// Whether these members all take space only for what is written.
    pub(crate) const fn are_thin(&self, members: MemberSet) -> bool {
        members.difference(self.thin).is_empty()
    }

    /// A member has another device, of which that is not known.
    pub(crate) const fn has_another(&mut self, member: MemberIndex) {
        self.zeroes = self.zeroes.without(member);
        self.thin = self.thin.without(member);
    }

    /// Regions are about to be made ready: how many.
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

    /// Which of the regions after `region`, to which a write comes, are to be made ready now.
    /// `dirty` says how many are, `ground` what a write would find.
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
        // As many as were written in order are likely to come.
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
        // Who writes in order gets a little beyond the budget too.
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

//! Regions being prepared for their first write, and the queue of regions to prepare.
//!
//! ```text
//!            asked                 no more regions,
//!  Idle ─────────────▶ Preparing ──something written──▶ Flushing
//!   ▲ ▲                 ▲  │ │                             │
//!   │ │                 └──┘ │ nothing written             │ flushed
//!   │ │               next   ▼                             │
//!   │ └─────ready────── finish the regions ◀───────────────┘
//!   │                     │          ▲
//!   │  must come before   ▼          │ durable
//!   │                    Held ───────┘
//! ```

use crate::{
    bits::{Bits, FewBits},
    checksums::ROWS_MAX,
    index,
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::{mem::take, ops::Range};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_layout::{Geometry, Group, GroupIndex};

/// The most regions that are zeroed together while no write waits for them. This limits the wait of
/// a write that comes meanwhile.
const AHEAD_AT_ONCE: u64 = 4;

/// How the rows of a region are prepared for its first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Zeros,
    /// Their checksums are removed, and no blocks are written.
    Blank,
}

/// The stage of the current regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Members prepare the current regions. This many have not finished.
    Preparing {
        pending: u32,
    },
    Flushing,
    /// Waiting until the journal holds nothing of the regions, or superblocks are durable.
    Held,
}

/// An event of the preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A region was asked for.
    Asked,
    /// This many members prepare the regions of `Action::Prepare`.
    Begun(u32),
    /// One more member has prepared the current regions.
    MemberDone,
    /// The flush has ended.
    Flushed,
    /// The journal's old records are void, or superblocks are durable.
    Durable,
    /// The regions of `Action::Finish` are ready.
    Ready,
}

/// The reply to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for the next event.
    Wait,
    /// Let all members prepare these regions.
    Prepare(Range<u64>),
    /// Flush all members.
    Flush,
    /// Mark the regions as written, or hold them.
    Finish,
}

/// The array's ways to prepare a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// The rows of regions that a write waits for become blank.
    pub(crate) blank: bool,
    /// Zeros are no work for the members.
    pub(crate) free: bool,
}

/// Rows that a member is zeroing.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The first row, in the member's data area.
    first: BlockIndex,
    blocks: u32,
    /// Number of rows with their new checksums set.
    summed: u32,
}

/// Regions being prepared for their first write.
#[derive(Clone, Debug)]
pub(crate) struct Zeroing {
    stage: Stage,
    /// Regions that were asked for and are not ready.
    asked: Bits,
    /// Regions not begun yet that a write waits for, in order.
    waiting: VecDeque<u64>,
    /// Regions not begun yet that no write waits for.
    ahead: FewBits,
    /// True if a write waits for a region that is being zeroed, or that waits for the flush.
    hurry: bool,
    /// How the current rows are prepared.
    rows: Rows,
    /// True if anything was written since the last flush.
    changed: bool,
    /// The groups left of the current regions, on each member.
    left: Vec<Range<u64>>,
    /// The rows that each member is zeroing, in its data area.
    runs: Vec<Run>,
    /// The current regions.
    regions: Range<u64>,
    /// Regions that are prepared and wait for the flush.
    zeroed: FewBits,
    group: Group,
}

impl Zeroing {
    pub(crate) fn new(regions: u64, members: u8, ranges: u32) -> Self {
        Self {
            stage: Stage::Idle,
            asked: Bits::new(regions, false),
            waiting: VecDeque::with_capacity(index(ranges)),
            ahead: FewBits::new(regions),
            hurry: false,
            rows: Rows::Zeros,
            changed: false,
            left: vec![0..0; usize::from(members)],
            runs: vec![Run::default(); usize::from(members)],
            regions: 0..0,
            zeroed: FewBits::new(regions),
            group: Group::empty(),
        }
    }

    /// Handles an event.
    pub(crate) fn step(&mut self, input: Input, ways: Ways) -> Action {
        match (self.stage, input) {
            (Stage::Idle, Input::Asked | Input::Ready) => self.next(ways),
            (Stage::Preparing { .. }, Input::Begun(0))
            | (Stage::Preparing { pending: 1 }, Input::MemberDone) => {
                for region in take(&mut self.regions) {
                    self.zeroed.set(region);
                }
                self.next(ways)
            }
            (Stage::Preparing { .. }, Input::Begun(pending)) => {
                self.stage = Stage::Preparing { pending };
                Action::Wait
            }
            (Stage::Preparing { pending }, Input::MemberDone) => {
                let pending = pending - 1;
                self.stage = Stage::Preparing { pending };
                Action::Wait
            }
            (Stage::Flushing, Input::Flushed) | (Stage::Held, Input::Durable) => {
                self.stage = Stage::Idle;
                Action::Finish
            }
            (_, Input::Asked | Input::Durable) => Action::Wait,
            (stage, input) => panic!("{input:?} in stage {stage:?} of a preparation"),
        }
    }

    /// Begins the next regions, or makes the prepared ones durable.
    fn next(&mut self, ways: Ways) -> Action {
        self.stage = Stage::Idle;
        if let Some(regions) = self.next_regions(ways) {
            self.regions = regions.clone();
            self.stage = Stage::Preparing { pending: 0 };
            return Action::Prepare(regions);
        }
        if self.zeroed.is_empty() {
            return Action::Wait;
        }
        if !take(&mut self.changed) {
            return Action::Finish;
        }
        self.stage = Stage::Flushing;
        Action::Flush
    }

    /// Returns the next regions to prepare. While a write waits, only regions that writes wait for.
    fn next_regions(&mut self, ways: Ways) -> Option<Range<u64>> {
        self.rows = Rows::Zeros;
        if let Some(region) = self.waiting.pop_front() {
            self.hurry = true;
            if ways.blank {
                self.rows = Rows::Blank;
            }
            return Some(region..region + 1);
        }
        let first = self.ahead.first().filter(|_| !self.hurry)?;
        let at_once = if ways.free { AHEAD_AT_ONCE } else { 1 };
        let mut end = first;
        while end < first + at_once && self.ahead.first() == Some(end) {
            self.ahead.clear(end);
            end += 1;
        }
        Some(first..end)
    }

    /// Holds the regions of `Action::Finish` until `Input::Durable`.
    pub(crate) fn hold(&mut self) {
        assert_eq!(self.stage, Stage::Idle, "regions to finish");
        self.stage = Stage::Held;
    }

    /// Takes the next region that is ready; `None` after the last.
    pub(crate) fn take_ready(&mut self) -> Option<u64> {
        self.hurry = false;
        let region = self.zeroed.first()?;
        self.zeroed.clear(region);
        self.asked.clear(region);
        Some(region)
    }

    /// Returns true if a prepared region is in `bits`.
    pub(crate) fn prepared_any_of(&self, bits: &Bits) -> bool {
        self.zeroed.iter().any(|region| bits.get(region))
    }

    // ---- the queue ----------------------------------------------------------------------------

    /// Asks for a never-written region for which a write waits. Returns false if the region is
    /// queued for a write, or begun.
    pub(crate) fn ask(&mut self, region: u64) -> bool {
        let is_begun = self.asked.get(region) && !self.ahead.get(region);
        if is_begun {
            self.hurry |= !self.waiting.contains(&region);
            return false;
        }
        self.ahead.clear(region);
        self.asked.set(region);
        self.waiting.push_back(region);
        true
    }

    /// Asks for a never-written region in which a write is expected.
    pub(crate) fn want_ahead(&mut self, region: u64) {
        self.asked.set(region);
        self.ahead.set(region);
    }

    /// Forgets the regions not begun yet that no write waits for.
    pub(crate) fn forget_ahead(&mut self) {
        while let Some(region) = self.ahead.first() {
            self.ahead.clear(region);
            self.asked.clear(region);
        }
    }

    /// Returns true if the preparation of this region is queued or running.
    pub(crate) fn is_asked(&self, region: u64) -> bool {
        self.asked.get(region)
    }

    /// Returns true if the next region can begin.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Returns true if nothing is under way, and no write waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.may_begin() && self.waiting.is_empty()
    }

    // ---- rows of the members ------------------------------------------------------------------

    /// Lets each member prepare the rows of these groups.
    pub(crate) fn begin_rows(&mut self, groups: &Range<u64>) {
        self.left.fill(groups.clone());
    }

    /// Finds the next run of a member's rows: at most `blocks_max`, unless a single chunk is
    /// longer. The first `held_rows(group, rows)` of a group already have contents. Returns false
    /// if no rows are left.
    pub(crate) fn next_run(
        &mut self,
        member: MemberIndex,
        geometry: &Geometry,
        blocks_max: u32,
        held_rows: impl Fn(GroupIndex, u32) -> u32,
    ) -> bool {
        let at = usize::from(member.0);
        let left = self.left[at].clone();
        let mut run: Option<(BlockIndex, u32)> = None;
        let mut next = left.start;
        while next < left.end {
            geometry.group_into(GroupIndex(next), &mut self.group);
            let group = &self.group;
            let held = held_rows(GroupIndex(next), group.blocks);
            let left = group.blocks - held;
            let mut slots = group.slots().iter().filter(|_| left > 0);
            let slot = slots.find(|slot| slot.member == member);
            let start = slot.map(|slot| slot.offset.plus(u64::from(held)));
            match (start, &mut run) {
                (None, _) => {}
                (Some(start), None) => run = Some((start, left)),
                (Some(start), Some((first, blocks)))
                    if start == first.plus(u64::from(*blocks)) && *blocks + left <= blocks_max =>
                {
                    *blocks += left;
                }
                (Some(_), Some(_)) => break,
            }
            next += 1;
        }
        self.left[at].start = next;
        let Some((first, blocks)) = run else {
            return false;
        };
        self.runs[at] = Run {
            first,
            blocks,
            summed: 0,
        };
        true
    }

    /// Returns the first row and the number of rows that a member is zeroing.
    pub(crate) fn run(&self, member: MemberIndex) -> (BlockIndex, u32) {
        let run = &self.runs[usize::from(member.0)];
        (run.first, run.blocks)
    }

    /// Returns the rows that a member is zeroing whose checksums come next.
    pub(crate) fn next_checksums(&self, member: usize) -> (BlockIndex, u32) {
        let run = &self.runs[member];
        let first = run.first.plus(u64::from(run.summed));
        (first, ROWS_MAX.min(run.blocks - run.summed))
    }

    /// Notes that the next checksums are set. Returns true if they were the last of the run.
    pub(crate) fn checksums_are_set(&mut self, member: MemberIndex) -> bool {
        let at = usize::from(member.0);
        let (_, blocks) = self.next_checksums(at);
        let run = &mut self.runs[at];
        run.summed += blocks;
        run.summed == run.blocks
    }

    /// Returns true if the current rows become blank.
    pub(crate) fn makes_blank(&self) -> bool {
        self.rows == Rows::Blank
    }

    /// Returns the number of data chunks of the current groups.
    pub(crate) fn data_chunks(&self) -> u8 {
        self.group.data_chunks
    }

    /// Notes that something was written that needs a flush.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_layout::{Level, Spec};

    const BLANK: Ways = Ways {
        blank: true,
        free: false,
    };
    const ZEROS: Ways = Ways {
        blank: false,
        free: false,
    };
    const FREE: Ways = Ways {
        blank: false,
        free: true,
    };

    fn zeroing() -> Zeroing {
        Zeroing::new(16, 3, 4)
    }

    /// Asks for a region for a write, and lets two members prepare it.
    fn prepares(zeroing: &mut Zeroing, region: u64) {
        assert!(zeroing.ask(region));
        let prepare = Action::Prepare(region..region + 1);
        assert_eq!(zeroing.step(Input::Asked, ZEROS), prepare);
        assert_eq!(zeroing.step(Input::Begun(2), ZEROS), Action::Wait);
    }

    fn ready(zeroing: &mut Zeroing) -> Vec<u64> {
        core::iter::from_fn(|| zeroing.take_ready()).collect()
    }

    #[test]
    fn a_region_is_ready_when_all_members_are_flushed() {
        let mut zeroing = zeroing();
        prepares(&mut zeroing, 3);
        zeroing.note_change();
        assert_eq!(zeroing.step(Input::MemberDone, ZEROS), Action::Wait);
        assert_eq!(zeroing.step(Input::MemberDone, ZEROS), Action::Flush);
        assert!(!zeroing.is_idle() && zeroing.is_asked(3));
        assert_eq!(zeroing.step(Input::Flushed, ZEROS), Action::Finish);
        assert_eq!(ready(&mut zeroing), [3]);
        assert_eq!(zeroing.step(Input::Ready, ZEROS), Action::Wait);
        assert!(zeroing.is_idle() && !zeroing.is_asked(3));
    }

    #[test]
    fn regions_that_are_asked_for_meanwhile_share_the_flush() {
        let mut zeroing = zeroing();
        prepares(&mut zeroing, 3);
        zeroing.note_change();
        assert!(zeroing.ask(9));
        assert!(
            !zeroing.ask(9) && !zeroing.ask(3),
            "both are queued or begun"
        );
        assert_eq!(zeroing.step(Input::Asked, ZEROS), Action::Wait);
        zeroing.step(Input::MemberDone, ZEROS);
        let next = zeroing.step(Input::MemberDone, ZEROS);
        assert_eq!(next, Action::Prepare(9..10));
        assert_eq!(zeroing.step(Input::Begun(0), ZEROS), Action::Flush);
        assert_eq!(zeroing.step(Input::Flushed, ZEROS), Action::Finish);
        assert_eq!(ready(&mut zeroing), [3, 9]);
    }

    #[test]
    fn nothing_is_flushed_if_nothing_was_written() {
        let mut zeroing = zeroing();
        assert!(zeroing.ask(3));
        let prepare = zeroing.step(Input::Asked, BLANK);
        assert_eq!(
            (prepare, zeroing.makes_blank()),
            (Action::Prepare(3..4), true)
        );
        assert_eq!(zeroing.step(Input::Begun(0), BLANK), Action::Finish);
    }

    #[test]
    fn held_regions_are_finished_again_when_that_is_durable() {
        let mut zeroing = zeroing();
        assert_eq!(zeroing.step(Input::Durable, ZEROS), Action::Wait);
        assert!(zeroing.ask(3));
        zeroing.step(Input::Asked, ZEROS);
        assert_eq!(zeroing.step(Input::Begun(0), ZEROS), Action::Finish);
        zeroing.hold();
        assert!(zeroing.ask(9));
        assert_eq!(zeroing.step(Input::Asked, ZEROS), Action::Wait);
        assert_eq!(zeroing.step(Input::Durable, ZEROS), Action::Finish);
        assert_eq!(ready(&mut zeroing), [3]);
        assert_eq!(zeroing.step(Input::Ready, ZEROS), Action::Prepare(9..10));
    }

    #[test]
    fn regions_ahead_wait_for_writes() {
        let mut zeroing = zeroing();
        for region in [4, 5, 6, 7, 8, 10] {
            zeroing.want_ahead(region);
        }
        prepares(&mut zeroing, 3);
        zeroing.step(Input::MemberDone, FREE);
        assert_eq!(zeroing.step(Input::MemberDone, FREE), Action::Finish);
        assert_eq!(ready(&mut zeroing), [3]);
        assert_eq!(zeroing.step(Input::Ready, FREE), Action::Prepare(4..8));
        assert_eq!(zeroing.step(Input::Begun(0), FREE), Action::Prepare(8..9));
        zeroing.forget_ahead();
        assert!(!zeroing.is_asked(10) && zeroing.is_asked(8));
        assert_eq!(zeroing.step(Input::Begun(0), FREE), Action::Finish);
    }

    #[test]
    fn a_run_is_as_long_as_rows_follow_each_other() {
        let spec = Spec {
            level: Level::by_name("raid5").expect("a row of the table"),
            layout: None,
            chunk_blocks: 2,
            member_blocks: vec![64; 3],
        };
        let geometry = Geometry::new(&spec).expect("a legal array");
        let member = MemberIndex(1);
        let mut zeroing = zeroing();
        zeroing.begin_rows(&(0..8));
        let mut runs = Vec::new();
        while zeroing.next_run(member, &geometry, 10, |group, _| u32::from(group.0 == 0)) {
            let (first, blocks) = zeroing.run(member);
            runs.push((first.0, blocks));
        }
        assert_eq!(runs, [(1, 9), (10, 6)]);
    }
}

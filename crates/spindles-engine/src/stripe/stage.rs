//! The stages of a stripe range, each with its own data, and the moves between them.
//!
//! Before the commit a stripe range moves back and forth between the stages of planning: it may
//! have to wait, to read more, or to start again under a lock. From the commit on it moves forward,
//! except that the log may lose a batch, or end. When its rows are done, the next rows begin.
//!
//! ```text
//!  Free ──▶ Starting ⇄ Locking ⇄ Preparing ⇄ Paging ⇄ Reading ⇄ Computing
//!    │  ▲      ▲         └▶ Merged ─▶ Free                          │
//!    ▼  │      └───────────the next rows──────┐                     ▼
//!  Direct ⇄ DirectPaging                Acknowledging ◀─ (Flushing) ◀─ Placing ◀─ Begin, Agree
//!    └─▶ Verifying
//!
//!  Begin ─┬──────────────────────────────────────────────────────────────────────────▶ Placing
//!         └▶ Checksumming ─┬▶ Summed ────────────────────────────────────────────────▶ Placing
//!                          └▶ Queued ⇄ Logging ─▶ Logged ─┬──────────────────────────▶ Placing
//!                                                         └▶ Keeping ─▶ Kept ────────▶ Placing
//! ```
//!
//! `docs/design/states.md` lists all moves.

use crate::plan::Step;

/// Progress of a stripe range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    Starting,
    /// One operation on one member, without a plan.
    Direct,
    /// Loading the checksum pages for such a read.
    DirectPaging,
    /// Computing the checksums of blocks that such a read brought.
    Verifying,
    /// Copying staged contents to a client.
    Covered,
    /// Copying the contents of a write to the memory of the stage.
    Copying,
    /// Computing the checksums of the copied contents.
    Summing,
    /// Waits until its batch is on the holders.
    Staged,
    /// Merged into another stripe range, which does the work.
    Merged,
    Locking,
    /// Waiting for its region, the superblocks or the bad-block list: see `WaitFor`.
    Preparing,
    /// Loading pages of checksums.
    Paging,
    /// `failed`: one of the reads failed.
    Reading {
        failed: bool,
    },
    /// Computing something before the commit.
    Computing(Step),
    /// The commit point. Waits until the rows may be written.
    Begin,
    /// Like `Begin`, with blocks that settle the rows.
    Agree,
    /// Computing the checksums of the new blocks. Then the blocks are logged if `logs`.
    Checksumming {
        logs: bool,
    },
    /// The checksums are known, and the blocks need no log. Waits like `Begin`.
    Summed,
    /// Waits for the next batch of the log.
    Queued,
    /// In a batch, which is written to this segment of the log.
    Logging {
        segment: u8,
    },
    /// The blocks are durable in the log. Waits until they may go to their places.
    Logged {
        segment: u8,
    },
    /// Copying the client's data to scratch space.
    Keeping {
        segment: u8,
    },
    /// The client is answered. Waits until the blocks may go to their places.
    Kept {
        segment: u8,
    },
    /// Writing the blocks to their places.
    Placing(Way),
    Flushing(Past),
    Acknowledging(Past),
}

/// How blocks get to their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// No blocks were written.
    Nothing,
    /// Directly.
    Unlogged,
    /// After they are durable in this segment of the log.
    Logged { segment: u8 },
    /// Directly: they settle rows after a crash.
    Settled,
}

/// What a stripe range wrote before its acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) way: Way,
    /// True if blocks that it wrote are in the list of bad blocks.
    pub(crate) was_bad: bool,
}

impl Past {
    /// It wrote nothing.
    pub(crate) const NOTHING: Self = Self {
        way: Way::Nothing,
        was_bad: false,
    };
}

/// A stage without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Free,
    Starting,
    Direct,
    DirectPaging,
    Verifying,
    Covered,
    Copying,
    Summing,
    Staged,
    Merged,
    Locking,
    Preparing,
    Paging,
    Reading,
    Computing,
    Begin,
    Agree,
    Checksumming,
    Summed,
    Queued,
    Logging,
    Logged,
    Keeping,
    Kept,
    Placing,
    Flushing,
    Acknowledging,
}

impl Kind {
    const ALL: [Self; 27] = [
        Self::Free,
        Self::Starting,
        Self::Direct,
        Self::DirectPaging,
        Self::Verifying,
        Self::Covered,
        Self::Copying,
        Self::Summing,
        Self::Staged,
        Self::Merged,
        Self::Locking,
        Self::Preparing,
        Self::Paging,
        Self::Reading,
        Self::Computing,
        Self::Begin,
        Self::Agree,
        Self::Checksumming,
        Self::Summed,
        Self::Queued,
        Self::Logging,
        Self::Logged,
        Self::Keeping,
        Self::Kept,
        Self::Placing,
        Self::Flushing,
        Self::Acknowledging,
    ];

    /// Returns the stages that may follow.
    const fn next(self) -> Kinds {
        use Kind::{
            Acknowledging, Agree, Begin, Checksumming, Computing, Copying, Covered, Direct,
            DirectPaging, Flushing, Free, Keeping, Kept, Locking, Logged, Logging, Merged, Paging,
            Placing, Preparing, Queued, Reading, Staged, Starting, Summed, Summing, Verifying,
        };
        match self {
            Free => {
                let staged = [Covered, Copying, Staged];
                Kinds::of(&[Free, Starting, Direct, Paging, Flushing]).with(&staged)
            }
            Direct => Kinds::of(&[Free, Starting, Direct, DirectPaging, Verifying]),
            DirectPaging => Kinds::of(&[Starting, Direct]),
            Verifying => Kinds::of(&[Free, Starting]),
            Covered | Merged => Kinds::of(&[Free]),
            Copying => Kinds::of(&[Summing]),
            Summing => Kinds::of(&[Staged]),
            Starting | Preparing | Paging => PLANNED,
            Locking => PLANNED.without(Locking).with(&[Merged]),
            // The replay places the blocks that it read.
            Reading => PLANNED.with(&[Placing]),
            Computing => PLANNED.with(&[Agree, Queued, Placing, Flushing]),
            Begin => Kinds::of(&[Free, Checksumming, Queued, Placing, Acknowledging]),
            Agree | Kept => Kinds::of(&[Placing, Acknowledging]),
            Checksumming => Kinds::of(&[Begin, Summed, Queued]),
            Summed => Kinds::of(&[Checksumming, Queued, Placing, Acknowledging]),
            Queued => Kinds::of(&[Begin, Logging]),
            Logging => Kinds::of(&[Queued, Logged]),
            Logged => Kinds::of(&[Free, Keeping, Placing, Acknowledging]),
            Keeping => Kinds::of(&[Logged, Kept]),
            Placing => Kinds::of(&[Free, Paging, Flushing, Acknowledging]),
            Staged | Flushing => Kinds::of(&[Acknowledging]),
            Acknowledging => PLANNED.with(&[Flushing]),
        }
    }
}

/// A set of stages.
#[derive(Clone, Copy)]
struct Kinds(u32);

/// The stages to which planning leads, from any stage.
const PLANNED: Kinds = Kinds::of(&[
    Kind::Free,
    Kind::Locking,
    Kind::Preparing,
    Kind::Paging,
    Kind::Reading,
    Kind::Computing,
    Kind::Begin,
    Kind::Acknowledging,
]);

impl Kinds {
    const fn of(kinds: &[Kind]) -> Self {
        Self(0).with(kinds)
    }

    const fn with(self, kinds: &[Kind]) -> Self {
        let mut set = self.0;
        let mut at = 0;
        while at < kinds.len() {
            set |= 1 << kinds[at] as u32;
            at += 1;
        }
        Self(set)
    }

    const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u32))
    }

    const fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }
}

/// The predecessors of each stage.
const BEFORE: [Kinds; Kind::ALL.len()] = {
    let mut before = [Kinds(0); Kind::ALL.len()];
    let mut from = 0;
    while from < Kind::ALL.len() {
        let mut to = 0;
        while to < Kind::ALL.len() {
            if Kind::ALL[from].next().contains(Kind::ALL[to]) {
                before[to] = before[to].with(&[Kind::ALL[from]]);
            }
            to += 1;
        }
        from += 1;
    }
    before
};

impl Stage {
    #[inline]
    const fn kind(self) -> Kind {
        match self {
            Self::Free => Kind::Free,
            Self::Starting => Kind::Starting,
            Self::Direct => Kind::Direct,
            Self::DirectPaging => Kind::DirectPaging,
            Self::Verifying => Kind::Verifying,
            Self::Covered => Kind::Covered,
            Self::Copying => Kind::Copying,
            Self::Summing => Kind::Summing,
            Self::Staged => Kind::Staged,
            Self::Merged => Kind::Merged,
            Self::Locking => Kind::Locking,
            Self::Preparing => Kind::Preparing,
            Self::Paging => Kind::Paging,
            Self::Reading { .. } => Kind::Reading,
            Self::Computing(_) => Kind::Computing,
            Self::Begin => Kind::Begin,
            Self::Agree => Kind::Agree,
            Self::Checksumming { .. } => Kind::Checksumming,
            Self::Summed => Kind::Summed,
            Self::Queued => Kind::Queued,
            Self::Logging { .. } => Kind::Logging,
            Self::Logged { .. } => Kind::Logged,
            Self::Keeping { .. } => Kind::Keeping,
            Self::Kept { .. } => Kind::Kept,
            Self::Placing(_) => Kind::Placing,
            Self::Flushing(_) => Kind::Flushing,
            Self::Acknowledging(_) => Kind::Acknowledging,
        }
    }

    /// Returns true if `next` may follow.
    #[inline]
    pub(super) const fn may_become(self, next: Self) -> bool {
        BEFORE[next.kind() as usize].contains(self.kind())
    }

    /// Panics, because `next` may not follow.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(self, next: Self) -> ! {
        panic!("a range went from {self:?} to {next:?}");
    }

    /// Returns the step that is being computed; `None` if nothing is.
    #[inline]
    pub(crate) const fn step(self) -> Option<Step> {
        match self {
            Self::Computing(step) => Some(step),
            Self::Verifying => Some(Step::Verify),
            Self::Checksumming { .. } | Self::Summing => Some(Step::Checksum),
            Self::Keeping { .. } | Self::Covered | Self::Copying => Some(Step::Keep),
            _ => None,
        }
    }

    /// Returns true while blocks are written to their places.
    pub(crate) const fn is_placing(self) -> bool {
        matches!(self, Self::Placing(_))
    }

    /// Returns how blocks get, or got, to their places.
    #[inline]
    pub(crate) const fn way(self) -> Way {
        match self {
            Self::Logging { segment }
            | Self::Logged { segment }
            | Self::Keeping { segment }
            | Self::Kept { segment } => Way::Logged { segment },
            Self::Placing(way) => way,
            Self::Agree => Way::Settled,
            Self::Begin | Self::Checksumming { .. } | Self::Summed | Self::Queued => Way::Unlogged,
            Self::Flushing(past) | Self::Acknowledging(past) => past.way,
            _ => Way::Nothing,
        }
    }

    /// Returns the segment of the log that holds the blocks; `None` if they are not logged.
    #[inline]
    pub(crate) const fn segment(self) -> Option<u8> {
        match self.way() {
            Way::Logged { segment } => Some(segment),
            _ => None,
        }
    }

    /// Returns the state of a write for its acknowledgment.
    #[inline]
    pub(crate) const fn past(self) -> Past {
        match self {
            Self::Flushing(past) | Self::Acknowledging(past) => past,
            _ => Past {
                way: self.way(),
                was_bad: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripe::StripeRange;
    use std::{format, string::String, vec, vec::Vec};

    /// Checks the moves from every stage against the table in the document.
    #[test]
    fn the_drawn_stages_are_those_of_a_stripe_range() {
        let name = |kind: Kind| match kind {
            Kind::DirectPaging => String::from("direct paging"),
            kind => format!("{kind:?}").to_lowercase(),
        };
        let names = |kinds: Kinds| {
            let kinds = Kind::ALL.into_iter().filter(|&kind| kinds.contains(kind));
            kinds.map(name).collect::<Vec<String>>()
        };
        let row = |from: Kind| {
            let Kinds(next) = from.next();
            let planned = next & PLANNED.0 == PLANNED.0;
            let mut others = names(Kinds(if planned { next & !PLANNED.0 } else { next }));
            if planned {
                others.insert(0, String::from("*planned*"));
            }
            format!("| {} | {} |", name(from), others.join(", "))
        };
        let mut rows = vec![format!("| *planned* | {} |", names(PLANNED).join(", "))];
        rows.extend(Kind::ALL.map(row));
        let document = include_str!("../../../../docs/design/states.md");
        let table = document
            .lines()
            .skip_while(|line| !line.starts_with("| stage"));
        let drawn: Vec<&str> = table
            .take_while(|line| line.starts_with('|'))
            .skip(2)
            .collect();
        assert_eq!(drawn, rows, "docs/design/states.md:\n{}", rows.join("\n"));
    }

    #[test]
    #[should_panic(expected = "a range went from Flushing")]
    fn a_stage_that_may_not_follow_is_refused() {
        let mut range = StripeRange::free(crate::plan::Shape {
            slots: 3,
            data: 2,
            copies: false,
        });
        range.move_to(Stage::Flushing(Past::NOTHING));
        range.move_to(Stage::Placing(Way::Unlogged));
    }

    /// From the commit on, each stage knows the segment of the log that holds the blocks.
    #[test]
    fn a_logged_write_keeps_its_segment_until_the_blocks_are_in_place() {
        let mut range = StripeRange::free(crate::plan::Shape {
            slots: 3,
            data: 2,
            copies: false,
        });
        let segment = 1;
        range.move_to(Stage::Starting);
        range.move_to(Stage::Begin);
        range.move_to(Stage::Checksumming { logs: true });
        range.move_to(Stage::Queued);
        assert!(!range.is_logged());
        range.move_to(Stage::Logging { segment });
        range.is_committed();
        assert_eq!(range.stage(), Stage::Logged { segment });
        range.move_to(Stage::Placing(range.stage().way()));
        range.move_to(Stage::Acknowledging(range.stage().past()));
        assert!(range.is_logged());
        assert_eq!(range.leaves_log(), Some(segment));
        assert_eq!(range.leaves_log(), None);
    }
}

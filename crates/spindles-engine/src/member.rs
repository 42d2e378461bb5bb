//! The states of a member and of the array.

use crate::output::OutReason;
use spindles_block::{BlockIndex, MemberSet};
use spindles_layout::Geometry;

/// The state of a member's position.
///
/// ```text
///            Out(reason)                      Joined
///  Active ───────────────▶ Missing { reason } ──────▶ Rebuilding { mark } ◀─┐
///    ▲                            ▲      Out(reason)      │    │  └─Marked──┘
///    │                            └───────────────────────┘    │
///    └────────────────────────Filled───────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// Holds correct data for its position.
    Active,
    /// The position has no usable device.
    Missing {
        /// Why it went out in this opening; `None` if it was missing at opening.
        reason: Option<OutReason>,
    },
    /// A device is being filled: all writes go to it, and it is read below a mark.
    Rebuilding {
        /// The device durably holds correct data for its position in the groups below this block of
        /// the array.
        mark: BlockIndex,
    },
}

/// What can happen to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// The member is put out.
    Out(OutReason),
    /// A device takes the empty place.
    Joined,
    /// The superblocks durably record that the device is filled up to this block.
    Marked(BlockIndex),
    /// Its device is durably filled.
    Filled,
}

impl Member {
    /// The whole state machine. `None` for a move that must not happen.
    #[must_use]
    pub const fn next(self, event: MemberEvent) -> Option<Self> {
        match (self, event) {
            (Self::Active | Self::Rebuilding { .. }, MemberEvent::Out(reason)) => {
                Some(Self::Missing {
                    reason: Some(reason),
                })
            }
            (Self::Missing { .. }, MemberEvent::Joined) => Some(Self::Rebuilding {
                mark: BlockIndex(0),
            }),
            (Self::Rebuilding { mark }, MemberEvent::Marked(new)) if new.0 >= mark.0 => {
                Some(Self::Rebuilding { mark: new })
            }
            (Self::Rebuilding { .. }, MemberEvent::Filled) => Some(Self::Active),
            (
                Self::Missing { .. },
                MemberEvent::Out(_) | MemberEvent::Marked(_) | MemberEvent::Filled,
            )
            | (Self::Active, MemberEvent::Joined | MemberEvent::Marked(_) | MemberEvent::Filled)
            | (Self::Rebuilding { .. }, MemberEvent::Joined | MemberEvent::Marked(_)) => None,
        }
    }
}

/// The state of an array, which depends on its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayState {
    /// Redundancy is complete.
    Healthy,
    /// Redundancy is reduced, but all data is readable.
    Degraded,
    /// A part of the data is lost.
    Failed,
}

impl ArrayState {
    /// Returns the state of an array of which `missing` are out.
    #[must_use]
    pub fn of(geometry: &Geometry, missing: MemberSet) -> Self {
        if missing.is_empty() {
            Self::Healthy
        } else if geometry.survives(missing) {
            Self::Degraded
        } else {
            Self::Failed
        }
    }

    /// Returns the word for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::MemberError;

    #[test]
    fn a_member_goes_out_once() {
        let out = MemberEvent::Out(OutReason::Error(MemberError::Gone));
        let missing = Member::Active.next(out).expect("active members can go out");
        assert_eq!(
            missing,
            Member::Missing {
                reason: Some(OutReason::Error(MemberError::Gone))
            }
        );
        assert_eq!(missing.next(out), None);
    }

    #[test]
    fn a_mark_goes_forwards() {
        let mark = BlockIndex(5);
        let filling = Member::Rebuilding { mark };
        let marked = |to| filling.next(MemberEvent::Marked(BlockIndex(to)));
        let mark = BlockIndex(9);
        assert_eq!(marked(9), Some(Member::Rebuilding { mark }));
        assert_eq!(marked(4), None);
    }

    /// Checks every state and event against the table in the document.
    #[test]
    fn the_drawn_machine_is_the_one_that_runs() {
        let reason = OutReason::Command;
        let states = [
            ("active", Member::Active),
            (
                "missing",
                Member::Missing {
                    reason: Some(reason),
                },
            ),
            (
                "rebuilding",
                Member::Rebuilding {
                    mark: BlockIndex(5),
                },
            ),
        ];
        let events = [
            ("out", MemberEvent::Out(reason)),
            ("joined", MemberEvent::Joined),
            ("marked", MemberEvent::Marked(BlockIndex(7))),
            ("filled", MemberEvent::Filled),
        ];
        let name = |state: Option<Member>| match state {
            None => "*never*",
            Some(Member::Active) => "active",
            Some(Member::Missing { .. }) => "missing",
            Some(Member::Rebuilding { .. }) => "rebuilding",
        };
        let document = include_str!("../../../docs/design/states.md");
        let mut rows = 0;
        for (from, state) in states {
            for (word, event) in events {
                let row = std::format!("| {from} | {word} | {} |", name(state.next(event)));
                assert!(
                    document.contains(&row),
                    "docs/design/states.md lacks: {row}"
                );
                rows += 1;
            }
        }
        let table = document
            .lines()
            .skip_while(|line| !line.starts_with("| from"));
        let drawn = table.take_while(|line| line.starts_with('|')).count() - 2;
        assert_eq!(
            drawn, rows,
            "docs/design/states.md has rows that the code has not"
        );
    }
}

//! The next action of a stripe range.

use super::Past;
use crate::plan::Step;

/// The next action of a stripe range. A function of one part of its work returns the action, and
/// the executor (`engine/ranges`) calls the part that carries it out. No part calls another part
/// that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Waits for an input or a wake-up, or has ended.
    Wait,
    /// Gets a plan for its current rows.
    Plan,
    /// Takes the steps of its plan with pinned pages. Rows that may be blank are looked at first.
    CarryOut,
    /// Takes the step of its plan that follows this one, up to the commit.
    After(Step),
    /// Continues when the rows in doubt are read and verified.
    SettlingVerified,
    /// Writes contents that settle the rows.
    Agree,
    /// Answers the client of a logged write, or writes the blocks to their places.
    Logged,
    /// Writes the blocks of an answered write to their places.
    Kept,
    /// Flushes all members before the answer.
    Flush(Past),
    /// Acknowledges the current rows.
    Acknowledge(Past),
    /// Finishes the current rows.
    RowsDone,
    /// Continues after the current rows are settled.
    RowsSettled,
    /// Ends its work.
    Done,
}

//! What a stripe range does next.

use super::Past;
use crate::plan::Step;

/// What a stripe range does next. A function of one part of its work returns it, and the executor
/// (`engine/ranges`) hands the stripe range to the part that does it. So no part calls another that
/// may call it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Nothing: an input or a wake-up continues it, or it has ended.
    Wait,
    /// Gets a plan for its current rows.
    Plan,
    /// Looks whether its rows may be blank, then takes the steps of its plan. Its pages are pinned.
    CarryOut,
    /// Takes the step of its plan after this one, up to the commit.
    After(Step),
    /// Continues when the rows in doubt are read and verified.
    SettlingVerified,
    /// Writes contents that settle the rows.
    Agree,
    /// Goes to its places, or is answered: the log has it.
    Logged,
    /// Goes to its places: its client is answered.
    Kept,
    /// Flushes all members before the answer.
    Flush(Past),
    /// Acknowledges the current rows.
    Acknowledge(Past),
    /// Ends the current rows.
    RowsDone,
    /// The current rows were settled.
    RowsSettled,
    /// Ends.
    Done,
}

//! How far a record is proved that is not whole in the log.

use crate::slots::SlotSet;

/// So many numbers on is what is logged anew.
pub(crate) const RELOGGED: u64 = 1 << 16;

/// How far this is with the rows under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proving {
    /// What was logged is read, and checksummed.
    Log,
    /// The rest of the rows is read. These slots are in the log.
    Rest { logged: SlotSet },
    /// What the record lacks is recovered.
    Recovering { logged: SlotSet },
    /// All data is checksummed.
    Checksumming { logged: SlotSet },
    /// Parity is computed.
    Encoding,
    /// What is to be logged is checksummed, and logged.
    Logging,
}

//! How far a record that is not whole in the log has been proved.

use crate::slots::SlotSet;

/// Gap in the sequence numbers before relogged batches.
pub(crate) const RELOGGED: u64 = 1 << 16;

/// Progress with the current rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proving {
    /// Reading the logged blocks, and computing their checksums.
    Log,
    /// Reading the rest of the rows. `logged`: the slots that are in the log.
    Rest { logged: SlotSet },
    /// Recovering the blocks that the record lacks.
    Recovering { logged: SlotSet },
    /// Computing the checksums of all data.
    Checksumming { logged: SlotSet },
    /// Computing parity.
    Encoding,
    /// Computing the checksums of the new record, and logging it.
    Logging,
}

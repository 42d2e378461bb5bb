//! Consistency policies: how an array closes, or does not close, the gap that a crash leaves
//! between data and redundancy. One file each, one row in the table.

mod journal;
mod none;
mod resync;

/// A consistency policy.
#[derive(Debug)]
pub struct Policy {
    /// What users type and superblocks hold.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// True if the array is marked unclean before its first write, and a region dirty before each
    /// write to it that is not logged. Dirty regions are made consistent when the array is opened
    /// unclean.
    pub resync_after_crash: bool,
    /// What happens to data that a crash and a missing member leave in doubt together.
    pub write_hole: WriteHole,
}

/// The write hole: after a crash parity may not match its data. Data of a missing member may then
/// be reconstructed wrong, even if it was not being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteHole {
    /// Nothing is promised after a crash: copies may disagree as well.
    Open,
    /// An array with parity that lacks members is not opened after a crash. Otherwise every promise
    /// of `docs/design/consistency.md` holds.
    Refused,
    /// Every promise of `docs/design/consistency.md` holds: an array opens by itself if the level
    /// survives the missing members, and only sectors with a write in flight at the crash may be
    /// lost.
    Closed,
}

/// Every policy, the safest first.
pub static POLICIES: &[&Policy] = &[&journal::POLICY, &resync::POLICY, &none::POLICY];

impl Policy {
    /// Returns true if arrays with redundancy are created with bitmaps of their regions: with all
    /// policies that promise anything about a crash.
    #[must_use]
    pub fn has_regions(&self) -> bool {
        self.write_hole != WriteHole::Open
    }

    /// Returns the default policy of an array: `logs` is true if it has parity or checksums. Copies
    /// without checksums are settled exactly without a journal.
    #[must_use]
    pub fn default_for(logs: bool) -> &'static Self {
        if logs {
            &journal::POLICY
        } else {
            &resync::POLICY
        }
    }

    /// Returns the policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|policy| policy.name == name).copied()
    }
}

//! Flushes of the engine itself under way. Work that builds on a flush continues after the last one
//! with its purpose.

use crate::system_io::Purpose;

/// The number of flushes under way with each purpose.
#[derive(Clone, Debug)]
pub(crate) struct OwnFlushes {
    pending: [u32; Purpose::COUNT],
}

impl Default for OwnFlushes {
    fn default() -> Self {
        Self {
            pending: [0; Purpose::COUNT],
        }
    }
}

impl OwnFlushes {
    /// Notes that `count` more flushes are under way.
    pub(crate) fn begin(&mut self, purpose: Purpose, count: u32) {
        self.pending[purpose.number()] += count;
    }

    /// Returns true if no flush with this purpose is under way.
    pub(crate) fn is_quiet(&self, purpose: Purpose) -> bool {
        self.pending[purpose.number()] == 0
    }

    /// Handles the end of a flush. Returns true if it was the last with this purpose.
    pub(crate) fn ended(&mut self, purpose: Purpose) -> bool {
        let pending = &mut self.pending[purpose.number()];
        *pending = pending.checked_sub(1).expect("a flush came back twice");
        *pending == 0
    }
}

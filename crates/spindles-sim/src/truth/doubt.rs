//! Sectors with uncertain contents after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Sectors with uncertain contents after a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    /// Sectors not read or written since the crash.
    pub(crate) now: BTreeSet<u64>,
    /// Sectors that were read or written since, each with the last request submitted before the
    /// answer. Requests up to that one may have seen the uncertain contents.
    lately: BTreeMap<u64, u64>,
}

impl Doubt {
    /// Returns true if a request may have seen uncertain contents in these sectors.
    pub(crate) fn meets(&self, sectors: &Range<u64>, token: u64) -> bool {
        let mut lately = self.lately.range(sectors.clone());
        self.has(sectors.clone()) || lately.any(|(_, &last)| token <= last)
    }

    /// Returns true if any of these sectors is uncertain now.
    pub(crate) fn has(&self, sectors: Range<u64>) -> bool {
        self.now.range(sectors).next().is_some()
    }

    /// Records that the sectors were read or written. `last` is the last request submitted before
    /// the answer.
    pub(crate) fn end(&mut self, sectors: &Range<u64>, last: u64) {
        let ended = self.now.extract_if(sectors.clone(), |_| true);
        self.lately.extend(ended.map(|sector| (sector, last)));
    }
}

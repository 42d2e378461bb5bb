//! What a run moves and counts: bytes and operations.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Unit of a workload's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bytes moved for the application per second.
    #[default]
    Bytes,
    /// Operations per second, such as seeks.
    Operations,
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Traffic {
    /// Bytes that were only read.
    pub const fn of_reads(read: u64) -> Self {
        Self { read, written: 0 }
    }

    /// Bytes that were only written.
    pub const fn of_writes(written: u64) -> Self {
        Self { read: 0, written }
    }

    /// Bytes since an earlier reading of the same counters.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }

    /// Bytes in both directions.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.read = self.read.saturating_add(more.read);
        self.written = self.written.saturating_add(more.written);
    }
}

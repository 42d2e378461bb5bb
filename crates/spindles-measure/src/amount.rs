//! What a run moves and counts: bytes and operations.

use serde::{Deserialize, Serialize};

/// Unit of a workload's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(default)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Traffic {
    /// Bytes in both directions.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

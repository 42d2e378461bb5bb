//! Verdicts on one cell, from the evidence in its records: whether a cache made the figure, and what the
//! bottleneck was. The rules are two tables of pure functions on the same facts; each verdict carries its
//! evidence in words and the intervention that would confirm it.

mod bottleneck;
mod cache;
mod facts;
mod intervention;

pub use bottleneck::{Bottleneck, CEILING_SHARE_MAX, Look, NEAR, RULES, Reading, Rule};
pub use cache::{CACHE_RULES, CacheRule, CacheVerdict, Grade};
pub use facts::{Facts, LinkFacts, MemberFacts};
pub use intervention::{Effect, Intervention};

pub(crate) use bottleneck::is_refused;
pub(crate) use cache::hit_share;

use serde::Serialize;

use crate::{Analysis, Cell};

/// What is said of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellVerdicts {
    /// What caches did, in the order of the rules. Empty: nothing was seen of one.
    pub cache: Vec<CacheVerdict>,
    /// What the bottleneck was.
    pub bottleneck: Bottleneck,
}

impl CellVerdicts {
    /// The verdicts on a cell. `None` where no run of it has evidence.
    pub(crate) fn of(analysis: &Analysis, cell: &Cell) -> Option<Self> {
        Some(Self::on(&Facts::of(analysis, cell)?))
    }

    /// The verdicts on these facts.
    pub fn on(facts: &Facts) -> Self {
        Self {
            cache: cache::decide(facts),
            bottleneck: bottleneck::decide(facts),
        }
    }
}

/// A share in percent, without decimals.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Bytes a second, as people write them.
fn megabytes(bytes_per_s: f64) -> String {
    format!("{:.0} MB/s", bytes_per_s / 1e6)
}

/// Bytes, as people write them.
fn bytes(count: f64) -> String {
    const KIB: f64 = 1024.0;
    match count {
        count if count >= KIB * KIB * KIB => format!("{:.1} GiB", count / (KIB * KIB * KIB)),
        count if count >= KIB * KIB => format!("{:.0} MiB", count / (KIB * KIB)),
        count => format!("{:.0} KiB", count / KIB),
    }
}

//! Verdicts on one cell, from the evidence in its records: whether a cache explains the figure, and
//! which bottleneck limits it. The rules are two tables of pure functions on the same facts. A
//! verdict comes with evidence in words and the intervention that would confirm it.

mod bottleneck;
mod cache;
mod facts;
mod intervention;
mod trial;

pub use bottleneck::{Bottleneck, CEILING_SHARE_MAX, Look, NEAR, RULES, Reading, Rule};
pub use cache::{CACHE_RULES, CacheRule, CacheVerdict, Grade};
pub use facts::{Facts, LinkFacts, MemberFacts, RunMembers, Straggler, ThreadFacts};
pub use intervention::{Effect, Intervention, TrialOutcome};
pub use trial::Tried;

pub(crate) use bottleneck::is_refused;
pub(crate) use cache::hit_share;

use serde::Serialize;

use crate::{Analysis, Cell};

/// The verdicts on one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellVerdicts {
    /// Signs of caches, in the order of the rules. Empty if no rule applies.
    pub cache: Vec<CacheVerdict>,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// Trials run to confirm these verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

impl CellVerdicts {
    /// Judges a cell. `None` if no run recorded evidence.
    pub(crate) fn of(analysis: &Analysis, cell: &Cell) -> Option<Self> {
        let mut verdicts = Self::on(&Facts::of(analysis, cell)?);
        verdicts.tried = trial::tried(&analysis.trials, &cell.system, &cell.workload);
        let tried = |change: &Intervention| {
            let tried = verdicts.tried.iter().find(|it| it.change == *change)?;
            Some(tried.outcome)
        };
        // If the change did not have the expected effect, the cause is another.
        if let Bottleneck::Named { intervention, .. } = &verdicts.bottleneck
            && tried(intervention) == Some(TrialOutcome::Refuted)
        {
            verdicts.bottleneck = verdicts.bottleneck.refuted();
        }
        Some(verdicts)
    }

    /// The changes that would confirm these verdicts, each once.
    pub fn interventions(&self) -> Vec<&Intervention> {
        let mut all: Vec<&Intervention> = Vec::new();
        let named = match &self.bottleneck {
            Bottleneck::Named { intervention, .. } => Some(intervention),
            Bottleneck::Undetermined { .. } | Bottleneck::NotSought { .. } => None,
        };
        for change in named
            .into_iter()
            .chain(self.cache.iter().map(|it| &it.intervention))
        {
            if !all.contains(&change) {
                all.push(change);
            }
        }
        all
    }

    /// Judges these facts.
    pub fn on(facts: &Facts) -> Self {
        Self {
            cache: cache::decide(facts),
            bottleneck: bottleneck::decide(facts),
            tried: Vec::new(),
        }
    }
}

/// Formats a share in percent, without decimals. Counters read one after the other may add up to
/// slightly more than 1.
fn percent(share: f64) -> String {
    format!("{:.0} %", share.min(1.0) * 100.0)
}

/// Formats a time in seconds as milliseconds.
pub(crate) fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    match ms {
        ms if ms >= 99.5 => format!("{ms:.0} ms"),
        ms if ms >= 9.95 => format!("{ms:.1} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

/// Formats bytes per second in MB/s.
fn megabytes(bytes_per_s: f64) -> String {
    format!("{:.0} MB/s", bytes_per_s / 1e6)
}

/// Formats bytes in a binary unit.
fn bytes(count: f64) -> String {
    const KIB: f64 = 1024.0;
    match count {
        count if count >= KIB * KIB * KIB => format!("{:.1} GiB", count / (KIB * KIB * KIB)),
        count if count >= KIB * KIB => format!("{:.0} MiB", count / (KIB * KIB)),
        count => format!("{:.0} KiB", count / KIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_most_one() {
        assert_eq!([0.126, 1.0, 1.01].map(percent), ["13 %", "100 %", "100 %"]);
    }
}

//! Verdicts on one cell, from the evidence in its records: whether a cache explains the figure, and
//! which bottleneck limits it. The rules are two tables of pure functions on the same facts. A
//! verdict comes with evidence in words and the intervention that would confirm it.

mod bottleneck;
mod cache;
mod facts;
mod intervention;
mod trial;
mod words;

pub use crate::ceiling::CEILING_SHARE_MAX;
pub use crate::results::{Bottleneck, CacheVerdict, CellVerdicts, Grade, Look, Tried};
pub use bottleneck::{NEAR, RULES, Reading, Rule};
pub use cache::{CACHE_RULES, CacheRule};
pub use facts::{Facts, LinkFacts, MemberFacts, RunMembers, Straggler, ThreadFacts};
pub use intervention::{Effect, Intervention, TrialOutcome};

pub(crate) use cache::hit_share;
use words::{bytes, megabytes, milliseconds, percent};

use crate::{Analysis, Cell};

/// Judges a cell. `None` if no run recorded evidence.
pub(crate) fn of(analysis: &Analysis, cell: &Cell) -> Option<CellVerdicts> {
    let mut verdicts = CellVerdicts::on(&Facts::of(analysis, cell)?);
    verdicts.tried = trial::tried(&analysis.trials, &cell.system, &cell.workload);
    let tried = |change: &Intervention| {
        let tried = verdicts
            .tried
            .iter()
            .find(|trial| trial.change == *change)?;
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

impl CellVerdicts {
    /// Judges these facts.
    pub fn on(facts: &Facts) -> Self {
        Self {
            cache: cache::decide(facts),
            bottleneck: bottleneck::decide(facts),
            tried: Vec::new(),
        }
    }
}

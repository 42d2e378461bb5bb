//! Rankings of the systems, to choose one.

use serde::Serialize;

use super::{Quantity, Reason, Verdict};
use crate::statistics::Estimate;

/// Rankings of the systems, to choose the best.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SystemChoice"))]
pub struct Choice {
    /// One ranking for each workload that at least two systems ran, in the experiment's order.
    /// Phases with a total are represented by the total.
    pub workloads: Vec<Ranking>,
    /// Ranking over the workloads that the experiment weighs. `None` if it weighs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted: Option<Weighted>,
    /// Number of pairs that the correction of the workloads' verdicts covers.
    pub pairs: usize,
}

/// All systems in one workload.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranking {
    /// Name of the workload.
    pub workload: String,
    /// Quantity compared.
    pub quantity: Quantity,
    /// Why the ranking does not count. `None` if it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<Reason>,
    /// All systems, fastest first; those without a result last.
    pub standings: Vec<Standing>,
    /// Pairs of systems with a result.
    pub pairs: Vec<Pair>,
}

/// All systems over the workloads that the experiment weighs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Weighted {
    /// Share of each workload; they add up to 1.
    pub shares: Vec<Share>,
    /// Weighted workloads that were not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
    /// All systems, fastest first, by the geometric mean of their speeds weighted by the shares.
    pub standings: Vec<Standing>,
    /// Pairs of systems with a result.
    pub pairs: Vec<Pair>,
}

/// Weight of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WorkloadShare"))]
pub struct Share {
    /// Name of the workload.
    pub workload: String,
    /// Fraction of the sum of all weights.
    pub share: f64,
    /// Why its figures do not count. `None` if they count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<Reason>,
    /// True if some system finished the workload in less than 0.1 s.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_short: bool,
}

/// Position of a system in the ranking.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standing {
    /// Name of the system.
    pub system: String,
    /// Class in the ranking.
    pub place: Place,
    /// Log-ratio of its speed to the fastest's. `None` for the fastest itself, and if they share no
    /// block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<Estimate>,
}

/// Classes of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "RankOfSystem"))]
pub enum Place {
    /// The fastest, or ranked before every system that is `Unresolved` or `Behind`.
    Best,
    /// Slower without a verdict: by its own interval only, or ranked after a system that is
    /// `Unresolved` or `Behind`, with an interval too wide to separate it.
    Unresolved,
    /// Slower than the fastest.
    Behind,
    /// Shares fewer than two repetition blocks with the fastest: no verdict.
    OneBlock,
    /// No repetition finished.
    Failed,
    /// Its figure measures the load generator.
    Refused,
}

/// Two systems compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Name of the first system.
    pub system: String,
    /// Name of the second system.
    pub other: String,
    /// Log-ratio of the first's speed to the second's: mean over the common blocks.
    pub log_ratio: f64,
    /// Number of common blocks.
    pub blocks: usize,
    /// The p-value of the block design after Holm's correction over all pairs.
    pub p_corrected: f64,
    /// Verdict on the first system.
    pub verdict: Verdict,
}

impl Choice {
    /// The rankings that count and have a winner.
    pub fn counting(&self) -> impl Iterator<Item = &Ranking> {
        let rankings = self.workloads.iter();
        rankings.filter(|ranking| ranking.not_counted.is_none() && ranking.best().next().is_some())
    }

    /// Returns why a workload does not count, if so.
    pub fn not_counted(&self, workload: &str) -> Option<Reason> {
        let mut rankings = self.workloads.iter();
        rankings
            .find(|ranking| ranking.workload == workload)?
            .not_counted
    }

    /// Number of counting rankings in which a system is among the best.
    pub fn best_in(&self, system: &str) -> usize {
        let is_best = |ranking: &&Ranking| ranking.best().any(|best| best == system);
        self.counting().filter(is_best).count()
    }
}

impl Ranking {
    /// The fastest system and those ranked before the first one separated from it.
    pub fn best(&self) -> impl Iterator<Item = &str> {
        best(&self.standings)
    }

    /// Returns the rank of a system.
    pub fn standing(&self, system: &str) -> Option<&Standing> {
        self.standings
            .iter()
            .find(|standing| standing.system == system)
    }
}

impl Weighted {
    /// The fastest system and those ranked before the first one separated from it.
    pub fn best(&self) -> impl Iterator<Item = &str> {
        best(&self.standings)
    }
}

fn best(standings: &[Standing]) -> impl Iterator<Item = &str> {
    let best = standings
        .iter()
        .filter(|standing| standing.place == Place::Best);
    best.map(|best| &*best.system)
}

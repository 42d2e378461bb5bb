//! Verdicts on one cell: the signs of caches, the bottleneck, and the trials that tested them.

use serde::Serialize;

use crate::statistics::Estimate;
use crate::verdicts::{Intervention, TrialOutcome};

/// The verdicts on one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The changes that would confirm these verdicts, each once.
    pub fn interventions(&self) -> Vec<&Intervention> {
        let mut all: Vec<&Intervention> = Vec::new();
        let named = match &self.bottleneck {
            Bottleneck::Named { intervention, .. } => Some(intervention),
            Bottleneck::Undetermined { .. } | Bottleneck::NotSought { .. } => None,
        };
        for change in named
            .into_iter()
            .chain(self.cache.iter().map(|verdict| &verdict.intervention))
        {
            if !all.contains(&change) {
                all.push(change);
            }
        }
        all
    }
}

/// Influence of a cache on the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Worth knowing.
    Note,
    /// The figure measures the cache more than the disks.
    CacheFigure,
}

/// Result of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheVerdict {
    /// Name of the rule.
    pub rule: &'static str,
    /// Influence of the cache.
    pub grade: Grade,
    /// Evidence in words, with the figures.
    pub evidence: String,
    /// Change that would confirm the verdict.
    pub intervention: Intervention,
}

/// Level and evidence that a rule found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// Name of the rule.
    pub rule: &'static str,
    /// Its level: 1 is at the limit.
    pub level: f64,
    /// Evidence in words, with the figures.
    pub evidence: String,
}

/// The bottleneck of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Bottleneck {
    /// One cause explains the readings.
    Named {
        /// Name of the rule that found the cause.
        cause: &'static str,
        /// The cause, in words.
        words: &'static str,
        /// Evidence in words, with the figures.
        evidence: String,
        /// Change that would confirm the cause.
        intervention: Intervention,
        /// The reading of every rule.
        looked_at: Vec<Look>,
    },
    /// No cause explains the readings, or more than one does.
    Undetermined {
        /// Names of the rules that came near their limits and do not explain each other.
        contenders: Vec<&'static str>,
        /// True if a cause was named, and a trial contradicts it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        refuted: bool,
        /// The reading of every rule.
        looked_at: Vec<Look>,
    },
    /// No bottleneck can be found.
    NotSought {
        /// Reason in words.
        why: String,
    },
}

impl Bottleneck {
    /// Name of the rule, if one was found.
    pub fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Named { cause, .. } => Some(cause),
            Self::Undetermined { .. } | Self::NotSought { .. } => None,
        }
    }

    /// The result after a trial contradicted the named cause.
    #[must_use]
    pub(crate) fn refuted(&self) -> Self {
        match self {
            Self::Named {
                cause, looked_at, ..
            } => Self::Undetermined {
                contenders: vec![cause],
                refuted: true,
                looked_at: looked_at.clone(),
            },
            Self::Undetermined { .. } | Self::NotSought { .. } => self.clone(),
        }
    }

    /// The result in one or two sentences, with the evidence.
    pub fn words(&self) -> String {
        match self {
            Self::Named {
                words,
                evidence,
                intervention,
                ..
            } => format!(
                "The bottleneck is {words}: {evidence}. To confirm, {}.",
                intervention.words()
            ),
            Self::Undetermined {
                contenders,
                refuted,
                looked_at,
            } => {
                let is_contender = |look: &&Look| contenders.contains(&look.rule);
                let found: Vec<&str> = looked_at
                    .iter()
                    .filter(|look| contenders.is_empty() || is_contender(look))
                    .map(|look| &*look.evidence)
                    .collect();
                let why = match contenders.len() {
                    _ if *refuted => "a trial refuted the likely cause",
                    0 => "no cause reached its limit",
                    1 => "one cause came near its limit, but did not reach it",
                    _ => "more than one cause came near its limit",
                };
                format!(
                    "The bottleneck is undetermined, because {why}: {}.",
                    found.join("; ")
                )
            }
            Self::NotSought { why } => format!("No bottleneck was looked for: {why}."),
        }
    }
}

/// The trial of a change on one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The change.
    pub change: Intervention,
    /// Natural logarithm of the factor by which the rate changed: mean over the pairs.
    pub log_ratio: Estimate,
    /// Result for the verdict.
    pub outcome: TrialOutcome,
}

impl Tried {
    /// The change and its effect in words.
    pub fn words(&self) -> String {
        let Estimate {
            value, low, high, ..
        } = self.log_ratio;
        let (did, sign) = if value < 0.0 {
            ("fell", -1.0)
        } else {
            ("grew", 1.0)
        };
        let percent = |log: f64| format!("{:.0}", sign * log.exp_m1() * 100.0).replace('-', "−");
        let [from, to] = if value < 0.0 {
            [high, low]
        } else {
            [low, high]
        };
        let interval = if from.is_finite() && to.is_finite() {
            format!("{} … {} %", percent(from), percent(to))
        } else {
            "one pair: no interval".to_owned()
        };
        format!(
            "{}, and it {did} by {} % ({interval})",
            self.change.words(),
            percent(value),
        )
    }
}

//! Verdicts on cells for every output: for each workload a card for each bottleneck, with all
//! systems that have it.

use spindles_measure::Analysis;
use spindles_measure::verdicts::{
    Bottleneck, CacheVerdict, CellVerdicts, Grade, Intervention, Look, RULES, TrialOutcome, Tried,
};

use crate::charts;

/// Explains how to read the verdicts.
pub(crate) const CAPTION: &str = "The limit of each system, inferred from counters read during the \
    workload, with its evidence and a change that would confirm it. Undetermined: no cause reached \
    its limit, or more than one came near. A cache figure measures a cache more than the disks. \
    Workloads with a named bottleneck come first.";

/// Number of reasons given for an undetermined bottleneck, the strongest first.
const REASONS_SHOWN: usize = 2;

/// Words for an undetermined bottleneck.
const UNDETERMINED: &str = "undetermined";

/// Words for a cell whose bottleneck was not sought.
const NOT_SOUGHT: &str = "not looked for";

/// A bottleneck of a workload.
#[derive(Debug)]
pub(crate) struct Card<'a> {
    /// Short name: `members`, `the load generator`, `undetermined`.
    pub(crate) words: &'static str,
    /// Kind of card, which selects the CSS class of its title.
    pub(crate) kind: Kind,
    /// The systems that have it, with the evidence for each.
    pub(crate) seen: Vec<SystemVerdict<'a>>,
}

/// The kinds of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bottleneck is named.
    Named,
    /// The figure does not measure the system.
    Refused,
    /// No cause explains the readings.
    Undetermined,
    /// No bottleneck can be found.
    NotSought,
}

impl Kind {
    /// Returns the CSS class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Refused => "refused",
            Self::Undetermined | Self::NotSought => UNDETERMINED,
        }
    }

    /// Returns true if the card names the limit.
    fn is_answer(self) -> bool {
        matches!(self, Self::Named | Self::Refused)
    }
}

/// Verdicts on one system.
#[derive(Debug)]
pub(crate) struct SystemVerdict<'a> {
    /// Name of the system.
    pub(crate) system: &'a str,
    /// Evidence in words, with the figures.
    pub(crate) evidence: String,
    /// Interventions that would confirm the verdicts and were not tried, one sentence each.
    pub(crate) to_confirm: Vec<String>,
    /// Trials and their results.
    pub(crate) tried: &'a [Tried],
    /// Signs of caches.
    pub(crate) cache: &'a [CacheVerdict],
}

/// Workloads whose runs have evidence, with their cards. Workloads with a named bottleneck come
/// first.
pub(crate) fn workloads(analysis: &Analysis) -> Vec<(&str, Vec<Card<'_>>)> {
    let workloads = analysis.experiment.workloads.iter();
    let mut all: Vec<(&str, Vec<Card<'_>>)> = workloads
        .map(|workload| (&*workload.name, cards(analysis, &workload.name)))
        .filter(|(_, cards)| !cards.is_empty())
        .collect();
    all.sort_by_key(|(_, cards)| !cards.iter().any(|card| card.kind.is_answer()));
    all
}

fn cards<'a>(analysis: &'a Analysis, workload: &str) -> Vec<Card<'a>> {
    let mut cards: Vec<Card<'a>> = Vec::new();
    for system in charts::shown(analysis) {
        let cell = analysis.cell(system, workload);
        let Some(verdicts) = cell.and_then(|cell| cell.verdicts.as_ref()) else {
            continue;
        };
        let (kind, words) = kind(&verdicts.bottleneck);
        let seen = seen(system, verdicts);
        match cards.iter_mut().find(|card| card.words == words) {
            Some(card) => card.seen.push(seen),
            None => cards.push(Card {
                words,
                kind,
                seen: vec![seen],
            }),
        }
    }
    cards.sort_by_key(|card| !card.kind.is_answer());
    cards
}

fn kind(bottleneck: &Bottleneck) -> (Kind, &'static str) {
    match bottleneck {
        Bottleneck::Named { cause, words, .. } => {
            let refuses = RULES.iter().any(|rule| rule.name == *cause && rule.refuses);
            let kind = if refuses { Kind::Refused } else { Kind::Named };
            (kind, words)
        }
        Bottleneck::Undetermined { .. } => (Kind::Undetermined, UNDETERMINED),
        Bottleneck::NotSought { .. } => (Kind::NotSought, NOT_SOUGHT),
    }
}

fn seen<'a>(system: &'a str, verdicts: &'a CellVerdicts) -> SystemVerdict<'a> {
    let (evidence, intervention) = match &verdicts.bottleneck {
        Bottleneck::Named {
            evidence,
            intervention,
            ..
        } => (evidence.clone(), Some(intervention)),
        Bottleneck::Undetermined {
            contenders,
            refuted,
            looked_at,
        } => {
            let mut strongest: Vec<&Look> = looked_at.iter().collect();
            strongest.sort_by(|a, b| b.level.total_cmp(&a.level));
            let is_near = |look: &&&Look| contenders.contains(&look.rule);
            let near = strongest.iter().filter(is_near);
            let near: Vec<&str> = near.map(|look| &*look.evidence).collect();
            let first = near.iter().take(REASONS_SHOWN).copied();
            let first = first.collect::<Vec<_>>().join("; ");
            let more = match near.len().saturating_sub(REASONS_SHOWN) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let evidence = match (near.len(), strongest.first()) {
                (0, None) => "no cause was measured".to_owned(),
                (0, Some(look)) => {
                    format!("no cause reached its limit; nearest: {}", look.evidence)
                }
                _ if *refuted => format!("refuted by trial: {first}"),
                (1, _) => format!("near its limit, but not at it: {first}"),
                _ => format!("more than one cause near its limit: {first}{more}"),
            };
            (evidence, None)
        }
        Bottleneck::NotSought { why } => (why.clone(), None),
    };
    let untried =
        |change: &&Intervention| verdicts.tried.iter().all(|trial| trial.change != **change);
    let of_bottleneck = intervention.into_iter().filter(untried);
    let of_bottleneck =
        of_bottleneck.map(|of_bottleneck| format!("To confirm, {}.", of_bottleneck.words()));
    let of_cache = verdicts.cache.iter().map(|sign| &sign.intervention);
    let of_cache = of_cache.filter(untried);
    let of_cache = of_cache.map(|of_cache| format!("To confirm the cache, {}.", of_cache.words()));
    SystemVerdict {
        system,
        evidence,
        to_confirm: of_bottleneck.chain(of_cache).collect(),
        tried: &verdicts.tried,
        cache: &verdicts.cache,
    }
}

/// Formats the influence of a cache on a figure.
pub(crate) fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Note => "cache",
        Grade::CacheFigure => "cache figure",
    }
}

/// Formats the result of a trial.
pub(crate) fn outcome(outcome: TrialOutcome) -> &'static str {
    match outcome {
        TrialOutcome::Confirmed => "confirmed",
        TrialOutcome::Refuted => "refuted",
        TrialOutcome::NotResolved => "not resolved",
    }
}

/// Formats a sentence for each workload, or for several with the same verdicts: `bottleneck of
/// varmail: waiting for flushes on single, raid5 (single: actors spent 75 % of their time in
/// flushes); undetermined on raid1`.
pub(crate) fn sentences(analysis: &Analysis) -> Vec<String> {
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for (workload, cards) in workloads(analysis) {
        let words = in_words(&cards);
        match said.iter_mut().find(|(_, same)| *same == words) {
            Some((workloads, _)) => workloads.push(workload),
            None => said.push((vec![workload], words)),
        }
    }
    said.iter()
        .map(|(workloads, words)| format!("bottleneck of {}: {words}", workloads.join(", ")))
        .collect()
}

/// Formats a sentence for each trial.
pub(crate) fn trials(analysis: &Analysis) -> Vec<String> {
    let cells = analysis.cells.iter();
    let tried = cells.flat_map(|cell| {
        let tried = cell.verdicts.iter().flat_map(|verdicts| &verdicts.tried);
        tried.map(|tried| {
            let outcome = outcome(tried.outcome);
            format!(
                "{outcome} by trial, {} on {}: {}",
                cell.workload,
                cell.system,
                tried.words()
            )
        })
    });
    tried.collect()
}

fn in_words(cards: &[Card<'_>]) -> String {
    let mut parts: Vec<String> = cards.iter().map(part).collect();
    let all = cards.iter().flat_map(|card| &card.seen);
    let is_figure = |sign: &CacheVerdict| sign.grade == Grade::CacheFigure;
    let cached: Vec<&str> = all
        .filter(|seen| seen.cache.iter().any(is_figure))
        .map(|seen| seen.system)
        .collect();
    if !cached.is_empty() {
        let what = grade(Grade::CacheFigure);
        parts.push(format!("{what} on {}", cached.join(", ")));
    }
    parts.join("; ")
}

fn part(card: &Card<'_>) -> String {
    let systems: Vec<&str> = card.seen.iter().map(|seen| seen.system).collect();
    let evidence = match (card.kind, card.seen.as_slice()) {
        (_, []) => String::new(),
        (_, [only]) => format!(" ({})", only.evidence),
        (_, [first, ..]) => format!(" ({}: {})", first.system, first.evidence),
    };
    let refused = match card.kind {
        Kind::Refused => ", refused",
        Kind::Named | Kind::Undetermined | Kind::NotSought => "",
    };
    let systems = systems.join(", ");
    format!("{} on {systems}{refused}{evidence}", card.words)
}

//! The bottlenecks: a card for each workload and bottleneck.

use spindles_measure::Analysis;
use spindles_measure::verdicts::{CacheVerdict, Grade, Tried};

use super::{Body, Section, fold, folded, section};
use crate::svg::escape;
use crate::verdicts::{self, Card, Kind, SystemVerdict};

pub(super) static SECTION: Section = Section {
    name: "verdicts",
    title: "Bottlenecks",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let workloads = verdicts::workloads(analysis);
    let cards: Vec<String> = (workloads.iter())
        .flat_map(|(workload, cards)| cards.iter().map(|one_card| card(workload, one_card)))
        .collect();
    if cards.is_empty() {
        return String::new();
    }
    let grid = |cards: &[String]| format!("<div class=\"panels\">{}</div>", cards.concat());
    let body = folded(&cards, "cards", grid);
    section(SECTION.name, SECTION.title, verdicts::CAPTION, &body)
}

fn card(workload: &str, card: &Card<'_>) -> String {
    let rows: String = card.seen.iter().map(row).collect();
    let title = match card.kind {
        Kind::Refused => format!("refused: {}", card.words),
        Kind::Named | Kind::Undetermined | Kind::NotSought => card.words.to_owned(),
    };
    let summary = format!(
        "<span class=\"of\">{}</span> <span class=\"cause\">{}</span>",
        escape(workload),
        escape(&title)
    );
    let body = format!("<dl>{rows}</dl>{}", to_confirm(card));
    format!(
        "<article class=\"card {}\">{}</article>",
        card.kind.class(),
        fold("", &summary, &body),
    )
}

fn row(seen: &SystemVerdict<'_>) -> String {
    let badges: String = seen.cache.iter().map(badge).collect();
    let tried: String = seen.tried.iter().map(tried).collect();
    format!(
        "<div><dt>{}</dt><dd>{}{badges}{tried}</dd></div>",
        escape(seen.system),
        escape(&seen.evidence)
    )
}

fn badge(verdict: &CacheVerdict) -> String {
    let class = match verdict.grade {
        Grade::Note => "badge",
        Grade::CacheFigure => "badge strong",
    };
    format!(
        "<p><b class=\"{class}\">{}</b> {}</p>",
        verdicts::grade(verdict.grade),
        escape(&verdict.evidence),
    )
}

fn tried(tried: &Tried) -> String {
    format!(
        "<p><b class=\"badge\">{}</b> {}</p>",
        verdicts::outcome(tried.outcome),
        escape(&tried.words()),
    )
}

/// The interventions that would confirm the verdicts of a card. Most systems share them, so
/// duplicates are removed.
fn to_confirm(card: &Card<'_>) -> String {
    let mut said: Vec<&String> = Vec::new();
    for sentence in card.seen.iter().flat_map(|seen| &seen.to_confirm) {
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    said.iter()
        .map(|sentence| format!("<p class=\"confirm\">{}</p>", escape(sentence)))
        .collect()
}

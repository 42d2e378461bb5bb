//! The doubts about the figures, and their remedies.

use spindles_measure::{Analysis, Finding};

use super::{Body, Section, section};
use crate::svg::escape;
use crate::words;

pub(super) static SECTION: Section = Section {
    name: "doubts",
    title: "Doubts",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    if analysis.findings.is_empty() {
        return section(
            SECTION.name,
            SECTION.title,
            "No doubts were found about these figures.",
            "",
        );
    }
    section(
        SECTION.name,
        SECTION.title,
        "Reasons to distrust these figures, the most important first, each with its evidence and \
         its remedy.",
        &listed(&analysis.findings),
    )
}

/// The first few doubts, with the rest folded.
pub(crate) fn listed(findings: &[Finding]) -> String {
    let items = |findings: &[Finding]| {
        let items: String = findings.iter().map(item).collect();
        format!("<ol class=\"doubts\">{items}</ol>")
    };
    let (first, rest) = findings.split_at(findings.len().min(words::DOUBTS_SHOWN));
    let rest = match rest.len() {
        0 => String::new(),
        count => format!(
            "<details class=\"more\"><summary>{count} more</summary>{}</details>",
            items(rest)
        ),
    };
    items(first) + &rest
}

fn item(finding: &Finding) -> String {
    let details = finding.details.iter();
    let details: String = details
        .map(|detail| format!("<li>{}</li>", escape(detail)))
        .collect();
    format!(
        "<li><h3>{}</h3><p>{}</p><ul>{details}</ul></li>",
        escape(&finding.title),
        escape(&finding.remedy)
    )
}

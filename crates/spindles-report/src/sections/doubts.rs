//! Why not to take the figures at face value, and what to do about it.

use spindles_measure::Analysis;

use super::{Body, Section, section};
use crate::svg::escape;

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
            "No doubt was found about these figures.",
            "",
        );
    }
    let items: String = analysis
        .findings
        .iter()
        .map(|finding| {
            let details: String = finding
                .details
                .iter()
                .map(|detail| format!("<li>{}</li>", escape(detail)))
                .collect();
            format!(
                "<li><h3>{}</h3><p>{}</p><ul>{details}</ul></li>",
                escape(&finding.title),
                escape(&finding.remedy)
            )
        })
        .collect();
    section(
        SECTION.name,
        SECTION.title,
        "Every number is a record with its doubt attached. The heaviest come first, each with its \
         evidence and what can be done about it.",
        &format!("<ol class=\"doubts\">{items}</ol>"),
    )
}

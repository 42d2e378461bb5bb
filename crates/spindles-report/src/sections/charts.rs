//! A section for each chart that has something to show.

use spindles_measure::Analysis;

use super::{Body, Section, classed};
use crate::charts::Chart;
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "charts",
    title: "",
    body: Body::Charts(body),
};

fn body(analysis: &Analysis, chart: &Chart) -> String {
    let panels: String = (chart.panels)(analysis)
        .iter()
        .map(|panel| {
            format!(
                "<figure><figcaption><b>{}</b> <span>{}</span></figcaption>{}{}</figure>",
                escape(&panel.title),
                escape(&panel.note),
                legend(&panel.legend),
                panel.svg
            )
        })
        .collect();
    if panels.is_empty() {
        return String::new();
    }
    let body = format!("<div class=\"panels\">{panels}</div>");
    classed(chart.name, "chart", chart.title, chart.caption, &body)
}

/// What the colours of a panel mean, within it.
fn legend(swatches: &[(String, String)]) -> String {
    let items: String = swatches
        .iter()
        .map(|(class, words)| format!("<li><span class=\"{class}\"></span>{}</li>", escape(words)))
        .collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

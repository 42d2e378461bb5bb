//! A section for each chart with panels.

use spindles_measure::Analysis;

use super::{Body, Section, classed, fold, folded};
use crate::charts::{Chart, Panel};
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "charts",
    title: "",
    body: Body::Charts(body),
};

fn body(analysis: &Analysis, chart: &Chart) -> String {
    let panels = (chart.panels)(analysis);
    if panels.is_empty() {
        return String::new();
    }
    let body = folded(&panels, "panels", grid);
    classed(chart.name, "chart", chart.title, chart.caption, &body)
}

/// Formats panels next to each other.
pub(crate) fn grid(panels: &[Panel]) -> String {
    let figures: String = panels
        .iter()
        .map(|panel| {
            let summary = format!(
                "<b>{}</b> <span>{}</span>",
                escape(&panel.title),
                escape(&panel.note)
            );
            let body = legend(&panel.legend) + &panel.svg;
            format!("<figure>{}</figure>", fold("", &summary, &body))
        })
        .collect();
    format!("<div class=\"panels\">{figures}</div>")
}

/// The legend of a panel.
fn legend(swatches: &[(String, String)]) -> String {
    let items: String = swatches
        .iter()
        .map(|(class, words)| format!("<li><span class=\"{class}\"></span>{}</li>", escape(words)))
        .collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

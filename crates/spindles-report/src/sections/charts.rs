//! A section for each chart that has something to show.

use spindles_measure::Analysis;

use super::{Body, Section, classed};
use crate::charts::{Chart, Panel};
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "charts",
    title: "",
    body: Body::Charts(body),
};

/// So many panels of a chart are shown before the rest is folded.
const PANELS_SHOWN: usize = 12;

fn body(analysis: &Analysis, chart: &Chart) -> String {
    let panels = (chart.panels)(analysis);
    if panels.is_empty() {
        return String::new();
    }
    // A few more than fit are no reason to fold.
    let shown = match panels.len() {
        few if few <= PANELS_SHOWN + 2 => few,
        _ => PANELS_SHOWN,
    };
    let (first, rest) = panels.split_at(shown);
    let rest = match rest.len() {
        0 => String::new(),
        count => format!(
            "<details class=\"more\"><summary>{count} more panels</summary>{}</details>",
            grid(rest)
        ),
    };
    let body = grid(first) + &rest;
    classed(chart.name, "chart", chart.title, chart.caption, &body)
}

fn grid(panels: &[Panel]) -> String {
    let figures: String = panels
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
    format!("<div class=\"panels\">{figures}</div>")
}

/// What the colours of a panel mean, within it.
fn legend(swatches: &[(String, String)]) -> String {
    let items: String = swatches
        .iter()
        .map(|(class, words)| format!("<li><span class=\"{class}\"></span>{}</li>", escape(words)))
        .collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

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
                "<figure><figcaption><b>{}</b> <span>{}</span></figcaption>{}</figure>",
                escape(&panel.title),
                escape(&panel.note),
                panel.svg
            )
        })
        .collect();
    if panels.is_empty() {
        return String::new();
    }
    let legend: String = (chart.legend)(analysis)
        .iter()
        .map(|(class, words)| format!("<li><span class=\"{class}\"></span>{}</li>", escape(words)))
        .collect();
    let legend = match &*legend {
        "" => String::new(),
        items => format!("<ul class=\"legend\">{items}</ul>"),
    };
    let body = format!("{legend}<div class=\"panels\">{panels}</div>");
    classed(chart.name, "chart", chart.title, chart.caption, &body)
}

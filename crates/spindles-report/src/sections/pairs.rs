//! Every system against every other, by workload.

use spindles_measure::{Analysis, Ranking};

use super::{Body, Section, classed, coloured, fold, folded};
use crate::choice;
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "pairs",
    title: "All pairs",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let rankings = analysis.choice.workloads.iter();
    let panels: Vec<String> = (rankings.filter(|ranking| ranking.pairs.len() > 1))
        .map(panel)
        .collect();
    if panels.is_empty() {
        return String::new();
    }
    let caption = format!(
        "Each row's system, fastest first, compared with each column's: {}. Columns have the \
         numbers of the rows. Holm's correction covers all {} pairs.",
        coloured(&choice::legend_of_pairs(analysis)),
        analysis.choice.pairs
    );
    let grid = |panels: &[String]| format!("<div class=\"panels\">{}</div>", panels.concat());
    let body = folded(&panels, "workloads", grid);
    classed(SECTION.name, "chart", SECTION.title, &caption, &body)
}

fn panel(ranking: &Ranking) -> String {
    let (systems, rows) = choice::pairs(ranking);
    let head: String = (1..=systems.len())
        .map(|number| format!("<th scope=\"col\">{number}</th>"))
        .collect();
    let rows = systems
        .iter()
        .zip(&rows)
        .enumerate()
        .map(|(at, (system, marks))| {
            let marks = marks.iter().map(|mark| {
                let class = match &**mark {
                    "▲" => " class=\"faster\"",
                    "▼" => " class=\"slower\"",
                    _ => "",
                };
                format!("<td{class}>{mark}</td>")
            });
            format!(
                "<tr><th scope=\"row\">{} {}</th>{}</tr>",
                at + 1,
                escape(system),
                marks.collect::<String>()
            )
        });
    let summary = format!("<b>{}</b>", escape(&ranking.workload));
    let body = format!(
        "<table class=\"pairs\"><thead><tr><th \
         scope=\"col\">system</th>{head}</tr></thead><tbody>{}</tbody></table>",
        rows.collect::<String>()
    );
    format!("<figure>{}</figure>", fold("", &summary, &body))
}

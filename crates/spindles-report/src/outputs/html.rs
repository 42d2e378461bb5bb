//! One self-contained page: no network requests, readable without scripts, in light and dark, on a
//! phone and on paper.

use spindles_measure::{Analysis, Change, ChangeRow, Difference, Finding, PredictionCheck};

use super::{Options, Output};
use crate::charts::class;
use crate::page::Page;
use crate::svg::escape;
use crate::{prediction as predictions, prediction_chart, sections, words};

pub(super) static OUTPUT: Output = Output {
    name: "html",
    summary: "one self-contained page with charts, readable without a network",
    file_name: "report.html",
    has_sections: true,
    applies: |_| true,
    report,
    together: None,
    change: Some(change),
    prediction: Some(prediction),
};

fn report(analysis: &Analysis, options: &Options) -> String {
    report_page(analysis, options).html()
}

/// Builds the page of a report, so that callers can add to it.
pub fn report_page(analysis: &Analysis, options: &Options) -> Page {
    let wanted = |name: &str| {
        options.sections.is_empty() || options.sections.iter().any(|section| section == name)
    };
    let mut body = String::new();
    let mut contents = String::new();
    for part in sections::parts() {
        if !wanted(part.name) {
            continue;
        }
        let html = part.draw(analysis);
        if !html.is_empty() && !part.entry.is_empty() {
            contents += &format!("<li><a href=\"#{}\">{}</a></li>", part.name, part.entry);
        }
        body += &html;
    }
    let title = format!("{} – Spindles lab report", analysis.experiment.name);
    Page {
        title,
        contents,
        body,
        served: None,
    }
}

fn change(change: &Change, _: &Options) -> String {
    change_page(change).html()
}

/// Builds the page of a change, so that callers can add to it.
pub fn change_page(change: &Change) -> Page {
    let [before, after] = words::sides(change).map(|side| escape(&side));
    let rows: String = change.rows.iter().map(change_row).collect();
    let environment: Vec<String> = change
        .environment
        .iter()
        .map(|(name, before, after)| format!("{name}: {before} before, {after} after"))
        .chain(words::change_not_shown_among(change))
        .chain(change.unmatched.iter().cloned())
        .collect();
    let different = words::different_work(change).map_or(String::new(), |said| {
        let differences = change.different_work.iter().map(Difference::words);
        let differences = list(&differences.collect::<Vec<_>>());
        format!(
            "<ul class=\"caveats\"><li>{}</li>{differences}</ul>",
            escape(said)
        )
    });
    let head: String = COLUMNS
        .iter()
        .map(|(title, class)| format!("<th scope=\"col\"{class}>{title}</th>"))
        .collect();
    let rows = format!("<tbody>{rows}</tbody>");
    let table = sections::table("Comparison", "full", &head, &rows);
    let body = format!(
        "<section id=\"headline\"><h1>Before and after</h1>{}<p class=\"lead\">{}</p><ul \
         class=\"extremes\" style=\"margin-top:16px\"><li>Before: {}</li><li>After: \
         {}</li>{}</ul></section><section id=\"comparison\"><h2>Comparison</h2><p \
         class=\"caption\">Rates and times are geometric means. The change is their ratio, in \
         percent or as a factor from 2 × on, with its 95 % interval. Repetitions before and after \
         are not paired, so each side is resampled separately. Compare the change of an array with \
         the change of the baseline.</p>{table}</section><section \
         id=\"doubts\"><h2>Doubts</h2>{}</section>\n",
        different,
        words::change_sums(change),
        before,
        after,
        list(&environment),
        doubts(&change.findings),
    );
    Page {
        title: "Before and after – Spindles lab report".to_owned(),
        contents: String::new(),
        body,
        served: None,
    }
}

fn list(items: &[String]) -> String {
    let items = items.iter();
    items
        .map(|item| format!("<li>{}</li>", escape(item)))
        .collect()
}

fn doubts(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "<p class=\"caption\">No doubts were found about these figures.</p>".to_owned();
    }
    sections::listed_doubts(findings)
}

fn prediction(check: &PredictionCheck, _: &Options) -> String {
    prediction_page(check).html()
}

/// Builds the page of a prediction next to a measurement, so that callers can add to it.
pub fn prediction_page(check: &PredictionCheck) -> Page {
    let [predicted, measured] = predictions::sides(check).map(|side| escape(&side));
    let mut sentences = predictions::sentences(check).into_iter();
    let lead = sentences.next().unwrap_or_default();
    let sentences: Vec<String> = sentences.chain(predictions::remarks(check)).collect();
    let mut body = format!(
        "<section id=\"headline\"><h1>Predicted and measured</h1><p class=\"lead\">{}</p><ul \
         class=\"extremes\" style=\"margin-top:16px\"><li>Predicted: {predicted}</li><li>Measured: \
         {measured}</li>{}</ul></section>",
        escape(&lead),
        list(&sentences)
    );
    let charts = sections::grid(&prediction_chart::panels(check));
    body += &sections::classed(
        "chart",
        "chart",
        "By workload",
        prediction_chart::CAPTION,
        &charts,
    );
    let names = ["figures", "ratios"];
    for (name, (title, columns)) in names.into_iter().zip(predictions::tables(check)) {
        if let Some(table) = sections::table_of_columns(title, "full", &columns) {
            body += &sections::classed(name, "", title, predictions::CAPTION, &table);
        }
    }
    body += &sections::classed("doubts", "", "Doubts", "", &doubts(&check.findings));
    Page {
        title: "Predicted and measured – Spindles lab report".to_owned(),
        contents: String::new(),
        body,
        served: None,
    }
}

/// The columns of a change: title and attributes.
const COLUMNS: [(&str, &str); 7] = [
    ("system", ""),
    ("workload", ""),
    ("before", " class=\"n\""),
    ("after", " class=\"n\""),
    ("change", " class=\"n\""),
    ("95 % interval", " class=\"n\""),
    ("verdict", ""),
];

fn change_row(row: &ChangeRow) -> String {
    let [before, after, change, interval, verdict] = words::change_row(row);
    let verdict = format!(
        "<span class=\"verdict {}\">{}</span>",
        row.verdict.map_or("", class),
        verdict.trim_start_matches("· "),
    );
    let texts = [escape(&row.of()), before, after, change, interval, verdict];
    let cells: String = COLUMNS[1..]
        .iter()
        .zip(texts)
        .map(|((title, attributes), text)| sections::cell(title, attributes, &text))
        .collect();
    format!(
        "<tr><th scope=\"row\">{}</th>{cells}</tr>",
        escape(&row.system)
    )
}

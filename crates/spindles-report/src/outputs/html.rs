//! One self-contained page: no request to anywhere, readable without scripts, in
//! light and dark, on a phone and on paper.

use spindles_measure::{Analysis, Change, ChangeRow, Difference};

use super::{Options, Output};
use crate::charts::class;
use crate::svg::escape;
use crate::{figures, sections, words};

pub(super) static OUTPUT: Output = Output {
    name: "html",
    summary: "one self-contained page with charts, readable without a network",
    file_name: "report.html",
    report,
    change: Some(change),
};

const STYLE: &str = include_str!("../page/style.css");
const SCRIPT: &str = include_str!("../page/script.js");
/// Three spindles of discs.
const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
    <ellipse cx=\"12\" cy=\"6\" rx=\"9\" ry=\"3\"/><path d=\"M3 6v6c0 1.7 4 3 9 3s9-1.3 9-3V6\"/>\
    <path d=\"M3 12v6c0 1.7 4 3 9 3s9-1.3 9-3v-6\"/></svg>";

fn report(analysis: &Analysis, options: &Options) -> String {
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
    page(&title, &contents, &body)
}

fn page(title: &str, contents: &str, body: &str) -> String {
    let contents = match contents {
        "" => String::new(),
        items => format!("<nav aria-label=\"Contents\"><ul>{items}</ul></nav>"),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"brand\">{LOGO}<b>Spindles</b> <span>lab report</span></p>{contents}</header>\n\
         <main>\n{body}</main>\n\
         <footer><p>Drawn by Spindles from records alone. Nothing in this page asks the network for \
         anything.</p></footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(title)
    )
}

fn change(change: &Change, _: &Options) -> String {
    let side =
        |(name, started): &(String, u64)| format!("{}, {}", escape(name), figures::date(*started));
    let rows: String = change.rows.iter().map(change_row).collect();
    let list = |items: Vec<String>| -> String {
        items
            .iter()
            .map(|item| format!("<li>{}</li>", escape(item)))
            .collect()
    };
    let environment = change
        .environment
        .iter()
        .map(|(name, before, after)| format!("{name}: {before} before, {after} after"))
        .chain(change.unmatched.iter().cloned())
        .collect();
    let different = words::different_work(change).map_or(String::new(), |said| {
        let differences = change.different_work.iter().map(Difference::words);
        let differences = list(differences.collect());
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
        "<section id=\"headline\"><h1>Before and after</h1>{}<p class=\"lead\">{}</p><ul class=\"extremes\" style=\"margin-top:16px\"><li>Before: {}</li>\
         <li>After: {}</li>{}</ul></section>\
         <section id=\"comparison\"><h2>Comparison</h2><p class=\"caption\">\
         Rates are geometric means, and the change is their ratio with its 95 % interval; the repetitions \
         before and after are no pairs, so each side is resampled on its own. Read a change of an \
         array beside the change of the baseline.</p>{table}</section>\
         <section id=\"doubts\"><h2>Doubts</h2>{}</section>\n",
        different,
        words::change_sums(change),
        side(&change.before),
        side(&change.after),
        list(environment),
        if change.findings.is_empty() {
            "<p class=\"caption\">No doubt was found about these figures.</p>".to_owned()
        } else {
            sections::listed_doubts(&change.findings)
        },
    );
    page("Before and after – Spindles lab report", "", &body)
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
    let texts = [
        escape(&row.workload),
        before,
        after,
        change,
        interval,
        verdict,
    ];
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

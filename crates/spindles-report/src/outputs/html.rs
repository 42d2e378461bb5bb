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
    change,
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
    let doubts: String = change
        .findings
        .iter()
        .map(|finding| {
            format!(
                "<li><h3>{}</h3><p>{}</p><ul>{}</ul></li>",
                escape(&finding.title),
                escape(&finding.remedy),
                list(finding.details.clone())
            )
        })
        .collect();
    let different = words::different_work(change).map_or(String::new(), |said| {
        let differences = change.different_work.iter().map(Difference::words);
        let differences = list(differences.collect());
        format!(
            "<ul class=\"caveats\"><li>{}</li>{differences}</ul>",
            escape(said)
        )
    });
    let body = format!(
        "<section id=\"headline\"><h1>Before and after</h1>{}<p class=\"lead\">{}</p><ul class=\"extremes\" style=\"margin-top:16px\"><li>Before: {}</li>\
         <li>After: {}</li>{}</ul></section>\
         <section id=\"comparison\"><h2>Comparison</h2><p class=\"caption\">\
         Rates are geometric means, and the change is their ratio with its 95 % interval; the repetitions \
         before and after are no pairs, so each side is resampled on its own. Read a change of an \
         array beside the change of the single disk.</p><div class=\"scroll\" tabindex=\"0\" \
         role=\"region\" aria-label=\"Comparison\"><table class=\"full\">\
         <thead><tr><th scope=\"col\">system</th><th scope=\"col\">workload</th>\
         <th scope=\"col\" class=\"n\">before</th><th scope=\"col\" class=\"n\">after</th>\
         <th scope=\"col\" class=\"n\">change</th><th scope=\"col\" class=\"n\">95 % interval</th>\
         <th scope=\"col\">verdict</th></tr></thead><tbody>{rows}</tbody></table></div></section>\
         <section id=\"doubts\"><h2>Doubts</h2>{}</section>\n",
        different,
        words::change_sums(change),
        side(&change.before),
        side(&change.after),
        list(environment),
        if doubts.is_empty() {
            "<p class=\"caption\">No doubt was found about these figures.</p>".to_owned()
        } else {
            format!("<ol class=\"doubts\">{doubts}</ol>")
        },
    );
    page("Before and after – Spindles lab report", "", &body)
}

fn change_row(row: &ChangeRow) -> String {
    let [before, after, change, interval, verdict] = words::change_row(row);
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{before}</td><td class=\"n\">{after}</td>\
         <td class=\"n\">{change}</td><td class=\"n soft\">{interval}</td>\
         <td><span class=\"verdict {}\">{}</span></td></tr>",
        escape(&row.system),
        escape(&row.workload),
        row.verdict.map_or("", class),
        verdict.trim_start_matches("· "),
    )
}

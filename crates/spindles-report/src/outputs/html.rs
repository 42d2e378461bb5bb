//! One self-contained page: no network requests, readable without scripts, in light and dark, on a
//! phone and on paper.

use spindles_measure::{Analysis, Change, ChangeRow, Difference};

use super::{Options, Output};
use crate::charts::class;
use crate::page::Page;
use crate::svg::escape;
use crate::{sections, words};

pub(super) static OUTPUT: Output = Output {
    name: "html",
    summary: "one self-contained page with charts, readable without a network",
    file_name: "report.html",
    has_sections: true,
    applies: |_| true,
    report,
    together: None,
    change: Some(change),
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
        .chain(words::change_not_shown_among(change))
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
        list(environment),
        if change.findings.is_empty() {
            "<p class=\"caption\">No doubts were found about these figures.</p>".to_owned()
        } else {
            sections::listed_doubts(&change.findings)
        },
    );
    Page {
        title: "Before and after – Spindles lab report".to_owned(),
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

//! The whole comparison as one table: rates, differences with their intervals,
//! verdicts, latencies, member bytes and CPU.

use spindles_measure::{Analysis, Cell, Comparison, Latency, Quantity, Workload};

use super::{Body, Section, fold, section};
use crate::charts::class;
use crate::svg::escape;
use crate::{comparisons, figures, words};

pub(super) static SECTION: Section = Section {
    name: "comparison",
    title: "Comparison",
    body: Body::One(body),
};

const CAPTION: &str = "Rates are geometric means of all repetitions. The difference is their ratio \
    over the repetition blocks that both sides finished, in percent or as a factor from 2 × on. \
    The 95 % interval is over these blocks. A verdict needs an interval that lies wholly beyond \
    the difference of the A/A pair and, among more than ten comparisons, holds after Holm's \
    correction. Latencies are of operations of all kinds; p99.9 needs 10,000 operations. If \
    operations arrive at a set rate, latencies are response times, from when an operation was due. \
    Member bytes are all bytes moved at the members for each byte the workload moved.";

const COLUMNS: &[(&str, bool)] = &[
    ("system", false),
    ("rate", true),
    ("difference", true),
    ("95 % interval", true),
    ("verdict", false),
    ("p50", true),
    ("p99", true),
    ("p99.9", true),
    ("max", true),
    ("member bytes", true),
    ("CPU", true),
];

fn body(analysis: &Analysis) -> String {
    let workloads = analysis.experiment.workloads.iter();
    let groups: String = workloads
        .map(|workload| group(analysis, workload))
        .collect();
    let body = format!("<div class=\"frame\">{groups}</div>");
    section(SECTION.name, SECTION.title, CAPTION, &body)
}

/// Formats the table of a workload.
fn group(analysis: &Analysis, workload: &Workload) -> String {
    let rows: String = analysis
        .experiment
        .systems
        .iter()
        .filter_map(|system| {
            let cell = analysis.cell(&system.name, &workload.name)?;
            Some(row(analysis, cell, workload))
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let has_times = analysis.quantities(workload) == [Quantity::Time];
    let head: String = COLUMNS
        .iter()
        .map(|(title, figures)| {
            let class = if *figures { " class=\"n\"" } else { "" };
            let title = match *title {
                "rate" if has_times => "time",
                title => title,
            };
            format!("<th scope=\"col\"{class}>{title}</th>")
        })
        .collect();
    let summary = format!(
        "<b>{}</b> <small>{}; {}CPU {}{}</small>",
        escape(&workload.name),
        escape(workload.summary.trim_end_matches('.')),
        latencies_of(analysis, workload),
        figures::cpu_unit(workload.rate),
        words::how_compared(analysis, workload)
            .map_or(String::new(), |how| format!(". {}", escape(&how))),
    );
    let table = format!(
        "<table class=\"full even\"><caption \
         class=\"hidden\">{}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>",
        escape(&workload.name)
    );
    fold("group", &summary, &table)
}

/// Names the operations of the latencies, if a workload has several kinds.
fn latencies_of(analysis: &Analysis, workload: &Workload) -> &'static str {
    let are_several = analysis.has_several_operations(&workload.name);
    if are_several && analysis.quantities(workload) == [Quantity::Rate] {
        "latencies of all operations; "
    } else {
        ""
    }
}

fn row(analysis: &Analysis, cell: &Cell, workload: &Workload) -> String {
    let quantities = analysis.quantities(workload);
    let is_paced = quantities.contains(&Quantity::ResponseP99);
    let compared = |text: &dyn Fn(Option<&Comparison>) -> String| {
        let texts = quantities.iter().map(|&quantity| {
            let text = text(comparisons::comparison(analysis, cell, quantity));
            match quantity {
                Quantity::ResponseP99 if !text.is_empty() => format!("p99 {text}"),
                Quantity::ResponseP50 if !text.is_empty() => format!("p50 {text}"),
                _ => text,
            }
        });
        texts.collect::<Vec<_>>().join("<br>")
    };
    let shown = if is_paced {
        Quantity::Rate
    } else {
        quantities[0]
    };
    let verdicts = match (words::is_baseline(analysis, cell), quantities) {
        (true, _) => verdict(None),
        _ => compared(&|comparison| comparison.map_or(String::new(), |shown| verdict(Some(shown)))),
    };
    let mut row = format!("<tr><th scope=\"row\">{}</th>", escape(&cell.system));
    let main = match quantities {
        [Quantity::Rate] => cell.latencies(),
        _ => cell.responses(),
    };
    let latency = |of: fn(&Latency) -> Option<u64>| {
        let found = main.as_ref().and_then(of);
        found.map_or(String::new(), |ns| figures::time(figures::float(ns)))
    };
    let columns = [
        words::figure(cell, shown),
        compared(&|comparison| comparison.map_or(String::new(), words::difference)),
        compared(&|comparison| comparison.map_or(String::new(), words::interval)),
        verdicts,
        latency(|latency| Some(latency.p50_ns)),
        latency(|latency| Some(latency.p99_ns)),
        latency(|latency| latency.p99_9_ns),
        latency(|latency| Some(latency.max_ns)),
        cell.traffic_amplification()
            .map_or(String::new(), figures::times),
        cell.cpu_per_counted()
            .map_or(String::new(), |(workload, engine, rest)| {
                figures::cpu(workload + engine + rest, cell.rate)
            }),
    ];
    for ((title, figures), content) in COLUMNS[1..].iter().zip(columns) {
        let class = if *figures { " class=\"n\"" } else { "" };
        let title = match *title {
            "rate" => shown.words(),
            title => title,
        };
        row += &super::cell(title, class, &content);
    }
    row + "</tr>"
}

fn verdict(comparison: Option<&Comparison>) -> String {
    let (class, words) = match comparison {
        None => ("", "baseline".to_owned()),
        Some(c) if c.control => ("equal", words::verdict(c)),
        Some(c) => (class(c.verdict), words::marked(c)),
    };
    format!("<span class=\"verdict {class}\">{words}</span>")
}

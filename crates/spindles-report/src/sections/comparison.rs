//! The whole comparison as one table: rates, differences with their intervals,
//! verdicts, latencies, member bytes and CPU.

use spindles_measure::{Analysis, Cell, Comparison, Verdict, Workload};

use super::{Body, Section, section};
use crate::charts::class;
use crate::figures;
use crate::svg::escape;

pub(super) static SECTION: Section = Section {
    name: "comparison",
    title: "Comparison",
    body: Body::One(body),
};

const CAPTION: &str = "Rates are medians of all repetitions. The difference is the geometric mean \
    over repetition blocks with its 95 % interval; a verdict is given only when the interval leaves \
    out zero, holds after Holm's correction where there are more than ten comparisons, and is larger \
    than what the A/A pair showed. Latencies are of the operation there is most of. Member bytes are all bytes moved at the members for each byte the \
    workload moved.";

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
    let head: String = COLUMNS
        .iter()
        .map(|(title, figures)| {
            let class = if *figures { " class=\"n\"" } else { "" };
            format!("<th scope=\"col\"{class}>{title}</th>")
        })
        .collect();
    let bodies: String = analysis
        .experiment
        .workloads
        .iter()
        .map(|workload| group(analysis, workload))
        .collect();
    let table = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
         <table class=\"full\"><caption class=\"hidden\">{0}</caption>\
         <thead><tr>{head}</tr></thead>{bodies}</table></div>",
        SECTION.title,
    );
    section(SECTION.name, SECTION.title, CAPTION, &table)
}

fn group(analysis: &Analysis, workload: &Workload) -> String {
    let rows: String = analysis
        .experiment
        .systems
        .iter()
        .filter_map(|system| {
            let cell = analysis.cell(&system.name, &workload.name)?;
            Some(row(cell, analysis.comparison(&system.name, &workload.name)))
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\"><span>{} <small>{}; CPU \
         {}</small></span></th></tr>{rows}</tbody>",
        COLUMNS.len(),
        escape(&workload.name),
        escape(workload.summary.trim_end_matches('.')),
        figures::cpu_unit(workload.rate),
    )
}

fn row(cell: &Cell, comparison: Option<&Comparison>) -> String {
    let mut row = format!(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td>",
        escape(&cell.system),
        figures::rate(cell.median, cell.rate)
    );
    row += &match comparison {
        None => "<td></td><td></td><td><span class=\"verdict\">baseline</span></td>".to_owned(),
        Some(c) => format!(
            "<td class=\"n\">{}</td><td class=\"n soft\">{}</td>\
             <td><span class=\"verdict {}\">{} {}</span></td>",
            figures::percent(c.percent().0),
            figures::interval(&c.log_ratio),
            class(c.verdict),
            match c.verdict {
                Verdict::NoDifferenceShown => "",
                verdict => figures::mark(verdict),
            },
            if c.control {
                "A/A pair"
            } else {
                c.verdict.words()
            },
        ),
    };
    let latency = |of: fn(&spindles_measure::Latency) -> u64| {
        let found = cell.main_latency().map(of);
        found.map_or(String::new(), |ns| figures::time(figures::float(ns)))
    };
    let figures = [
        latency(|latency| latency.p50_ns),
        latency(|latency| latency.p99_ns),
        latency(|latency| latency.p99_9_ns),
        latency(|latency| latency.max_ns),
        cell.traffic_amplification()
            .map_or(String::new(), figures::times),
        cell.cpu_per_counted()
            .map_or(String::new(), |(workload, engine, rest)| {
                figures::cpu(workload + engine + rest, cell.rate)
            }),
    ];
    for figure in figures {
        row += &format!("<td class=\"n\">{figure}</td>");
    }
    row + "</tr>"
}

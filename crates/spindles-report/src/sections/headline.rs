//! The first screen: results, their limits, and the machine.

use spindles_measure::{Analysis, Verdict};

use super::choice::caveats_of;
use super::{Body, Section};
use crate::svg::escape;
use crate::{choice, figures, headline, words};

pub(super) static SECTION: Section = Section {
    name: "headline",
    title: "",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let experiment = &analysis.experiment;
    let headline = headline(analysis);
    let title = match &*experiment.summary {
        "" => &*experiment.name,
        summary => summary.trim_end_matches('.'),
    };
    let named = [
        experiment.name.clone(),
        figures::date(experiment.started_unix_ms),
    ];
    let kicker = named
        .into_iter()
        .chain(facts(analysis))
        .filter(|part| !part.is_empty())
        .map(|part| escape(&part))
        .collect::<Vec<_>>()
        .join(" · ");
    let scaled = headline.scaled.as_ref().map_or(String::new(), |scaled| {
        format!("<p class=\"caption\">{}</p>", escape(scaled))
    });
    // With several systems, their choice comes first; the comparisons with the baseline follow it.
    let (lead, rest) = match choice::answer(analysis) {
        Some(answer) => (answer, String::new()),
        None => (
            headline.lead.clone(),
            caveats_of(&headline.caveats, analysis.findings.len()),
        ),
    };
    format!(
        "<section id=\"headline\"><p class=\"kicker\">{kicker}</p><h1>{}</h1>\
         <p class=\"lead\">{}</p>{scaled}{rest}</section>\n",
        escape(title),
        escape(
            lead.strip_prefix(choice::TITLE)
                .unwrap_or(&lead)
                .trim_start()
        ),
    )
}

/// Summary of the comparisons with the baseline, and the largest differences.
pub(super) fn sums(analysis: &Analysis) -> String {
    let headline = headline(analysis);
    let extremes: String = headline
        .extremes
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    format!(
        "<p class=\"lead\">{}</p>{}<ul class=\"extremes\">{extremes}</ul>",
        escape(&headline.lead),
        tally(analysis),
    )
}

/// Number of comparisons with each verdict, as one bar.
fn tally(analysis: &Analysis) -> String {
    let count = |verdict: Verdict| {
        let comparisons = analysis.headlines();
        comparisons.filter(|c| c.verdict == verdict).count()
    };
    let parts: String = [
        ("faster", "faster", Verdict::Faster),
        ("equal", "no difference shown", Verdict::NoDifferenceShown),
        ("slower", "slower", Verdict::Slower),
        ("equal", "refused", Verdict::Refused),
        ("equal", "one block: no verdict", Verdict::OneBlock),
        ("equal", "failed", Verdict::Failed),
    ]
    .into_iter()
    .map(|(class, words, verdict)| (class, words, count(verdict)))
    .filter(|(_, _, count)| *count > 0)
    .map(|(class, words, count)| {
        format!(
            "<li class=\"{class}\" style=\"flex-grow:{count}\"><b>{count}</b> \
             <span>{words}</span></li>"
        )
    })
    .collect();
    match &*parts {
        "" => String::new(),
        parts => format!("<ul class=\"tally\">{parts}</ul>"),
    }
}

/// The extent of the measurement, the machine, and the access path.
fn facts(analysis: &Analysis) -> [String; 3] {
    let environment = &analysis.environment;
    let machine = [
        environment.cpu_model.clone(),
        match environment.cpus {
            0 => String::new(),
            1 => "1 logical CPU".to_owned(),
            cpus => format!("{cpus} logical CPUs"),
        },
        match environment.memory_bytes {
            0 => String::new(),
            bytes => figures::bytes(figures::float(bytes)),
        },
    ];
    let members = [words::backends(analysis), environment.file_system.clone()];
    let joined = |parts: &[String]| -> String {
        let known: Vec<&str> = parts
            .iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        known.join(", ")
    };
    [words::extent(analysis), joined(&machine), joined(&members)]
}

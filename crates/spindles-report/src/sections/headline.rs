//! The first screen: what came out, what it is not, where it was measured.

use spindles_measure::{Analysis, Verdict};

use super::{Body, Section};
use crate::svg::escape;
use crate::{figures, headline, words};

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
    let kicker = [
        &*experiment.name,
        &*figures::date(experiment.started_unix_ms),
    ]
    .iter()
    .filter(|part| !part.is_empty())
    .map(|part| escape(part))
    .collect::<Vec<_>>()
    .join(" · ");
    let scaled = headline.scaled.map_or(String::new(), |scaled| {
        format!("<p class=\"caption\">{}</p>", escape(&scaled))
    });
    let extremes: String = headline
        .extremes
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let caveats: String = headline
        .caveats
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let caveats = match (&*caveats, analysis.findings.len()) {
        ("", _) => String::new(),
        (lines, 0) => format!("<ul class=\"caveats\">{lines}</ul>"),
        (lines, doubts) => format!(
            "<ul class=\"caveats\">{lines}<li><a href=\"#doubts\">{} about these figures, and what \
             to do about {}</a></li></ul>",
            if doubts == 1 {
                "One doubt".to_owned()
            } else {
                format!("All {doubts} doubts")
            },
            if doubts == 1 { "it" } else { "them" },
        ),
    };
    format!(
        "<section id=\"headline\"><p class=\"kicker\">{kicker}</p><h1>{}</h1>\
         <p class=\"lead\">{}</p>{scaled}{}<ul class=\"extremes\">{extremes}</ul>{caveats}\
         <dl class=\"facts\">{}</dl></section>\n",
        escape(title),
        escape(&headline.lead),
        tally(analysis),
        facts(analysis),
    )
}

/// How many comparisons came to which verdict, as one bar.
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
            "<li class=\"{class}\" style=\"flex-grow:{count}\"><b>{count}</b> <span>{words}</span></li>"
        )
    })
    .collect();
    match &*parts {
        "" => String::new(),
        parts => format!("<ul class=\"tally\">{parts}</ul>"),
    }
}

fn facts(analysis: &Analysis) -> String {
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
    [
        ("Measured", words::extent(analysis)),
        ("Machine", joined(&machine)),
        ("Members through", joined(&members)),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value)))
    .collect()
}

//! The records themselves, for checking the page and formatting it again.

use spindles_measure::{Analysis, Record, to_line};

use super::{Body, Section, section};
use crate::{figures, words};

pub(super) static SECTION: Section = Section {
    name: "records",
    title: "Records",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    // Totals are derived from runs, so they are not records.
    let mut experiment = analysis.experiment.clone();
    experiment.workloads.retain(|workload| !workload.is_total());
    let head = [
        Record::Experiment(experiment),
        Record::Environment(analysis.environment.clone()),
    ];
    let calibration = analysis.calibration.iter();
    let calibration =
        calibration.map(|calibration| Record::Calibration(Box::new(calibration.clone())));
    let runs = analysis
        .runs
        .iter()
        .chain(&analysis.trials)
        .map(|run| Record::Run(Box::new(run.clone())));
    let lines: Vec<String> = head
        .into_iter()
        .chain(calibration)
        .chain(runs)
        .map(|record| to_line(&record).trim_end().to_owned())
        .collect();
    // Inside a script element only "<" could end it.
    let array = format!("[\n{}\n]", lines.join(",\n")).replace('<', "\\u003c");
    let size = figures::bytes(figures::float(
        u64::try_from(array.len()).unwrap_or(u64::MAX),
    ));
    let body = format!(
        "<p><button id=\"download\" type=\"button\" hidden>Download the records \
         ({size})</button></p><noscript><p>They are in the source of this page, in the element \
         with the id <code>data</code>.</p></noscript><script type=\"application/json\" \
         id=\"data\">{array}</script>"
    );
    section(
        SECTION.name,
        SECTION.title,
        &format!(
            "Everything above was drawn from the {} recorded runs ({}) that are embedded in this \
             page, and can be drawn from them again.",
            analysis.runs.len() + analysis.trials.len(),
            words::extent(analysis),
        ),
        &body,
    )
}

//! The machine, the software and the settings of the measurement.

use spindles_measure::Analysis;

use super::{Body, Section, fold, section};
use crate::svg::escape;
use crate::{figures, words};

pub(super) static SECTION: Section = Section {
    name: "environment",
    title: "Environment",
    body: Body::One(body),
};

fn body(analysis: &Analysis) -> String {
    let facts: String = words::environment(analysis)
        .iter()
        .map(|(name, value)| {
            format!(
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(name),
                escape(value)
            )
        })
        .collect();
    let systems: String = analysis
        .experiment
        .systems
        .iter()
        .map(|system| {
            let chunk = match system.chunk_bytes {
                0 => String::new(),
                bytes => format!(", chunks of {}", figures::bytes(figures::float(bytes))),
            };
            let capacity = match system.capacity_bytes {
                0 => String::new(),
                bytes => format!(", offers {}", figures::bytes(figures::float(bytes))),
            };
            format!(
                "<div><dt>{}</dt><dd><code>{}</code><small>{}{chunk}{capacity}</small></dd></div>",
                escape(&system.name),
                escape(&system.expression),
                escape(&words::describe(system)),
            )
        })
        .collect();
    let definition = match &*analysis.experiment.definition {
        "" => String::new(),
        text => format!(
            "<details><summary>The experiment file</summary><pre tabindex=\"0\">{}</pre></details>",
            escape(text)
        ),
    };
    section(
        SECTION.name,
        SECTION.title,
        "",
        &format!(
            "{}{}{definition}",
            fold(
                "",
                "<b>The machine</b>",
                &format!("<dl class=\"table\">{facts}</dl>")
            ),
            fold(
                "",
                "<b>The systems</b>",
                &format!("<dl class=\"table\">{systems}</dl>")
            ),
        ),
    )
}

//! Overview: systems as rows, workloads as columns.

use spindles_measure::{Analysis, Comparison, Quantity, System, Verdict, Workload};

use super::{Body, Section, coloured, fold, section, table};
use crate::charts::class;
use crate::svg::escape;
use crate::{comparisons, figures, words};

pub(super) static SECTION: Section = Section {
    name: "overview",
    title: "At a glance",
    body: Body::One(body),
};

/// Title of the column over all workloads.
const OVERALL: &str = "geometric mean";

/// With more workloads than this, the table becomes cards.
const COLUMNS_MAX: usize = 8;

fn body(analysis: &Analysis) -> String {
    if analysis.comparisons.is_empty() {
        return String::new();
    }
    let questions = analysis.questions();
    let rows: String = analysis
        .compared()
        .map(|system| compared_row(analysis, &questions, system))
        .collect();
    let class = match questions.len() {
        0..=COLUMNS_MAX => "glance",
        _ => "glance cards",
    };
    let baseline = baseline_row(analysis, &questions);
    let body = format!("<tbody>{baseline}{rows}</tbody>");
    let table = table(SECTION.title, class, &head(analysis, &questions), &body);
    let summary = format!(
        "<b>Difference from {}</b>",
        escape(words::baseline_name(analysis))
    );
    let table = fold("", &summary, &table);
    let body = format!(
        "{}<p class=\"caption\">{}</p>{table}",
        super::headline::sums(analysis),
        caption(analysis)
    );
    section(SECTION.name, SECTION.title, "", &body)
}

/// Returns the cells of the table's head: a column for each question, and one over all.
fn head(analysis: &Analysis, questions: &[(&Workload, Quantity)]) -> String {
    let mut head = String::from("<th scope=\"col\">system</th>");
    for &(workload, quantity) in questions {
        head += &format!(
            "<th scope=\"col\" class=\"n\" title=\"{}\">{}</th>",
            escape(&workload.summary),
            escape(&quantity.of(&workload.name))
        );
    }
    if !analysis.overall.is_empty() {
        head += &format!(
            "<th scope=\"col\" class=\"n\" title=\"all workloads have the same \
             weight\">{OVERALL}</th>"
        );
    }
    head
}

/// Returns the row of the baseline, with its rates; empty if the baseline did not run.
fn baseline_row(analysis: &Analysis, questions: &[(&Workload, Quantity)]) -> String {
    let experiment = &analysis.experiment;
    let mut systems = experiment.systems.iter();
    let Some(system) = systems.find(|system| system.name == experiment.baseline) else {
        return String::new();
    };
    let mut cells = String::new();
    for &(workload, quantity) in questions {
        let question = (&*workload.name, quantity);
        let figure = comparisons::baseline_figure(analysis, &experiment.baseline, question);
        let name = quantity.of(&workload.name);
        cells += &super::cell(&name, " class=\"n\"", &figure.unwrap_or_default());
    }
    if !analysis.overall.is_empty() {
        cells += &super::cell(OVERALL, "", "");
    }
    format!("<tr class=\"baseline\">{}{cells}</tr>", row_head(system))
}

/// Returns the row of a system, with its differences from the baseline.
fn compared_row(
    analysis: &Analysis,
    questions: &[(&Workload, Quantity)],
    system: &System,
) -> String {
    let mut row = format!("<tr>{}", row_head(system));
    for &(workload, quantity) in questions {
        let name = quantity.of(&workload.name);
        let question = (&*workload.name, quantity);
        let comparison = comparisons::comparison_of(analysis, &system.name, question);
        let figure = comparisons::baseline_figure(analysis, &system.name, question);
        row += &match (figure, comparison) {
            (Some(figure), _) => super::cell(&name, " class=\"n\"", &figure),
            (None, Some(it)) => cell(&name, it),
            (None, None) => super::cell(&name, "", ""),
        };
    }
    if !analysis.overall.is_empty() {
        let mut overall = analysis.overall.iter();
        let overall = overall.find(|comparison| comparison.system == system.name);
        row += &overall.map_or(super::cell(OVERALL, "", ""), |overall| {
            cell(OVERALL, overall)
        });
    }
    row + "</tr>"
}

/// Explains the table: what its figures, marks and last column mean.
fn caption(analysis: &Analysis) -> String {
    format!(
        "Difference of the rate from {}, whose rates are in the first row, in percent or as a \
         factor from 2 × on. {}.{}{}",
        escape(words::baseline_name(analysis)),
        coloured(&words::legend(analysis)),
        escape(&words::exceptions(analysis)),
        if analysis.overall.is_empty() {
            String::new()
        } else {
            format!(" The last column: {}", escape(&words::overall(analysis)))
        },
    )
}

fn row_head(system: &System) -> String {
    format!(
        "<th scope=\"row\">{}<small>{}</small></th>",
        escape(&system.name),
        escape(&words::describe(system))
    )
}

fn cell(column: &str, comparison: &Comparison) -> String {
    // Strength of the tint, full from a factor of two.
    let strength = (comparison.log_ratio.value.abs() / std::f64::consts::LN_2).min(1.0);
    let attributes = format!(
        " class=\"n {}\" style=\"--strength:{:.0}%\" title=\"95 % interval {}: {}\"",
        class(comparison.verdict),
        12.0 + strength * 40.0,
        words::interval(comparison),
        words::verdict(comparison),
    );
    let mark = format!(" <i>{}</i>", figures::mark(comparison.verdict));
    // Some marks show the direction. For the others a word does, on a second line since cells are
    // narrow.
    let content = match (
        figures::factor(comparison.log_ratio.value),
        comparison.verdict,
    ) {
        (None, _) => words::difference(comparison) + &mark,
        (Some((factor, _)), Verdict::Faster | Verdict::Slower) => format!("{factor} ×{mark}"),
        (Some((factor, which)), _) => format!("{factor} ×<br>{which}{mark}"),
    };
    super::cell(column, &attributes, &content)
}

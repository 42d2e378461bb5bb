//! Markdown: pastes into an issue or a note.

use std::fmt::Write as _;

use spindles_measure::{Analysis, Change, Comparison, Finding, PredictionCheck, Workload};

use super::{Options, Output};
use crate::comparisons::{self, Column};
use crate::sections::text_tables;
use crate::{choice, headline, prediction as predictions, verdicts, words};

pub(super) static OUTPUT: Output = Output {
    name: "markdown",
    summary: "Markdown tables that paste into an issue",
    file_name: "report.md",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(super::concatenated),
    change: Some(change),
    prediction: Some(prediction),
};

fn report(analysis: &Analysis, _: &Options) -> String {
    let mut text = format!("# {}\n\n", cell(&analysis.experiment.name));
    let headline = headline(analysis);
    which(analysis, &mut text);
    line(&mut text, &format!("**{}**", cell(&headline.lead)));
    for sentence in headline.scaled.iter().chain(&headline.extremes) {
        line(&mut text, &cell(sentence));
    }
    text.push('\n');
    for caveat in &headline.caveats {
        line(&mut text, &format!("> {}  ", cell(caveat)));
    }
    line(&mut text, &format!("\n{}.", words::extent(analysis)));
    for workload in &analysis.experiment.workloads {
        workload_table(analysis, workload, &mut text);
    }
    overall(analysis, &mut text);
    for (title, table) in text_tables() {
        let columns = table.columns(analysis);
        if !columns.is_empty() {
            line(&mut text, &format!("\n## {title}\n\n{}\n", table.caption()));
            table_of(&columns, &mut text);
        }
    }
    bottlenecks(analysis, &mut text);
    doubts(&analysis.findings, &mut text);
    environment(analysis, &mut text);
    text
}

/// Writes the matrix of all systems in all workloads.
fn which(analysis: &Analysis, text: &mut String) {
    let Some(matrix) = choice::Matrix::of(analysis) else {
        return;
    };
    let answer = choice::answer(analysis);
    for sentence in answer.iter().chain(&choice::weighted(analysis)) {
        line(text, &format!("**{}**\n", cell(sentence)));
    }
    line(text, &format!("{}\n", cell(&matrix.legend(analysis))));
    let systems = matrix.systems.iter().map(|system| cell(&system.name));
    let titles: Vec<String> = std::iter::once(String::new()).chain(systems).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table_head(text, &titles);
    for (name, texts) in &matrix.facts {
        let texts: Vec<String> = texts.iter().map(|text| cell(text)).collect();
        line(text, &format!("| {name} | {} |", texts.join(" | ")));
    }
    for row in &matrix.rows {
        let places = row.places.iter();
        let places = places.map(|place| place.map_or(String::new(), choice::cell));
        let places: Vec<String> = places.collect();
        line(
            text,
            &format!("| {} | {} |", cell(&row.name), places.join(" | ")),
        );
    }
    text.push('\n');
}

fn overall(analysis: &Analysis, text: &mut String) {
    if analysis.overall.is_empty() {
        return;
    }
    line(
        text,
        &format!("\n## Overall\n\n{}\n", cell(&words::overall(analysis))),
    );
    let columns = ["system", "of", "difference", "95 % interval", "verdict"];
    table_head(text, &columns);
    for it in &analysis.overall {
        let columns = [
            cell(&it.system),
            it.workload.clone(),
            words::difference(it),
            words::interval(it),
            words::marked(it),
        ];
        line(text, &format!("| {} |", columns.join(" | ")));
    }
}

fn workload_table(analysis: &Analysis, workload: &Workload, text: &mut String) {
    line(
        text,
        &format!(
            "\n## {}\n\n{}\n",
            cell(&workload.name),
            cell(&workload.summary)
        ),
    );
    if let Some(how) = words::how_compared(analysis, workload) {
        line(text, &format!("{}\n", cell(&how)));
    }
    let verdict =
        |comparison: Option<&Comparison>| comparison.map_or("baseline".to_owned(), words::marked);
    let columns = comparisons::columns(analysis, workload, &verdict);
    table_of(&columns, text);
}

fn table_of(columns: &[Column], text: &mut String) {
    let titles: Vec<String> = columns.iter().map(|column| cell(&column.title)).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table_head(text, &titles);
    let rows = columns.first().map_or(0, |column| column.texts.len());
    for row in 0..rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| cell(&column.texts[row]))
            .collect();
        line(text, &format!("| {} |", cells.join(" | ")));
    }
}

/// This many bottlenecks are shown before the rest is folded.
const BOTTLENECKS_SHOWN: usize = 12;

fn bottlenecks(analysis: &Analysis, text: &mut String) {
    let mut sentences = verdicts::sentences(analysis);
    sentences.extend(verdicts::trials(analysis));
    if sentences.is_empty() {
        return;
    }
    line(
        text,
        &format!("\n## Bottlenecks\n\n{}\n", verdicts::CAPTION),
    );
    let (first, rest) = sentences.split_at(sentences.len().min(BOTTLENECKS_SHOWN));
    for sentence in first {
        line(text, &format!("- {}", cell(sentence)));
    }
    if !rest.is_empty() {
        let count = rest.len();
        line(
            text,
            &format!("\n<details><summary>{count} more</summary>\n"),
        );
        for sentence in rest {
            line(text, &format!("- {}", cell(sentence)));
        }
        line(text, "\n</details>");
    }
}

fn change(change: &Change, _: &Options) -> String {
    let mut text = "# Before and after\n\n".to_owned();
    for (what, side) in ["Before", "After"].into_iter().zip(words::sides(change)) {
        line(&mut text, &format!("- {what}: {}", cell(&side)));
    }
    text.push('\n');
    if let Some(said) = words::different_work_asked(change) {
        line(&mut text, &format!("**{said}**\n"));
        for difference in &change.different_work {
            line(&mut text, &format!("- {}", cell(&difference.words())));
        }
        text.push('\n');
    }
    table_head(
        &mut text,
        &[
            "workload",
            "system",
            "before",
            "after",
            "change",
            "95 % interval",
            "verdict",
        ],
    );
    for row in &change.rows {
        let names = [cell(&row.of()), cell(&row.system)];
        let columns = [&names[..], &words::change_row(row)].concat();
        line(&mut text, &format!("| {} |", columns.join(" | ")));
    }
    if let Some(why) = words::change_not_shown_among(change) {
        line(&mut text, &format!("\n{why}"));
    }
    for (name, before, after) in &change.environment {
        line(
            &mut text,
            &format!(
                "\n- {}: {} before, {} after",
                cell(name),
                cell(before),
                cell(after)
            ),
        );
    }
    for only in &change.unmatched {
        line(&mut text, &format!("\n- {}", cell(only)));
    }
    doubts(&change.findings, &mut text);
    text
}

fn prediction(check: &PredictionCheck, _: &Options) -> String {
    let mut text = "# Predicted and measured\n\n".to_owned();
    for (what, side) in ["Predicted", "Measured"]
        .into_iter()
        .zip(predictions::sides(check))
    {
        line(&mut text, &format!("- {what}: {}", cell(&side)));
    }
    text.push('\n');
    for sentence in predictions::sentences(check) {
        line(&mut text, &format!("**{}**\n", cell(&sentence)));
    }
    line(&mut text, predictions::CAPTION);
    for (title, columns) in predictions::tables(check) {
        if !columns.is_empty() {
            line(&mut text, &format!("\n## {title}\n"));
            table_of(&columns, &mut text);
        }
    }
    text.push('\n');
    for remark in predictions::remarks(check) {
        line(&mut text, &format!("- {}", cell(&remark)));
    }
    doubts(&check.findings, &mut text);
    text
}

fn doubts(findings: &[Finding], text: &mut String) {
    if findings.is_empty() {
        return;
    }
    line(text, "\n## Doubts\n");
    let shown = findings.len().min(words::DOUBTS_SHOWN);
    let (first, rest) = findings.split_at(shown);
    for finding in first {
        doubt(finding, text);
    }
    if !rest.is_empty() {
        let count = rest.len();
        line(
            text,
            &format!("\n<details><summary>{count} more</summary>\n"),
        );
        for finding in rest {
            doubt(finding, text);
        }
        line(text, "\n</details>");
    }
}

fn doubt(finding: &Finding, text: &mut String) {
    // The remedy is our own text and may contain markup.
    let (title, remedy) = (cell(&finding.title), &finding.remedy);
    line(text, &format!("- **{title}.** {remedy}"));
    for detail in &finding.details {
        line(text, &format!("  - {}", cell(detail)));
    }
}

fn environment(analysis: &Analysis, text: &mut String) {
    line(text, "\n## Environment\n");
    table_head(text, &["what", "value"]);
    for (name, value) in words::environment(analysis) {
        line(text, &format!("| {} | {} |", cell(&name), cell(&value)));
    }
}

fn table_head(text: &mut String, columns: &[&str]) {
    line(text, &format!("| {} |", columns.join(" | ")));
    line(text, &format!("|{}", " --- |".repeat(columns.len())));
}

/// Escapes text for a table cell. Names come from other people's files, and Markdown may contain
/// HTML.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('`', "\\`")
        .replace('[', "\\[")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace(['\n', '\r'], " ")
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}

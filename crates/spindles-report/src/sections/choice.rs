//! The choice of a system: all systems in all workloads, and the most important doubts.

use spindles_measure::{Analysis, Place, Quantity, Standing};

use super::{Body, Section, cell, section, table, table_of_texts};
use crate::choice::{self, BEST, Matrix, TITLE};
use crate::svg::escape;
use crate::{figures, headline, words};

pub(super) static SECTION: Section = Section {
    name: "choice",
    title: TITLE,
    body: Body::One(body),
};

/// With more systems than this, the table becomes cards.
const COLUMNS_MAX: usize = 10;

fn body(analysis: &Analysis) -> String {
    let Some(matrix) = Matrix::of(analysis) else {
        return String::new();
    };
    let table = drawn(&matrix);
    let body = table + &weighted(analysis) + &caveats(analysis);
    let legend = escape(&matrix.legend(analysis));
    section(SECTION.name, SECTION.title, &legend, &body)
}

fn drawn(matrix: &Matrix<'_>) -> String {
    let names: Vec<&str> = matrix.systems.iter().map(|system| &*system.name).collect();
    let head: String = names
        .iter()
        .map(|name| format!("<th scope=\"col\" class=\"n\">{}</th>", escape(name)))
        .collect();
    let head = format!("<th scope=\"col\">workload</th>{head}");
    let facts = matrix.facts.iter().map(|(name, texts)| {
        let cells = names.iter().zip(texts);
        let cells = cells.map(|(name, text)| cell(name, " class=\"n\"", &escape(text)));
        let cells: String = cells.collect();
        format!("<tr class=\"fact\"><th scope=\"row\">{name}</th>{cells}</tr>")
    });
    let rows = matrix.rows.iter().map(|row| {
        let cells = names.iter().zip(&row.places);
        let cells = cells.map(|(name, standing)| match standing {
            Some(standing) => place(name, standing),
            None => cell(name, "", ""),
        });
        let cells: String = cells.collect();
        let fastest = match &*row.fastest {
            "" => String::new(),
            figure => format!("<small>{figure}</small>"),
        };
        format!(
            "<tr><th scope=\"row\" title=\"{}\">{}{fastest}</th>{cells}</tr>",
            escape(row.summary),
            escape(&row.name)
        )
    });
    let body: String = facts.chain(rows).collect();
    let class = match names.len() {
        0..=COLUMNS_MAX => "glance choice",
        _ => "glance choice cards",
    };
    table(TITLE, class, &head, &format!("<tbody>{body}</tbody>"))
}

fn place(system: &str, standing: &Standing) -> String {
    let class = match standing.place {
        Place::Best => "n best",
        Place::Behind => "n",
        Place::Unresolved | Place::OneBlock | Place::Failed | Place::Refused => "n unknown",
    };
    let attributes = format!(
        " class=\"{class}\" title=\"{}\"",
        escape(&choice::in_words(standing))
    );
    cell(system, &attributes, &choice::cell(standing))
}

/// The ranks by the experiment's weights.
fn weighted(analysis: &Analysis) -> String {
    let Some(weighted) = &analysis.choice.weighted else {
        return String::new();
    };
    let rows: Vec<[String; 4]> = (weighted.standings.iter())
        .map(|standing| {
            let of = |text: fn(Quantity, &_, &str) -> String| {
                let behind = standing.behind.as_ref();
                behind.map_or(String::new(), |behind| {
                    text(Quantity::Rate, behind, words::TIMES_IN_TABLES)
                })
            };
            let place = match standing.place {
                Place::Best if standing.behind.is_none() => "the fastest",
                Place::Best => BEST,
                Place::Behind => "behind",
                Place::Unresolved => "~ no verdict",
                Place::OneBlock => "? one block: no verdict",
                Place::Failed => "✗ failed",
                Place::Refused => "– refused",
            };
            [
                standing.system.clone(),
                of(words::difference_of),
                of(words::interval_of),
                place.to_owned(),
            ]
        })
        .collect();
    let columns = ["system", "against the fastest", "95 % interval", "place"];
    let table = table_of_texts(
        "By your weights",
        "full",
        &columns,
        |at| (1..3).contains(&at),
        &rows,
    );
    let shares = weighted.shares.iter().map(|share| {
        let percent = share.share * 100.0;
        format!(
            "{} {} %",
            share.workload,
            figures::round(&figures::three_digits(percent))
        )
    });
    let shares: Vec<String> = shares.collect();
    let said = choice::weighted_exceptions(weighted);
    format!(
        "<h3 class=\"after\">By your weights</h3><p class=\"caption\">The geometric mean of the \
         speeds, weighted: {}.{}</p>{table}",
        escape(&shares.join(", ")),
        escape(&said)
    )
}

/// The most important doubts in short, with a link to all of them.
fn caveats(analysis: &Analysis) -> String {
    caveats_of(&headline(analysis).caveats, analysis.findings.len())
}

/// The same for experiments without a choice.
pub(super) fn caveats_of(caveats: &[String], doubts: usize) -> String {
    let lines: String = caveats
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    match (&*lines, doubts) {
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
    }
}

//! The comparison of systems in one workload as columns of text, for the terminal and for Markdown.

use spindles_measure::{Analysis, Cell, Comparison, Quantity, Workload};

use crate::{figures, words};

/// A column: title and the texts of its rows. Except in the first column, figures are aligned
/// right.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) texts: Vec<String>,
    pub(crate) figures: bool,
    /// Priority of removal if there is no room: the highest goes first. 0 always stays, in a second
    /// table if necessary.
    pub(crate) expendable: u8,
}

impl Column {
    /// Turns rows into columns, with their titles, whether they hold figures, and their priority of
    /// removal. No columns without rows.
    pub(crate) fn of_rows(
        titles: impl IntoIterator<Item = (String, bool, u8)>,
        rows: &[impl AsRef<[String]>],
    ) -> Vec<Self> {
        if rows.is_empty() {
            return Vec::new();
        }
        let titles = titles.into_iter().enumerate();
        let columns = titles.map(|(at, (title, figures, expendable))| Self {
            title,
            texts: rows.iter().map(|row| row.as_ref()[at].clone()).collect(),
            figures,
            expendable,
        });
        columns.collect()
    }
}

/// Builds the columns of a workload: a row for each system, and for each response time of an open
/// loop. `verdict` formats the verdict of a comparison, or of the baseline.
pub(crate) fn columns(
    analysis: &Analysis,
    workload: &Workload,
    verdict: &dyn Fn(Option<&Comparison>) -> String,
) -> Vec<Column> {
    let quantities = analysis.quantities(workload);
    let is_paced = quantities.contains(&Quantity::ResponseP99);
    let per = figures::cpu_unit(workload.rate);
    let is_time = quantities.contains(&Quantity::Time);
    let figure = match (is_paced, is_time) {
        (true, _) => "response time",
        (_, true) => "time",
        _ => "rate",
    };
    let p99 = if analysis.has_several_operations(&workload.name) {
        "p99 of all"
    } else {
        "p99"
    };
    let titles: [(&str, bool, u8); 8] = [
        ("system", false, 0),
        (figure, true, 0),
        ("difference", true, 0),
        ("95 % interval", true, 2),
        ("verdict", false, 0),
        // For an open loop, the first question is whether the system kept up.
        if is_paced {
            ("answered", true, 0)
        } else {
            (p99, true, 4)
        },
        ("member bytes", true, 3),
        (&format!("CPU {per}"), true, 5),
    ];
    let mut columns = titles.map(|(title, figures, expendable)| Column {
        title: title.to_owned(),
        texts: Vec::new(),
        figures,
        expendable,
    });
    for system in &analysis.experiment.systems {
        let Some(cell) = analysis.cell(&system.name, &workload.name) else {
            continue;
        };
        for (at, &quantity) in quantities.iter().enumerate() {
            let mut texts = row(analysis, cell, quantity, verdict);
            if at > 0 {
                texts[5..].iter_mut().for_each(String::clear);
            }
            for (column, text) in columns.iter_mut().zip(texts) {
                column.texts.push(text);
            }
        }
    }
    // Drop empty columns.
    let columns = columns.into_iter();
    let has_text = |column: &Column| column.texts.iter().any(|text| !text.is_empty());
    columns.filter(has_text).collect()
}

fn row(
    analysis: &Analysis,
    cell: &Cell,
    quantity: Quantity,
    verdict: &dyn Fn(Option<&Comparison>) -> String,
) -> [String; 8] {
    let comparison = comparison(analysis, cell, quantity);
    let figure = words::figure(cell, quantity);
    let (figure, second) = match quantity {
        Quantity::ResponseP99 => (format!("p99 {figure}"), words::figure(cell, Quantity::Rate)),
        Quantity::ResponseP50 => (format!("p50 {figure}"), String::new()),
        // With a single operation in a run, the percentile is its time.
        Quantity::Time => (figure, String::new()),
        Quantity::Rate => {
            let p99 = cell.latencies().map(|latency| latency.p99_ns);
            let p99 = p99.map_or(String::new(), |ns| figures::time(figures::float(ns)));
            (figure, p99)
        }
    };
    let said = match comparison {
        None if !words::is_baseline(analysis, cell) || is_alone(analysis, cell) => String::new(),
        comparison => verdict(comparison),
    };
    [
        cell.system.clone(),
        figure,
        comparison.map_or(String::new(), words::difference),
        comparison.map_or(String::new(), words::interval),
        said,
        second,
        cell.traffic_amplification()
            .map_or(String::new(), figures::times),
        cell.cpu_per_counted()
            .map_or(String::new(), |(workload, engine, rest)| {
                figures::cpu(workload + engine + rest, cell.rate)
            }),
    ]
}

/// Returns true if no comparison concerns the workload of a cell.
fn is_alone(analysis: &Analysis, cell: &Cell) -> bool {
    let mut all = analysis.comparisons.iter();
    !all.any(|comparison| comparison.workload == cell.workload)
}

/// Returns the comparison of a quantity of a cell with its baseline.
pub(crate) fn comparison<'a>(
    analysis: &'a Analysis,
    cell: &Cell,
    quantity: Quantity,
) -> Option<&'a Comparison> {
    comparison_of(analysis, &cell.system, (&cell.workload, quantity))
}

/// Finds a comparison by the names of system and workload.
pub(crate) fn comparison_of<'a>(
    analysis: &'a Analysis,
    system: &str,
    (workload, quantity): (&str, Quantity),
) -> Option<&'a Comparison> {
    let mut all = analysis.comparisons.iter();
    all.find(|comparison| {
        comparison.system == system
            && comparison.workload == workload
            && comparison.quantity == quantity
    })
}

/// Figure of a system that others are compared with in a workload. `None` for other systems.
pub(crate) fn baseline_figure(
    analysis: &Analysis,
    system: &str,
    (workload, quantity): (&str, Quantity),
) -> Option<String> {
    let cell = analysis.cell(system, workload)?;
    words::is_baseline(analysis, cell).then(|| words::figure(cell, quantity))
}

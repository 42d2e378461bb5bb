//! Results of each machine, if the experiment ran on several machines.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::figures;
use spindles_measure::statistics::median;
use spindles_measure::{Analysis, NodeRun, Run, Workload};

pub(super) static SECTION: Section = Section {
    name: "nodes",
    title: "On several machines",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "Medians over repetition blocks: the slowest and the fastest node, Jain's fairness \
        index (1: equal shares; 1/n: one node had it all), and how far apart the nodes started, \
        with the possible error of their clocks.",
    class: |_| "full loose",
    columns,
};

fn columns(analysis: &Analysis) -> Vec<Column> {
    let titles = [
        ("workload", false, 0),
        ("system", false, 0),
        // Dropped after the start times, because the workload's name contains it.
        ("nodes", true, 1),
        ("slowest", true, 0),
        ("fastest", true, 0),
        ("fairness", true, 0),
        ("begun within", true, 2),
    ];
    let titles = titles.map(|(title, figures, expendable)| (title.to_owned(), figures, expendable));
    Column::of_rows(titles, &rows(analysis))
}

/// One row for each workload on several nodes on each system.
fn rows(analysis: &Analysis) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for workload in &analysis.experiment.workloads {
        for system in &analysis.experiment.systems {
            let is_of_cell = |run: &&Run| {
                run.failed.is_none()
                    && run.nodes.len() > 1
                    && run.system.name == system.name
                    && run.workload.name == workload.name
            };
            let runs: Vec<&Run> = analysis.runs.iter().filter(is_of_cell).collect();
            if !runs.is_empty() {
                rows.push(row(workload, &system.name, &runs));
            }
        }
    }
    rows
}

fn row(workload: &Workload, system: &str, runs: &[&Run]) -> Vec<String> {
    let of = |of: &dyn Fn(&Run) -> f64| {
        let each: Vec<f64> = runs.iter().map(|run| of(run)).collect();
        median(&each)
    };
    let rates = |run: &Run| {
        run.nodes
            .iter()
            .map(NodeRun::per_second)
            .collect::<Vec<_>>()
    };
    let slowest = of(&|run| rates(run).into_iter().fold(f64::INFINITY, f64::min));
    let fastest = of(&|run| rates(run).into_iter().fold(0.0, f64::max));
    let apart = of(&|run| {
        let begins = run.nodes.iter();
        let begins = begins.map(|node| node.begin_ns.saturating_add(node.begin_uncertainty_ns));
        figures::float(begins.max().unwrap_or(0))
    });
    vec![
        workload.name.clone(),
        system.to_owned(),
        of(&|run| run.nodes.iter().map(|_| 1.0).sum()).to_string(),
        figures::rate(slowest, workload.rate),
        figures::rate(fastest, workload.rate),
        format!("{:.3}", of(&|run| run.fairness.unwrap_or(0.0))),
        figures::time(apart),
    ]
}

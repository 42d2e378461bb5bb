//! Builds the cells from the runs.

use std::collections::BTreeMap;

use crate::results::{Cell, Latency, Repetition, Response};
use crate::statistics::{geometric_mean, mean_of_blocks, median, outliers, seed_of, steady};
use crate::{Cpu, Experiment, Histogram, LateMember, Run, System, Traffic, Workload};

/// Builds one cell for each system × workload that has a run, ordered by workload.
pub(crate) fn cells_of(experiment: &Experiment, runs: &[&Run]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in &experiment.workloads {
        for system in &experiment.systems {
            let mut mine: Vec<&Run> = runs
                .iter()
                .copied()
                .filter(|run| run.system.name == system.name && run.workload.name == workload.name)
                .collect();
            if !mine.is_empty() {
                mine.sort_by_key(|run| run.repetition_block);
                cells.push(cell_of(experiment, system, workload, &mine));
            }
        }
    }
    cells
}

fn cell_of(experiment: &Experiment, system: &System, workload: &Workload, runs: &[&Run]) -> Cell {
    let good: Vec<&&Run> = runs.iter().filter(|run| run.counts()).collect();
    let rates: Vec<f64> = good.iter().map(|run| run.per_second()).collect();
    let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
    let repetitions = good
        .iter()
        .zip(outliers(&logs))
        .map(|(run, outlier)| Repetition {
            block: run.repetition_block,
            order: run.order,
            per_second: run.per_second(),
            outlier,
            response: Response::of(&run.response),
        })
        .collect();
    let mut cell = Cell {
        system: system.name.clone(),
        workload: workload.name.clone(),
        rate: workload.rate,
        repetitions,
        failed: runs.len() - good.len(),
        log_rate: mean_of_blocks(
            &logs,
            seed_of(experiment.seed, &[&system.name, &workload.name]),
        ),
        median: median(&rates),
        geometric_mean: geometric_mean(&rates),
        steady: steady(&rates),
        latency: BTreeMap::new(),
        response: BTreeMap::new(),
        cpu_ns: Cpu::default(),
        elapsed_ns: 0,
        counted: 0,
        operations: 0,
        application: Traffic::default(),
        members: Traffic::default(),
        late_members: Vec::new(),
        verdicts: None,
    };
    for run in &good {
        // Sums saturate, because records may hold any value.
        cell.cpu_ns += run.cpu_ns;
        cell.elapsed_ns = cell.elapsed_ns.saturating_add(run.elapsed_ns);
        cell.counted = cell.counted.saturating_add(run.counted);
        cell.operations = cell.operations.saturating_add(run.operations);
        cell.application += run.application;
        cell.members += run.members;
        LateMember::join(&mut cell.late_members, &run.late_members);
    }
    cell.latency = merged(good.iter().map(|run| &run.latency));
    cell.response = merged(good.iter().map(|run| &run.response));
    cell
}

/// Merges the latencies of all repetitions, by kind of operation.
fn merged<'a>(
    runs: impl Iterator<Item = &'a BTreeMap<String, Histogram>>,
) -> BTreeMap<String, Latency> {
    let mut histograms: BTreeMap<&String, Histogram> = BTreeMap::new();
    for (operation, histogram) in runs.flatten() {
        histograms.entry(operation).or_default().merge(histogram);
    }
    histograms
        .into_iter()
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(operation, histogram)| (operation.clone(), Latency::of(histogram)))
        .collect()
}

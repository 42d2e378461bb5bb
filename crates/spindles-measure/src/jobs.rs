//! Latencies of an array's clients before, during and after a job, and the job's own progress.

use serde::Serialize;

use crate::histogram::to_f64;
use crate::statistics::{Estimate, median_of_blocks};
use crate::{Analysis, JobShare, Run, Stage};

/// One workload next to a job on one system.
#[derive(Clone, Debug, Serialize)]
pub struct JobLine {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the job.
    pub job: String,
    /// Most frequent kind of operation: `read` or `write`.
    pub operation: String,
    /// Before, during and after the job.
    pub stages: Vec<StageLatency>,
    /// Bytes of the array per second that the job processed next to the workload: median over
    /// blocks.
    pub beside: Option<Estimate>,
    /// The same without any workload.
    pub alone: Option<Estimate>,
    /// Share of its speed alone that the job kept next to the workload.
    pub share: Option<Estimate>,
}

/// Latencies of one stage, medians over repetition blocks.
#[derive(Clone, Debug, Serialize)]
pub struct StageLatency {
    /// Stage relative to the job.
    pub stage: Stage,
    /// Half took at most this, in nanoseconds.
    pub p50_ns: Estimate,
    /// 99 of 100 took at most this, in nanoseconds.
    pub p99_ns: Estimate,
}

/// Returns a line for each workload that ran next to a job, system by system.
pub fn job_lines(analysis: &Analysis) -> Vec<JobLine> {
    let experiment = &analysis.experiment;
    let mut lines = Vec::new();
    for workload in &experiment.workloads {
        let Some(beside) = &workload.beside else {
            continue;
        };
        if beside.stage != Stage::During {
            continue;
        }
        for system in &experiment.systems {
            let runs_of = |stage: Stage| -> Vec<&Run> {
                let is_of_job = |run: &&Run| {
                    run.failed.is_none()
                        && run.system.name == system.name
                        && (run.workload.beside.as_ref()).is_some_and(|own| {
                            own.stage == stage
                                && own.job == beside.job
                                && own.workload == beside.workload
                        })
                };
                analysis.runs.iter().filter(is_of_job).collect()
            };
            let during = runs_of(Stage::During);
            let Some(operation) = main_operation(&during) else {
                continue;
            };
            let stages = Stage::ALL.map(|stage| {
                let runs = runs_of(stage);
                let percentile = |percent| {
                    let histograms = runs.iter().filter_map(|run| run.latency.get(&operation));
                    let each: Vec<f64> = histograms
                        .map(|histogram| to_f64(histogram.percentile(percent)))
                        .collect();
                    median_of_blocks(&each, experiment.seed)
                };
                StageLatency {
                    stage,
                    p50_ns: percentile(50.0),
                    p99_ns: percentile(99.0),
                }
            });
            let shares: Vec<&JobShare> = during.iter().filter_map(|run| run.job.as_ref()).collect();
            let estimate = |of: fn(&JobShare) -> Option<f64>| {
                let each: Vec<f64> = shares.iter().filter_map(|share| of(share)).collect();
                (!each.is_empty()).then(|| median_of_blocks(&each, experiment.seed))
            };
            lines.push(JobLine {
                system: system.name.clone(),
                workload: beside.workload.clone(),
                job: beside.job.clone(),
                operation,
                stages: stages.into(),
                beside: estimate(|share| rate(share.beside_bytes, share.beside_ns)),
                alone: estimate(alone),
                share: estimate(|share| {
                    Some(rate(share.beside_bytes, share.beside_ns)? / alone(share)?)
                }),
            });
        }
    }
    lines
}

fn rate(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| to_f64(bytes) * 1e9 / to_f64(ns))
}

/// Speed of the job alone. `None` if hardly anything was left to process, so the speed is unknown.
fn alone(share: &JobShare) -> Option<f64> {
    rate(share.alone_bytes, share.alone_ns).filter(|rate| *rate > 0.0)
}

fn main_operation(runs: &[&Run]) -> Option<String> {
    let all = runs.iter().flat_map(|run| &run.latency);
    let most = all.max_by_key(|(_, histogram)| histogram.total());
    most.map(|(operation, _)| operation.clone())
}

//! What clients saw before, during and after a job, as rows of texts that every output shows.

use spindles_measure::statistics::Estimate;
use spindles_measure::{Analysis, JobLine, job_lines};

use crate::figures;

/// The titles of the columns; the first two are texts, the others figures.
pub(crate) const COLUMNS: &[&str] = &[
    "workload",
    "system",
    "p50 before",
    "p50 during",
    "p50 after",
    "p99 before",
    "p99 during",
    "p99 after",
    "job",
    "alone",
    "share",
];

/// How to read them.
pub(crate) const CAPTION: &str = "How long operations took before, during and after a job of the \
    array: medians over repetition blocks with their 95 % intervals, where there are five blocks. Then \
    how fast the job went through the array beside the workload and by itself, and the first as a \
    share of the second. The rate that a job may be held to is what it reads or writes of each member: \
    through an array with the data of three members it goes three times as fast.";

/// A row for each workload beside a job on each system.
pub(crate) fn rows(analysis: &Analysis) -> Vec<Vec<String>> {
    job_lines(analysis).iter().map(row).collect()
}

fn row(line: &JobLine) -> Vec<String> {
    let workload = format!("{} ({}), {}", line.workload, line.operation, line.job);
    let mut row = vec![workload, line.system.clone()];
    row.extend((line.stages.iter()).map(|stage| estimate(&stage.p50_ns, figures::time)));
    row.extend((line.stages.iter()).map(|stage| estimate(&stage.p99_ns, figures::time)));
    let rate = |rate: &Option<Estimate>| {
        let rate = rate.as_ref();
        rate.map_or(String::new(), |rate| {
            format!("{}/s", figures::bytes(rate.value))
        })
    };
    row.push(rate(&line.beside));
    row.push(rate(&line.alone));
    let share = line.share.as_ref();
    row.push(share.map_or(String::new(), |share| {
        estimate(share, |share| format!("{:.0} %", share * 100.0))
    }));
    row
}

/// A figure with its interval, where there is one.
fn estimate(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    if !estimate.value.is_finite() {
        return String::new();
    }
    let value = words(estimate.value);
    if estimate.low.is_finite() && estimate.high.is_finite() {
        let (low, high) = (words(estimate.low), words(estimate.high));
        format!("{value} [{low} … {high}]")
    } else {
        value
    }
}
